"""Wrappers that convert ``topi`` functions to the interface of strategies, with call attributes as arguments.

strategy.add_implementation(wrap_compute_dense(my_dense), wrap_topi_schedule(my_schedule), name="dense.mine")
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....target import generic_func, override_native_generic_func
from ..implementation import OpStrategy, by_pattern
from .native import strategy_named

Compute = Callable[[Any, list, Any], list]


def _wrapped(topi_compute: Callable[..., Any], arguments: Callable[[Any, list, Any], list]) -> Compute:
    def wrapper(attrs: Any, inputs: list, out_type: Any) -> list:
        made = topi_compute(*arguments(attrs, inputs, out_type))
        return list(made) if isinstance(made, (list, tuple)) else [made]

    return wrapper


def wrap_topi_compute(topi_compute: Callable[..., Any]) -> Compute:
    """Wrap ``topi_compute(*inputs)``."""
    return _wrapped(topi_compute, lambda attrs, inputs, out_type: inputs)


def wrap_topi_schedule(topi_schedule: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``topi_schedule(outs)`` as the schedule of an implementation; it runs with the target as the current
    target."""

    def wrapper(attrs: Any, outs: Any, target: Any) -> Any:
        with target:
            return topi_schedule(outs)

    return wrapper


def _out_dtype(attrs: Any, inputs: list) -> str:
    return inputs[0].dtype if attrs.out_dtype in ("same", "", None) else attrs.out_dtype


def _rewritten(auto_scheduler: bool, meta_schedule: bool) -> list:
    """Return the layout arguments for search engines that may rewrite layouts; empty, as weights keep their layout."""
    return [""] if auto_scheduler else ["", None] if meta_schedule else []


def wrap_compute_softmax(topi_compute):
    """Wrap ``topi_compute(data, axis)``."""
    return _wrapped(topi_compute, lambda attrs, inputs, out_type: [inputs[0], int(attrs.axis)])


def wrap_compute_conv2d(
    topi_compute,
    *,
    need_data_layout=False,
    need_kernel_layout=False,
    need_out_layout=False,
    has_groups=False,
    need_auto_scheduler_layout=False,
    need_meta_schedule_layout=False,
):
    """Wrap ``topi_compute(data, weight, strides, padding, dilation, [groups,] [layouts,] out_dtype)``."""

    def arguments(attrs, inputs, out_type):
        asked = ((has_groups, "groups"), (need_data_layout, "data_layout"), (need_kernel_layout, "kernel_layout"),
                 (need_out_layout, "out_layout"))  # fmt: skip
        return [
            *inputs[:2],
            attrs.strides,
            attrs.padding,
            attrs.dilation,
            *(getattr(attrs, name) for wanted, name in asked if wanted),
            _out_dtype(attrs, inputs),
            *_rewritten(need_auto_scheduler_layout, need_meta_schedule_layout),
        ]

    return _wrapped(topi_compute, arguments)


def wrap_compute_conv1d(topi_compute):
    """Wrap ``topi_compute(data, weight, strides, padding, dilation, out_dtype)``."""
    return wrap_compute_conv2d(topi_compute)


def wrap_compute_group_conv1d(topi_compute):
    """Wrap ``topi_compute(data, weight, strides, padding, dilation, groups, out_dtype)``."""
    return wrap_compute_conv2d(topi_compute, has_groups=True)


def wrap_compute_conv3d(
    topi_compute, need_layout=False, need_auto_scheduler_layout=False, need_meta_schedule_layout=False
):
    """Wrap ``topi_compute(data, weight, strides, padding, dilation, groups, [layout,] out_dtype)``."""
    return wrap_compute_conv2d(
        topi_compute,
        has_groups=True,
        need_data_layout=need_layout,
        need_auto_scheduler_layout=need_auto_scheduler_layout,
        need_meta_schedule_layout=need_meta_schedule_layout,
    )


def wrap_compute_conv2d_transpose(topi_compute, has_groups=False, add_layout=False):
    """Wrap ``topi_compute(data, weight, strides, padding, out_dtype, output_padding, [groups,] [layout])``."""

    def arguments(attrs, inputs, out_type):
        asked = (has_groups, "groups"), (add_layout, "data_layout")
        return [
            *inputs[:2],
            attrs.strides,
            attrs.padding,
            _out_dtype(attrs, inputs),
            attrs.output_padding,
            *(getattr(attrs, name) for wanted, name in asked if wanted),
        ]

    return _wrapped(topi_compute, arguments)


def wrap_compute_conv1d_transpose(topi_compute):
    """Wrap ``topi_compute(data, weight, strides, padding, out_dtype, output_padding)``."""
    return wrap_compute_conv2d_transpose(topi_compute)


def wrap_compute_conv3d_transpose(topi_compute):
    """Wrap ``topi_compute(data, weight, strides, padding, out_dtype, output_padding)``."""
    return wrap_compute_conv2d_transpose(topi_compute)


def wrap_compute_deformable_conv2d(topi_compute):
    """Wrap ``topi_compute(data, offset, weight, strides, padding, dilation, deformable_groups, groups, out_dtype)``."""
    return _wrapped(
        topi_compute,
        lambda attrs, inputs, out_type: [
            *inputs[:3],
            attrs.strides,
            attrs.padding,
            attrs.dilation,
            attrs.deformable_groups,
            attrs.groups,
            _out_dtype(attrs, inputs),
        ],
    )


def wrap_compute_matmul(topi_compute, need_auto_scheduler_layout=False, need_meta_schedule_layout=False):
    """Wrap ``topi_compute(a, b, bias, out_dtype, transpose_a, transpose_b)``."""
    return _wrapped(
        topi_compute,
        lambda attrs, inputs, out_type: [
            *inputs[:2],
            None,
            _out_dtype(attrs, inputs),
            attrs.transpose_a,
            attrs.transpose_b,
            *_rewritten(need_auto_scheduler_layout, need_meta_schedule_layout),
        ],
    )


def wrap_compute_dense(topi_compute, need_auto_scheduler_layout=False, need_meta_schedule_layout=False):
    """Wrap ``topi_compute(data, weight, bias, out_dtype)``."""
    return _wrapped(
        topi_compute,
        lambda attrs, inputs, out_type: [
            *inputs[:2],
            None,
            _out_dtype(attrs, inputs),
            *_rewritten(need_auto_scheduler_layout, need_meta_schedule_layout),
        ],
    )


def wrap_compute_dense_pack(topi_compute):
    """Wrap ``topi_compute(data, packed weight, bias, out_dtype)``."""
    return wrap_compute_dense(topi_compute)


def wrap_compute_batch_matmul(
    topi_compute, *, need_auto_scheduler_layout=False, need_meta_schedule_layout=False, need_out_dtype=False
):
    """Wrap ``topi_compute(a, b, shape, out_dtype or None, transpose_a, transpose_b)``."""
    return _wrapped(
        topi_compute,
        lambda attrs, inputs, out_type: [
            *inputs[:2],
            out_type.shape,
            out_type.dtype if need_out_dtype else None,
            attrs.transpose_a,
            attrs.transpose_b,
            *_rewritten(need_auto_scheduler_layout, need_meta_schedule_layout),
        ],
    )


def wrap_compute_sort(topi_compute):
    """Wrap ``topi_compute(data, axis, is_ascend)``."""
    return _wrapped(topi_compute, lambda attrs, inputs, out_type: [inputs[0], attrs.axis, attrs.is_ascend])


def wrap_compute_argsort(topi_compute):
    """Wrap ``topi_compute(data, valid_count=None, axis, is_ascend, dtype)``."""
    return _wrapped(
        topi_compute, lambda attrs, inputs, out_type: [inputs[0], None, attrs.axis, attrs.is_ascend, attrs.dtype]
    )


def wrap_compute_topk(topi_compute):
    """Wrap ``topi_compute(data, k, axis, ret_type, is_ascend, dtype)``."""
    return _wrapped(
        topi_compute,
        lambda attrs, inputs, out_type: [inputs[0], attrs.k, attrs.axis, attrs.ret_type, attrs.is_ascend, attrs.dtype],
    )


def wrap_compute_scanop(topi_compute):
    """Wrap ``topi_compute(data, axis, dtype, exclusive)``."""
    return _wrapped(
        topi_compute, lambda attrs, inputs, out_type: [inputs[0], attrs.axis, attrs.dtype or None, attrs.exclusive]
    )


def _schedules(name: str) -> Callable[..., Any]:
    """Return a generic function whose default is the schedule by pattern."""

    def schedule(attrs: Any, outs: Any, target: Any) -> Any:
        """Return the schedule of a target that matches the output tensors."""
        return by_pattern(attrs, outs, target)

    schedule.__name__ = schedule.__qualname__ = name
    return generic_func(schedule)


__getattr__ = strategy_named
_SCHEDULES = ("adaptive_pool", "concatenate", "injective", "lrn", "pad", "pool", "pool_grad", "reduce")
globals().update({f"schedule_{name}": _schedules(f"schedule_{name}") for name in _SCHEDULES})

__all__ = [
    "OpStrategy", "generic_func", "override_native_generic_func",
    *(name for name in dir() if name.startswith("wrap_")), *(f"schedule_{name}" for name in _SCHEDULES),
]  # fmt: skip

"""Operators whose shapes, axes or sizes are tensors computed at run time: ``dyn.reshape`` and so on.

Their types have dynamic dimensions. ``to_static(attrs, args)`` returns the static operator once these tensors are
constants, and None before. The shape rules and computations are in ``dynamic_shapes.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir.prim import Any_
from ...ir.tensor_type import TensorType
from ...ir.type import TupleType
from ..expr import Constant, RelayExpr, TupleWrapper
from .dynamic_shapes import COMPUTED, SHAPES
from .record import OPAQUE, call, op
from .rules import dims, tensor


def is_dynamic(*values: Any) -> bool:
    """Return whether one of the values is an expression other than a constant."""
    return any(isinstance(v, RelayExpr) and not isinstance(v, Constant) for v in values)


def _vector(t, what: str) -> int:
    """Return the length of a vector of sizes or axes; raise a TypeError for other shapes."""
    shape = dims(tensor(t, what))
    if len(shape) != 1 or not isinstance(shape[0], int):
        raise TypeError(f"{what} must be a vector of static length, got shape {shape}")
    return shape[0]


def _of_length(index: int, what: str, data: int = 0):
    """Return a type rule for outputs with one dynamic dimension for each element of input ``index``. The data type is
    that of input ``data``."""

    def rule(attrs, types):
        return TensorType([Any_()] * _vector(types[index], what), tensor(types[data]).dtype)

    return rule


def _unknown_like_first(attrs, types):
    data = tensor(types[0])
    return TensorType([Any_()] * len(data.shape), data.dtype)


def _static(count: int, build: Callable[..., Any]):
    """Return a ``to_static`` rule for operators whose inputs from index ``count`` on must be constants. The rule calls
    ``build(attrs, data, numbers)``."""

    def rule(attrs, args):
        if any(not isinstance(a, Constant) for a in args[count:]):
            return None
        made = build(attrs, args[:count], [a.data.numpy() for a in args[count:]])
        return made.astuple() if isinstance(made, TupleWrapper) else made

    return rule


def _list(array) -> list:
    return [v.item() for v in array.ravel()]


def _plain(name: str):
    from ... import relay

    found = relay
    for part in name.split("."):
        found = getattr(found, part)
    return found


_OPERATORS = (
    ("dyn.reshape", 2, _of_length(1, "the new shape"), "Reshape a tensor to a shape given at run time.",
     _static(1, lambda attrs, data, n: _plain("reshape")(data[0], _list(n[0]), attrs.allowzero))),
    ("dyn.broadcast_to", 2, _of_length(1, "the shape"), "Broadcast a tensor to a shape given at run time.",
     _static(1, lambda attrs, data, n: _plain("broadcast_to")(data[0], _list(n[0])))),
    ("dyn.tile", 2, None, "Repeat a tensor as often as given at run time.",
     _static(1, lambda attrs, data, n: _plain("tile")(data[0], _list(n[0])))),
    ("dyn.full", 2, None, "Create a tensor filled with one value, with a shape given at run time.",
     _static(1, lambda attrs, data, n: _plain("full")(data[0], _list(n[0]), attrs.dtype))),
    ("dyn.strided_slice", 4, _unknown_like_first, "Slice a tensor with bounds given at run time.",
     _static(1, lambda attrs, data, n: _plain("strided_slice")(
         data[0], *[_list(v) for v in n], attrs.axes, attrs.slice_mode))),
    ("dyn.topk", 2, None, "Return the k largest elements, with k given at run time.",
     _static(1, lambda attrs, data, n: _plain("topk")(
         data[0], int(n[0].item()), attrs.axis, attrs.ret_type, attrs.is_ascend, attrs.dtype))),
    ("dyn.one_hot", 4, None, "Encode classes as one-hot vectors whose length is given at run time.",
     _static(3, lambda attrs, data, n: _plain("one_hot")(*data, int(n[0].item()), attrs.axis, attrs.dtype))),
    ("dyn.expand_dims", 2, None, "Insert dimensions of size 1 before an axis given at run time.",
     _static(1, lambda attrs, data, n: _plain("expand_dims")(data[0], int(n[0].item()), attrs.num_newaxis))),
    ("dyn.squeeze", 2, None, "Remove dimensions of size 1 whose axes are given at run time.",
     _static(1, lambda attrs, data, n: _plain("squeeze")(data[0], _list(n[0])))),
    ("dyn.nn.pad", 3, None, "Pad a tensor with pad widths given at run time.",
     _static(1, lambda attrs, data, n: _plain("nn.pad")(data[0], n[0].tolist(), n[1].item(), attrs.pad_mode))),
    ("dyn.image.resize2d", 3, None, "Resize images to a size given at run time.",
     _static(1, lambda attrs, data, n: _plain("image.resize2d")(
         data[0], _list(n[0]), _list(n[1]), attrs.layout, attrs.method, attrs.coordinate_transformation_mode,
         attrs.rounding_method, attrs.cubic_alpha, attrs.cubic_exclude, attrs.extrapolation_value, attrs.out_dtype))),
    ("dyn.nn.upsampling", 3, None, "Upsample images by factors given at run time.",
     _static(1, lambda attrs, data, n: _plain("nn.upsampling")(
         data[0], *[v.item() for v in n], attrs.layout, attrs.method, attrs.align_corners))),
    ("dyn.nn.upsampling3d", 4, None, "Upsample volumes by factors given at run time.",
     _static(1, lambda attrs, data, n: _plain("nn.upsampling3d")(
         data[0], *[v.item() for v in n], attrs.layout, attrs.method, attrs.coordinate_transformation_mode))),
    ("dyn.sparse_to_dense", 4, _of_length(3, "the shape", 1), "Scatter values to a tensor of a run-time shape.",
     _static(3, lambda attrs, data, n: _plain("sparse_to_dense")(data[0], _list(n[0]), data[1], data[2]))),
    ("dyn.checked", 2, None, "Return the tensor if a condition holds, else fail with a message.",
     _static(1, lambda attrs, data, n: _plain("copy")(data[0]) if n[0].item() else None)),
)  # fmt: skip


def checked(data, condition, words: str):
    """Return the same tensor if a run-time condition holds; otherwise the run fails with the message ``words``.

    The condition is a scalar that must not be 0. The output has a dynamic dimension, so that the check is not optimized
    away.
    """
    return call("dyn.checked", data, condition, words=str(words))


def _tile_type(attrs, types):
    rank = max(len(dims(tensor(types[0]))), _vector(types[1], "the repetitions"))
    return TensorType([Any_()] * rank, types[0].dtype)


def _full_type(attrs, types):
    return TensorType([Any_()] * _vector(types[1], "the shape"), attrs.dtype or tensor(types[0]).dtype)


def _topk_type(attrs, types):
    data = tensor(types[0])
    shape = list(data.shape)
    shape[attrs.axis] = Any_()
    parts = {"values": TensorType(shape, data.dtype), "indices": TensorType(shape, attrs.dtype)}
    return TupleType(tuple(parts.values())) if attrs.ret_type == "both" else parts[attrs.ret_type]


def _one_hot_type(attrs, types):
    shape = list(tensor(types[0]).shape)
    shape.insert(len(shape) if attrs.axis < 0 else attrs.axis, Any_())
    return TensorType(shape, attrs.dtype)


def _expand_type(attrs, types):
    data = tensor(types[0])
    return TensorType([Any_()] * (len(data.shape) + attrs.num_newaxis), data.dtype)


def _squeeze_type(attrs, types):
    data = tensor(types[0])
    return TensorType([Any_()] * (len(data.shape) - _vector(types[1], "the axes")), data.dtype)


def _resize_type(attrs, types):
    data = tensor(types[0])
    shape = list(data.shape)
    for c in "DHW":
        if c in attrs.layout:
            shape[attrs.layout.index(c)] = Any_()
    return TensorType(shape, getattr(attrs, "out_dtype", "") or data.dtype)


def _checked_type(attrs, types):
    data = tensor(types[0])
    if not data.shape:
        raise TypeError("the checked tensor must have at least one dimension")
    if dims(tensor(types[1], "the condition")) != ():
        raise TypeError(f"the condition must be a scalar, got shape {dims(types[1])}")
    return TensorType([Any_(), *data.shape[1:]], data.dtype)


_TYPES = {
    "dyn.tile": _tile_type,
    "dyn.full": _full_type,
    "dyn.topk": _topk_type,
    "dyn.one_hot": _one_hot_type,
    "dyn.expand_dims": _expand_type,
    "dyn.squeeze": _squeeze_type,
    "dyn.nn.pad": _unknown_like_first,
    "dyn.checked": _checked_type,
    "dyn.image.resize2d": _resize_type,
    "dyn.nn.upsampling": _resize_type,
    "dyn.nn.upsampling3d": _resize_type,
}


def _register(name: str, inputs: int, rule, doc: str, to_static) -> None:
    def build(*args, **attrs):
        return call(name, *args, **attrs)

    build.__doc__ = doc
    op(
        name,
        inputs,
        pattern=OPAQUE,
        type_rule=rule or _TYPES[name],
        compute=COMPUTED[name],
        dynamic_shape=SHAPES[name],
        to_static=to_static,
    )(build)


for _entry in _OPERATORS:
    _register(*_entry)

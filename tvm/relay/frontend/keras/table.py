"""The table of Keras converters, and the interface to the layer call that is being converted.

A converter is ``f(ctx, *args, **kwargs)`` with the arguments of the layer's call: tensors are expressions, lists and
numbers are unchanged. It returns an expression, or a list of expressions. Data keeps the axis order of the layer,
whatever the layout of the function's inputs is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr, TupleWrapper, const
from ..common.context import NodeContext, axis_of, check_count, check_steps
from ..common.converters import Converters
from .config import Layer
from .weights import weight_array

if TYPE_CHECKING:
    from .reader import Importer

CONVERTERS = Converters("Keras", "version")
_DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16",
           "float32", "float64")  # fmt: skip
# Layers whose outputs have the mask of their argument.
MASKED: set[str] = set()


def layer(*names: str, masked: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a converter of layers. With ``masked``, the output has the mask of the argument."""
    if masked:
        MASKED.update(names)
    return CONVERTERS.op(*names, since=0)


def operation(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a converter of operations of ``keras.ops``; settings are passed as keyword arguments."""
    return CONVERTERS.op(*(f"ops.{n}" for n in names), since=0)


class Context(NodeContext):
    """The call of a layer.

    ``masks`` are the masks of its tensors, in the structure of its arguments; a converter sets ``result_mask`` if the
    output has another mask.
    """

    __slots__ = ("layer", "masks", "result_mask")

    importer: Importer

    def __init__(self, importer: Importer, layer: Layer, where: str, masks: dict[int | str, Any] | None = None):
        super().__init__(importer, where)
        self.layer = layer
        self.masks = masks or {}
        self.result_mask: Any = None

    @property
    def version(self) -> int:
        """Return the major version of the Keras that wrote the model."""
        return self.importer.version

    @property
    def mask(self) -> Any:
        """Return the mask of the first argument."""
        found = self.masks.get("mask")
        return self.masks.get(0) if found is None else found

    # -- settings -------------------------------------------------------------------------------------------------

    def get(self, key: str, default: Any = None) -> Any:
        return self.layer.get(key, default)

    def numbers_of(self, key: str, count: int, default: Any = 1) -> tuple[int, ...]:
        """Return a setting that is one number or one number for each spatial axis."""
        found = self.get(key, default)
        found = (found,) * count if isinstance(found, int) else tuple(found)
        if len(found) != count or not all(type(v) is int and v >= 1 for v in found):
            raise TVMError(f"{key} must be {count} positive integers, got {self.get(key, default)!r}")
        return found

    def channels_first(self) -> bool:
        """Return whether the data of the layer is channels-first."""
        found = self.get("data_format", "channels_last")
        if found not in ("channels_first", "channels_last"):
            raise TVMError(f"data_format '{found}' is not supported")
        return found == "channels_first"

    @property
    def compute_dtype(self) -> str:
        """Return the type that the layer computes in."""
        return dtype_of(self.get("dtype", "float32"))

    # -- weights --------------------------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        return name in self.layer.weights

    def array(self, e: Any, what: str = "") -> Any:
        """Return the elements of a weight by name, in the type that the layer computes in; for an expression, its
        value.
        """
        if not isinstance(e, str):
            return super().array(e, what)
        return weight_array(self.layer, e).astype(as_numpy(self.compute_dtype), copy=False)

    def weight(self, name: str, axes: tuple[int, ...] | None = None) -> Constant:
        """Return a weight as a constant, with its axes permuted by ``axes``."""
        array = self.array(name)
        if axes is not None and array.ndim != len(axes):
            raise TVMError(f"the weight '{name}' must have {len(axes)} dimensions, got {array.ndim}")
        return Constant(np.ascontiguousarray(array if axes is None else array.transpose(axes)))

    def biased(self, x: RelayExpr, axis: int = -1) -> RelayExpr:
        """Add the layer's bias, if it has one."""
        if not self.get("use_bias", True):
            return x
        return relay.nn.bias_add(x, self.weight("bias"), axis)

    # -- expressions ----------------------------------------------------------------------------------------------

    def infer(self, e: Any) -> RelayExpr:
        return self.importer.typer.infer(e)

    def call(self, inner: Layer, *args: Any, masks: dict[int | str, Any] | None = None, **kwargs: Any) -> Any:
        """Convert a call of a nested layer."""
        return self.importer.called(inner, list(args), kwargs, masks or {})[0]

    def number(self, value: Any, like: RelayExpr) -> RelayExpr:
        """Return a number as a constant; an expression is unchanged."""
        return value if isinstance(value, RelayExpr) else self.like(value, like)

    def cast(self, e: RelayExpr, dtype: str) -> RelayExpr:
        return e if self.dtype(e) == dtype else self.infer(relay.cast(e, dtype))

    def activated(self, e: RelayExpr, key: str = "activation") -> RelayExpr:
        """Apply the activation in a setting to ``e``."""
        from .activations import activated

        return activated(self, e, self.layer.config.get(key))

    def sizes(self, e: RelayExpr) -> list[int]:
        """Return the shape for a reshape; a dynamic dimension is -1."""
        found = [d if isinstance(d, int) else -1 for d in self.shape(e)]
        if found.count(-1) > 1:
            return list(self.known_shape(e))
        return found

    def product(self, x: RelayExpr, kernel: np.ndarray) -> RelayExpr:
        """Multiply the last axis of ``x`` by a matrix."""
        shape = self.sizes(x)
        if kernel.ndim != 2 or kernel.shape[0] != shape[-1]:
            raise TVMError(f"data with {shape[-1]} features does not match a kernel of shape {kernel.shape}")
        weight = Constant(np.ascontiguousarray(kernel.T))
        flat = x if len(shape) == 2 else relay.reshape(x, (-1, shape[-1]))
        out = relay.nn.dense(flat, weight, units=kernel.shape[1])
        if len(shape) == 2:
            return out
        return relay.reshape(out, self.reshaped_sizes(shape, kernel.shape[1]))

    @staticmethod
    def reshaped_sizes(shape: list[int], last: int) -> tuple[int, ...]:
        return (*shape[:-1], last)


def as_numpy(dtype: str) -> Any:
    import ml_dtypes

    return ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)


def dtype_of(policy: Any) -> str:
    """Return the compute type of a dtype policy."""
    if isinstance(policy, dict):
        config = policy.get("config")
        policy = config.get("name", "float32") if isinstance(config, dict) else None
    if not isinstance(policy, str):
        raise TVMError(f"unknown dtype policy {policy!r}")
    if "_from_" in policy:
        raise TVMError(f"layers quantized by Keras ({policy}) are not supported")
    found = policy.removeprefix("mixed_")
    if found not in _DTYPES:
        raise TVMError(f"dtype policy {policy!r} is not supported")
    return found


def as_list(value: Any) -> list:
    return list(value) if isinstance(value, (list, tuple, TupleWrapper)) else [value]


def spatial_layout(count: int, first: bool) -> str:
    """Return the layout of data with ``count`` spatial axes, such as NHWC."""
    names = "DHW"[3 - count :]
    return f"NC{names}" if first else f"N{names}C"


__all__ = [
    "CONVERTERS", "MASKED", "Context", "as_list", "as_numpy", "axis_of", "check_count", "check_steps", "const",
    "dtype_of", "layer", "operation", "spatial_layout",
]  # fmt: skip  # fmt: skip

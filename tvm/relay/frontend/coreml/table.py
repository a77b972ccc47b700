"""The tables of Core ML converters and the context that converters use.

A converter of an ML program operation is ``f(ctx, x, axis: int = -1, ...)``; its parameters have the names of the
operation's inputs. A parameter without annotation is an expression. A parameter annotated with ``int``, ``float``,
``bool``, ``str``, ``Ints``, ``Array`` and the like must be a compile-time constant and is passed as a Python value.
``Many`` is a list of expressions.

A converter of a neural network layer is ``f(ctx, inputs, p)``, where ``p`` is the message of its parameters. Most layer
converters call an operation's converter.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr, TupleWrapper, const
from ..common.context import MOST_STEPS, NodeContext, axis_of, check_count, check_steps
from ..common.converters import Converters

if TYPE_CHECKING:
    from .reader import Importer

OPERATIONS = Converters("Core ML")
LAYERS = Converters("Core ML")
op = partial(OPERATIONS.op, since=0)
layer = partial(LAYERS.op, since=0)

Ints = list[int]
Floats = list[float]
Bools = list[bool]
Many = list[RelayExpr]
Texts = list[str]
Array = np.ndarray


class Context(NodeContext):
    """The operation or layer that is being converted.

    ``count`` is its number of outputs, ``walker`` the enclosing network or program.
    """

    __slots__ = ("count", "node", "walker")

    importer: Importer

    def __init__(self, importer: Importer, where: str, node: Any = None, walker: Any = None, count: int = 1):
        super().__init__(importer, where)
        self.node, self.walker, self.count = node, walker, count

    def cast(self, e: RelayExpr, dtype: str) -> RelayExpr:
        return e if self.dtype(e) == dtype else self.made(relay.cast(e, dtype))

    def indices(self, e: RelayExpr) -> RelayExpr:
        """Return indices as integers. Layers store them as floats."""
        return e if self.dtype(e) in ("int32", "int64") else self.made(relay.cast(e, "int32"))

    def flat(self, e: RelayExpr, kept: int) -> tuple[RelayExpr, tuple]:
        """Flatten the leading dimensions, so that ``kept`` + 1 dimensions remain.

        Also return the sizes of the leading dimensions.
        """
        sizes = self.shape(e)
        if len(sizes) < kept:
            raise TVMError(f"expected a tensor of at least {kept} dimensions, got {len(sizes)}")
        if len(sizes) == kept + 1:
            return e, sizes[:1]
        sizes = self.known_shape(e)
        front = sizes[: len(sizes) - kept]
        return self.made(relay.reshape(e, (int(np.prod(front)), *sizes[len(front) :]), True)), front

    def unflat(self, e: RelayExpr, front: tuple) -> RelayExpr:
        """Restore the leading dimensions that ``flat`` merged."""
        if len(front) == 1:
            return e
        return self.made(relay.reshape(e, (*front, *self.known_shape(e)[1:]), True))


def half(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a converter to compute float16 in float32 and round its outputs."""

    @functools.wraps(function)
    def wide(ctx: Context, *args: Any, **settings: Any) -> Any:
        def is_half(v: Any) -> bool:
            return isinstance(v, RelayExpr) and ctx.dtype(v) == "float16"

        if not any(is_half(v) for v in (*args, *settings.values())):
            return function(ctx, *args, **settings)
        args = tuple(ctx.cast(v, "float32") if is_half(v) else v for v in args)
        settings = {k: ctx.cast(v, "float32") if is_half(v) else v for k, v in settings.items()}
        out = function(ctx, *args, **settings)
        if isinstance(out, (list, tuple, TupleWrapper)):
            return [ctx.cast(ctx.made(v), "float16") if ctx.dtype(v) == "float32" else v for v in out]
        return ctx.cast(ctx.made(out), "float16")

    return wide


@functools.cache
def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    found = list(inspect.signature(function).parameters.values())
    return {p.name.rstrip("_"): p for p in found[1:]}


def bound(ctx: Context, function: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    """Bind the inputs of an operation to the parameters of its converter."""
    known = _parameters(function)
    out = {}
    for name, value in given.items():
        if name not in known:
            raise TVMError(f"the input '{name}' is not supported")
        parameter = known[name]
        kind = "" if parameter.annotation is inspect.Parameter.empty else str(parameter.annotation)
        kind = kind.removesuffix(" | None")
        out[parameter.name] = _as_kind(ctx, value, kind, name)
    missing = [n for n, p in known.items() if p.default is inspect.Parameter.empty and p.name not in out]
    if missing:
        raise TVMError(f"the input '{missing[0]}' is missing")
    return out


def _as_kind(ctx: Context, value: Any, kind: str, name: str) -> Any:
    if kind in ("Many", "Texts"):
        values = value if isinstance(value, list) else [value]
        wanted = RelayExpr if kind == "Many" else str
        if not all(isinstance(v, wanted) for v in values):
            raise TVMError(f"the input '{name}' must be a list of {'tensors' if kind == 'Many' else 'strings'}")
        return values
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if kind == "str":
        if not isinstance(value, str):
            raise TVMError(f"the input '{name}' must be a string")
        return value
    if not isinstance(value, RelayExpr):
        raise TVMError(f"the input '{name}' must be a tensor")
    if not kind:
        return value
    return _known(ctx, value, kind, name)


def _known(ctx: Context, value: RelayExpr, kind: str, name: str) -> Any:
    """Return a compile-time constant as a Python value."""
    array = value.data.numpy() if isinstance(value, Constant) else ctx.array(value, f"the input '{name}'")
    if kind == "Array":
        return array
    if kind in ("Ints", "Floats", "Bools"):
        make: Callable[[Any], Any] = {"Ints": int, "Floats": float, "Bools": bool}[kind]
        return [make(v) for v in array.reshape(-1)]
    if array.size != 1:
        raise TVMError(f"the input '{name}' must be a scalar, got {array.size} elements")
    return {"int": int, "float": float, "bool": bool}[kind](array.reshape(-1)[0])


def constant(array: Any, dtype: str | None = None) -> Constant:
    found = np.asarray(array)
    return Constant(np.ascontiguousarray(found if dtype is None else found.astype(dtype)).reshape(found.shape))


def results(value: Any) -> list:
    """Return the outputs of a converter as a list."""
    if isinstance(value, (list, tuple, TupleWrapper)) and not isinstance(value, RelayExpr):
        return list(value)
    return [value]


__all__ = [
    "LAYERS", "MOST_STEPS", "OPERATIONS", "Array", "Bools", "Context", "Floats", "Ints", "Many", "Texts",
    "axis_of", "bound", "check_count", "check_steps", "const", "constant", "half", "layer", "op", "results",
]  # fmt: skip

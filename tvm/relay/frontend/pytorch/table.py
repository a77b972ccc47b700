"""The table of converters of PyTorch's operators, and the interface to the node that is being converted.

TorchScript and exported programs share the table. A converter is found by the operator's name without ``aten::``, or by
its name and overload (``max.dim``) where overloads differ. A converter is ``f(ctx, self, other, alpha=1)`` with the
parameter names of the operator's schema. Tensors are expressions; numbers, lists and strings are Python values; a
number that is known at run time is a ``Number``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....error import TVMError
from ....ir.prim import SizeVar
from ....ir.tensor_type import TensorType
from ... import op as relay
from ...checked_type import with_type
from ...expr import Constant, RelayExpr, const
from ..common.context import NodeContext, axis_of, check_steps
from ..common.converters import Converters
from .dtypes import category, dtype_name, promoted

if TYPE_CHECKING:
    from .importer import TorchImporter

CONVERTERS = Converters("PyTorch")
# Arguments about devices, memory layout and gradients, which have no effect on a compiled model.
PLACEMENT = frozenset(
    "memory_format layout device pin_memory non_blocking copy implicit requires_grad generator is_coalesced".split()
)
# Names of the same argument in the schemas of scalar and tensor overloads.
_SYNONYMS = {"a": "self", "b": "other", "input": "self", "l": "self", "list": "self", "exponent": "other", "n": "other",
             "x": "self", "y": "other", "t": "self", "s": "self", "el": "other", "idx": "index", "tensor": "self",
             "axis0": "dim0", "axis1": "dim1", "dict": "self", "elem": "self"}  # fmt: skip


def op(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a converter of operators."""
    return CONVERTERS.op(*names, since=0)


def find(name: str, overload: str = "") -> Callable[..., Any] | None:
    """Return the converter of an operator: that of its overload, or that of all its overloads."""
    special = CONVERTERS.find(f"{name}.{overload}", 0) if overload else None
    return special or CONVERTERS.find(name, 0)


class Number:
    """A number that is known at run time, as a scalar tensor."""

    __slots__ = ("expr",)

    def __init__(self, expr: RelayExpr):
        self.expr = expr


class Raised(TVMError):
    """The model raises an exception whenever this point is reached."""


class Complex:
    """A complex tensor, as its real and imaginary parts."""

    __slots__ = ("imag", "real")

    def __init__(self, real: RelayExpr, imag: RelayExpr):
        self.real, self.imag = real, imag

    @property
    def parts(self) -> tuple[RelayExpr, RelayExpr]:
        return self.real, self.imag


class Parameter(NamedTuple):
    """A parameter of an operator's schema."""

    name: str
    default: Any = None
    has_default: bool = False


@cache
def _parameters(converter: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    return dict(list(inspect.signature(converter).parameters.items())[1:])


def arguments(converter: Callable[..., Any], given: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a converter by its parameter names.

    An argument that the converter does not have must equal its default, or have no effect on a compiled model.
    """
    wanted = _parameters(converter)
    if any(p.kind is p.VAR_KEYWORD for p in wanted.values()):
        return dict(given)
    out = {}
    for name, value in given.items():
        own = name if name in wanted else _SYNONYMS.get(name, name)
        if own in wanted:
            out[own] = value
        elif name not in PLACEMENT and not _same(value, defaults.get(name)):
            raise TVMError(f"{name}={shown(value)} is not supported")
    return out


def _same(value, default) -> bool:
    return value is None or not isinstance(value, (RelayExpr, Number)) and value == default


def shown(value) -> str:
    """Return a value as text, for messages."""
    return "a tensor" if isinstance(value, (RelayExpr, Number)) else repr(value)


class Context(NodeContext):
    """The node that is being converted."""

    __slots__ = ("name", "outputs", "used")

    importer: TorchImporter

    def __init__(self, importer: TorchImporter, name: str, where: str, outputs: int = 1, used: set[int] | None = None):
        super().__init__(importer, where)
        self.name = name
        # The number of outputs of the operator, and the outputs that are used; None if that is unknown.
        self.outputs = outputs
        self.used = used

    def wants(self, index: int) -> bool:
        """Return whether an output is used."""
        return self.used is None or index in self.used

    # -- numbers and tensors --------------------------------------------------------------------------------------

    def is_tensor(self, value) -> bool:
        return isinstance(value, RelayExpr)

    def kind(self, value) -> str:
        """Return the element type of a tensor or number."""
        if isinstance(value, Number):
            return self.dtype(value.expr)
        if isinstance(value, RelayExpr):
            return self.dtype(value)
        if isinstance(value, bool):
            return "bool"
        if isinstance(value, (int, np.integer)):
            return "int64"
        if isinstance(value, (float, np.floating)):
            return self.importer.default_dtype
        raise TVMError(f"expected a tensor or a number, got {shown(value)}")

    def result_type(self, *values) -> str:
        """Return the type of an operation on tensors and numbers, by PyTorch's type promotion.

        Tensors with dimensions have priority over scalar tensors, and these over numbers; a lower priority counts only
        with a higher category (bool, integer, float).
        """
        found = None
        ranks: tuple[list, list, list] = ([], [], [])
        for v in values:
            place = 2 if not isinstance(v, RelayExpr) else 0 if self.rank(v) else 1
            ranks[place].append(self.kind(v))
        for kinds in ranks:
            if kinds:
                one = kinds[0]
                for k in kinds[1:]:
                    one = promoted(one, k)
                if found is None or category(one) > category(found):
                    found = one
        assert found is not None
        return found

    def tensor(self, value, dtype: str | None = None) -> RelayExpr:
        """Return a tensor or number as an expression of an element type."""
        if isinstance(value, Number):
            value = value.expr
        if isinstance(value, RelayExpr):
            return value if dtype is None or self.dtype(value) == dtype else relay.cast(value, dtype)
        dtype = dtype or self.kind(value)
        if category(dtype) == 1 and isinstance(value, float):
            value = int(value)
        return Constant(_scalar(value, dtype))

    def together(self, *values, at_least: int = 0) -> list[RelayExpr]:
        """Return operands as expressions of their common type; ``at_least`` 1 converts bools to integers, 2
        to floats.
        """
        dtype = self.result_type(*values)
        if category(dtype) < at_least:
            dtype = "int64" if at_least == 1 else self.importer.default_dtype
        return [self.tensor(v, dtype) for v in values]

    def floats(self, x: RelayExpr) -> RelayExpr:
        """Return the tensor, with integers converted to floats."""
        return x if self.is_float(x) else relay.cast(x, self.importer.default_dtype)

    def number(self, e: RelayExpr):
        """Return the number that a tensor of one element contains."""
        known = self.value(e)
        if known is not None:
            return known.reshape(-1)[0].item()
        return Number(relay.reshape(e, ()) if self.rank(e) else e)

    # -- sizes ----------------------------------------------------------------------------------------------------

    def size(self, e: RelayExpr, axis: int):
        """Return a dimension of a tensor as a number that is known at compile time or at run time."""
        found = self.shape(e)[axis]
        if isinstance(found, int):
            return found
        shape = self.importer.typer.infer(relay.shape_of(e, "int64"))
        one = self.importer.typer.infer(relay.take(shape, const(axis % self.rank(e), "int64"), 0))
        if isinstance(found, SizeVar):
            self.importer.symbols[id(one)] = (one, found)
        return Number(one)

    def symbol(self, size) -> SizeVar | None:
        """Return the variable of a dynamic dimension, or None."""
        if isinstance(size, Number):
            found = self.importer.symbols.get(id(size.expr))
            return None if found is None else found[1]
        return size if isinstance(size, SizeVar) else None

    def is_same(self, a, b) -> bool:
        """Return whether two dynamic dimensions are equal."""
        return self.symbol(a) is not None and self.symbol(a) is self.symbol(b)

    def sizes(self, values) -> list:
        """Return the dimensions in a list, which can contain tensors of one element."""
        values = [values] if not isinstance(values, (list, tuple)) else values
        return [self.number(v) if isinstance(v, RelayExpr) else v for v in values]

    def sized(self, e: RelayExpr, sizes: list) -> RelayExpr:
        """Return a tensor of run-time shape with a type that contains the known dimensions.

        These are integers and variables of dynamic dimensions; a dimension of -1 follows from the others.
        """
        sizes = [None if s == -1 else s for s in sizes]
        made = self.infer(
            relay.reshape(e, [s if isinstance(s, int) else 0 for s in sizes])
            if any(isinstance(s, int) for s in sizes)
            else e
        )
        names = [self.symbol(s) for s in sizes]
        dims = [
            s if isinstance(s, int) else d if n is None else n for s, n, d in zip(sizes, names, self.type(made).shape)
        ]
        return with_type(made, TensorType(dims, self.dtype(made)))

    def shape_vector(self, sizes: list) -> RelayExpr:
        """Return dimensions as a tensor, for operators with run-time shapes."""
        parts = [relay.reshape(self.tensor(s, "int64"), (1,)) for s in sizes]
        return parts[0] if len(parts) == 1 else relay.concatenate(parts, 0)

    def known_number(self, value, what: str) -> float:
        if isinstance(value, RelayExpr):
            value = self.number(value)
        if isinstance(value, Number):
            raise self.not_constant(what, [value.expr])
        return value

    def known_int(self, value, what: str) -> int:
        return int(self.known_number(value, what))

    def known_ints(self, values, what: str, count: int | None = None) -> list[int]:
        """Return the constant integers of a list; a single integer is repeated ``count`` times."""
        values = list(values) if isinstance(values, (list, tuple)) else [values]
        found = [self.known_int(v, what) for v in values]
        return found * count if count is not None and len(found) == 1 else found

    def axis(self, e: RelayExpr, dim) -> int:
        return axis_of(self.known_int(dim, "the dimension"), max(self.rank(e), 1))

    def axes(self, e: RelayExpr, dim) -> list[int] | None:
        """Return non-negative axes; None for all of them."""
        if dim is None or isinstance(dim, (list, tuple)) and not dim:
            return None
        return [axis_of(d, max(self.rank(e), 1)) for d in self.known_ints(dim, "the dimensions")]

    def convert(self, name: str, *args, **kwargs):
        """Convert another operator as a part of this one, and infer the type of its output."""
        converter = find(name)
        assert converter is not None, name
        return self.infer(converter(self, *args, **kwargs))

    def infer(self, value):
        return self.importer.inferred(value)


def _scalar(value, dtype: str):
    if dtype == "bfloat16":
        import ml_dtypes

        return np.array(value).astype(ml_dtypes.bfloat16)
    with np.errstate(over="ignore"):
        return np.array(value).astype(dtype)


__all__ = [
    "CONVERTERS", "Complex", "Context", "Number", "Parameter", "Raised", "arguments", "axis_of", "check_steps",
    "dtype_name", "find", "op", "shown",
]  # fmt: skip

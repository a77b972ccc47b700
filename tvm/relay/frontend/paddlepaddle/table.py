"""The table of PaddlePaddle converters and the context that converters use.

A converter is ``f(ctx)``; it reads inputs and attributes by their PaddlePaddle names. It returns an expression (the
operator's first output), a list (one for each variable of that output), or a dictionary by output name.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ....error import TVMError
from ...expr import RelayExpr
from ..common import run_time
from ..common.context import MOST_STEPS, NodeContext, axis_of, check_count, check_steps
from ..common.converters import Converters
from .program import Operator
from .schema import Named, dtype_name

if TYPE_CHECKING:
    from .reader import Importer

CONVERTERS = Converters("PaddlePaddle")
op = partial(CONVERTERS.op, since=0)


class Context(NodeContext):
    """The operator that is being converted."""

    __slots__ = ("operator",)

    importer: Importer

    def __init__(self, importer: Importer, operator: Operator, where: str):
        super().__init__(importer, where)
        self.operator = operator

    # -- inputs ---------------------------------------------------------------------------------------------------

    def all(self, name: str) -> list:
        """Return all values of an input."""
        return [self.importer.value(n, self.where) for n in self.operator.inputs.get(name, ()) if n]

    def has(self, name: str) -> bool:
        return any(self.operator.inputs.get(name, ()))

    def maybe(self, name: str) -> RelayExpr | None:
        """Return an optional input, or None."""
        return self._tensor(name, self.all(name)[0]) if self.has(name) else None

    def get(self, name: str) -> RelayExpr:
        """Return a required input."""
        if not self.has(name):
            raise TVMError(f"the input '{name}' is missing")
        return self._tensor(name, self.all(name)[0])

    def tensors(self, name: str) -> list[RelayExpr]:
        """Return the tensors of an input with at least one."""
        found = [self._tensor(name, v) for v in self.all(name)]
        if not found:
            raise TVMError(f"the input '{name}' is missing")
        return found

    def _tensor(self, name: str, value: Any) -> RelayExpr:
        if not isinstance(value, RelayExpr):
            raise TVMError(f"the input '{name}' is a tensor array, which the operator does not support")
        return value

    # -- attributes -----------------------------------------------------------------------------------------------

    def attr(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or its default.

        A variable that replaces an attribute must be a compile-time constant.
        """
        value = self.operator.attrs.get(name, default)
        if isinstance(value, Named):
            found = self.array(self.importer.value(value, self.where), name).reshape(-1)
            return found.tolist() if isinstance(default, list) or len(found) != 1 else found[0].item()
        if isinstance(value, list) and any(isinstance(v, Named) for v in value):
            return [self.array(self.importer.value(v, self.where), name).reshape(-1)[0].item() for v in value]
        if isinstance(default, (int, float, str)) and isinstance(value, list):
            raise TVMError(f"the attribute '{name}' must be a single value, got {value}")
        if isinstance(default, list) and not isinstance(value, list):
            raise TVMError(f"the attribute '{name}' must be a list, got {value!r}")
        return value

    def refuse(self, **unless: Any) -> None:
        """Report an error for attributes that have another value than the given one."""
        for name, value in unless.items():
            found = self.operator.attrs.get(name, value)
            if found != value:
                raise TVMError(f"the attribute '{name}' is {found!r}; only {value!r} is supported")

    def dtype_attr(self, name: str, default: str = "float32") -> str:
        """Return the element type of an attribute; -1 is the default."""
        number = self.attr(name, -1)
        return default if number == -1 else dtype_name(number)

    def axis(self, name: str, e: RelayExpr, default: int = -1, more: int = 0) -> int:
        """Return a non-negative axis of a tensor with ``more`` additional dimensions."""
        return axis_of(self.attr(name, default), self.rank(e) + more)

    # -- values that are attributes or tensors ---------------------------------------------------------------------

    def vector(self, attr: str, one: str = "", many: str = "") -> RelayExpr:
        """Return integers as an int64 vector, from one tensor, from one tensor for each integer, or from an
        attribute."""
        if one and self.has(one):
            return run_time.vector(self, self.get(one))
        if many and self.has(many):
            return run_time.joined(self, [run_time.vector(self, t) for t in self.tensors(many)])
        found = self.operator.attrs.get(attr, [])
        if isinstance(found, Named):
            return run_time.vector(self, self.importer.value(found, self.where))
        if isinstance(found, list) and any(isinstance(v, Named) for v in found):
            return run_time.joined(self, [run_time.vector(self, self.importer.value(v, self.where)) for v in found])
        return run_time.number(self.attr(attr, []) if isinstance(found, list) else [found])

    def number(self, attr: str, one: str, default: int = 0) -> int:
        """Return an integer that must be a compile-time constant, from a tensor or an attribute."""
        if one and self.has(one):
            found = self.array(self.get(one), attr).reshape(-1)
            if len(found) != 1:
                raise TVMError(f"the input '{one}' must be a scalar, got {len(found)} elements")
            return int(found[0])
        return int(self.attr(attr, default))

    def wants(self, name: str) -> bool:
        """Return whether an output exists and is used."""
        return any(n in self.importer.needed for n in self.operator.outputs.get(name, ()))


__all__ = ["CONVERTERS", "MOST_STEPS", "Context", "axis_of", "check_count", "check_steps", "op"]

"""The table of PaddlePaddle converters and what a converter can ask.

A converter is ``f(ctx)``: it asks for the operator's inputs and attributes by their names in PaddlePaddle. It returns
an expression (the operator's first output), a list (one for each variable of that output), or a dictionary by output.
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
    """The operator being converted."""

    __slots__ = ("operator",)

    importer: Importer

    def __init__(self, importer: Importer, operator: Operator, where: str):
        super().__init__(importer, where)
        self.operator = operator

    # -- inputs ---------------------------------------------------------------------------------------------------

    def all(self, name: str) -> list:
        """The values given for an input that takes many."""
        return [self.importer.value(n, self.where) for n in self.operator.inputs.get(name, ()) if n]

    def has(self, name: str) -> bool:
        return any(self.operator.inputs.get(name, ()))

    def maybe(self, name: str) -> RelayExpr | None:
        """An input that may be left out."""
        return self._tensor(name, self.all(name)[0]) if self.has(name) else None

    def get(self, name: str) -> RelayExpr:
        """An input that must be there."""
        if not self.has(name):
            raise TVMError(f"the input '{name}' is missing")
        return self._tensor(name, self.all(name)[0])

    def tensors(self, name: str) -> list[RelayExpr]:
        """An input that takes many tensors, at least one."""
        found = [self._tensor(name, v) for v in self.all(name)]
        if not found:
            raise TVMError(f"the input '{name}' is missing")
        return found

    def _tensor(self, name: str, value: Any) -> RelayExpr:
        if not isinstance(value, RelayExpr):
            raise TVMError(f"the input '{name}' is an array of tensors, which the operator does not take")
        return value

    # -- attributes -----------------------------------------------------------------------------------------------

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute, or its default. One that a variable gives must be known when compiling."""
        value = self.operator.attrs.get(name, default)
        if isinstance(value, Named):
            found = self.array(self.importer.value(value, self.where), name).reshape(-1)
            return found.tolist() if isinstance(default, list) or len(found) != 1 else found[0].item()
        if isinstance(value, list) and any(isinstance(v, Named) for v in value):
            return [self.array(self.importer.value(v, self.where), name).reshape(-1)[0].item() for v in value]
        if isinstance(default, (int, float, str)) and isinstance(value, list):
            raise TVMError(f"the attribute '{name}' is one value, got {value}")
        if isinstance(default, list) and not isinstance(value, list):
            raise TVMError(f"the attribute '{name}' is a list, got {value!r}")
        return value

    def refuse(self, **unless: Any) -> None:
        """Refuse attributes that are not what a converter takes them to be."""
        for name, value in unless.items():
            found = self.operator.attrs.get(name, value)
            if found != value:
                raise TVMError(f"the attribute '{name}' is {found!r}; only {value!r} is supported")

    def dtype_attr(self, name: str, default: str = "float32") -> str:
        """The element type that an attribute says; -1 stands for the default."""
        number = self.attr(name, -1)
        return default if number == -1 else dtype_name(number)

    def axis(self, name: str, e: RelayExpr, default: int = -1, more: int = 0) -> int:
        """An axis of a tensor with ``more`` dimensions than ``e`` has, counted from the first."""
        return axis_of(self.attr(name, default), self.rank(e) + more)

    # -- numbers that are attributes or tensors ---------------------------------------------------------------------

    def vector(self, attr: str, one: str = "", many: str = "") -> RelayExpr:
        """Numbers as a vector of 64-bit integers: of one tensor, of a tensor for each number, or of an attribute."""
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
        """A number that must be known when compiling: of a tensor, or of an attribute."""
        if one and self.has(one):
            found = self.array(self.get(one), attr).reshape(-1)
            if len(found) != 1:
                raise TVMError(f"the input '{one}' is one number, got {len(found)}")
            return int(found[0])
        return int(self.attr(attr, default))

    def wants(self, name: str) -> bool:
        """Whether an output is asked for and something reads it."""
        return any(n in self.importer.needed for n in self.operator.outputs.get(name, ()))


__all__ = ["CONVERTERS", "MOST_STEPS", "Context", "axis_of", "check_count", "check_steps", "op"]

"""Run-time lists in a module that is being imported, and the concatenation of their tensors."""

from __future__ import annotations

from typing import Any

from ....ir.module import GlobalVar
from ....ir.prim import Any_, IntImm
from ....ir.tensor_type import TensorType
from ....ir.type import Type, TypeCall
from ... import op as relay
from ...adt import Clause, Match, Pattern, PatternConstructor, PatternVar, PatternWildcard
from ...expr import Call, Function, RelayExpr, Var
from ...infer import infer_module
from ...parser import Parser
from ...prelude import PRELUDE
from .importer import GraphImporter
from .incremental import opened


class RowLists:
    """The prelude of a module that is being imported, defined at its first use, and functions over its lists."""

    # Additional definitions, as text.
    library = ""

    def __init__(self, importer: GraphImporter):
        self.importer = importer
        self.joins: dict[tuple, GlobalVar] = {}

    @property
    def module(self) -> Any:
        module = self.importer.module
        if not module.type_definitions:
            module.update(infer_module(Parser(PRELUDE + self.library, "sequences.rly").parse_module()))
        return module

    def list_of(self, element: Type) -> TypeCall:
        """Return the list type of tensors; they can differ in all dimensions that are not integers."""
        return TypeCall(self.module.get_type("List")[0], (opened(element),))

    def constructor(self, name: str) -> Any:
        made = {"Cons": ("List", 1), "Nil": ("List", 2), "Some": ("Option", 1), "None": ("Option", 2)}[name]
        return self.module.get_type(made[0])[made[1]]

    def call(self, name: str, args: list[RelayExpr], t: Type) -> RelayExpr:
        """Return a call of a function or constructor with the return type ``t``."""
        callee = self.constructor(name) if name[0].isupper() else self.module.get_global_var(name)
        return self.importer.given_type(Call(callee, tuple(args)), t)

    # -- concatenation ----------------------------------------------------------------------------------------------

    def concatenated(self, xs: RelayExpr, element: TensorType, axis: int, empty: bool = False) -> RelayExpr:
        """Concatenate the tensors of a list along an axis.

        With ``empty`` the list can be empty; the output is then a tensor of size 0. Groups of four neighbors are
        concatenated repeatedly until one tensor remains, so that each element is copied only a few times.
        """
        shape = [Any_() if i == axis else d for i, d in enumerate(element.shape)]
        part = opened(TensorType(shape, element.dtype))
        key = (str(part), axis, empty)
        if key not in self.joins:
            self.joins[key] = self._join_function(part, axis, empty)
        return self.importer.given_type(Call(self.joins[key], (xs,)), part)

    def _join_function(self, part: TensorType, axis: int, empty: bool) -> GlobalVar:
        """Define join(xs) = x for [x], otherwise join(reversed fours of reversed xs)."""
        many = self.list_of(part)
        fours, join = self._fours_function(part, axis), self.importer.new_function("join")
        xs, only, rest = Var("xs", many), Var("x", part), Var("rest", many)
        nil = self.constructor("Nil")
        one = PatternConstructor(self.constructor("Cons"), (PatternVar(only), PatternConstructor(nil)))
        clauses = [Clause(one, only)]
        if empty:
            sizes = [d.value if isinstance(d, IntImm) and i != axis else 0 for i, d in enumerate(part.shape)]
            clauses.append(Clause(PatternConstructor(nil), relay.zeros(sizes, part.dtype)))
            pattern: Pattern = PatternVar(rest)
        else:
            pattern = PatternConstructor(self.constructor("Cons"), (PatternWildcard(), PatternWildcard()))
            rest = xs
        back = Call(self.module.get_global_var("rev"), (Call(fours, (rest, Call(nil, ()))),))
        clauses.append(Clause(pattern, Call(join, (back,))))
        self.importer.module[join] = Function([xs], Match(xs, clauses, empty), part)
        return join

    def _fours_function(self, part: TensorType, axis: int) -> GlobalVar:
        """Define fours(xs, done): the tensors of ``xs`` concatenated four at a time, the last ones two at a time, in
        reverse order.
        """
        many = self.list_of(part)
        fours = self.importer.new_function("join_four")
        cons, nil = self.constructor("Cons"), self.constructor("Nil")
        xs, done = Var("xs", many), Var("done", many)
        clauses = []
        for count in (4, 2, 1):
            items = [Var(f"x{i}", part) for i in range(count)]
            rest = Var("rest", many)
            pattern: Pattern = PatternVar(rest)
            for item in reversed(items):
                pattern = PatternConstructor(cons, (PatternVar(item), pattern))
            made = items[0] if count == 1 else relay.concatenate(items, axis)
            clauses.append(Clause(pattern, Call(fours, (rest, Call(cons, (made, done))))))
        clauses.append(Clause(PatternConstructor(nil), done))
        self.importer.module[fours] = Function([xs, done], Match(xs, clauses), many)
        return fours


__all__ = ["RowLists"]

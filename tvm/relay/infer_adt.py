"""Types of constructors and matches, and of calls of polymorphic functions."""

from __future__ import annotations

from typing import Any

from ..error import DiagnosticError
from ..ir.adt import Constructor
from ..ir.type import FuncType, IncompleteType, RelayRefType, TupleType, Type, TypeCall, TypeVar
from .adt import Clause, Match, Pattern, PatternConstructor, PatternTuple, PatternVar
from .expr import Call, Function
from .infer import ADT_RULES, Inference, applied, generalized, unify


def substitute_types(t: Any, table: dict[Any, Type]) -> Any:
    """Return a type with type variables replaced."""
    if isinstance(t, TypeVar):
        return table.get(t, t)
    if isinstance(t, TupleType):
        return TupleType(tuple(substitute_types(f, table) for f in t.fields))
    if isinstance(t, FuncType):
        return FuncType(
            tuple(substitute_types(a, table) for a in t.arg_types), substitute_types(t.ret_type, table), t.type_params
        )
    if isinstance(t, RelayRefType):
        return RelayRefType(substitute_types(t.value, table))
    if isinstance(t, TypeCall):
        return TypeCall(t.func, tuple(substitute_types(a, table) for a in t.args))
    return t


def solve(want: Any, have: Any, table: dict[Any, Type], variables: set) -> bool:
    """Bind the type variables of ``want`` so that it becomes equal to ``have``; return whether this is possible."""
    if isinstance(want, TypeVar) and want in variables:
        known = table.get(want)
        # A type variable represents all types bound to it: dimensions that differ become dynamic.
        both = have if known is None else unify(*generalized(known, have))
        if both is not None:
            table[want] = both
        return both is not None
    if isinstance(have, IncompleteType) or isinstance(want, IncompleteType):
        return True
    want, have = applied(want), applied(have)
    if type(want) is not type(have):
        return False
    if isinstance(want, TupleType):
        pairs = list(zip(want.fields, have.fields)) if len(want.fields) == len(have.fields) else None
    elif isinstance(want, FuncType):
        same = len(want.arg_types) == len(have.arg_types)
        pairs = [*zip(want.arg_types, have.arg_types), (want.ret_type, have.ret_type)] if same else None
    elif isinstance(want, TypeCall):
        pairs = list(zip(want.args, have.args)) if want.func is have.func else None
    elif isinstance(want, RelayRefType):
        pairs = [(want.value, have.value)]
    else:
        return unify(want, have) is not None
    return pairs is not None and all(solve(a, b, table, variables) for a, b in pairs)


def call_polymorphic(self: Inference, node: Call, callee: FuncType) -> Type:
    """Return the type of a call of a polymorphic function; types that the arguments do not determine stay incomplete.

    Function arguments without parameter types are visited last, because the other arguments determine these types.
    """
    name = getattr(node.op, "name_hint", "a call")
    if len(callee.arg_types) != len(node.args):
        raise DiagnosticError(f"{name} requires {len(callee.arg_types)} arguments, got {len(node.args)}")
    table: dict[Any, Type] = {}

    def wanted(t: Type) -> Type:
        return substitute_types(t, {**dict.fromkeys(callee.type_params, IncompleteType()), **table})

    late = [i for i, a in enumerate(node.args) if isinstance(a, Function) and id(a) not in self.types]
    known = {i: self.type_of(a) for i, a in enumerate(node.args) if i not in late}

    def special(i: int) -> Type:
        """Return the type of an argument; a polymorphic type is specialized with the known parts of the parameter
        type."""
        t = known[i]
        return unify(wanted(callee.arg_types[i]), t) or t if _is_polymorphic(t) else t

    # Other arguments determine the type of a polymorphic argument, so polymorphic arguments are visited later.
    pending = list(known)
    while pending:
        i = next((i for i in pending if not _is_polymorphic(special(i))), pending[0])
        pending.remove(i)
        _solve_argument(callee, i, special(i), name, table)
    for i in late:
        _bind_params(self, node.args[i], wanted(callee.arg_types[i]))
        known[i] = self.infer(node.args[i])
        _solve_argument(callee, i, special(i), name, table)
    for arg, t in zip(node.args, callee.arg_types):
        _bind_params(self, arg, wanted(t))
        if not isinstance(wanted(t), IncompleteType):
            self.learn(arg, wanted(t))
    return wanted(callee.ret_type)


def _is_polymorphic(t: Type) -> bool:
    return isinstance(t, FuncType) and bool(t.type_params)


def _solve_argument(callee: FuncType, i: int, have: Type, name: str, table: dict[Any, Type]) -> None:
    want = callee.arg_types[i]
    if not solve(want, have, table, set(callee.type_params)):
        raise DiagnosticError(f"argument {i} of {name}: expected {substitute_types(want, table)}, got {have}")


def _bind_params(self: Inference, function: Any, want: Type) -> None:
    """Set the incomplete parameter types of a function argument from ``want``."""
    if not isinstance(function, Function) or not isinstance(want, FuncType):
        return
    for p, t in zip(function.params, want.arg_types):
        both = unify(self.variables.get(p, IncompleteType()), t) if p.type_annotation is None else None
        if both is not None and not isinstance(both, IncompleteType):
            self.variables[p] = both
            if id(p) in self.types:
                self.types[id(p)] = both


def type_arguments(callee: FuncType, args: list[Type], result: Type) -> tuple[Type, ...]:
    """Return the types that the type parameters of a polymorphic function are bound to in a call."""
    table: dict[Any, Type] = {}
    solve(FuncType(callee.arg_types, callee.ret_type), FuncType(tuple(args), result), table, set(callee.type_params))
    return tuple(table.get(v, IncompleteType()) for v in callee.type_params)


def specialize(generic: FuncType, plain: FuncType) -> FuncType | None:
    """Specialize a polymorphic type to match a plain type; it stays unchanged if a type variable remains unbound."""
    table: dict[Any, Type] = {}
    if not solve(FuncType(generic.arg_types, generic.ret_type), plain, table, set(generic.type_params)):
        return None
    if any(v not in table or isinstance(table[v], IncompleteType) for v in generic.type_params):
        return generic
    return FuncType(
        tuple(substitute_types(t, table) for t in generic.arg_types), substitute_types(generic.ret_type, table)
    )


def constructor_type(self: Inference, node: Constructor) -> FuncType:
    variables = _variables(self, node)
    header = node.belong_to
    return FuncType(tuple(node.inputs), TypeCall(header, variables), variables)


def _variables(self: Inference, node: Constructor) -> tuple:
    data = self.mod.type_definitions.get(node.belong_to) if self.mod is not None else None
    if data is None:
        raise DiagnosticError(f"constructor {node.name_hint} belongs to a type that is not in the module")
    return tuple(data.type_vars)


def enter_match(self: Inference, node: Match) -> None:
    for clause in node.clauses:
        self.within[id(clause)] = node


def enter_clause(self: Inference, node: Clause) -> None:
    bind_pattern(self, node.lhs, self.type_of(self.within[id(node)].data))


def bind_pattern(self: Inference, pattern: Pattern, t: Type) -> None:
    """Set the types of a pattern's variables from the type of the matched value."""
    if isinstance(pattern, PatternVar):
        self.variables[pattern.var] = pattern.var.type_annotation or t
    elif isinstance(pattern, PatternTuple):
        fields = t.fields if isinstance(t, TupleType) else [IncompleteType()] * len(pattern.patterns)
        if len(fields) != len(pattern.patterns):
            raise DiagnosticError(f"a pattern of {len(pattern.patterns)} fields cannot match {t}")
        for p, f in zip(pattern.patterns, fields):
            bind_pattern(self, p, f)
    elif isinstance(pattern, PatternConstructor):
        made = constructor_type(self, pattern.constructor)
        if len(pattern.patterns) != len(made.arg_types):
            raise DiagnosticError(
                f"{pattern.constructor.name_hint} has {len(made.arg_types)} fields, but the pattern "
                f"has {len(pattern.patterns)}"
            )
        table: dict[Any, Type] = {}
        if not solve(made.ret_type, t, table, set(made.type_params)):
            raise DiagnosticError(f"the pattern {pattern.constructor.name_hint} cannot match a value of type {t}")
        for p, inner in zip(pattern.patterns, made.arg_types):
            bind_pattern(self, p, substitute_types(inner, table))


def match_type(self: Inference, node: Match) -> Type:
    result: Type | None = None
    for clause in node.clauses:
        t = self.type_of(clause)
        # Dimensions that differ between clauses become dynamic.
        both = t if result is None else unify(*generalized(result, t))
        if both is None:
            raise DiagnosticError(f"the clauses of a match have different types: {result} and {t}")
        result = both
    if result is None:
        raise DiagnosticError("a match must have at least one clause")
    return result


_RULES = {
    Constructor: constructor_type,
    Clause: lambda self, node: self.type_of(node.rhs),
    Match: match_type,
}
_ENTER_RULES = {Match: enter_match, Clause: enter_clause}


def _rules():
    return _RULES, _ENTER_RULES


ADT_RULES.give(_rules)

__all__ = ["call_polymorphic", "substitute_types"]

"""Defunctionalization: remove functions as values from programs.

For each function type, the pass creates an algebraic data type and a function ``apply``. The data type has a
constructor for each function that is used as a value; the fields of the constructor are the captured variables.
``apply`` matches the constructors. A function that is used as a value becomes a value of the data type, and its calls
become calls of ``apply``. Polymorphic and higher-order global functions are copied for the types of their calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...error import TVMError
from ...ir.adt import TypeData
from ...ir.module import GlobalVar, IRModule
from ...ir.op import Op
from ...ir.type import FuncType, GlobalTypeVar, RelayRefType, TupleType, TypeCall, TypeVar
from ...ir.visit import post_order, rewrite
from ..adt import Clause, Constructor, Match, PatternConstructor, PatternVar, pattern_variables, rename_pattern
from ..expr import Call, Function, Let, RelayExpr, Var
from ..infer import infer_function, infer_module
from ..infer_adt import solve, substitute_types
from ..substitute import free_vars, substitute_vars
from .inline import fresh


def has_function(t: Any) -> bool:
    """Return whether a type contains function types."""
    return any(isinstance(n, FuncType) for n in post_order(t))


class _Encoding:
    """The data type that represents the functions of one type."""

    def __init__(self, name: str, t: FuncType):
        self.type = t
        self.header = GlobalTypeVar(name)
        self.apply = GlobalVar(f"apply_{name}")
        self.constructors: dict[Any, Constructor] = {}
        self.clauses: list[Clause] = []
        self.params = [Var(f"a{i}") for i in range(len(t.arg_types))]


class _Defunctionalizer:
    def __init__(self, mod: IRModule):
        self.mod = mod
        self.encodings: dict[str, _Encoding] = {}
        self.copies: dict[tuple[str, str], GlobalVar] = {}
        self.made: dict[GlobalVar, Function] = {}
        self.names = {v.name_hint for v in (*mod.functions, *mod.type_definitions)}

    def run(self, function: Function) -> Function:
        new = self.function(function)
        for var, made in self.made.items():
            self.mod[var] = made
        for one in self.encodings.values():
            self.mod[one.header] = TypeData(one.header, (), tuple(one.constructors.values()))
        for one in self.encodings.values():
            value = Var("f", TypeCall(one.header, ()))
            params = [Var(p.name_hint, self.encoded(t)) for p, t in zip(one.params, one.type.arg_types)]
            body = substitute_vars(Match(value, one.clauses, True), dict(zip(one.params, params)))
            self.mod[one.apply] = Function([value, *params], body, self.encoded(one.type.ret_type))
        return new

    # -- types ---------------------------------------------------------------------------------------------------------

    def encoded(self, t: Any) -> Any:
        """Return a type in which data types replace function types."""
        if isinstance(t, FuncType):
            return TypeCall(self.encoding(t).header, ())
        if isinstance(t, TupleType):
            return TupleType(tuple(self.encoded(f) for f in t.fields))
        if isinstance(t, TypeCall):
            return TypeCall(t.func, tuple(self.encoded(a) for a in t.args))
        return RelayRefType(self.encoded(t.value)) if isinstance(t, RelayRefType) else t

    def encoding(self, t: FuncType) -> _Encoding:
        if t.type_params or any(isinstance(n, TypeVar) for n in post_order(t)):
            raise TVMError(
                f"Defunctionalization: a function of the polymorphic type {t} is used as a value; its use must "
                "determine its type"
            )
        key = str(t)
        if key not in self.encodings:
            self.encodings[key] = _Encoding(self.new_name("Function"), t)
        return self.encodings[key]

    def new_name(self, hint: str) -> str:
        name = next(n for n in (f"{hint}_{i}" for i in range(len(self.names) + 1)) if n not in self.names)
        self.names.add(name)
        return name

    # -- functions -----------------------------------------------------------------------------------------------------

    def function(self, function: Function) -> Function:
        """Return a monomorphic copy of a typed function in which data types replace functions."""
        table: dict[Var, RelayExpr] = {p: Var(p.name_hint, self.encoded(p.checked_type)) for p in function.params}
        params = [table[p] for p in function.params]
        body = self.value(function.body, table, function.body.checked_type)
        return Function(params, body, self.encoded(function.body.checked_type), (), function.attrs, function.span)

    def copy_of(self, var: GlobalVar, args: Iterable[Any], result: Any) -> GlobalVar:
        """Return the copy of a global function for some argument types; the function itself if it is first-order and
        not polymorphic."""
        function = self.mod[var]
        wanted = FuncType(tuple(args), result)
        key = (var.name_hint, str(wanted))
        if key in self.copies:
            return self.copies[key]
        if self.is_first_order(var):
            self.copies[key] = var
            return var
        self.copies[key] = new = GlobalVar(self.new_name(var.name_hint))
        self.made[new] = self.function(self.specialized(function, wanted))
        return new

    def is_first_order(self, var: GlobalVar) -> bool:
        """Return whether neither a global function nor any function that it calls is polymorphic or uses functions as
        values."""
        waiting, seen = [var], {var}
        while waiting:
            function = self.mod[waiting.pop()]
            if function.type_params:
                return False
            for node in post_order(function):
                if isinstance(node, GlobalVar) and node not in seen:
                    seen.add(node)
                    waiting.append(node)
                named = node is function or isinstance(node, (Op, GlobalVar, Constructor))
                t = None if named or not isinstance(node, RelayExpr) else node.checked_type_
                if t is not None and has_function(t):
                    return False
        return True

    def specialized(self, function: Function, wanted: FuncType) -> Function:
        """Return a typed copy of a function, specialized for given argument and result types."""
        table: dict[Any, Any] = {}
        generic = FuncType(tuple(p.checked_type for p in function.params), function.checked_type.ret_type)
        solve(generic, wanted, table, set(function.type_params))
        copied = fresh(function)
        open_vars = {n: Var(n.name_hint, substitute_types(n.type_annotation, table))
                     for n in post_order(copied) if isinstance(n, Var) and n.type_annotation is not None}  # fmt: skip
        # Parameters get the types of the arguments; the types of pattern variables are inferred from the matched data.
        open_vars.update({p: Var(p.name_hint, t) for p, t in zip(copied.params, wanted.arg_types)})
        clauses = [n for n in post_order(copied) if isinstance(n, Clause)]
        named = {v: Var(v.name_hint) for c in clauses for v in pattern_variables(c.lhs)}
        made = substitute_vars(copied, {**open_vars, **named})
        body = rewrite(made.body, lambda n: _substituted(n, table, named))
        return infer_function(Function(made.params, body, wanted.ret_type, (), function.attrs), self.mod)

    # -- expressions ---------------------------------------------------------------------------------------------------

    def value(self, e: RelayExpr, table: dict[Var, RelayExpr], wanted: Any) -> RelayExpr:
        """Rewrite an expression so that data types replace functions; ``wanted`` is the type that its context
        expects."""
        lets = []
        while isinstance(e, Let):
            if isinstance(e.value, Function):
                table[e.var] = Var(e.var.name_hint)
                made: Any = self.closure(e.value, table, e.value.checked_type, e.var)
            else:
                made = self.value(e.value, table, e.value.checked_type)
                table[e.var] = Var(e.var.name_hint)
            lets.append((table[e.var], made))
            e = e.body
        made = self.plain(e, table, wanted)
        for var, value in reversed(lets):
            made = Let(var, value, made)
        return made

    def plain(self, e: RelayExpr, table: dict[Var, RelayExpr], wanted: Any) -> RelayExpr:
        if isinstance(e, Var):
            return table.get(e, e)
        if isinstance(e, Function):
            return e if e.attrs.get("Primitive") else self.closure(e, table, wanted)
        if isinstance(e, GlobalVar):
            return self.named(e, wanted)
        if isinstance(e, Call):
            return self.call(e, table)
        if isinstance(e, Match):
            clauses = [self.clause(c, table, wanted) for c in e.clauses]
            return Match(self.value(e.data, table, e.data.checked_type), clauses, e.complete)
        kept: dict[int, RelayExpr] = {}
        for child in e.children():
            if isinstance(child, RelayExpr):
                kept[id(child)] = self.value(child, table, child.checked_type)
        return e.map_children(lambda c: kept.get(id(c), c))

    def clause(self, clause: Clause, table: dict[Var, RelayExpr], wanted: Any) -> Clause:
        new = {v: Var(v.name_hint) for v in pattern_variables(clause.lhs)}
        table.update(new)
        return Clause(rename_pattern(clause.lhs, new), self.value(clause.rhs, table, wanted))

    def call(self, e: Call, table: dict[Var, RelayExpr]) -> RelayExpr:
        if isinstance(e.op, (Op, Constructor)) or isinstance(e.op, Function) and e.op.attrs.get("Primitive"):
            args = [self.value(a, table, a.checked_type) for a in e.args]
            return Call(e.op, args, e.attrs, (), e.span)
        if isinstance(e.op, GlobalVar):
            function = self.mod[e.op]
            types = self.argument_types(e, function)
            args = [self.value(a, table, t) for a, t in zip(e.args, types)]
            return Call(self.copy_of(e.op, types, e.checked_type), args, e.attrs, (), e.span)
        wanted = e.op.checked_type
        if wanted.type_params:
            wanted = FuncType(tuple(a.checked_type for a in e.args), e.checked_type)
        one = self.encoding(wanted)
        args = [self.value(a, table, t) for a, t in zip(e.args, wanted.arg_types)]
        return Call(one.apply, [self.value(e.op, table, wanted), *args], None, (), e.span)

    def argument_types(self, e: Call, function: Function) -> list[Any]:
        """Return the types of the arguments in a call of a global function. The types of polymorphic function arguments
        are inferred from the other arguments and the result."""
        found: dict[Any, Any] = {}
        variables = set(function.type_params)
        generic = [p.checked_type for p in function.params]
        solve(function.checked_type.ret_type, e.checked_type, found, variables)
        for t, a in zip(generic, e.args):
            if not (isinstance(a.checked_type, FuncType) and a.checked_type.type_params):
                solve(t, a.checked_type, found, variables)
        return [substitute_types(t, found) for t in generic]

    # -- functions as values -------------------------------------------------------------------------------------------

    def named(self, var: GlobalVar, wanted: Any) -> RelayExpr:
        one = self.encoding(wanted)
        if var not in one.constructors:
            made = one.constructors[var] = Constructor(self.new_name(var.name_hint), (), one.header)
            body = Call(self.copy_of(var, wanted.arg_types, wanted.ret_type), one.params)
            one.clauses.append(Clause(PatternConstructor(made, ()), body))
        return Call(one.constructors[var], ())

    def closure(self, e: Function, table: dict[Var, RelayExpr], wanted: Any, name: Var | None = None) -> RelayExpr:
        """Convert a local function to a constructor call over its captured variables. A recursive use becomes a new
        call of the constructor."""
        one = self.encoding(wanted)
        read = [v for v in free_vars(e) if v is not name]
        made = Constructor(self.new_name(name.name_hint if name is not None else "f"),
                           tuple(self.encoded(v.checked_type) for v in read), one.header)  # fmt: skip
        one.constructors[made] = made
        inner: dict[Var, RelayExpr] = {v: Var(v.name_hint) for v in read}
        fields = [inner[v] for v in read]
        if name is not None:
            inner[name] = Call(made, fields)
        inner.update(zip(e.params, one.params))
        pattern = PatternConstructor(made, tuple(PatternVar(f) for f in fields))
        one.clauses.append(Clause(pattern, self.value(e.body, inner, wanted.ret_type)))
        return Call(made, [table.get(v, v) for v in read])


def _substituted(node: Any, table: dict[Any, Any], named: dict[Var, Var]) -> Any:
    """Substitute the type variables in the return type of a local function, or the pattern variables of a clause."""
    if isinstance(node, Clause):
        return Clause(rename_pattern(node.lhs, named), node.rhs)
    if isinstance(node, Function) and node.ret_type is not None:
        return node.replace(ret_type=substitute_types(node.ret_type, table))
    return None


def Defunctionalization(func: Function, mod: IRModule) -> Function:
    """Remove functions as values from a program.

    Parameters
    ----------
    func : Function
        The entry function of the program. Its parameters and its result must not contain functions.
    mod : IRModule
        Its module. The required data types and functions are added to it.

    Returns
    -------
    Function
        The function without functions as values.

    Raises
    ------
    TVMError
        The function is polymorphic, takes or returns functions, or uses a polymorphic function as a value whose type
        does not follow from its use.
    """
    whole = mod.clone()
    whole["__program__"] = func
    typed = infer_module(whole)
    mod.update(IRModule({v: f for v, f in typed.functions.items() if v.name_hint in mod}, mod.type_definitions))
    program = typed["__program__"]
    if program.type_params:
        raise TVMError("Defunctionalization: the entry function of the program must not be polymorphic")
    if any(has_function(p.checked_type) for p in program.params):
        raise TVMError("Defunctionalization: a parameter of the entry function must not contain functions")
    if has_function(program.body.checked_type):
        raise TVMError("Defunctionalization: the result of the entry function must not contain functions")
    return _Defunctionalizer(mod).run(program)


__all__ = ["Defunctionalization"]

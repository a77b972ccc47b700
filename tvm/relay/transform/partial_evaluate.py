"""PartialEvaluate: evaluate at compile time the parts of a program that do not depend on the inputs.

Each expression is represented by a ``Partial``: the variable or constant that replaces it in the new program and, if
known, its structure. Known functions are called at compile time, matches of known constructors and branches on known
conditions are resolved, and references are tracked through their reads and writes. All other expressions are bound by
lets in execution order. ``DeadCodeElimination(inline_once=True)`` removes unused lets.

A recursive function is unfolded as long as one of its arguments becomes smaller: a data type value with fewer
constructors, or a smaller integer. Partial evaluation therefore terminates.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, NamedTuple

from ...ir.module import GlobalVar, IRModule
from ...ir.op import Op
from ...ir.transform import PassContext
from ...ir.visit import post_order
from .. import trampoline
from ..adt import (
    Clause,
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    pattern_variables,
    rename_pattern,
)
from ..expr import (
    Call,
    Constant,
    Function,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    RelayExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from ..infer import infer_function
from .fold_constant import FoldConstantExpr
from .function_pass import RelayFunctionPass, function_pass

# Larger integers do not count as becoming smaller, so that loops with more steps are not unrolled.
_LARGEST = 100
_UNKNOWN = float("inf")


class Partial(NamedTuple):
    """A variable, constant or global name, with the structure that is known of its value."""

    expr: RelayExpr
    known: Any = None


class KnownTuple(NamedTuple):
    fields: tuple[Partial, ...]


class KnownValue(NamedTuple):
    """A known constructor with its fields."""

    constructor: Constructor
    fields: tuple[Partial, ...]


class KnownFunction(NamedTuple):
    function: Function
    scope: Scope
    # Identifies calls of the same function.
    key: Any


class KnownRef:
    """Identifies a reference; the store contains its content."""


class Scope:
    """The variables, evaluated expressions and lets of a called function or of a block in it. An unfolded function
    appends its lets to the calling block."""

    def __init__(self, outer: Scope | None = None, is_block: bool = False, caller: Scope | None = None):
        self.outer, self.is_block = outer, is_block
        self.variables: dict[Var, Partial] = {}
        self.done: dict[int, tuple[RelayExpr, Partial]] = {}
        self.lets: list[tuple[Var, RelayExpr]] = caller.lets if caller is not None else []

    def find(self, var: Var) -> Partial | None:
        scope: Scope | None = self
        while scope is not None:
            if var in scope.variables:
                return scope.variables[var]
            scope = scope.outer
        return None

    def evaluated(self, e: RelayExpr) -> Partial | None:
        """Return the value of an expression that this block or an enclosing block of the same function has
        evaluated."""
        scope: Scope | None = self
        while scope is not None:
            if id(e) in scope.done:
                return scope.done[id(e)][1]
            scope = scope.outer if scope.is_block else None
        return None

    def push(self, expr: RelayExpr, hint: str = "x") -> Var:
        var = Var(hint)
        self.lets.append((var, expr))
        return var

    def result(self, expr: RelayExpr) -> RelayExpr:
        for var, value in reversed(self.lets):
            expr = Let(var, value, expr)
        return expr


class _Evaluator:
    def __init__(self, mod: IRModule):
        self.mod = mod
        self.store: dict[KnownRef, Partial] = {}
        # The number of writes to references, including possible writes.
        self.writes = 0
        self.sizes: dict[Any, tuple[float, ...]] = {}
        self.type_params: set[Any] = set()

    def run(self, function: Function) -> Function:
        self.type_params = set(function.type_params)
        return trampoline.run(self.residual(function, Scope()))

    # -- expressions ---------------------------------------------------------------------------------------------------

    def value(self, e: RelayExpr, scope: Scope) -> Generator:
        """Return the ``Partial`` of an expression. Evaluations of subexpressions are yielded, to avoid recursion."""
        while type(e) is Let:
            if isinstance(e.value, Function):
                yield self.function(e.value, scope, e.var)
            else:
                scope.variables[e.var] = yield self.value(e.value, scope)
            e = e.body
        found = scope.evaluated(e)
        if found is not None:
            return found
        made = yield self.plain(e, scope)
        scope.done[id(e)] = (e, made)
        return made

    def plain(self, e: RelayExpr, scope: Scope) -> Generator:
        kind = type(e)
        if kind is Var:
            return scope.find(e) or Partial(e)
        if kind is GlobalVar:
            return self.global_function(e)
        if kind is Function:
            made = yield self.function(e, scope, None)
            return made
        if kind is Tuple:
            fields = yield self.values(e.fields, scope)
            return Partial(scope.push(Tuple([f.expr for f in fields])), KnownTuple(fields))
        if kind is TupleGetItem:
            whole = yield self.value(e.tuple_value, scope)
            if isinstance(whole.known, KnownTuple):
                return whole.known.fields[e.index]
            return Partial(scope.push(TupleGetItem(whole.expr, e.index)))
        if kind is Call:
            made = yield self.call(e, scope)
            return made
        if kind in (RefCreate, RefRead, RefWrite):
            made = yield self.reference(e, scope)
            return made
        if kind is If:
            made = yield self.branch(e, scope)
            return made
        if kind is Match:
            made = yield self.match(e, scope)
            return made
        # The remaining kinds are constants, operators and constructors.
        return Partial(e)

    def values(self, parts: Iterable[RelayExpr], scope: Scope) -> Generator:
        found = []
        for part in parts:
            found.append((yield self.value(part, scope)))
        return tuple(found)

    def reference(self, e: RelayExpr, scope: Scope) -> Generator:
        if isinstance(e, RefCreate):
            content = yield self.value(e.value, scope)
            ref = KnownRef()
            self.store[ref] = content
            return Partial(scope.push(RefCreate(content.expr), "r"), ref)
        if isinstance(e, RefRead):
            ref = yield self.value(e.ref, scope)
            if ref.known in self.store:
                return self.store[ref.known]
            return Partial(scope.push(RefRead(ref.expr)))
        ref, content = yield self.values((e.ref, e.value), scope)
        self.writes += 1
        if ref.known is None:
            self.store = {}
        else:
            self.store[ref.known] = content
        return Partial(scope.push(RefWrite(ref.expr, content.expr)), KnownTuple(()))

    # -- branches ------------------------------------------------------------------------------------------------------

    def branch(self, e: If, scope: Scope) -> Generator:
        cond = yield self.value(e.cond, scope)
        if isinstance(cond.expr, Constant):
            chosen = e.true_branch if cond.expr.data.numpy().item() else e.false_branch
            made = yield self.value(chosen, scope)
            return made
        blocks = [(body, Scope(scope, is_block=True)) for body in (e.true_branch, e.false_branch)]
        first, second = yield self.alternatives(blocks)
        return Partial(scope.push(If(cond.expr, first, second)))

    def alternatives(self, blocks: list[tuple[RelayExpr, Scope]]) -> Generator:
        """Evaluate alternative blocks. References that one of them writes are unknown afterwards."""
        before, writes = self.store, self.writes
        made = []
        for body, scope in blocks:
            self.store = dict(before)
            result = yield self.value(body, scope)
            made.append(scope.result(result.expr))
        self.store = before if self.writes == writes else {}
        return made

    def match(self, e: Match, scope: Scope) -> Generator:
        data = yield self.value(e.data, scope)
        possible: list[tuple[Clause, dict[Var, Partial]]] = []
        for clause in e.clauses:
            found: dict[Var, Partial] = {}
            fits = _fits(clause.lhs, data, found)
            if fits is False:
                continue
            if fits is True and not possible:
                scope.variables.update(found)
                made = yield self.value(clause.rhs, scope)
                return made
            possible.append((clause, found))
            if fits is True:
                break
        if not possible:
            return Partial(scope.push(Match(data.expr, e.clauses, e.complete)))
        patterns, blocks = [], []
        for clause, _ in possible:
            inner = Scope(scope, is_block=True)
            new = {v: Var(v.name_hint) for v in pattern_variables(clause.lhs)}
            inner.variables = {v: Partial(n) for v, n in new.items()}
            patterns.append(rename_pattern(clause.lhs, new))
            blocks.append((clause.rhs, inner))
        bodies = yield self.alternatives(blocks)
        clauses = [Clause(p, b) for p, b in zip(patterns, bodies)]
        return Partial(scope.push(Match(data.expr, clauses, e.complete)))

    # -- functions -----------------------------------------------------------------------------------------------------

    def global_function(self, e: GlobalVar) -> Partial:
        found = self.mod.functions.get(e)
        if not isinstance(found, Function) or not _is_plain(found):
            return Partial(e)
        return Partial(e, KnownFunction(found, Scope(), e.name_hint))

    def function(self, e: Function, scope: Scope, name: Var | None) -> Generator:
        """Return the ``Partial`` of a local function, and emit the function for calls that are not unfolded. A named
        function may be recursive."""
        var = Var(name.name_hint if name is not None else "f")
        if not _is_plain(e):
            scope.lets.append((var, e))
            return Partial(var)
        made = Partial(var, KnownFunction(e, scope, e))
        if name is not None:
            scope.variables[name] = made
        written = yield self.residual(e, scope, e)
        scope.lets.append((var, written))
        return made

    def residual(self, e: Function, scope: Scope, key: Any = None) -> Generator:
        """Return a function evaluated with unknown parameters."""
        inner = Scope(scope)
        params = [Var(p.name_hint, self.annotation(p.type_annotation)) for p in e.params]
        inner.variables = {p: Partial(new) for p, new in zip(e.params, params)}
        before = self.store, self.writes, self.sizes
        self.store = {}
        if key is not None:
            self.sizes = {**self.sizes, key: (_UNKNOWN,) * len(params)}
        result = yield self.value(e.body, inner)
        self.store, self.writes, self.sizes = before
        return Function(params, inner.result(result.expr), self.annotation(e.ret_type), e.type_params, e.attrs, e.span)

    def annotation(self, t: Any) -> Any:
        """Return a type annotation if it contains no type variables of unfolded functions, else None."""
        free = [] if t is None else [n for n in post_order(t) if type(n).__name__ == "TypeVar"]
        return t if all(n in self.type_params for n in free) else None

    def call(self, e: Call, scope: Scope) -> Generator:
        callee = Partial(e.op)
        if not isinstance(e.op, (Op, Constructor)):
            callee = yield self.value(e.op, scope)
        args = yield self.values(e.args, scope)
        written = Call(callee.expr, [a.expr for a in args], e.attrs, (), e.span)
        if isinstance(e.op, Op):
            return _computed(written, args, scope)
        if isinstance(e.op, Constructor):
            return Partial(scope.push(written), KnownValue(e.op, args))
        if isinstance(callee.known, KnownFunction):
            sizes = self.smaller(callee.known, args)
            if sizes is not None:
                made = yield self.unfolded(callee.known, args, sizes, scope)
                return made
        # The unknown callee may write to any reference.
        self.store = {}
        self.writes += 1
        return Partial(scope.push(written))

    def smaller(self, callee: KnownFunction, args: tuple[Partial, ...]) -> tuple[float, ...] | None:
        """Return the smallest sizes of the arguments so far; None if no argument is smaller than in the enclosing
        calls."""
        sizes = tuple(_size(a) for a in args)
        before = self.sizes.get(callee.key)
        if before is None:
            return sizes
        least = tuple(min(a, b) for a, b in zip(before, sizes))
        return None if least == before else least

    def unfolded(self, callee: KnownFunction, args: tuple, sizes: tuple, scope: Scope) -> Generator:
        inner = Scope(callee.scope, caller=scope)
        inner.variables = dict(zip(callee.function.params, args))
        before = self.sizes
        self.sizes = {**before, callee.key: sizes}
        made = yield self.value(callee.function.body, inner)
        self.sizes = before
        return made


def _is_plain(function: Function) -> bool:
    return not any(function.attrs.get(key) for key in ("Primitive", "Compiler", "Composite", "SkipOptimization"))


def _computed(call: Call, args: tuple[Partial, ...], scope: Scope) -> Partial:
    """Fold a call of an operator on constants, or else emit the call."""
    constants = [_constant(a) for a in args]
    stateful = call.op.attrs.get("TOpIsStateful") or call.op.attrs.get("random")
    if all(c is not None for c in constants) and not stateful:
        made = FoldConstantExpr(Call(call.op, constants, call.attrs), IRModule())
        if isinstance(made, Constant):
            return Partial(made)
        if isinstance(made, Tuple) and all(isinstance(f, Constant) for f in made.fields):
            return Partial(scope.push(made), KnownTuple(tuple(Partial(f) for f in made.fields)))
    return Partial(scope.push(call))


def _constant(value: Partial) -> RelayExpr | None:
    """Return a constant or a tuple of constants as an expression; None for other values."""
    if isinstance(value.expr, Constant):
        return value.expr
    if isinstance(value.known, KnownTuple) and all(isinstance(f.expr, Constant) for f in value.known.fields):
        return Tuple([f.expr for f in value.known.fields])
    return None


def _size(value: Partial) -> float:
    """Return the size of an argument: the number of its constructors and tuples, or the value of a small integer."""
    if isinstance(value.expr, Constant):
        array = value.expr.data.numpy()
        small = array.ndim == 0 and array.dtype.kind in "iu" and 0 <= array <= _LARGEST
        return float(array) if small else _UNKNOWN
    if not isinstance(value.known, (KnownTuple, KnownValue)):
        return _UNKNOWN
    total, stack = 0.0, [value]
    while stack:
        known = stack.pop().known
        if isinstance(known, (KnownTuple, KnownValue)):
            total += 1
            stack.extend(known.fields)
    return total


def _fits(pattern: Pattern, value: Partial, found: dict[Var, Partial]) -> bool | None:
    """Return whether a value matches a pattern; None if this is unknown. Matched variables are added to ``found``."""
    if isinstance(pattern, PatternWildcard):
        return True
    if isinstance(pattern, PatternVar):
        found[pattern.var] = value
        return True
    known = value.known
    if isinstance(pattern, PatternTuple):
        if not isinstance(known, KnownTuple):
            return None
        return _all_fit(pattern.patterns, known.fields, found)
    assert isinstance(pattern, PatternConstructor)
    if not isinstance(known, KnownValue):
        return None
    if known.constructor.tag != pattern.constructor.tag or known.constructor != pattern.constructor:
        return False
    return _all_fit(pattern.patterns, known.fields, found)


def _all_fit(patterns: Iterable[Pattern], values: Iterable[Partial], found: dict[Var, Partial]) -> bool | None:
    answers = [_fits(p, v, found) for p, v in zip(patterns, values)]
    return False if False in answers else None if None in answers else True


def PartialEvaluate() -> RelayFunctionPass:
    """Evaluate the parts of functions that do not depend on the inputs.

    This includes calls of known functions, matches of known constructors, branches on known conditions, and references.
    The result is a chain of lets; ``DeadCodeElimination(inline_once=True, ignore_impurity=True)`` removes unused ones.

    Returns
    -------
    RelayFunctionPass
    """

    @function_pass(opt_level=1, name="PartialEvaluate", required=["InferType"])
    def evaluate(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return infer_function(_Evaluator(mod).run(func), mod)

    return evaluate


__all__ = ["PartialEvaluate"]

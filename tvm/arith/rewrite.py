"""The rewriting simplifier: bottom-up, without recursion over depth, memoised per context.

``make(an, cls, a, b)`` is the simplifying constructor of a two-operand node whose operands are simplified already; the
rules' replacements are built through it. ``rewrite_expr`` walks an expression and rebuilds it through ``make``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..dtype import element, info
from ..ir.prim import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    ProducerLoad,
    Ramp,
    Reduce,
    Select,
    SizeVar,
    StringImm,
    Sub,
    Var,
    const,
)
from ..ir.primop import BUILD, cast
from ..ir.primop import literal as literal_value
from ..ir.subst import substitute, variables
from ..ir.visit import post_order
from . import rules
from .compare import BINARY, DIVISIONS, is_pure
from .const_bound import dtype_bound
from .rule_compiler import LiteralOverflow, RuleTable

if TYPE_CHECKING:
    from .context import Context


class Stats:
    """Counters of the simplifier's work: cheap enough to be always on."""

    __slots__ = ("attempts", "fired", "visits")

    def __init__(self):
        self.reset()

    def reset(self) -> None:
        self.visits = self.attempts = self.fired = 0

    def __repr__(self):
        return f"Stats(visits={self.visits}, attempts={self.attempts}, fired={self.fired})"


stats = Stats()

# Classes that may be literals: a broadcast one is a literal when what it repeats is.
LITERALS = frozenset({IntImm, FloatImm, Broadcast})

# How deep replacements may be simplified inside replacements before they are taken as they are.
MAX_REWRITES = 10
# Contexts inside contexts (a select in a branch of a select), and the largest branch looked at in its own context.
MAX_SCOPES = 4
MAX_BRANCH = 120


class Kind:
    """What the simplifier asks of a type, worked out once."""

    __slots__ = ("is_bool", "is_float", "is_index", "is_scalar", "table")

    def __init__(self, dtype: str):
        kind = info(dtype)
        self.is_bool, self.is_float, self.is_scalar = kind.is_bool, kind.is_float, kind.lanes == 1
        # Arithmetic that is taken not to overflow.
        self.is_index = kind.code == "int" and kind.bits in (32, 64)
        if kind.is_bool:
            self.table = rules.BOOL_TABLE
        elif self.is_index:
            self.table = rules.INDEX_TABLE if self.is_scalar else rules.VECTOR_TABLE
        else:
            self.table = rules.WRAPPING_TABLE if kind.is_integer else rules.PLAIN_TABLE


class _Kinds(dict[Any, Any]):
    def __missing__(self, dtype: str) -> Kind:
        got = self[dtype] = Kind(dtype)
        return got


KINDS = _Kinds()


def _apply(an: Context, table: RuleTable, cls: type, a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    """The first rule's result, or None."""
    found = table.index.get((cls, a.__class__, b.__class__))
    if found is None:
        found = table.find(cls, a.__class__, b.__class__)
    tried = 0
    depth = an.depth
    for rule in found:
        tried += 1
        try:
            got = rule(an, a, b, an.make, an.literal)
        except LiteralOverflow:
            an.depth = depth
            continue
        if got is not None:
            stats.attempts += tried
            stats.fired += 1
            return got
    stats.attempts += tried
    return None


def make(an: Context, cls: type, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """The simplified form of ``cls(a, b)``; the operands are simplified and interned."""
    key = (cls, a, b)
    got = an.done.get(key)
    if got is not None:
        return got
    if an.depth >= MAX_REWRITES:
        return an.binary(cls, a, b)
    an.depth += 1
    stats.visits += 1
    got = _MAKERS[cls](an, cls, a, b)
    an.depth -= 1
    an.done[key] = got
    return got


def _fold(an: Context, cls: type[Any], a: PrimExpr, b: PrimExpr):
    """Literal operands folded; None when they are not literals or the result has no value."""
    if b.__class__ not in LITERALS or a.__class__ not in LITERALS:
        return None
    x, y = literal_value(a), literal_value(b)
    if x is None or y is None or (y == 0 and cls in DIVISIONS):
        return None
    lanes = info(a.dtype).lanes
    if lanes == 1:
        got = BUILD[cls](a, b)
    else:
        scalar = BUILD[cls](const(x, element(a.dtype)), const(y, element(a.dtype)))
        got = Broadcast(an.intern(scalar), lanes)
    return an.intern(got)


def _neutral(an: Context, cls: type[Any], a: PrimExpr, b: PrimExpr, kind: Any):
    """Zero and one as an operand; None where they are not. Floats keep what a NaN or a signed zero could change."""
    y = literal_value(b) if b.__class__ in LITERALS else None
    if y is not None:
        if y == 0 and not kind.is_float:
            if cls is Add or cls is Sub:
                return a
            if cls is Mul:
                return b
            if cls in DIVISIONS:
                return an.binary(cls, a, b)
        if y == 1:
            if cls is Mul or cls is Div or cls is FloorDiv:
                return a
            if (cls is FloorMod or cls is Mod) and not kind.is_float:
                return an.zero(a.dtype)
        return None
    x = literal_value(a) if a.__class__ in LITERALS else None
    if x is not None:
        if x == 0 and not kind.is_float:
            if cls is Add:
                return b
            if cls is Mul or cls in DIVISIONS:
                return a
        if x == 1 and cls is Mul:
            return b
    return None


def _arithmetic(an: Context, cls: type[Any], a: PrimExpr, b: PrimExpr):
    kind = KINDS[a.dtype]
    got = _fold(an, cls, a, b)
    if got is None:
        got = _neutral(an, cls, a, b, kind)
    if got is None and a.__class__ is Select and kind.is_index:
        got = _same_select(an, cls, a, b)
    if got is None:
        got = _apply(an, kind.table, cls, a, b)
    return an.binary(cls, a, b) if got is None else got


def _same_select(an: Context, cls: type[Any], a: PrimExpr, b: PrimExpr):
    """``select(p, x, y) + select(p, z, w)`` is one select."""
    if b.__class__ is Select and b.condition is a.condition:
        yes, no = make(an, cls, a.true_value, b.true_value), make(an, cls, a.false_value, b.false_value)
        return an.make_select(a.condition, yes, no)
    if cls is Sub and (b is a.true_value or b is a.false_value):
        yes, no = make(an, cls, a.true_value, b), make(an, cls, a.false_value, b)
        return an.make_select(a.condition, yes, no)
    return None


def _decide(an: Context, a: PrimExpr, b: PrimExpr):
    """Bound of ``a - b`` for operands of an index type, else None."""
    kind = KINDS[a.dtype]
    if kind.is_index:
        return an.difference_bound(a, b)
    if kind.table is rules.WRAPPING_TABLE:
        # Without subtraction: it could wrap.
        (p, q), (r, s) = an.bound(a), an.bound(b)
        return p - s, q - r
    return None


def _truth(an: Context, value: bool, dtype: str) -> PrimExpr:
    got = an.literal(int(value), "bool")
    return got if KINDS[dtype].is_scalar else an.add(Broadcast(got, info(dtype).lanes))


def _known(an: Context, node: Any):
    if an.truths:
        got = an.truths.get(node)
        if got is not None:
            return _truth(an, got, node.dtype)
    return node


def _less(an: Context, cls: type[Any], a: PrimExpr, b: PrimExpr):
    got = _fold(an, cls, a, b)
    if got is not None:
        return got
    gap = _decide(an, a, b)
    if gap is not None:
        if gap[1] < 0:
            return _truth(an, True, a.dtype)
        if gap[0] >= 0:
            return _truth(an, False, a.dtype)
    got = _apply(an, KINDS[a.dtype].table, LT, a, b)
    return _known(an, an.binary(LT, a, b)) if got is None else got


def _less_equal(an: Context, cls: type[Any], a: PrimExpr, b: PrimExpr):
    """``a <= b`` is ``not (b < a)``; for floats it is kept, as a NaN makes both false."""
    got = _fold(an, cls, a, b)
    if got is not None:
        return got
    if KINDS[a.dtype].is_float:
        return _known(an, an.binary(LE, a, b))
    gap = _decide(an, a, b)
    if gap is not None and gap[1] <= 0:
        return _truth(an, True, a.dtype)
    if gap is not None and gap[0] > 0:
        return _truth(an, False, a.dtype)
    if gap is not None and gap[0] == 0:
        return make(an, EQ, a, b)
    flipped = make(an, LT, b, a)
    if flipped.__class__ is LT:
        low, high = flipped.b, flipped.a
        between = _decide(an, low, high) if low is not a and gap is not None else None
        if between is not None and between[0] == 0:
            return make(an, EQ, low, high)
        return _known(an, an.binary(LE, low, high))
    return make_not(an, flipped)


def _equal(an: Context, cls: type[Any], a: PrimExpr, b: PrimExpr):
    got = _fold(an, cls, a, b)
    if got is not None:
        return got
    gap = _decide(an, a, b)
    if gap is not None:
        if gap[0] > 0 or gap[1] < 0:
            return _truth(an, False, a.dtype)
        if gap[0] == gap[1] == 0:
            return _truth(an, True, a.dtype)
        if an.never_equal(a, b):
            return _truth(an, False, a.dtype)
    kind = KINDS[a.dtype]
    if kind.is_bool and kind.is_scalar:
        for x, y in ((a, b), (b, a)):
            value = literal_value(y)
            if value is not None:
                return x if value else make_not(an, x)
    got = _apply(an, KINDS[a.dtype].table, EQ, a, b)
    return _known(an, an.binary(EQ, a, b)) if got is None else got


def _not_equal(an: Context, cls: type[Any], a: PrimExpr, b: PrimExpr):
    got = _fold(an, cls, a, b)
    if got is not None:
        return got
    if KINDS[a.dtype].is_float:
        return _known(an, an.binary(NE, a, b))
    return make_not(an, make(an, EQ, a, b))


def _logical(an: Context, cls: type[Any], a: PrimExpr, b: PrimExpr):
    for x, y in ((a, b), (b, a)):
        value = literal_value(x)
        if value is not None:
            return y if bool(value) == (cls is And) else x
    got = _apply(an, rules.BOOL_TABLE, cls, a, b)
    return _known(an, an.binary(cls, a, b)) if got is None else got


_MAKERS: dict[type[Any], Callable[[Context, Any, Any, Any], Any]] = {
    **dict.fromkeys((Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max), _arithmetic),
    LT: _less,
    LE: _less_equal,
    GT: lambda an, cls, a, b: make(an, LT, b, a),
    GE: lambda an, cls, a, b: make(an, LE, b, a),
    EQ: _equal,
    NE: _not_equal,
    And: _logical,
    Or: _logical,
}

# not (a ? b); floats are left alone, as a NaN makes every ordering false.
_NEGATED = {LT: (LE, True), LE: (LT, True), EQ: (NE, False), NE: (EQ, False), And: (Or, False), Or: (And, False)}


def make_not(an: Context, a: PrimExpr) -> PrimExpr:
    value = literal_value(a)
    if value is not None:
        return _truth(an, not value, a.dtype)
    if an.truths:
        got = an.truths.get(a)
        if got is not None:
            return _truth(an, not got, a.dtype)
    cls = a.__class__
    if cls is Not:
        return a.a
    if cls is Broadcast:
        return make_broadcast(an, make_not(an, a.value), a.lanes)
    if cls in (And, Or):
        # Breadth of a conjunction may be large; only the top few levels are turned over.
        if an.depth >= MAX_REWRITES:
            return an.add(Not(a))
        an.depth += 1
        x, y = make_not(an, a.a), make_not(an, a.b)
        an.depth -= 1
        return make(an, Or if cls is And else And, x, y)
    if cls in _NEGATED and (cls in (EQ, NE) or not KINDS[a.a.dtype].is_float):
        other, swap = _NEGATED[cls]
        return _known(an, an.binary(other, a.b, a.a) if swap else an.binary(other, a.a, a.b))
    return an.add(Not(a))


def make_select(an: Context, condition: PrimExpr, yes: PrimExpr, no: PrimExpr) -> PrimExpr:
    value = literal_value(condition)
    if value is not None:
        return yes if value else no
    if yes is no:
        return yes
    if yes.dtype == "bool" and literal_value(yes) == 1 and literal_value(no) == 0:
        return condition
    return an.add(Select(condition, yes, no))


def make_ramp(an: Context, base: PrimExpr, stride: PrimExpr, lanes: int) -> PrimExpr:
    if lanes == 1:
        return base
    if literal_value(stride) == 0:
        return make_broadcast(an, base, lanes)
    return an.add(Ramp(base, stride, lanes))


def make_broadcast(an: Context, value: PrimExpr, lanes: int) -> PrimExpr:
    return value if lanes == 1 else an.add(Broadcast(value, lanes))


def _not(an: Context, n: Any, done: Any):
    return make_not(an, done[n.a])


def _select(an: Context, n: Any, done: Any):
    condition = done[n.condition]
    value = literal_value(condition)
    if value is not None:
        return _later(an, n.true_value if value else n.false_value, done)
    yes, no = _branches(an, condition, n.true_value, n.false_value, done)
    return make_select(an, condition, yes, no)


def _later(an: Context, e: PrimExpr, done: Any):
    got = done.get(e)
    return an.walk(an, e) if got is None else got


def _branches(an: Context, condition: PrimExpr, yes: PrimExpr, no: PrimExpr, done: Any):
    """The two sides, each simplified where the condition is known; large ones as they are."""
    if an.scopes >= MAX_SCOPES or condition.dtype != "bool":
        return _later(an, yes, done), _later(an, no, done)
    yes = done[yes] if yes in done else an.under(condition, yes)
    no = done[no] if no in done else an.under(make_not(an, condition), no)
    return yes, no


def _stays(an: Context, e: PrimExpr) -> bool:
    """Whether the branch of a choice is worth no context of its own: a leaf, or too large."""
    got = an.stays.get(e)
    if got is None:
        got = an.stays[e] = e.__class__ in LEAVES or isinstance(e, Var) or not _is_small(e)
    return got


def _is_small(e: PrimExpr) -> bool:
    """Whether an expression has few nodes (counted with repetition, up to the limit)."""
    stack, count = [e], 0
    while stack:
        count += 1
        if count > MAX_BRANCH:
            return False
        stack.extend(stack.pop().children())
    return True


def _is_harmless(e: PrimExpr) -> bool:
    """Whether a condition may be evaluated where it was not: no loads, no calls, no division that could be by zero."""
    if not _is_small(e):
        return False
    for n in post_order(e):
        if isinstance(n, (BufferLoad, ProducerLoad, Call)):
            return False
        if n.__class__ in DIVISIONS and not literal_value(n.b):
            return False
    return True


def _call(an: Context, n: Any, done: Any):
    name = getattr(n.op, "name", "")
    if name == "tir.if_then_else":
        condition = done[n.args[0]]
        value = literal_value(condition)
        if value is not None:
            return _later(an, n.args[1] if value else n.args[2], done)
        yes, no = _branches(an, condition, n.args[1], n.args[2], done)
        if yes is no:
            return yes
        if yes.__class__ is Call and yes.op is n.op and yes.args[2] is no and _is_harmless(yes.args[0]):
            condition, yes = make(an, And, condition, yes.args[0]), yes.args[1]
        return an.add(Call(n.dtype, n.op, (condition, yes, no)))
    args = tuple([done[a] for a in n.args])
    if name == "tir.likely" and literal_value(args[0]) is not None:
        return args[0]
    handler = _FOLDED.get(name)
    if handler is not None and all(a.__class__ is IntImm for a in args):
        try:
            return an.literal(handler(*[a.value for a in args]), n.dtype)
        except (LiteralOverflow, ValueError):
            pass
    counter = _COUNTED.get(name)
    if counter is not None and args[0].__class__ is IntImm:
        bits = info(args[0].dtype).bits
        return an.literal(counter(args[0].value & ((1 << bits) - 1), bits), n.dtype)
    if all(x is y for x, y in zip(args, n.args)):
        return an.add(n)
    return an.add(Call(n.dtype, n.op, args, span=n.span))


_FOLDED: dict[str, Callable[[int, int], int]] = {
    "tir.shift_left": lambda a, b: a << b,
    "tir.shift_right": lambda a, b: a >> b,
    "tir.bitwise_and": lambda a, b: a & b,
    "tir.bitwise_or": lambda a, b: a | b,
    "tir.bitwise_xor": lambda a, b: a ^ b,
}
# What is counted in the bits of an integer, as a number without sign, that has so many.
_COUNTED: dict[str, Callable[[int, int], int]] = {
    "tir.clz": lambda value, bits: bits - value.bit_length(),
    "tir.popcount": lambda value, bits: value.bit_count(),
}


def _cast(an: Context, n: Any, done: Any):
    value = done[n.value]
    if value.dtype == n.dtype:
        return value
    if isinstance(value, (IntImm, FloatImm)) or value.__class__ is Broadcast:
        got = an.intern(cast(n.dtype, value))
        return got
    whole = uncast(an, n.dtype, value)
    if whole is not None:
        return whole
    return an.add(n if value is n.value else Cast(n.dtype, value))


def uncast(an: Context, dtype: str, e: PrimExpr) -> PrimExpr | None:
    """What an index of ``dtype`` was before a cast to a shorter type, where that cut nothing off."""
    if e.__class__ is not Cast or e.value.dtype != dtype or not (info(dtype).is_int and info(e.dtype).is_int):
        return None
    low, high = dtype_bound(e.dtype)
    lo, hi = an.bound(e.value)
    return e.value if low <= lo and hi <= high else None


def _let(an: Context, n: Any, done: Any):
    value = done[n.value]
    if isinstance(value, _INLINED):
        if an.values.get(n.var) is value:
            return done[n.body]
        return an.walk(an, an.intern(substitute(n.body, {n.var: value})))
    body = done[n.body]
    if value is n.value and body is n.body:
        return an.add(n)
    return an.add(Let(n.var, value, body))


_INLINED = (IntImm, FloatImm, Var)


def _let_operands(an: Context, n: Any, done: Any) -> list[Any]:
    """The value, then the body with a short value in place of the variable."""
    value = done.get(n.value)
    if value is None:
        return [n.value]
    if isinstance(value, _INLINED):
        if n.var not in an.values and n.var not in done:
            an.values[n.var] = value
        if an.values.get(n.var) is not value:
            # The variable has another value elsewhere, or was met outside: `_let` substitutes.
            return []
    return [n.body]


def _reduce(an: Context, n: Any, done: Any):
    source = tuple([done[s] for s in n.source])
    init = tuple([done[s] for s in n.init])
    condition = done[n.condition]
    if not n.axis:
        value, other = source, init or n.combiner.identity_element
        if init:
            value = n.combiner(init, source)
        return make_select(an, condition, an.intern(value[n.value_index]), an.intern(other[n.value_index]))
    combiner, kept = _combiner(an, n.combiner, source, n.value_index)
    if len(kept) < len(source):
        source = tuple([source[k] for k in kept])
        init = tuple([init[k] for k in kept]) if init else ()
    same = condition is n.condition and combiner is n.combiner
    if same and all(x is y for x, y in zip(source + init, n.source + n.init)):
        return an.add(n)
    return an.add(
        n.replace(
            combiner=combiner, source=source, condition=condition, init=init, value_index=kept.index(n.value_index)
        )
    )


def _combiner(an: Context, c: Any, source: tuple[Any, ...], wanted: int) -> tuple[Any, ...]:
    """The combiner simplified, without the components that ``wanted`` does not need; and which were kept."""
    results = [an.walk(an, an.intern(r)) for r in c.result]
    identities = [an.walk(an, an.intern(e)) for e in c.identity_element]
    place = {v: k for k, (a, b) in enumerate(zip(c.lhs, c.rhs)) for v in (a, b)}
    todo = [wanted, *[k for k, s in enumerate(source) if not _is_removable(s)]]
    needed: set[int] = set()
    while todo:
        k = todo.pop()
        if k not in needed:
            needed.add(k)
            todo.extend(place[v] for v in variables(results[k]) if v in place)
    kept = sorted(needed)
    old = (*c.result, *c.identity_element)
    if len(kept) == len(source) and all(x is y for x, y in zip(old, (*results, *identities))):
        return c, kept

    def pick(items: Any):
        return tuple([items[k] for k in kept])

    return c.replace(lhs=pick(c.lhs), rhs=pick(c.rhs), result=pick(results), identity_element=pick(identities)), kept


def _is_removable(e: PrimExpr) -> bool:
    return not any(isinstance(n, Call) and not is_pure(n) for n in post_order(e))


def _generic(an: Context, n: Any, done: Any):
    return an.add(n.map_children(done.__getitem__))


def _ramp(an: Context, n: Any, done: Any):
    return make_ramp(an, done[n.base], done[n.stride], n.lanes)


def _broadcast(an: Context, n: Any, done: Any):
    return make_broadcast(an, done[n.value], n.lanes)


_HANDLERS: dict[type[Any], Callable[..., Any]] = {
    Not: _not,
    Select: _select,
    Call: _call,
    Cast: _cast,
    Let: _let,
    Reduce: _reduce,
    Ramp: _ramp,
    Broadcast: _broadcast,
}
LEAVES = frozenset({IntImm, FloatImm, StringImm})


def operands(an: Context, n: Any, done: Any) -> list[Any]:
    """The children that must be simplified before ``n`` in the present context."""
    cls = n.__class__
    if cls is Select:
        branches = [n.true_value, n.false_value]
    elif cls is Call and getattr(n.op, "name", None) == "tir.if_then_else":
        branches = list(n.args[1:])
    elif cls is Reduce:
        for axis in n.axis:
            an.bind_axis(axis)
        return [*n.source, n.condition, *n.init]
    elif cls is Let:
        return _let_operands(an, n, done)
    else:
        return n.children()
    condition = n.condition if cls is Select else n.args[0]
    if an.scopes >= MAX_SCOPES:
        return [condition, *branches]
    return [condition, *[b for b in branches if _stays(an, b)]]


def node(an: Context, n: PrimExpr, done: Any) -> PrimExpr:
    """The simplified form of a node of any other kind; ``done`` maps its operands to theirs."""
    got = _HANDLERS.get(n.__class__, _generic)(an, n, done)
    return _known(an, got) if an.truths and n.dtype == "bool" else got


def rewrite_expr(an: Context, root: PrimExpr) -> PrimExpr:
    """Simplify an interned expression in the analyzer's present context."""
    done = an.rewritten
    got = done.get(root)
    if got is not None:
        return got
    walk, an.walk = an.walk, rewrite_expr
    values = an.values
    stack = [root]
    while stack:
        n = stack[-1]
        if n in done:
            stack.pop()
            continue
        cls = n.__class__
        if cls in BINARY:
            a, b = done.get(n.a), done.get(n.b)
            if a is None or b is None:
                if b is None:
                    stack.append(n.b)
                if a is None:
                    stack.append(n.a)
                continue
            got = make(an, cls, a, b)
        elif cls is Var or cls is SizeVar:
            got = values.get(n, n)
            if got is n and n.dtype == "bool":
                got = _known(an, n)
        elif cls in LEAVES:
            got = n
        else:
            missing = [c for c in operands(an, n, done) if c not in done]
            if missing:
                missing.reverse()
                stack.extend(missing)
                continue
            got = node(an, n, done)
        done[n] = got
        stack.pop()
    an.walk = walk
    return done[root]

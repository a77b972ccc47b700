"""The rewriting simplifier: bottom-up, without recursion, with results cached per context.

``make(an, cls, a, b)`` is the simplifying constructor of a node with two simplified operands; the replacements of rules
are built with it. ``rewrite_expr`` visits an expression and rebuilds it with ``make``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..dtype import info
from ..ir.prim import (
    And,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    FloatImm,
    IntImm,
    Let,
    Not,
    PrimExpr,
    ProducerLoad,
    Ramp,
    Reduce,
    Select,
    SizeVar,
    StringImm,
    Var,
)
from ..ir.primop import cast
from ..ir.primop import literal as literal_value
from ..ir.subst import substitute, variables
from ..ir.visit import post_order
from .compare import BINARY, DIVISIONS, is_pure
from .const_bound import dtype_bound
from .rewrite_make import known, make, make_broadcast, make_not, make_ramp, make_select
from .rule_compiler import LiteralOverflow

if TYPE_CHECKING:
    from .context import Context


# The nesting limit of contexts (a select in a branch of a select), and the size limit of a branch that gets its own
# context.
MAX_SCOPES = 4
MAX_BRANCH = 120


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
    """Simplify each branch under the condition that selects it. Large branches are not changed."""
    if an.scopes >= MAX_SCOPES or condition.dtype != "bool":
        return _later(an, yes, done), _later(an, no, done)
    yes = done[yes] if yes in done else an.under(condition, yes)
    no = done[no] if no in done else an.under(make_not(an, condition), no)
    return yes, no


def _stays(an: Context, e: PrimExpr) -> bool:
    """Return whether a branch of a select does not get its own context because it is a leaf or too large."""
    got = an.stays.get(e)
    if got is None:
        got = an.stays[e] = e.__class__ in LEAVES or isinstance(e, Var) or not _is_small(e)
    return got


def _is_small(e: PrimExpr) -> bool:
    """Return whether an expression has few nodes, counted with repetition up to the limit."""
    stack, count = [e], 0
    while stack:
        count += 1
        if count > MAX_BRANCH:
            return False
        stack.extend(stack.pop().children())
    return True


def _is_speculatable(e: PrimExpr) -> bool:
    """Return whether a condition may be evaluated speculatively: it has no loads, no calls and no division whose
    divisor may be zero."""
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
        if yes.__class__ is Call and yes.op is n.op and yes.args[2] is no and _is_speculatable(yes.args[0]):
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
# Bit-counting functions on the unsigned value of an integer with the given number of bits.
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
    """Return the index of type ``dtype`` under a cast to a narrower type if the cast did not truncate it."""
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
    """Return the value, then the body with a short value substituted for the variable."""
    value = done.get(n.value)
    if value is None:
        return [n.value]
    if isinstance(value, _INLINED):
        if n.var not in an.values and n.var not in done:
            an.values[n.var] = value
        if an.values.get(n.var) is not value:
            # The variable has another value elsewhere, or occurs outside the let, so `_let` substitutes the value.
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
    """Return the simplified combiner without the components that output ``wanted`` does not use, and the indices of the
    kept ones."""
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
    """Return the children that must be simplified before ``n`` in the current context."""
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
    """Return the simplified form of a node of any other class. ``done`` maps its operands to their simplified forms."""
    got = _HANDLERS.get(n.__class__, _generic)(an, n, done)
    return known(an, got) if an.truths and n.dtype == "bool" else got


def rewrite_expr(an: Context, root: PrimExpr) -> PrimExpr:
    """Simplify an interned expression in the analyzer's current context."""
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
                got = known(an, n)
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

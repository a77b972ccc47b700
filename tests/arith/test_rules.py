"""Every row of the rule table holds at random points, and every row can fire."""

from __future__ import annotations

import ast
import random

import pytest

from tvm.arith import Analyzer, rules
from tvm.arith.rule_compiler import LiteralOverflow, make_rules
from tvm.error import TVMError
from tvm.ir.prim import Add, Broadcast, Mul, PrimExpr, Ramp, Range, Var, const
from tvm.ir.visit import rewrite

from .points import Generator, value
from .text import parse, show

SEED = 987
TABLES = {
    "index": rules.INDEX_TABLE,
    "bool": rules.BOOL_TABLE,
    "vector": rules.VECTOR_TABLE,
    "plain": rules.PLAIN_TABLE,
    "wrapping": rules.WRAPPING_TABLE,
}
ROWS = [
    pytest.param(name, cls, row, id=f"{name}: {row[0]} -> {row[1]}")
    for name, table in TABLES.items()
    for cls, rows in table.rows.items()
    for row in rows
]


def lane(e: PrimExpr, k: int) -> PrimExpr:
    """Lane ``k`` of a vector expression as a scalar expression."""

    def pre(n):
        if isinstance(n, Broadcast):
            return n.value
        if isinstance(n, Ramp):
            return Add(n.base, Mul(n.stride, const(k, n.base.dtype)))
        return None

    return rewrite(e, pre=pre)


def _operand(rng: random.Random, gen: Generator, logical: bool) -> PrimExpr:
    if logical:
        return gen.condition(0)
    return rng.choice(gen.variables) if rng.random() < 0.8 else gen.expr(1)


# Names that stand for a condition in rows of And and Or without comparisons.
def _condition_names(pattern: str) -> set[str]:
    tree = ast.parse(pattern, mode="eval").body
    out: set[str] = set()

    def visit(n):
        if isinstance(n, ast.BoolOp):
            for v in n.values:
                visit(v)
        elif isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.Not):
            visit(n.operand)
        elif isinstance(n, ast.Name):
            out.add(n.id)
        elif isinstance(n, ast.Call) and n.func.id == "broadcast":
            visit(n.args[0])

    if isinstance(tree, ast.BoolOp):
        visit(tree)
    return out


def _instance(rng: random.Random, pattern: str, gen: Generator, lanes: int) -> PrimExpr:
    names: dict[str, PrimExpr] = {}
    logical = _condition_names(pattern)
    pool = [1, 2, 3, 4, 5, 6, 8, 12, 16, 0, -1, -2, -3, -4, rng.randint(-30, 30)]
    first = rng.choice(pool)

    class Fill(ast.NodeTransformer):
        def visit_Name(self, n):
            if n.id == "lanes":
                return ast.Constant(lanes)
            return n

    tree = Fill().visit(ast.parse(pattern, mode="eval"))
    for n in ast.walk(tree):
        if isinstance(n, ast.Name) and n.id not in names:
            if n.id[0] == "c" and n.id[1:].isdigit():
                # Rows relate their literals: multiples and sums of one another are drawn often.
                pick = rng.choice(
                    [first, -first, first * rng.randint(1, 3), rng.choice(pool), first + rng.randint(-1, 2)]
                )
                names[n.id] = const(pick, "int32")
            else:
                names[n.id] = _operand(rng, gen, n.id in logical)
    if any(n == "v" for n in names):
        raise ValueError("the name v is for vectors")
    return parse(ast.unparse(tree), names)


@pytest.mark.parametrize(("kind", "root", "row"), ROWS)
def test_row_holds_at_random_points(kind, root, row):
    rng = random.Random(SEED)
    images = make_rules([row])
    assert images[0].pattern.head is root
    fired = 0
    for _ in range(4000):
        if fired >= 3:
            break
        an = Analyzer()
        variables = [Var(n) for n in "pqr"]
        spans = {}
        for v in variables:
            low = rng.choice([0, 0, 0, 1, -9, -30])
            spans[v] = range(low, low + rng.choice([2, 3, 8, 40]))
            an.bind(v, Range(low, spans[v].stop))
        lanes = rng.choice([2, 4])
        try:
            before = an.intern(_instance(rng, row[0], Generator(rng, variables), lanes))
        except (ZeroDivisionError, TVMError):
            continue
        if type(before) is not root:
            continue
        for rule in images:
            if rule.left not in (None, type(before.a)) or rule.right not in (None, type(before.b)):
                continue
            try:
                after = rule.apply(an, before.a, before.b, an.make, an.literal)
            except (LiteralOverflow, ZeroDivisionError):
                continue
            if after is None:
                continue
            fired += 1
            for _ in range(8):
                point = {v: rng.choice(spans[v]) for v in variables}
                for k in range(lanes if kind == "vector" or "lanes" in row[0] else 1):
                    want = value(lane(before, k), point)
                    if want is not None:
                        where = {v.name: p for v, p in point.items()}
                        assert value(lane(after, k), point) == want, f"{show(before)} -> {show(after)} at {where}"
    assert fired > 0, f"the row {row[0]} never fired: it is dead or the test draws too few operands"

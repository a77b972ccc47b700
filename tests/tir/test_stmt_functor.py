"""Walking, substitution, fresh definitions and visitor classes."""

import sys

from tvm import tir
from tvm.ir.prim import Range
from tvm.ir.structural import structural_equal
from tvm.ir.type import PointerType, PrimType
from tvm.tir.stmt_functor import (
    StmtExprMutator,
    StmtExprVisitor,
    ir_transform,
    post_order_visit,
    pre_order_visit,
    renew_defs,
    substitute,
)

i, j, n, m = (tir.Var(s, "int32") for s in "ijnm")


def nest():
    a = tir.decl_buffer((8, 8), name="A")
    return tir.For(i, 0, 8, 0, tir.For(j, 0, 8, 0, tir.BufferStore(a, a[i, j] + 1.0, [i, j])))


def test_post_order_visit_sees_parts_first_and_each_once():
    seen = []
    stmt = nest()
    post_order_visit(stmt, seen.append)
    assert seen[-1] is stmt and seen.index(stmt.body) == len(seen) - 2
    assert len({id(s) for s in seen}) == len(seen) and i in [s for s in seen if isinstance(s, tir.Var)]


def test_pre_order_visit_stops_where_told():
    seen = []

    def visit(node):
        seen.append(type(node).__name__)
        return not (isinstance(node, tir.For) and node.loop_var is j)

    pre_order_visit(nest(), visit)
    assert seen.count("For") == 2 and "BufferStore" not in seen


def test_ir_transform_vectorizes_the_inner_loop_of_eight():
    def post(op):
        if isinstance(op.body, tir.BufferStore):
            return tir.For(op.loop_var, op.min, op.extent, tir.ForKind.VECTORIZED, op.body)
        return None

    out = ir_transform(nest(), None, post, ["tir.For"])
    assert out.kind == tir.ForKind.SERIAL and out.body.kind == tir.ForKind.VECTORIZED


def test_ir_transform_preorder_replacement_is_not_entered():
    calls = []

    def pre(op):
        calls.append(op)
        return tir.Evaluate(1) if op.loop_var is i else None

    out = ir_transform(nest(), pre, None, ["tir.For"])
    assert isinstance(out, tir.Evaluate) and len(calls) == 1


def test_ir_transform_without_change_gives_the_same_object():
    stmt = nest()
    assert ir_transform(stmt, None, lambda op: None) is stmt


def test_substitute_reaches_expressions_and_buffers():
    a = tir.decl_buffer((n, 4), name="A")
    stmt = tir.BufferStore(a, (a[0, i] + i.astype("float32")), [n, 0])
    out = substitute(stmt, {n: 16, i: j})
    assert str(out).endswith('A[16, 0] = A[0, j] + T.Cast("float32", j)')
    assert out.buffer.shape[0].value == 16 and out.value.a.buffer is out.buffer


def test_substitute_of_a_pointer_renames_buffer_and_allocation():
    p, q = (tir.Var(s, PointerType(PrimType("float32"), "global")) for s in "pq")
    a = tir.decl_buffer((4,), name="A", data=p)
    out = substitute(tir.Allocate(p, "float32", [4], True, tir.BufferStore(a, 1.0, [0])), {p: q})
    assert out.buffer_var is q and out.body.buffer.data is q


def test_substitute_without_match_gives_the_same_object():
    stmt = nest()
    assert substitute(stmt, {n: 3}) is stmt


def test_renew_defs_shares_no_definition_and_means_the_same():
    a = tir.decl_buffer((n, 8), name="A")
    flat = a.get_flattened_buffer()
    h = tir.Var("a", "handle")
    body = tir.For(i, 0, n, 0, tir.LetStmt(m, i * 8, tir.BufferStore(flat, flat[m] * 2.0, [m])))
    func = tir.PrimFunc([h], body, None, {h: a}, {"global_symbol": "f"})
    new = renew_defs(func)
    assert structural_equal(func, new)
    assert new.params[0] is not h and new.body.loop_var is not i
    assert new.body.extent is next(iter(new.buffer_map.values())).shape[0] is not n
    assert new.body.body.body.buffer.data is next(iter(new.buffer_map.values())).data


def test_renew_defs_of_blocks():
    vi = tir.IterVar((0, 8), "vi", 0)
    c = tir.decl_buffer((8,), name="C")
    region = tir.BufferRegion(c, [Range.from_min_extent(vi.var, 1)])
    inner = tir.Block([vi], [], [region], "c", tir.BufferStore(c, 1.0, [vi.var]))
    body = tir.For(i, 0, 8, 0, tir.BlockRealize([i], True, inner))
    func = tir.PrimFunc([], tir.BlockRealize([], True, tir.Block([], [], [], "root", body, alloc_buffers=[c])))
    new = renew_defs(func)
    root = new.body.block
    block = root.body.body.block
    assert root.alloc_buffers[0] is not c and block.writes[0].buffer is root.alloc_buffers[0]
    assert block.iter_vars[0].var is not vi.var and block.body.indices[0] is block.iter_vars[0].var
    assert structural_equal(func, new)


class AddToSub(StmtExprMutator):
    def visit_add_(self, op):
        return tir.Sub(self.visit_expr(op.a), self.visit_expr(op.b))


class CountLoads(StmtExprVisitor):
    def __init__(self):
        super().__init__()
        self.loads, self.loops = 0, []

    def visit_buffer_load_(self, op):
        self.loads += 1
        super().visit_buffer_load_(op)

    def visit_for_(self, op):
        self.loops.append(op.loop_var.name)
        self.visit_stmt(op.body)


def test_mutator_override():
    out = AddToSub().visit_stmt(nest())
    assert str(out.body.body.value) == "A[i, j] - T.float32(1)"
    stmt = tir.Evaluate(i * 2)
    assert AddToSub().visit_stmt(stmt) is stmt


def test_visitor_override():
    counter = CountLoads()
    counter.visit_stmt(nest())
    assert (counter.loads, counter.loops) == (1, ["i", "j"])


def test_override_on_a_deep_expression_does_not_overflow():
    e = i
    for k in range(3 * sys.getrecursionlimit()):
        e = tir.Add(e, tir.const(k))
    out = AddToSub().visit_expr(e)
    assert isinstance(out, tir.Sub) and isinstance(out.a, tir.Sub)


def test_shared_part_is_visited_once():
    e = tir.decl_buffer((4,), name="A")[i]
    for _ in range(50):
        e = e * e
    counter = CountLoads()
    counter.visit_expr(e)
    assert counter.loads == 1

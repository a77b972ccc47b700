"""Inlining: a tensor read at one place is one value, however many operations read it there."""

from __future__ import annotations

import pytest

import tvm
from tvm import te
from tvm.ir.visit import post_order


def chain(steps: int, step):
    """``step`` of the tensor before, again and again, all but the last inlined."""
    a = te.placeholder((16,), name="a")
    made = [a]
    for k in range(steps):
        made.append(te.compute((16,), lambda i, x=made[-1]: step(x, i), name=f"t{k}"))
    s = te.create_schedule(made[-1].op)
    for t in made[1:-1]:
        s[t].compute_inline()
    return s, [a, made[-1]]


def size_of_body(s) -> int:
    (stage,) = [x for x in s.normalize().stages if isinstance(x.op, te.ComputeOp)]
    return sum(1 for _ in post_order(stage.op.body[0]))


@pytest.mark.parametrize("step", [
    lambda x, i: x[i] * te.sigmoid(x[i]),
    lambda x, i: te.if_then_else(i < 3, x[i], x[i] + 1.0),
    lambda x, i: x[15 - i] * x[15 - i],
], ids=["at its own place", "in two branches", "elsewhere"])  # fmt: skip
def test_an_inlined_body_has_as_many_nodes_as_operations(step):
    small, large = (size_of_body(chain(n, step)[0]) for n in (10, 20))
    assert large < 2.1 * small


def test_values_reached_by_different_ways_are_one():
    a = te.placeholder((16,), name="a")
    b = te.compute((16,), lambda i: te.exp(a[i]), name="b")
    left = te.compute((16,), lambda j: b[j] + 1.0, name="left")
    right = te.compute((16,), lambda k: b[k] * 2.0, name="right")
    out = te.compute((16,), lambda i: left[i] / right[i], name="out")
    s = te.create_schedule(out.op)
    for t in (b, left, right):
        s[t].compute_inline()
    body = s.normalize().stages[-1].op.body[0]
    assert sum(1 for n in post_order(body) if isinstance(n, tvm.tir.Call) and n.op.name == "tir.exp") == 1
    text = tvm.build(s, [a, out], "c").get_source()
    assert text.count("expf(") == 1


def test_a_long_chain_is_inlined_without_recursion():
    s, _ = chain(3000, lambda x, i: x[i] + x[i])
    assert size_of_body(s) < 4 * 3000


def test_what_is_read_through_a_replaced_tensor_is_the_new_one():
    a = te.placeholder((16,), name="a")
    b = te.compute((16,), lambda i: a[i] + 1.0, name="b")
    c = te.compute((16,), lambda i: b[i] * b[i], name="c")
    d = te.compute((16,), lambda i: c[i] - b[i], name="d")
    s = te.create_schedule(d.op)
    cache = s.cache_read(a, "global", [b])
    s[b].compute_inline()
    s[c].compute_inline()
    stages = s.normalize().stages
    assert [x.op.name for x in stages] == ["a", "a.global", "d"]
    assert [n.producer for n in post_order(stages[-1].op.body[0]) if hasattr(n, "producer")] == [cache]


def test_printing_hashing_saving_and_counting_take_shared_values_once():
    (s, args), (t, others) = (chain(60, lambda x, i: x[i] * te.sigmoid(x[i])) for _ in range(2))
    mod, other = tvm.lower(s, args), tvm.lower(t, others)
    assert tvm.ir.structural_equal(mod, other) and tvm.ir.structural_hash(mod) == tvm.ir.structural_hash(other)
    assert tvm.ir.structural_equal(tvm.ir.load_json(tvm.ir.save_json(mod)), mod)
    assert len(mod.script()) < 60 * 200
    assert tvm.tir.analysis.estimate_tir_flops(mod) <= 16 * 60 * 3
    for pass_ in (tvm.tir.transform.CommonSubexprElimTIR(), tvm.tir.transform.ConvertSSA()):
        assert sum(1 for _ in post_order(pass_(mod)["main"].body)) < 60 * 20

"""What bounds fusion: the number of operators, arguments of a device, and marks in the graph."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.ir.visit import post_order
from tvm.relay import transform
from tvm.relay.testing import run_opt_pass


def kernels(func):
    """Operators of each kernel, in the order they run."""
    return [
        [n.op.name for n in post_order(call.op.body) if isinstance(n, relay.Call)]
        for call in post_order(func.body)
        if isinstance(call, relay.Call) and isinstance(call.op, relay.Function)
    ]


def chain(n):
    x = relay.var("x", shape=(10, 20))
    y = x
    for _ in range(n):
        y = relay.exp(y)
    return relay.Function([x], y)


@pytest.mark.parametrize("n, depth, wanted", [(20, 10, [10, 10]), (5, 2, [2, 2, 1]), (3, 1, [1, 1, 1])])
def test_a_kernel_has_at_most_max_depth_operators(n, depth, wanted):
    with tvm.transform.PassContext(config={"relay.FuseOps.max_depth": depth}):
        assert [len(k) for k in kernels(run_opt_pass(chain(n), transform.FuseOps()))] == wanted


def test_by_default_a_kernel_has_at_most_256_operators():
    assert [len(k) for k in kernels(run_opt_pass(chain(300), transform.FuseOps()))] == [256, 44]


def test_a_mark_divides_kernels_and_leaves_no_copy_behind():
    x = relay.var("x", shape=(10, 20))
    func = relay.Function([x], relay.exp(relay.annotation.stop_fusion(x + relay.const(1.0))))
    assert kernels(run_opt_pass(func, transform.FuseOps())) == [["add"], ["exp"]]
    value = np.random.default_rng(0).random((10, 20), "float32")
    got = relay.create_executor("graph", target="llvm").evaluate(func)(value).numpy()
    np.testing.assert_allclose(got, np.exp(value + 1), rtol=1e-5)


@pytest.mark.parametrize("target, most", [("opencl", 128), ("metal", 31)])
def test_kernels_have_no_more_arguments_than_the_device_takes(target, most):
    inputs = [relay.var(f"x{i}", shape=(10, 20)) for i in range(300)]
    total = relay.exp(inputs[0])
    for x in inputs[1:]:
        total = total + relay.exp(x)
    with tvm.target.Target(target), tvm.transform.PassContext(config={"relay.FuseOps.max_depth": 2000}):
        fused = run_opt_pass(relay.Function(inputs, total), transform.FuseOps())
    counts = [
        len(n.op.params) + 1
        for n in post_order(fused.body)
        if isinstance(n, relay.Call) and isinstance(n.op, relay.Function)
    ]
    assert max(counts) == most
    assert sum(k.count("exp") for k in kernels(fused)) == 300


def shared_size(_):
    return (SIZE, 20)


SIZE = tvm.tir.SizeVar("n", "int32")


@pytest.mark.parametrize("target, most", [("opencl", 128), ("metal", 31)])
@pytest.mark.parametrize("shape, sizes", [(lambda _: (relay.Any(), 20), lambda n: n), (shared_size, lambda n: 1)])
def test_dynamic_dimensions_are_arguments_too(target, most, shape, sizes):
    inputs = [relay.var(f"x{i}", shape=shape(i)) for i in range(140)]
    total = relay.exp(inputs[0])
    for x in inputs[1:]:
        total = total + relay.exp(x)
    with tvm.target.Target(target), tvm.transform.PassContext(config={"relay.FuseOps.max_depth": 2000}):
        fused = run_opt_pass(relay.Function(inputs, total), transform.FuseOps())
    calls = [n for n in post_order(fused.body) if isinstance(n, relay.Call) and isinstance(n.op, relay.Function)]
    tensors = [len(call.op.params) + 1 for call in calls]
    assert most - 1 <= max(n + sizes(n) for n in tensors) <= most
    assert sum(k.count("exp") for k in kernels(fused)) == 140


@pytest.mark.parametrize("link", [False, True])
@pytest.mark.parametrize("op, indices", [
    (lambda data, where: relay.take(data, where), [0]),
    (lambda data, where: relay.gather_nd(data, where), [[0, 1], [1, 0]]),
])  # fmt: skip
def test_indices_are_parameters_or_linked_whatever_the_type_of_sizes(op, indices, link):
    def size(n):
        return tvm.tir.const(n, "int64")

    x, table = relay.var("x", shape=(size(10), size(1))), relay.const(indices, dtype="int64")
    func = relay.Function([x], op(relay.concatenate([x, x], axis=-1), table))
    p = relay.var("p", shape=(size(10), size(1)))
    q = relay.var("q", shape=[size(n) for n in np.shape(indices)], dtype="int64")
    inner = relay.Function([p] if link else [p, q], op(relay.concatenate([p, p], axis=-1), table if link else q))
    wanted = relay.Function([x], inner.with_attr("Primitive", 1)(*([x] if link else [x, table])))
    with tvm.transform.PassContext(opt_level=2, config={"relay.FuseOps.link_params": link}):
        fused = run_opt_pass(func, transform.FuseOps())
    tvm.ir.assert_structural_equal(fused, run_opt_pass(wanted, transform.InferType()))


def linked(link):
    x = relay.var("x", shape=(4, 3))
    table = relay.const(np.array([[2, 0], [1, 1]], "int64"))
    func = relay.Function([x], relay.take(relay.nn.relu(x), table, axis=1))
    with tvm.transform.PassContext(opt_level=2, config={"relay.FuseOps.link_params": link}):
        return func, run_opt_pass(func, transform.FuseOps())


@pytest.mark.parametrize("link", [False, True])
def test_constants_are_inside_kernels_where_that_is_asked_for(link):
    func, fused = linked(link)
    inside = [n for n in post_order(fused.body.op.body) if isinstance(n, relay.Constant)]
    assert len(inside) == link and len(fused.body.args) == 2 - link
    value = np.random.default_rng(1).standard_normal((4, 3)).astype("float32")
    wanted = np.maximum(value, 0)[:, [[2, 0], [1, 1]]]
    for f in (func, fused):
        with tvm.transform.PassContext(opt_level=3, config={"relay.FuseOps.link_params": link}):
            got = relay.create_executor("graph", target="llvm").evaluate(f)(value).numpy()
        np.testing.assert_array_equal(got, wanted)

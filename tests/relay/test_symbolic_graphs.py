"""Graphs with unknown sizes: named, optimised, fused, and run kernel by kernel beside their static builds."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tvm
from tests.relay.symbolic_kernels import SymbolicKernel, primitive, run_graph
from tvm import relay
from tvm.relay.backend.te_compiler import KernelCompiler
from tvm.relay.substitute import substitute_vars
from tvm.relay.transform.name_sizes import NameSizes
from tvm.runtime.container import ADT
from tvm.target import Target

rng = np.random.default_rng(5)


def f32(*shape):
    return rng.standard_normal(shape).astype("float32")


def weight(*shape):
    return relay.const(f32(*shape) * 0.2)


def unknown(name, *shape):
    return relay.var(name, shape=[relay.Any() if d is None else d for d in shape])


def perceptron():
    x = unknown("x", None, 8)
    return [x], relay.nn.softmax(relay.nn.dense(relay.nn.relu(relay.nn.dense(x, weight(16, 8))), weight(4, 16)))


def convolutions():
    x = unknown("x", None, 3, None, None)
    y = relay.nn.conv2d(x, weight(16, 3, 3, 3), padding=(1, 1), strides=2)
    y = relay.nn.batch_norm(y, weight(16), weight(16), weight(16), relay.const(np.abs(f32(16)) + 1))[0]
    y = relay.nn.relu(y)
    z = relay.nn.relu(relay.nn.conv2d(y, weight(16, 1, 3, 3), groups=16, padding=(1, 1)))
    z = relay.nn.max_pool2d(relay.add(relay.nn.conv2d(z, weight(16, 16, 1, 1)), y), (2, 2), (2, 2))
    return [x], relay.nn.dense(relay.nn.batch_flatten(relay.nn.global_avg_pool2d(z)), weight(10, 16))


def attention():
    x = unknown("x", None, None, 32)

    def linear(value):
        made = relay.nn.dense(relay.reshape(value, (-1, 32)), weight(32, 32))
        return relay.reshape_like(relay.nn.bias_add(made, weight(32), axis=-1), x, 0, 1, 0, 2)

    def heads(value):
        return relay.reshape(relay.transpose(relay.reshape(value, (0, 0, 4, 8)), (0, 2, 1, 3)), (-3, 0, 0))

    scores = relay.nn.softmax(relay.nn.batch_matmul(heads(linear(x)), heads(linear(x))))
    mixed = relay.nn.batch_matmul(scores, heads(linear(x)), transpose_b=False)
    mixed = relay.transpose(relay.reshape(mixed, (-4, -1, 4, 0, 0)), (0, 2, 1, 3))
    mixed = linear(relay.reshape(mixed, (0, 0, -1)))
    return [x], relay.nn.layer_norm(relay.add(mixed, x), weight(32), weight(32))


def joined():
    x, y = unknown("x", None, 7), unknown("y", None, 7)
    z = relay.concatenate([x, y], 0)
    return [x, y], relay.Tuple([relay.sum(z, 0), relay.reshape(z, (-1,)), relay.tanh(relay.add(z, z))])


GRAPHS = {
    perceptron: [[(3, 8)], [(1, 8)], [(0, 8)]],
    convolutions: [[(2, 3, 16, 20)], [(1, 3, 15, 9)]],
    attention: [[(2, 5, 32)], [(1, 17, 32)]],
    joined: [[(2, 7), (3, 7)], [(0, 7), (1, 7)]],
}


def static(params, body, arrays):
    own = [relay.var(p.name_hint, shape=a.shape) for p, a in zip(params, arrays)]
    function = relay.Function(own, substitute_vars(body, dict(zip(params, own))))
    got = relay.create_executor("graph", tvm.IRModule.from_expr(function)).evaluate()(*arrays)
    return [o.numpy() for o in (got if isinstance(got, (list, ADT)) else [got])]


@pytest.mark.slow("compiles a network for dynamic shapes and for each size")
@pytest.mark.parametrize("graph", GRAPHS, ids=lambda g: g.__name__)
def test_a_graph_is_compiled_once_for_all_sizes(graph):
    params, body = graph()
    mod, compiled = tvm.IRModule.from_expr(relay.Function(params, body)), {}
    for shapes in GRAPHS[graph]:
        arrays = [f32(*s) for s in shapes]
        got = run_graph(mod, arrays, compiled=compiled)
        for g, w in zip(got, static(params, body, arrays), strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-3, atol=1e-4)


def test_sizes_are_named_and_computed_with():
    x, y = unknown("x", None, 7), unknown("y", None, None)
    body = relay.concatenate([x, y], 0)
    main = NameSizes()(tvm.IRModule.from_expr(relay.Function([x, y], body)))["main"]
    # What is concatenated along rows has as many columns.
    assert [str(d) for d in main.params[1].checked_type.shape] == ["n1", "7"]
    assert str(main.ret_type.shape[0]) == "n0 + n1"


def test_a_function_is_called_with_sizes_of_its_own():
    x = unknown("x", None)
    mod = tvm.IRModule()
    half = relay.GlobalVar("joined")
    mod[half] = relay.Function([x], relay.concatenate([x, x], 0))
    z = unknown("z", None)
    mod["main"] = relay.Function([z], half(relay.concatenate([z, relay.const(f32(3))], 0)))
    typed = NameSizes()(mod)
    analyzer, (n,) = tvm.arith.Analyzer(), typed["main"].params[0].checked_type.shape
    assert analyzer.can_prove_equal(typed["main"].body.checked_type.shape[0], 2 * n + 6)


def test_branches_of_different_sizes_have_an_unknown_one():
    x, y = unknown("x", None), unknown("y", None)
    flag = relay.var("flag", shape=(), dtype="bool")
    main = relay.Function([flag, x, y], relay.If(flag, x, y))
    typed = NameSizes()(tvm.IRModule.from_expr(main))["main"]
    assert str(typed.body.checked_type) == "Tensor[(?), float32]"


def test_matmuls_with_packed_weights_take_any_number_of_rows():
    """In tiles with a guarded rest, which are small where there are few."""
    x, w, b = unknown("x", None, 40), f32(27, 40), f32(27)
    body = relay.nn.relu(relay.nn.bias_add(relay.nn.dense(x, relay.const(w)), relay.const(b), axis=-1))
    mod, compiled = tvm.IRModule.from_expr(relay.Function([x], body)), {}
    with tvm.transform.PassContext(opt_level=3):
        for rows in (0, 1, 3, 4, 5, 16, 47):
            data = f32(rows, 40)
            (got,) = run_graph(mod, [data], compiled=compiled)
            np.testing.assert_allclose(got, np.maximum(data @ w.T + b, 0), rtol=1e-4, atol=1e-4)
    (kernel,) = [k for k in compiled.values() if hasattr(k, "kernel")]
    assert kernel.kernel.operators[0] == "nn.contrib_dense_pack"
    assert "if n0 < T.int64(2)" in str(kernel.kernel.module)


@pytest.mark.parametrize("cpu, is_class", [("aarch64-linux-gnu -mcpu=neoverse-n1", False),
                                           ("x86_64-linux-gnu -mcpu=skylake-avx512", True)])  # fmt: skip
def test_few_rows_are_a_class_where_tiles_have_more(cpu, is_class):
    """Tiles of 4 rows on NEON are as small as those for few rows."""
    x, w = unknown("x", None, 64), relay.var("w", shape=(4, 64, 16))
    dense = primitive(relay.nn.contrib_dense_pack, [x.type_annotation, w.type_annotation])
    text = str(KernelCompiler(Target(f"llvm -mtriple={cpu}")).lower(dense).module)
    assert "if n0 < T.int64(2)" in text and ("n0 < T.int64(5)" in text) is is_class


@pytest.mark.parametrize("axis, shape, wanted", [(1, (None, 64), "T.int64(256) <= n0"),
                                                 (1, (3, None, 64), "T.int64(86) <= n0")])  # fmt: skip
def test_all_that_a_reduction_reads_wakes_threads(axis, shape, wanted):
    """Along rows in vectors, and across them."""
    x = unknown("x", *shape)
    kernel = SymbolicKernel(primitive(lambda x: relay.sum(x, axis), [x.type_annotation]))
    assert f'"pragma_parallel_if", {wanted}' in str(kernel.kernel.module)
    data = f32(*(d or 300 for d in shape))
    np.testing.assert_allclose(kernel.run(data)[0], data.sum(axis), rtol=1e-4, atol=1e-4)


def test_small_tensors_of_unknown_size_wake_no_thread():
    x = unknown("x", None, None)
    kernel = SymbolicKernel(primitive(relay.tanh, [x.type_annotation]))
    text = str(kernel.kernel.module)
    # The loop is there once, and decides when it starts.
    assert re.search(r'"pragma_parallel_if", T.int64\(16384\) <= n0 \* n1', text) and text.count("T.parallel") == 1
    for shape in ((3, 5), (130, 140)):
        data = f32(*shape)
        np.testing.assert_allclose(kernel.run(data)[0], np.tanh(data), rtol=1e-5, atol=1e-6)

"""oneDNN partitions give the results of our kernels: operators with random sizes, epilogues, int8, networks, threads.

``python -m tools test dnnl`` runs these tests in an environment with oneDNN; without it they are skipped, except the
tests of partitioning.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading

import numpy as np
import pytest

import tvm
from tests import dnnl_library
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay import testing
from tvm.relay.backend.external import summarize
from tvm.relay.op.contrib import dnnl

qnn = relay.qnn.op


def const(rng, *shape, scale=0.3):
    return relay.const((rng.standard_normal(shape) * scale).astype("float32"))


def module(body):
    return tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body))


def run(mod, value, params=None):
    lib = relay.build(mod, "llvm", params=params)
    runner = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    (name,) = (v.name_hint for v in mod["main"].params if v.name_hint not in (params or {}))
    runner.run(**{name: value})
    return runner.get_output(0).numpy()


def compiled_by_dnnl(mod):
    """The operators of all partitions, in order."""
    return [name for part in summarize(mod).partitions for name in part.operators]


def check(body, value, parts=1, tolerance=1e-4):
    """Compare with our kernels; return the partitioned module."""
    dnnl_library.use()
    mod = module(body)
    partitioned = dnnl.partition_for_dnnl(mod)
    assert len(summarize(partitioned).partitions) == parts
    np.testing.assert_allclose(run(partitioned, value), run(mod, value), rtol=tolerance, atol=tolerance)
    return partitioned


def gelu(x):
    total = relay.erf(relay.divide(x, relay.const(np.float32(2**0.5)))) + relay.const(np.float32(1))
    return x * total * relay.const(np.float32(0.5))


@pytest.mark.parametrize("case", range(8))
def test_convolutions_of_random_sizes(case, seed):
    pick = random.Random(f"{seed} {case}")
    rng = np.random.default_rng(pick.randrange(10**9))
    groups = pick.choice([1, 1, 2, 5])
    n, c, o = pick.randint(1, 3), groups * pick.randint(1, 6), groups * pick.randint(1, 7)
    spatial = [pick.randint(7, 15) for _ in range(pick.choice([1, 2, 2, 3]))]
    dims = len(spatial)
    kernel = [pick.randint(1, 3) for _ in spatial]
    options = {
        "strides": [pick.randint(1, 2) for _ in spatial],
        "padding": [pick.randint(0, 1) for _ in range(2 * dims)],
        "dilation": [pick.randint(1, 2) for _ in spatial],
    }
    letters = "DHW"[3 - dims :]
    last = groups == 1 and dims == 2 and pick.random() < 0.5
    data = (n, *spatial, c) if last else (n, c, *spatial)
    weights = (*kernel, c, o) if last else (o, c // groups, *kernel)
    layouts = ("NHWC", "HWIO") if last else ("NC" + letters, "OI" + letters)
    x = relay.var("x", shape=data)
    conv = getattr(relay.nn, f"conv{dims}d")
    body = conv(x, const(rng, *weights), groups=groups, data_layout=layouts[0], kernel_layout=layouts[1],
                channels=o, kernel_size=kernel, **options)  # fmt: skip
    if pick.random() < 0.7:
        body = relay.nn.bias_add(body, const(rng, o), axis=-1 if last else 1)
    body = pick.choice([relay.nn.relu, relay.sigmoid, relay.tanh, lambda e: relay.clip(e, -0.5, 0.7), lambda e: e])(
        body
    )
    check(body, rng.standard_normal(data).astype("float32"))


@pytest.mark.parametrize("case", range(6))
def test_matmuls_of_random_sizes(case, seed):
    pick = random.Random(f"{seed} {case}")
    rng = np.random.default_rng(pick.randrange(10**9))
    m, k, n, b = (pick.randint(1, 33) for _ in range(4))
    if case % 2:
        x = relay.var("x", shape=(m, k))
        body, shape = relay.nn.dense(x, const(rng, n, k)), (m, k)
    else:
        a, c = pick.random() < 0.5, pick.random() < 0.5
        shape = (b, k, m) if a else (b, m, k)
        weights = (pick.choice([1, b]), *((n, k) if c else (k, n)))
        x = relay.var("x", shape=shape)
        body = relay.nn.batch_matmul(x, const(rng, *weights), transpose_a=a, transpose_b=c)
    if pick.random() < 0.7:
        body = body + const(rng, n)
    if pick.random() < 0.5:
        body = gelu(body)
    check(body, rng.standard_normal(shape).astype("float32"))


def test_operands_of_a_matmul_that_are_no_constants():
    rng = np.random.default_rng(3)
    x = relay.var("x", shape=(3, 5, 8))
    scores = relay.nn.softmax(relay.nn.batch_matmul(x, relay.tanh(x)))
    mod = check(relay.nn.batch_matmul(scores, x, transpose_b=False), rng.standard_normal((3, 5, 8)).astype("float32"))
    assert compiled_by_dnnl(mod).count("nn.batch_matmul") == 2


def test_sums_and_pools_stay_in_the_layout_of_the_convolutions():
    rng = np.random.default_rng(4)
    x = relay.var("x", shape=(2, 3, 17, 15))
    y = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, const(rng, 20, 3, 3, 3), padding=(1, 1)), const(rng, 20)))
    y = relay.nn.max_pool2d(y, (3, 3), strides=(2, 2), padding=(1, 1), ceil_mode=True)
    z = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(y, const(rng, 20, 20, 1, 1)), const(rng, 20)) + y)
    z = relay.nn.avg_pool2d(z, (3, 2), strides=(2, 1), padding=(1, 0, 1, 1), count_include_pad=True)
    z = relay.multiply(z, const(rng, 20, 1, 1))
    mod = check(relay.nn.global_avg_pool2d(z), rng.standard_normal((2, 3, 17, 15)).astype("float32"))
    composites = [
        str(e.op.attrs["Composite"])
        for f in mod.functions.values()
        for e in tvm.ir.visit.post_order(f)
        if isinstance(e, relay.Call) and isinstance(e.op, relay.Function)
    ]
    assert composites == ["dnnl.conv2d_bias_relu", "dnnl.conv2d_bias_sum_relu"]


@pytest.mark.parametrize("relu", [False, True])
def test_a_sum_without_bias_is_part_of_the_convolution_unless_it_depends_on_it(relu):
    rng = np.random.default_rng(8)
    x = relay.var("x", shape=(1, 6, 9, 9))
    value = rng.standard_normal((1, 6, 9, 9)).astype("float32")
    conv = relay.nn.conv2d(x, const(rng, 6, 6, 3, 3), padding=(1, 1))
    end = relay.nn.relu if relu else lambda e: e
    check(end(relay.sigmoid(x) + conv), value)
    check(end(conv + relay.sigmoid(conv)), value)
    check(end(conv + relay.nn.conv2d(x, const(rng, 6, 6, 1, 1))), value)


def quantized_network(rng, data="uint8"):
    """Two quantized convolutions, one of them depthwise, and a quantized dense layer."""

    def k(value, dtype="float32"):
        return relay.const(np.array(value, dtype))

    def weights(*shape):
        return relay.const(rng.integers(-100, 100, shape).astype("int8"))

    zero = 13 if data == "uint8" else -5
    scales = (rng.random(12) * 0.01 + 0.002).astype("float32")
    x = relay.var("x", shape=(1, 8, 9, 7), dtype=data)
    y = qnn.conv2d(
        x, weights(12, 8, 3, 3), k(zero, "int32"), k(0, "int32"), k(0.05), k(scales), (3, 3), 12, padding=(1, 1)
    )
    y = relay.nn.bias_add(y, relay.const(rng.integers(-1000, 1000, 12).astype("int32")))
    y = qnn.requantize(y, k(scales * 0.05), k(0, "int32"), k(0.4), k(7, "int32"), axis=1, out_dtype="uint8")
    y = relay.clip(y, 9, 200)
    z = qnn.conv2d(y, weights(12, 1, 3, 3), k(7, "int32"), k(0, "int32"), k(0.4), k(scales), (3, 3), 12,
                   groups=12, padding=(1, 1), strides=(2, 2))  # fmt: skip
    z = qnn.requantize(z, k(scales * 0.4), k(0, "int32"), k(0.5), k(-3, "int32"), axis=1, out_dtype="int8")
    d = qnn.dense(relay.nn.batch_flatten(z), weights(10, 240), k(-3, "int32"), k(0, "int32"), k(0.5), k(0.01), units=10)
    d = qnn.requantize(d, k(0.005), k(0, "int32"), k(4.0), k(2, "int32"), out_dtype="int8")
    value = rng.integers(0, 255, (1, 8, 9, 7)) if data == "uint8" else rng.integers(-128, 127, (1, 8, 9, 7))
    return d, value.astype(data)


@pytest.mark.parametrize("data", ["uint8", "int8"])
def test_quantized_networks(data, seed):
    body, value = quantized_network(np.random.default_rng(seed), data)
    # Values half way between two integers may be rounded in another direction.
    mod = check(body, value, parts=2, tolerance=1.01)
    assert compiled_by_dnnl(mod).count("qnn.requantize") == 3


@pytest.mark.slow("compiles a ResNet-18 with both")
def test_resnet18():
    dnnl_library.use()
    mod, params = testing.resnet.get_workload(num_layers=18, batch_size=1, image_shape=(3, 64, 64))
    partitioned = dnnl.partition_for_dnnl(mod, params)
    assert compiled_by_dnnl(partitioned).count("nn.conv2d") == 21
    value = np.random.default_rng(1).standard_normal((1, 3, 64, 64)).astype("float32")
    np.testing.assert_allclose(run(partitioned, value), run(mod, value, params), rtol=1e-4, atol=1e-6)


def test_a_transformer_layer():
    rng = np.random.default_rng(5)
    length, heads, width = 7, 2, 12

    def dense(x, outputs):
        inputs = int(relay.transform.InferTypeLocal(x).shape[-1])
        return relay.nn.dense(x, const(rng, outputs, inputs)) + const(rng, outputs)

    def split(x):
        return relay.transpose(relay.reshape(x, (length, heads, -1)), (1, 0, 2))

    def norm(x):
        return relay.nn.layer_norm(x, const(rng, width), const(rng, width))

    x = relay.var("x", shape=(length, width))
    q, k, v = (split(dense(x, width)) for _ in range(3))
    attention = relay.nn.batch_matmul(relay.nn.softmax(relay.nn.batch_matmul(q, k)), v, transpose_b=False)
    y = norm(dense(relay.reshape(relay.transpose(attention, (1, 0, 2)), (length, width)), width) + x)
    z = norm(dense(gelu(dense(y, 31)), width) + y)
    dnnl_library.use()
    mod = module(z)
    partitioned = dnnl.partition_for_dnnl(mod)
    names = compiled_by_dnnl(partitioned)
    assert names.count("nn.dense") == 6 and names.count("nn.batch_matmul") == 2 and "erf" in names
    value = rng.standard_normal((length, width)).astype("float32")
    np.testing.assert_allclose(run(partitioned, value), run(mod, value), rtol=1e-4, atol=1e-4)


def test_unsupported_operators_are_left_to_the_target():
    x = relay.var("x", shape=(1, 4, 8, 8))
    rng = np.random.default_rng(6)
    dynamic = relay.nn.conv2d(x, relay.var("w", shape=(4, 4, 3, 3)))  # no constant weights
    double = relay.nn.conv2d(relay.cast(x, "float64"), relay.const(rng.random((4, 4, 3, 3))))
    for body in (dynamic, double, relay.erf(x), relay.nn.relu(x)):
        assert not summarize(dnnl.partition_for_dnnl(module(body))).partitions
    unpruned = dnnl.partition_for_dnnl(module(relay.nn.relu(x)), prune_subgraphs=False)
    assert compiled_by_dnnl(unpruned) == ["nn.relu"]


def test_alter_layout_false_is_refused():
    with pytest.raises(ValueError, match="alter_layout=False is not supported"):
        dnnl.partition_for_dnnl(module(relay.var("x", shape=(1,))), alter_layout=False)


def test_threads_run_one_partition():
    dnnl_library.use()
    rng = np.random.default_rng(7)
    x = relay.var("x", shape=(4, 9))
    body = relay.nn.softmax(relay.nn.dense(relay.nn.relu(relay.nn.dense(x, const(rng, 8, 9))), const(rng, 5, 8)))
    lib = relay.build(dnnl.partition_for_dnnl(module(body)), "llvm")
    values = [rng.standard_normal((4, 9)).astype("float32") for _ in range(4)]
    expected = [run(module(body), value) for value in values]
    failures = []

    def work(value, want):
        runner = graph_executor.GraphModule(lib["default"](tvm.cpu()))
        for _ in range(20):
            runner.run(x=value)
            if not np.allclose(runner.get_output(0).numpy(), want, atol=1e-5):
                failures.append(value)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(values, expected)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_run_without_the_library_names_the_package(tmp_path):
    """A package of a model is loaded in a process in which TVM_DNNL_LIBRARY names no library."""
    x = relay.var("x", shape=(2, 3))
    mod = dnnl.partition_for_dnnl(module(relay.nn.dense(x, relay.const(np.ones((4, 3), "float32")))))
    path = str(tmp_path / "model.so")
    relay.build(mod, "llvm").export_library(path)
    program = (
        "import sys, numpy, tvm; from tvm.contrib import graph_executor\n"
        "g = graph_executor.GraphModule(tvm.runtime.load_module(sys.argv[1])['default'](tvm.cpu()))\n"
        "g.run(x=numpy.ones((2, 3), 'float32')); print(g.get_output(0).numpy().ravel())"
    )

    def start(library):
        environment = {**os.environ, "TVM_DNNL_LIBRARY": library}
        return subprocess.run([sys.executable, "-c", program, path], env=environment, capture_output=True, text=True)

    failed = start(str(tmp_path / "absent.so"))
    assert failed.returncode and "install the package onednn-cpu-gomp" in failed.stderr
    assert "dnnl.nn.dense" in failed.stderr
    old = tmp_path / "old.c"
    old.write_text("int version[3] = {2, 6, 3}; int *dnnl_version(void) { return version; }")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "old.so", old], check=True)
    failed = start(str(tmp_path / "old.so"))
    assert "oneDNN 2.6.3 is not supported; version 3 is needed" in failed.stderr
    if dnnl_library.found():
        assert start(dnnl_library.found()).stdout.split() == ["[3.", "3.", "3.", "3.", "3.", "3.", "3.", "3.]"]

"""Every template schedules every shape: operators of random sizes, types and targets become kernels. Sizes below a
tile, and sizes that no tile divides, are drawn as often as others."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.relay.backend.te_compiler import KernelCompiler
from tvm.relay.pipeline import fusion

TARGETS = ["cuda -arch=sm_75", "cuda -arch=sm_80", "cuda -arch=sm_90a", "opencl"]
CASES = int(os.environ.get("TVM_FUZZ_CASES", 24)) // 4
BATCHES, SIZES = (1, 2, 3, 7, 8, 16, 33, 64, 128), (1, 2, 3, 5, 7, 8, 14, 17, 28)
CHANNELS = (1, 2, 3, 4, 6, 8, 10, 12, 15, 16, 20, 24, 28, 32, 40, 48, 64, 80, 96, 112)


def constant(pick: random.Random, *shape: int) -> relay.Constant:
    values = np.random.default_rng(pick.randrange(1 << 30)).uniform(-1, 1, shape)
    return relay.const(values.astype("float32"))


def epilogue(pick: random.Random, e, width: int, axis: int):
    if pick.random() < 0.7:
        e = relay.nn.bias_add(e, constant(pick, width), axis=axis)
    return pick.choice((relay.nn.relu, relay.sigmoid, lambda x: x * relay.sigmoid(x), lambda x: x))(e)


def convolution(pick: random.Random):
    groups = pick.choice((1, 1, 1, 2, 4))
    channels, filters = (pick.choice(CHANNELS) * groups for _ in range(2))
    if pick.random() < 0.15:
        filters = groups = channels
    height, width, kernel = pick.choice(SIZES), pick.choice(SIZES), pick.choice((1, 1, 1, 3, 5))
    x = relay.var("x", shape=(pick.choice(BATCHES), channels, height, width))
    e = relay.nn.conv2d(
        x,
        constant(pick, filters, channels // groups, kernel, kernel),
        kernel_size=(kernel, kernel),
        channels=filters,
        strides=pick.choice(((1, 1), (1, 1), (2, 2))),
        padding=(kernel // 2,) * 4,
        groups=groups,
    )
    return [x], epilogue(pick, e, filters, 1)


def dense(pick: random.Random):
    rows, k, units = pick.choice(BATCHES), pick.choice(CHANNELS), pick.choice(CHANNELS) * pick.choice((1, 1, 10))
    x = relay.var("x", shape=(rows, k))
    return [x], epilogue(pick, relay.nn.dense(x, constant(pick, units, k)), units, -1)


def batch_matmul(pick: random.Random):
    batch, m, n, k = pick.choice(BATCHES[:6]), *(pick.choice(CHANNELS) for _ in range(3))
    x, y = relay.var("x", shape=(batch, m, k)), relay.var("y", shape=(batch, n, k))
    return [x, y], epilogue(pick, relay.nn.batch_matmul(x, y), n, -1)


def draw(pick: random.Random) -> tvm.IRModule:
    mod = tvm.IRModule.from_expr(relay.Function(*pick.choice((convolution, convolution, dense, batch_matmul))(pick)))
    mod = relay.transform.InferType()(mod)
    return relay.transform.ToMixedPrecision("float16")(mod) if pick.random() < 0.7 else mod


@pytest.mark.parametrize("number", range(CASES))
@pytest.mark.parametrize("kind", TARGETS)
def test_operators_of_any_shape_are_scheduled(kind, number, seed):
    pick = random.Random(f"{seed} {kind} {number}")
    mod = draw(pick)
    print(mod)
    target = tvm.target.Target(kind, host="llvm")
    with tvm.transform.PassContext(opt_level=3), target:
        mod = tvm.transform.Sequential(fusion(target))(relay.optimize(mod, target)[0])
        compiler = KernelCompiler(target)
        found = []

        def visit(e):
            if isinstance(e, relay.Call) and isinstance(e.op, relay.Function):
                found.append(compiler.lower(e.op))

        relay.analysis.post_order_visit(mod["main"], visit)
        assert found
        for kernel in found:
            assert len(kernel.module)

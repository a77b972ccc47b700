"""Quantized operators with unknown sizes on the virtual machine, beside the same with known sizes: exactly equal.

A part of the rows is tried in each run, another with each commit; ``python -m tools test symbolic`` tries all of them.
"""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.ir.op import OPS

qnn = relay.qnn.op
SAMPLE = 2
F, I = (lambda v: relay.const(v, "float32")), (lambda v: relay.const(v, "int32"))
IN, OUT = (F(0.05), I(3)), (F(0.07), I(-2))
BOTH = (I(3), I(0), F(0.05), F(0.02))


def one(name):
    return lambda x: OPS[name].attrs["build"](x, *IN, *OUT)


def two(name):
    return lambda x, y: OPS[name].attrs["build"](x, y, *IN, F(0.03), I(1), *OUT)


# For each operator how it is built, and the shapes of its inputs, of which None is a size that is not known.
ROWS = {
    **{f"qnn.{n}": (one(f"qnn.{n}"), [(None, 5)]) for n in (
        "abs erf exp hardswish log rsqrt sigmoid softmax sqrt tanh").split()},
    **{f"qnn.{n}": (two(f"qnn.{n}"), [(None, 1, 5), (None, 3, 1)]) for n in ("add", "mul", "subtract")},
    "qnn.leaky_relu": (lambda x: qnn.leaky_relu(x, 0.2, *IN, *OUT), [(None, 5)]),
    "qnn.quantize": (lambda x: qnn.quantize(relay.cast(x, "float32"), F(0.7), I(2), out_dtype="uint8"), [(None, 5)]),
    "qnn.dequantize": (lambda x: qnn.dequantize(x, *IN), [(None, None)]),
    "qnn.requantize": (lambda x: qnn.requantize(x, *IN, *OUT, rounding="UPWARD"), [(None, None)]),
    "qnn.simulated_quantize": (
        lambda x: qnn.simulated_quantize(relay.cast(x, "float32"), F(0.7), I(2)), [(None, 5)]),
    "qnn.simulated_dequantize": (
        lambda x: qnn.simulated_dequantize(relay.cast(x, "float32"), *IN), [(None, 5)]),
    "qnn.concatenate": (
        lambda x, y: qnn.concatenate([x, y], [F(0.05), F(0.03)], [I(3), I(1)], *OUT, 1), [(None, 3), (None, None)]),
    "qnn.dense": (lambda x, w: qnn.dense(x, w, *BOTH, units=4), [(None, 6), (4, 6)]),
    "qnn.batch_matmul": (lambda x, y: qnn.batch_matmul(x, y, *BOTH), [(None, None, 6), (None, 5, 6)]),
    "qnn.conv2d": (
        lambda x, w: qnn.conv2d(x, w, *BOTH, kernel_size=(3, 3), channels=4, padding=(1, 1), strides=(2, 2)),
        [(None, 3, None, None), (4, 3, 3, 3)]),
    "qnn.conv2d_transpose": (
        lambda x, w: qnn.conv2d_transpose(x, w, *BOTH, kernel_size=(3, 3), channels=4, strides=(2, 2)),
        [(None, 3, None, None), (3, 4, 3, 3)]),
    "qnn.avg_pool2d": (
        lambda x: qnn.avg_pool2d(x, *IN, *OUT, (2, 2), (2, 2), (0, 0, 0, 0), (1, 1), layout="NCHW"),
        [(None, 3, None, None)]),
}  # fmt: skip

# Logarithms and roots are of positive numbers: no integer stands for what is none.
LEAST = dict.fromkeys(("qnn.log", "qnn.rsqrt", "qnn.sqrt"), 4)


def chosen():
    if os.environ.get("TVM_TEST_ALL_SYMBOLIC"):
        return sorted(ROWS)
    return random.Random(os.environ.get("TVM_TEST_SEED", "1")).sample(sorted(ROWS), SAMPLE)


def built(build, shapes):
    names = [relay.var(f"x{i}", relay.TensorType([relay.Any() if d is None else d for d in s], "int8"))
             for i, s in enumerate(shapes)]  # fmt: skip
    return relay.create_executor("vm", tvm.IRModule.from_expr(relay.Function(names, build(*names)))).evaluate()


@pytest.mark.parametrize("name", chosen())
def test_a_quantized_operator_of_unknown_sizes_gives_what_known_sizes_give(name):
    build, shapes = ROWS[name]
    rng = np.random.default_rng(7)
    any_size = built(build, shapes)
    for unknown in (2, 7, 0):
        # A batch may be empty; images and rows then have some elements.
        sizes = [[(unknown if i == 0 else max(unknown, 4)) if d is None else d for i, d in enumerate(s)]
                 for s in shapes]  # fmt: skip
        arrays = [rng.integers(LEAST.get(name, -128), 128, s).astype("int8") for s in sizes]
        got, want = any_size(*arrays).numpy(), built(build, sizes)(*arrays).numpy()
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_every_quantized_operator_has_a_row():
    records = {n for n in OPS.names() if n.startswith("qnn.") and {"TOpPattern", "type_rule"} <= OPS[n].attrs.keys()}
    assert records == set(ROWS)

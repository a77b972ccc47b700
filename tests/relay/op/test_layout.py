"""Layout rules: an operator that follows a change of layout gives the same elements."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import run

from tvm import relay
from tvm.ir.type import TupleType
from tvm.relay.infer import infer_type
from tvm.relay.op.record import CallAttrs

rng = np.random.default_rng(9)


def f32(*shape):
    return rng.standard_normal(shape).astype("float32")


X = f32(2, 8, 6, 5)
VECTOR = f32(8)
CASES = {
    "conv2d": (lambda x, w: relay.nn.conv2d(x, w, padding=1), [X, f32(4, 8, 3, 3)]),
    "conv2d_transpose": (lambda x, w: relay.nn.conv2d_transpose(x, w, strides=2), [X, f32(8, 3, 2, 2)]),
    "max_pool2d": (lambda x: relay.nn.max_pool2d(x, 2, 2), [X]),
    "global_avg_pool2d": (relay.nn.global_avg_pool2d, [X]),
    "adaptive_max_pool2d": (lambda x: relay.nn.adaptive_max_pool2d(x, (4, 2)), [X]),
    "bias_add": (lambda x, b: relay.nn.bias_add(x, b), [X, VECTOR]),
    "softmax": (lambda x: relay.nn.softmax(x, 1), [X]),
    "prelu": (lambda x, b: relay.nn.prelu(x, b), [X, VECTOR]),
    "relu": (relay.nn.relu, [X]),
    "clip": (lambda x: relay.clip(x, 0, 1), [X]),
    "add": (relay.add, [X, X]),
    "add of a vector": (relay.add, [X, VECTOR[:, None, None]]),
    "add of a scalar": (relay.add, [X, np.float32(3)]),
    "mean": (lambda x: relay.mean(x, (2, 3), True), [X]),
    "sum without dimensions": (lambda x: relay.sum(x, (2,)), [X]),
    "sum of the others": (lambda x: relay.sum(x, (1,), True, True), [X]),
    "pad": (lambda x: relay.nn.pad(x, ((0, 0), (0, 0), (1, 2), (0, 1))), [X]),
    "concatenate": (lambda x, y: relay.concatenate([x, y], 1), [X, X]),
    "resize2d": (lambda x: relay.image.resize2d(x, (9, 7)), [X]),
    "upsampling": (lambda x: relay.nn.upsampling(x, 2, 2), [X]),
    "depth_to_space": (lambda x: relay.nn.depth_to_space(x, 2), [X]),
}


def moved(e, old, new):
    """An expression of the old layout in the new one, with leading dimensions as the rules want them."""
    missing = len(old) - len(infer_type(e).checked_type_.shape)
    return relay.layout_transform(relay.expand_dims(e, 0, missing) if missing else e, old, new)


def follow(call, old, new):
    """The call in the new layout and brought back, as a layout pass does it; None where its rule cannot follow."""
    types = [infer_type(a).checked_type_ for a in call.args]
    change = call.op.attrs["layout_rule"](call.attrs, types, old, new)
    if change is None:
        return None
    args = []
    for arg, t, layout in zip(call.args, types, change.inputs):
        if layout is not None and isinstance(t, TupleType):
            arg = relay.Tuple([moved(f, old, layout) for f in arg.fields])
        elif layout is not None:
            arg = moved(arg, old, layout)
        args.append(arg)
    made = relay.Call(call.op, args, CallAttrs(change.attrs))
    back = "".join(c for c in old if c in change.output)
    return relay.layout_transform(made, change.output, back)


@pytest.mark.parametrize("name", CASES)
def test_channels_last(name):
    build, arrays = CASES[name]
    plain, other = run(lambda *a: [build(*a), follow(build(*a), "NCHW", "NHWC")], *arrays)
    np.testing.assert_allclose(other, plain, rtol=1e-4, atol=1e-5)


BLOCKED = ["max_pool2d", "global_avg_pool2d", "relu", "clip", "add", "add of a vector", "add of a scalar", "mean",
           "pad", "concatenate", "sum of the others"]  # fmt: skip


@pytest.mark.parametrize("name", BLOCKED)
def test_channels_in_blocks(name):
    build, arrays = CASES[name]
    plain, other = run(lambda *a: [build(*a), follow(build(*a), "NCHW", "NCHW4c")], *arrays)
    np.testing.assert_allclose(other, plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["conv2d", "bias_add", "softmax", "sum without dimensions"])
def test_blocks_that_cannot_be_followed(name):
    build, arrays = CASES[name]
    variables = [relay.var(f"x{i}", shape=a.shape) for i, a in enumerate(arrays)]
    call = build(*variables)
    followed = follow(call, "NCHW", "NCHW4c")
    assert followed is None


def test_blocks_of_odd_parts():
    x = relay.var("x", shape=(1, 6, 2, 2))
    assert follow(relay.concatenate([x, x], 1), "NCHW", "NCHW4c") is None
    assert follow(relay.nn.pad(x, ((0, 0), (1, 0), (0, 0), (0, 0))), "NCHW", "NCHW2c") is None
    one = relay.var("one", shape=(1, 1, 2, 2))
    assert follow(relay.add(x, one), "NCHW", "NCHW2c") is None

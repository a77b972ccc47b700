"""Layout rules: an operator that follows a change of layout gives the same elements."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import run

import tvm
from tvm import relay
from tvm.relay.infer import infer_type
from tvm.relay.op.layout import is_filled
from tvm.relay.transform.fuse_ops import own_nodes
from tvm.relay.transform.layouts import Held, Layouts

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
    "slice by uneven lists": (lambda x: relay.strided_slice(x, [0, 4], [2, 8, 6], [1, 1, 2, 1]), [X]),
    "slice by one stride": (lambda x: relay.strided_slice(x, [0, 0, 1], [2, 8], [2]), [X]),
    "slice backwards": (lambda x: relay.strided_slice(x, [1], [2, 8], [1, 1, -1, -2]), [X]),
    "mean": (lambda x: relay.mean(x, (2, 3), True), [X]),
    "sum without dimensions": (lambda x: relay.sum(x, (2,)), [X]),
    "sum of the others": (lambda x: relay.sum(x, (1,), True, True), [X]),
    "pad": (lambda x: relay.nn.pad(x, ((0, 0), (0, 0), (1, 2), (0, 1))), [X]),
    "concatenate": (lambda x, y: relay.concatenate([x, y], 1), [X, X]),
    "resize2d": (lambda x: relay.image.resize2d(x, (9, 7)), [X]),
    "upsampling": (lambda x: relay.nn.upsampling(x, 2, 2), [X]),
    "prelu and bias": (lambda x, b: relay.nn.prelu(relay.nn.bias_add(x, b), b), [X, VECTOR]),
    "add of one channel": (relay.add, [X, f32(2, 1, 6, 5)]),
    "add of a row": (relay.add, [X, f32(5)]),
    "exp": (relay.exp, [X]),
    "split": (lambda x: relay.split(x, 2, 1), [X]),
    "split of rows": (lambda x: relay.split(x, [2, 3], 2), [X]),
    "strided_slice": (lambda x: relay.strided_slice(x, [1, 4], [6, 0], [2, -1], axes=[2, 3]), [X]),
    "strided_slice of channels": (lambda x: relay.strided_slice(x, [0, 4], [2, 8]), [X]),
    "take": (lambda x: relay.take(x, relay.const(np.array([1, 0, 3]), "int32"), 2), [X]),
    "max without dimensions": (lambda x: relay.max(x, (2, 3)), [X]),
    "transpose": (lambda x: relay.nn.relu(relay.transpose(x, (0, 2, 3, 1))), [X]),
    "transpose and pool": (lambda x: relay.nn.max_pool2d(relay.transpose(x, (0, 2, 3, 1)), 2, layout="NHWC"), [X]),
    "where": (lambda x, y: relay.where(relay.greater(x, y), x, relay.const(1.0)), [X, X]),
    "depth_to_space": (lambda x: relay.nn.depth_to_space(x, 2), [X]),
    "argmax": (lambda x: relay.argmax(x, (2, 3)), [X]),
    "argmin of a row": (lambda x: relay.argmin(x, (3,), True), [X]),
    "squeeze": (lambda x: relay.squeeze(x, [-2]), [f32(2, 8, 1, 5)]),
    "squeeze of all": (relay.squeeze, [f32(1, 8, 1, 5)]),
    "squeeze of none": (lambda x: relay.squeeze(x, []), [f32(2, 8, 1, 5)]),
    "l2_normalize": (lambda x: relay.nn.l2_normalize(x, 0.001, [2, 3]), [X]),
    "topk": (lambda x: relay.topk(x, 2, 2), [X]),
    "topk of values": (lambda x: relay.topk(x, 2, 3, "values"), [X]),
}
# One channel on all sides: its block is filled up on one of them, as it is in the result.
ONE_CHANNEL = {
    "one channel and a number": (relay.add, [f32(2, 1, 6, 5), f32(1, 1, 1)]),
    "one channel and a column": (relay.multiply, [f32(2, 1, 6, 5), f32(1, 1, 6, 1)]),
    "one channel and another": (relay.subtract, [f32(2, 1, 6, 5), f32(2, 1, 6, 5)]),
    "one channel and a larger one": (relay.add, [f32(1, 1, 6, 5), f32(2, 1, 6, 5)]),
    "a column and a row": (relay.add, [f32(1, 1, 6, 1), f32(1, 1, 1, 5)]),
    "one element and another": (relay.add, [f32(1, 1, 1, 1), f32(1, 1, 1)]),
    "where, of one channel": (lambda x, y: relay.where(relay.greater(x, y), x, y), [f32(2, 1, 6, 5), f32(1, 5)]),
}
CASES |= ONE_CHANNEL


class Recording(Layouts):
    """Remembers which calls followed."""

    def __init__(self, choose):
        super().__init__(choose)
        self.changed = []

    def change(self, node, change, old):
        self.changed.append(node)
        super().change(node, change, old)


def follow(call, first, old, new):
    """The call over ``first`` held in another layout, brought back; None where it does not follow."""
    call = call.astuple() if isinstance(call, relay.expr.TupleWrapper) else call
    infer_type(call)
    layouts = Recording(lambda node: None)
    for node in own_nodes(call):
        if node is first:
            layouts.held[id(node)] = Held(relay.layout_transform(node, old, new), old, new)
        else:
            layouts.node(node)
    operators = [n for n in own_nodes(call) if isinstance(n, relay.Call)]
    return layouts.as_plain(call) if all(any(n is c for c in layouts.changed) for n in operators) else None


def check(name, old, new):
    build, arrays = CASES[name]

    def both(*variables):
        plain = build(*variables)
        other = follow(build(*variables), variables[0], old, new)
        assert other is not None
        if isinstance(plain, relay.expr.TupleWrapper):
            return [*plain, *[relay.TupleGetItem(other, i) for i in range(len(plain))]]
        return [plain, other]

    with tvm.transform.PassContext(opt_level=2):
        results = run(both, *arrays)
    half = len(results) // 2
    for plain, other in zip(results[:half], results[half:]):
        np.testing.assert_allclose(other, plain, rtol=1e-4, atol=1e-5)


ALL = [n for n in CASES if not n.startswith("conv") and n not in ONE_CHANNEL]


# A transpose to NHWC of data held as NHWC leaves nothing to follow.
@pytest.mark.parametrize("name", [n for n in ALL if not n.startswith("transpose")])
def test_channels_last(name):
    check(name, "NCHW", "NHWC")


WHOLE = {"softmax", "depth_to_space"}


@pytest.mark.parametrize("name", [n for n in ALL if n not in WHOLE])
def test_channels_in_blocks(name):
    check(name, "NCHW", "NCHW4c")


# Operators that have a meaning for blocks that are filled up.
UNFILLED = ("exp", "split", "strided_slice of channels", "slice by uneven lists", "argmax", "argmin of a row",
            "squeeze", "squeeze of all", "squeeze of none", "l2_normalize", "topk", "topk of values")  # fmt: skip
FILLED = [n for n in ALL if n not in WHOLE and n not in UNFILLED]


@pytest.mark.parametrize("name", FILLED)
def test_blocks_that_are_filled_up(name):
    check(name, "NCHW", "NCHW3c" if name != "concatenate" else "NCHW8c")


@pytest.mark.parametrize("name", ONE_CHANNEL)
def test_one_channel_in_a_block_that_is_filled_up(name):
    check(name, "NCHW", "NCHW4c")


@pytest.mark.parametrize("name", ["softmax", "depth_to_space", "conv2d"])
def test_blocks_that_cannot_be_followed(name):
    build, arrays = CASES[name]
    variables = [relay.var(f"x{i}", shape=a.shape) for i, a in enumerate(arrays)]
    assert follow(build(*variables), variables[0], "NCHW", "NCHW4c") is None


def test_blocks_of_odd_parts():
    x = relay.var("x", shape=(1, 6, 2, 2))
    for made in (
        relay.concatenate([x, x], 1),
        relay.split(x, 2, 1),
        relay.strided_slice(x, [2], [6], axes=[1]),
        relay.nn.pad(x, ((0, 0), (1, 0), (0, 0), (0, 0))),
        relay.sum(x, (1,), True),
        relay.argmax(x, (1,)),
        relay.nn.l2_normalize(x, 0.001, [1]),
        relay.topk(x, 1, 1),
    ):
        assert follow(made, x, "NCHW", "NCHW4c") is None


def test_numbers_that_fill_up_blocks_stay_finite():
    x = relay.var("x", shape=(1, 6, 2, 2))
    for made in (relay.log(x), relay.divide(relay.const(1.0), x), relay.power(x, x), relay.exp(x)):
        assert follow(made, x, "NCHW", "NCHW4c") is None
    assert follow(relay.divide(x, relay.const(6.0)), x, "NCHW", "NCHW4c") is not None


def test_a_transpose_of_held_data_moves_nothing():
    x = relay.var("x", shape=(1, 8, 2, 3))
    y = relay.transpose(relay.nn.relu(relay.transpose(x, (0, 2, 3, 1))), (0, 3, 1, 2))
    followed = follow(y, x, "NCHW", "NCHW4c")
    assert [n.op.name for n in own_nodes(followed) if isinstance(n, relay.Call)] == [
        "layout_transform", "nn.relu", "layout_transform"]  # fmt: skip


def test_places_in_a_plane_that_is_turned_are_not_followed():
    x = relay.var("x", shape=(1, 8, 2, 3))
    assert follow(relay.argmax(x, (2, 3)), x, "NCHW", "NWHC") is None
    assert follow(relay.argmax(x, (2, 3)), x, "NCHW", "NHWC") is not None


@pytest.mark.parametrize("channels, filled", [(32, False), (33, True), (relay.Any(), True)])
def test_blocks_of_unknown_sizes_may_be_filled_up(channels, filled):
    assert is_filled(relay.TensorType((1, channels, 4, 4)), "NCHW", "NCHW16c") == filled


@pytest.mark.parametrize("new", ["NCHW4c", "NCHW3c", "NHWC"])
def test_the_shape_of_held_data_moves_nothing(new):
    """Channels fill the blocks, or do not; height and width are known when the program runs."""
    x = relay.var("x", shape=(1, 8, relay.Any(), relay.Any()))
    shape = follow(relay.shape_of(x, "int64"), x, "NCHW", new)
    program = relay.create_executor("vm", tvm.IRModule.from_expr(relay.Function([x], shape))).evaluate()
    np.testing.assert_array_equal(program(np.zeros((1, 8, 5, 7), "float32")).numpy(), [1, 8, 5, 7])
    transforms = [n for n in own_nodes(shape) if isinstance(n, relay.Call) and n.op.name == "layout_transform"]
    assert [t.args[0] for t in transforms] == [x]


def test_the_shape_of_data_whose_divided_dimension_is_unknown_is_not_followed():
    x = relay.var("x", shape=(1, relay.Any(), 5, 7))
    assert follow(relay.shape_of(x), x, "NCHW", "NCHW4c") is None
    assert follow(relay.shape_of(x), x, "NCHW", "NHWC") is not None

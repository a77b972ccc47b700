"""Counting the operations of graphs."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.relay import flop, qnn
from tvm.relay.op.nn.packed_nd import contrib_conv2d_transpose_nchwc, contrib_conv3d_ncdhwc

ZERO, ONE = relay.const(0, "int32"), relay.const(1.0)
GROUPED = {"groups": 2, "channels": 6, "kernel_size": (3, 2)}

# Without padding, the elements of a result of ones are the products that each of them is the sum of.
OF_ONES = {
    "conv1d": (relay.nn.conv1d, [(2, 3, 9), (4, 3, 3)], {"strides": 2}),
    "conv2d, in groups": (relay.nn.conv2d, [(2, 4, 7, 5), (6, 2, 3, 2)], GROUPED),
    "conv2d, channels last": (
        relay.nn.conv2d,
        [(1, 6, 5, 3), (3, 2, 3, 4)],
        {"data_layout": "NHWC", "kernel_layout": "HWIO", "dilation": (2, 1)},
    ),
    "conv2d, with a multiplier of channels": (
        relay.nn.conv2d,
        [(1, 3, 5, 5), (3, 2, 3, 3)],
        {"groups": 3, "channels": 6, "kernel_size": (3, 3)},
    ),
    "conv2d, depthwise and channels last": (
        relay.nn.conv2d,
        [(1, 5, 5, 3), (3, 3, 3, 2)],
        {"groups": 3, "channels": 6, "kernel_size": (3, 3), "data_layout": "NHWC", "kernel_layout": "HWOI"},
    ),
    "conv2d in blocks": (
        relay.nn.contrib_conv2d_nchwc,
        [(1, 2, 5, 5, 4), (2, 2, 3, 3, 4, 3)],
        {"data_layout": "NCHW4c", "kernel_layout": "OIHW4i3o", "out_layout": "NCHW3c"},
    ),
    "conv2d, depthwise in blocks": (
        relay.nn.contrib_depthwise_conv2d_nchwc,
        [(1, 2, 5, 5, 4), (2, 1, 3, 3, 1, 4)],
        {"data_layout": "NCHW4c", "kernel_layout": "OIHW1i4o", "groups": 8},
    ),
    "conv3d in blocks": (
        contrib_conv3d_ncdhwc,
        [(1, 2, 3, 4, 5, 4), (3, 2, 2, 2, 2, 4, 2)],
        {"strides": (1, 1, 1), "padding": (0, 0, 0, 0, 0, 0), "dilation": (1, 1, 1), "out_dtype": ""},
    ),
    "conv2d_transpose": (
        relay.nn.conv2d_transpose,
        [(1, 4, 3, 5), (4, 3, 3, 2)],
        {"strides": (2, 1), "channels": 6, "kernel_size": (3, 2), "groups": 2},
    ),
    "conv2d_transpose, channels last": (
        relay.nn.conv2d_transpose,
        [(1, 3, 5, 4), (3, 2, 6, 4)],
        {"channels": 6, "kernel_size": (3, 2), "data_layout": "NHWC", "kernel_layout": "HWOI"},
    ),
    "conv2d_transpose in blocks": (
        contrib_conv2d_transpose_nchwc,
        [(1, 1, 3, 3, 4), (4, 1, 1, 1, 4, 2)],
        {"kernel_size": (2, 2), "strides": (2, 2), "padding": (0, 0, 0, 0), "output_padding": (0, 0), "out_dtype": ""},
    ),
    "dense": (relay.nn.dense, [(5, 7), (3, 7)], {}),
    "dense with rows in blocks": (relay.nn.contrib_dense_pack, [(5, 7), (2, 7, 4)], {"weight_layout": "NC4n"}),
    "matmul, transposed": (relay.nn.matmul, [(7, 5), (7, 3)], {"transpose_a": True}),
    "batch_matmul of one and many": (relay.nn.batch_matmul, [(1, 5, 7), (4, 3, 7)], {}),
}


def _typed(body, *params):
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(list(params), body)))


def _inputs(shapes, dtype="float32"):
    return [relay.var(f"x{i}", shape=shape, dtype=dtype) for i, shape in enumerate(shapes)]


@pytest.mark.parametrize("name", OF_ONES)
def test_products_of_ones_add_up_to_the_multiplications(name):
    build, shapes, attrs = OF_ONES[name]
    params = _inputs(shapes)
    mod = _typed(relay.nn.relu(build(*params, **attrs)), *params)
    ones = [np.ones(shape, "float32") for shape in shapes]
    got = relay.create_executor("graph", mod=mod, target="llvm").evaluate()(*ones)
    assert relay.analysis.get_total_mac_number(mod["main"]) == got.numpy().sum()
    assert flop.of_function(mod["main"]) == 2 * got.numpy().sum()


def test_quantized_operators_count_as_the_plain_ones_do():
    x, w = _inputs([(1, 4, 7, 5), (6, 2, 3, 2)], "int8")
    plain = _typed(relay.nn.conv2d(x, w, out_dtype="int32", **GROUPED), x, w)["main"]
    made = qnn.op.conv2d(x, w, ZERO, ZERO, ONE, ONE, out_dtype="int32", **GROUPED)
    assert flop.macs(_typed(made, x, w)["main"]) == flop.macs(plain) == 5 * 4 * 6 * 2 * 6


def test_winograd_counts_as_the_direct_convolution_does():
    x, w = _inputs([(2, 3, 8, 10, 4), (1, 4, 4, 3, 4, 2, 4)])
    blocks = _typed(relay.nn.contrib_conv2d_winograd_nchwc(x, w), x, w)["main"]
    assert flop.macs(blocks) == (2 * 8 * 6 * 8) * 12 * 9


def test_operators_whose_names_sound_alike_have_no_multiplications():
    x = relay.const(np.array([[0, 1]], "int32"))
    spread = relay.sparse_to_dense(x, (3, 3), relay.const(3.0), relay.const(0.0))
    assert flop.macs(_typed(spread)["main"]) == 0

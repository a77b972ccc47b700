"""Convolutions written over channels in blocks, and graphs converted to such layouts."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.error import DiagnosticError
from tvm.relay.testing import run_infer_type, run_opt_pass
from tvm.relay.testing.temp_op_attr import TempOpAttr
from tvm.relay.transform.layouts import rearranged

rng = np.random.default_rng(4)


def f32(*shape):
    return rng.standard_normal(shape).astype("float32")


def reference(x, w, groups, padding, stride):
    """NCHW by OIHW, in NumPy."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    filters, inside, kh, kw = w.shape
    h, v = (x.shape[2] - kh) // stride + 1, (x.shape[3] - kw) // stride + 1
    out = np.zeros((x.shape[0], filters, h, v), "float64")
    for f in range(filters):
        first = f // (filters // groups) * inside
        for i in range(kh):
            for j in range(kw):
                part = x[:, first : first + inside, i : i + h * stride : stride, j : j + v * stride : stride]
                out[:, f] += (part * w[f, :, i, j][None, :, None, None]).sum(1)
    return out


CASES = [
    ("NCHW4c", "OIHW4i8o", "NCHW8c", 1),
    ("NCHW4c", "OIHW", "", 1),
    ("NCHW8c", "OIHW8i", "", 1),
    ("NCHW", "OIHW8o", "NCHW8c", 1),
    ("NHWC4c", "HWIO4i8o", "NHWC8c", 1),
    ("NCHW8c", "OIHW1i8o", "", 16),
    ("NCHW4c", "OIHW4i4o", "", 4),
    ("NCHW", "OIHW", "NHWC", 1),
]


@pytest.mark.parametrize("kind", ["graph", "debug"])
@pytest.mark.parametrize("data_layout, kernel_layout, out_layout, groups", CASES)
def test_convolutions_in_blocks_compute_what_plain_ones_do(data_layout, kernel_layout, out_layout, groups, kind):
    x, w = f32(2, 16, 7, 5), f32(16, 16 // groups, 3, 3)
    wanted = reference(x, w, groups, 1, 2)
    xs, ws = rearranged(x, "NCHW", data_layout), rearranged(w, "OIHW", kernel_layout)
    a, b = relay.var("a", shape=xs.shape), relay.var("b", shape=ws.shape)
    body = relay.nn.conv2d(
        a,
        b,
        padding=1,
        strides=2,
        groups=groups,
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=out_layout,
    )
    got = relay.create_executor(kind, target="llvm").evaluate(relay.Function([a, b], body))(xs, ws).numpy()
    np.testing.assert_allclose(got, rearranged(wanted, "NCHW", out_layout or data_layout), rtol=1e-4, atol=1e-4)


def test_the_type_of_a_weight_in_blocks_comes_from_the_attributes():
    x, w = relay.var("x", shape=(1, 4, 7, 7, 16)), relay.var("w")
    body = relay.nn.conv2d(x, w, data_layout="NCHW16c", kernel_layout="OIHW4i16o4i", channels=32, kernel_size=(3, 3))
    got = run_infer_type(relay.Function([x, w], body))
    assert got.params[1].type_annotation == relay.TensorType((2, 4, 3, 3, 4, 16, 4), "float32")
    assert got.ret_type == relay.TensorType((1, 2, 5, 5, 16), "float32")


def test_blocks_that_do_not_fit_are_refused_in_words():
    x, w = relay.var("x", shape=(1, 4, 7, 7, 8)), relay.var("w", shape=(32, 32, 3, 3))
    with pytest.raises(DiagnosticError, match="layout NCHW16c requires 16"):
        run_infer_type(relay.Function([x, w], relay.nn.conv2d(x, w, data_layout="NCHW16c")))
    y, v = relay.var("y", shape=(1, 2, 7, 7, 16)), relay.var("v", shape=(33, 32, 3, 3))
    with pytest.raises(DiagnosticError, match="33 is not a multiple of the block size 16"):
        run_infer_type(relay.Function([y, v], relay.nn.conv2d(y, v, data_layout="NCHW16c")))


def test_padding_is_written_out_for_both_ends():
    x, w = relay.var("x", shape=(1, 4, 7, 7)), relay.var("w", shape=(2, 4, 3, 3))
    assert tuple(relay.nn.conv2d(x, w, padding=(1, 2)).attrs.padding) == (1, 2, 1, 2)
    assert tuple(relay.nn.conv1d(x, w, padding=1).attrs.padding) == (1, 1)
    assert tuple(relay.nn.conv3d(x, w, padding=0).attrs.padding) == (0,) * 6


def network():
    x, w, b = relay.var("x", shape=(1, 16, 9, 9)), relay.var("w", shape=(32, 16, 3, 3)), relay.var("b", shape=(32,))
    y = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, w, padding=1), b))
    y = relay.nn.max_pool2d(y, pool_size=(2, 2), strides=(2, 2))
    y = relay.strided_slice(y, [0, 16], [1, 32, 4], [1, 1, 1, 1])
    return relay.Function([x, w, b], relay.nn.batch_flatten(y))


def run(function, *values):
    return relay.create_executor("graph", target="llvm").evaluate(function)(*values).numpy()


@pytest.mark.parametrize("layouts", [["NCHW16c", "default"], ["NCHW4c", "OIHW4i4o"], ["NHWC", "default"]])
def test_a_graph_in_another_layout_computes_the_same(layouts):
    values = f32(1, 16, 9, 9), f32(32, 16, 3, 3), f32(32)
    converted = run_opt_pass(network(), relay.transform.ConvertLayout({"nn.conv2d": layouts}))
    assert layouts[0] in str(converted)
    np.testing.assert_allclose(run(converted, *values), run(network(), *values), rtol=1e-4, atol=1e-4)


def test_channels_that_are_no_multiple_of_the_block_keep_their_layout():
    x, w = relay.var("x", shape=(1, 3, 9, 9)), relay.var("w", shape=(32, 3, 3, 3))
    plain = run_infer_type(relay.Function([x, w], relay.nn.conv2d(x, w)))
    got = run_opt_pass(plain, relay.transform.ConvertLayout({"nn.conv2d": ["NCHW16c", "default"]}))
    assert tvm.ir.structural_equal(got, plain)


def test_a_rule_of_a_user_may_put_nn_conv2d_into_blocks():
    def rule(attrs, inputs, types, out_type):
        new = {**attrs, "data_layout": "NCHW16c", "kernel_layout": "OIHW16i"}
        return relay.nn.conv2d(*inputs, **new)

    with TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", rule):
        altered = run_opt_pass(network(), relay.transform.AlterOpLayout())
    text = str(altered)
    assert 'dst_layout="OIHW16i"' in text
    # There and back: data, weight and bias go in, one value comes out.
    assert text.count("layout_transform(") == 4
    values = f32(1, 16, 9, 9), f32(32, 16, 3, 3), f32(32)
    np.testing.assert_allclose(run(altered, *values), run(network(), *values), rtol=1e-4, atol=1e-4)

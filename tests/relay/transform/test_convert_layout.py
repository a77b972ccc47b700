"""ConvertLayout: which operators follow, and that results stay."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.ir.visit import post_order
from tvm.relay import transform
from tvm.relay.transform.infer_layout_utils import InferCorrectLayoutOutput

NCHW = {"nn.conv2d": ["NCHW", "default"]}


def conv(x=None, layout="NHWC", **options):
    shapes = {"NHWC": ((1, 7, 6, 8), (3, 3, 8, 4)), "NCHW": ((1, 8, 7, 6), (4, 8, 3, 3))}
    x = relay.var("x", shape=shapes[layout][0]) if x is None else x
    w = relay.var("w", shape=shapes[layout][1])
    return relay.nn.conv2d(x, w, channels=4, kernel_size=(3, 3), padding=(1, 1), data_layout=layout,
                           kernel_layout={"NHWC": "HWIO", "NCHW": "OIHW"}[layout], **options)  # fmt: skip


def module(e):
    return transform.InferType()(tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(e), e)))


def converted(e, desired):
    with tvm.transform.PassContext(opt_level=3):
        return tvm.transform.Sequential([transform.ConvertLayout(desired)])(module(e))


def calls(mod, name):
    return [n for n in post_order(mod["main"].body) if isinstance(n, relay.Call) and n.op.name == name]


def check(e, desired, seed=0):
    """The converted module, after both gave the same numbers."""
    rng = np.random.default_rng(seed)
    before, after = module(e), converted(e, desired)
    values = {}
    for p in before["main"].params:
        t = p.checked_type
        shape = [int(d) for d in t.shape]
        values[p.name_hint] = (rng.integers(-9, 9, shape).astype(t.dtype) if t.dtype.startswith("int")
                               else rng.standard_normal(shape).astype(t.dtype))  # fmt: skip
    results = []
    for mod in (before, after):
        got = relay.create_executor("graph", mod=mod, target="llvm").evaluate()(**values)
        results.append([got.numpy()])
    for a, b in zip(*results):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    return after


def test_a_pool_that_is_asked_for_stays_where_its_input_changes():
    pooled = relay.nn.max_pool2d(relay.nn.relu(conv()), pool_size=(2, 2), layout="NHWC")
    follows = check(pooled, NCHW)
    assert calls(follows, "nn.max_pool2d")[0].attrs.layout == "NCHW"
    stays = check(pooled, {**NCHW, "nn.max_pool2d": ["NHWC"]})
    (pool,) = calls(stays, "nn.max_pool2d")
    assert (pool.attrs.layout, pool.attrs.out_layout) == ("NHWC", "NHWC")


@pytest.mark.parametrize("old, new", [("NHWC", "NCHW"), ("NCHW", "NHWC")])
def test_offsets_of_a_deformable_convolution_change_with_its_data(old, new):
    x = relay.var("x", shape={"NCHW": (1, 3, 9, 8), "NHWC": (1, 9, 8, 3)}[old])
    w = relay.var("w", shape={"NCHW": (4, 3, 3, 3), "NHWC": (3, 3, 3, 4)}[old])
    offset = relay.var("offset", shape={"NCHW": (1, 18, 7, 6), "NHWC": (1, 7, 6, 18)}[old])
    kernel = {"NCHW": "OIHW", "NHWC": "HWIO"}
    y = relay.nn.deformable_conv2d(x, offset, w, kernel_size=(3, 3), channels=4, data_layout=old,
                                   kernel_layout=kernel[old])  # fmt: skip
    after = check(relay.nn.relu(y), {"nn.deformable_conv2d": [new, "default"]})
    assert [c.attrs.src_layout for c in calls(after, "layout_transform")].count(old) == 2


def test_regions_are_pooled_in_the_layout_that_is_asked_for():
    for name, options in (("roi_align", {"sample_ratio": 2}), ("roi_pool", {})):
        y = getattr(relay.vision, name)(conv(layout="NCHW"), relay.const(np.array([[0, 1, 1, 5, 4]], "float32")),
                                        pooled_size=(2, 3), spatial_scale=1.0, layout="NCHW", **options)  # fmt: skip
        alone = check(y, {"nn.conv2d": ["NHWC", "HWIO"]})
        assert calls(alone, f"vision.{name}")[0].attrs.layout == "NCHW"
        both = check(y, {"nn.conv2d": ["NHWC", "HWIO"], f"vision.{name}": ["NHWC", "default"]})
        assert calls(both, f"vision.{name}")[0].attrs.layout == "NHWC"


def test_a_tensor_is_flattened_in_its_old_layout():
    after = check(relay.nn.batch_flatten(relay.nn.relu(conv())), NCHW)
    (flat,) = calls(after, "nn.batch_flatten")
    assert flat.args[0].op.name == "layout_transform" and flat.args[0].attrs.dst_layout == "NHWC"


def test_a_transpose_that_undoes_the_change_of_layout_is_removed():
    after = check(relay.nn.batch_flatten(relay.transpose(relay.nn.relu(conv()), [0, 3, 1, 2])), NCHW)
    assert not calls(after, "transpose") and len(calls(after, "layout_transform")) == 2


@pytest.mark.parametrize("keepdims", [True, False])
@pytest.mark.parametrize("name", ["sum", "mean", "max"])
def test_channels_in_blocks_are_reduced_in_blocks(name, keepdims):
    desired = {"nn.conv2d": ["NCHW2c", "OIHW2i2o"]}
    after = check(getattr(relay, name)(conv(layout="NCHW"), axis=1, keepdims=keepdims), desired)
    (call,) = calls(after, name)
    assert tuple(call.attrs.axis) == (1, 4) and call.args[0].op.name == "nn.contrib_conv2d_NCHWc"
    if keepdims:
        assert after["main"].body.attrs.src_layout == "NCHW1c"
    y = conv(layout="NCHW")
    gated = check(y * relay.sigmoid(getattr(relay, name)(y, axis=1, keepdims=True)), desired)
    # Data and weight go in, and the output comes out.
    assert len(calls(gated, "layout_transform")) == 3


def test_places_of_channels_in_blocks_are_those_of_the_old_layout():
    after = check(relay.argmax(conv(layout="NCHW"), axis=1), {"nn.conv2d": ["NCHW2c", "OIHW2i2o"]})
    (call,) = calls(after, "argmax")
    assert call.args[0].op.name == "layout_transform" and tuple(call.attrs.axis) == (1,)


def test_a_slice_of_the_first_axes_has_no_axes_in_blocks_either():
    sliced = relay.strided_slice(conv(layout="NCHW"), begin=[0, 2], end=[1, 4], strides=[1, 1])
    (call,) = calls(check(sliced, {"nn.conv2d": ["NCHW2c", "OIHW2i2o"]}), "strided_slice")
    assert (call.attrs.axes, tuple(call.attrs.begin), tuple(call.attrs.end)) == (None, (0, 1), (1, 2))


def test_a_bias_is_added_in_the_new_layout():
    after = check(relay.nn.bias_add(conv(), relay.var("bias", shape=(4,)), axis=3), NCHW)
    assert not calls(after, "nn.bias_add")
    (added,) = calls(after, "add")
    assert [a.op.name for a in added.args] == ["nn.conv2d", "layout_transform"]
    assert tuple(added.args[1].checked_type.shape) == (1, 4, 1, 1)


def test_a_tensor_is_cut_as_another_only_if_both_change():
    y = conv()
    assert calls(check(relay.slice_like(y, y, axes=[1, 2]), NCHW), "slice_like")[0].attrs.axes == (2, 3)
    z = relay.var("z", shape=(1, 3, 3, 4))
    assert calls(check(relay.slice_like(y, z, axes=[1, 2]), NCHW), "slice_like")[0].attrs.axes == (1, 2)


@pytest.mark.parametrize("name", ["add", "concatenate"])
def test_quantized_sums_and_concatenations_follow(name):
    one, zero = relay.const(1.0), relay.const(0)
    x, w = relay.var("x", shape=(1, 7, 6, 8), dtype="int8"), relay.var("w", shape=(3, 3, 8, 4), dtype="int8")
    y = relay.qnn.op.conv2d(x, w, zero, zero, one, one, channels=4, kernel_size=(3, 3), padding=(1, 1),
                            data_layout="NHWC", kernel_layout="HWIO")  # fmt: skip
    y = relay.cast(relay.clip(y, -100, 100), "int8")
    if name == "add":
        z = relay.qnn.op.add(y, y, one, zero, one, zero, one, zero)
    else:
        z = relay.qnn.op.concatenate([y, y], [one, one], [zero, zero], one, zero, axis=3)
    after = check(z, {"qnn.conv2d": ["NCHW", "default"]})
    assert len(calls(after, "layout_transform")) == 3 and after["main"].body.op.name == "layout_transform"


def test_the_usual_kernel_of_a_transposed_convolution_has_its_inputs_first():
    x, w = relay.var("x", shape=(1, 7, 6, 8)), relay.var("w", shape=(3, 3, 4, 8))
    y = relay.nn.conv2d_transpose(x, w, channels=4, kernel_size=(3, 3), data_layout="NHWC", kernel_layout="HWOI")
    after = check(y, {"nn.conv2d_transpose": ["NCHW", "default"]})
    assert calls(after, "nn.conv2d_transpose")[0].attrs.kernel_layout == "IOHW"


@pytest.mark.parametrize("kernel, divided", [("OIHW4i4o", 4), ("OIHW4o", 4), ("default", 4)])
def test_blocks_of_channels_are_the_packed_convolution(kernel, divided):
    y = relay.nn.relu(conv(layout="NCHW"))
    after = check(y, {"nn.conv2d": [f"NCHW{divided}c", kernel]})
    assert len(calls(after, "nn.contrib_conv2d_NCHWc")) == 1


def test_channels_that_are_no_multiple_of_the_block_stay():
    y = relay.nn.relu(conv(layout="NCHW"))
    after = converted(y, {"nn.conv2d": ["NCHW16c", "OIHW16i16o"]})
    assert tvm.ir.structural_equal(after, module(y))


def test_a_rule_of_the_user_says_how_an_operator_follows():
    asked = []

    def rule(attrs, new_in, old_in, types):
        asked.append((str(new_in[0]), str(old_in[0])))
        return InferCorrectLayoutOutput([new_in[0]], [new_in[0]], attrs)

    record = relay.op.get("nn.softmax")
    relay.op.op.register_infer_correct_layout("nn.softmax", rule, level=11)
    try:
        after = converted(relay.nn.softmax(conv(), axis=2), NCHW)
    finally:
        record.reset_attr("FInferCorrectLayout")
    assert asked == [("NCHW", "NHWC")] and after["main"].body.op.name == "layout_transform"


def test_blocks_are_divided_anew_beside_what_is_added():
    x, w = relay.var("x", shape=(1, 2, 5, 5, 4)), relay.var("w", shape=(1, 2, 3, 3, 4, 4))
    y = relay.nn.conv2d(x, w, kernel_size=(3, 3), channels=4, data_layout="NCHW4c", kernel_layout="OIHW4i4o")
    alike, other = relay.var("b", shape=(1, 1, 1, 1, 4)), relay.var("z", shape=(3, 3, 4))
    record = relay.op.get("nn.conv2d")
    old = record.attrs.get("FTVMAlterOpLayout")
    record.attrs["FTVMAlterOpLayout"] = lambda attrs, inputs, types, out: relay.nn.conv2d(
        *inputs, **{**attrs, "data_layout": "NCHW2c", "kernel_layout": "OIHW2i2o"}
    )
    try:
        with tvm.transform.PassContext(opt_level=3):
            together, apart = (transform.AlterOpLayout()(module(y + v)) for v in (alike, other))
    finally:
        record.attrs["FTVMAlterOpLayout"] = old
    assert together["main"].body.op.name == "layout_transform" and apart["main"].body.op.name == "add"
    rng = np.random.default_rng(3)
    for new, v in ((together, alike), (apart, other)):
        values = [rng.standard_normal([int(d) for d in e.type_annotation.shape]).astype("float32") for e in (x, w, v)]
        runs = [
            relay.create_executor("graph", mod=m, target="llvm").evaluate()(*values).numpy()
            for m in (module(y + v), new)
        ]
        np.testing.assert_allclose(*runs, rtol=1e-4, atol=1e-4)


def test_a_constant_may_be_a_factor_of_upsampling():
    x = relay.var("x", shape=(1, 2, 3, 3))
    made = relay.nn.upsampling(x, scale_h=relay.const(2), scale_w=relay.const(3))
    assert [int(d) for d in module(made)["main"].ret_type.shape] == [1, 2, 6, 9]


@pytest.mark.parametrize("keepdims", [False, True])
def test_a_reduction_to_a_scalar_follows_a_reduction_to_a_matrix(keepdims):
    """The layout of a scalar is empty, and not that of the matrix before it. The build blocks the convolution."""
    x, w = relay.var("x", shape=(1, 32, 7, 6)), relay.var("w", shape=(32, 32, 3, 3))
    blocked = relay.nn.relu(relay.nn.conv2d(x, w, channels=32, kernel_size=(3, 3), padding=(1, 1)))
    e = relay.sum(relay.mean(blocked, axis=[2, 3]), keepdims=keepdims)
    rng = np.random.default_rng(0)
    data, weight = (rng.standard_normal([int(d) for d in p.type_annotation.shape]).astype("float32") for p in (x, w))
    with tvm.transform.PassContext(opt_level=3):
        bound = module(relay.bind(e, {w: relay.const(weight)}))
        run = relay.create_executor("graph", mod=bound, target="llvm").evaluate()
    padded = np.pad(data, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    wanted = np.maximum(np.einsum("nchwij,ocij->nohw", windows, weight), 0).mean((2, 3)).sum()
    got = run(data).numpy()
    assert got.shape == ((1, 1) if keepdims else ())
    np.testing.assert_allclose(got.reshape(()), wanted, rtol=1e-4, atol=1e-4)

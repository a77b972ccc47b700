"""Operators of neural networks against NumPy, scheduled as for a CPU: odd sizes, strides, padding, dilation, groups."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.topi.evaluate import evaluate
from tvm import auto_scheduler, te, topi
from tvm.topi import nn, testing
from tvm.topi.schedule import schedule_for


def same(arrays, make, wanted, label="", rtol=1e-4, atol=1e-4):
    got = evaluate(arrays, make, schedule_for=schedule_for)
    got, wanted = ([got], [wanted]) if not isinstance(wanted, list) else (got, wanted)
    for value, reference in zip(got, wanted, strict=True):
        assert value.shape == reference.shape, f"{label}: {value.shape} and {reference.shape}"
        np.testing.assert_allclose(value, reference, rtol=rtol, atol=atol, err_msg=str(label))


def normal(rng, *shape):
    return rng.normal(size=shape).astype("float32")


@pytest.mark.parametrize("channels, filters, groups", [(3, 5, 1), (4, 6, 2), (1, 1, 1)])
def test_convolutions(rng, channels, filters, groups):
    cases = [(1, 0, 1), ((2, 1), (1, 2), 1), (1, "SAME", (2, 1)), ((1, 2), (0, 1, 2, 3), 1)]
    data, weight = normal(rng, 2, channels, 9, 7), normal(rng, filters, channels // groups, 3, 2)
    same(
        [data, weight],
        lambda d, w: [nn.conv(d, w, s, p, e, groups, "NCHW", "OIHW") for s, p, e in cases],
        [testing.conv_python(data, weight, s, p, e, groups) for s, p, e in cases],
        "2d",
    )
    last, kernel = np.moveaxis(data, 1, -1).copy(), weight.transpose(2, 3, 1, 0).copy()
    same(
        [last, kernel],
        lambda d, w: nn.conv(d, w, (2, 1), (1, 2), 1, groups, "NHWC", "HWIO"),
        np.moveaxis(testing.conv_python(data, weight, (2, 1), (1, 2), 1, groups), 1, -1),
        "channels last",
    )
    line, taps = normal(rng, 2, channels, 11), normal(rng, filters, channels // groups, 3)
    same(
        [line, taps],
        lambda d, w: nn.conv1d(d, w, 2, 1, 2, groups, "NCW"),
        testing.conv_python(line, taps, 2, 1, 2, groups),
        "1d",
    )
    room, cube = normal(rng, 1, channels, 5, 4, 6), normal(rng, filters, channels // groups, 2, 3, 1)
    same(
        [room, cube],
        lambda d, w: nn.conv3d_ncdhw(d, w, (1, 2, 1), (0, 1, 2), 1, groups),
        testing.conv_python(room, cube, (1, 2, 1), (0, 1, 2), 1, groups),
        "3d",
    )


def test_groups_along_one_dimension_under_their_own_names(rng):
    line, taps = normal(rng, 2, 6, 11), normal(rng, 4, 3, 3)
    wanted = testing.conv_python(line, taps, 2, 1, 1, 2)
    same([line, taps], lambda d, w: nn.group_conv1d_ncw(d, w, 2, 1, 1, 2, "float32"), wanted, "NCW")
    last, kernel = np.moveaxis(line, 1, -1).copy(), taps.transpose(2, 1, 0).copy()
    same([last, kernel], lambda d, w: nn.group_conv1d_nwc(d, w, 2, 1, 1, 2), np.moveaxis(wanted, 1, -1), "NWC")


def test_depthwise_convolutions(rng):
    data, weight = normal(rng, 1, 3, 8, 7), normal(rng, 3, 2, 3, 3)
    same(
        [data, weight],
        lambda d, w: [nn.depthwise_conv2d_nchw(d, w, s, p, e) for s, p, e in ((1, 1, 1), ((2, 1), (0, 2), (1, 2)))],
        [
            testing.depthwise_conv2d_python_nchw(data, weight, s, p, e)
            for s, p, e in ((1, 1, 1), ((2, 1), (0, 2), (1, 2)))
        ],
    )
    last, kernel = np.moveaxis(data, 1, -1).copy(), weight.transpose(2, 3, 0, 1).copy()
    same(
        [last, kernel],
        lambda d, w: nn.depthwise_conv2d_nhwc(d, w, (2, 2), "SAME", 1),
        testing.depthwise_conv2d_python_nhwc(last, kernel, (2, 2), "SAME"),
    )


@pytest.mark.parametrize("compute", [nn.depthwise_conv2d_nhwc, topi.arm_cpu.compute_depthwise_conv2d_nhwc])
def test_a_type_in_place_of_a_depthwise_kernel_layout_is_that_of_the_result(rng, compute):
    data, weight = (rng.integers(-100, 100, shape).astype("int16") for shape in ((1, 6, 6, 3), (3, 3, 3, 2)))
    wanted = testing.depthwise_conv2d_python_nhwc(data.astype("int32"), weight.astype("int32"), 1, "SAME")
    same([data, weight], lambda d, w: compute(d, w, 1, "SAME", 1, "int32"), wanted.astype("int32"))
    with pytest.raises(ValueError, match="unknown data type 'hwio'"):
        compute(te.placeholder((1, 6, 6, 3)), te.placeholder((3, 3, 3, 2)), 1, 0, 1, "hwio")
    with pytest.raises(tvm.TVMError, match="the kernel layout must be HWOI or HWIO, got 'OIHW'"):
        compute(te.placeholder((1, 6, 6, 3)), te.placeholder((3, 3, 3, 2)), 1, 0, 1, "OIHW")


def test_blocked_convolutions(rng):
    data, weight = normal(rng, 1, 8, 6, 5), normal(rng, 8, 8, 3, 3)
    blocked = data.reshape(1, 2, 4, 6, 5).transpose(0, 1, 3, 4, 2).copy()
    kernel = weight.reshape(2, 4, 2, 4, 3, 3).transpose(0, 2, 4, 5, 3, 1).copy()
    wanted = testing.conv_python(data, weight, 1, 1).reshape(1, 2, 4, 6, 5).transpose(0, 1, 3, 4, 2)
    same([blocked, kernel], lambda d, w: nn.conv2d_NCHWc(d, w, 1, 1, 1, "NCHW4c", "NCHW4c"), wanted)
    single = normal(rng, 2, 1, 3, 3, 1, 4)
    same(
        [blocked, single],
        lambda d, w: nn.depthwise_conv2d_NCHWc(d, w, (2, 1), (1, 1), 1, "NCHW4c", "NCHW4c"),
        testing.depthwise_conv2d_python_nchwc(blocked, single, (2, 1), (1, 1)),
    )


def test_integers_sum_in_a_wider_type(rng):
    data, weight = (
        rng.integers(0, 255, (1, 5, 6, 6)).astype("uint8"),
        rng.integers(-128, 127, (4, 5, 3, 3)).astype("int8"),
    )
    got = evaluate([data, weight], lambda d, w: nn.conv2d_nchw(d, w, 1, 1, 1, "int32"), schedule_for=schedule_for)
    np.testing.assert_array_equal(got, testing.conv_python(data, weight, 1, 1, out_dtype="int32"))


def test_transposed_convolutions(rng):
    line, taps = normal(rng, 2, 3, 7), normal(rng, 3, 4, 3)
    same(
        [line, taps],
        lambda d, w: nn.conv1d_transpose_ncw(d, w, 2, 1, "float32", 1),
        testing.conv1d_transpose_ncw_python(line, taps, 2, 1, 1),
    )
    data, weight = normal(rng, 1, 4, 5, 3), normal(rng, 4, 2, 3, 2)
    cases = [((1, 1), (0, 0), (0, 0)), ((2, 3), (1, 0, 2, 1), (1, 2))]
    same(
        [data, weight],
        lambda d, w: [nn.conv2d_transpose_nchw(d, w, s, p, "float32", o) for s, p, o in cases],
        [testing.conv2d_transpose_nchw_python(data, weight, s, p, o) for s, p, o in cases],
    )
    same(
        [data, weight],
        lambda d, w: nn.group_conv2d_transpose_nchw(d, w, (2, 1), (1, 1), "float32", (0, 0), 2),
        testing.conv2d_transpose_nchw_python(data, weight, (2, 1), (1, 1), (0, 0), 2),
    )
    room, cube = normal(rng, 1, 2, 3, 4, 2), normal(rng, 2, 3, 2, 3, 2)
    same(
        [room, cube],
        lambda d, w: nn.conv3d_transpose_ncdhw(d, w, (2, 1, 2), (1, 1, 0), "float32", (0, 0, 0)),
        testing.conv3d_transpose_ncdhw_python(room, cube, (2, 1, 2), (1, 1, 0), (0, 0, 0)),
    )


def test_deformable_convolution_and_correlation(rng):
    data, offset, weight = normal(rng, 1, 4, 6, 5), normal(rng, 1, 2 * 2 * 9, 6, 5), normal(rng, 6, 2, 3, 3)
    same(
        [data, offset, weight],
        lambda d, o, w: nn.deformable_conv2d_nchw(d, o, w, 1, 1, 1, 2, 2, "float32"),
        testing.deformable_conv2d_nchw_python(data, offset, weight, 1, 1, 1, 2, 2),
    )
    first, second = normal(rng, 1, 3, 9, 10), normal(rng, 1, 3, 9, 10)
    for multiply in (True, False):
        same(
            [first, second],
            lambda a, b: nn.correlation_nchw(a, b, 3, 2, 2, 1, 2, multiply),
            testing.correlation_nchw_python(first, second, 3, 2, 2, 1, 2, multiply),
        )


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_pools(rng, kind):
    data = normal(rng, 1, 3, 9, 7)
    cases = [
        ((2, 2), (2, 2), (1, 1), (0, 0, 0, 0), False, True), ((3, 2), (2, 1), (1, 1), (1, 0, 1, 1), True, True),
        ((3, 3), (2, 2), (1, 1), (1, 1, 1, 1), True, False), ((2, 2), (1, 2), (2, 3), (0, 1, 1, 0), False, False),
    ]  # fmt: skip
    same(
        [data],
        lambda t: [nn.pool2d(t, k, s, d, p, kind, c, "NCHW", i) for k, s, d, p, c, i in cases],
        [testing.poolnd_python(data, k, s, d, p[:2], p[2:], kind, i, c) for k, s, d, p, c, i in cases],
        kind,
    )
    last = np.moveaxis(data, 1, -1).copy()
    same(
        [last],
        lambda t: nn.pool2d(t, (2, 3), (1, 2), (1, 1), (0, 1, 0, 1), kind, False, "NHWC", False),
        testing.poolnd_python(last, (2, 3), (1, 2), (1, 1), (0, 1), (0, 1), kind, False, layout="NHWC"),
    )
    line, room = normal(rng, 2, 3, 11), normal(rng, 1, 2, 5, 6, 4)
    same(
        [line],
        lambda t: nn.pool1d(t, 3, 2, 1, (1, 1), kind),
        testing.poolnd_python(line, (3,), (2,), (1,), (1,), (1,), kind),
    )
    same(
        [room],
        lambda t: nn.pool3d(t, (2, 3, 2), (2, 1, 2), (1, 1, 1), (1, 0, 0, 1, 0, 0), kind),
        testing.poolnd_python(room, (2, 3, 2), (2, 1, 2), (1, 1, 1), (1, 0, 0), (1, 0, 0), kind),
    )
    for size in ((1, 1), (3, 2), (9, 7), (4, 5)):
        same([data], lambda t: nn.adaptive_pool(t, size, kind), testing.adaptive_pool(data, size, kind, "NCHW"), size)
    axes = (2, 3)
    whole = data.max(axes, keepdims=True) if kind == "max" else data.mean(axes, keepdims=True)
    same([data], lambda t: nn.global_pool(t, kind), whole)


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("ceil", [True, False])
def test_means_of_windows_that_overhang_the_data_on_both_sides_count_their_taps(rng, ceil, include):
    # The window of 5 elements begins before the data of 3, between two taps, and ends behind it.
    line = normal(rng, 1, 2, 3)
    same(
        [line],
        lambda t: nn.pool1d(t, 3, 1, 2, (2, 1), "avg", ceil, "NCW", include),
        testing.poolnd_python(line, (3,), (1,), (2,), (2,), (1,), "avg", include, ceil),
    )


def test_maximum_of_infinities():
    data = np.full((1, 1, 4, 4), -np.inf, "float32")
    got = evaluate(
        [data], lambda t: nn.pool2d(t, (2, 2), (2, 2), (1, 1), (1, 1, 1, 1), "max"), schedule_for=schedule_for
    )
    assert (got == -np.inf).all()


def test_products(rng):
    a, b, bias = normal(rng, 5, 17), normal(rng, 7, 17), normal(rng, 7)
    same([a, b, bias], lambda x, y, z: nn.dense(x, y, z), a @ b.T + bias)
    same([a, b], lambda x, y: nn.matmul(x, y, transpose_b=True), a @ b.T)
    x, y = normal(rng, 3, 4, 6), normal(rng, 3, 5, 6)
    same([x, y], nn.batch_matmul, testing.batch_matmul(x, y))
    same(
        [x, y.transpose(0, 2, 1).copy()],
        lambda p, q: nn.batch_matmul(p, q, transpose_a=False, transpose_b=False),
        testing.batch_matmul(x, y),
    )
    one = normal(rng, 1, 5, 6)
    same([x, one], nn.batch_matmul, np.matmul(x, one.transpose(0, 2, 1)))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax(rng, axis):
    data = normal(rng, 3, 5, 7) * 10
    same(
        [data],
        lambda t: [nn.softmax(t, axis), nn.log_softmax(t, axis), nn.fast_softmax(t, axis)],
        [
            testing.softmax_python(data, axis),
            testing.log_softmax_python(data, axis),
            testing.softmax_python(data, axis),
        ],
    )


def test_normalizations(rng):
    data = normal(rng, 2, 7, 3, 4)
    for size, axis in ((3, 1), (5, 1), (4, 1), (3, 3)):
        same(
            [data],
            lambda t: nn.lrn(t, size, axis, 0.1, 0.75, 2),
            testing.lrn_python(data, size, axis, 2, 0.1, 0.75),
            size,
        )
    for axis in (None, 1, (1, 3)):
        same([data], lambda t: nn.l2_normalize(t, 1e-3, axis), testing.l2_normalize_python(data, 1e-3, axis), axis)
    predictions, weights = normal(rng, 5, 4), rng.random(4).astype("float32")
    targets = np.array([0, 3, -100, 1, 2], "int32")
    for reduction in ("none", "sum", "mean"):
        same(
            [predictions, targets, weights],
            lambda p, t, w: nn.nll_loss(p, t, w, reduction, -100),
            testing.nll_loss(predictions, targets, weights, reduction),
            reduction,
        )


def test_padding_and_blocks(rng):
    data = normal(rng, 2, 4, 6, 4)
    widths = ((0, 0), (1, 2), (0, 3), (2, 0))
    before, after = zip(*widths)
    same([data], lambda t: nn.pad(t, before, after, 1.5), np.pad(data, widths, constant_values=1.5))
    same([data], lambda t: nn.mirror_pad(t, before, after, "SYMMETRIC"), np.pad(data, widths, "symmetric"))
    same([data], lambda t: nn.mirror_pad(t, before, after, "REFLECT"), np.pad(data, widths, "reflect"))
    same([data], lambda t: nn.dilate(t, (1, 2, 3, 1), -1.0), testing.dilate_python(data, (1, 2, 3, 1), -1.0))
    same([data], lambda t: nn.flatten(t), data.reshape(2, -1))
    for mode in ("DCR", "CDR"):
        same(
            [data], lambda t: nn.depth_to_space(t, 2, "NCHW", mode), testing.depth_to_space_python(data, 2, mode), mode
        )
    same([data], lambda t: nn.space_to_depth(t, 2), testing.space_to_depth_python(data, 2))
    same(
        [data],
        lambda t: nn.space_to_batch_nd(t, (2, 3), (0, 1), (2, 2)),
        testing.space_to_batch_nd_python(data, (2, 3), (0, 1), (2, 2)),
    )
    batches = normal(rng, 12, 3, 2, 4)
    same(
        [batches],
        lambda t: nn.batch_to_space_nd(t, (2, 3), (1, 0), (0, 2)),
        testing.batch_to_space_nd_python(batches, (2, 3), (1, 0), (0, 2)),
    )


def test_activations(rng):
    data = normal(rng, 2, 3, 4)
    same([data], nn.relu, np.maximum(data, 0))
    edges = np.array([np.nan, np.inf, -np.inf, 0.0, 1e-30], "float32")
    same([edges], nn.relu, np.maximum(edges, 0))
    same([data], lambda t: nn.leaky_relu(t, 0.1), np.where(data > 0, data, 0.1 * data))
    slope = normal(rng, 3)
    same([data, slope], nn.prelu, np.where(data > 0, data, data * slope[:, None]))


def test_refusals():
    data = te.placeholder((1, 3, 5, 5))
    with pytest.raises(RuntimeError, match="channels"):
        nn.conv2d_nchw(data, te.placeholder((4, 2, 3, 3)), 1, 0, 1)
    with pytest.raises(RuntimeError, match="larger than the padded data"):
        nn.conv2d_nchw(data, te.placeholder((4, 3, 7, 7)), 1, 0, 1)
    with pytest.raises(RuntimeError, match="max or avg"):
        nn.pool2d(data, (2, 2), (1, 1), (1, 1), (0, 0, 0, 0), "median")
    assert topi.nn is nn


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_averages_of_short_numbers_are_summed_up_in_long_ones(rng, dtype):
    import ml_dtypes

    kind = np.float16 if dtype == "float16" else ml_dtypes.bfloat16
    # A sum of them is beyond what float16 can hold.
    data = rng.uniform(4000, 6000, (2, 3, 7, 7)).astype(kind)
    wanted = data.astype("float64").mean(axis=(2, 3))

    def cases(x):
        return topi.nn.global_pool(x, "avg"), topi.nn.adaptive_pool(x, (1, 1), "avg"), topi.mean(x, axis=[2, 3])

    for got in evaluate([data], cases, [dtype]):
        np.testing.assert_allclose(got.astype("float64").reshape(2, 3), wanted, rtol=1e-2, atol=1)


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("pads, ceil_mode, include", [((0, 0, 0, 0), False, True), ((1, 0, 1, 1), False, False)])
def test_gradients_of_pools(rng, kind, pads, ceil_mode, include):
    data = rng.integers(0, 4, (1, 2, 7, 6)).astype("float32")
    shape = testing.poolnd_python(data, (3, 2), (2, 1), (1, 1), pads[:2], pads[2:], kind, include, ceil_mode).shape
    grads = normal(rng, *shape)
    same(
        [grads, data],
        lambda g, d: nn.pool_grad(g, d, (3, 2), (2, 1), pads, kind, ceil_mode, "NCHW", include),
        testing.pool_grad_nchw(data, grads, (3, 2), (2, 1), pads, kind, ceil_mode, include),
    )


def test_classic_names_of_schedules(rng):
    data = normal(rng, 2, 3, 5, 5)
    t = te.placeholder(data.shape, name="data")
    for make, schedule in (
        (topi.exp, topi.generic.schedule_injective), (lambda x: nn.softmax(x, 1), topi.x86.schedule_softmax),
        (lambda x: nn.global_pool(x, "avg"), topi.x86.schedule_adaptive_pool), (topi.sum, topi.generic.schedule_reduce),
    ):  # fmt: skip
        made = make(t)
        function = tvm.build(schedule([made]), [t, made], "llvm")
        out = tvm.nd.empty(tuple(int(d) for d in made.shape))
        function(tvm.nd.array(data), out)
        np.testing.assert_allclose(out.numpy(), evaluate([data], make), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name, shapes", [
    ("dense", [(2, 8), (4, 8)]), ("matmul", [(2, 8), (8, 4)]), ("batch_matmul", [(3, 2, 8), (3, 4, 8)]),
    ("conv2d_nhwc", [(1, 8, 8, 4), (3, 3, 4, 6)]), ("conv3d_ndhwc", [(1, 8, 8, 8, 4), (3, 3, 3, 4, 6)])])  # fmt: skip
def test_weights_that_a_search_stored_in_another_order_are_refused(name, shapes):
    operator, tensors = getattr(topi.nn, name), [te.placeholder(s) for s in shapes]
    given = [*tensors, 1, 0, 1] if name.startswith("conv") else tensors
    shape = "meta_schedule_origin_shape" if name == "conv3d_ndhwc" else "meta_schedule_original_shape"
    assert operator(*given, auto_scheduler_rewritten_layout="", **{shape: None}).shape
    with pytest.raises(ValueError, match=f"{name}: a rewritten layout of the weights is not supported, got 'NK16n'"):
        operator(*given, auto_scheduler_rewritten_layout="NK16n")
    with pytest.raises(ValueError, match=f"{name}: an original shape of the weights is not supported"):
        operator(*given, **{shape: (4, 8)})


def test_a_convolution_says_that_its_weights_may_be_stored_in_any_order():
    data, weight = te.placeholder((1, 8, 8, 4), name="data"), te.placeholder((3, 3, 4, 6), name="weight")
    for asked in (False, True):
        out = topi.nn.conv2d_nhwc(data, weight, 1, 0, 1, auto_scheduler_should_rewrite_layout=asked)
        assert auto_scheduler.ComputeDAG([data, weight, out]).layout_free_placeholders == ([weight] if asked else [])

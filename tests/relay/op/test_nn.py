"""Operators of neural networks against NumPy and onnxruntime, on odd sizes."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import check_all, executor, refused, run, tensor

import tvm
from tvm import relay
from tvm.relay import transform

rng = np.random.default_rng(7)


def f32(*shape):
    return rng.standard_normal(shape).astype("float32")


def reference_conv_transpose(x, w, strides, before, after, dilation, groups, extra):
    """Every input element adds a scaled kernel to the output."""
    n = x.ndim - 2
    spans = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilation)]
    full = [(s - 1) * st + k for s, st, k in zip(x.shape[2:], strides, spans)]
    per = w.shape[1]
    out = np.zeros((x.shape[0], per * groups, *[f + e for f, e in zip(full, extra)]), "float64")
    each = x.shape[1] // groups
    for c in range(x.shape[1]):
        g = c // each
        for at in np.ndindex(*x.shape[2:]):
            place = tuple(slice(a * s, a * s + k, d) for a, s, k, d in zip(at, strides, spans, dilation))
            value = x[(slice(None), c, *at)].reshape(-1, *[1] * (n + 1))
            out[(slice(None), slice(g * per, (g + 1) * per), *place)] += value * w[c][None]
    cut = tuple(slice(b, out.shape[2 + i] - a) for i, (b, a) in enumerate(zip(before, after)))
    return out[(slice(None), slice(None), *cut)].astype("float32")


@pytest.mark.parametrize("n", [1, 2, 3])
def test_conv_transpose_spreads_kernels(n):
    build = {1: relay.nn.conv1d_transpose, 2: relay.nn.conv2d_transpose, 3: relay.nn.conv3d_transpose}[n]
    cases = []
    for strides, before, after, dilation, groups, extra in (
        ((1,) * n, (0,) * n, (0,) * n, (1,) * n, 1, (0,) * n),
        ((2,) * n, (1,) * n, (0,) * n, (1,) * n, 1, (1,) * n),
        ((3,) * n, (1,) * n, (2,) * n, (2,) * n, 2, (0,) * n),
    ):
        x, w = f32(2, 4, *(5, 4, 3)[:n]), f32(4, 3, *(3, 2, 3)[:n])
        want = reference_conv_transpose(x, w, strides, before, after, dilation, groups, extra)
        cases.append(
            (
                f"{strides} {before} {after} {dilation} {groups} {extra}",
                lambda a, b, k=(strides, (*before, *after), dilation, groups), e=extra: build(
                    a, b, strides=k[0], padding=k[1], dilation=k[2], groups=k[3], output_padding=e
                ),
                [x, w],
                want,
            )
        )
    check_all(cases, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n, data_layout", [(1, "NCW"), (2, "NCHW"), (2, "NHWC"), (3, "NCDHW")])
def test_depthwise_weights_with_a_multiplier_are_filters_of_their_channels(n, data_layout):
    build = {1: relay.nn.conv1d, 2: relay.nn.conv2d, 3: relay.nn.conv3d}[n]
    x, w = f32(2, 5, *(7, 6, 5)[:n]), f32(5, 3, *(3, 2, 3)[:n])
    options = {"groups": 5, "channels": 15, "kernel_size": w.shape[2:], "padding": 1, "data_layout": data_layout,
               "kernel_layout": "OIW" if n == 1 else "OIHW" if n == 2 else "OIDHW"}  # fmt: skip
    own = x.transpose(0, *range(2, n + 2), 1) if data_layout == "NHWC" else x
    plain = w.reshape(15, 1, *w.shape[2:])
    want = run(lambda a, b: build(a, b, **options), own, plain)
    got = run(lambda a, b: build(a, b, **options), own, w)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    # Constant weights take other ways: they are folded, scaled and put into blocks.
    scale = f32(15, *[1] * n).ravel() if data_layout == "NHWC" else f32(15, *[1] * n)
    scaled = run(lambda a: relay.multiply(build(a, relay.const(w), **options), relay.const(scale)), own)
    np.testing.assert_allclose(scaled, want * scale, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name, one", [
    ("FoldScaleAxis", transform.FoldScaleAxis()),
    ("AlterOpLayout", transform.AlterOpLayout()),
    ("NHWC", transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})),
    ("NCHW5c", transform.ConvertLayout({"nn.conv2d": ["NCHW5c", "default"]})),
])  # fmt: skip
def test_passes_leave_what_weights_with_a_multiplier_mean(name, one):
    x, w, s = f32(1, 5, 6, 7), f32(5, 3, 3, 3), abs(f32(15, 1, 1))
    data = relay.var("x0", shape=x.shape)
    made = relay.multiply(
        relay.nn.conv2d(data, relay.const(w), groups=5, channels=15, kernel_size=(3, 3)), relay.const(s)
    )
    mod = transform.InferType()(tvm.IRModule.from_expr(relay.Function([data], made)))
    assert relay.analysis.get_total_mac_number(mod["main"]) == 15 * 4 * 5 * 9
    with tvm.target.Target("llvm -mcpu=generic"):
        mod = one(mod)
    got = executor(mod, "llvm", tvm.cpu(0))
    got.set_input("x0", x)
    got.run()
    plain = run(lambda a, b: relay.nn.conv2d(a, b, groups=5), x, w.reshape(15, 1, 3, 3))
    np.testing.assert_allclose(got.get_output(0).numpy(), plain * s, rtol=1e-4, atol=1e-4)


def test_multipliers_of_constants_and_of_quantized_weights():
    x, w = rng.integers(0, 9, (1, 4, 5, 6)).astype("uint8"), rng.integers(0, 9, (4, 2, 3, 3)).astype("uint8")
    zero = np.array([1, 0, 3, 2], "int32")
    options = {"groups": 4, "channels": 8, "kernel_size": (3, 3), "out_dtype": "int32"}
    own, centered = x.astype("int32"), (w.astype("int32") - zero.reshape(4, 1, 1, 1)).reshape(8, 1, 3, 3)
    want = run(lambda a, b: relay.nn.conv2d(a, b, **options), own, centered)
    number, scale = relay.const(0, "int32"), relay.const(1.0)
    got = run(lambda a, b: relay.qnn.op.conv2d(a, b, number, relay.const(zero), scale, scale, **options), x, w)
    np.testing.assert_array_equal(got, want)
    layer = relay.nn.conv2d(relay.const(own), relay.const(centered.reshape(4, 2, 3, 3)), **options)
    folded = transform.FoldConstant()(tvm.IRModule.from_expr(relay.Function([], layer)))["main"].body
    np.testing.assert_array_equal(folded.data.numpy(), want)


def test_conv_transpose_channels_last():
    x, w = f32(1, 4, 5, 3), f32(3, 2, 3, 3)
    want = reference_conv_transpose(x.transpose(0, 3, 1, 2), w, (2, 2), (1, 0), (0, 1), (1, 1), 1, (0, 0)).transpose(
        0, 2, 3, 1
    )
    got = run(
        lambda a, b: relay.nn.conv2d_transpose(
            a, b, strides=2, padding=(1, 0, 0, 1), data_layout="NHWC", kernel_layout="HWIO"
        ),
        x,
        np.ascontiguousarray(w.transpose(2, 3, 0, 1)),
    )
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def windows(x, pool, strides, dilation, before, after, fill):
    pad = [(0, 0), (0, 0), *zip(before, after)]
    x = np.pad(x, pad, constant_values=fill)
    spans = [(p - 1) * d + 1 for p, d in zip(pool, dilation)]
    view = np.lib.stride_tricks.sliding_window_view(x, spans, axis=tuple(range(2, x.ndim)))
    n = len(pool)
    view = view[
        (slice(None), slice(None), *[slice(None, None, s) for s in strides], *[slice(None, None, d) for d in dilation])
    ]
    return view, tuple(range(view.ndim - n, view.ndim))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_pools(n):
    x = f32(2, 3, *(7, 6, 5)[:n])
    cases = []
    for pool, strides, dilation, before, after in (
        ((2,) * n, (1,) * n, (1,) * n, (0,) * n, (0,) * n),
        ((3,) * n, (2,) * n, (1,) * n, (1,) * n, (1,) * n),
        ((2,) * n, (1,) * n, (2,) * n, (1,) * n, (0,) * n),
    ):
        view, axes = windows(x, pool, strides, dilation, before, after, -np.inf)
        shown = f"{pool} {strides} {dilation} {before} {after}"
        keywords = {"pool_size": pool, "strides": strides, "dilation": dilation, "padding": (*before, *after)}
        cases.append(
            ("max " + shown, lambda a, k=keywords: getattr(relay.nn, f"max_pool{n}d")(a, **k), [x], view.max(axes))
        )
        view, axes = windows(x, pool, strides, dilation, before, after, 0)
        ones, _ = windows(np.ones_like(x), pool, strides, dilation, before, after, 0)
        cases.append(
            (
                "avg with padding " + shown,
                lambda a, k=keywords: getattr(relay.nn, f"avg_pool{n}d")(a, count_include_pad=True, **k),
                [x],
                view.mean(axes).astype("float32"),
            )
        )
        if dilation == (1,) * n:
            cases.append(
                (
                    "avg " + shown,
                    lambda a, k=keywords: getattr(relay.nn, f"avg_pool{n}d")(a, **k),
                    [x],
                    (view.sum(axes) / ones.sum(axes)).astype("float32"),
                )
            )
    axes = tuple(range(2, n + 2))
    for kind, f in (("max", np.max), ("avg", np.mean)):
        cases.append((f"global {kind}", getattr(relay.nn, f"global_{kind}_pool{n}d"), [x], f(x, axes, keepdims=True)))
        for size in ((1,) * n, (3,) * n, x.shape[2:]):
            want = np.zeros((2, 3, *size), "float32")
            for at in np.ndindex(*size):
                part = tuple(slice(i * d // s, -(-(i + 1) * d // s)) for i, d, s in zip(at, x.shape[2:], size))
                want[(slice(None), slice(None), *at)] = f(x[(slice(None), slice(None), *part)], axes)
            cases.append(
                (
                    f"adaptive {kind} {size}",
                    lambda a, k=kind, s=size: getattr(relay.nn, f"adaptive_{k}_pool{n}d")(a, s),
                    [x],
                    want,
                )
            )
    check_all(cases)


def test_pool_layouts_agree():
    x = f32(1, 8, 6, 5)
    want = run(lambda a: relay.nn.avg_pool2d(a, 3, 2, padding=1, ceil_mode=True), x)
    last = run(
        lambda a: relay.nn.avg_pool2d(a, 3, 2, padding=1, ceil_mode=True, layout="NHWC"),
        np.ascontiguousarray(x.transpose(0, 2, 3, 1)),
    )
    np.testing.assert_allclose(last.transpose(0, 3, 1, 2), want, rtol=1e-6, atol=1e-6)
    packed = np.ascontiguousarray(x.reshape(1, 2, 4, 6, 5).transpose(0, 1, 3, 4, 2))
    block = run(lambda a: relay.nn.avg_pool2d(a, 3, 2, padding=1, ceil_mode=True, layout="NCHW4c"), packed)
    np.testing.assert_allclose(block.transpose(0, 1, 4, 2, 3).reshape(want.shape), want, rtol=1e-6, atol=1e-6)


def test_activations_and_edge_values():
    x = np.array([[np.nan, -0.0, np.inf, -np.inf, 1.5, -2.5, 1e-38]], "float32")
    slope = f32(7)
    y = f32(3, 7)
    e = np.exp(y - y.max(-1, keepdims=True))
    e0 = np.exp(y - y.max(0, keepdims=True))
    cases = [
        ("relu", relay.nn.relu, [y], np.maximum(y, 0)),
        ("leaky", lambda a: relay.nn.leaky_relu(a, 0.1), [x], np.where(x > 0, x, x * np.float32(0.1))),
        ("prelu", relay.nn.prelu, [x, slope], np.where(x > 0, x, x * slope)),
        ("softmax", relay.nn.softmax, [y], e / e.sum(-1, keepdims=True)),
        ("fast_softmax", relay.nn.fast_softmax, [y], e / e.sum(-1, keepdims=True)),
        ("softmax 0", lambda a: relay.nn.softmax(a, 0), [y], e0 / e0.sum(0)),
        ("log_softmax", relay.nn.log_softmax, [y], np.log(e / e.sum(-1, keepdims=True))),
        ("dropout", lambda a: relay.nn.dropout(relay.nn.relu(a)), [y], np.maximum(y, 0)),
    ]
    check_all(cases, rtol=1e-5, atol=1e-6)


def normal(x, axes, epsilon=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def test_normalizations():
    x, g, b = f32(2, 6, 5, 3), f32(6), f32(6)
    wide = (1, 6, 1, 1)
    mean, var = f32(6), rng.random(6).astype("float32")
    batch = (x - mean.reshape(wide)) / np.sqrt(var.reshape(wide) + 1e-5) * g.reshape(wide) + b.reshape(wide)
    group = normal(x.reshape(2, 3, 2, 5, 3), (2, 3, 4)).reshape(x.shape) * g.reshape(wide) + b.reshape(wide)
    g3, b3 = f32(3), f32(3)
    square = np.stack([(x[:, max(c - 2, 0) : c + 3] ** 2).sum(1) for c in range(6)], 1)
    cases = [
        ("batch", lambda *a: relay.nn.batch_norm(*a)[0], [x, g, b, mean, var], batch),
        ("layer", relay.nn.layer_norm, [x, g3, b3], normal(x, (3,)) * g3 + b3),
        (
            "layer axis 1 without scale",
            lambda *a: relay.nn.layer_norm(*a, axis=1, scale=False),
            [x, g, b],
            normal(x, (1,)) + b.reshape(wide),
        ),
        ("instance", relay.nn.instance_norm, [x, g, b], normal(x, (2, 3)) * g.reshape(wide) + b.reshape(wide)),
        ("group", lambda *a: relay.nn.group_norm(*a, num_groups=3), [x, g, b], group),
        (
            "l2",
            lambda a: relay.nn.l2_normalize(a, 1e-3, [1]),
            [x],
            x / np.sqrt(np.maximum((x**2).sum(1, keepdims=True), 1e-3)),
        ),
        ("l2 all", lambda a: relay.nn.l2_normalize(a, 1e-3), [x], x / np.sqrt((x**2).sum())),
        ("lrn", lambda a: relay.nn.lrn(a, 5, 1, 2, 1e-2, 0.75), [x], x / (2 + 1e-2 / 5 * square) ** 0.75),
    ]
    check_all(cases, rtol=2e-4, atol=1e-5)


def test_losses():
    p = rng.random((4, 5, 3)).astype("float32")
    t = rng.integers(0, 5, (4, 3)).astype("int32")
    t[1, 1] = -100
    w = rng.random(5).astype("float32")
    safe = np.where(t < 0, 0, t)
    own = np.where(t < 0, 0, w[safe])
    loss = (-np.take_along_axis(p, safe[:, None], 1)[:, 0] * own).astype("float32")
    q, r = rng.random((3, 4)).astype("float32") + 0.1, rng.random((3, 4)).astype("float32")
    cases = [
        ("none", lambda *a: relay.nn.nll_loss(*a, reduction="none"), [p, t, w], loss),
        ("sum", lambda *a: relay.nn.nll_loss(*a, reduction="sum"), [p, t, w], loss.sum()),
        ("mean", relay.nn.nll_loss, [p, t, w], (loss.sum() / own.sum()).astype("float32")),
        ("cross entropy", relay.nn.cross_entropy, [q, r], np.float32(-(np.log(q) * r).sum() / 3)),
        ("with logits", relay.nn.cross_entropy_with_logits, [q, r], np.float32(-(q * r).sum() / 3)),
    ]
    check_all(cases, rtol=1e-4)


def test_padding_modes():
    x = f32(2, 3, 4)
    width = ((0, 0), (1, 2), (3, 1))
    symmetric = ((0, 0), (2, 1), (4, 3))
    cases = [
        ("constant", lambda a: relay.nn.pad(a, width, 1.5), [x], np.pad(x, width, constant_values=1.5)),
        (
            "value from a tensor",
            lambda a, v: relay.nn.pad(a, width, v),
            [x, np.float32(-2)],
            np.pad(x, width, constant_values=-2),
        ),
        ("edge", lambda a: relay.nn.pad(a, width, pad_mode="edge"), [x], np.pad(x, width, "edge")),
        (
            "reflect",
            lambda a: relay.nn.pad(a, ((0, 0), (1, 2), (3, 1)), pad_mode="reflect"),
            [x],
            np.pad(x, width, "reflect"),
        ),
        (
            "negative",
            lambda a: relay.nn.pad(a, ((0, 0), (-1, 0), (2, -3))),
            [x],
            np.pad(x[:, 1:, :1], ((0, 0), (0, 0), (2, 0))),
        ),
        ("mirror", lambda a: relay.nn.mirror_pad(a, symmetric), [x], np.pad(x, symmetric, "symmetric")),
        (
            "int8",
            lambda a: relay.nn.pad(a, ((1, 1),), -7),
            [np.array([-128, 127], "int8")],
            np.array([-7, -128, 127, -7], "int8"),
        ),
    ]
    check_all(cases)


def test_space_and_depth():
    x = f32(2, 12, 2, 3)
    down = f32(2, 3, 4, 6)

    def depth_to_space(v, b, mode):
        n, c, h, w = v.shape
        if mode == "DCR":
            return v.reshape(n, b, b, c // b**2, h, w).transpose(0, 3, 4, 1, 5, 2).reshape(n, c // b**2, h * b, w * b)
        return v.reshape(n, c // b**2, b, b, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c // b**2, h * b, w * b)

    deep = down.reshape(2, 3, 2, 2, 3, 2).transpose(0, 3, 5, 1, 2, 4).reshape(2, 12, 2, 3)
    padded = np.pad(down.transpose(0, 2, 3, 1), ((0, 0), (1, 1), (0, 0), (0, 0)))
    batch = padded.reshape(2, 3, 2, 2, 3, 3).transpose(2, 4, 0, 1, 3, 5).reshape(12, 3, 2, 3)
    blown = np.zeros((3, 7), "float32")
    blown[::2, ::3] = down[0, 0, :2, :3]
    cases = [
        ("depth_to_space", lambda a: relay.nn.depth_to_space(a, 2), [x], depth_to_space(x, 2, "DCR")),
        ("depth_to_space CRD", lambda a: relay.nn.depth_to_space(a, 2, mode="CRD"), [x], depth_to_space(x, 2, "CRD")),
        ("space_to_depth", lambda a: relay.nn.space_to_depth(a, 2), [down], deep),
        (
            "space_to_batch",
            lambda a: relay.nn.space_to_batch_nd(a, [2, 3], [[1, 1], [0, 0]]),
            [np.ascontiguousarray(down.transpose(0, 2, 3, 1))],
            batch,
        ),
        (
            "batch_to_space",
            lambda a: relay.nn.batch_to_space_nd(a, [2, 3], [[1, 1], [0, 0]]),
            [batch],
            np.ascontiguousarray(down.transpose(0, 2, 3, 1)),
        ),
        ("dilate", lambda a: relay.nn.dilate(a, [2, 3]), [down[0, 0, :2, :3]], blown),
        (
            "fifo",
            lambda a, b: relay.nn.fifo_buffer(a, b, 1),
            [f32(2, 2)[:, :2] * 0 + 5, np.arange(10, dtype="float32").reshape(2, 5)],
            np.array([[2, 3, 4, 5, 5], [7, 8, 9, 5, 5]], "float32"),
        ),
        ("flatten", relay.nn.batch_flatten, [x], x.reshape(2, -1)),
    ]
    check_all(cases)


def test_packed_convolutions_equal_plain_ones():
    x, w, d = f32(1, 8, 6, 5), f32(12, 8, 3, 3), f32(8, 1, 3, 3)
    packed = np.ascontiguousarray(x.reshape(1, 2, 4, 6, 5).transpose(0, 1, 3, 4, 2))
    kernel = np.ascontiguousarray(w.reshape(3, 4, 2, 4, 3, 3).transpose(0, 2, 4, 5, 3, 1))
    want, got = run(
        lambda a, b, c, e: [
            relay.nn.conv2d(a, b, (2, 1), (1, 0), (1, 1)),
            relay.nn.contrib_conv2d_nchwc(
                c, e, (2, 1), (1, 0), data_layout="NCHW4c", kernel_layout="OIHW4i4o", channels=12, kernel_size=(3, 3)
            ),
        ],
        x,
        w,
        packed,
        kernel,
    )
    np.testing.assert_allclose(got.transpose(0, 1, 4, 2, 3).reshape(want.shape), want, rtol=1e-4, atol=1e-5)
    kernel = np.ascontiguousarray(d.reshape(2, 4, 1, 1, 3, 3).transpose(0, 2, 4, 5, 3, 1))
    want, got = run(
        lambda a, b, c, e: [
            relay.nn.conv2d(a, b, 1, 1, groups=8),
            relay.nn.contrib_depthwise_conv2d_nchwc(
                c, e, 1, 1, groups=8, data_layout="NCHW4c", kernel_layout="OIHW1i4o"
            ),
        ],
        x,
        d,
        packed,
        kernel,
    )
    np.testing.assert_allclose(got.transpose(0, 1, 4, 2, 3).reshape(want.shape), want, rtol=1e-4, atol=1e-5)
    y, v = f32(3, 7), f32(8, 7)
    got = run(
        lambda a, b: relay.nn.contrib_dense_pack(a, b, "NC4n"),
        y,
        np.ascontiguousarray(v.reshape(2, 4, 7).transpose(0, 2, 1)),
    )
    np.testing.assert_allclose(got, y @ v.T, rtol=1e-4, atol=1e-5)


def test_deformable_without_displacement_is_a_convolution():
    x, w = f32(1, 4, 6, 5), f32(6, 2, 3, 3)
    offset = np.zeros((1, 36, 6, 5), "float32")
    offset[:, 1::2] = 1.0
    shifted = np.zeros_like(x)
    shifted[..., :-1] = x[..., 1:]
    got = run(
        lambda a, o, b: relay.nn.deformable_conv2d(a, o, b, padding=(1, 1), deformable_groups=2, groups=2), x, offset, w
    )
    # Displaced by one column: what falls outside on the right is zero, what comes in on the left is real.
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 2)))
    want = np.zeros((1, 6, 6, 5))
    for f in range(6):
        for y in range(6):
            for c in range(5):
                want[0, f, y, c] = (wide[0, (f // 3) * 2 : (f // 3) * 2 + 2, y : y + 3, c : c + 3] * w[f]).sum()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_correlation():
    a, b = f32(1, 3, 8, 8), f32(1, 3, 8, 8)
    got = run(lambda x, y: relay.nn.correlation(x, y, 1, 2, 1, 1, 2, True, "NCHW"), a, b)
    p, q = (np.pad(v, ((0, 0), (0, 0), (2, 2), (2, 2))) for v in (a, b))
    want = np.stack(
        [
            (p[:, :, 2:10, 2:10] * q[:, :, 2 + dy : 10 + dy, 2 + dx : 10 + dx]).mean(1)
            for dy in range(-2, 3)
            for dx in range(-2, 3)
        ],
        1,
    )
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


REFUSALS = {
    "softmax of integers": (lambda x: relay.nn.softmax(relay.cast(x, "int32")), [(3,)], "not defined for int32"),
    "groups": (
        lambda x, w: relay.nn.conv2d(x, w, groups=2),
        [(1, 4, 3, 3), (3, 2, 1, 1)],
        "3 filters cannot be divided",
    ),
    "matmul": (lambda x, y: relay.nn.matmul(x, y), [(3,), (3,)], "a tensor of rank 2 or more and a matrix"),
    "batch_norm": (
        lambda x, g: relay.nn.batch_norm(x, relay.cast(g, "float16"), g, g, g)[0],
        [(1, 3), (3,)],
        "gamma is float16",
    ),
    "channels of the transposed weight": (
        lambda x, w: relay.nn.conv2d_transpose(x, w),
        [(1, 3, 5, 5), (4, 2, 3, 3)],
        "3 channels, but the weight requires 4",
    ),
    "window": (lambda x: relay.nn.max_pool2d(x, 4), [(1, 1, 3, 3)], "larger than the padded data along H"),
    "layout": (lambda x: relay.nn.avg_pool1d(x), [(1, 1, 3, 3)], "4 dimensions, but its layout NCW has 3"),
    "softmax axis": (lambda x: relay.nn.softmax(x, 2), [(3, 4)], "axis 2 is out of range for 2 dimensions"),
    "prelu": (lambda x, a: relay.nn.prelu(x, a), [(1, 3, 2), (4,)], "alpha must have shape (3,), got (4,)"),
    "group_norm": (
        lambda x, g, b: relay.nn.group_norm(x, g, b, 4),
        [(1, 6, 2), (6,), (6,)],
        "cannot be divided into 4 groups",
    ),
    "layer_norm": (lambda x, g, b: relay.nn.layer_norm(x, g, b), [(1, 6), (5,), (6,)], "gamma must have shape (6,)"),
    "instance_norm": (
        lambda x, g, b: relay.nn.instance_norm(x, g, b),
        [(1, 6), (6,), (6,)],
        "at least one more dimension",
    ),
    "pad": (lambda x: relay.nn.pad(x, ((1, 1),)), [(2, 3)], "pad_width has 1 entries"),
    "pad cuts": (lambda x: relay.nn.pad(x, ((-1, -2),)), [(2,)], "exceeds the dimension of size 2"),
    "mirror": (lambda x: relay.nn.mirror_pad(x, ((3, 0),), "REFLECT"), [(3,)], "too wide for a dimension of size 3"),
    "pad reflects": (lambda x: relay.nn.pad(x, ((0, 3),), 0, "reflect"), [(3,)], "too wide for a dimension of size 3"),
    "pad repeats": (lambda x: relay.nn.pad(x, ((0, 1),), 0, "edge"), [(0,)], "too wide for a dimension of size 0"),
    "mirror mode": (lambda x: relay.nn.mirror_pad(x, ((3, 0),), "OTHER"), [(3,)], "SYMMETRIC or REFLECT"),
    "space_to_depth": (
        lambda x: relay.nn.space_to_depth(x, 2),
        [(1, 3, 3, 2)],
        "3 pixels are not divisible into blocks of 2",
    ),
    "fifo": (lambda x, y: relay.nn.fifo_buffer(x, y, 0), [(4,), (3,)], "does not fit into a buffer"),
    "packed": (
        lambda x, w: relay.nn.contrib_conv2d_nchwc(x, w),
        [(1, 4, 4, 4), (1, 1, 1, 1)],
        "OIHW<i>i<o>o of rank 6",
    ),
    "dense_pack": (lambda x, w: relay.nn.contrib_dense_pack(x, w), [(1, 4), (2, 5, 4)], "but the weight has 5"),
    "nll": (lambda p, t, w: relay.nn.nll_loss(p, t, w, reduction="other"), [(1, 4), (1,), (4,)], "none, mean or sum"),
    "nll type": (lambda p, t, w: relay.nn.nll_loss(p, t, w), [(1, 4), (1,), (4,)], "the targets must be integers"),
    "cross_entropy": (lambda p, t: relay.nn.cross_entropy(p, t), [(1, 4), (1, 5)], "of one shape"),
    "pad mode": (lambda x: relay.nn.pad(x, ((1, 1),), pad_mode="other"), [(2,)], "constant, edge or reflect"),
    "deformable layout": (
        lambda x, o, w: relay.nn.deformable_conv2d(x, o, w, data_layout="CHWN"),
        [(1,), (1,), (1,)],
        "NCHW or NHWC",
    ),
    "output padding": (
        lambda x, w: relay.nn.conv1d_transpose(x, w, output_padding=(2,)),
        [(1, 1, 3), (1, 1, 3)],
        "must be smaller than the stride",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refuses(name):
    build, shapes, words = REFUSALS[name]
    assert words in refused(build, *[tensor(*s) for s in shapes])


def test_channels_and_batches_after_the_last_whole_block_are_left_out(rng):
    x = rng.normal(size=(1, 5, 2, 3)).astype("float32")
    whole = x[:, :4].reshape(1, 2, 2, 1, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(1, 1, 4, 6)
    np.testing.assert_array_equal(run(lambda d: relay.nn.depth_to_space(d, 2), x), whole)
    x = rng.normal(size=(5, 3, 2)).astype("float32")
    whole = x[:4].reshape(2, 2, 3, 2).transpose(1, 2, 0, 3).reshape(2, 6, 2)[:, :5]
    np.testing.assert_array_equal(run(lambda d: relay.nn.batch_to_space_nd(d, [2], [[0, 1]]), x), whole)
    made = relay.nn.batch_to_space_nd(relay.var("x", shape=(1, 5, 5, 4)), [2, 2], [[0, 1], [0, 1]])
    ret = relay.transform.InferType()(tvm.IRModule.from_expr(made))["main"].ret_type
    assert tuple(ret.shape) == (0, 9, 9, 4)


def test_output_padding_of_one_dimension_may_be_a_pair():
    x, w = relay.var("x", shape=(1, 3, 8)), relay.var("w", shape=(3, 4, 3))

    def shape(extra):
        y = relay.nn.conv1d_transpose(x, w, strides=(2,), padding=(1,), output_padding=extra)
        return tuple(relay.transform.InferTypeLocal(y).shape)

    assert shape((1, 1)) == shape((1,)) == (1, 4, 16)
    with pytest.raises(tvm.TVMError, match="output_padding: pass 1 values, one for each spatial dimension"):
        shape((1, 0))

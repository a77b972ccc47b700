"""Images and detection against NumPy and onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import check_all, refused, run, tensor

from tvm import relay, te
from tvm.relay.testing import run_infer_type

rng = np.random.default_rng(23)


def f32(*shape):
    return rng.standard_normal(shape).astype("float32")


def onnx_node(operator, inputs, outputs=1, opset=19, **attributes):
    """What onnxruntime makes of one node."""
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    from onnx import helper, numpy_helper

    feeds = {f"i{k}": v for k, v in enumerate(inputs) if v is not None}
    names = [f"i{k}" if v is not None else "" for k, v in enumerate(inputs)]
    node = helper.make_node(operator, names, [f"o{k}" for k in range(outputs)], **attributes)
    values = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in feeds.items()
    ]
    outs = [helper.make_empty_tensor_value_info(f"o{k}") for k in range(outputs)]
    graph = helper.make_graph([node], "g", values, outs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    del onnx, numpy_helper
    return runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)


@pytest.mark.parametrize("method,name", [("nearest_neighbor", "nearest"), ("linear", "linear"), ("cubic", "cubic")])
def test_resize2d_as_onnx(method, name):
    x = f32(1, 2, 5, 4)
    cases = []
    for mode in ("half_pixel", "align_corners", "asymmetric"):
        for size in ((8, 7), (3, 3)):
            sizes = np.array([1, 2, *size], "int64")
            extra = {"nearest_mode": "floor"} if name == "nearest" else {}
            want = onnx_node(
                "Resize",
                [x, None, None, sizes],
                mode=name,
                coordinate_transformation_mode=mode,
                cubic_coeff_a=-0.5,
                **extra,
            )[0]
            rounding = "floor" if name == "nearest" else ""
            cases.append(
                (
                    f"{mode} {size}",
                    lambda a, s=size, m=mode: relay.image.resize2d(a, s, None, "NCHW", method, m, rounding),
                    [x],
                    want,
                )
            )
    check_all(cases, rtol=1e-4, atol=1e-4)


def test_resizes_along_one_and_three_dimensions():
    x = f32(1, 2, 5)
    cube = f32(1, 1, 2, 3, 2)
    want = onnx_node("Resize", [x, None, None, np.array([1, 2, 8], "int64")], mode="linear")[0]
    check_all(
        [
            ("1d", lambda a: relay.image.resize1d(a, (8,)), [x], want),
            (
                "3d",
                lambda a: relay.image.resize3d(
                    a,
                    (4, 6, 4),
                    method="nearest_neighbor",
                    coordinate_transformation_mode="asymmetric",
                    rounding_method="floor",
                ),
                [cube],
                cube.repeat(2, 2).repeat(2, 3).repeat(2, 4),
            ),
        ],
        rtol=1e-4,
        atol=1e-5,
    )


def test_upsampling():
    x, cube = f32(1, 2, 3, 4), f32(1, 1, 2, 3, 2)
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    corners = onnx_node(
        "Resize",
        [x, None, None, np.array([1, 2, 6, 8], "int64")],
        mode="linear",
        coordinate_transformation_mode="align_corners",
    )[0]
    check_all(
        [
            ("nearest", lambda a: relay.nn.upsampling(a, 2, 3), [x], x.repeat(2, 2).repeat(3, 3)),
            ("channels last", lambda a: relay.nn.upsampling(a, 2, 3, "NHWC"), [last], last.repeat(2, 1).repeat(3, 2)),
            ("bilinear", lambda a: relay.nn.upsampling(a, 2, 2, method="bilinear", align_corners=True), [x], corners),
            ("3d", lambda a: relay.nn.upsampling3d(a, 2, 2, 2), [cube], cube.repeat(2, 2).repeat(2, 3).repeat(2, 4)),
        ],
        rtol=1e-4,
        atol=1e-5,
    )


def test_grids():
    theta = f32(2, 2, 3)
    x, grid = f32(2, 3, 5, 4), rng.uniform(-1.2, 1.2, (2, 4, 3, 2)).astype("float32")
    ys, xs = np.meshgrid(np.linspace(-1, 1, 4), np.linspace(-1, 1, 3), indexing="ij")
    base = np.stack([xs, ys, np.ones_like(xs)]).reshape(3, -1)
    want = (theta.astype("float64") @ base).reshape(2, 2, 4, 3).astype("float32")
    sampled = onnx_node("GridSample", [x, grid], opset=16, mode="bilinear", padding_mode="zeros", align_corners=1)[0]
    check_all(
        [
            ("affine", lambda a: relay.image.affine_grid(a, (4, 3)), [theta], want),
            ("sample", relay.image.grid_sample, [x, np.ascontiguousarray(grid.transpose(0, 3, 1, 2))], sampled),
        ],
        rtol=1e-4,
        atol=1e-5,
    )


def test_crops_and_dilation():
    x = f32(1, 6, 6, 2)
    boxes, index = np.array([[0, 0, 1, 1]], "float32"), np.array([0], "int32")
    w = f32(1, 2, 2)
    y = f32(1, 1, 4, 5)
    want = np.max([y[:, :, i : i + 3, j : j + 4] + w[:, i, j][:, None, None] for i in range(2) for j in range(2)], 0)
    check_all(
        [
            (
                "crop of everything",
                lambda a, b, i: relay.image.crop_and_resize(a, b, i, (6, 6), "NHWC"),
                [x, boxes, index],
                x,
            ),
            ("dilation2d", relay.image.dilation2d, [y, w], want),
        ],
        rtol=1e-5,
    )


def test_proposals_without_moves_are_the_anchors_with_the_highest_scores():
    scores = rng.permutation(24).reshape(1, 2, 3, 4).astype("float32")
    moves, info = np.zeros((1, 4, 3, 4), "float32"), np.array([[12, 16, 1]], "float32")
    best = [np.unravel_index(i, (3, 4)) for i in np.argsort(-scores[0, 1].ravel())[:5]]
    want = np.array([[0, 4 * x, 4 * y, 4 * x + 3, 4 * y + 3] for y, x in best], "float32")
    check_all([("proposal", lambda *t: relay.vision.proposal(*t, [1], [1], 4, 0.5, 12, 5, 1, False),
                [scores, moves, info], want)])  # fmt: skip


def test_regions_as_onnx():
    x = f32(2, 3, 8, 8)
    rois = np.array([[0, 0, 5, 6], [1, 2, 7, 7], [3, 0, 4.5, 4]], "float32")
    batch = np.array([0, 1, 1], "int64")
    full = np.concatenate([batch[:, None].astype("float32"), rois], 1)
    want = onnx_node(
        "RoiAlign",
        [x, rois, batch],
        opset=16,
        output_height=3,
        output_width=2,
        sampling_ratio=2,
        spatial_scale=0.5,
        mode="avg",
        coordinate_transformation_mode="output_half_pixel",
    )[0]
    pooled = onnx_node("MaxRoiPool", [x, full], opset=16, pooled_shape=[2, 2], spatial_scale=1.0)[0]
    check_all(
        [
            ("roi_align", lambda a, r: relay.vision.roi_align(a, r, (3, 2), 0.5, 2), [x, full], want),
            (
                "roi_pool",
                lambda a, r: relay.vision.roi_pool(a, r, (2, 2), 1.0),
                [x, np.floor(full)],
                onnx_node("MaxRoiPool", [x, np.floor(full)], opset=16, pooled_shape=[2, 2], spatial_scale=1.0)[0],
            ),
        ],
        rtol=1e-4,
        atol=1e-5,
    )
    assert pooled.shape == (3, 3, 2, 2)


def test_suppression_as_onnx():
    corner = rng.random((1, 12, 2)).astype("float32")
    boxes = np.concatenate([corner, corner + 0.4], 2)
    scores = rng.random((1, 2, 12)).astype("float32")
    want = onnx_node(
        "NonMaxSuppression",
        [boxes, scores, np.array([4]), np.array([0.3], "float32"), np.array([0.2], "float32")],
        opset=11,
    )[0]
    chosen, count = run(lambda b, s: relay.vision.all_class_non_max_suppression(b, s, 4, 0.3, 0.2), boxes, scores)
    assert int(count.ravel()[0]) == len(want)
    np.testing.assert_array_equal(chosen[: len(want)], want)
    data = np.concatenate([np.zeros((1, 12, 1), "float32"), scores[:, 0, :, None], boxes], 2)

    def build(d):
        counts, valid, places = relay.vision.get_valid_counts(d, 0.2)
        return relay.vision.non_max_suppression(valid, counts, places, 4, 0.3)

    kept, number = run(build, data)
    own = [row[2] for row in want if row[1] == 0]
    assert int(number.ravel()[0]) == len(own)
    np.testing.assert_array_equal(kept[0, : len(own)], own)


def test_anchors_and_reorder():
    x = f32(1, 4, 2, 2)
    prior = run(lambda a: relay.vision.multibox_prior(a, (0.5, 0.25), (1.0, 2.0)), x)
    assert prior.shape == (1, 2 * 2 * 3, 4)
    np.testing.assert_allclose(prior[0, 0], [0, 0, 0.5, 0.5], atol=1e-6)
    moved, count = run(
        lambda p, l, a: relay.vision.multibox_transform_loc(p, l, a),
        np.array([[[0.1] * 12, [0.9] * 12]], "float32"),
        np.zeros((1, 48), "float32"),
        prior,
    )
    assert int(count[0]) == 12 and moved.shape == (1, 12, 6)
    np.testing.assert_allclose(moved[0, :, 2:], np.clip(prior[0], 0, 1), atol=1e-5)
    kept, count = run(
        lambda p, l, a: relay.vision.multibox_transform_loc(p, l, a, threshold=0.5, keep_background=True),
        np.array([[[0.9] * 4 + [0.1] * 8, [0.1] * 4 + [0.3] * 4 + [0.7] * 4]], "float32"),
        np.zeros((1, 48), "float32"),
        prior,
    )
    assert int(count[0]) == 12
    np.testing.assert_allclose(kept[0, ::4, :2], [[0, 0.9], [0, 0.3], [1, 0.7]], atol=1e-6)
    wide = f32(1, 4, 4, 4)
    got = run(lambda a: relay.vision.yolo_reorg(a, 2), wide)
    assert got.shape == (1, 16, 2, 2) and sorted(got.ravel()) == sorted(wide.ravel())


REFUSALS = {
    "resize": (lambda x: relay.image.resize2d(x, (3,)), [tensor(1, 1, 2, 2)], "expected 2 sizes"),
    "resize layout": (lambda x: relay.image.resize2d(x, (3, 3)), [tensor(1, 1, 2)], "its layout NCHW has 4"),
    "resize method": (
        lambda x: relay.nn.upsampling(x, method="other"),
        [tensor(1, 1, 2)],
        "nearest_neighbor, bilinear",
    ),
    "dilation2d": (
        lambda x, w: relay.image.dilation2d(x, w, data_layout="HWC"),
        [tensor(1), tensor(1)],
        "NCHW with IHW",
    ),
    "roi_align": (
        lambda x, r: relay.vision.roi_align(x, r, 2, 1.0, layout="HWC"),
        [tensor(1), tensor(1)],
        "NCHW or NHWC",
    ),
    "roi_pool": (lambda x, r: relay.vision.roi_pool(x, r, 2, 1.0, layout="NCHW4c"), [tensor(1), tensor(1)], "NCHW"),
    "yolo": (lambda x: relay.vision.yolo_reorg(x, 2), [tensor(1, 3, 4, 4)], "are not divisible by stride"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refuses(name):
    build, types, words = REFUSALS[name]
    assert words in refused(build, *types)


def test_the_shape_of_reordered_channels_may_be_open():
    n, c, h, w = (te.size_var(name) for name in "nchw")
    got = run_infer_type(relay.vision.yolo_reorg(relay.var("x", shape=(n, c, h, w)), 2)).checked_type
    assert got == relay.TensorType((n, c * 4, h // 2, w // 2), "float32")

"""Resizing, cropping, sampling and dilation against references made from the definitions."""

from __future__ import annotations

import numpy as np
import pytest

from tests.topi.evaluate import evaluate
from tvm import te, topi
from tvm.topi.testing.grid_sample_python import affine_grid_python, grid_sample_python
from tvm.topi.testing.resize_python import (
    crop_and_resize_python,
    resize1d_python,
    resize2d_python,
    resize3d_python,
)

MODES = ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric"]


def same(got, wanted, label):
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4, err_msg=str(label))


@pytest.mark.parametrize("size", [(6, 10), (7, 3), (1, 5), (3, 5), (9, 1), (2, 13)])
def test_resize2d_by_size(rng, size):
    data = rng.normal(size=(1, 2, 3, 5)).astype("float32")
    labels = [("linear", m, "") for m in MODES] + [("cubic", m, "") for m in MODES]
    roundings = ("", "round", "floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    labels += [("nearest_neighbor", m, r) for m in [*MODES, "tf_half_pixel_for_nn"] for r in roundings]

    def make(t):
        return [topi.image.resize2d(t, None, size, "NCHW", m, c, r) for m, c, r in labels]

    scale = (size[0] / 3, size[1] / 5)
    for got, (method, mode, rounding) in zip(evaluate([data], make), labels):
        wanted = resize2d_python(data, scale, "NCHW", method, mode, size=size, rounding=rounding)
        same(got, wanted, (method, mode, rounding))


@pytest.mark.parametrize("scale", [0.6, 1.3, 2.0])
def test_scales_that_are_no_ratio_of_sizes(rng, scale):
    data = rng.normal(size=(1, 1, 5, 7)).astype("float32")
    size = (int(5 * scale), int(7 * scale))
    labels = [(m, c) for m in ("linear", "cubic") for c in MODES]

    def make(t):
        return [topi.image.resize2d(t, None, size, "NCHW", m, c, scales=(scale, scale)) for m, c in labels]

    for got, (method, mode) in zip(evaluate([data], make), labels):
        same(got, resize2d_python(data, (scale, scale), "NCHW", method, mode, size=size), (method, mode))


def test_cubic_options_and_antialias(rng):
    data = rng.normal(size=(1, 1, 11, 8)).astype("float32")
    cases = [
        {"method": "cubic", "alpha": -0.75},
        {"method": "cubic", "alpha": -0.75, "exclude": True},
        {"method": "linear", "antialias": True},
        {"method": "cubic", "antialias": True, "alpha": -0.75},
        {"method": "cubic", "antialias": True, "exclude": True},
    ]
    names = {"alpha": "bicubic_alpha", "exclude": "bicubic_exclude"}
    for size in ((4, 3), (16, 5)):

        def make(t, size=size):
            return [topi.image.resize2d(t, None, size, **{names.get(k, k): v for k, v in c.items()}) for c in cases]

        scale = (size[0] / 11, size[1] / 8)
        for got, case in zip(evaluate([data], make), cases):
            options = {k: v for k, v in case.items() if k != "method"}
            wanted = resize2d_python(data, scale, "NCHW", case["method"], "half_pixel", size=size, **options)
            same(got, wanted, case)


def test_region_of_interest(rng):
    data = rng.normal(size=(1, 1, 5, 6)).astype("float32")
    roi = [0.2, -0.3, 0.9, 1.4]
    mode = "tf_crop_and_resize"
    got = evaluate(
        [data], lambda t: topi.image.resize2d(t, roi, (3, 7), "NCHW", "linear", mode, extrapolation_value=9.0)
    )
    wanted = resize2d_python(data, (1, 1), "NCHW", "linear", mode, size=(3, 7), roi=roi, extrapolation=9.0)
    same(got, wanted, "list")
    tensor = np.array(roi, "float32")
    got = evaluate(
        [data, tensor], lambda t, r: topi.image.resize2d(t, r, (3, 7), "NCHW", "linear", mode, extrapolation_value=9.0)
    )
    same(got, wanted, "tensor")
    with pytest.raises(ValueError, match="needs a region"):
        topi.image.resize2d(te.placeholder((1, 1, 5, 6)), None, (3, 7), "NCHW", "linear", mode)


def test_other_layouts_axes_and_types(rng):
    flat = rng.normal(size=(2, 3, 5)).astype("float32")
    same(
        evaluate([flat], lambda t: topi.image.resize1d(t, None, (8,), "NCW", "linear")),
        resize1d_python(flat, (8 / 5,), "NCW", "linear", "half_pixel", size=(8,)), "1d",
    )  # fmt: skip
    image = rng.integers(0, 255, (1, 4, 3, 2)).astype("uint8")
    got = evaluate([image], lambda t: topi.image.resize2d(t, None, (8, 6), "NHWC", "nearest_neighbor", "asymmetric"))
    np.testing.assert_array_equal(got, image.repeat(2, 1).repeat(2, 2))
    blocked = rng.normal(size=(1, 2, 3, 4, 4)).astype("float32")
    got = evaluate(
        [blocked], lambda t: topi.image.resize2d(t, None, (6, 8), "NCHW4c", "nearest_neighbor", "asymmetric")
    )
    np.testing.assert_array_equal(got, blocked.repeat(2, 2).repeat(2, 3))
    volume = rng.normal(size=(1, 1, 3, 4, 5)).astype("float32")
    for method in ("nearest_neighbor", "linear", "cubic"):
        got = evaluate([volume], lambda t: topi.image.resize3d(t, None, (5, 3, 8), "NCDHW", method))
        wanted = resize3d_python(volume, (5 / 3, 3 / 4, 8 / 5), "NCDHW", method, "half_pixel", size=(5, 3, 8))
        same(got, wanted, method)


def test_resize_refusals():
    t = te.placeholder((1, 2, 3, 4))
    with pytest.raises(ValueError, match="the method must be one of"):
        topi.image.resize2d(t, None, (3, 3), method="bilinear")
    with pytest.raises(ValueError, match="coordinate transformation mode"):
        topi.image.resize2d(t, None, (3, 3), coordinate_transformation_mode="half")
    with pytest.raises(ValueError, match="does not describe"):
        topi.image.resize2d(t, None, (3, 3), layout="NCW")
    with pytest.raises(ValueError, match="for each of H, W"):
        topi.image.resize2d(t, None, (3,))


def test_crop_and_resize(rng):
    data = rng.normal(size=(2, 3, 7, 6)).astype("float32")
    boxes = np.array([[0, 0, 1, 1], [0.1, 0.2, 0.8, 0.93], [-0.5, 0.3, 1.5, 0.4]], "float32")
    index = np.array([1, 0, 1], "int32")
    for method in ("bilinear", "nearest_neighbor"):
        for layout, image in (("NCHW", data), ("NHWC", data.transpose(0, 2, 3, 1).copy())):
            got = evaluate(
                [image, boxes, index], lambda d, b, i: topi.image.crop_and_resize(d, b, i, (4, 5), layout, method, 2.5)
            )
            same(got, crop_and_resize_python(image, boxes, index, (4, 5), layout, method, 2.5), (layout, method))


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [True, False])
def test_grid_sample(rng, padding, align):
    data, grid = rng.normal(size=(2, 2, 4, 5)).astype("float32"), rng.uniform(-1.9, 1.9, (2, 2, 3, 4)).astype("float32")
    methods = ("bilinear", "nearest", "bicubic")

    def make(d, g):
        return [topi.image.grid_sample(d, g, m, "NCHW", padding, align) for m in methods]

    for got, method in zip(evaluate([data, grid], make), methods):
        same(got, grid_sample_python(data, grid, method, "NCHW", padding, align), method)
    data, grid = (
        rng.normal(size=(1, 2, 3, 4, 5)).astype("float32"),
        rng.uniform(-1.5, 1.5, (1, 3, 2, 3, 2)).astype("float32"),
    )
    for method in ("bilinear", "nearest"):
        got = evaluate([data, grid], lambda d, g: topi.image.grid_sample(d, g, method, "NCDHW", padding, align))
        same(got, grid_sample_python(data, grid, method, "NCDHW", padding, align), method)


def test_grid_places_that_are_no_numbers_read_nothing_else():
    data = np.ones((1, 1, 2, 2), "float32")
    grid = np.array([np.nan, np.inf, -np.inf, 1e30], "float32").reshape(1, 1, 1, 4).repeat(2, 1)
    got = evaluate([data, grid], lambda d, g: topi.image.grid_sample(d, g, "nearest"))
    assert set(got.ravel().tolist()) <= {0.0, 1.0}


def test_affine_grid(rng):
    for number, target in ((2, (3, 5)), (2, (1, 4)), (3, (2, 3, 4))):
        data = rng.normal(size=(2, number, number + 1)).astype("float32")
        for align in (True, False):
            got = evaluate([data], lambda d: topi.image.affine_grid(d, target, align))
            same(got, affine_grid_python(data, target, align), (target, align))


def test_dilation2d(rng):
    data, kernel = rng.normal(size=(1, 2, 7, 6)).astype("float32"), rng.normal(size=(2, 3, 2)).astype("float32")
    for stride, pads, dilation in (((1, 1), (0, 0, 0, 0), (1, 1)), ((2, 1), (1, 0, 1, 2), (1, 2))):
        padded = np.pad(data, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])), constant_values=-np.inf)
        reach = [(k - 1) * d + 1 for k, d in zip((3, 2), dilation)]
        out = [(n - r) // s + 1 for n, r, s in zip(padded.shape[2:], reach, stride)]
        wanted = np.full((1, 2, *out), -np.inf, "float32")
        for y, x in np.ndindex(*out):
            for i, j in np.ndindex(3, 2):
                value = padded[:, :, y * stride[0] + i * dilation[0], x * stride[1] + j * dilation[1]] + kernel[:, i, j]
                wanted[:, :, y, x] = np.maximum(wanted[:, :, y, x], value)
        got = evaluate([data, kernel], lambda d, k: topi.image.dilation2d_nchw(d, k, stride, pads, dilation))
        same(got, wanted, stride)
        moved, turned = data.transpose(0, 2, 3, 1).copy(), kernel.transpose(1, 2, 0).copy()
        got = evaluate([moved, turned], lambda d, k: topi.image.dilation2d_nhwc(d, k, stride, pads, dilation))
        same(got, wanted.transpose(0, 2, 3, 1), "nhwc")

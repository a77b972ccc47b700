"""Photos as inputs."""

from __future__ import annotations

import numpy as np
import pytest

from tvm.driver.tvmc.errors import TVMCException
from tvm.driver.tvmc.image import IMAGENET_MEAN, IMAGENET_STD, load_image, place_of_channels

Image = pytest.importorskip("PIL.Image")
COLOUR = (200, 100, 50)


@pytest.fixture
def photo(tmp_path) -> str:
    """One colour, so that resizing and cutting leave it as it is."""
    path = str(tmp_path / "p.png")
    Image.new("RGB", (60, 40), COLOUR).save(path)
    return path


def test_pixels_are_normalized_for_imagenet(photo):
    got = load_image(photo, [1, 3, 16, 24], "float32")
    assert got.shape == (1, 3, 16, 24) and got.dtype == "float32"
    want = (np.array(COLOUR) / 255 - IMAGENET_MEAN) / IMAGENET_STD
    np.testing.assert_allclose(got, np.broadcast_to(want.reshape(1, 3, 1, 1), got.shape), rtol=1e-5, atol=1e-5)


def test_layout_order_and_statistics_can_be_chosen(photo):
    got = load_image(photo, [1, 8, 8, 3], "float32", mean=(1, 2, 3), std=(2, 2, 2), bgr=True, scale=1.0)
    np.testing.assert_allclose(got[0, 0, 0], (np.array(COLOUR[::-1]) - (1, 2, 3)) / 2, rtol=1e-6, atol=1e-6)
    plain = load_image(photo, [1, 8, 8, 3], "uint8", (0, 0, 0), (1, 1, 1), scale=1.0)
    assert plain.dtype == "uint8" and tuple(plain[0, 3, 4]) == COLOUR


def test_one_channel_gets_grey_pixels(photo):
    got = load_image(photo, [1, 1, 5, 5], "float32", (0,), (1,), scale=1.0)
    want = np.asarray(Image.open(photo).convert("L"))[0, 0]
    np.testing.assert_array_equal(got, np.full((1, 1, 5, 5), want, "float32"))


def test_the_middle_is_cut_out(tmp_path):
    # The left and right quarter are black; a square input sees only the middle half.
    pixels = np.zeros((40, 80, 3), "uint8")
    pixels[:, 20:60] = 255
    Image.fromarray(pixels).save(tmp_path / "wide.png")
    got = load_image(str(tmp_path / "wide.png"), [1, 3, 224, 224], "float32", (0, 0, 0), (1, 1, 1))
    np.testing.assert_allclose(got[..., 112], 1, rtol=1e-6, atol=1e-6)
    assert got.min() > 0.9


def test_inputs_that_are_no_photos_are_refused(photo, tmp_path):
    assert place_of_channels([1, 3, 8, 3], "NHWC") == "NHWC" and place_of_channels([1, 3, 8, 3]) == "NCHW"
    for shape, layout in (([2, 3, 8, 8], ""), ([1, 4, 8, 8], ""), ([1, 3, 8, 8], "NHWC"), ([3, 8, 8], "")):
        with pytest.raises(TVMCException, match="a photo"):
            place_of_channels(shape, layout)
    with pytest.raises(TVMCException, match="cannot be zero"):
        load_image(photo, [1, 3, 8, 8], "float32", std=(0, 1, 1))
    cut = tmp_path / "cut.png"
    with open(photo, "rb") as whole:
        cut.write_bytes(whole.read()[:60])
    with pytest.raises(TVMCException, match="cannot read .* as a photo"):
        load_image(str(cut), [1, 3, 8, 8], "float32")

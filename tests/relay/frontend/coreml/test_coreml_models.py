"""Whole models: networks with drawn weights against NumPy, and the real file against the result beside it."""

from __future__ import annotations

import os

import networks
import numpy as np
import pytest
from coreml_writer import run
from model_files import model_file


@pytest.fixture
def rng():
    return np.random.default_rng(int(os.environ.get("TVM_TEST_SEED") or 0))


@pytest.mark.parametrize("order", [networks.RGB, networks.BGR])
def test_a_network_classifies_images_in_its_order_of_colours(rng, order):
    net, image = networks.MobileNet(rng), networks.pixels(rng, 16)
    (got,) = run(net.network(order), {"image": image})
    np.testing.assert_allclose(got, net.numpy(networks.scaled(image, order)), 1e-3, 1e-4)


def test_a_program_classifies_images_with_weights_of_a_package(tmp_path):
    # How far float16 leads away depends on the weights, so that these are always the same.
    rng = np.random.default_rng(7)
    net, image = networks.MobileNet(rng), networks.pixels(rng, 16)
    package = net.program().package(tmp_path / "net.mlpackage")
    (got,) = run(package, {"image": image})
    wanted = net.numpy(networks.scaled(image))
    np.testing.assert_allclose(got, wanted, 0, 3e-2)
    # The label is that of the network in float32, unless two are as good as equal.
    best = np.sort(wanted[0])
    assert best[-1] - best[-2] < 6e-2 or got.argmax() == wanted.argmax()


@pytest.mark.parametrize("name", ["unet", "text_classifier", "transformer", "pipeline"])
def test_a_network_gives_what_numpy_gives(rng, name):
    model, feeds, wanted = getattr(networks, name)(rng)
    shape = {"words": (4, 1, 1, 1, 1)} if name == "text_classifier" else None
    for got, want in zip(run(model, feeds, shape), wanted, strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, 1e-3, 1e-2 if name == "pipeline" else 1e-4)


@pytest.mark.slow("imports, compiles and runs a whole network")
def test_the_pitch_tracker_gives_the_pitch_of_four_tones():
    path = model_file("formats/coreml") / "crepe_tiny"
    with np.load(f"{path}.npz") as found:
        frames, wanted = found["in_frames"], found["out_probabilities"]
    (got,) = run(f"{path}.mlpackage", {"frames": frames}, {"frames": frames.shape})
    np.testing.assert_allclose(got, wanted, 0, 2e-3)
    assert (got.argmax(1) == wanted.argmax(1)).all()

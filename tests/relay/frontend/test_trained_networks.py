"""Trained networks written in older formats, from the weights of real files: they say of photos what the original says,
and give its outputs. ``python -m tools models legacy`` runs all of them."""

from __future__ import annotations

import pytest
from model_files import model_file
from trained_networks import CLOSE, FORMATS, NATIVE, SOURCES, tried

pytest.importorskip("PIL")


def _check(form: str, name: str, native: bool = False) -> None:
    model_file(SOURCES[name].file)
    found = tried(form, name, native)
    assert found.says == found.wanted
    assert found.off < CLOSE.get(form, 2e-4)


# The guides of the other formats run this network: test_classic_guides.py.
@pytest.mark.parametrize("form", ["CNTK", "DarkNet"])
def test_a_small_network_sees_a_cat(form):
    _check(form, "cifar_convnet")


@pytest.mark.slow("imports, compiles and runs a whole network")
def test_a_residual_network_in_a_format_that_the_seed_chooses(rng):
    _check(str(rng.choice(sorted(FORMATS))), "resnet8")


@pytest.mark.slow("imports, compiles and runs whole networks")
def test_real_files_give_the_outputs_of_their_frameworks_and_say_what_photos_show(rng):
    """Every seed has another small one and two other large ones; ``python -m tools models legacy`` runs all of them."""
    small = [row for row in NATIVE if row[0] == "CNTK"]
    large = [row for row in NATIVE if row not in small]
    for form, name in [*rng.permutation(small)[:1], *rng.permutation(large)[:2]]:
        _check(str(form), str(name), True)


@pytest.mark.slow("imports, compiles and runs a whole network")
def test_a_large_network_names_what_photos_show(rng):
    """Every seed has another one; ``python -m tools models legacy`` runs all of them."""
    large = [("Caffe2", "squeezenet"), ("MXNet", "mobilenet_v2"), ("Caffe", "mobilenet_v2")]
    _check(*large[int(rng.integers(len(large)))])

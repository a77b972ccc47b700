"""Real CNTK models against the outputs of CNTK beside them, in shared/models/formats beside the checkout, and networks
that CNTK wrote with seeded weights."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from cntk_cases import cases, check, compare, run

from tvm.relay.frontend import from_cntk


def _folder() -> Path | None:
    """The folder of models: TVM_TEST_MODELS, or shared/models in a folder above."""
    if os.environ.get("TVM_TEST_MODELS"):
        return Path(os.environ["TVM_TEST_MODELS"])
    for folder in Path(__file__).resolve().parents:
        if (folder / "shared" / "models").is_dir():
            return folder / "shared" / "models"
    return None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ResNet20_CIFAR10_DataAug.dnn", "cifar10.pretrained.cmf"])
def test_a_real_model_gives_what_cntk_gave(name):
    folder = _folder()
    if folder is None or not (folder / "formats" / "cntk" / name).is_file():
        pytest.skip(f"{name} is not in shared/models/formats (TVM_TEST_MODELS names another folder than shared/models)")
    path = folder / "formats" / "cntk" / name
    with np.load(f"{path}.npz") as found:
        feeds, wanted = {"features": found["in_features"]}, found["out_z"]
    module, params = from_cntk(path)
    got = run(module, params, feeds)
    compare(got, [wanted])
    assert got[0].argmax() == wanted.argmax()


@pytest.mark.parametrize("name", [n for n in cases() if n.startswith("network/")])
def test_a_network_gives_what_cntk_gave(name):
    check(name, "v2")


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in cases() if n.startswith("network/")])
def test_a_network_in_the_first_format_gives_what_cntk_gave(name):
    check(name, "v1")

"""Real CNTK models against the outputs of CNTK beside them, in shared/models/formats beside the checkout, and networks
that CNTK wrote with seeded weights."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_cases import cases, check, compare, run
from model_files import model_file

from tvm.relay.frontend import from_cntk


@pytest.mark.slow("imports, compiles and runs a whole network")
@pytest.mark.parametrize("name", ["ResNet20_CIFAR10_DataAug.dnn", "cifar10.pretrained.cmf"])
def test_a_real_model_gives_what_cntk_gave(name):
    path = model_file(f"formats/cntk/{name}")
    with np.load(f"{path}.npz") as found:
        feeds, wanted = {"features": found["in_features"]}, found["out_z"]
    module, params = from_cntk(path)
    got = run(module, params, feeds)
    compare(got, [wanted])
    assert got[0].argmax() == wanted.argmax()


@pytest.mark.parametrize("name", [n for n in cases() if n.startswith("network/")])
def test_a_network_gives_what_cntk_gave(name):
    check(name, "v2")


@pytest.mark.slow("imports, compiles and runs a whole network")
@pytest.mark.parametrize("name", [n for n in cases() if n.startswith("network/")])
def test_a_network_in_the_first_format_gives_what_cntk_gave(name):
    check(name, "v1")

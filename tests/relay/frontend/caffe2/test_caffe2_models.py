"""A real Caffe2 model against the outputs of Caffe2 beside it, in shared/models/formats beside the checkout, and
networks with seeded weights."""

from __future__ import annotations

import os

import numpy as np
import pytest
from caffe2_cases import NETWORKS
from caffe2_writer import compare, conformance, imported, run
from model_files import model_file

from tvm.relay.frontend import from_caffe2


@pytest.mark.slow("imports, compiles and runs a whole network")
def test_the_super_resolution_net_gives_what_caffe2_gave():
    model = model_file("formats/caffe2/super_resolution")
    with np.load(model / "predict_net.npz") as found:
        feeds, wanted = {"1": found["in_1"]}, found["out_27"]
    module, params = from_caffe2(model / "init_net.pb", model / "predict_net.pb")
    got = run(module, params, feeds)
    compare(got[:1], [wanted])
    # The two results more are the shapes that tensors had before they were reshaped.
    assert [g.tolist() for g in got[1:]] == [[1, 9, 224, 224], [1, 1, 224, 3, 224, 3]]


@pytest.mark.slow("imports, compiles and runs a whole network")
def test_a_network_gives_what_caffe2_gave(rng):
    """Every seed has another one; TVM_CONFORMANCE_CASES=all has all of them."""
    names = sorted(NETWORKS)
    for name in names if os.environ.get("TVM_CONFORMANCE_CASES") else [str(rng.choice(names))]:
        case = NETWORKS[name]()
        compare(run(*imported(case), case.feeds), conformance().cases_module("caffe2").expected()[name])

"""Known networks with drawn weights against the outputs of OpenCV (opencv.npz, written by tools/opencv_networks.py)."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from caffe_networks import NETWORKS, drawn
from opencv_comparison import difference, imported

from tvm import relay


@pytest.mark.slow("imports, compiles and runs a whole network")
def test_a_network_gives_what_opencv_gave(rng):
    """One of them for every seed: a network is compiled in some seconds."""
    every = os.environ.get("TVM_CONFORMANCE_CASES")
    for name in sorted(NETWORKS) if every else [str(rng.choice(sorted(NETWORKS)))]:
        text, weights, data = drawn(name)
        with np.load(Path(__file__).with_name("opencv.npz")) as arrays:
            wanted = [arrays[key] for key in sorted(arrays) if key.startswith(f"{name}|")]
        assert wanted
        module = imported("caffe", text, weights)
        got = relay.create_executor("graph", mod=module, target="llvm").evaluate()(data)
        assert not difference([got.numpy()] if hasattr(got, "numpy") else [v.numpy() for v in got], wanted), name

"""A real network of Caffe against the outputs of OpenCV beside it, in shared/models/formats beside the checkout.
UltraFace, the other one, is among those of ../test_trained_networks.py."""

from __future__ import annotations

import numpy as np
import pytest
from model_files import model_file

from tvm import relay
from tvm.relay.frontend import from_caffe


@pytest.mark.slow("imports, compiles and runs a whole network")
def test_a_real_network_gives_what_opencv_gave():
    base = model_file("formats/caffe/hyperlpr/SegmenationFree-Inception.prototxt").with_suffix("")
    module, params = from_caffe(f"{base}.caffemodel", f"{base}.prototxt")
    assert not params
    with np.load(f"{base}.npz") as arrays:
        data, wanted = arrays["in_data"], arrays["out_prob"]
    got = relay.create_executor("graph", mod=module, target="llvm").evaluate()(data)
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-3, atol=2e-5)

"""Real networks of Caffe against the outputs of OpenCV beside them, in shared/models/formats beside the checkout."""

from __future__ import annotations

import numpy as np
import pytest
from model_files import model_file

from tvm import relay
from tvm.relay.frontend import from_caffe


@pytest.mark.slow("imports, compiles and runs a whole network")
@pytest.mark.parametrize(("name", "outputs"), [
    ("caffe/ultraface/RFB-320", ["boxes", "scores"]),
    ("caffe/hyperlpr/SegmenationFree-Inception", ["prob"]),
])  # fmt: skip
def test_a_real_network_gives_what_opencv_gave(name, outputs):
    base = model_file(f"formats/{name}.prototxt").with_suffix("")
    module, params = from_caffe(f"{base}.caffemodel", f"{base}.prototxt")
    assert not params
    with np.load(f"{base}.npz") as arrays:
        (data,) = (arrays[k] for k in arrays if k.startswith("in_"))
        wanted = [arrays[f"out_{k}"] for k in outputs]
    got = relay.create_executor("graph", mod=module, target="llvm").evaluate()(data)
    for value, want in zip([got] if len(wanted) == 1 else got, wanted, strict=True):
        np.testing.assert_allclose(value.numpy(), want, rtol=1e-3, atol=2e-5)

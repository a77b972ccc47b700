"""A real network of DarkNet against the outputs of OpenCV beside it, in shared/models/formats beside the checkout."""

from __future__ import annotations

import numpy as np
import pytest
from model_files import model_file

from tvm import relay
from tvm.relay.frontend import from_darknet

NAME = "formats/darknet/yolo-fastest-1.1"
# OpenCV writes 0 for products of objectness and class at or below this.
LEAST = 0.2


@pytest.mark.slow("imports, compiles and runs a whole network")
def test_a_real_detector_gives_the_boxes_that_opencv_gave():
    path = model_file(f"{NAME}.cfg")
    module, params = from_darknet(path, path.with_suffix(".weights"), boxes=True)
    assert not params
    with np.load(path.with_suffix(".npz")) as arrays:
        data, wanted = arrays["in_data"], [arrays["out_yolo_121"], arrays["out_yolo_130"]]
    results = relay.create_executor("graph", mod=module, target="llvm").evaluate()(data)
    for got, want in zip(results, wanted, strict=True):
        rows = got.numpy()[0]
        rows[:, 5:] = np.where(rows[:, 5:] <= LEAST, 0, rows[:, 5:])
        assert (want[:, 5:] > 0).any()
        np.testing.assert_allclose(rows, want, rtol=1e-4, atol=1e-5)

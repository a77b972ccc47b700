"""A real network of DarkNet against the outputs of OpenCV beside it, in shared/models/formats beside the checkout."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tvm import relay
from tvm.relay.frontend import from_darknet

NAME = "formats/darknet/yolo-fastest-1.1"
# OpenCV writes 0 for products of objectness and class at or below this.
LEAST = 0.2


def _folder() -> Path | None:
    """The folder of models: TVM_TEST_MODELS, or shared/models in a folder above."""
    if os.environ.get("TVM_TEST_MODELS"):
        return Path(os.environ["TVM_TEST_MODELS"])
    for folder in Path(__file__).resolve().parents:
        if (folder / "shared" / "models").is_dir():
            return folder / "shared" / "models"
    return None


@pytest.mark.slow
def test_a_real_detector_gives_the_boxes_that_opencv_gave():
    folder = _folder()
    if folder is None or not (folder / f"{NAME}.cfg").exists():
        pytest.skip(f"{NAME} is not in shared/models (TVM_TEST_MODELS names another folder)")
    module, params = from_darknet(folder / f"{NAME}.cfg", folder / f"{NAME}.weights", boxes=True)
    assert not params
    with np.load(folder / f"{NAME}.npz") as arrays:
        data, wanted = arrays["in_data"], [arrays["out_yolo_121"], arrays["out_yolo_130"]]
    results = relay.create_executor("graph", mod=module, target="llvm").evaluate()(data)
    for got, want in zip(results, wanted, strict=True):
        rows = got.numpy()[0]
        rows[:, 5:] = np.where(rows[:, 5:] <= LEAST, 0, rows[:, 5:])
        assert (want[:, 5:] > 0).any()
        np.testing.assert_allclose(rows, want, rtol=1e-4, atol=1e-5)

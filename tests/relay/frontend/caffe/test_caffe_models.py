"""Real networks of Caffe against the outputs of OpenCV beside them, in shared/models/formats beside the checkout."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tvm import relay
from tvm.relay.frontend import from_caffe


def _folder() -> Path | None:
    """The folder of models: TVM_TEST_MODELS, or shared/models in a folder above."""
    if os.environ.get("TVM_TEST_MODELS"):
        return Path(os.environ["TVM_TEST_MODELS"])
    for folder in Path(__file__).resolve().parents:
        if (folder / "shared" / "models").is_dir():
            return folder / "shared" / "models"
    return None


@pytest.mark.slow
@pytest.mark.parametrize(("name", "outputs"), [
    ("caffe/ultraface/RFB-320", ["boxes", "scores"]),
    ("caffe/hyperlpr/SegmenationFree-Inception", ["prob"]),
])  # fmt: skip
def test_a_real_network_gives_what_opencv_gave(name, outputs):
    folder = _folder()
    if folder is None or not (folder / "formats" / f"{name}.prototxt").exists():
        pytest.skip(f"{name} is not in shared/models/formats (TVM_TEST_MODELS names another folder than shared/models)")
    base = folder / "formats" / name
    module, params = from_caffe(f"{base}.caffemodel", f"{base}.prototxt")
    assert not params
    with np.load(f"{base}.npz") as arrays:
        (data,) = (arrays[k] for k in arrays if k.startswith("in_"))
        wanted = [arrays[f"out_{k}"] for k in outputs]
    got = relay.create_executor("graph", mod=module, target="llvm").evaluate()(data)
    for value, want in zip([got] if len(wanted) == 1 else got, wanted, strict=True):
        np.testing.assert_allclose(value.numpy(), want, rtol=1e-3, atol=2e-5)

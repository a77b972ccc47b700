"""Real Keras files against the outputs of Keras beside them, in shared/models/formats beside the checkout."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest


def _folder() -> Path | None:
    """The folder of models: TVM_TEST_MODELS, or shared/models in a folder above."""
    if os.environ.get("TVM_TEST_MODELS"):
        return Path(os.environ["TVM_TEST_MODELS"])
    for folder in Path(__file__).resolve().parents:
        if (folder / "shared" / "models").is_dir():
            return folder / "shared" / "models"
    return None


@pytest.mark.slow
def test_a_trained_network_in_an_hdf5_file_gives_what_keras_gave(root):
    name, folder = "mlperf_tiny/pretrainedResnet.h5", _folder()
    if folder is None or not (folder / "formats" / name).is_file():
        pytest.skip(f"{name} is not in shared/models/formats (TVM_TEST_MODELS names another folder than shared/models)")
    spec = importlib.util.spec_from_file_location("keras_conformance", root / "tools" / "keras_conformance.py")
    runner = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(runner)
    path = folder / "formats" / name
    with np.load(f"{path}.npz") as arrays:
        feeds = {k[3:]: arrays[k] for k in arrays if k.startswith("in_")}
        wanted = [arrays[k] for k in arrays if k.startswith("out_")]
    for got, value in zip(runner.run_model(str(path), feeds), wanted, strict=True):
        np.testing.assert_allclose(got, value, rtol=0, atol=1e-5)

"""Real Keras files against the outputs of Keras beside them, in shared/models/formats beside the checkout."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from model_files import model_file, recorded


@pytest.mark.slow("imports, compiles and runs a whole network")
def test_a_trained_network_in_an_hdf5_file_gives_what_keras_gave(root):
    path = model_file("formats/mlperf_tiny/pretrainedResnet.h5")
    spec = importlib.util.spec_from_file_location("keras_conformance", root / "tools" / "keras_conformance.py")
    runner = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(runner)
    feeds, wanted = recorded(Path(f"{path}.npz"))
    for got, value in zip(runner.run_model(str(path), feeds), wanted, strict=True):
        np.testing.assert_allclose(got, value, rtol=0, atol=1e-5)

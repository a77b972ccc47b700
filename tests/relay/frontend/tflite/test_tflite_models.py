"""Real TFLite files against the outputs of LiteRT beside them, in shared/models/formats beside the checkout."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest
from model_files import model_file, recorded

from tvm.relay.frontend import from_tflite

# Where data is quantized as it comes, one value that rounds the other way moves the result.
SMALL = {"mlperf_tiny/kws_ref_model_float32.tflite": 2e-4, "mlperf_tiny/kws_ref_model.tflite": 0}
# One of these, another one with every seed; ``python -m tools conformance tflite`` has all.
LARGE = {"mlperf_tiny/pretrainedResnet.tflite": 1e-5, "mlperf_tiny/pretrainedResnet_quant.tflite": 0,
         "tflite/version-RFB-320_without_postprocessing.tflite": 2e-5}  # fmt: skip


@pytest.mark.slow("imports, compiles and runs a whole network")
@pytest.mark.parametrize("name", SMALL)
def test_a_small_model_gives_what_litert_gave(root, name):
    check(root, name, SMALL[name])


@pytest.mark.slow("imports, compiles and runs a whole network")
def test_a_larger_model_gives_what_litert_gave(root, seed):
    chosen = sorted(LARGE) if os.environ.get("TVM_CONFORMANCE_CASES") else sorted(LARGE)[seed % len(LARGE) :][:1]
    for name in chosen:
        check(root, name, LARGE[name])


def check(root, name: str, tolerance: float) -> None:
    path = model_file(f"formats/{name}")
    spec = importlib.util.spec_from_file_location("tflite_conformance", root / "tools" / "tflite_conformance.py")
    runner = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(runner)
    feeds, wanted = recorded(Path(f"{path}.npz"))
    assert not from_tflite(path)[1]
    # The outputs are those of LiteRT's built-in kernels.
    for got, value in zip(runner.run_model(path.read_bytes(), feeds, hybrid="builtin"), wanted, strict=True):
        assert got.dtype == value.dtype
        np.testing.assert_allclose(got.astype("float64"), value.astype("float64"), rtol=0, atol=tolerance)

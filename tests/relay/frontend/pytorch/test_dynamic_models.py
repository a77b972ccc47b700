"""Whole transformers with dynamic batch and length against PyTorch; with TVM_TEST_TORCH=models all of them."""

from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.relay.frontend.pytorch.dynamic import DYNAMIC, Off, compiled_off, exported_off

NAMES = DYNAMIC if os.environ.get("TVM_TEST_TORCH") == "models" else ()


@pytest.mark.slow("compiles and runs whole PyTorch models")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", NAMES)
def test_an_exported_model_gives_what_pytorch_gives_at_every_size(name, dtype):
    exported_off(name, dtype).check(dtype)


@pytest.mark.slow("compiles and runs whole PyTorch models")
@pytest.mark.parametrize("name", NAMES)
def test_torch_compile_leaves_no_graph_of_a_bfloat16_model_to_pytorch(name):
    off, made, failed = compiled_off(name, "bfloat16")
    off.check("bfloat16")
    assert made >= 1 and failed == 0


def test_a_result_far_from_single_precision_is_an_error():
    Off(4e-3, 8e-3, 8e-3).check("bfloat16")
    with pytest.raises(AssertionError, match="off by 0.05 of the largest value from PyTorch"):
        Off(0.05, 0.05, 8e-3).check("bfloat16")
    with pytest.raises(AssertionError, match="off by 0.001"):
        Off(1e-3, 0.0, 0.0).check("float32")

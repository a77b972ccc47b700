"""Whole models from a trace and from an exported program against PyTorch."""

from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch")

from tests.relay.frontend.pytorch.models import MODELS, build
from tests.relay.frontend.pytorch.support import check

EVERYWHERE = ("small_convolutions", "small_transformer")
NAMES = sorted(MODELS) if os.environ.get("TVM_TEST_TORCH") == "models" else EVERYWHERE


@pytest.mark.parametrize("way", ["trace", "export"])
@pytest.mark.parametrize("name", NAMES)
def test_a_model_gives_what_pytorch_gives(name, way):
    model, inputs = build(name)
    check(model, inputs, way)

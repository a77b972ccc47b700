"""A bundle of a real model gives the bits of the graph executor. The seed selects the model; ``python -m tools test
aot-models`` compares all models."""

from __future__ import annotations

import random

import pytest

from tests.relay.backend.aot.test_models import SMALL
from tests.relay.frontend.model_files import models
from tools import aot_models


@pytest.mark.slow("compiles a real model twice, and the runtime")
def test_a_model(seed: int, monkeypatch: pytest.MonkeyPatch):
    folder = models()
    found = [name for name in SMALL if folder is not None and (folder / name).exists()]
    if not found:
        pytest.skip("no model is in shared/models beside the checkout (TVM_TEST_MODELS names another folder)")
    monkeypatch.setattr(aot_models, "MODELS", folder)
    name = random.Random(seed).choice(found)
    assert aot_models.compare_bundle(name, seed) == "pass", f"{name}, seed {seed}"

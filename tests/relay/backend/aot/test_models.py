"""Real models compiled ahead of time give the bits of the graph executor. ``python -m tools test aot-models`` runs all;
the seed selects one model here."""

from __future__ import annotations

import random

import pytest

from tests.relay.frontend.model_files import models
from tools import aot_models

# Models whose C text compiles in seconds.
SMALL = [name for name in aot_models.CASES if not name.startswith("imagenet/resnet50")]


@pytest.mark.slow("compiles a real model four times, and C text of megabytes")
@pytest.mark.parametrize("as_c", [False, True], ids=["runtime", "C program"])
def test_a_model(as_c, seed, monkeypatch):
    folder = models()
    found = [name for name in SMALL if folder is not None and (folder / name).exists()]
    if not found:
        pytest.skip("no model is in shared/models beside the checkout (TVM_TEST_MODELS names another folder)")
    monkeypatch.setattr(aot_models, "MODELS", folder)
    name = random.Random(seed).choice(found)
    assert aot_models.compare(name, seed, as_c) == "pass", f"{name}, seed {seed}"

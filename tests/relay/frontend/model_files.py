"""Real models and photos, which lie in shared/models beside the checkout, or in the folder that TVM_TEST_MODELS
names."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest


def models() -> Path | None:
    """The folder of models: TVM_TEST_MODELS, or shared/models in a folder above."""
    given = os.environ.get("TVM_TEST_MODELS")
    if given:
        return Path(given)
    for folder in Path(__file__).resolve().parents:
        if (folder / "shared" / "models").is_dir():
            return folder / "shared" / "models"
    return None


def model_file(name: str) -> Path:
    """A file or a folder of a model; the test is skipped where it is missing."""
    folder = models()
    if folder is None or not (folder / name).exists():
        pytest.skip(f"{name} is not in shared/models beside the checkout (TVM_TEST_MODELS names another folder)")
    return folder / name


def recorded(path: Path) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    """The inputs and the outputs of a framework in the file of arrays that lies beside a model."""
    with np.load(path) as arrays:
        inputs = {key[3:]: arrays[key] for key in arrays if key.startswith("in_")}
        return inputs, [arrays[key] for key in arrays if key.startswith("out_")]

"""Real TensorFlow files against the outputs of TensorFlow beside them, in shared/models/formats beside the checkout."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from tensorflow_writer import runner

from tvm.relay.frontend import from_tensorflow


def _folder() -> Path | None:
    """The folder of models: TVM_TEST_MODELS, or shared/models in a folder above."""
    if os.environ.get("TVM_TEST_MODELS"):
        return Path(os.environ["TVM_TEST_MODELS"])
    for folder in Path(__file__).resolve().parents:
        if (folder / "shared" / "models").is_dir():
            return folder / "shared" / "models"
    return None


@pytest.mark.slow
@pytest.mark.parametrize(("name", "arrays"), [
    ("tf_frozen/FSRCNN-small_x2.pb", "tf_frozen/FSRCNN-small_x2.npz"),
    ("mlperf_tiny/kws_ref_model", "mlperf_tiny/kws_ref_model.savedmodel.npz"),
])  # fmt: skip
def test_a_real_model_gives_what_tensorflow_gave(name, arrays):
    folder = _folder()
    if folder is None or not (folder / "formats" / name).exists():
        pytest.skip(f"{name} is not in shared/models/formats (TVM_TEST_MODELS names another folder than shared/models)")
    with np.load(folder / "formats" / arrays) as found:
        feeds = {k[3:]: found[k] for k in found if k.startswith("in_")}
        wanted = [found[k] for k in found if k.startswith("out_")]
    # The frozen graph does not say the shape of its input; the other one leaves its batch open.
    shapes = {k: v.shape for k, v in feeds.items()} if name.endswith(".pb") else None
    module, params = from_tensorflow(folder / "formats" / name, shape=shapes)
    assert not params
    assert not runner().compared(runner().run_module(module, feeds), wanted)

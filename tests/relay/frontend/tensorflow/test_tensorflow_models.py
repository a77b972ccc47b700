"""Real TensorFlow files against the outputs of TensorFlow beside them, in shared/models/formats beside the checkout."""

from __future__ import annotations

import pytest
from model_files import model_file, recorded
from tensorflow_writer import runner

from tvm import relay
from tvm.relay.frontend import from_tensorflow


@pytest.mark.slow("imports, compiles and runs a whole network")
@pytest.mark.parametrize(("name", "arrays"), [
    ("tf_frozen/FSRCNN-small_x2.pb", "tf_frozen/FSRCNN-small_x2.npz"),
    ("mlperf_tiny/kws_ref_model", "mlperf_tiny/kws_ref_model.savedmodel.npz"),
])  # fmt: skip
def test_a_real_model_gives_what_tensorflow_gave(name, arrays):
    path = model_file(f"formats/{name}")
    feeds, wanted = recorded(model_file(f"formats/{arrays}"))
    # The frozen graph does not say the shape of its input; the other one leaves its batch open.
    shapes = {k: v.shape for k, v in feeds.items()} if name.endswith(".pb") else None
    module, params = from_tensorflow(path, shape=shapes)
    assert not params
    assert not runner().compared(runner().run_module(module, feeds), wanted)


@pytest.mark.slow("imports, compiles and runs a whole network")
def test_a_frozen_graph_that_does_not_say_the_shape_of_its_input_takes_any_image():
    feeds, wanted = recorded(model_file("formats/tf_frozen/FSRCNN-small_x2.npz"))
    module, _ = from_tensorflow(model_file("formats/tf_frozen/FSRCNN-small_x2.pb"))
    function = relay.create_executor("vm", mod=module, target="llvm").evaluate()
    got = function(**feeds)
    (want,) = wanted
    assert abs(got.numpy() - want).max() <= 1e-4 * abs(want).max()

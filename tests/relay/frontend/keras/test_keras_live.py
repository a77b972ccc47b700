"""Live models of Keras 3 and Keras 2 beside Keras itself; ``python -m tools test keras`` runs these with an
interpreter that has both."""

from __future__ import annotations

import importlib.util
import os
import sys

import pytest

if not os.environ.get("TVM_TEST_KERAS"):
    pytest.skip("python -m tools test keras --python PATH runs live models of Keras", allow_module_level=True)

from keras_archive import cases
from keras_cases import CASES

from tvm import relay
from tvm.error import TVMError
from tvm.ir import structural_equal
from tvm.relay.frontend import from_keras


def _tool(root, name: str):
    spec = importlib.util.spec_from_file_location(name, root / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_live_model_becomes_the_graph_of_its_file(root, name):
    reference, runner = _tool(root, "keras_reference"), _tool(root, "keras_conformance")
    model, feeds = reference.built(name)
    shapes, layout = {k: v.shape for k, v in feeds.items()}, "NCHW" if runner.is_first(name) else "NHWC"
    live, file = from_keras(model, shapes, layout)[0], from_keras(cases()[name].h5, shapes, layout)[0]
    assert structural_equal(live, file)


def test_a_subclassed_model_is_refused_in_words():
    import keras

    class Mine(keras.Model):
        def call(self, x):
            return x

    with pytest.raises(TVMError, match="subclassed models are Python code"):
        from_keras(Mine())


def test_a_lambda_is_refused_by_name():
    import keras

    x = keras.Input((3,))
    with pytest.raises(TVMError, match="Lambda"):
        from_keras(keras.Model(x, keras.layers.Lambda(lambda v: v + 1)(x)))


def test_the_module_runs(root):
    reference, runner = _tool(root, "keras_reference"), _tool(root, "keras_conformance")
    for name in ("graph_sequential", "v2_graph_sequential"):
        model, feeds = reference.built(name)
        assert not runner.problem_of(runner.run_model(model, feeds), reference.outputs(model, feeds))
    assert relay.frontend.from_keras is from_keras

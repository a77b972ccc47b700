"""Layers of Keras against what Keras 3 and Keras 2 made of the same models (cases.tar.xz)."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from keras_archive import cases

import tvm
from tvm import relay
from tvm.relay.frontend import from_keras
from tvm.relay.frontend.keras.table import CONVERTERS

# A case is compiled in half a second; every seed has others, and ``python -m tools conformance keras`` has all.
COMPILED, IMPORTED = 6, 30
# Layers that a case of another layer has inside, those whose results are their arguments, and classes of
# keras.applications that test_keras_reader.py has.
INSIDE = {
    "SimpleRNNCell", "LSTMCell", "GRUCell", "ConvLSTMCell", "StackedRNNCells", "SlicingOpLambda",
    "SyncBatchNormalization", "RandomCrop", "IntegerLookup", "GroupedQueryAttention", "LayerScale",
    "CustomScaleLayer",
}  # fmt: skip


@pytest.fixture(scope="module")
def runner(root):
    spec = importlib.util.spec_from_file_location("keras_conformance", root / "tools" / "keras_conformance.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def types_of(mod) -> list:
    body = mod["main"].body
    found = [e.checked_type for e in (body.fields if isinstance(body, relay.Tuple) else [body])]
    return [(t.concrete_shape, t.dtype) for t in found]


def test_both_files_of_a_case_become_one_graph_with_the_types_that_keras_gave(runner, rng):
    for name in rng.choice(sorted(cases()), IMPORTED, replace=False):
        case = cases()[name]
        shapes, layout = {k: v.shape for k, v in case.feeds.items()}, "NCHW" if runner.is_first(name) else "NHWC"
        old, new = (from_keras(case.file(ending), shapes, layout)[0] for ending in ("h5", "keras"))
        assert types_of(old) == types_of(new) == [(v.shape, str(v.dtype)) for v in case.wanted], name
        assert tvm.ir.structural_equal(old, new), name


def test_a_sample_of_cases_gives_what_keras_gave(runner, rng):
    for number, name in enumerate(rng.choice(sorted(cases()), COMPILED, replace=False)):
        assert not runner.difference(cases()[name], ("h5", "keras")[number % 2]), name


def test_images_are_taken_and_given_with_their_channels_first_where_the_layout_says_so(runner):
    case = cases()["graph_residual"]
    picture, vector = runner.run_model(case.h5, runner.moved(case), "NCHW")
    np.testing.assert_allclose(np.moveaxis(picture, 1, -1), case.wanted[0], rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(vector, case.wanted[1], rtol=2e-5, atol=2e-5)


def test_every_layer_has_a_case_or_is_inside_one():
    from keras_cases import CASES

    kinds = {kind for kind, _ in CASES.values()}
    assert set(CASES) == set(cases())
    plain = {
        n for n in CONVERTERS.names() if not n.startswith("ops.") and not n.startswith(("tf.", "Random", "AugMix"))
    }
    assert plain - kinds - INSIDE == {
        "AvgPool1D", "AvgPool2D", "AvgPool3D", "CutMix", "GlobalAvgPool1D", "GlobalAvgPool2D", "GlobalAvgPool3D",
        "GlobalMaxPool1D", "GlobalMaxPool2D", "GlobalMaxPool3D", "MaxPool1D", "MaxPool2D", "MaxPool3D", "MixUp",
        "RandAugment",
    }  # fmt: skip

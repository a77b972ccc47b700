"""DarkNet's layers against NumPy written after its sources (darknet_numpy)."""

from __future__ import annotations

import os

import numpy as np
import pytest
from darknet_cases import TEXTS, cases, expected, imported, run, written

from tvm.ir.type import TupleType
from tvm.relay.frontend.darknet.table import CONVERTERS
from tvm.relay.infer import infer_module

# A case is compiled in a third of a second; every seed has others, and ``python -m tools conformance FORMAT`` has all.
COUNT = 8


def test_every_layer_has_a_case():
    assert {name.split("/")[0] for name in cases()} == set(CONVERTERS.names())


def test_every_case_is_imported_with_the_shapes_that_darknet_gives():
    for name in TEXTS:
        text, net, data = written(name)
        module = infer_module(imported(text, net.weights(), shape=data.shape)[0])
        result = module["main"].checked_type_.ret_type
        got = list(result.fields) if isinstance(result, TupleType) else [result]
        assert [t.concrete_shape for t in got] == [v.shape for v in expected(net, False)], name


def test_a_sample_of_cases_gives_what_darknet_computes(rng):
    found = cases()
    count = len(found) if os.environ.get("TVM_CONFORMANCE_CASES") else COUNT
    for name in rng.choice(sorted(found), count, replace=False):
        found[name]()


def test_a_difference_is_seen(monkeypatch):
    """The comparison itself can fail."""
    monkeypatch.setattr("darknet_numpy.Net.layer_avgpool", lambda self, x: x.mean((2, 3), keepdims=True) + 1e-3)
    with pytest.raises(AssertionError):
        run("avgpool")


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_a_network_may_have_another_element_type(dtype):
    text, net, data = written("convolutional")
    module = infer_module(imported(text, net.weights(), dtype=dtype)[0])
    assert module["main"].checked_type_.ret_type.dtype == dtype
    assert np.dtype(dtype) != data.dtype

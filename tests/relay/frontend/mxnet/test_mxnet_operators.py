"""Operators of MXNet against what MXNet made of the same symbols (cases.npz)."""

from __future__ import annotations

import os

import numpy as np
import pytest
from mxnet_cases import CASES

from tests.relay.frontend.mxnet.operator_cases import (
    check,
    check_fused,
    compare,
    expected,
    fused,
    imported,
    run_module,
)
from tvm.ir.type import TupleType
from tvm.relay.frontend import from_mxnet
from tvm.relay.frontend.mxnet.table import CONVERTERS
from tvm.relay.infer import infer_module

# A case is compiled in a third of a second; every seed has others, and ``python -m tools conformance FORMAT`` has all.
COUNT, IMPORTED = 8, 90


def _sample(rng, count: int) -> list[str]:
    everything = bool(os.environ.get("TVM_CONFORMANCE_CASES"))
    return [str(n) for n in rng.choice(sorted(CASES), len(CASES) if everything else count, replace=False)]


def test_a_sample_of_cases_is_imported_with_the_types_that_mxnet_gave(rng):
    for name in _sample(rng, IMPORTED):
        result = infer_module(imported(CASES[name])[0])["main"].checked_type_.ret_type
        got = list(result.fields) if isinstance(result, TupleType) else [result]
        assert [(len(t.shape), t.dtype) for t in got] == [(v.ndim, str(v.dtype)) for v in expected()[name]], name
        for t, value in zip(got, expected()[name]):
            sizes = [getattr(d, "value", None) for d in t.shape]
            assert all(s in (None, d) for s, d in zip(sizes, value.shape)), name


def test_a_sample_of_cases_gives_what_mxnet_gave(rng):
    for name in _sample(rng, COUNT):
        check(name)


def test_every_converter_has_a_case():
    assert set(CONVERTERS.names()) <= {c.op for c in CASES.values()} | set(fused())


def test_a_network_put_together_for_onednn_gives_what_mxnet_gave(rng):
    check_fused(str(rng.choice(sorted(fused()))))


def test_filters_that_a_normalization_multiplies_by_nothing_give_its_addend_alone():
    """All places of a channel are then the same, and are numbers."""
    case = fused()["_sg_mkldnn_conv/groups/int8"]
    params = {k.partition(":")[2]: np.zeros_like(v) if k == "arg:bn_gamma" else v for k, v in case.items() if ":" in k}
    module, weights = from_mxnet(str(case["symbol"]), {"data": case["data"].shape}, arg_params=params)
    (got,) = run_module(module, {"data": case["data"], **{k: v.numpy() for k, v in weights.items()}})
    assert np.isfinite(got).all() and np.ptp(case["out"], (2, 3)).min() > 0
    assert not np.ptp(got, (2, 3)).any()


def test_a_quantized_convolution_of_single_filters_gives_what_mxnet_gave():
    check_fused("_sg_mkldnn_conv/groups/int8")


def test_a_difference_is_seen():
    """The comparison itself can fail."""
    want = [np.arange(6, dtype="float32").reshape(2, 3)]
    compare(want, want)
    for wrong in (want[0] + 1e-3 * (want[0] == 3), want[0].astype("float64"), want[0].reshape(3, 2)):
        with pytest.raises(AssertionError):
            compare([wrong], want)

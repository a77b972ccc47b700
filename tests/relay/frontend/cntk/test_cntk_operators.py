"""Operators of CNTK against what CNTK made of the same models (cases.npz), in both formats."""

from __future__ import annotations

import os

import numpy as np
import pytest
from cntk_cases import cases, compare, conformance

from tvm.relay.frontend import from_cntk
from tvm.relay.frontend.cntk.table import CONVERTERS

# A case is compiled in a third of a second; every seed has others, and ``python -m tools conformance FORMAT`` has all.
COUNT = 10


def test_every_case_is_imported():
    for name, case in cases().items():
        for kind, data in case.files.items():
            module, _ = from_cntk(data, {k: v.shape for k, v in case.feeds.items()})
            assert {p.name_hint for p in module["main"].params} >= set(case.feeds), (name, kind)


@pytest.mark.slow("compiles ten models")
def test_a_sample_of_cases_gives_what_cntk_gave(rng):
    checks = conformance().cases_module("cntk").cases()
    count = len(checks) if os.environ.get("TVM_CONFORMANCE_CASES") else COUNT
    for name in rng.choice(sorted(checks), count, replace=False):
        checks[str(name)]()


def test_every_converter_is_in_a_case():
    assert set(CONVERTERS.names()) <= conformance().cases_module("cntk").covered()


@pytest.mark.parametrize("name", sorted(conformance().cases_module("cntk").OLDER))
def test_an_operator_of_older_versions_gives_what_numpy_gives(name):
    conformance().cases_module("cntk").older(name)


def test_a_difference_is_seen():
    """The comparison itself can fail."""
    for wrong in (np.float32([0, 1e-3, 0]), np.zeros(4, "float32")):
        with pytest.raises(AssertionError):
            compare([wrong], [np.zeros(3, "float32")])

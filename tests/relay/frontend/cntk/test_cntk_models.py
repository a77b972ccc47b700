"""Networks that CNTK wrote with seeded weights. Real models are among those of ../test_trained_networks.py."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_cases import cases, check

from tvm.ir import structural_equal
from tvm.relay.frontend import from_cntk

NETWORKS = [name for name in cases() if name.startswith("network/")]


@pytest.mark.slow("imports, compiles and runs a whole network")
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_gives_what_cntk_gave(name):
    check(name, "v2")


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_in_the_first_format_is_the_same_as_in_the_second(name):
    case = cases()[name]
    shapes = {k: v.shape for k, v in case.feeds.items()}
    (first, weights), (second, same_weights) = (from_cntk(case.files[kind], shapes) for kind in ("v1", "v2"))
    assert structural_equal(first, second, map_free_vars=True)
    # The two formats name the weights differently, and have them in the same order.
    names, same_names = ([p.name_hint for p in module["main"].params] for module in (first, second))
    assert [n in weights for n in names] == [n in same_weights for n in same_names]
    for one, other in zip(names, same_names):
        if one in weights:
            np.testing.assert_array_equal(weights[one].numpy(), same_weights[other].numpy())

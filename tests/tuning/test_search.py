"""What a search would measure first."""

from __future__ import annotations

import json

from tests.tuning.fake import BASELINE, FakeSearch
from tvm.tuning import Measurement
from tvm.tuning.search import FAILED_COST, first_candidates


def test_first_candidates_are_the_baseline_and_what_has_no_record(world):
    assert first_candidates(FakeSearch(world, 64), 4, []) == [BASELINE, 0, 1, 2]
    search = FakeSearch(world, 64)
    rows = [json.loads(search.encode(Measurement(key, (1.0,))))["fake"] for key in (BASELINE, 0, 1)]
    found = first_candidates(search, 4, rows)
    assert found and not {BASELINE, 0, 1} & set(found)
    assert first_candidates(FakeSearch(world, 64, candidates=3), 10, []) == [BASELINE, 0, 1, 2]


def test_the_cost_of_a_measurement_is_the_mean_of_its_repeats():
    assert Measurement(0, (1.0, 2.0)).cost == 1.5 and Measurement(0).cost == FAILED_COST

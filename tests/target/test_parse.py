"""Option values survive being printed and parsed again."""

from __future__ import annotations

import pytest

pytest.importorskip("hypothesis")
from hypothesis import given, settings
from hypothesis import strategies as st

from tvm.target import Target

words = st.text(alphabet="ab1 ,'\"\\=-+.:/", max_size=8)


@settings(max_examples=200, deadline=None, print_blob=True)
@given(name=words, libs=st.lists(words, max_size=4))
def test_any_string_and_list_round_trips_through_text(name, libs):
    target = Target({"kind": "vulkan", "device_name": name, "libs": libs})
    again = Target(str(target))
    assert again.attrs["device_name"] == name
    assert again.libs == libs


@settings(max_examples=50, deadline=None, print_blob=True)
@given(models=st.lists(words, min_size=1, max_size=3), depth=st.integers(0, 2))
def test_targets_inside_targets_round_trip(models, depth):
    devices = [Target({"kind": "cuda", "model": model}) for model in models]
    target = Target({"kind": "composite", "devices": devices})
    for _ in range(depth):
        target = Target({"kind": "composite", "devices": [target]})
    assert Target(str(target)) == target

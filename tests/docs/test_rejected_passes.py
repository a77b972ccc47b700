"""The coverage page names the passes that are rejected."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tvm
from tvm.relay.transform import refused

PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"


@pytest.mark.parametrize("name", refused.REASONS)
def test_a_rejected_pass_is_on_the_page_and_its_error_states_the_reason(name):
    section = PAGE.read_text(encoding="utf-8").split("## Rejected passes and options of Apache TVM")[1]
    assert f"`{name}`" in section
    with pytest.raises(tvm.TVMError, match=re.escape(f"{name} is not available: {refused.REASONS[name]}")):
        getattr(refused, name)()

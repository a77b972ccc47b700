"""The list of Apache TVM's tests names tests that exist, and the coverage page has its counts."""

from __future__ import annotations

import ast
import collections
from pathlib import Path

import pytest

from tests.relay.aot.apache_tests import GROUPS

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("group", GROUPS)
def test_every_test_that_is_named_exists(group):
    defined = {}
    for tied in GROUPS[group]:
        if tied.here is None:
            continue
        file, name = tied.here
        if file not in defined:
            tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
            defined[file] = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert name in defined[file], f"{tied.name}: {file} has no {name}"


@pytest.mark.parametrize("group", GROUPS)
def test_the_page_has_the_counts(group):
    page = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
    section = page.split("## Test groups of Apache TVM")[1].split("\n## ")[0]
    tests = GROUPS[group]
    assert len({tied.name for tied in tests}) == len(tests)
    reasons = collections.Counter(tied.reason for tied in tests if tied.here is None)
    others = "; ".join(f"{reason} ({n})" for reason, n in sorted(reasons.items()))
    assert f"| {group} | {sum(tied.here is not None for tied in tests)} of {len(tests)} | {others} |" in section

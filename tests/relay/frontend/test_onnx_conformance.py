"""A sample of the onnx package's node tests by the seed; ``python -m tools conformance onnx`` runs them all."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("onnx")
COUNT = int(os.environ.get("TVM_CONFORMANCE_CASES", "30"))


@pytest.fixture
def runner(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "tools"))
    import onnx_conformance

    return onnx_conformance


@pytest.mark.slow("compiles 30 models")
def test_a_sample_of_node_tests_passes_or_is_in_the_table(runner, seed):
    listed = runner.known_failures()
    wrong = []
    for case in runner.sample(COUNT, seed):
        result = runner.run_case(case)
        if result != "pass" and case.name not in listed:
            wrong.append(f"{case.name}: {result}")
    assert not wrong, f"seed {seed}:\n" + "\n".join(wrong)

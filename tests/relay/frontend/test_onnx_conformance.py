"""A sample of the onnx package's node tests by the seed; ``python -m tools conformance onnx`` runs them all."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("onnx")
pytestmark = pytest.mark.usefixtures("quick_code")
COUNT = os.environ.get("TVM_CONFORMANCE_CASES", "30")


@pytest.fixture
def runner(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "tools"))
    import onnx_conformance

    return onnx_conformance


@pytest.mark.slow("compiles 30 models")
def test_a_sample_of_node_tests_passes_or_is_in_the_table(runner, seed):
    listed = runner.known_failures()
    wrong = []
    for case in runner.cases() if COUNT == "all" else runner.sample(int(COUNT), seed):
        result = runner.run_case(case)
        if result != "pass" and case.name not in listed:
            wrong.append(f"{case.name}: {result}")
    assert not wrong, f"seed {seed}:\n" + "\n".join(wrong)


@pytest.mark.slow("compiles 20 models to C")
def test_a_sample_of_node_tests_passes_as_c(runner, seed, tmp_path):
    """A bundle supports only tensors as inputs and outputs, and contains no decoders of image files; all other tests
    pass."""
    listed = runner.known_failures()
    chosen = runner.sample(20, seed)
    found = zip(chosen, runner.run_ahead_of_time(chosen, tmp_path))
    decoders = {c.name for c in chosen if c.name.startswith("test_image_decoder")}
    passed = ("pass", runner.BUNDLE, "refused: a bundle supports only tensors")
    wrong = [
        f"{c.name}: {result}"
        for c, result in found
        if not result.startswith(passed) and c.name not in {*listed, *decoders}
    ]
    assert not wrong, f"seed {seed}:\n" + "\n".join(wrong)

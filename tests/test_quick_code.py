"""Machine code that is made quickly: it computes the same, and six successive commits have the usual code once."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import tvm
from tests.quick_code import ROUNDS, has_usual_code, is_quick, quick_code
from tvm import te


def doubled():
    a = te.placeholder((64,), name="a")
    b = te.compute((64,), lambda i: a[i] * 2.0 + 1.0, name="b")
    return tvm.build(te.create_schedule(b.op), [a, b], "llvm")


def test_every_test_has_the_usual_code_once_in_six_successive_commits():
    for test in ("tests/a.py::test_one", "tests/a.py::test_two[3]"):
        turns = [has_usual_code(test, seed) for seed in range(7_00010, 7_00010 + 2 * ROUNDS)]
        assert sum(turns[:ROUNDS]) == 1 and turns[:ROUNDS] == turns[ROUNDS:]


def test_code_that_is_made_quickly_computes_the_same(monkeypatch):
    usual = doubled()
    seeds = {has_usual_code("test", seed): seed for seed in range(ROUNDS)}
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "test (call)")
    texts = {}
    for is_usual, seed in seeds.items():
        monkeypatch.setenv("TVM_TEST_SEED", str(seed))
        with quick_code():
            built = doubled()
        texts[is_usual] = built.get_source("asm")
        x, y = tvm.nd.array(np.arange(64, dtype="float32")), tvm.nd.empty((64,))
        built(x, y)
        np.testing.assert_array_equal(y.numpy(), np.arange(64) * 2 + 1)
    assert texts[True] == usual.get_source("asm") and len(texts[False]) > len(texts[True])
    assert doubled().get_source("asm") == texts[True], "after the scope all is as before"


@pytest.mark.parametrize("test, mark, wanted", [
    ("tests/relay/op/test_nn.py::test_one", None, True), ("tests/te/test_lower.py::test_two", "slow", True),
    ("tests/topi/cpu/test_matmul.py::test_text", "usual_code", False), ("tests/codegen/test_a.py::test_b", None, False),
])  # fmt: skip
def test_the_folder_and_the_mark_of_a_test_decide(test, mark, wanted):
    item = SimpleNamespace(nodeid=test, get_closest_marker=lambda name: name if name == mark else None)
    assert is_quick(item) == wanted

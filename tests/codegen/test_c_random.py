"""Random schedules and random programs through the c back end. Each case runs the C compiler, so there are few."""

from __future__ import annotations

import collections
import os

import numpy
import pytest

from tests.codegen.c_raw import compile_raw
from tests.codegen.test_llvm_random import draw
from tests.fuzz.run import Case
from tvm.codegen.c.names import addend

CASES = int(os.environ.get("TVM_FUZZ_C_CASES", "30"))


@pytest.mark.slow("compiles random programs with a C compiler")
def test_random_schedules_give_the_result_of_the_plain_program(seed):
    outcomes: collections.Counter = collections.Counter()
    for number in range(seed, seed + CASES):
        case = Case(number, "c")
        try:
            outcomes[case.run()] += 1
        except Exception as error:
            steps = "\n".join(str(s) for s in case.made.schedule.steps)
            raise AssertionError(f"seed {number} (TVM_TEST_SEED={number}): {error}\nsteps:\n{steps}") from error
    assert outcomes["ok"] >= CASES // 3, f"too few legal cases: {outcomes}"


def test_an_address_keeps_an_index_that_binds_weaker_than_a_sum():
    # This schedule prefetches the element at ``(i + 1) & 15``.
    assert Case(69966843, "c").run() == "ok"
    assert addend("((i + 1) & 15)") == "((i + 1) & 15)" and addend("(i < n ? i : n)") == "(i < n ? i : n)"
    assert addend("((i & 15) * 4)") == "(i & 15) * 4" and addend("(a[i & 3] - j)") == "a[i & 3] - j"
    assert addend("(i)") == "i" and addend("(i) * 4") == "(i) * 4"


@pytest.mark.parametrize("case", range(12))
def test_random_program(case, rng):
    function, given, want = draw(rng)
    got = [g.copy() for g in given]
    compile_raw(function)(*got)
    for b, x, y in zip(function.buffer_map.values(), got, want):
        numpy.testing.assert_array_equal(x, y, err_msg=f"{b.name}\n{function}")

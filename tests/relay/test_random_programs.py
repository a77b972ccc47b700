"""Random programs on the virtual machine against the interpreter."""

from __future__ import annotations

import os

import pytest

from tests.relay.random_programs import RandomProgram, RandomSizes, plain, shapes
from tvm import relay

# As many as fit into continuous integration; `make fuzz` takes more.
CASES = int(os.environ.get("TVM_FUZZ_CASES", "8"))


@pytest.mark.parametrize("case", range(CASES))
def test_the_virtual_machine_computes_what_the_interpreter_does(case, seed):
    program = RandomProgram(seed * 100_003 + case)
    values = program.arguments()
    want = relay.create_executor("debug", program.module).evaluate()(*values)
    got = relay.create_executor("vm", program.module).evaluate()(*values)
    assert plain(got) == plain(want)


@pytest.mark.parametrize("case", range(max(CASES // 2, 1)))
def test_the_virtual_machine_computes_what_the_interpreter_does_at_any_size(case, seed):
    program = RandomSizes(seed * 100_003 + case)
    run = relay.create_executor("vm", program.module).evaluate()
    debug = relay.create_executor("debug", program.module).evaluate()
    for rows in (2, 0, 1, 4):
        values = program.arguments(rows)
        got, want = run(*values), debug(*values)
        assert plain(got) == plain(want) and shapes(got) == shapes(want)

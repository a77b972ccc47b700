"""Random programs on the virtual machine against the interpreter: three hundred in the whole suite, other ones
for every commit, and more by `python -m tools fuzz programs`."""

from __future__ import annotations

import os

import pytest

import tvm
from tests.relay.random_programs import RandomProgram, RandomSizes, plain, shapes, together
from tvm import relay

CASES = int(os.environ.get("TVM_FUZZ_CASES", "300"))
# Programs of one module are compiled together, which costs much less than one by one. Of fewer than six modules none is
# left out where a part of the suite is run (tests/sampling.py).
MODULES = max(CASES // 100, 1)
PROGRAMS, SIZES = 35, 15
# Kernels are small, and the time goes to compiling them.
TARGET = "llvm -opt-level=0"
# Without fusion every operator is a kernel of its own; with it, a region has a few.
LEVELS = (0, 3)


def check(kind: type[RandomProgram], seeds: range, level: int, sizes: tuple[int, ...]) -> None:
    mod, one = together(kind, seeds)
    with tvm.transform.PassContext(opt_level=level):
        run = tvm.runtime.vm.VirtualMachine(relay.vm.compile(mod, TARGET), tvm.cpu())
    debug = relay.create_executor("debug", mod).evaluate()
    for rows in sizes:
        values = one.arguments(rows)
        results = zip(seeds, run.run(*values), debug(*values), strict=True)
        wrong = [seed for seed, got, want in results if plain(got) != plain(want) or shapes(got) != shapes(want)]
        assert not wrong, f"{kind.__name__}({wrong[0]}) with {rows} rows: the results differ"


def seeds_of(seed: int, module: int, level: int, count: int) -> range:
    first = seed * 1_000_000 + (2 * module + LEVELS.index(level)) * count
    return range(first, first + count)


@pytest.mark.parametrize("module", range(MODULES))
def test_the_virtual_machine_computes_what_the_interpreter_does(module, seed):
    check(RandomProgram, seeds_of(seed, module, 3, PROGRAMS), 3, (2,))


@pytest.mark.parametrize("module", range(MODULES))
def test_the_virtual_machine_computes_what_the_interpreter_does_operator_by_operator(module, seed):
    check(RandomProgram, seeds_of(seed, module, 0, PROGRAMS), 0, (2,))


@pytest.mark.parametrize("module", range(MODULES))
def test_the_virtual_machine_computes_what_the_interpreter_does_at_any_size(module, seed):
    check(RandomSizes, seeds_of(seed, module, 3, SIZES), 3, (2, 0, 1, 4))


@pytest.mark.parametrize("module", range(MODULES))
def test_the_virtual_machine_computes_what_the_interpreter_does_at_any_size_operator_by_operator(module, seed):
    check(RandomSizes, seeds_of(seed, module, 0, SIZES), 0, (2, 0, 1, 4))

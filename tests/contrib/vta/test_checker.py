"""Broken programs of each sort, which the checker must name, and random programs from which tokens are removed."""

from dataclasses import replace

import numpy as np
import pytest

import tvm
from tests.contrib.vta.programs import CONFIGS, DEFAULT, SMALL_CONFIG, matmul
from tvm.contrib.vta import checker, device
from tvm.contrib.vta.isa import TOKENS
from tvm.contrib.vta.program import Program
from tvm.contrib.vta.testing.random_programs import random_program


def changed(rng, at, **fields):
    program, _, _ = matmul(DEFAULT, rng)
    program.instructions[at] = replace(program.instructions[at], **fields)
    return program


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_programs_without_defects(config, rng):
    for _ in range(10):
        assert checker.check(random_program(config, rng)) == []
    assert checker.check(matmul(config, rng)[0]) == []


# Instruction and changed fields of matmul; the first finding: its kind, its instructions, part of its text.
DEFECTS = [
    (0, {"pop_next_dep": 1}, "deadlock", (0,), "waits for a token of the compute module, which no instruction gives"),
    (1, {"push_next_dep": 0}, "deadlock", (3,), "instruction 3 (LOAD pop_prev_dep=1 memory_type=acc"),
    (3, {"pop_prev_dep": 0}, "missing dependence", (0, 4), "read after write of inp element 0"),
    (8, {"pop_prev_dep": 0}, "missing dependence", (7, 8), "read after write of acc element 0"),
    (9, {"pop_next_dep": 0}, "missing dependence", (8, 9), "FINISH (instruction 9) does not wait for instruction 8"),
    (8, {"push_prev_dep": 0}, "deadlock", (9,), "waits for a token of the store module, which no instruction gives"),
    (5, {"push_prev_dep": 1}, "unused token", (5,), "no instruction takes the token that instruction 5"),
    (0, {"push_next_dep": 1}, "missing dependence", (1, 4), "read after write of wgt element 0"),
    (0, {"push_prev_dep": 1}, "invalid", (0,), "the load module has no previous module"),
    (8, {"pop_next_dep": 1}, "invalid", (8,), "the store module has no next module"),
    (4, {"dst_factor_in": 2000}, "invalid", (4,), "element 6000 is outside the acc memory"),
]


@pytest.mark.parametrize("at, fields, kind, instructions, words", DEFECTS)
def test_defects_are_named(at, fields, kind, instructions, words, rng):
    findings = checker.check(changed(rng, at, **fields))
    assert (findings[0].kind, findings[0].instructions) == (kind, instructions), findings
    assert words in findings[0].text


def test_write_after_read_between_store_and_compute(rng):
    program, _, _ = matmul(DEFAULT, rng)
    program.instructions.insert(9, replace(program.instructions[5], pop_next_dep=0))
    (found,) = checker.check(program)
    assert (found.kind, found.instructions) == ("missing dependence", (8, 9))
    assert found.text.startswith("write after read of acc element 0: no token orders instruction 8 (STORE")


def test_a_cycle_of_tokens_is_followed_through_both_modules(rng):
    program = Program(DEFAULT)
    program.add("LOAD", "pop_next_dep", memory_type="inp")
    program.add("LOAD", "push_next_dep", memory_type="inp")
    program.add("LOAD", "pop_prev_dep", "push_prev_dep", memory_type="uop")
    program.add("FINISH")
    (found,) = checker.check(program)
    assert found.kind == "deadlock" and found.instructions == (0, 2)
    assert "which instruction 2 (LOAD pop_prev_dep=1 push_prev_dep=1 memory_type=uop) would give" in found.text
    assert "instruction 1 is behind instruction 0" in found.text
    with pytest.raises(tvm.TVMError, match="deadlock; instruction 0 in the load .*; instruction 2 in the compute"):
        device.run(program)


@pytest.mark.parametrize("depth, ends", [(4, False), (5, True)])
def test_a_full_queue_can_cause_a_deadlock(depth, ends):
    """Five loads wait for tokens of instructions behind them, which are fetched only if all loads fit the queue."""
    program = Program(replace(SMALL_CONFIG, queue_depth=depth))
    for _ in range(5):
        program.add("LOAD", "pop_next_dep", memory_type="inp")
    for _ in range(5):
        program.add("LOAD", "push_prev_dep", memory_type="uop")
    program.add("FINISH")
    findings = checker.check(program)
    if ends:
        assert findings == []
        device.run(program, "tsim")
        return
    assert findings[0].kind == "deadlock"
    assert "the queue of the load module is full, and instruction 5 is not fetched" in findings[0].text
    for target in ("sim", "tsim"):
        with pytest.raises(tvm.TVMError, match="deadlock"):
            device.run(program, target)


def test_the_first_instruction_that_is_not_finish_last():
    program = Program(DEFAULT)
    assert "the program has no instruction" in checker.check(program)[0].text
    program.add("LOAD", memory_type="inp")
    assert checker.check(program)[0].instructions == (0,)


def test_removed_tokens_of_random_programs_are_found_and_agree_with_the_simulators(rng):
    """Each removed token is reported. The simulators end with an error exactly if the checker finds a deadlock."""
    kinds = set()
    for _ in range(40):
        program = random_program(SMALL_CONFIG, rng)
        at = [(k, name) for k, i in enumerate(program.instructions) for name in TOKENS if getattr(i, name)]
        k, name = at[int(rng.integers(len(at)))]
        program.instructions[k] = replace(program.instructions[k], **{name: 0})
        findings = checker.check(program)
        assert findings, (k, name)
        kinds |= {found.kind for found in findings}
        deadlock = findings[0].kind == "deadlock"
        for target in ("sim", "tsim"):
            if deadlock:
                with pytest.raises(tvm.TVMError, match="deadlock"):
                    device.run(program, target)
            else:
                device.run(program, target)
    assert kinds >= {"deadlock", "unused token"}


def test_programs_of_the_device_are_observed(rng):
    program, _, _ = matmul(DEFAULT, rng)
    with device.observe() as findings:
        device.run(program)
    assert findings == []
    program.instructions[8] = replace(program.instructions[8], pop_prev_dep=0)
    with device.observe() as findings:
        device.run(program)
    assert findings[0].kind == "missing dependence" and findings[0].instructions == (7, 8)
    assert np.any(program.image)

"""A sample of the suite: it has every folder and every operator, and thirty successive samples have every test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict

import pytest

from tests.every_operator import FILES, TESTS_OF_OPERATORS, runs_operators
from tests.on_target import one_part
from tests.sampling import BLOCK, TESTS, chosen_files, chosen_tests, parts_of_folder, place

THIRTY = 30
ALL_FILES = sorted(path.relative_to(TESTS.parent).as_posix() for path in TESTS.rglob("test_*.py"))


def sample(files: dict[str, tuple[list[str], set[str]]], parts: int, seed: int) -> set[str]:
    """The tests of a sample, given the tests of each file and the slow ones among them."""
    sizes = defaultdict(int)
    for name in files:
        sizes[name.rpartition("/")[0]] += 1
    kept: set[str] = set()
    for name in chosen_files(list(files), parts, seed):
        folder = name.rpartition("/")[0]
        turns = parts_of_folder(sizes[folder], parts)
        kept |= chosen_tests(*files[name], parts, turns, place(folder, turns, seed)[1])
    return kept


def suite(folders: int, most: int) -> dict[str, tuple[list[str], set[str]]]:
    """Folders with 1, 2, 3, ... files, whose tests are quick, slow or both."""
    files = {}
    for folder in range(1, folders + 1):
        for file in range(folder):
            name = f"tests/f{folder}/test_{file}.py"
            tests = [f"{name}::test[{i}]" for i in range(1 + (folder * 7 + file * 5) % most)]
            files[name] = tests, set(tests[:: 1 + file % 4]) if file % 3 else set()
    return files


@pytest.mark.parametrize("parts", [2, 6, 12])
@pytest.mark.parametrize("first", [0, 1000, 21995406])
def test_thirty_successive_samples_have_every_test(parts, first):
    files = suite(13, 40)
    everything = {test for tests, _ in files.values() for test in tests}
    for begin in range(first, first + 60, 7):
        missing = everything.difference(*(sample(files, parts, seed) for seed in range(begin, begin + THIRTY)))
        assert not missing


@pytest.mark.parametrize("apart", range(2, 16))
def test_samples_of_seeds_that_are_equally_far_apart_have_every_test_in_the_end(apart):
    files = suite(8, 20)
    everything = {test for tests, _ in files.values() for test in tests}
    assert not everything.difference(*(sample(files, 12, seed) for seed in range(0, apart * 300, apart)))


def test_a_sample_is_about_its_part_of_the_tests_and_has_fewer_slow_ones():
    files = suite(13, 40)
    everything = {test for tests, _ in files.values() for test in tests}
    slow = set().union(*(some for _, some in files.values()))
    kept = [sample(files, 12, seed) for seed in range(60)]
    quick = sum(len(some - slow) for some in kept) / 60 / len(everything - slow)
    assert 1 / 13 < quick < 1 / 8
    assert 1 / (BLOCK + 1) < sum(len(some & slow) for some in kept) / 60 / len(slow) < 1 / 9


def test_every_sample_has_every_folder_and_every_operator():
    folders = {name.rpartition("/")[0] for name in ALL_FILES}
    for seed in range(THIRTY):
        assert {name.rpartition("/")[0] for name in chosen_files(ALL_FILES, 12, seed)} == folders
    assert set(ALL_FILES) >= FILES
    tests = list(TESTS_OF_OPERATORS)
    assert all(map(runs_operators, tests))
    assert chosen_tests(tests + ["another"] * 9, set(tests[:5]), 12, 1, 3, tests) >= set(tests)


def test_one_part_of_all_runs_everything():
    assert chosen_files(ALL_FILES, 1, seed=9) == set(ALL_FILES)


def test_samples_of_operator_tests_for_other_targets_have_every_test_in_the_end():
    names = [f"test[{i}]" for i in range(95)]
    assert len(one_part(names, 10, 3)) in (9, 10)
    assert set().union(*(one_part(names, 10, seed) for seed in range(19))) == set(names)


@pytest.mark.slow("starts a run of the tests")
def test_a_run_says_at_its_beginning_and_end_which_part_it_is(root):
    environment = {**os.environ, "TVM_TEST_PARTS": "12", "TVM_TEST_SEED": "3", "PYTHONPATH": str(root)}
    command = [sys.executable, "-m", "pytest", "tests/ir", "-q", "-p", "no:cacheprovider", "-n", "1"]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    begin = re.search(r"sample of one in 12 tests, from (\d+) of (\d+) test files, by seed 3; `make test-all` runs all",
                      done.stdout)  # fmt: skip
    end = re.search(r"a sample: (\d+) of the (\d+) tests in (\d+) of (\d+) test files; `make test SEED=3` repeats it, "
                    "`make test-all` runs all tests", done.stdout)  # fmt: skip
    assert begin.groups() == end.groups()[2:] and int(begin[1]) < int(begin[2]) == len(ALL_FILES)
    # Only the run itself is a sample, not the runs that its tests start.
    assert "TVM_TEST_PARTS" not in os.environ
    passed = int(re.search(r"(\d+) passed", done.stdout)[1])
    assert 0 < passed == int(end[1]) < int(end[2])

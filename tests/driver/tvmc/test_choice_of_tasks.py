"""Which tasks an expression names, how they are listed, and other small answers that scripts rely on."""

from __future__ import annotations

import numpy as np
import pytest

from tvm import autotvm
from tvm.driver import tvmc
from tvm.driver.tvmc.autotuner import filter_tasks, gen_task_list
from tvm.driver.tvmc.model import TVMCResult
from tvm.driver.tvmc.pass_list import parse_pass_list_str


@pytest.mark.parametrize("text, wanted, listed", [
    ("list", [], True), ("all", list("abcde"), False), ("2", ["c"], False), ("1-3", list("bcd"), False),
    ("-1", list("ab"), False), ("3-", list("de"), False), ("0,3-4,list", list("ade"), True), ("1,1,0", ["b", "a"], 0),
])  # fmt: skip
def test_numbers_ranges_and_words_choose_tasks(text, wanted, listed):
    assert filter_tasks(list("abcde"), text) == (wanted, listed)


@pytest.mark.parametrize("text, words", [
    ("5", "index out of range: there is no task 5"), ("2-5", "Right-hand side .* out of range"),
    ("7-", "Left-hand side .* out of range"), ("-", "Missing lhs or rhs"), ("--", "Malformed range"),
    ("1-2-3", "Malformed range"), ("3-1", "is empty"), ("x", "not a number, a range or part"),
])  # fmt: skip
def test_what_names_no_task_is_refused(text, words):
    with pytest.raises(AssertionError, match=words):
        filter_tasks(list("abcde"), text)


def test_a_long_task_is_cut_short_and_keeps_its_length():
    rows = gen_task_list([autotvm.task.Task("short", []), autotvm.task.Task("long" * 30, [])]).split("\n")
    assert rows[1] == "  0. Task(func_name=short, args=[], kwargs={}, workload=('short',)) (len=?)"
    assert rows[2].endswith("... (len=?)") and len(rows[2]) == len("  1. ") + 100 + len(" (len=?)")
    assert gen_task_list([autotvm.task.Task("long" * 30, [])], width=None).endswith(
        f"Task(func_name={'long' * 30}, args=[], kwargs={{}}, workload=('{'long' * 30}',)) (len=?)"
    )


def test_small_answers():
    assert parse_pass_list_str("") == [""]
    assert TVMCResult(outputs=None, times=None).outputs == {}
    with pytest.raises(FileNotFoundError, match="doesn't exist"):
        tvmc.load("not/a/file.onnx")


def test_a_package_may_be_named_by_any_path(tmp_path):
    model = tmp_path / "model.relay"
    model.write_text('#[version = "0.0.5"]\ndef @main(%x: Tensor[(3), float32]) { add(%x, %x) }\n')
    package = tvmc.compile(tvmc.load(str(model)), target="llvm", package_path=tmp_path / "m.tar")
    assert package.package_path == str(tmp_path / "m.tar")
    result = tvmc.run(package, device="cpu", inputs={"x": np.ones(3, "float32")})
    np.testing.assert_array_equal(result.get_output("output_0"), [2, 2, 2])

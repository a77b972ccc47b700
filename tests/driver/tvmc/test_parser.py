"""Help that fits on a screen, and words that are not known."""

from __future__ import annotations

import re

import pytest

from tvm.driver.tvmc.commands import COMMANDS
from tvm.driver.tvmc.main import _main
from tvm.driver.tvmc.target import kinds_with_code
from tvm.relay.op.contrib.codegen import CODEGENS


@pytest.fixture
def shown(capsys, monkeypatch):
    """``shown(*argv)``: what the command prints and ends with, on a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*argv: str) -> tuple[str, object]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            _main(list(argv))
        said = capsys.readouterr()
        return said.out + said.err, stop.value.code

    return run


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_on_a_screen(shown, command):
    text, code = shown(*filter(None, [command]), "--help")
    assert code == 0 and text.startswith("usage: tvmc")
    assert len(text.splitlines()) <= 60 and max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("command", ["compile", "tune"])
def test_generated_options_are_shown_when_all_are_asked_for_and_only_of_kinds_with_code(shown, command):
    assert "--target-llvm-mcpu" not in shown(command, "--help")[0]
    text, code = shown(command, "--help-all")
    assert code == 0
    # Other tests of this process may have registered code generators for parts of models.
    assert set(re.findall(r"^target (\w+):", text, re.MULTILINE)) - set(CODEGENS) == set(kinds_with_code())
    assert "--target-llvm-mcpu" in text and "--target-hexagon" not in text and "--mixed-precision-acc-type" in text


def test_all_commands_are_listed_in_their_order(capsys):
    assert _main([]) == 1
    listed = re.findall(r"^    (\w+) +\w", capsys.readouterr().err, re.MULTILINE)
    assert listed == list(COMMANDS)


@pytest.mark.parametrize(
    "argv, owner, hint",
    [
        (["comple"], "tvmc", "'compile'"),
        (["compile", "--outptu", "x", "m.onnx"], "tvmc compile", "'--output'"),
        (["compile", "--model-format", "onx", "m.onnx"], "tvmc compile", "'onnx'"),
        (["run", "--devise", "cpu", "m.tar"], "tvmc run", "'--device'"),
        (["run", "--device", "cudaa", "m.tar"], "tvmc run", "'cuda'"),
        (["tune", "--tuner", "gridserch", "m.onnx"], "tvmc tune", "'gridsearch'"),
        (["completion", "bsh"], "tvmc completion", "'bash'"),
    ],
)
def test_a_word_that_is_not_known_names_the_closest_one(shown, argv, owner, hint):
    text, code = shown(*argv)
    assert code == 2 and f"{owner}: error: " in text
    assert re.search(rf"did you mean {hint}", text)


def test_a_word_like_no_other_has_no_hint(shown):
    text, code = shown("compile", "--zzzz", "m.onnx")
    assert code == 2 and "unrecognized arguments: --zzzz" in text and "did you mean" not in text


@pytest.mark.parametrize(
    "argv, words",
    [
        (["compile", "--target", "lvm"], "'lvm' is not a target: did you mean 'llvm'?"),
        (["compile", "--target", "llvm -mcup=x"], "did you mean 'mcpu'"),
        (["compile", "--executor", "grph"], "did you mean 'graph'?"),
        (["tune", "-o", "records", "--target", "opncl"], "did you mean 'opencl'?"),
        (["tune", "-o", "records", "--target", "hexagon"], "no back end generates code for target kind 'hexagon'"),
        (["compile", "--target", "llvm", "--disabled-pass", "FoldConstnt"], "FoldConstant"),
    ],
)
def test_names_of_targets_and_their_options_are_checked_before_the_model_is_read(tmp_path, capsys, argv, words):
    broken = tmp_path / "broken.onnx"
    broken.write_text("no model")
    try:
        code = _main([*argv, str(broken)])
    except SystemExit as stop:
        code = stop.code
    said = capsys.readouterr().err
    assert code in (2, 4) and words in said and "broken" not in said.split("Error")[-1]


def test_an_input_that_the_model_has_not_names_the_closest_one(package, tmp_path, refused):
    import numpy as np

    np.savez(tmp_path / "in.npz", dta=np.zeros((1, 3, 9, 7), "float32"))
    refused(4, "did you mean 'data'?", "run", "--inputs", str(tmp_path / "in.npz"), package)


def test_a_shape_of_an_input_that_the_model_has_not_names_the_closest_one(model_path, tmp_path, refused):
    out = str(tmp_path / "m.tar")
    refused(4, "did you mean 'data'?", "compile", "-o", out, "--input-shapes", "dta:[1,3,9,7]", model_path)


def test_a_task_that_the_model_has_not_names_the_closest_one(model_path, tmp_path, refused):
    out = str(tmp_path / "r.json")
    refused(4, "did you mean 'conv2d_NCHWc", "tune", "-o", out, "--tasks", "conv2d_NCHWd", model_path)

"""``python -m tools``: its table, its reference page, the programs that it runs, and texts that name its commands."""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
from pathlib import Path

import pytest

from tests.architecture.sources import all_texts
from tools import __main__ as tools
from tools.commands import COMMANDS, ROOT, Command, Group

EVERY = {
    (name, *inner): command
    for name, entry in COMMANDS.items()
    for inner, command in (
        [((of,), command) for of, command in entry.commands.items()] if isinstance(entry, Group) else [((), entry)]
    )
}
MAKE = (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch):
    def run(program, **rest):
        raise AssertionError(f"runs {program}")

    monkeypatch.setattr(tools.subprocess, "run", run)


def dry(capsys, *words: str) -> list[str]:
    depth = 2 if isinstance(COMMANDS[words[0]], Group) else 1
    assert tools.main([*words[:depth], "--dry-run", *words[depth:]]) == 0
    return capsys.readouterr().out.splitlines()


def words_of_script(script: Path) -> set[str]:
    """The strings in a script; some scripts read their options from ``sys.argv``."""
    nodes = ast.walk(ast.parse(script.read_text(encoding="utf-8")))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def taken_options(script: Path) -> set[str]:
    """The options that a script declares with ``add_argument``, without those it hides."""
    calls = [node for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    declared = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument"]
    shown = [call for call in declared if "SUPPRESS" not in ast.unparse(call)]
    return {word.value for call in shown for word in call.args if isinstance(word, ast.Constant)}


def test_the_reference_page_has_the_tables_of_the_commands():
    page = tools.PAGE.read_text(encoding="utf-8")
    assert f"{tools.BEGIN}\n\n{tools.tables()}\n\n{tools.END}" in page, "python3 -m tools --write writes them"


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_the_programs_of_a_command_exist_and_take_its_options(words: tuple[str, ...], capsys):
    command = EVERY[words]
    values = [[option.name, "1"] if option.value else [option.name] for option in command.options]
    given = [word for option, pair in zip(command.options, values) for word in pair if option.name.startswith("-")]
    lines = dry(capsys, *words, *given)
    assert lines and all(lines)
    named = re.findall(r"(?<!\S)((?:tests|tools)/[\w/.-]+)", "\n".join(lines))
    assert not [path for path in named if not (ROOT / path).exists()]
    modules = [name for name in re.findall(r"-m ([\w.]+)", "\n".join(lines)) if name not in ("pytest", "venv", "pip")]
    paths = [ROOT / name.replace(".", "/") for name in modules]
    assert all(path.with_suffix(".py").exists() or (path / "__main__.py").exists() for path in paths)
    for line in lines:
        if script := re.match(r"python (tools/\w+\.py)", line):
            asked = {option.name for option in command.options if option.name in line.split()}
            assert asked <= words_of_script(ROOT / script[1])


@pytest.mark.parametrize("script, words", [
    ("onnx_conformance", ("conformance", "onnx")), ("pytorch_models", ("models", "pytorch")),
    ("keras_models", ("models", "keras")), ("torch_compile", ("models", "torch-compile")),
    ("cross_check", ("test", "cross")), ("soak_rpc", ("soak", "rpc")), ("everywhere", ("everywhere",)),
    ("first_hour", ("first-hour",)),
])  # fmt: skip
def test_a_command_has_every_option_of_its_script(script: str, words: tuple[str, ...]):
    assert taken_options(ROOT / "tools" / f"{script}.py") == {option.name for option in EVERY[words].options}


def test_options_become_words_and_variables_of_the_programs(capsys):
    assert dry(capsys, "fuzz", "caffe", "--cases", "7", "--seed", "3") == [
        "TVM_FUZZ_CASES=7 TVM_TEST_SEED=3 python -m pytest tests/relay/frontend/caffe -k mutated -q -p no:xdist"
    ]
    assert dry(capsys, "conformance", "keras", "lstm", "gru") == ["python tools/keras_conformance.py lstm gru"]
    assert dry(capsys, "models", "keras", "--python", "other", "--only", "VGG") == [
        "other tools/keras_models.py --only VGG --seconds 900 --version 3"
    ]
    assert [line.split("'")[1] for line in dry(capsys, "test", "cuda", "--arch", "all")] == [
        "cuda -arch=sm_75", "cuda -arch=sm_80", "cuda -arch=sm_90"
    ]  # fmt: skip
    assert dry(capsys, "bench", "vm", "--chain", "--", "--help") == ["python -m benchmarks.vm --chain --help"]


def test_each_run_of_a_fuzzer_has_a_new_seed_which_its_parts_share(capsys, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1234.5)
    first, second = dry(capsys, "fuzz", "programs")
    assert "TVM_TEST_SEED=1234 " in first and "TVM_TEST_SEED=1234 " in second
    assert "TVM_FUZZ_CASES=20000 " in first and "TVM_FUZZ_CASES=1000 " in second


@pytest.mark.parametrize("words, made, python", [
    (["conformance", "keras"], "setup-test", ".venv/bin/python"),
    (["replay"], "setup-run", ".venv/bin/python"),
    (["conformance", "keras", "--python", "mine"], "lib", "mine"),
    (["size"], None, None),
])  # fmt: skip
def test_the_environment_is_set_up_before_the_programs_run(words, made, python, monkeypatch):
    ran = []

    def run(program, **rest):
        ran.append((program, rest.get("env", {}).get("PYTHONPATH", "")))
        return subprocess.CompletedProcess(program, 0)

    monkeypatch.setattr(tools.subprocess, "run", run)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert tools.main(words) == 0
    if made:
        assert ran[0][0] == ["make", "--silent", "--no-print-directory", made]
        assert ran[1][0][0].endswith(python)
    assert (ran[-1][1] == str(ROOT)) == (python == "mine")
    assert len(ran) == 1 + bool(made)


def test_the_first_program_that_fails_ends_the_command_with_its_status(monkeypatch):
    ran = []

    def run(program, **rest):
        ran.append(program)
        return subprocess.CompletedProcess(program, 0 if program[0] == "make" else 3)

    monkeypatch.setattr(tools.subprocess, "run", run)
    assert tools.main(["fuzz", "tune", "--python", "mine"]) == 3
    assert len(ran) == 2


@pytest.mark.parametrize("words, text", [
    (["nowhere"], "invalid choice: 'nowhere'"),
    (["fuzz", "nothing"], "invalid choice: 'nothing'"),
    (["fuzz"], "the following arguments are required: OF_WHAT"),
    (["size", "--speed"], "unknown option: --speed"),
])  # fmt: skip
def test_unknown_words_are_rejected(words, text, capsys):
    with pytest.raises(SystemExit) as ended:
        tools.main(words)
    assert ended.value.code == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["fuzz"], ["fuzz", "rpc"]], ids=" ".join)
def test_every_level_has_help(words, capsys):
    with pytest.raises(SystemExit) as ended:
        tools.main([*words, "--help"])
    text = capsys.readouterr().out
    assert ended.value.code == 0 and text.startswith(f"usage: {' '.join(['python -m tools', *words])}")


def named_commands(text: str) -> set[tuple[str, ...]]:
    """The commands that a text names: words behind ``python -m tools`` up to the first option."""
    found = re.findall(r"python3? -m tools ([a-z][\w-]*)(?: ([a-z][\w-]*))?", text)
    return {tuple(filter(None, pair)) for pair in found}


def test_texts_name_commands_that_exist():
    known, wrong = set(EVERY) | {(name,) for name in COMMANDS}, []
    for file, text in all_texts().items():
        for words in named_commands(text):
            single = isinstance(COMMANDS.get(words[0]), Command)
            if words not in known and not (single and words[:1] in known):
                wrong.append(f"{file}: python -m tools {' '.join(words)}")
    assert not wrong, "\n".join(wrong)


def test_texts_name_make_targets_that_exist():
    """Commands in code spans and blocks; ``make -C csrc`` has its own targets, and the changelog names removed ones."""
    targets = set(re.findall(r"^([a-z-]+):", MAKE, re.MULTILINE))
    command = re.compile(r"(?:`|^ {4}|^)make ([a-z][a-z-]*)\b", re.MULTILINE)
    read = {file: text for file, text in all_texts().items() if file != "CHANGELOG.md" and not file.endswith(".json")}
    found = {(file, name) for file, text in read.items() for name in command.findall(text) if name not in targets}
    assert not found, "\n".join(f"{file}: make {name}" for file, name in sorted(found))


def test_make_has_targets_for_people_alone():
    listed = re.findall(r"^([a-z-]+):.*## ", MAKE, re.MULTILINE)
    assert 3 < len(listed) <= 15 and {"demo", "test", "test-all", "lint", "docs"} <= set(listed)
    page = tools.PAGE.read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `make ([a-z-]+)` \|", page, re.MULTILINE)) == set(listed) - {"help"}


def test_the_parser_is_made_of_the_table():
    parser = tools.make_parser()
    action = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    assert list(action.choices) == list(COMMANDS)

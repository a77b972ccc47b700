"""The page of the first ten minutes is replayed: its commands run as they stand there, in their order."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def first_hour(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import first_hour

    return first_hour


@pytest.mark.slow("runs the commands of a page in a new environment")
def test_the_commands_of_the_page_run_as_they_stand_there(python, first_hour, sharing_compiled_models):
    command = [python, str(ROOT / "tools" / "first_hour.py"), "--here"]
    # Many threads take more processor time and show the same.
    environment = {**sharing_compiled_models, "TVM_NUM_THREADS": "2"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for block in first_hour.blocks(first_hour.PAGE.read_text(encoding="utf-8")):
        assert (block.commands in done.stdout) == (block.section != first_hour.INSTALL)
    for said in ("Egyptian cat", "onnxruntime", "as written: ", "all cores: "):
        assert said in done.stdout


PAGE = "# T\n\n## Install\n\n```sh\necho a\n```\n\n## Use\n\n```sh\necho b\necho c\n```\n\n```text\nold\n```\n\nMore.\n"


def test_a_command_that_fails_ends_the_replay_and_is_named(first_hour, tmp_path):
    with pytest.raises(SystemExit, match="failed with exit code 3:\nexit 3"):
        blocks = [first_hour.Block("", "echo a\n"), first_hour.Block("", "exit 3\n")]
        first_hour.replay(blocks, tmp_path, dict(os.environ))


def test_what_was_printed_takes_the_place_of_what_stood_there(first_hour, tmp_path):
    blocks = first_hour.blocks(PAGE)
    assert blocks == [("Install", "echo a\n"), ("Use", "echo b\necho c\n")]
    outputs, seconds = first_hour.replay(blocks, tmp_path, dict(os.environ))
    assert outputs == ["a\n", "b\nc\n"] and len(seconds) == 2
    text = first_hour.with_outputs(PAGE, outputs)
    assert text == PAGE.replace("echo a\n```\n", "echo a\n```\n\n```text\na\n```\n").replace("old", "b\nc")
    assert first_hour.with_outputs(text, outputs) == text

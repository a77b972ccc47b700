"""Records that cannot be written: the tuner says so, ends with a code of its own, and keeps what it wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tvm.driver.tvmc.main import _main

TUNE = ["tune", "--tuner", "random", "--number", "1", "--trials"]


def tune(records: str, model: str, trials: int, environment: dict, limit: int):
    """Run the tuner; ``limit`` is the size at which the system refuses to let a file grow, as a full disk does."""
    command = [sys.executable, "-m", "tvm.driver.tvmc", *TUNE, str(trials), "-o", records, model]
    script = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2); "
    command = [sys.executable, "-c", script + "os.execv(sys.argv[2], sys.argv[2:])", str(limit), *command]
    # Compiled modules of Python would be cut at that size too, and be read by every later run.
    environment = {**environment, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.slow("tunes with worker processes")
def test_full_disk_stops_the_tuner_and_keeps_whole_records(model_path, tmp_path, tuning_environment, capsys):
    records = tmp_path / "records.json"
    limit = 2500
    done = tune(str(records), model_path, 16, tuning_environment, limit)
    assert done.returncode == 4, done.stderr
    assert done.stderr.count("\n") == 1 and "cannot write" in done.stderr, done.stderr
    text = records.read_text()
    assert 0 < len(text) <= limit
    rows = [json.loads(line) for line in text.splitlines()]
    assert len(rows) >= 2
    assert not _main([*TUNE, str(len(rows) + 2), "-o", str(records), model_path])
    assert f"{len(rows)} records found, going on" in capsys.readouterr().out
    rows_now = [json.loads(line) for line in records.read_text().splitlines()]
    keys = [json.dumps(row["config"]) for row in rows_now if "final" not in row]
    assert len(keys) == len(set(keys)) > len(rows)


@pytest.mark.skipif(os.geteuid() == 0, reason="a superuser may write everywhere")
def test_unwritable_file_is_said_before_anything_is_measured(model_path, tmp_path, refused):
    records = tmp_path / "records.json"
    records.write_text("")
    records.chmod(0o444)
    refused(4, "Permission denied", *TUNE, "16", "-o", str(records), model_path)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("file/records.json", "the directory"),
        ("no/records.json", "the directory"),
        ("folder", "it is a directory"),
    ],
)
def test_a_path_that_cannot_be_a_file_is_said_before_anything_is_measured(model_path, tmp_path, path, words, capsys):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    assert _main([*TUNE, "16", "-o", str(tmp_path / path), model_path]) == 4
    said = capsys.readouterr()
    assert said.err.count("\n") == 1 and words in said.err, said.err
    assert "Task" not in said.out and not (tmp_path / "no").exists()


def test_a_file_of_something_else_is_left_as_it_is(model_path, tmp_path, refused):
    for text in ("tabby\ntiger cat\n", "no end of line", '{"0": "tabby"}\n'):
        labels = tmp_path / "labels.txt"
        labels.write_text(text)
        refused(4, "lines that are not tuning records; nothing was written to it", *TUNE, "16", "-o", str(labels),
                model_path)  # fmt: skip
        assert labels.read_text() == text

"""Records that cannot be written: the tuner says so, ends with a code of its own, and keeps what it wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-m", "tvm.driver.tvmc", "tune", "--trials", "16", "--tuner", "random", "--number", "1"]


def tune(records: str, model: str, limit: int | None = None) -> subprocess.CompletedProcess:
    """Run the tuner; ``limit`` is the size at which the system refuses to let a file grow, as a full disk does."""
    command = [*COMMAND, "-o", records, model]
    if limit is not None:
        script = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2); "
        command = [sys.executable, "-c", script + "os.execv(sys.argv[2], sys.argv[2:])", str(limit), *command]
    return subprocess.run(command, capture_output=True, text=True)


def check(done: subprocess.CompletedProcess, words: str) -> None:
    assert done.returncode == 4, done.stderr
    assert done.stderr.count("\n") == 1 and words in done.stderr, done.stderr


@pytest.mark.slow
def test_full_disk_stops_the_tuner_and_keeps_whole_records(model_path, tmp_path):
    records = tmp_path / "records.json"
    limit = 2500
    check(tune(str(records), model_path, limit), "cannot be written")
    text = records.read_text()
    assert 0 < len(text) <= limit
    rows = [json.loads(line) for line in text.splitlines()]
    assert len(rows) >= 2
    done = tune(str(records), model_path)
    assert done.returncode == 0, done.stderr
    assert f"{len(rows)} records found, going on" in done.stdout
    rows_now = [json.loads(line) for line in records.read_text().splitlines()]
    keys = [json.dumps(row["config"]) for row in rows_now if "final" not in row]
    assert len(keys) == len(set(keys)) > len(rows)


@pytest.mark.skipif(os.geteuid() == 0, reason="a superuser may write everywhere")
def test_unwritable_file_is_said_before_anything_is_measured(model_path, tmp_path):
    records = tmp_path / "records.json"
    records.write_text("")
    records.chmod(0o444)
    done = tune(str(records), model_path)
    check(done, "Permission denied")
    assert "Task" not in done.stdout


@pytest.mark.parametrize(("path", "words"), [
    ("file/records.json", "there is no directory"), ("no/records.json", "there is no directory"),
    ("folder", "it is a directory"),
])
def test_a_path_that_cannot_be_a_file_is_said_before_anything_is_measured(model_path, tmp_path, path, words):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    done = tune(str(tmp_path / path), model_path)
    check(done, words)
    assert "Task" not in done.stdout and not (tmp_path / "no").exists()


@pytest.mark.slow
def test_a_file_of_something_else_is_left_as_it_is(model_path, tmp_path):
    for text in ("tabby\ntiger cat\n", "no end of line", '{"0": "tabby"}\n'):
        labels = tmp_path / "labels.txt"
        labels.write_text(text)
        done = tune(str(labels), model_path)
        check(done, "has lines that are no tuning records; nothing was written to it")
        assert labels.read_text() == text

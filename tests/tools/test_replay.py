"""The comparison of generated code, and the corpus it is made of."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture
def replay(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    import replay

    yield replay
    sys.modules.pop("replay", None)


@pytest.fixture
def corpus(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    import replay_corpus

    yield replay_corpus
    sys.modules.pop("replay_corpus", None)


def folder(path: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    return path


def test_equal_folders_have_no_difference(replay, tmp_path, capsys):
    before = folder(tmp_path / "before", {"dense/x86.host.ll": "a\nb\n", "dense/x86.traceback": "line 1"})
    after = folder(tmp_path / "after", {"dense/x86.host.ll": "a\nb\n", "dense/x86.traceback": "line 2"})
    assert replay.compare(before, after) == 0
    assert "the generated code is the same" in capsys.readouterr().out


def test_files_that_differ_are_gone_or_new_are_named_with_their_lines(replay, tmp_path, capsys):
    before = folder(tmp_path / "before", {"dense/x86.host.ll": "a\nb\n", "dense/c.host.c": "x", "same": "s"})
    after = folder(tmp_path / "after", {"dense/x86.host.ll": "a\nc\n", "pool/c.host.c": "y", "same": "s"})
    assert replay.compare(before, after) == 3
    out = capsys.readouterr().out
    assert "\n-b\n+c\n" in out
    for line in ("differs   dense/x86.host.ll", "is gone   dense/c.host.c", "is new    pool/c.host.c"):
        assert line in out
    assert "3 files: 1 are the same, 1 differ, 1 are gone, 1 are new" in out


def test_a_long_difference_is_cut(replay, tmp_path, capsys):
    before = folder(tmp_path / "before", {"f": "\n".join(map(str, range(500)))})
    after = folder(tmp_path / "after", {"f": "\n".join(map(str, range(500, 1000)))})
    assert replay.compare(before, after) == 1
    assert len(capsys.readouterr().out.splitlines()) < replay.MOST_LINES + 10


def test_every_case_of_the_corpus_has_a_program_and_a_target(corpus):
    targets = {**corpus.TARGETS, **corpus.FURTHER_TARGETS}
    programs = {"model": corpus.MODELS, "operator": corpus.OPERATORS, "schedule": corpus.SCHEDULES, "open": corpus.OPEN}
    cases = list(corpus.cases())
    assert len(cases) == len(set(cases)) > 200
    assert all(name in programs[kind] and target in targets for kind, name, target in cases)


@pytest.mark.parametrize("target", ["x86", "c", "opencl"])
def test_a_program_gives_the_same_text_twice(corpus, target):
    once, again = (corpus.generate("operator", "dense_odd", target) for _ in range(2))
    assert once == again and len(once) >= 3 and all(once.values())


def test_a_program_with_open_sizes_gives_kernels_and_bytecode_twice(corpus):
    once, again = (corpus.generate("open", "open_dense", "arm") for _ in range(2))
    assert once == again and set(once) == {"host.ll", "bytecode"} and "shape_func" in once["bytecode"]


def test_a_case_that_fails_leaves_its_error(replay, corpus, tmp_path, monkeypatch):
    def refuse(*case):
        raise ValueError("no such thing")

    monkeypatch.setattr(corpus, "generate", refuse)
    replay.write_case(tmp_path, ("operator", "dense", "x86"))
    assert (tmp_path / "dense" / "x86.error").read_text() == "ValueError: no such thing\n"

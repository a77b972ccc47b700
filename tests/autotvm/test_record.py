"""Record files: classic lines are read and written, and no crash makes a file useless."""

from __future__ import annotations

import io
import json
import logging
import random
import subprocess
import sys

import pytest

import tvm
from tvm import autotvm
from tvm.autotvm.database import SQLiteDatabase
from tvm.autotvm.record import RecordFile
from tvm.testing.autotvm import get_sample_records

CLASSIC = (
    '{"input": ["llvm -mcpu=broadwell", "tutorial/matmul", [512, 512, 512, "float32"], {}], "config": {"index": 77, '
    '"code_hash": null, "entity": [["tile_y", "sp", [-1, 64]], ["tile_x", "sp", [-1, 32]]]}, "result": [[0.0123], 0, '
    '1.5, 1600000000.0], "version": 0.2, "tvm_version": "0.11.dev0"}'
)


def test_classic_line_is_read():
    inp, res = autotvm.record.decode(CLASSIC)
    assert inp.task.name == "tutorial/matmul" and inp.task.args == (512, 512, 512, "float32")
    assert inp.target.attrs["mcpu"] == "broadwell" and inp.config.index == 77
    assert inp.config["tile_y"].size == [-1, 64] and res.costs == (0.0123,) and inp.config.cost == 0.0123


def test_what_is_written_is_read_back():
    for inp, res in get_sample_records(10):
        line = autotvm.record.encode(inp, res)
        row = json.loads(line)
        assert row["version"] == 0.2 and row["made_on"]["cpu"] and "\n" not in line
        back, result = autotvm.record.decode(line)
        assert autotvm.record.measure_str_key(back) == autotvm.record.measure_str_key(inp)
        assert result == res and back.task.workload == inp.task.workload


def test_failures_keep_the_classic_cost():
    inp, _ = get_sample_records(1)[0]
    failed = autotvm.MeasureResult((ValueError("no"),), autotvm.MeasureErrorNo.COMPILE_HOST, 1.0, 2.0)
    assert json.loads(autotvm.record.encode(inp, failed))["result"] == [[1e9], 2, 1.0, 2.0]


def test_pickled_records_are_refused():
    inp, res = get_sample_records(1)[0]
    for action in (lambda: autotvm.record.encode(inp, res, "pickle"), lambda: autotvm.record.decode("x", "pickle")):
        with pytest.raises(RuntimeError, match="json"):
            action()


def test_lines_that_are_no_records_are_counted(tmp_path, caplog):
    path = tmp_path / "mixed.log"
    cut = CLASSIC[: len(CLASSIC) // 2]
    path.write_text(f"# a comment\n\n{CLASSIC}\nnonsense\n{{}}\n{CLASSIC}\n{cut}")
    with caplog.at_level(logging.WARNING, "autotvm"):
        assert len(list(autotvm.record.load_from_file(path))) == 2
    assert any("3 lines" in line for line in caplog.messages)


ODD = [
    None,
    True,
    -1,
    1e400,
    float("nan"),
    "",
    "llvm -mcpu=nonsense",
    "cuda",
    [],
    [[]],
    {},
    {"a": 1},
    "\0",
    [1, 2],
    ["TENSOR"],
    ["TENSOR", None, 3],
    10**40,
]


def spoilt(node, chance: random.Random):
    """The same with one part taken away or replaced."""
    if chance.random() < 0.2 or not isinstance(node, (list, dict)) or not node:
        return chance.choice(ODD)
    node = node.copy()
    place = chance.choice(list(node) if isinstance(node, dict) else range(len(node)))
    if chance.random() < 0.15:
        del node[place]
    else:
        node[place] = spoilt(node[place], chance)
    return node


def test_no_line_of_a_file_is_a_crash(seed):
    """Whatever a line holds, it is a record that can be used or it is left out."""
    chance = random.Random(seed)
    target = tvm.target.Target("llvm")
    whole = {**json.loads(CLASSIC), "made_on": {"cpu": "x", "features": ["a"]}, "final": True}
    rows = [spoilt(whole, chance) for _ in range(400)]
    good = list(autotvm.record.load_from_buffer([CLASSIC, *map(json.dumps, rows)]))
    assert good
    with target, autotvm.apply_history_best(good) as context:
        for inp, res in good:
            context.query(target, inp.task.workload)
            assert json.loads(autotvm.record.encode(inp, res))["result"]
        assert context.digest()


@pytest.mark.parametrize("costs", [[], [float("nan")], [-1.0], [float("inf")], ["soon"], None])
def test_costs_that_are_none_make_no_record(costs):
    row = json.loads(CLASSIC)
    row["result"][0] = costs
    assert list(autotvm.record.load_from_buffer([json.dumps(row)])) == []


@pytest.mark.parametrize(
    "tail, kept",
    [
        *[(CLASSIC[:n], "") for n in (1, 9, 40, len(CLASSIC) - 1)],
        (CLASSIC, CLASSIC + "\n"),
        ("a note", "a note\n"),
    ],
)
def test_appending_takes_away_a_record_that_was_cut(tmp_path, tail, kept):
    path = tmp_path / "cut.log"
    for before in ("", CLASSIC + "\n"):
        path.write_text(before + tail)
        RecordFile(path).append([CLASSIC])
        assert path.read_text() == before + kept + CLASSIC + "\n"


@pytest.mark.parametrize("room", [0, 1, len(CLASSIC), len(CLASSIC) + 1, 2 * len(CLASSIC)])
def test_full_disk_keeps_whole_lines(tmp_path, room):
    """The system's limit on the size of files stands for a disk with so much room."""
    path = tmp_path / "full.log"
    path.write_text(CLASSIC + "\n")
    script = (
        "import resource, sys\nfrom tvm.autotvm.record import RecordFile\nline = sys.argv[2]\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)\n"
        "RecordFile(sys.argv[1]).append([line] * 3)"
    )
    limit = len(CLASSIC) + 1 + room
    done = subprocess.run(
        [sys.executable, "-c", script, str(path), CLASSIC, str(limit)], capture_output=True, text=True
    )
    assert done.returncode == 1 and "cannot write" in done.stderr and "are kept" in done.stderr
    # The end of a line may be missing: it is put there before the next one.
    assert path.read_text().splitlines() == [CLASSIC] * (1 + (room + 1) // (len(CLASSIC) + 1))


def test_missing_folders_are_made(tmp_path):
    path = tmp_path / "new" / "folder" / "records.log"
    RecordFile(path).append([CLASSIC])
    assert path.read_text() == CLASSIC + "\n"


def test_several_writers_do_not_mix_their_lines(tmp_path):
    path = tmp_path / "shared.log"
    script = (
        "import sys\nfrom tvm.autotvm.record import RecordFile\n"
        "for _ in range(60):\n    RecordFile(sys.argv[1]).append([sys.argv[2]] * 5)"
    )
    running = [subprocess.Popen([sys.executable, "-c", script, str(path), CLASSIC]) for _ in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    assert path.read_text() == (CLASSIC + "\n") * 900


def test_unwritable_file_is_a_clear_error(tmp_path):
    with pytest.raises(tvm.TVMError, match="cannot write"):
        RecordFile(tmp_path).append([CLASSIC])
    with pytest.raises(tvm.TVMError, match="No space left"):
        RecordFile("/dev/full").append([CLASSIC])


def test_best_records_are_picked(tmp_path):
    source, best = tmp_path / "all.log", tmp_path / "best.log"
    records = get_sample_records(8)
    RecordFile(source).append(autotvm.record.encode(i, r) for i, r in reversed(records))
    autotvm.record.pick_best(source, best)
    (found,) = autotvm.record.load_from_file(best)
    assert found[0].config.index == 0 and found[1].costs == (1,)
    autotvm.record.pick_best(source, best)
    assert len(list(autotvm.record.load_from_file(best))) == 1


def test_the_winner_of_a_final_holds_against_a_lucky_measurement(tmp_path):
    source, best = tmp_path / "all.log", tmp_path / "best.log"
    records = get_sample_records(3)
    records[2][0].final = True
    RecordFile(source).append(autotvm.record.encode(i, r) for i, r in records)
    assert [i.final for i, _ in autotvm.record.load_from_file(source)] == [False, False, True]
    autotvm.record.pick_best(source, best)
    (found,) = autotvm.record.load_from_file(best)
    assert found[0].config.index == records[2][0].config.index and found[0].final
    history = autotvm.apply_history_best(source)
    assert {inp.config.index for inp, _ in history.best_by_targetkey.values()} == {records[2][0].config.index}


def test_records_stay_of_where_they_were_made(tmp_path):
    source, best = tmp_path / "all.log", tmp_path / "best.log"
    row = {**json.loads(CLASSIC), "made_on": {"cpu": "znver9"}}
    for line in (row, json.loads(CLASSIC)):
        source.write_text(json.dumps(line) + "\n")
        best.unlink(missing_ok=True)
        autotvm.record.pick_best(source, best)
        assert json.loads(best.read_text()).get("made_on") == line.get("made_on")
        assert json.loads(best.read_text())["tvm_version"] == "0.11.dev0"


def test_command_lines(tmp_path):
    source = tmp_path / "all.log"
    RecordFile(source).append(autotvm.record.encode(i, r) for i, r in get_sample_records(3))
    out = tmp_path / "picked.log"
    for command in (
        ["tvm.autotvm.record", "--mode", "pick", "--i", str(source), "--o", str(out)],
        ["tvm.exec.autotvm_log_editor", "--act", "pick-best", "--i", str(source)],
    ):
        done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert out.read_text() == (tmp_path / "all.log.best.log").read_text()


def test_records_in_a_database(tmp_path):
    path = tmp_path / "records.sqlite"
    records = get_sample_records(6)
    write = autotvm.callback.log_to_database(path)
    write(None, [i for i, _ in records], [r for _, r in records])
    store = SQLiteDatabase(path)
    assert store.load(records[2][0]).costs == (3,)
    assert store.best(records[2][0])[1].costs == (1,)
    store.save(records[2][0], records[4][1], extend=True)
    assert [r.costs for r in store.load(records[2][0], get_all=True)] == [(3,), (5,)]
    assert len(list(store)) == 7 and len(store.filter(lambda i, r: any(x.costs[0] > 4 for x in r))) == 3
    assert [len(results) for _, results in store.filter(lambda i, r: True)] == [1, 1, 2, 1, 1, 1]


def test_records_of_files_and_of_iterables_of_them_are_merged(tmp_path):
    pairs = get_sample_records(10)
    best = str(pairs[0][0].config)
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path, part in zip(paths, (pairs[5:], pairs[:5])):
        RecordFile(path).append(autotvm.record.encode(*pair) for pair in part)
    text = io.StringIO("".join(path.read_text() for path in paths))
    inp = pairs[0][0]
    for records in (paths, zip(paths), text, iter(pairs), zip([pairs[5:], pairs[:5]]), [iter(pairs[5:]), paths[1]]):
        history = autotvm.task.ApplyHistoryBest(records)
        assert str(history.query(inp.target, inp.task.workload)) == best


def test_devices_are_not_read():
    with pytest.raises(tvm.TVMError, match="device"):
        list(autotvm.record.load_from_file("/dev/zero"))

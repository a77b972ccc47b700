"""Records from elsewhere: used where they are valid, left out where they are not, and one line says so."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest

import tvm
from tvm import autotvm, relay, te
from tvm.autotvm import tophub
from tvm.autotvm.record import RecordFile, encode
from tvm.autotvm.task.dispatcher import processor_of
from tvm.autotvm.task.entity import KnobError
from tvm.driver.tvmc.main import _main

HERE = processor_of(tvm.target.Target("llvm"))


@autotvm.template("test/dispatched")
def template(n: int):
    a = te.placeholder((n, n), name="a")
    b = te.compute((n, n), lambda i, j: a[i, j] + 1.0, name="b")
    s = te.create_schedule(b.op)
    cfg = autotvm.get_config()
    y, x = s[b].op.axis
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=3)
    cfg.define_reorder("order", [y, x], "all")
    cfg.define_knob("unroll", [0, 4])
    cfg["tile_y"].apply(s, b, y)
    cfg["tile_x"].apply(s, b, x)
    used.append((cfg["tile_y"].size, cfg["unroll"].val))
    return s, [a, b]


used: list = []
FITTING = [["tile_y", "sp", [-1, 8]], ["tile_x", "sp", [-1, 2, 4]], ["order", "re", [1, 0]], ["unroll", "ot", 4]]


def row(entity, cost=1e-3, target="llvm -keys=cpu ", **more) -> str:
    """A line as classic TVM writes it."""
    line = {
        "input": [target, "test/dispatched", [64], {}],
        "config": {"index": 3, "code_hash": None, "entity": entity},
        "result": [[cost], 0, 1.5, 1600000000.0],
        "version": 0.2,
        "tvm_version": "0.11.dev0",
        **more,
    }
    return json.dumps(line)


def changed(name: str, kind: str, value) -> list:
    return [[name, kind, value] if knob[0] == name else knob for knob in FITTING]


def applied(path, lines: list[str], caplog, target: str = "llvm"):
    """The tiles that the template is given, and the lines said."""
    path.write_text("".join(line + "\n" for line in lines))
    used.clear()
    caplog.clear()
    with caplog.at_level(logging.WARNING, "autotvm"):
        with tvm.target.Target(target), autotvm.apply_history_best(str(path)):
            template(64)
    return used[-1], [m for m in caplog.messages if m.startswith("tuning records")]


def test_classic_records_apply_where_the_knobs_are_those_of_the_template(tmp_path, caplog):
    tiles, lines = applied(tmp_path / "log", [row(FITTING)], caplog)
    assert tiles == ([-1, 8], 4)
    assert lines == ["tuning records: 1 operator uses a record, 1 from another version (0.11.dev0)"]


@pytest.mark.parametrize(
    "entity",
    [
        FITTING[:-1],
        changed("tile_y", "sp", [-1, 8, 2]),
        changed("order", "re", [2, 1, 0]),
        changed("unroll", "ot", 5),
        changed("unroll", "an", ["unroll"]),
        [],
    ],
)
def test_other_knobs_are_left_out(tmp_path, caplog, entity):
    fallback = used_by_default()
    tiles, lines = applied(tmp_path / "log", [row(entity)], caplog)
    assert tiles == fallback
    assert lines == ["tuning records: the records of 1 operator do not match the template and are ignored"]
    tiles, _ = applied(tmp_path / "log", [row(entity, cost=1e-6), row(FITTING)], caplog)
    assert tiles == ([-1, 8], 4), "a slower record that fits is used"


def used_by_default():
    used.clear()
    with tvm.target.Target("llvm"):
        template(64)
    return used[-1]


def test_knobs_that_do_not_fit_are_named():
    inp, _ = autotvm.record.decode(row(FITTING[:-1]))
    with inp.target, pytest.raises(KnobError, match=r"^the configuration has no knob 'unroll'; its knobs are: tile_y"):
        inp.task.instantiate(inp.config)


def test_records_of_another_processor_apply_and_one_line_says_so(tmp_path, caplog):
    other = "haswell" if HERE != "haswell" else "broadwell"
    tiles, lines = applied(tmp_path / "log", [row(FITTING, target=f"llvm -mcpu={other}")], caplog)
    assert tiles == ([-1, 8], 4)
    assert lines == [
        f"tuning records: 1 operator uses a record, 1 from another CPU ({other}; the code is "
        f"for {HERE}) and 1 from another version (0.11.dev0)"
    ]


def test_records_of_this_processor_come_first(tmp_path, caplog):
    """A faster machine's record is no reason to leave out one's own."""
    own = row(changed("tile_y", "sp", [-1, 16]), cost=2e-3, made_on={"cpu": HERE}, tvm_version=tvm.__version__)
    elsewhere = row(FITTING, cost=1e-3, made_on={"cpu": "znver9"})
    for lines in ([own, elsewhere], [elsewhere, own]):
        tiles, said = applied(tmp_path / "log", lines, caplog)
        assert tiles == ([-1, 16], 4) and said == []


def test_everything_else_in_the_file_is_counted_in_the_same_line(tmp_path, caplog):
    lines = ["nonsense", row(FITTING), '{"v": 0.1}', '{"v": 0.1}', row(FITTING)[:70]]
    tiles, said = applied(tmp_path / "log", lines, caplog)
    assert tiles == ([-1, 8], 4)
    assert said == [
        "tuning records: 1 operator uses a record, 1 from another version (0.11.dev0); 2 lines "
        "are not in the record format; 2 lines are of log version 0.1, which is no longer supported"
    ]


def dense_model():
    x, w = relay.var("x", shape=(4, 64)), relay.var("w", shape=(48, 64))
    mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w)))
    return mod, {"w": tvm.nd.array(np.random.default_rng(0).uniform(-1, 1, (48, 64)).astype("float32"))}


@pytest.fixture(scope="module")
def dense_task():
    mod, params = dense_model()
    (task,) = autotvm.task.extract_from_program(mod, params, "llvm")
    return task


def dense_line(task, index: int, cost: float = 1e-5, **more) -> str:
    inp = autotvm.MeasureInput(task.target, task, task.config_space.get(index))
    return json.dumps({**json.loads(encode(inp, autotvm.MeasureResult((cost,), 0, 1.0, 1.0))), **more})


@pytest.fixture(scope="module")
def model_file(tmp_path_factory) -> str:
    onnx = pytest.importorskip("onnx")
    from onnx import helper, numpy_helper

    weight = numpy_helper.from_array(np.random.default_rng(0).uniform(-1, 1, (64, 48)).astype("float32"), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", 1, (4, 64))],
        [helper.make_tensor_value_info("y", 1, (4, 48))],
        [weight],
    )
    path = tmp_path_factory.mktemp("model") / "dense.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    return str(path)


@pytest.mark.parametrize(
    "kind, said",
    [
        ("own", []),
        ("elsewhere", [f"1 operator uses a record, 1 from another CPU (znver9; the code is for {HERE})"]),
        ("old", ["1 operator uses a record, 1 from another version (0.9.0)"]),
        ("classic knobs", ["the records of 1 operator do not match the template and are ignored"]),
        ("another model", ["1 operator has no record"]),
    ],
)
def test_compiling_a_model_says_what_became_of_its_records(kind, said, dense_task, model_file, tmp_path, caplog):
    records = tmp_path / "records.json"
    own = dense_line(dense_task, dense_task.config_space.start[0])
    knobs = {"index": 0, "code_hash": None, "entity": [["tile_y", "sp", [-1, 1, 4]], ["tile_x", "sp", [-1, 1, 48]]]}
    lines = {
        "own": own,
        "elsewhere": json.dumps({**json.loads(own), "made_on": {"cpu": "znver9"}}),
        "old": json.dumps({**json.loads(own), "tvm_version": "0.9.0"}),
        "classic knobs": json.dumps({**json.loads(own), "config": knobs}),
        "another model": row(FITTING),
    }
    records.write_text(lines[kind] + "\n")
    with caplog.at_level(logging.WARNING, "autotvm"):
        code = _main(
            ["compile", "--target", "llvm", "-o", str(tmp_path / "m.tar"), "--tuning-records", str(records), model_file]
        )
    assert code == 0
    found = [m.removeprefix("tuning records: ") for m in caplog.messages if m.startswith("tuning records")]
    assert len(found) == len(said) and all(f.startswith(s) for f, s in zip(found, said)), found


def test_the_users_own_folder_is_read_and_a_miss_is_quiet(dense_task, tmp_path, monkeypatch, caplog):
    mod, params = dense_model()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("AUTOTVM_TOPHUB_ROOT_PATH", raising=False)
    folder = tmp_path / ".tvm" / "tophub"

    def code() -> str:
        with tvm.transform.PassContext(opt_level=3):
            return relay.build(mod, "llvm", params=params).get_lib().get_source("asm")

    with caplog.at_level(logging.INFO, "autotvm"):
        plain = code()
        tophub.context("llvm")
    assert [r.levelno for r in caplog.records] == [logging.INFO] and "no tuning records" in caplog.messages[0]
    other = next(i for i in range(len(dense_task.config_space)) if i not in dense_task.config_space.start)
    RecordFile(folder / "llvm_v0.04.log").append([dense_line(dense_task, other)])
    assert tophub.record_files("llvm") == [folder / "llvm_v0.04.log"] and code() != plain
    caplog.clear()
    (folder / "llvm_v0.04.log").write_text(row(FITTING) + "\n")
    with caplog.at_level(logging.INFO, "autotvm"):
        assert code() == plain
    assert [r.levelno for r in caplog.records] == [logging.INFO]

"""The debug executor: reports of operators, results of single nodes, and the files it leaves."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.contrib.debugger import debug_executor


@pytest.fixture(scope="module")
def model():
    """Two convolutions of unlike size, a softmax in between, and their weights."""
    rng = np.random.default_rng(0)
    params = {
        "w1": rng.standard_normal((32, 16, 3, 3)).astype("float32"),
        "w2": rng.standard_normal((64, 32, 3, 3)).astype("float32"),
    }
    x = relay.var("x", shape=(1, 16, 40, 40))
    w1, w2 = relay.var("w1", shape=(32, 16, 3, 3)), relay.var("w2", shape=(64, 32, 3, 3))
    body = relay.nn.softmax(relay.nn.conv2d(x, w1, padding=(1, 1), channels=32, kernel_size=(3, 3)), axis=1)
    body = relay.nn.conv2d(body, w2, padding=(1, 1), channels=64, kernel_size=(3, 3))
    return relay.build(tvm.IRModule.from_expr(relay.Function([x, w1, w2], body)), "llvm", params=params)


def create(model, dump_root=None):
    made = debug_executor.create(model.get_graph_json(), model.get_lib(), tvm.cpu(0), dump_root)
    made.set_input(**model.get_params())
    made.set_input("x", np.random.default_rng(1).standard_normal((1, 16, 40, 40)).astype("float32"))
    return made


def test_report_names_operators_and_has_the_medians_of_its_rounds(model, monkeypatch):
    executor = create(model)
    nodes = len(executor.graph["nodes"])
    # Seconds as clocks give them: the runs of a busy machine are left out by the median.
    rounds, whole = iter([0.003, 0.5, 0.002]), iter([0.9, 0.04, 0.05])
    monkeypatch.setattr(debug_executor, "_seconds", lambda raw: [next(rounds)] * nodes)
    monkeypatch.setattr(type(executor.module), "time_evaluator",
                        lambda self, *args, **options: lambda: SimpleNamespace(mean=next(whole)))  # fmt: skip
    report = executor.profile(rounds=3)
    assert [call["Duration (us)"].us for call in report.calls] == pytest.approx([3000.0] * len(report.calls))
    assert next(iter(report.device_metrics.values()))["Duration (us)"].us == pytest.approx(50000.0)
    names = [call["Name"] for call in report.calls]
    assert len(names) >= 3 and all(name.startswith("tvmgen_default_") for name in names)
    convolution = next(call for call in report.calls if "conv2d" in call["Name"])
    assert convolution["data_layout"].startswith("NCHW") and "float32[1, 16, 40, 40]" in convolution["Argument Shapes"]
    head = report.table().splitlines()[0].split("  ")
    head = [cell.strip() for cell in head if cell.strip()]
    assert head[:6] == ["Name", "Duration (us)", "Percent", "Device", "Count", "Argument Shapes"]
    assert "Number of threads: " in str(report) and "Executor: Graph" in str(report)


def test_the_dump_folder_holds_a_page_about_the_profile_and_the_memory(model, tmp_path):
    report = create(model, str(tmp_path)).profile(rounds=1)
    tree = ElementTree.parse(tmp_path / "_tvmdbg_device_CPU_0" / "profile.html")
    assert [head.text for head in tree.iter("h1")] == ["Profile", "Memory plan"]
    assert len(tree.findall(".//tbody/tr")) >= len(report.calls) and len(tree.findall(".//svg")) == 4


def test_dump_folder_holds_graph_results_and_trace(model, tmp_path):
    executor = create(model, str(tmp_path))
    executor.run()
    folder = tmp_path / "_tvmdbg_device_CPU_0"
    graph = json.loads((folder / "_tvmdbg_graph_dump.json").read_text())
    events = json.loads((folder / "_tvmdbg_execution_trace.json").read_text())["traceEvents"]
    kernels = [n for n in graph["nodes"] if n["op"] != "null" and n["attrs"]["func_name"] != "__nop"]
    assert [e["name"] for e in events] == [n["attrs"]["func_name"] for n in kernels]
    tensors = tvm.runtime.load_param_dict((folder / "output_tensors.params").read_bytes())
    assert len(tensors) == graph["node_row_ptr"][-1]
    last = list(tensors.values())[graph["heads"][0][0]].numpy()
    np.testing.assert_array_equal(last, executor.get_output(0).numpy())
    # Results that share memory are kept apart: the softmax sums to one though its memory may serve later nodes.
    (soft,) = [v.numpy() for k, v in tensors.items() if k.split("____")[0].endswith("softmax")]
    np.testing.assert_allclose(soft.sum(axis=1), np.ones((1, 40, 40)), rtol=1e-5, atol=1e-5)


def test_single_nodes(model):
    executor = create(model)
    executor.run()
    expected = executor.get_output(0).numpy().copy()
    names = [n["name"] for n in executor.graph["nodes"]]
    np.testing.assert_array_equal(executor.debug_get_output(names[-1]).numpy(), expected)
    out = tvm.nd.empty(expected.shape)
    executor.debug_get_output(len(names) - 1, out)
    np.testing.assert_array_equal(out.numpy(), expected)
    times = executor.run_individual(number=1, repeat=2)
    assert len(times) == len(names) and times[-1] > 0
    with pytest.raises(ValueError, match="unknown node 'nobody'"):
        executor.execute_node("nobody")


def test_collectors_are_asked(model):
    from tvm.runtime.profiling import Count, MetricCollector

    class Seven(MetricCollector):
        def start(self, device):
            return 7

        def stop(self, token):
            return {"Sevens": Count(token)}

    report = create(model).profile(collectors=[Seven()])
    assert report.device_metrics["cpu0"]["Sevens"] == Count(7)


def test_a_run_with_a_number_times_every_node_as_it_is_told(model, monkeypatch, capsys):
    executor, asked, rests = create(model), [], []
    monkeypatch.setattr(debug_executor.time, "sleep", rests.append)
    monkeypatch.setattr(debug_executor, "_seconds", lambda raw: asked.append(len(raw) // 8) or [1e-3] * asked[-1])
    executor.run(number=2, repeat=5, min_repeat_ms=4, cooldown_interval_ms=30, repeats_to_cooldown=2)
    # Inputs and weights are not run.
    nodes = sum(node["op"] != "null" for node in executor.graph["nodes"])
    assert asked == [2, 2, 1] * 2 * nodes and rests == [0.03] * 4 * nodes
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Name") and sum(line.startswith("tvmgen_default") for line in lines) >= 3
    alone = create(model)
    alone.run(number=None)
    assert not capsys.readouterr().out
    np.testing.assert_array_equal(executor.get_output(0).numpy(), alone.get_output(0).numpy())
    asked.clear()
    executor.run()
    assert asked == [1] * nodes and capsys.readouterr().out.startswith("Name")
    np.testing.assert_array_equal(executor.get_output(0).numpy(), alone.get_output(0).numpy())


def test_the_graph_and_the_last_run_can_be_asked_for(model):
    executor = create(model)
    nodes = executor.debug_datum.get_graph_nodes()
    assert [n["op"] == "param" for n in nodes] == [n["op"] == "null" for n in executor.graph["nodes"]]
    by_name = {n["name"]: n for n in nodes}
    assert by_name["x"]["shape"] == [1, 16, 40, 40] and by_name["x"]["attrs"]["T"] == "type: float32"
    assert executor.debug_datum.get_graph_node_shapes() == [n["shape"] for n in nodes]
    last = nodes[-1]
    assert last["op"].startswith("tvmgen_default_") and set(last["inputs"]) <= set(by_name)
    executor.run(number=1)
    lines = executor.debug_datum.get_debug_result().splitlines()
    cells = [[c.strip() for c in line.split("  ") if c.strip()] for line in lines]
    assert cells[0] == ["Node Name", "Ops", "Time(us)", "Time(%)", "Shape", "Inputs", "Outputs", "Measurements(us)"]
    rows, total = cells[2:-1], cells[-1]
    times = [float(row[2]) for row in rows]
    assert {row[1] for row in rows} == {n["op"] for n in nodes if n["op"] not in ("param", "__nop")}
    assert times == sorted(times, reverse=True) and total[0] == "Total_time"
    assert float(total[2]) == pytest.approx(sum(times), abs=0.01)
    outputs = executor.debug_datum.get_output_tensors()
    np.testing.assert_array_equal(list(outputs.values())[-1].numpy(), executor.get_output(0).numpy())


def test_without_a_folder_there_is_a_temporary_one_until_exit(model):
    executor = create(model)
    folder = Path(executor._dump_path)
    assert [f.name for f in folder.iterdir()] == ["_tvmdbg_graph_dump.json"]
    executor.run(number=None)
    assert {"_tvmdbg_execution_trace.json", "output_tensors.params"} <= {f.name for f in folder.iterdir()}
    executor.exit()
    assert not folder.exists()


def test_the_times_of_a_node_have_a_mean(model):
    executor = create(model)
    executor.run(number=None)
    numbers = [i for i, node in enumerate(executor.graph["nodes"]) if node["op"] != "null"]
    assert executor.run_individual_node(0, number=1, repeat=2).results == (0.0, 0.0)
    found = executor.run_individual_node(numbers[-1], repeat=3)
    assert len(found.results) == 3 and found.mean > 0
    with pytest.raises(tvm.TVMError, match="run_individual_node: node index 99 is out of range; the graph has"):
        executor.run_individual_node(99)

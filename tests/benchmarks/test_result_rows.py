"""Benchmarks write rows that continue those of the result files in the checkout: the tables of the page take them."""

from __future__ import annotations

import argparse

import pytest

from benchmarks import (
    analytic_choice,
    auto_scheduler_ops,
    byte_kernels,
    compile_time,
    importers,
    result_file,
    rpc,
    tflite,
    torch_compile,
    vm,
)
from benchmarks.gpu import report as gpu_report
from tools import performance
from tools.performance_tables import TABLES


def kept(question: str, machine: str) -> list[dict]:
    path = result_file.newest(question, machine)
    assert path is not None
    return result_file.load(path)["rows"]


def shown(tmp_path, name: str, question: str, machine: str, rows: list[dict]) -> str:
    """The table of a page whose newest run has these rows."""
    facts = {"unit": "s", "command": "x", "method": "y", "folder": tmp_path}
    result_file.record(machine, question, rows, **facts)
    (path,) = tmp_path.glob(f"{question}-*.json")
    found = performance.Run(path.name, 9, result_file.load(path))
    (table,) = [table for table in TABLES if table.name == name]
    return performance.table_text(table, [*performance.read_runs(), found])


def test_no_file_is_written_without_the_option(tmp_path):
    parser = argparse.ArgumentParser()
    result_file.add_option(parser)
    machine = parser.parse_args([]).record
    result_file.record(machine, "speed", [], unit="s", command="x", method="y", folder=tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(SystemExit):
        parser.parse_args(["--record", "vax"])


def test_compile_steps_have_the_names_of_the_file(tmp_path):
    steps = compile_time.cases(tmp_path / "resnet50.onnx", tmp_path / "out.tar")
    measured = compile_time.Measured(1.25, 2.5, 2**29)
    rows = [compile_time.result_row(step, measured, measured.peak_bytes) for step in steps]
    assert {row["name"] for row in rows} <= {row["name"] for row in kept("compile-time", "xeon")}
    text = shown(tmp_path, "compile-time", "compile-time", "xeon", rows)
    assert "| tvmc compile ResNet-50, cold | 1.25 | 2.5 | 30 | 0.5 |" in text


def test_formats_of_importers_have_the_names_of_the_file(tmp_path):
    rows = importers.result_rows({form: {"resnet50": 0.125, "bert_base": 0.5} for form in importers.FORMS})
    assert {row["name"] for row in rows} == {row["name"] for row in kept("importers", "arm")}
    assert "| TFLite | 0.125 | 0.5 |" in shown(tmp_path, "importers", "importers", "arm", rows)


def test_measurements_of_rpc_have_the_names_and_units_of_the_file(tmp_path):
    found = dict.fromkeys([*rpc.TARGETS, "median of the same (%)"], 2.0)
    rows = rpc.result_rows(found, dict.fromkeys(found, 4.0))
    units = {row["name"]: row["unit"] for row in kept("rpc", "neoverse")}
    assert {row["name"]: row["unit"] for row in rows if "target" in row["values"]} == units
    text = shown(tmp_path, "rpc", "rpc", "neoverse", rows)
    assert "| call of an empty function | 2 us | 4 us | 150 us |" in text and "median" not in text


def test_kernels_of_bytes_have_the_names_of_the_file():
    result = {"peak_gops": 800.0, "rows": [{"kernel": name, "rounds": 3, "gops": 400.0, "share": 0.51}
                                           for name in byte_kernels.KERNELS]}  # fmt: skip
    rows = byte_kernels.result_rows(result)
    assert [row["name"] for row in rows] == [row["name"] for row in kept("int8-kernels", "cascadelake")]
    assert rows[0]["ratios"] == {"peak": 0.51} and rows[0]["values"] == {"ours": 400.0, "peak": 800.0}


def test_rows_of_tflite_and_torch_compile_have_groups():
    (row,) = tflite.result_rows({"MobileNet.tflite": {"tvm": 0.005, "litert": 0.01}}, 1)
    assert row == {"name": "MobileNet", "group": "1 thread", "values": {"ours": 5.0, "LiteRT": 10.0}}
    keys = [f"{program}_{what}" for program in ("tvm_classic", "default", "other") for what in ("ms", "first_s")]
    found = dict(zip(keys, (1.0, 10.0, 4.0, 20.0, 3.0, 30.0)))
    row = torch_compile.result_row({"model": "vit_b_16", **found}, ["default", "other"])
    assert row["group"] == "transformers" and row["values"] == {
        "ours": 1.0, "inductor": 3.0, "ours, first call (s)": 10.0, "inductor, first call (s)": 30.0}  # fmt: skip
    groups = {r["name"]: r["group"] for r in kept("torch-compile", "h200") + kept("torch-compile", "x86")}
    for name in torch_compile.MODELS:
        row = torch_compile.result_row({"model": name, **found}, ["default"])
        assert row["group"] == groups.get(name, row["group"])


def test_rows_with_dynamic_shapes_have_the_names_and_inputs_of_the_file():
    row = {"model": "bert_base", "shapes": {"ids": [1, 16], "mask": [1, 16]}, "compile_s": {"vm": 6.0, "static": 4.0},
           "p20": {"vm": 0.02, "onnxruntime": 0.03, "static": 0.025}}  # fmt: skip
    other = {**row, "shapes": {"ids": [1, 47], "mask": [1, 47]}, "compile_s": {"static": 2.0}}
    times, compiled = vm.result_rows([row, other])
    names = {(r["name"], r["input"]) for r in kept("dynamic-shapes", "xeon")}
    assert {(r["name"], r["input"]) for r in times} <= names
    assert times[0]["values"] == {"ours": 20.0, "onnxruntime": 30.0, "one size": 25.0}
    (found,) = compiled
    assert found["values"] == {"ours": 6.0, "one size": 3.0}


def test_versions_are_those_of_installed_packages():
    import pytest as package

    found = result_file.installed({"Pytest": "pytest", "Nothing": "no-such-distribution"})
    assert found == {"Pytest": package.__version__}


def test_layers_of_the_analytic_choice_have_the_names_of_the_file():
    for row in kept("analytic-choice", "xeon"):
        found = analytic_choice.result_row(row["details"])
        assert (found["name"], found["group"]) == (row["name"], row["group"])
        assert found["values"] == pytest.approx(row["values"], abs=1e-5)


def test_operators_by_search_have_the_names_and_classes_of_the_file():
    for row in kept("auto-scheduler-ops", "xeon"):
        found = auto_scheduler_ops.result_row(row["details"])
        assert (found["name"], found["group"]) == (row["name"], row["group"])
        assert found["values"] == pytest.approx(row["values"], rel=1e-3)
    without = auto_scheduler_ops.result_row({**row["details"], "seconds": {"searched": 1.0, "default schedule": 2.0}})
    assert without["values"] == {"ours": 1000.0, "default schedule": 2000.0}


def test_models_and_matmuls_of_a_gpu_have_the_names_of_the_file():
    matmuls = kept("gpu-matmul", "h200")
    models = result_file.load(result_file.FOLDER / "gpu-models-h200-2026-11-15.json")["rows"]
    details = [[r["details"] for r in rows] for rows in (models, matmuls)]
    found = gpu_report.result_rows({"models": details[0], "matmul": details[1]})
    for rows, wanted in zip(found, (models, matmuls)):
        assert [(r["name"], r.get("group")) for r in rows] == [(r["name"], r.get("group")) for r in wanted]
        assert all(r["values"] == pytest.approx(w["values"], rel=1e-3) for r, w in zip(rows, wanted))

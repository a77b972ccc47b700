from __future__ import annotations

import csv
import io
import json

import numpy as np

from tvm import runtime
from tvm.runtime import ndarray as nd
from tvm.runtime.profiling import Count, Duration, MetricCollector, Percent, Ratio, Report, profile_function


def report() -> Report:
    rows = [("conv", 30.0, 60.0), ("relu", 5.0, 10.0), ("conv", 15.0, 30.0)]
    calls = [
        {"Name": name, "Duration (us)": Duration(time), "Percent": Percent(part), "Speed": Ratio(2.5), "Device": "cpu0"}
        for name, time, part in rows
    ]
    return Report(calls, {"cpu0": {"Duration (us)": Duration(52.5)}}, {"Executor": "Graph"})


def test_table_adds_up_calls_of_one_name():
    lines = [line.split() for line in report().table().splitlines()]
    assert lines[0][:2] == ["Name", "Duration"]
    assert lines[1][:3] == ["conv", "45.00", "90.00"]
    assert lines[2][:3] == ["relu", "5.00", "10.00"]
    assert lines[3] == ["-" * 10]
    assert lines[4][:3] == ["Sum", "50.00", "100.00"]
    assert lines[5][0] == "Total" and "52.50" in lines[5]
    assert lines[-3:] == [["Configuration"], ["-------------"], ["Executor:", "Graph"]]


def test_of_the_sources_of_one_kernel_the_table_names_the_first():
    rows = [("conv", "layer1"), ("relu", "act"), ("conv", "layer2"), ("conv", "layer3")]
    calls = [{"Name": name, "Duration (us)": Duration(1.0), "Source": source} for name, source in rows]
    lines = Report(calls, {}).table().splitlines()
    assert lines[1].split() == ["conv", "3.00", "3", "layer1,", "..."] and lines[2].split()[-1] == "act"


def test_first_column_is_left_and_others_are_right():
    head, first, *_ = report().table().splitlines()
    assert head.startswith("Name        Duration (us)  Percent  Device  Count  Speed  ")
    assert first.startswith("conv                45.00    90.00    cpu0      2    ")


def test_chrome_trace_lays_calls_end_to_end(tmp_path):
    report().to_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [(e["name"], e["ts"], e["dur"], e["ph"]) for e in events] == [
        ("conv", 0.0, 30.0, "X"),
        ("relu", 30.0, 5.0, "X"),
        ("conv", 35.0, 15.0, "X"),
    ]
    assert events[0]["args"]["Device"] == "cpu0"


def test_table_without_aggregation_keeps_order_and_calls():
    lines = report().table(sort=False, aggregate=False, col_sums=False).splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["conv", "relu", "conv"]
    assert "Sum" not in report().table(col_sums=False)


def test_csv_has_plain_numbers():
    rows = list(csv.DictReader(io.StringIO(report().csv())))
    assert [row["Name"] for row in rows] == ["conv", "relu", "conv"]
    assert [float(row["Duration (us)"]) for row in rows] == [30.0, 5.0, 15.0]


def test_json_round_trip():
    first = report()
    again = Report.from_json(first.json())
    assert again.calls == first.calls and again.device_metrics == first.device_metrics
    assert again.configuration == first.configuration and str(again) == str(first)


def test_profile_function_uses_collectors(kernels):
    events = []

    class Counter(MetricCollector):
        def init(self, devices):
            events.append("init")

        def start(self, device):
            events.append("start")
            return 7

        def stop(self, token):
            return {"Token": Count(token)}

    a, c = nd.array(np.ones(4, "float32")), nd.empty((4,))
    metrics = profile_function(kernels, runtime.cpu(0), [Counter()], "add", warmup_iters=1)(a, a, c)
    assert events == ["init", "start"]
    assert metrics["Token"] == Count(7) and metrics["Duration (us)"].us > 0

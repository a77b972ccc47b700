"""Profiles as pictures."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from tvm.drawing.profile import calls_of, flames, microseconds, profile_body, profile_page, timeline
from tvm.driver.tvmc.roofline import Machine
from tvm.runtime.profiling import Count, Duration, Report

MACHINE = Machine("cpu", 2, 100e9, 10e9, 50e9)


def a_report(count: int = 6, name: str = "tvmgen_default_fused_nn_dense_add") -> Report:
    calls = [
        {"Name": name if i % 3 == 0 else f"{name}_{i % 3}", "Duration (us)": Duration(10.0 * (i + 1)),
         "Count": Count(1), "Argument Shapes": "float32[4, 8], float32[16, 8], float32[4, 16]", "Source": f"layer{i}"}
        for i in range(count)
    ]  # fmt: skip
    return Report(calls, {"cpu0": {"Duration (us)": Duration(250.0)}}, {"Number of threads": 2})


def widths(svg: str) -> list[float]:
    return [float(rect.get("width")) for rect in ElementTree.fromstring(svg).iter("rect")]


def test_calls_have_their_bytes_operations_and_kind():
    calls = calls_of(a_report(), {"tvmgen_default_fused_nn_dense_add_1": 1024.0})
    assert [call.name for call in calls][:3] == ["nn_dense_add", "nn_dense_add_1", "nn_dense_add_2"]
    assert {call.kind for call in calls} == {"nn_dense_add"} and calls[0].moved == 4 * (32 + 128 + 64)
    assert calls[1].flop == 1024.0 and calls[1].intensity == 1024 / 896 and calls[0].intensity == 0
    odd = {"Name": "f", "Argument Shapes": "int4[3], float16x4[2], bool[], ?", "Duration (us)": Duration(1)}
    assert calls_of(Report([odd], {}))[0].moved == 3 + 2 * 8 + 1


def test_bars_are_as_long_as_calls_take():
    calls = calls_of(a_report())
    total = sum(call.microseconds for call in calls)
    assert widths(timeline(calls)) == pytest.approx([c.microseconds / total * 1000 for c in calls], abs=0.06)
    bars = widths(flames(calls))
    assert len(bars) == 1 + 1 + 3 + 6 and bars[:2] == [1000.0, 1000.0]
    assert sum(w for w in bars[2:]) == pytest.approx(2000, abs=1), "each level has all the time"


def test_the_page_tells_every_call_and_is_well_formed_with_hostile_names():
    hostile = '</title><script>"&\x00'
    made = profile_page(a_report(name=hostile), {hostile: 1e6}, MACHINE)
    tree = ElementTree.fromstring(made)
    rows = tree.findall(".//tbody/tr")
    assert len(rows) == 6 and rows[0].find("th").text == '</title><script>"&\ufffd'
    assert "<script" not in made and "Number of threads: 2" in made and "cpu0: 250.0 us a run" in made
    assert made == profile_page(a_report(name=hostile), {hostile: 1e6}, MACHINE)


def test_the_roofline_needs_operations_and_a_machine():
    flop = {"tvmgen_default_fused_nn_dense_add": 1e6}
    made = profile_page(a_report(), flop, MACHINE)
    assert "<h2>Roofline</h2>" in made and made.count('class="after"') == 2 and "of roof" in made
    speed, intensity = 1e6 / 10e-6, 1e6 / 896
    assert f"{speed / MACHINE.roof(intensity, 896):.0%}" in made
    assert "Roofline" not in profile_page(a_report(), flop) and "GFLOPS" in profile_page(a_report(), flop)
    assert "Roofline" not in profile_page(a_report(), None, MACHINE) and "GFLOPS" not in profile_page(a_report())


def test_an_empty_profile_and_calls_without_time_are_shown():
    assert "No kernel was called" in profile_page(Report([], {}))
    ElementTree.fromstring(profile_page(Report([{"Name": "f", "Duration (us)": Duration(0.0)}], {})))
    assert profile_body(a_report(), whole=False).count("<table") == 0


def test_a_page_of_200_kernels_is_small():
    assert len(profile_page(a_report(200)).encode()) < 200_000


@pytest.mark.parametrize("value, text", [(0.04, "0.0 us"), (12.34, "12.3 us"), (1234.0, "1.23 ms")])
def test_times_in_words(value, text):
    assert microseconds(value) == text


def test_a_notebook_shows_a_report():
    tree = ElementTree.fromstring(a_report()._repr_html_())
    assert tree.get("class") == "tvm-picture" and len(tree.findall(".//svg")) == 2

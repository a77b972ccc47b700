"""Pictures and charts as SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from tvm.drawing.chart import Axes, grouped_bars, roofline, ticks
from tvm.drawing.svg import Drawing, at

SPACE = "{http://www.w3.org/2000/svg}"


def test_a_drawing_is_well_formed_with_hostile_words():
    drawing = Drawing("<label> & \x01", 100, 50.25)
    with drawing.group("a<b"):
        drawing.text(1, 2, "</text><script>", "middle", "note")
    drawing.box(1, 2, 3.04, 4, "box", "tip & <tip>", opacity=0.5, rounded=2)
    drawing.circle(1, 2, 3, "dot")
    drawing.segment(0, 0, 1, 1, "grid")
    drawing.path("M0 0L1 1", "edge", '"')
    drawing.polyline([(0, 0), (1.26, 2)], "line")
    tree = ElementTree.fromstring(drawing.svg())
    assert [e.tag for e in tree] == ["g", "rect", "circle", "line", "path", "polyline"]
    assert tree.find("rect").get("width") == "3" and tree.find("polyline").get("points") == "0,0 1.3,2"
    assert tree.find("g/title").text == "a<b" and tree.find("g/text").text == "</text><script>"
    assert tree.get("aria-label") == "<label> & \ufffd" and tree.find("rect/title").text == "tip & <tip>"
    alone = ElementTree.fromstring(drawing.file())
    assert alone.tag == f"{SPACE}svg" and "prefers-color-scheme:dark" in alone.find(f"{SPACE}style").text
    assert [e.tag for e in alone][1:] == [SPACE + e.tag for e in tree]


@pytest.mark.parametrize("value, text", [(1, "1"), (1.04, "1"), (1.06, "1.1"), (-0.5, "-0.5"), (10, "10")])
def test_coordinates_are_short(value, text):
    assert at(value) == text


@pytest.mark.parametrize(
    "low, high, logarithmic, wanted",
    [(0, 10, False, [0, 2, 4, 6, 8, 10]), (0, 0.3, False, [0, 0.1, 0.2, 0.3]), (1, 1000, True, [1, 10, 100, 1000])],
)
def test_axes_have_round_numbers(low, high, logarithmic, wanted):
    assert ticks(low, high, logarithmic) == pytest.approx(wanted, rel=1e-9, abs=1e-12)


def test_axes_place_values_between_their_ends():
    axes = Axes("label", "x", "y", (0.0, 10.0), (0.0, 1.0), width=800, height=240)
    assert axes.x(0) < axes.x(5) < axes.x(10) == axes.x(11) <= 800 and axes.y(0) > axes.y(0.5) > axes.y(1) >= 0


def test_a_roofline_shows_every_point_once_and_those_before():
    made = roofline("label", 100.0, [("memory", 10.0)], [(0, 1.0, 8.0, None), (7, 30.0, 90.0, 45.0)], "kernel")
    tree = ElementTree.fromstring(made)
    assert [e.get("class") for e in tree.iter("circle")] == ["after", "before", "after"]
    assert "kernel 7: 90.0 GFLOPS" in made and "memory 10 GB/s" in made


@pytest.mark.parametrize("count, lines", [(1, 1), (2, 1), (5, 3)])
def test_a_long_legend_continues_on_the_next_line(count, lines):
    names = [f"number {n} / another program" for n in range(count)]
    drawing = grouped_bars("a chart", names, [("a row", [1.0] * count)], 1.5, 1.0)
    root = ElementTree.fromstring(drawing.file())
    texts = [node for node in root.iter() if node.text in names]
    assert len(texts) == count and len({node.get("y") for node in texts}) == lines
    assert all(float(node.get("x")) + 6.2 * len(node.text) <= 620 for node in texts)

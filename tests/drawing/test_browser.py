"""Pages and pictures in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser import browser, load  # noqa: F401
from tvm.contrib import relay_viz
from tvm.drawing.graph import Edge, Node, draw_graph
from tvm.drawing.page import fragment, page
from tvm.drawing.profile import profile_page
from tvm.relay import testing
from tvm.runtime.profiling import Duration, Report

PROFILE = Report([{"Name": f"k{i}", "Duration (us)": Duration(i + 1.0)} for i in range(200)], {})


def graph_page() -> str:
    return relay_viz.page_text(testing.mlp.get_workload(1)[0])


def notebook() -> str:
    drawing = draw_graph("graph", [Node("a", "<a>"), Node("b", "b", heat=1.0)], [Edge("a", "b"), Edge("b", "a")])
    return page("notebook", fragment(drawing.svg(natural=True)))


@pytest.mark.parametrize("make", [graph_page, lambda: profile_page(PROFILE), notebook],
                         ids=["graph", "profile", "notebook"])  # fmt: skip
def test_a_browser_shows_every_box_and_refuses_nothing(browser, tmp_path: Path, make):
    path = tmp_path / "page.html"
    path.write_text(make(), encoding="utf-8")
    text, said = load(browser, path, "--dump-dom")
    assert said == "" and text.count("<rect") == path.read_text(encoding="utf-8").count("<rect") > 2

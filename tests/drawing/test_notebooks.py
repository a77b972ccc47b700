"""What notebooks show: parts of a page that are well-formed and bring nothing from outside."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

import tvm
from tvm import relay, te
from tvm.contrib import relay_viz
from tvm.drawing.page import FRAGMENT
from tvm.tuning import TaskStatus, TuningResult


def shown(value) -> ElementTree.Element:
    text = value._repr_html_()
    assert text == value._repr_html_() and not re.search(r"https?:|@import|url\(|<script", text)
    tree = ElementTree.fromstring(text)
    assert tree.get("class") == FRAGMENT
    return tree


def module(name: str = "x") -> tvm.IRModule:
    x = relay.var(name, shape=(2, 3))
    return tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.nn.softmax(x))))


def test_a_graph_module_is_its_graph_and_its_text():
    tree = shown(module())
    titles = [group.find("text").text for group in tree.iter("g")]
    assert titles == ["Var(Input)", "nn.softmax", "nn.relu", "Func"] and "nn.softmax" in tree.find(".//pre").text
    shown(module("<script>&\x00"))


def test_a_module_of_loops_is_its_text():
    a = te.placeholder((4,), name="a")
    lowered = tvm.lower(te.create_schedule(te.compute((4,), lambda i: a[i] + 1).op), [a])
    tree = shown(lowered)
    assert tree.find(".//svg") is None and "for " in tree.find("pre").text
    assert shown(tvm.IRModule()).find("pre") is not None


def test_a_large_module_is_not_drawn(monkeypatch):
    monkeypatch.setattr(relay_viz, "_MOST_BOXES", 3)
    assert "The graph has 4 nodes" in shown(module()).find("p").text


def test_a_compiled_model_is_its_memory():
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(module(), "llvm")
    tree = shown(lib)
    assert tree.find("p").text.startswith(f"A model of {len(lib.kernels)} kernels for llvm") and tree.find(".//svg")


def status(number: int, cost: float | None, baseline: float | None) -> TaskStatus:
    return TaskStatus(number, number, f"conv<{number}>", 2, 1e9, 30, cost, baseline, None)


def test_tuning_results_are_pairs_of_bars():
    result = TuningResult([status(0, 1e-3, 4e-3), status(1, 2e-3, None), status(2, None, None)])
    tree = shown(result)
    bars = [(rect.get("class"), float(rect.get("width"))) for rect in tree.iter("rect")]
    assert bars == [("before", 992.0), ("after", 248.0), ("after", 496.0)]
    words = " ".join(tree.itertext())
    assert "8.000 ms untuned, 2.000 ms tuned, 1000.0 GFLOPS, 30 trials" in words and "nothing ran, 30 trials" in words
    assert "12.000 ms untuned, 6.000 ms tuned (2.00x)" in words and "conv<0>" in words
    assert "nothing to tune" in TuningResult()._repr_html_() and result == tuple(result)


@pytest.mark.slow("starts an interpreter for each notebook")
def test_drawing_is_loaded_when_something_is_shown():
    code = (
        "import sys, tvm; from tvm import te, relay, tuning; import tvm.contrib.debugger.debug_executor\n"
        "assert not [n for n in sys.modules if n.startswith(('tvm.drawing', 'tvm.contrib.relay_viz'))]\n"
        "te.create_schedule(te.compute((2,), lambda i: i).op)._repr_svg_(); assert 'tvm.drawing.graph' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

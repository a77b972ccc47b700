"""Pages about compiled models."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.contrib import pictures
from tvm.contrib.debugger import debug_executor
from tvm.driver.tvmc import roofline
from tvm.driver.tvmc.roofline import Machine


@pytest.fixture(scope="module")
def compiled():
    x = relay.var("x", shape=(4, 32))
    dense = relay.nn.dense(x, relay.const(np.ones((16, 32), "float32")))
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(tvm.IRModule.from_expr(relay.Function([x], relay.nn.softmax(dense))), "llvm")
    module = debug_executor.create(lib.get_graph_json(), lib.get_lib(), tvm.cpu(0))
    module.set_input(**lib.get_params())
    return lib, module.profile(rounds=1)


def test_a_profile_is_shown_with_the_operations_of_its_kernels(compiled, monkeypatch):
    lib, report = compiled
    asked = []
    monkeypatch.setattr(roofline, "machine", lambda new: asked.append(new) or Machine("cpu", 2, 100e9, 10e9, 50e9))
    page = pictures.profile_page(report, lib)
    assert asked == [True] and "<h2>Roofline</h2>" in page and page.count('class="after"') == 1
    assert "<h2>Roofline</h2>" not in pictures.profile_page(report) and asked == [True]
    ElementTree.fromstring(page)


def test_the_memory_plan_is_shown_of_a_model_and_of_its_graph(compiled, tmp_path):
    lib, _ = compiled
    page = pictures.memory_page(lib)
    assert page == pictures.memory_page(lib.get_graph_json()) and "<h1>Memory plan</h1>" in page
    pictures.write_page(str(tmp_path / "x.html"), page)
    assert ElementTree.parse(tmp_path / "x.html").find(".//svg") is not None

"""Pages about a model of over two hundred kernels stay small enough to open at once."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.contrib import pictures, relay_viz
from tvm.contrib.debugger import debug_executor

# A browser lays out some ten thousand elements in a tenth of a second.
MOST_BYTES, MOST_ELEMENTS = 800_000, 20_000


@pytest.fixture(scope="module")
def model(seed):
    """A module of layers that use one another at random, compiled, and its profile."""
    rng = np.random.default_rng(seed)
    x = relay.var("x", shape=(1, 16))
    weights = [relay.const(rng.standard_normal((16, 16)).astype("float32") / 4) for _ in range(3)]
    values = [x]
    for number in range(240):
        layer = relay.tanh(relay.nn.dense(values[-1], weights[number % 3]))
        if rng.random() < 0.2:
            layer = layer + values[int(rng.integers(max(0, len(values) - 8), len(values)))]
        values.append(layer)
    mod = tvm.IRModule.from_expr(relay.Function([x], values[-1]))
    lib = relay.build(mod, target="llvm")
    executor = debug_executor.GraphModuleDebug(
        lib["debug_create"]("default", tvm.cpu()), [tvm.cpu()], lib.get_graph_json(), None
    )
    executor.set_input("x", rng.random((1, 16), "float32"))
    return mod, lib, executor.profile()


def check(page: str) -> None:
    assert len(page) < MOST_BYTES, f"{len(page)} bytes"
    elements = sum(1 for _ in ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>\n")).iter())
    assert elements < MOST_ELEMENTS, f"{elements} elements"
    assert "<script" not in page


def test_the_model_has_over_two_hundred_kernels(model):
    assert len(model[2].calls) > 200


def test_the_page_of_its_profile_is_small(model):
    check(pictures.profile_page(model[2]))


def test_the_page_of_its_graph_with_times_is_small(model):
    mod, lib, profile = model
    check(relay_viz.page_text({"as imported": mod}, lib=lib, profile=profile))


def test_the_page_of_its_memory_is_small(model):
    check(pictures.memory_page(model[1]))

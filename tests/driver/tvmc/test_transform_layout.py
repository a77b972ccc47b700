"""Layouts that a user asks for, whatever the level of optimization in force."""

from __future__ import annotations

import pytest

import tvm
from tvm import relay
from tvm.driver.tvmc.errors import TVMCException
from tvm.driver.tvmc.transform import convert_graph_layout
from tvm.ir.visit import post_order


def convolution() -> tvm.IRModule:
    data, weight = relay.var("data", shape=(1, 3, 8, 8)), relay.var("weight", shape=(4, 3, 3, 3))
    return tvm.IRModule.from_expr(relay.nn.conv2d(data, weight, padding=(1, 1)))


def layouts_of(mod: tvm.IRModule) -> set[tuple[str, str]]:
    calls = [n for n in post_order(mod["main"].body) if isinstance(n, relay.Call) and n.op.name == "nn.conv2d"]
    return {(call.attrs.data_layout, call.attrs.kernel_layout) for call in calls}


@pytest.mark.parametrize("level", [0, 2, 3])
def test_convolutions_are_in_the_wanted_layout_at_every_level_of_optimization(level):
    with tvm.transform.PassContext(opt_level=level):
        assert layouts_of(convert_graph_layout(convolution(), ["NHWC"])) == {("NHWC", "HWIO")}
    assert layouts_of(convert_graph_layout(convolution(), "NHWC:OHWI", ["nn.conv2d"])) == {("NHWC", "OHWI")}


def test_instruments_of_the_context_see_the_passes():
    @tvm.instrument.pass_instrument
    class Names:
        def __init__(self):
            self.seen: list[str] = []

        def run_after_pass(self, mod, info):
            self.seen.append(info.name)

    names = Names()
    with tvm.transform.PassContext(instruments=[names]):
        convert_graph_layout(convolution(), ["NHWC"])
    assert names.seen.index("ConvertLayout") < names.seen.index("FoldConstant")


def test_a_wrong_number_of_layouts_is_refused():
    with pytest.raises(TVMCException, match="Expected 1 or 3 layouts but got 2"):
        convert_graph_layout(convolution(), ["NHWC", "NCHW"])

"""The combinations of options with which tests of ahead-of-time models run."""

from __future__ import annotations

import tvm
from tvm import relay
from tvm.micro.testing.aot_test_utils import AOT_DEFAULT_RUNNER, parametrize_aot_options
from tvm.testing.aot import AOTTestModel, AOTTestRunner, compile_and_run


def test_the_default_runner():
    assert AOT_DEFAULT_RUNNER == AOTTestRunner()


@parametrize_aot_options
def test_a_test_runs_with_each_combination(interface_api, use_unpacked_api, test_runner):
    assert (interface_api, use_unpacked_api) in {("packed", True), ("packed", False), ("c", True)}
    mod = tvm.IRModule.from_expr(relay.Function([], relay.const(1) + relay.const(1)))
    compile_and_run(AOTTestModel(mod, {}, {"output": 2}), test_runner, interface_api, use_unpacked_api)

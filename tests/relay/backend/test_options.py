"""The choice of executor and runtime: what there is, is taken; the rest is refused in words, never ignored."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.ir.memory_pools import WorkspaceMemoryPools, WorkspacePoolInfo
from tvm.relay.backend import Executor, Runtime


def module():
    x = relay.var("x", shape=(3,))
    return tvm.IRModule.from_expr(relay.Function([x], x + relay.const(1.0)))


@pytest.mark.parametrize("executor", [None, "graph", Executor("graph"), Executor("graph", {"link-params": False})])
@pytest.mark.parametrize("runtime", [None, "cpp", Runtime("cpp"), Runtime("cpp", {"system-lib": False})])
def test_what_there_is_is_taken(executor, runtime):
    lib = relay.build(module(), "llvm", executor=executor, runtime=runtime)
    run = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    run.run(x=np.arange(3, dtype="float32"))
    np.testing.assert_array_equal(run.get_output(0).numpy(), [1, 2, 3])


@pytest.mark.parametrize(
    "options, words",
    [
        ({"executor": Executor("aot", {"interface-api": "c"})}, "Need unpacked-api == false (got: 0) and "),
        ({"executor": Executor("aot", {"unpacked-api": True})}, "Need unpacked-api == false (got: 1) and "),
        ({"executor": Executor("aot", {"interface-api": "other"})}, 'interface-api of aot must be "packed" or "c"'),
        ({"executor": "vm"}, 'Executor "vm" is not defined; available: graph, aot'),
        ({"executor": 3}, "executor: expected a Executor or its name, got 3"),
        ({"runtime": Runtime("crt")}, "executor graph with runtime crt requires target c, got llvm"),
        ({"runtime": Runtime("cpp", {"system-lib": True})}, "option system-lib of cpp is not supported yet"),
        ({"runtime": "rust"}, 'Runtime "rust" is not defined'),
        ({"workspace_memory_pools": WorkspaceMemoryPools([WorkspacePoolInfo("sram", [tvm.target.Target("llvm")])])},
         "memory pools need executor aot and runtime crt, not graph and cpp"),
        ({"constant_memory_pools": [1]}, "memory pools need executor aot and runtime crt, not graph and cpp"),
    ],
)  # fmt: skip
def test_what_there_is_not_is_refused(options, words):
    with pytest.raises(tvm.TVMError, match=re.escape(words)):
        relay.build(module(), "llvm", **options)


def test_options_are_checked_when_they_are_given():
    assert Executor("aot", {"interface-api": "c"})["interface-api"] == "c"
    assert "interface-api" in Executor("aot", {"interface-api": "c"}) and "other" not in Executor("aot")
    assert not Executor("graph")["link-params"] and not Runtime("crt")["system-lib"]
    with pytest.raises(tvm.TVMError, match='"other" is not available on this Executor; options of aot: link-params'):
        Executor("aot", {"other": 1})
    with pytest.raises(tvm.TVMError, match='should have type "runtime.String" but instead found "IntImm"'):
        Executor("aot", {"interface-api": True})
    assert Executor.list_registered_options("aot")["interface-api"] == "runtime.String"
    assert Runtime.list_registered_options(Runtime("crt")) == {"system-lib": "IntImm", "parallel-for": "IntImm"}
    with pytest.raises(tvm.TVMError, match='Executor "other" is not defined'):
        Executor.list_registered_options("other")


def test_the_older_paths_name_the_same():
    assert relay.backend.executor.Executor is Executor and relay.backend.runtime.Runtime is Runtime
    assert relay.backend.interpreter.RefValue is relay.interpreter.RefValue
    assert relay.build_module.create_executor is relay.create_executor
    assert relay.backend.vm.compile is relay.vm.compile and relay.build_module.VMExecutor is relay.vm.VMExecutor


def test_libraries_of_a_target_that_are_not_there_are_said():
    x = relay.var("x", shape=(4,))
    with pytest.warns(UserWarning, match="cblas is not supported yet; every operator is compiled"):
        relay.build(tvm.IRModule.from_expr(relay.Function([x], relay.exp(x))), "llvm -libs=cblas")


def test_the_text_of_a_choice_is_its_name():
    assert str(Runtime("cpp")) == "cpp" and str(Runtime("crt", {"system-lib": True})) == "crt"
    assert str(Executor("aot")) == "aot" and repr(Executor("graph")) == "Executor('graph', {})"

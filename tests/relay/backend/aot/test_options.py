"""Options of the ahead-of-time executor that are rejected, and models that it cannot run."""

from __future__ import annotations

import re

import pytest

import tvm
from tvm import relay
from tvm.ir.memory_pools import (
    PoolInfoProperties,
    WorkspaceMemoryPools,
    WorkspacePoolInfo,
)
from tvm.relay.backend import Executor, Runtime
from tvm.relay.backend.aot import compile
from tvm.target import Target

C = {"interface-api": "c", "unpacked-api": True}


def module(shape=(4, 8)) -> tvm.IRModule:
    x = relay.var("x", shape=shape)
    body = relay.nn.softmax(relay.annotation.stop_fusion(relay.exp(x)))
    return tvm.IRModule.from_expr(relay.Function([x], body))


@pytest.mark.parametrize(
    "options, words",
    [
        ({"interface-api": "c"}, 'Either need interface_api == "packed" (got: c) or unpacked-api == true (got: 0) when '
         "targeting c runtime"),
        ({"link-params": False}, "runtime crt does not support link-params=false"),
        ({"interface-api": "rust"}, 'must be "packed" or "c", got "rust"'),
        ({"workspace-byte-alignment": 12}, "workspace-byte-alignment of aot must be a power of two, got 12"),
        ({"constant-byte-alignment": 0}, "constant-byte-alignment of aot must be a power of two, got 0"),
    ],
)  # fmt: skip
def test_combinations_that_plain_c_rejects(options, words):
    with pytest.raises(tvm.TVMError, match=re.escape(words)):
        relay.build(module(), "c", executor=Executor("aot", options), runtime=Runtime("crt"))


def test_other_options_that_are_rejected():
    for name in ("cpp", "crt"):
        with tvm.transform.PassContext(config={"tir.usmp.use_workspace_io": True}):
            with pytest.raises(tvm.TVMError, match="use_workspace_io option is only compatible with interface_api c"):
                relay.build(module(), "c", executor="aot", runtime=name)


def test_code_that_calls_the_runtime_is_rejected():
    class Library:
        def get_source(self, fmt: str) -> str:
            return "  %v5 = load ptr, ptr @__tvm_runtime_table, align 8"

    with pytest.raises(tvm.TVMError, match="runtime crt does not support a kernel that calls the runtime"):
        compile._refuse_runtime_calls(Library())


def test_only_one_cpu_is_supported():
    with pytest.raises(tvm.TVMError, match=r"executor aot runs on one CPU \(targets llvm and c\), not on cuda"):
        relay.build(module(), "cuda", executor="aot")
    x = relay.var("x", shape=(4,))
    placed = relay.annotation.on_device(relay.exp(x), tvm.cuda(0), constrain_result=True)
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.tanh(relay.device_copy(placed, tvm.cuda(0), tvm.cpu(0)))))
    with pytest.raises(tvm.TVMError, match="executor aot runs on one CPU"):
        relay.build(mod, ["llvm", "cuda"], executor="aot")


@pytest.mark.parametrize("runtime", ["cpp", "crt"])
def test_dynamic_shapes_and_control_flow_are_rejected(runtime):
    with pytest.raises(tvm.TVMError, match="use relay.vm.compile for dynamic shapes"):
        relay.build(module((relay.Any(), 8)), "c", executor="aot", runtime=runtime)
    x = relay.var("x", shape=(3,))
    branches = relay.If(relay.sum(x) > relay.const(0.0), relay.concatenate([x, x], 0), x)
    mod = tvm.IRModule.from_expr(relay.Function([x], branches))
    with pytest.raises(tvm.TVMError, match="relay.vm.compile"):
        relay.build(mod, "c", executor="aot", runtime=runtime)


def test_a_plan_that_does_not_fit_is_rejected():
    pool = WorkspacePoolInfo("sram", [Target("c")], PoolInfoProperties(size_hint_bytes=64))
    with pytest.raises(tvm.TVMError, match="sram"):
        relay.build(module(), "c", executor=Executor("aot", C), runtime=Runtime("crt"),
                    workspace_memory_pools=WorkspaceMemoryPools([pool]))  # fmt: skip


def test_a_model_for_programs_without_the_runtime_does_not_run_here():
    lib = relay.build(module(), "c", executor=Executor("aot", C), runtime=Runtime("crt"))
    with pytest.raises(
        tvm.TVMError, match="is compiled for programs without the runtime .runtime crt. and cannot run here"
    ):
        lib["default"](tvm.cpu())
    with pytest.raises(tvm.TVMError, match="has no source in format 'll'; it has c"):
        lib.get_lib().get_source("ll")
    with pytest.raises(tvm.TVMError, match="cannot be saved as 'o'; save it as c"):
        lib.get_lib().save("model.o")

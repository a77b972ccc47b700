"""The records of back ends: what they refer to is there, and a package of somebody else adds one."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.error import TVMError
from tvm.relay.op.record import OPAQUE
from tvm.relay.pipeline import optimize
from tvm.relay.transform.backend_passes import GraphPasses
from tvm.relay.transform.function_pass import function_pass
from tvm.relay.transform.fuse_ops import FusionRules
from tvm.target import Target
from tvm.target.backend import (
    BACKENDS,
    Backend,
    as_text,
    backend_of,
    host_of,
    is_host,
    load,
    register_backend,
    templates_of,
)
from tvm.target.kinds import KINDS, Option, TargetKind, register_kind


@pytest.mark.parametrize("kind", BACKENDS.names())
def test_what_a_record_refers_to_is_there(kind):
    backend = BACKENDS[kind]
    references = [value for value in dataclasses.astuple(backend) if isinstance(value, str) and ":" in value]
    assert references and all(callable(load(reference)) for reference in references)
    # A device's text is made by one function and compiled by another; a host's is LLVM's.
    assert backend.is_host or (backend.emit_text is None) == (backend.compile_text is None)
    assert kind in KINDS


def test_a_kind_without_a_back_end_is_refused_by_name():
    with pytest.raises(
        TVMError,
        # vta registers a back end for ext_dev.
        match="no back end generates code for target kind 'metal'; "
        "target kinds with a back end: c, cuda, (ext_dev, )?llvm",
    ):
        backend_of(Target("metal"))
    assert not is_host(Target("metal")) and templates_of(Target("metal")) == "gpu"
    assert templates_of(Target("sdaccel")) == ""


def test_the_host_of_a_target():
    assert str(host_of(Target("c")).kind) == "c"
    assert str(host_of(Target("cuda")).kind) == "llvm"
    assert str(host_of(Target("cuda", host="c")).kind) == "c"


def test_a_function_is_found_by_its_text():
    assert load(as_text(register_backend)) is register_backend
    assert as_text("a.b:c") == "a.b:c"


def test_each_pipeline_has_the_passes_of_its_back_end():
    names = {kind: [p.info.name for p in optimize(Target(kind))] for kind in ("llvm", "cuda", "opencl", "metal")}
    assert names["cuda"] == names["opencl"]
    own = {kind: set(passes) - set(names["metal"]) for kind, passes in names.items()}
    assert own["llvm"] == {"PackDense", "ReadBytes", "WinogradConv2D", "ScaleWeights"}
    assert own["cuda"] == {"GPULayout", "GPUWeights", "CombineMatmuls", "WinogradConv2D", "GPUOperands"}


@pytest.fixture
def outside():
    """A back end as a package of somebody else brings it: C, with a pass and a fusion rule of its own."""
    seen: list[str] = []

    @function_pass(opt_level=0, name="OutsidePass", required=["InferType"])
    def note(func, mod, ctx):
        seen.append("pass")
        return func

    def build(mod, target):
        seen.append(f"build {target.kind.name}")
        return load(BACKENDS["c"].build)(mod, target)

    def fusion_rules(target):
        return FusionRules(pattern=lambda call: OPAQUE if call.op.name == "tanh" else None)

    register_kind(
        TargetKind("outside", {"num-cores": Option(int)}, ("outside", "cpu"), facts={"has_outside_unit": True})
    )
    register_backend(
        Backend(
            "outside",
            build,
            is_host=True,
            templates="cpu",
            graph_passes=lambda target: GraphPasses(layout=(note,)),
            fusion_rules=fusion_rules,
        )
    )
    yield seen
    BACKENDS.remove("outside")
    KINDS.remove("outside")


def test_a_back_end_from_outside_compiles_a_model_with_its_pass_and_its_fusion_rule(outside, rng):
    x = relay.var("x", shape=(5, 7))
    body = relay.exp(relay.tanh(relay.abs(x) + relay.const(0.5)))
    lib = relay.build(tvm.IRModule.from_expr(relay.Function([x], body)), "outside")
    assert outside == ["pass", "build outside"]
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    values = rng.standard_normal((5, 7)).astype("float32")
    module.run(x=values)
    np.testing.assert_allclose(module.get_output(0).numpy(), np.exp(np.tanh(np.abs(values) + 0.5)), rtol=1e-5)
    kernels = [node["name"] for node in json.loads(lib.get_graph_json())["nodes"] if node["op"] == "tvm_op"]
    assert len(kernels) == 3 and "tanh" in kernels[1]


def test_a_capability_that_a_kind_declares_is_a_feature(outside):
    assert Target("outside").features.has_outside_unit
    assert not Target("llvm").features.has_outside_unit


def test_the_runtime_loads_files_of_the_formats_that_back_ends_have(tmp_path):
    def load_file(path, fmt):
        with open(path, encoding="utf-8") as file:
            return file.read() + fmt

    register_backend(Backend("outside", lambda mod, target: None, formats=("outs", "out2"), load_file=load_file))
    try:
        (tmp_path / "code.outs").write_text("code as ", encoding="utf-8")
        assert tvm.runtime.load_module(tmp_path / "code.outs") == "code as outs"
        assert tvm.runtime.load_module(tmp_path / "code.outs", "out2") == "code as out2"
    finally:
        BACKENDS.remove("outside")
    with pytest.raises(tvm.TVMError, match="no loader for files of format 'outs' .* known: .*bc.*ll"):
        tvm.runtime.load_module(tmp_path / "code.outs")


def test_a_target_is_enabled_where_what_its_back_end_needs_is_installed():
    register_backend(Backend("stackvm", lambda mod, target: None, needs=("json", "no_such_module_here")))
    try:
        assert not tvm.runtime.enabled("stackvm")
        register_backend(Backend("stackvm", lambda mod, target: None, needs=("json",)), override=True)
        assert tvm.runtime.enabled("stackvm") and tvm.runtime.enabled("llvm")
    finally:
        BACKENDS.remove("stackvm")
    assert not tvm.runtime.enabled("stackvm")

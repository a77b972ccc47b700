"""Inputs and outputs in memory pools, and constant pools with machine code: outputs equal the graph executor's."""

from __future__ import annotations

import json
import tarfile

import numpy as np
import pytest

import tvm
from tests.relay import random_graphs
from tests.relay.backend.aot.test_plain import VALUES, check, compiled, network, reference
from tvm import micro, relay
from tvm.ir.memory_pools import (
    ConstantMemoryPools,
    ConstantPoolInfo,
    PoolInfoProperties,
    WorkspaceMemoryPools,
    WorkspacePoolInfo,
)
from tvm.testing import aot
from tvm.testing.aot_program import Program

IN_POOLS = {"tir.usmp.use_workspace_io": True}
TWO_POOLS = WorkspaceMemoryPools(
    [WorkspacePoolInfo("dtcm", [], PoolInfoProperties(size_hint_bytes=5000)), WorkspacePoolInfo("sram", [])]
)


def in_pools(mod, target="c", name="m", pools=None):
    with tvm.transform.PassContext(config=IN_POOLS):
        return compiled(mod, target, name, workspace_memory_pools=pools)


@pytest.mark.parametrize("pools", [None, TWO_POOLS], ids=["default pool", "two pools"])
@pytest.mark.parametrize("target", ["c", "llvm"])
def test_inputs_and_outputs_in_pools(target, pools, tmp_path):
    model = in_pools(network(), target, pools=pools).plain_model
    assert "int32_t tvmgen_m_run(struct tvmgen_m_workspace_pools* workspace_pools);" in model.header
    assert (
        "struct tvmgen_m_inputs tvmgen_m_map_inputs(struct tvmgen_m_workspace_pools* workspace_pools);" in model.header
    )
    assert set(model.interface.places) == {"x", "output"} and "static uint8_t" not in model.text
    program = Program([model], tmp_path)
    program.build()
    np.testing.assert_array_equal(program.run("m", VALUES)[0], reference(network(), VALUES, target)[0])


def test_random_graphs_in_pools(seed, tmp_path):
    models, wanted = [], {}
    for case in range(3):
        number = seed * 1000 + case
        mod, given = random_graphs.graph(number)
        values = dict(zip((p.name_hint for p in mod["main"].params), given))
        wanted[f"g{case}"] = number, values, reference(mod, values, "c")
        models.append(in_pools(mod, "c", f"g{case}").plain_model)
    program = Program(models, tmp_path)
    program.build()
    for name, (number, values, outputs) in wanted.items():
        for a, b in zip(outputs, program.run(name, values), strict=True):
            np.testing.assert_array_equal(a, b, f"random graph {number}")


def test_an_output_that_is_an_input_and_a_model_without_inputs(tmp_path):
    x = relay.var("x", shape=(3,))
    copies = tvm.IRModule.from_expr(relay.Function([x], relay.Tuple([x, relay.negative(x)])))
    constant = tvm.IRModule.from_expr(relay.Function([], relay.const(np.arange(5, dtype="int8"))))
    program = Program([in_pools(copies, name="a").plain_model, in_pools(constant, name="b").plain_model], tmp_path)
    program.build()
    given = np.array([1, -2, 3], "float32")
    first, second = program.run("a", {"x": given})
    np.testing.assert_array_equal(first, given)
    np.testing.assert_array_equal(second, -given)
    np.testing.assert_array_equal(program.run("b", {})[0], np.arange(5, dtype="int8"))


def test_the_pools_are_described(tmp_path):
    factory = in_pools(network(), pools=TWO_POOLS)
    places = factory.executor_codegen_metadata.io_pool_allocations
    assert set(places) == {"x", "output"}
    assert [v.name for v in factory.executor_codegen_metadata.inputs] == ["x"]
    path = micro.export_model_library_format(factory, tmp_path / "m.tar", timestamp=0)
    with tarfile.open(path) as archive:
        metadata = json.loads(archive.extractfile("metadata.json").read())
    (main,) = metadata["modules"]["m"]["memory"]["functions"]["main"]
    place = places["x"]
    assert main["inputs"]["x"]["pool"] == place.pool_info.pool_name
    assert main["inputs"]["x"]["byte_offset"] == place.byte_offset


def test_a_project_with_inputs_and_outputs_in_pools(tmp_path):
    factory = in_pools(network(), pools=TWO_POOLS)
    with micro.generate_project(micro.get_microtvm_template_projects("host"), factory, tmp_path / "p") as project:
        project.options = {"warning_as_error": True}
        project.build()
        found = micro.run_project(project, VALUES)
    np.testing.assert_array_equal(found.outputs["output"], reference(network(), VALUES, "c")[0])


def test_the_test_helpers_accept_models_with_pools():
    wanted = {"output": reference(network(), VALUES, "c")[0]}
    model = aot.AOTTestModel(network(), VALUES, wanted)
    assert aot.compile_and_run(model, aot.AOTTestRunner(pass_config=IN_POOLS), "c", True)
    made = aot.compile_models(model, "c", True, pass_config=IN_POOLS, workspace_memory_pools=TWO_POOLS)
    assert aot.run_and_check(made, aot.AOTTestRunner(), "c", use_workspace_io=True)


@pytest.mark.parametrize("interface", [{"interface-api": "c", "unpacked-api": True}, {}], ids=["c", "packed"])
def test_constant_pools_with_machine_code(interface, tmp_path):
    pools = ConstantMemoryPools([ConstantPoolInfo("flash", [])])
    program = check(network(), VALUES, tmp_path, "llvm", interface, constant_memory_pools=pools)
    (model,) = program.models
    assert [pool.name for pool in model.interface.memory][0] == "flash" and not model.interface.constants
    assert "#define TVMGEN_M_FLASH_ATTRIBUTES" in model.text

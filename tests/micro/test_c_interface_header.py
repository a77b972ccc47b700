"""The header of the C interface from names and sizes."""

from __future__ import annotations

import subprocess

import pytest

import tvm
from tvm.ir.memory_pools import AllocatedPoolInfo, ConstantInfo, ConstantPoolInfo, WorkspacePoolInfo
from tvm.micro.model_library_format import generate_c_interface_header
from tvm.runtime import link
from tvm.tir.usmp.utils import PoolAllocation

SRAM = AllocatedPoolInfo(WorkspacePoolInfo("sram", []), 640)
FLASH = AllocatedPoolInfo(ConstantPoolInfo("flash", [], [ConstantInfo("a", 0, tvm.nd.empty((2,)))]), 8)


def header(folder, pools=(), places=None, devices=(), inputs=("input", "in:2"), outputs=("output",)):
    sizes = {"input": 10, "in:2": 20}, {"output": 8}
    path = generate_c_interface_header(
        "ultimate.cat", inputs, outputs, pools, places or {}, devices, 256, str(folder), *sizes
    )
    assert path == str(folder / "tvmgen_ultimate_cat.h")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    command = [*link.find_compiler(), "-std=c99", "-Wall", "-Wextra", "-Werror", "-x", "c", "-fsyntax-only", path]
    subprocess.run(command, check=True)
    return text


RUN = "int32_t tvmgen_ultimate_cat_run("


def test_tensors(tmp_path):
    text = header(tmp_path)
    assert "#define TVMGEN_ULTIMATE_CAT_INPUT_SIZE 10\n" in text and "_CAT_IN_2_SIZE 20\n" in text
    assert "#define TVMGEN_ULTIMATE_CAT_WORKSPACE_SIZE 256\n" in text
    structs = "struct tvmgen_ultimate_cat_inputs* inputs, struct tvmgen_ultimate_cat_outputs* outputs"
    assert f"{RUN}{structs});" in text and "workspace_pools" not in text and "devices" not in text


def test_devices_and_pools(tmp_path):
    text = header(tmp_path, [SRAM, FLASH], devices=["ethos"])
    assert "#define TVMGEN_ULTIMATE_CAT_SRAM_WORKSPACE_POOL_SIZE 640\n" in text
    assert "#define TVMGEN_ULTIMATE_CAT_FLASH_CONSTANT_POOL_SIZE 8\n" in text
    assert "struct tvmgen_ultimate_cat_devices {\n  void* ethos;\n};" in text
    assert "workspace_pools* workspace_pools, struct tvmgen_ultimate_cat_devices* devices);" in text


def test_tensors_in_pools(tmp_path):
    places = {name: PoolAllocation(SRAM.pool, 0) for name in ("input", "in:2", "output")}
    text = header(tmp_path, {tvm.ir.prim.Var("p", "handle"): SRAM}, places)
    assert f"{RUN}struct tvmgen_ultimate_cat_workspace_pools* workspace_pools);" in text
    assert "struct tvmgen_ultimate_cat_inputs tvmgen_ultimate_cat_map_inputs(" in text


def test_names_that_are_rejected(tmp_path):
    with pytest.raises(tvm.TVMError, match="the size of input 'x' is missing"):
        header(tmp_path, inputs=["x"])
    with pytest.raises(tvm.TVMError, match="two inputs have the same name in C: in:2, in_2"):
        generate_c_interface_header("m", ["in:2", "in_2"], [], [], {}, [], 0, tmp_path, {"in:2": 1, "in_2": 1}, {})

"""Projects for emulated boards compute the outputs of the graph executor."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tests.micro.conftest import build
from tvm import micro

TOOLS = {"qemu_cortex_m": ("arm-none-eabi-gcc", "qemu-system-arm"),
         "qemu_riscv": ("riscv64-unknown-elf-gcc", "qemu-system-riscv32", "qemu-system-riscv64")}  # fmt: skip
BOARDS = [("qemu_cortex_m", board) for board in ("mps2-an385", "mps2-an386", "mps2-an521", "mps3-an547")]
BOARDS += [("qemu_riscv", board) for board in ("rv32", "rv64")]


@pytest.mark.parametrize(("platform", "board"), BOARDS)
def test_a_board_computes_the_outputs_of_the_graph_executor(platform, board, archive, model, tmp_path):
    missing = [tool for tool in TOOLS[platform] if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")
    template = micro.get_microtvm_template_projects(platform)
    with micro.generate_project_from_mlf(template, tmp_path / "p", archive, {"board": board}) as made:
        made.options = {"warning_as_error": True}
        made.build()
        made.flash()
        for _ in range(2):
            found = micro.run_project(made, model.inputs, timeout_sec=60)
            np.testing.assert_array_equal(found.outputs["output0"], model.outputs[0])
            np.testing.assert_allclose(found.outputs["output1"], model.outputs[1], rtol=1e-5)


@pytest.mark.parametrize("platform", list(TOOLS))
def test_the_board_is_checked(platform, archive, tmp_path):
    template = micro.get_microtvm_template_projects(platform)
    with pytest.raises(ValueError, match="generate_project of the project requires the option board"):
        micro.generate_project_from_mlf(template, tmp_path / "p", archive, None)
    with pytest.raises(ValueError, match="option board of the project must be one of .*, got 'moon'"):
        micro.generate_project_from_mlf(template, tmp_path / "p", archive, {"board": "moon"})


@pytest.mark.parametrize(("platform", "board"), BOARDS[::4])
def test_a_missing_compiler(platform, board, archive, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    template = micro.get_microtvm_template_projects(platform)
    with (
        micro.generate_project_from_mlf(template, tmp_path / "p", archive, {"board": board}) as made,
        pytest.raises(micro.project_api.client.RPCError, match=f"{TOOLS[platform][0]} is not installed; Debian has it"),
    ):
        made.build()


def test_machine_code_for_this_machine(model, tmp_path):
    template = micro.get_microtvm_template_projects("host")
    with micro.generate_project(template, build(model.module, "llvm"), tmp_path / "p") as made:
        made.build()
        found = micro.run_project(made, model.inputs)
    np.testing.assert_array_equal(found.outputs["output0"], model.outputs[0])

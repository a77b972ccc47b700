"""The RTL beside both simulators: memory bit for bit, and the number of cycles."""

import importlib.util
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest

import tvm
from tests.contrib.vta.programs import SMALL_CONFIG, matmul
from tvm.contrib.vta import device
from tvm.contrib.vta.config import Config
from tvm.contrib.vta.testing.random_programs import SMALL, random_program

CASES = int(os.environ.get("TVM_FUZZ_CASES") or 40)
# The smallest GEMM core, two rows for each element with beats of two bytes, and the default core with small memories.
CONFIGS = {
    "small": SMALL_CONFIG,
    "narrow bus": Config.from_dict({**SMALL, "LOG_BATCH": 1, "LOG_BUS_WIDTH": 4, "DRAM_LATENCY": 3}),
    "16 by 16": Config.from_dict(
        {**SMALL, "LOG_BLOCK": 4, "LOG_INP_BUFF_SIZE": 10, "LOG_WGT_BUFF_SIZE": 13, "LOG_ACC_BUFF_SIZE": 12,
         "DRAM_LATENCY": 40}
    ),
}  # fmt: skip
# `python -m tools test rtl` runs all of them.
SELECTED = CONFIGS if CASES > 40 else {"small": SMALL_CONFIG}


@pytest.fixture(scope="module")
def simulate():
    if not shutil.which("verilator") or not shutil.which("g++"):
        pytest.skip("Verilator (Debian: apt install verilator) and g++ are needed to simulate the RTL")
    if not importlib.util.find_spec("amaranth"):
        pytest.skip("amaranth is needed to generate the RTL: pip install 'amaranth[builtin-yosys]'")
    from tvm.contrib.vta.rtl import simulate

    return simulate


@pytest.mark.slow("compiles the RTL with Verilator")
@pytest.mark.parametrize("config", SELECTED.values(), ids=SELECTED)
def test_random_programs_give_the_results_and_the_cycles_of_the_simulators(simulate, config, rng, tmp_path):
    binary = simulate.build(config, tmp_path)
    programs = [random_program(config, rng) for _ in range(CASES)]
    programs.append(matmul(config, rng)[0])
    expected, cycles = [], []
    for program in programs:
        image = bytes(program.image)
        cycles.append(device.run(program, "tsim")["cycles"])
        program.image[:] = image
        device.run(program, "sim")
        expected.append(bytes(program.image))
        program.image[:] = image
    measured = simulate.run(binary, programs)
    wrong = [k for k, program in enumerate(programs) if bytes(program.image) != expected[k]]
    assert not wrong, f"programs {wrong} differ"
    np.testing.assert_allclose(measured, cycles, rtol=0.1)
    ratios = np.array(measured) / cycles
    print(
        f"{len(programs)} programs agree; cycles of the RTL per simulated cycle: {ratios.min():.4f}..{ratios.max():.4f}"
    )

    outside = matmul(config, rng)[0]
    outside.instructions[0] = replace(outside.instructions[0], dram_base=1 << 20)
    with pytest.raises(tvm.TVMError, match="program 0 accesses an address outside its image"):
        simulate.run(binary, [outside], limit=1000)


def test_missing_tools_are_named(monkeypatch, tmp_path):
    from tvm.contrib.vta.rtl import simulate as module

    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(tvm.TVMError, match="Verilator was not found; install it"):
        module.build(SMALL_CONFIG, tmp_path)

"""Kernels by LLVM: PTX for NVIDIA's GPUs, assembly and objects for AMD's. No GPU is needed."""

from __future__ import annotations

import shutil
import struct
import subprocess

import pytest

import tvm
from tests.codegen import gpu_programs as programs
from tvm import te, tir
from tvm.codegen.llvm import nvptx, rocm
from tvm.error import TVMError
from tvm.target import Target
from tvm.testing.utils import Feature

PTX = "nvptx -mcpu=sm_80"
requires_lld = Feature("lld", check=lambda: shutil.which("ld.lld") is not None or "no ld.lld; apt-get install lld")


def ptx_of(program) -> str:
    text = nvptx.emit(programs.kernels_of(*program, PTX), Target(PTX))[0]
    assert ".target sm_80" in text and ".visible .entry f_kernel(" in text
    return text


def assembly_of(program) -> str:
    code, _ = rocm.emit(programs.kernels_of(*program, "rocm"), Target("rocm"))
    assert code.object()[:4] == b"\x7fELF"
    return code.source()


def many_functions(x):
    total = x
    for function in (te.exp, te.log, te.sqrt, te.rsqrt, te.sin, te.cos, te.tanh, te.erf, te.floor, te.sigmoid, te.atan,
                     te.sinh, te.asinh, te.acosh, te.round, te.log1p, te.exp10):  # fmt: skip
        total = total + function(x)
    return total + te.power(x, total)


PROGRAMS = {
    "elementwise": lambda: programs.elementwise(lambda x: x * 2.0 + 1.0, lanes=4),
    "functions": lambda: programs.elementwise(many_functions),
    "half": lambda: programs.elementwise(lambda x: te.tanh(x) * tir.const(2, "float16"), "float16", lanes=4),
    "bfloat16": lambda: programs.elementwise(lambda x: x * tir.const(2, "bfloat16"), "bfloat16", lanes=4),
    "int8": lambda: programs.elementwise(lambda x: te.floordiv(x, tir.const(3, "int8")), "int8", lanes=4),
    "double": lambda: programs.elementwise(lambda x: te.sqrt(x) / 3.0, "float64"),
    "matmul": programs.matmul,
    "dynamic": lambda: programs.matmul(dtype="float16", scope="shared.dyn"),
    "row_sums": programs.row_sums,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_ptx_assembles(name: str, tmp_path):
    text = ptx_of(PROGRAMS[name]())
    assembler = shutil.which("nvcc")
    if assembler is None:
        return
    (tmp_path / "k.ptx").write_text(text)
    command = [assembler, "--cubin", "-arch=sm_80", "-o", str(tmp_path / "k.cubin"), str(tmp_path / "k.ptx")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", PROGRAMS)
def test_amd_objects(name: str):
    text = assembly_of(PROGRAMS[name]())
    assert ".amdhsa_kernel f_kernel" in text and "s_endpgm" in text


def test_accesses_are_wide_and_know_their_memory():
    text = ptx_of(PROGRAMS["elementwise"]())
    assert "ld.global.nc.v4" in text and "st.global.v4" in text and ".maxntid 16" in text
    text = ptx_of(programs.matmul())
    # Tiles in shared memory, sums in registers.
    assert "ld.shared" in text and "bar.sync" in text and ".local" not in text
    text = assembly_of(PROGRAMS["elementwise"]())
    assert "global_load_dwordx4" in text and ".amdhsa_group_segment_fixed_size 0" in text
    text = assembly_of(programs.matmul())
    assert "ds_read" in text and ".amdhsa_group_segment_fixed_size 2048" in text
    assert ".amdhsa_private_segment_fixed_size 0" in text
    # One wave of 64 threads needs no barrier.
    assert "s_barrier" not in text and "s_barrier" in assembly_of(programs.row_sums(threads=128))


def test_build_gives_host_code_and_kernels(tmp_path):
    built = tvm.build(*programs.elementwise(lambda x: x + 1.0), PTX, name="plus")
    assert ".visible .entry plus_kernel(" in built.imported_modules[0].get_source("ptx")
    built = tvm.build(*programs.elementwise(lambda x: x + 1.0), "rocm", name="plus")
    device = built.imported_modules[0]
    assert "plus_kernel:" in device.get_source() and "define amdgpu_kernel void @plus_kernel" in device.get_source("ll")
    device.save(str(tmp_path / "k.o"))
    assert (tmp_path / "k.o").read_bytes()[:4] == b"\x7fELF"
    device.save(str(tmp_path / "k.s"))
    with pytest.raises(TVMError, match="cannot be saved as 'exe'"):
        device.save(str(tmp_path / "k.exe"))


@requires_lld
@pytest.mark.parametrize("program", list(PROGRAMS))
def test_kernels_for_amd_are_linked_into_what_drivers_load(program: str, tmp_path):
    code, kernels = rocm.emit(programs.kernels_of(*PROGRAMS[program](), "rocm"), Target("rocm"))
    code.save(str(tmp_path / "k.hsaco"))
    made = (tmp_path / "k.hsaco").read_bytes()
    # A shared object of ELF for the machine 224 (AMDGPU), which has a descriptor for each kernel.
    assert made[:4] == b"\x7fELF" and struct.unpack_from("<HH", made, 16) == (3, 224)
    assert all(f"{name}.kd".encode() in made for name in kernels)


def test_linking_for_amd_needs_a_linker(tmp_path, monkeypatch):
    code, _ = rocm.emit(programs.kernels_of(*PROGRAMS["elementwise"](), "rocm"), Target("rocm"))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(TVMError, match="ld.lld is not on PATH"):
        code.save(str(tmp_path / "k.hsaco"))


def test_functions_of_doubles_are_refused():
    with pytest.raises(TVMError, match="exp of float64 is not supported on nvptx; compute it in float32"):
        ptx_of(programs.elementwise(te.exp, "float64"))


def test_limits_are_checked():
    with pytest.raises(TVMError, match=r"needs 512 threads in a block, but the target allows 256"):
        assembly_of(programs.elementwise(lambda x: x, size=1024, threads=512))

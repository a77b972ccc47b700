"""Files whose code needs CPU features that this machine lacks are rejected, from Python and from C programs."""

from __future__ import annotations

import platform
import re
import shutil
import struct
import subprocess

import pytest

import tvm
from tests.cpus import OLDER
from tvm import relay, te
from tvm.driver import tvmc
from tvm.runtime import _lib, link
from tvm.runtime.export import seal

# A CPU whose code no machine of today runs, and the missing features as a regular expression.
GONE = {"x86_64": ("bdver4", "fma4,.* xop")}.get(platform.machine())

PROGRAM = """
#include <stdio.h>
#include "tvm_runtime.h"

int main(int argc, char** argv) {
  TVMModuleHandle module;
  if (argc != 2) return 2;
  if (TVMModLoadFromFile(argv[1], "", &module)) {
    puts(TVMGetLastError());
    return 3;
  }
  puts("loaded");
  return TVMModFree(module);
}
"""


def code_for(cpu: str):
    a = te.placeholder((8,), "float32", "A")
    b = te.compute((8,), lambda i: a[i] + 1.0, "B")
    return tvm.build(te.create_schedule(b.op), [a, b], f"llvm -mcpu={cpu}", name="add_one")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """A folder for libraries, and a function that returns the library for a CPU."""
    folder = tmp_path_factory.mktemp("libraries")

    def library(cpu: str, suffix: str = "so") -> str:
        path = folder / f"{cpu}.{suffix}"
        if not path.exists():
            code_for(cpu).export_library(path)
        return str(path)

    return library


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> str:
    """A C program that loads a library; prints the error."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "load.c").write_text(PROGRAM)
    runtime = tvm.runtime.find_library()
    command = [*link.find_compiler(), "load.c", "-o", "load", f"-I{tvm.runtime.include_path()}", runtime]
    subprocess.run([*command, f"-Wl,-rpath,{runtime.rpartition('/')[0]}"], check=True, cwd=folder)
    return str(folder / "load")


@pytest.mark.skipif(GONE is None, reason="needs a CPU of this architecture whose features no machine has")
@pytest.mark.parametrize("suffix", ["so", "tar"])
def test_python_rejects_the_file(libraries, suffix):
    cpu, missing = GONE
    assert tvm.runtime.load_module(libraries(OLDER, suffix)) is not None
    with pytest.raises(tvm.TVMError, match=rf"compiled for cpu {cpu}, but this machine lacks {missing}; compile it"):
        tvm.runtime.load_module(libraries(cpu, suffix))


@pytest.mark.skipif(GONE is None, reason="needs a CPU of this architecture whose features no machine has")
def test_a_c_program_gets_an_error(libraries, program):
    cpu, missing = GONE
    found = subprocess.run([program, libraries(cpu)], capture_output=True, text=True)
    assert found.returncode == 3, found
    assert re.search(f"for cpu {cpu}, but this machine lacks {missing}; compile it here", found.stdout)
    assert subprocess.run([program, libraries(OLDER)], capture_output=True, text=True).stdout == "loaded\n"


@pytest.mark.skipif(GONE is None, reason="needs a CPU of this architecture whose features no machine has")
def test_a_c_program_gets_an_error_from_a_package(program, tmp_path):
    x = relay.var("x", shape=(4,))
    model = tvmc.TVMCModel(tvm.IRModule.from_expr(relay.Function([x], relay.exp(x))), {})
    cpu, missing = GONE
    path = tvmc.compile(model, f"llvm -mcpu={cpu}", package_path=str(tmp_path / "net.tar")).package_path
    found = subprocess.run([program, path], capture_output=True, text=True)
    assert found.returncode == 3, found
    assert re.search(f"for cpu {cpu}, but this machine lacks {missing}; compile it here", found.stdout)


@pytest.mark.skipif(platform.machine() != "x86_64" or not shutil.which("qemu-x86_64"), reason="needs qemu-x86_64")
@pytest.mark.parametrize("here, built_for, missing", [
    ("Haswell", "haswell", None), ("Haswell", "nehalem", None), ("Haswell", "skylake-avx512", "avx512bw, avx512cd"),
    ("Nehalem", "haswell", "avx, avx2, bmi"), ("Nehalem", "sapphirerapids", "amx-bf16, amx-int8, amx-tile, avx"),
])  # fmt: skip
def test_emulated_cpus(here, built_for, missing, libraries, program):
    found = subprocess.run(
        ["qemu-x86_64", "-cpu", here, program, libraries(built_for)], capture_output=True, text=True, timeout=60
    )
    if missing is None:
        assert found.stdout == "loaded\n"
    else:
        assert found.returncode == 3, found
        assert f"for cpu {built_for}, but this machine lacks {missing}" in found.stdout


@pytest.mark.parametrize(
    "text", [b"[]", b"{}", b'{"cpu": "x"', b'{"cpu": "x", "features": [1]}', b'{"cpu": 1, "features": []}']
)
def test_a_damaged_list_is_reported(text, libraries, tmp_path):
    path = str(tmp_path / "m.so")
    with open(libraries(OLDER), "rb") as file:
        data = file.read()
    with open(path, "wb") as file:
        file.write(data[: data.rindex(b'{"cpu"')])
    for length in (len(text), 1 << 40):
        copy = shutil.copy(path, tmp_path / f"{length}.so")
        seal(copy, text + struct.pack("=Q", length) + b"TVMNEED1")
        with pytest.raises(tvm.TVMError, match="the file is corrupt: cannot read the list of required CPU features"):
            tvm.runtime.load_module(copy)


def test_features_by_name():
    assert _lib.lib.TVMCpuHas(b"no such feature") == -1
    if platform.machine() == "x86_64":
        assert _lib.lib.TVMCpuHas(b"sse2") == 1 and _lib.lib.TVMCpuHas(b"fma4") == 0

"""CUDA's driver interface without a GPU: a stand-in for the driver, and the toolkit's header where it is installed."""

from __future__ import annotations

import glob
import os
import re
import subprocess
import sys

import pytest

from tests.runtime.device_bytes import device_bytes

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOURCES = os.path.join(ROOT, "csrc", "src", "devices", "cuda")


@pytest.fixture(scope="module")
def driver(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("driver") / "libcuda.so")
    source = os.path.join(ROOT, "csrc", "tests", "fake_cuda.c")
    subprocess.run([compiler, "-std=c11", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", path, source], check=True)
    return path


def run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_arrays_kernels_and_attributes(driver):
    kernels = {
        "scale": {"args": ["handle", "handle", "float32", "int32"], "launch": ["blockIdx.x", "threadIdx.x"]},
    }
    images = [("cubin", "sm_90", b"for another"), ("ptx", "sm_70", b"ptx"), ("cuda", "", b"__global__ void scale()")]
    data = device_bytes(images, kernels, "cuda")
    code = f"""
import numpy as np, tvm
from tvm.runtime.module import load_device_module
device = tvm.cuda(0)
assert device.exist and tvm.gpu(1).exist and not tvm.cuda(2).exist
assert device.compute_version == "7.5" and device.device_name == "Fake GPU 0" and device.warp_size == 32
module = load_device_module({data!r})
a = tvm.nd.array(np.arange(8, dtype="float32"), device)
module["scale"](a, a, 2.0, 8, 1, 8)
assert a.numpy().tolist() == [2.0 * i for i in range(8)]
assert a.copyto(tvm.cuda(1)).numpy().tolist() == a.numpy().tolist()
assert module.get_source() == "__global__ void scale()" and module.get_source("ptx") == "ptx"
assert abs(module.time_evaluator("scale", device, number=4)(a, a, 1.0, 8, 1, 8).mean - 1e-3) < 1e-5
stream = device.create_raw_stream()
device.set_raw_stream(stream)
module["scale"](a, a, 1.0, 8, 1, 8)
device.set_raw_stream(None)
device.free_raw_stream(stream)
try: tvm.nd.empty((1 << 22,), "float32", device)
except tvm.TVMError as error: print(error)
"""
    out = run(code, TVM_CUDA_LIBRARY=driver)
    assert re.search(r"cuda\(0\): cannot allocate 16777216 bytes: \d+ of the device's 1048576 bytes are free", out)


def test_missing_driver_is_one_clear_error():
    code = "import tvm\ntry: tvm.cuda(0).sync()\nexcept tvm.TVMError as error: print(error, tvm.cuda(0).exist)"
    out = run(code, TVM_CUDA_LIBRARY="/nowhere/libcuda.so")
    assert out == "cuda(0): cannot open the library '/nowhere/libcuda.so' (TVM_CUDA_LIBRARY) False\n"


def test_declarations_agree_with_the_toolkit(compiler, tmp_path):
    headers = sorted(glob.glob("/usr/local/cuda*/include/cuda.h"))
    if not headers:
        pytest.skip("no CUDA toolkit: its header is what the declarations are checked against")
    include = f"-I{os.path.dirname(headers[-1])}"
    flags = ["-std=c11", "-D_GNU_SOURCE", "-fsyntax-only", "-Werror", include]
    for name in ("cuda.c", "copy.c", "module.c"):
        subprocess.run([compiler, *flags, "-DTVM_CUDA_HEADER", os.path.join(SOURCES, name)], check=True)
    with open(os.path.join(SOURCES, "cuda.h")) as file:
        text = file.read()
    numbers = re.findall(r"\b(CUDA_[SE]\w+|CU_\w+) = (\d+)", text)
    assert len(numbers) > 30
    checks = "".join(f'_Static_assert({name} == {number}, "{name}");\n' for name, number in numbers)
    path = tmp_path / "numbers.c"
    path.write_text("#include <cuda.h>\n" + checks)
    subprocess.run([compiler, *flags, str(path)], check=True)

"""Marks of tests of CUDA. What runs on the emulator runs on a GPU with ``TVM_CUDA_REAL=1``."""

from __future__ import annotations

import pytest

from tests.cuda_emulator import REAL, compiler
from tests.required import required
from tvm.codegen.cuda import nvrtc

needs_emulator = pytest.mark.skipif(
    not REAL and compiler() is None and not required("emulator"), reason="the emulator needs a C++ compiler"
)
needs_compiler = pytest.mark.skipif(
    not nvrtc.have_compiler(), reason="neither NVRTC nor nvcc is here; pip install nvidia-cuda-nvrtc-cu12 brings NVRTC"
)
undefined = pytest.mark.skipif(REAL, reason="what a GPU does here is not defined")

"""``python -m tests.cuda_emulator PROGRAM...``: a Python module with the emulator as its GPU, such as pytest."""

from __future__ import annotations

import os
import sys

from tests.cuda_emulator import environment

if __name__ == "__main__":
    os.execve(sys.executable, [sys.executable, "-m", *sys.argv[1:]], {**environment(), "TVM_CUDA_EMULATED": "1"})

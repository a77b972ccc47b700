"""The JIT links where free memory is in pieces."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Fills what is free above a wall of 4 GiB with pieces of 32 KiB: what is larger comes to lie below the wall, what is
# smaller above it.
FULL = """
import ctypes, mmap
import numpy as np
import tvm
from tvm import te

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
NOTHING, NO_RESERVE = 0, 0x4000

def build():
    a = te.placeholder((1000,), "float32", name="a")
    b = te.compute((1000,), lambda i: te.exp(a[i]) * te.sin(a[i]) + te.power(a[i], 2.5), name="b")
    s = te.create_schedule(b.op)
    _, inner = s[b].split(b.op.axis[0], 50)
    s[b].unroll(inner)
    return tvm.build(s, [a, b], "llvm")

def reserve(size):
    return libc.mmap(None, size, NOTHING, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE, -1, 0)

build()
wall = reserve(4 << 30)
while reserve(1 << 15) > wall:
    pass
for _ in range(3):
    f = build()
x = np.linspace(0.1, 2, 1000, dtype="float32")
y = tvm.nd.array(np.zeros(1000, "float32"))
f(tvm.nd.array(x), y)
np.testing.assert_allclose(y.numpy(), np.exp(x) * np.sin(x) + x**2.5, rtol=1e-5, atol=1e-5)
"""


@pytest.mark.slow
def test_sections_are_near_each_other_where_free_memory_is_in_pieces():
    done = subprocess.run([sys.executable, "-c", FULL], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]

"""The JIT links wherever the system maps memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

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


@pytest.mark.slow("starts interpreters or compiles for several machines")
def test_sections_are_near_each_other_where_free_memory_is_in_pieces():
    done = subprocess.run([sys.executable, "-c", FULL], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]


# The objects of a library are far from each other. Modules are kept, so that they fill the pieces.
APART = """
import os, threading
import numpy as np
import tvm
from tvm.driver.build_module import build_kernels
from tvm.runtime.module import from_code
from tests import far_mappings
from tests.driver.test_build import kernels

x = tvm.nd.array(np.arange(32, dtype="float32"))

def check(built, numbers):
    for number in numbers:
        out = tvm.nd.array(np.zeros(32, "float32"))
        built[f"add_{number}"](x, out)
        np.testing.assert_array_equal(out.numpy(), x.numpy() * (3 if number % 10 == 0 else 1) + number)

def build(begin=0):
    built = build_kernels(kernels(12, begin), tvm.target.Target("llvm"))
    assert len(list(built._info.objects())) > 3
    return built

first = build()
far_mappings.reserve()

def loaded_again():
    return from_code(first._info.load, first._info.names)
"""

FAR_VARIABLE = """
from tvm import te

IMPORTED = '''
@environ = external dso_local global ptr
define dso_local i32 @has_environment() {
  %at = load ptr, ptr @environ
  %has = icmp ne ptr %at, null
  %out = zext i1 %has to i32
  ret i32 %out
}
'''
a = te.compute((1,), lambda i: tvm.tir.call_extern("int32", "has_environment"), name="a")
s = te.create_schedule(a.op)
s[a].pragma(a.op.axis[0], "import_llvm", IMPORTED)
out = tvm.nd.array(np.zeros(1, "int32"))
tvm.build(s, [a], "llvm")(out)
assert out.numpy()[0] == 1
"""

RELOADED = """
kept = []
for number in range(200):
    module = loaded_again()
    check(module, (0, 5, 11))
    kept.append(module)
    if number % 3 == 0:
        kept.pop(number % len(kept))
"""

BUILT_IN_TWO_THREADS = """
kept, errors = [], []

def work(begin):
    try:
        for number in range(begin, begin + 36, 12):
            kept.append(build(number))
            check(kept[-1], range(number, number + 12))
    except BaseException as error:
        errors.append(error)

threads = [threading.Thread(target=work, args=(100 * i,)) for i in range(2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert not errors, errors
"""

FORKED = """
kept = [loaded_again()]
check(kept[0], (0, 1))
child = os.fork()
for _ in range(20):
    kept.append(loaded_again())
    check(kept[-1], (0, 5, 11))
check(kept[0], (0, 11))
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.slow("starts a process that maps many pieces of memory")
@pytest.mark.parametrize(
    "script",
    [RELOADED, BUILT_IN_TWO_THREADS, FORKED, FAR_VARIABLE],
    ids=["reloaded", "built in two threads", "forked", "a variable of the process"],
)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="address space is reserved by a call of Linux")
def test_code_and_what_it_refers_to_may_be_far_from_each_other(script):
    done = subprocess.run([sys.executable, "-c", APART + script], capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]

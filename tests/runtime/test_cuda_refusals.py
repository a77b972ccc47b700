"""What a GPU cannot do is refused with the numbers: memory, devices, other architectures, launches. The device is the
emulator of ``tests/cuda_emulator``, whose size and architecture each test chooses."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests import cuda_emulator
from tests.cuda_emulator.marks import needs_emulator

pytestmark = needs_emulator

HEAD = """
import numpy as np, tvm
from tvm import te, relay
from tests import cuda_emulator
from tests.runtime.device_bytes import device_bytes
from tvm.runtime.module import load_device_module
cuda_emulator.install()
def refused(function):
    try: function()
    except tvm.TVMError as error: print(error)
    else: print("not refused")
"""


def run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", HEAD + code], env={**cuda_emulator.environment(), **environment},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow("starts a process with an emulated driver")
def test_memory_is_refused_with_what_was_asked_and_what_is_free():
    out = run(
        """
held = tvm.nd.array(np.zeros(1 << 18, "float32"), tvm.cuda(0))
refused(lambda: tvm.nd.empty((1 << 19,), "float32", tvm.cuda(0)))
# What fits still does, and what was released can be had again.
tvm.nd.empty((1 << 17,), "float32", tvm.cuda(0))
del held
tvm.nd.empty((1 << 18,), "float32", tvm.cuda(0))
""",
        TVM_EMULATED_MEMORY=str(2 << 20),
    )
    want = r"cuda\(0\): cannot allocate 2097152 bytes: 1048576 of the device's 2097152 bytes are free; "
    assert re.search(want + "the arrays of this process take 1048576", out), out


@pytest.mark.slow("starts a process with an emulated driver")
def test_a_model_that_does_not_fit_is_refused():
    out = run(
        """
from tvm.contrib import graph_executor
x = relay.var("x", shape=(1, 1024), dtype="float32")
w = relay.const(np.zeros((1024, 1024), "float32"))
lib = relay.build(tvm.IRModule.from_expr(relay.Function([x], relay.nn.dense(x, w))), "cuda -arch=sm_80")
refused(lambda: graph_executor.GraphModule(lib["default"](tvm.cuda(0))))
""",
        TVM_EMULATED_MEMORY=str(1 << 20),
    )
    found = re.search(r"cuda\(0\): cannot allocate (\d+) bytes: (\d+) of the device's 1048576 bytes are free", out)
    assert found and int(found.group(1)) >= 1 << 22 > int(found.group(2)), out


@pytest.mark.slow("starts a process with an emulated driver")
def test_a_device_that_is_not_there_is_named():
    out = run("refused(lambda: tvm.nd.empty((1,), 'float32', tvm.cuda(5)))\nprint(tvm.cuda(5).exist)")
    assert out == "cuda(5): the device does not exist; this machine has 2 CUDA devices, numbered from 0\nFalse\n"


@pytest.mark.slow("starts a process without a driver")
def test_no_device_at_all():
    out = run("refused(lambda: tvm.cuda(0).sync())", TVM_EMULATED_DEVICES="0")
    assert "cuda(0): the driver found no GPU" in out


PACKAGE = """
kernels = {"k": {"args": ["handle"], "launch": ["blockIdx.x"]}}
a = tvm.nd.array(np.zeros(4, "float32"), tvm.cuda(0))
refused(lambda: load_device_module(device_bytes(IMAGES, kernels, "cuda"))["k"](a, 1))
"""


@pytest.mark.slow("starts a program for each package")
@pytest.mark.parametrize(
    ("images", "arch", "held"),
    [
        ([("cubin", "sm_80", b"x")], "90", "cubin for sm_80"),
        ([("cubin", "sm_90", b"x"), ("ptx", "sm_90", b"y")], "75", "cubin for sm_90, ptx for sm_90"),
        ([("cubin", "sm_90a", b"x"), ("ptx", "sm_90a", b"y")], "100", "cubin for sm_90a, ptx for sm_90a"),
        ([("cuda", "", b"text")], "90", "no code"),
    ],
    ids=["other major", "newer", "exact", "text only"],
)
def test_a_package_for_another_architecture_says_what_it_holds(images, arch, held):
    out = run(PACKAGE.replace("IMAGES", repr(images)), TVM_EMULATED_ARCH=arch)
    short = f"sm_{arch}"
    assert out == (f"the package contains {held}; cuda(0) is 'Emulated GPU', {short}, which cannot run it: compile "
                   "with "
                   f"target 'cuda -arch={short}'\n")  # fmt: skip


KERNEL = """
n = te.var("n")
a = te.placeholder((n,), name="A")
b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
s = te.create_schedule(b.op)
block, thread = s[b].split(b.op.axis[0], nparts=1)
s[b].bind(block, te.thread_axis("blockIdx.x"))
s[b].bind(thread, te.thread_axis("threadIdx.x"))
f = tvm.build(s, [a, b], "cuda -arch=sm_80", name="wide")
def call(count):
    x = tvm.nd.array(np.zeros(count, "float32"), tvm.cuda(0))
    f(x, x)
    tvm.cuda(0).sync()
call(1024)
refused(lambda: call(1025))
"""


@pytest.mark.slow("starts a process with an emulated driver")
def test_a_block_whose_size_shows_only_at_its_launch():
    out = run(KERNEL)
    assert "cannot launch kernel wide_kernel" in out and "1025 x 1 x 1 = 1025 threads" in out
    assert "allows 1024 threads for this kernel" in out


@pytest.mark.slow("starts a process with an emulated driver")
def test_what_a_kernel_does_wrong_is_told_where_it_is_waited_for():
    out = run("""
a = te.placeholder((64,), name="A")
b = te.compute((64,), lambda i: a[i], name="B")
s = te.create_schedule(b.op)
s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
f = tvm.build(s, [a, b], "cuda -arch=sm_80", name="copy")
x = tvm.nd.array(np.ones(64, "float32"), tvm.cuda(0))
far = tvm.tir.decl_buffer((64,), "float32", "far")
builder = tvm.tir.ir_builder.create()
builder.scope_attr(te.thread_axis("threadIdx.x"), "thread_extent", 1)
wide = tvm.tir.decl_buffer((1 << 24,), "float32", data=far.data)
# Right behind the 512 bytes that the pool gives; further on there may be another allocation.
builder.emit(tvm.tir.BufferStore(wide, tvm.tir.const(1.0, "float32"), [128]))
g = tvm.build(tvm.tir.PrimFunc([far], builder.get()).with_attr("global_symbol", "far"), target="cuda -arch=sm_80")
g(x)
refused(x.numpy)
f(x, x)
print(x.numpy().sum())
""")
    where = r"kernel far_kernel, block \(0, 0, 0\), thread \(0, 0, 0\): memory: access "
    assert re.search(r"cuda\(0\): a copy failed: CUDA_ERROR_LAUNCH_FAILED \(719\): " + where, out), out
    assert out.endswith("64.0\n")

"""Errors for requests beyond the limits of a GPU: memory, devices, architectures, threads and shared memory.

    python -m benchmarks.gpu.refusals [--target cuda]

Each error must name the numbers of the limit and of the request.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import tvm
from tvm import te

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")


class Refusal(NamedTuple):
    """A request, the expected words of the error, and the function that makes the request."""

    name: str
    words: str
    ask: Callable[[], object]


def by_threads(target: Any, threads: int) -> Any:
    """Copy with one block of this number of threads."""
    a = te.placeholder((threads,), name="a")
    b = te.compute((threads,), lambda i: a[i] + 1.0, name="b")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    return tvm.build(s, [a, b], target, name="wide")


def through_shared_memory(target: Any, numbers: int) -> Any:
    """Sum this number of elements after loading them into shared memory."""
    a = te.placeholder((4, numbers), name="a")
    k = te.reduce_axis((0, numbers), name="k")
    b = te.compute((4,), lambda i: te.sum(a[i, k], k), name="b")
    s = te.create_schedule(b.op)
    near = s.cache_read(a, "shared", [b])
    s[b].bind(b.op.axis[0], te.thread_axis("blockIdx.x"))
    s[near].compute_at(s[b], b.op.axis[0])
    return tvm.build(s, [a, b], target, name="large")


def known_at_its_launch(target: Any, device: Any, count: int) -> None:
    """Launch a block whose size is that of an array."""
    n = te.var("n")
    a = te.placeholder((n,), name="a")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="b")
    s = te.create_schedule(b.op)
    block, thread = s[b].split(b.op.axis[0], nparts=1)
    s[b].bind(block, te.thread_axis("blockIdx.x"))
    s[b].bind(thread, te.thread_axis("threadIdx.x"))
    function = tvm.build(s, [a, b], target, name="wide")
    x, y = (tvm.nd.array(np.zeros(count, "float32"), device) for _ in range(2))
    function(x, y)
    device.sync()


def of_another_architecture(device: Any, arch: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "other.so")
        by_threads(tvm.target.Target(f"cuda -arch={arch}", host="llvm"), 32).export_library(path)
        x, y = (tvm.nd.array(np.zeros(32, "float32"), device) for _ in range(2))
        tvm.runtime.load_module(path)["wide"](x, y)
        device.sync()


def refusals(target: Any, device: Any) -> Iterator[Refusal]:
    # More bytes than any device has, and more than the address space has.
    yield Refusal("memory", r"cannot allocate \d+ bytes", lambda: tvm.nd.empty((1 << 46,), "float32", device))
    other = tvm.device(target.kind.name, 63)
    yield Refusal("device", r"the device does not exist", lambda: tvm.nd.empty((1,), "float32", other))
    yield Refusal("threads", r"1048576", lambda: by_threads(target, 1 << 20))
    yield Refusal("shared memory", r"4194304", lambda: through_shared_memory(target, 1 << 20))
    if target.kind.name != "cuda":
        return
    words = "1025 x 1 x 1 = 1025 threads"
    yield Refusal("threads at launch", words, lambda: known_at_its_launch(target, device, 1025))
    if tvm.get_global_func("tvm_callback_cuda_compile", allow_missing=True) is None:
        yield architecture(device)


def architecture(device: Any) -> Refusal:
    """Return a package for a GPU that is newer than this one."""
    number = int(device.compute_version.replace(".", ""))
    other = next((arch for arch in ARCHITECTURES if int(arch[3:]) > number), ARCHITECTURES[-1])
    words = rf"the package contains .*{other}.*compile with target 'cuda -arch=sm_{number}'"
    return Refusal("architecture", words, lambda: of_another_architecture(device, other))


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cuda")
    arguments = parser.parse_args(argv)
    target = tvm.target.Target(arguments.target, host="llvm")
    device = tvm.device(target.kind.name, 0)
    wrong = []
    for name, words, ask in refusals(target, device):
        try:
            ask()
            said = "was not refused"
        except tvm.TVMError as error:
            said = str(error)
        good = re.search(words, said) is not None
        print(f"{name}: {said.strip()[:300]}" + ("" if good else f"   <- expected '{words}'"), flush=True)
        wrong += [] if good else [name]
    # After all errors, the device must still work.
    x = tvm.nd.array(np.arange(32, dtype="float32"), device)
    y = tvm.nd.empty((32,), "float32", device)
    by_threads(target, 32)(x, y)
    if not np.array_equal(y.numpy(), np.arange(32) + 1.0):
        wrong.append("what follows")
    if wrong:
        raise SystemExit(f"missing or wrong error for: {', '.join(wrong)}")


if __name__ == "__main__":
    main()

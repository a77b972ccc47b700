"""CUDA kernels run without a GPU: the text code generation makes, compiled by a C++ compiler, with CUDA's semantics.

``run(schedule, args, arrays)`` builds for ``cuda`` and gives back all arrays as the device left them. The runtime is
the real one; what stands in for the driver's library is ``driver.cpp``, and behind it ``machine.cpp`` (blocks, threads,
barriers, lanes of a warp, copies beside the program), ``matrix.cpp`` (mma, ldmatrix, wmma) and ``warpgroup.cpp``
(wgmma).

What a device leaves undefined comes out wrong here: threads run in an order that is drawn, shared memory begins as NaN,
an asynchronous copy arrives when its thread waits for it. Accesses beyond an array, accesses that are not aligned, and
barriers that not all threads reach end the kernel with an error that says where.

A process has one driver. ``run`` therefore uses a process of its own; ``python -m tests.cuda_emulator COMMAND...`` runs
any Python program, such as pytest, with the emulator as its GPU.
"""

from __future__ import annotations

import atexit
import base64
import functools
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tvm
from tests.cuda_emulator import ptx
from tvm.target import nvidia
from tvm.error import TVMError

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SOURCES = ("machine.cpp", "matrix.cpp", "warpgroup.cpp", "driver.cpp")
# Aliasing as in CUDA C, where bytes are looked at as anything; accesses are checked.
FLAGS = ("-std=c++17", "-O1", "-w", "-fPIC", "-fvisibility=hidden", "-fno-strict-aliasing", "-fwrapv",
         "-fsanitize=alignment,bounds", "-fno-sanitize-recover=all")  # fmt: skip
# Whether ``run`` uses a GPU in place of the emulator.
REAL = bool(os.environ.get("TVM_CUDA_REAL"))
_KERNEL = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\((\d+)\)\s+)?(\w+)\s*\(")
_SHARED = re.compile(r"^(\s*)__shared__ (?:__align__\(\d+\) )?([\w ]+?) (\w+)\[(\d+)\]"
                     r"(?: __attribute__\(\(aligned\(\d+\)\)\))?;", re.MULTILINE)  # fmt: skip
_DYNAMIC = re.compile(r"^(\s*)extern __shared__ (?:__align__\((\d+)\) )?([\w ]+?) (\w+)\[\];", re.MULTILINE)


def compiler() -> str | None:
    """The C++ compiler, or None."""
    import shutil

    return shutil.which(os.environ.get("CXX", "g++"))


def _compile(command: Sequence[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise TVMError(f"{what} does not compile\n{done.stderr[:4000]}")


@functools.cache
def library() -> str:
    """The path of the emulator's library, made at the first use."""
    texts = [(HERE / name).read_bytes() for name in (*SOURCES, "machine.h", "emulator.h")]
    key = hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]
    path = ROOT / "build" / "cuda_emulator" / f"libcuda-{key}.so"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        made = f"{path}.{os.getpid()}"
        # Jumps between the stacks of coroutines are not what the fortified longjmp expects.
        flags = ["-std=c++17", "-O1", "-U_FORTIFY_SOURCE", "-fPIC", "-shared", "-pthread", "-o", made]
        _compile([compiler() or "g++", *flags, *(str(HERE / name) for name in SOURCES), "-ldl"], "the emulator")
        os.replace(made, path)
    return str(path)


@functools.cache
def _poisoned_registers() -> tuple[str, ...]:
    """Variables nobody set hold nonsense, where the compiler can do that."""
    flag = "-ftrivial-auto-var-init=pattern"
    command = [compiler() or "g++", flag, "-x", "c++", "-fsyntax-only", os.devnull]
    return () if subprocess.run(command, capture_output=True).returncode else (flag,)


def translated(text: str) -> str:
    """CUDA C as C++ for ``emulator.h``."""
    numbers = iter(range(1 << 30))

    def shared(found: re.Match) -> str:
        space, kind, name, count = found.groups()
        place = f'emu_shared({next(numbers)}, "{name}", {count} * sizeof({kind}))'
        return f"{space}{kind} (&{name})[{count}] = *({kind} (*)[{count}]){place};"

    def dynamic(found: re.Match) -> str:
        space, alignment, kind, name = found.groups()
        return f"{space}{kind}* {name} = ({kind}*)emu_dynamic_shared_at({alignment or 16});"

    kernels = _KERNEL.findall(text)
    try:
        text = ptx.translate(text)
    except ptx.Unknown as what:
        raise TVMError(f"the CUDA emulator does not know the PTX instruction {what}") from None
    # Each kernel has arrays of its own, numbered from 0.
    parts = re.split(r'(?=extern "C" __global__)', text)
    for index, part in enumerate(parts):
        numbers = iter(range(1 << 30))
        part = _DYNAMIC.sub(dynamic, part)
        parts[index] = _SHARED.sub(shared, part)
    text = "".join(parts)
    if "__shared__" in text:
        line = next(line for line in text.splitlines() if "__shared__" in line)
        raise TVMError(f"the CUDA emulator does not understand the declaration '{line.strip()}'")
    tail = "".join(f"EMU_KERNEL({name}, {bounds or 0})\n" for bounds, name in kernels)
    return f'#include "emulator.h"\n#line 1 "kernels.cu"\n{text}\n{tail}'


def compiled(text: str, arch: str) -> bytes:
    """The code of a CUDA text, as the emulator's driver loads it."""
    number = nvidia.number_of(arch) * 10
    with tempfile.TemporaryDirectory(prefix="tvm-emulator-") as folder:
        source, thing, result = (os.path.join(folder, name) for name in ("kernels.cpp", "kernels.o", "kernels.so"))
        Path(source).write_text(translated(text), encoding="utf-8")
        flags = [*FLAGS, *_poisoned_registers(), f"-D__CUDA_ARCH__={number}", f"-I{HERE}"]
        # Linked apart, so that the checks call the emulator and no library of the compiler's.
        _compile([compiler() or "g++", *flags, "-c", source, "-o", thing], "the CUDA text")
        _compile([compiler() or "g++", "-shared", "-o", result, thing, library(), "-lm"], "the CUDA text")
        return b"emulated" + Path(result).read_bytes()


def compile_callback(text: str, target: Any) -> bytearray:
    return bytearray(compiled(str(text), str(target.attrs.get("arch") or "sm_75")))


def install() -> None:
    """From now on modules for cuda are built for the emulator."""
    tvm.register_func("tvm_callback_cuda_compile", compile_callback, override=True)


class building:
    """Within it, modules for cuda are built for the emulator; with ``TVM_CUDA_REAL=1`` for a GPU, as ever."""

    def __enter__(self) -> None:
        if not REAL:
            install()

    def __exit__(self, *error: object) -> None:
        from tvm.runtime.registry import remove_global_func

        if not REAL:
            remove_global_func("tvm_callback_cuda_compile")


def environment(seed: int = 1) -> dict[str, str]:
    """Of a process whose GPU is the emulator."""
    paths = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "TVM_CUDA_LIBRARY": library(), "TVM_EMULATED_SEED": str(seed),
            "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}  # fmt: skip


# The process that runs kernels for this one: one line of JSON is asked, one answered.


@functools.cache
def _worker() -> subprocess.Popen:
    command = [sys.executable, "-m", "tests.cuda_emulator.worker"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(), cwd=ROOT, text=True
    )
    atexit.register(_stop, process)
    return process


def _stop(process: subprocess.Popen) -> None:
    if process.stdin:
        process.stdin.close()
    process.wait()


def restart() -> None:
    """The next kernel runs in a new process, whose memory pool holds no block that an earlier kernel gave back: a block
    from the pool may be larger than what is asked for, and what lies beyond the array is not guarded then."""
    _stop(_worker())
    _worker.cache_clear()


def packed(array: np.ndarray) -> dict:
    """An array as JSON; element types NumPy does not know by name are kept by theirs."""
    data = np.asarray(array, order="C")
    return {"dtype": str(data.dtype), "shape": list(data.shape), "data": base64.b64encode(data.tobytes()).decode()}


def unpacked(row: dict) -> np.ndarray:
    import ml_dtypes

    dtype = np.dtype(getattr(ml_dtypes, row["dtype"], row["dtype"]))
    return np.frombuffer(base64.b64decode(row["data"]), dtype).reshape(row["shape"]).copy()


def call(built: Any, values: Sequence[Any], name: str = "") -> list[np.ndarray]:
    """Call a function of a built module in the worker; arrays and numbers in, all arrays out. With ``TVM_CUDA_REAL=1``
    it is the machine's GPU that runs it."""
    if REAL:
        held = [tvm.nd.array(v, tvm.cuda(0)) if isinstance(v, np.ndarray) else v for v in values]
        (built[name] if name else built)(*held)
        return [h.numpy() for h in held if isinstance(h, tvm.nd.NDArray)]
    with tempfile.TemporaryDirectory(prefix="tvm-emulator-") as folder:
        path = os.path.join(folder, "built.so")
        built.export_library(path)
        rows = [packed(v) if isinstance(v, np.ndarray) else v for v in values]
        worker = _worker()
        assert worker.stdin is not None and worker.stdout is not None
        worker.stdin.write(json.dumps({"library": path, "name": name, "values": rows}) + "\n")
        worker.stdin.flush()
        line = worker.stdout.readline()
    if not line:
        raise TVMError(f"the emulator's process ended with status {worker.wait()}")
    answer = json.loads(line)
    if "error" in answer:
        raise TVMError(answer["error"])
    return [unpacked(row) for row in answer["arrays"]]


def run(
    program: Any, args: Sequence[Any] | None, values: Sequence[Any], arch: str = "sm_80", name: str = "f"
) -> list[np.ndarray]:
    """Build a schedule with its arguments (or a PrimFunc or IRModule) for cuda and call it: all arrays afterwards.

    ``values`` are NumPy arrays, in the order of the arguments, outputs too (whatever they hold), and numbers. With
    ``TVM_CUDA_REAL=1`` it is the machine's GPU that runs it, whatever ``arch`` says: a test of the emulator."""
    if REAL:
        here = f"sm_{tvm.cuda(0).compute_version.replace('.', '')}"
        arch = arch if arch == here + "a" else here
    with building():
        built = tvm.build(program, args, tvm.target.Target(f"cuda -arch={arch}", host="llvm"), name=name)
    return call(built, values, name)

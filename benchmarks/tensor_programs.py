"""Speed of scheduled tensor programs, calls, parallel regions and builds: ``python -m tools bench programs``.

Ratios are from one run: a bare loop in C measures the machine's peak between the rounds.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import kernels
from .harness import interleave, percentile, save
from .machine import Machine

CONV_FLOPS = 2 * 64 * 64 * 9 * 56 * 56
MATMUL_FLOPS = 2 * 1024**3
HERE = Path(__file__).resolve().parent


def _arrays(args):
    import numpy as np

    import tvm

    rng = np.random.default_rng(0)
    return [tvm.nd.array(rng.random([int(d) for d in a.shape], dtype="float32")) for a in args]


def _timed(schedule, args, target: str, number: int, check=None):
    import tvm

    built = tvm.build(schedule, args, target, name="kernel")
    arrays = _arrays(args)
    built(*arrays)
    if check:
        check(*[a.numpy() for a in arrays])
    evaluate = built.time_evaluator("kernel", tvm.cpu(0), number=number, repeat=1)
    return lambda: evaluate(*arrays).mean


def _check_conv(data, weight, out):
    import numpy as np

    padded, size = data.shape[1], out.shape[1]
    kernel = padded - size + 1
    c = data.shape[0] * data.shape[3]
    x = data.transpose(1, 2, 0, 3).reshape(padded, padded, c).astype("float64")
    want = np.zeros((size, size, out.shape[0] * out.shape[3]))
    for r in range(kernel):
        for q in range(kernel):
            w = weight[:, :, r, q].transpose(1, 2, 0, 3).reshape(c, -1).astype("float64")
            want += (x[r : r + size, q : q + size].reshape(-1, c) @ w).reshape(size, size, -1)
    np.testing.assert_allclose(out.transpose(1, 2, 0, 3).reshape(size, size, -1), want, rtol=1e-4)


def _check_matmul(a, b, c):
    import numpy as np

    np.testing.assert_allclose(c, a.astype("float64") @ b.astype("float64"), rtol=1e-4)


def conv():
    return _timed(*kernels.conv2d_nchwc(parallel=True), "llvm", 4, _check_conv)


def conv_serial():
    return _timed(*kernels.conv2d_nchwc(parallel=False), "llvm", 2, _check_conv)


def conv_on_each_core():
    """Return a round of two single-threaded programs at once that share nothing: seconds per convolution of both
    together."""
    first, second = conv_serial(), conv_serial()

    def run() -> float:
        with ThreadPoolExecutor(1) as other:
            later = other.submit(second)
            rate = 1 / first()
            return 1 / (rate + 1 / later.result())

    return run


def conv_avx2():
    return _timed(*kernels.conv2d_nchwc(**kernels.CONV_AVX2, parallel=False), "llvm -mcpu=haswell", 1, _check_conv)


def matmul():
    return _timed(*kernels.matmul(1024, parallel=True), "llvm", 1, _check_matmul)


def matmul_numpy():
    import numpy as np

    rng = np.random.default_rng(0)
    a, b = rng.random((1024, 1024), dtype="float32"), rng.random((1024, 1024), dtype="float32")
    out = np.empty_like(a)

    def run():
        t = time.perf_counter()
        np.matmul(a, b, out=out)
        return time.perf_counter() - t

    return run


def call_overhead() -> float:
    """Return the seconds of one call of a compiled function with three small arrays, from Python."""
    import tvm
    from tvm import te

    n = 8
    a, b = te.placeholder((n,), name="a"), te.placeholder((n,), name="b")
    c = te.compute((n,), lambda i: a[i] + b[i], name="c")
    f = tvm.build(te.create_schedule(c.op), [a, b, c], "llvm", name="add")["add"]
    x, y, z = _arrays([a, b, c])
    best = []
    for _ in range(200):
        t = time.perf_counter()
        for _ in range(200):
            f(x, y, z)
        best.append((time.perf_counter() - t) / 200)
    return percentile(best, 20)


def region_overhead() -> float:
    """Return the seconds of a parallel region whose two tasks only record their thread; rounds on one thread do not
    count."""
    import numpy as np

    import tvm
    from tvm import te, tir

    who = te.compute((2,), lambda i: tir.call_extern("int64", "pthread_self"), name="who")
    s = te.create_schedule(who.op)
    s[who].parallel(who.op.axis[0])
    f = tvm.build(s, [who], "llvm", name="region")
    out = tvm.nd.array(np.zeros(2, "int64"))
    evaluate = f.time_evaluator("region", tvm.cpu(0), number=1, repeat=1)
    for _ in range(100):
        f(out)
    seconds = []
    for _ in range(4000):
        took = evaluate(out).mean
        first, second = out.numpy()
        if first != second:
            seconds.append(took)
    if len(seconds) < 1000:
        raise RuntimeError(f"both threads took part in only {len(seconds)} of 4000 parallel regions; is a core busy?")
    return percentile(seconds, 20)


def build_seconds(kernel: str) -> float:
    """Return the CPU seconds of the first tvm.build in a fresh process, including lowering; Python modules are
    precompiled to bytecode, as in an installed package."""
    code = (
        "import time, tvm, tvm.te, tvm.driver.build_module\n"
        "from benchmarks import kernels\n"
        f"s, args = kernels.{kernel}()\n"
        "import llvmlite.binding\n"
        "t = time.process_time(); f = tvm.build(s, args, 'llvm', name='kernel'); f['kernel']\n"
        "print(time.process_time() - t)\n"
    )
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    times = []
    for _ in range(6):
        out = subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=HERE.parent, env=env
        )
        times.append(float(out.stdout))
    return percentile(times[1:], 20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--json", default="", help="also write the numbers to this file")
    options = parser.parse_args()
    one, two = {"TVM_NUM_THREADS": "1"}, {"TVM_NUM_THREADS": "2"}
    here = "benchmarks.tensor_programs:"
    machines = {1: Machine(1), 2: Machine(2)}
    results = interleave(
        {
            "conv 1 thread": (here + "conv_serial", one),
            "conv 2 threads": (here + "conv", two),
            "conv on each core": (here + "conv_on_each_core", one),
            "conv AVX2": (here + "conv_avx2", one),
            "matmul": (here + "matmul", two),
            "matmul NumPy": (here + "matmul_numpy", {"OPENBLAS_NUM_THREADS": "2"}),
        },
        options.rounds,
        between=lambda: [machine.round() for machine in machines.values()],
    )
    for machine in machines.values():
        machine.close()
    report(results, machines[1], machines[2], options.json)


def report(results, one: Machine, two: Machine, path: str) -> None:
    """Print the results; ``one`` and ``two`` have measured the bare loop on one core and on two at once."""
    wide, narrow, both = percentile(one.wide, 80), percentile(one.narrow, 80), two.gflops()

    def gflops(name: str, flops: int) -> float:
        return flops / results[name].p20 / 1e9

    conv1, conv2 = gflops("conv 1 thread", CONV_FLOPS), gflops("conv 2 threads", CONV_FLOPS)
    avx2 = gflops("conv AVX2", CONV_FLOPS)
    ours, numpy = gflops("matmul", MATMUL_FLOPS), gflops("matmul NumPy", MATMUL_FLOPS)
    apart = gflops("conv on each core", CONV_FLOPS)
    rows = [
        ("FMA peak of one core, 512-bit", wide, "GFLOPS", ""),
        ("FMA peak of one core, 256-bit", narrow, "GFLOPS", ""),
        ("FMA peak of both cores at once", both, "GFLOPS", f"{both / one.gflops():.2f} of one core"),
        ("convolution, 1 thread", conv1, "GFLOPS", f"{conv1 / (wide or narrow):.2f} of peak (target 0.85)"),
        (
            "convolution, 2 threads",
            conv2,
            "GFLOPS",
            f"{conv2 / conv1:.2f} of one thread (target 1.8), {conv2 / apart:.2f} of two apart",
        ),
        ("two convolutions, 1 thread each", apart, "GFLOPS", f"{apart / conv1:.2f} of one: what the machine gives"),
        ("convolution, AVX2", avx2, "GFLOPS", f"{avx2 / narrow:.2f} of AVX2 peak (target 0.75)"),
        ("matmul 1024, 2 threads", ours, "GFLOPS", f"{ours / numpy:.2f} of NumPy's {numpy:.0f} (target 0.90)"),
        ("build of the convolution", build_seconds("conv2d_nchwc"), "s", "target 0.30"),
        ("build of the matmul", build_seconds("matmul"), "s", "target 0.30"),
        ("call with three arrays", call_overhead() * 1e6, "us", "target 10"),
        ("empty parallel region", region_overhead() * 1e6, "us", "target 6"),
    ]
    for name, value, unit, note in rows:
        print(f"{name:32s} {value:9.2f} {unit:7s} {note}")
    if path:
        save(path, {name: {"value": value, "unit": unit, "note": note} for name, value, unit, note in rows})


if __name__ == "__main__":
    main()

"""A matmul on an NVIDIA GPU beside cuBLAS.

    python -m benchmarks.gpu.matmul [--size 4096] [--dtype float32|tf32|float16|bfloat16] [--rounds 20]
    python -m benchmarks.gpu.matmul --search [--size 1024 2048 4096] [--seconds 55] [--records search.json]
    python -m benchmarks.gpu.matmul --search --graph --size 128x768x3072 197x768x768 --dtype float16
    python -m benchmarks.gpu.matmul --search --dtype float16 --target "cuda -arch=sm_90a" --only warpgroup=True parts=1

A size is one number for m, n and k, or m x n x k. ``--search`` times the configurations of the template until the time
limit, instead of the template's choice alone.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from ..harness import save
from .search import KINDS, Size, build, operations, search, size_of, size_text
from .turns import wait_for_turn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=size_of, nargs="+", default=[size_of("4096")])
    parser.add_argument("--dtype", default="float32", choices=list(KINDS))
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--search", action="store_true")
    parser.add_argument("--seconds", type=float, default=55.0)
    parser.add_argument("--json", help="JSON file for the rows")
    parser.add_argument("--records", help="file for the measurements of --search")
    parser.add_argument("--graph", action="store_true", help="--search in a CUDA graph, as in a model")
    parser.add_argument("--only", nargs="+", default=[], metavar="KNOB=VALUE", help="--search only these values")
    parser.add_argument("--change", nargs=2, default=["", ""], metavar=("OLD", "NEW"), help="replace text in kernels")
    arguments = parser.parse_args()
    if arguments.search:
        given = arguments.records, arguments.only, tuple(arguments.change)
        search(arguments.size, arguments.dtype, arguments.target, arguments.seconds, *given, arguments.graph)
        return
    functions = {size: build(size, arguments.dtype, arguments.target) for size in arguments.size}
    wait_for_turn()
    rows = [{"target": arguments.target, **compare(ours, size, arguments.dtype, arguments.rounds)}
            for size, ours in functions.items()]  # fmt: skip
    if arguments.json:
        save(arguments.json, rows)


def compare(ours: Any, size: Size, kind: str, rounds: int) -> dict[str, Any]:
    """Time the template's choice and cuBLAS in turn."""
    import torch

    import tvm

    dtype, allowed, _ = KINDS[kind]
    device = tvm.cuda(0)
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    m, n, k = size
    kept = getattr(torch, dtype)
    left, right = (torch.randn(shape, device="cuda").to(kept) for shape in ((m, k), (k, n)))
    result = torch.zeros((m, n), device="cuda", dtype=kept)
    # Both use the same memory.
    x, y, out = (tvm.nd.from_dlpack(torch.utils.dlpack.to_dlpack(v)) for v in (left, right, result))
    wanted = left.double() @ right.double()
    ours(x, y, out)
    device.sync()
    error = float((result.double() - wanted).norm() / wanted.norm())
    if not error <= allowed:
        raise SystemExit(f"the output and that of cuBLAS differ (relative error {error:.2g})")
    times: dict[str, list[float]] = {"ours": [], "cuBLAS": []}
    for _ in range(rounds):
        for key, call in (("ours", lambda: ours(x, y, out)), ("cuBLAS", lambda: torch.mm(left, right))):
            torch.cuda.synchronize()
            device.sync()
            started = time.perf_counter()
            call()
            torch.cuda.synchronize()
            device.sync()
            times[key].append(time.perf_counter() - started)
    best = {key: float(np.percentile(row, 20)) for key, row in times.items()}
    for key, seconds in best.items():
        print(f"{key}: {seconds * 1e3:.3f} ms, {operations(size) / seconds / 1e12:.1f} TFLOPS")
    ratio = best["cuBLAS"] / best["ours"]
    print(f"{kind}, {size_text(size)}: {ratio:.2f} of cuBLAS's speed; error {error:.1e}")
    speeds = {key: operations(size) / seconds / 1e12 for key, seconds in best.items()}
    return {"size": size_text(size), "dtype": kind, "ours_tflops": speeds["ours"], "cublas_tflops": speeds["cuBLAS"],
            "ratio": ratio, "error": error}  # fmt: skip


if __name__ == "__main__":
    main()

"""A large matrix product on an NVIDIA GPU beside cuBLAS.

    python -m benchmarks.gpu.matmul [--size 4096] [--dtype float32|tf32|float16|bfloat16] [--rounds 20]
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

# Type of the matrices, and how far results may be from those in double precision.
KINDS = {
    "float32": ("float32", 1e-5), "tf32": ("float32", 2e-3), "float16": ("float16", 2e-3),
    "bfloat16": ("bfloat16", 1e-2),
}  # fmt: skip


def build(n: int, kind: str) -> Any:
    import tvm
    from tvm import te, topi

    target = tvm.target.Target("cuda")
    dtype = KINDS[kind][0]
    with target, tvm.transform.PassContext(config={"topi.allow_tf32": kind == "tf32"}):
        a, b = te.placeholder((n, n), dtype, name="a"), te.placeholder((n, n), dtype, name="b")
        c = topi.nn.matmul(a, b)
        schedule = topi.schedule.schedule_for([c], target)
        return tvm.build(schedule, [a, b, c], target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--dtype", default="float32", choices=list(KINDS))
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    import torch

    import tvm

    n, (dtype, allowed) = arguments.size, KINDS[arguments.dtype]
    device = tvm.cuda(0)
    ours = build(n, arguments.dtype)
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = arguments.dtype == "tf32"
    left, right = (torch.randn((n, n), device="cuda").to(getattr(torch, dtype)) for _ in range(2))
    result = torch.zeros_like(left)
    # The same memory for both.
    x, y, out = (tvm.nd.from_dlpack(torch.utils.dlpack.to_dlpack(v)) for v in (left, right, result))
    wanted = left.double() @ right.double()
    ours(x, y, out)
    device.sync()
    error = float((result.double() - wanted).norm() / wanted.norm())
    if not error <= allowed:
        raise SystemExit(f"the products differ by {error:.2g}")
    times: dict[str, list[float]] = {"ours": [], "cuBLAS": []}
    for _ in range(arguments.rounds):
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
        print(f"{key}: {seconds * 1e3:.3f} ms, {2 * n**3 / seconds / 1e12:.1f} TFLOPS")
    print(f"{arguments.dtype}: {best['cuBLAS'] / best['ours']:.2f} of cuBLAS's speed; error {error:.1e}")


if __name__ == "__main__":
    main()

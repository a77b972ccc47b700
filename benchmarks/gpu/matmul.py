"""A large matrix product on an NVIDIA GPU beside cuBLAS.

    python -m benchmarks.gpu.matmul [--size 4096] [--rounds 20]
"""

from __future__ import annotations

import argparse
import time

import numpy as np


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    import torch

    import tvm
    from tvm import te, topi

    n = arguments.size
    target, device = tvm.target.Target("cuda"), tvm.cuda(0)
    with target:
        a, b = te.placeholder((n, n), name="a"), te.placeholder((n, n), name="b")
        c = topi.nn.matmul(a, b)
        schedule = topi.schedule.schedule_for([c], target)
    ours = tvm.build(schedule, [a, b, c], target)
    rng = np.random.default_rng(0)
    values = [rng.standard_normal((n, n), dtype="float32") for _ in range(2)]
    x, y = (tvm.nd.array(v, device) for v in values)
    out = tvm.nd.array(np.zeros((n, n), "float32"), device)
    torch.backends.cuda.matmul.allow_tf32 = False
    left, right = (torch.from_numpy(v).cuda() for v in values)
    wanted = (left.double() @ right.double()).cpu().numpy()
    ours(x, y, out)
    error = np.linalg.norm(out.numpy() - wanted) / np.linalg.norm(wanted)
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
    print(f"{best['cuBLAS'] / best['ours']:.2f} of cuBLAS's speed; error {error:.1e}")


if __name__ == "__main__":
    main()

"""Share of peak of int8 matmuls and convolutions, measured in turn with the bare loop of ``byte_peak.c`` on one core.

    python -m benchmarks.byte_kernels [--rounds 100] [--json FILE]
    python -m benchmarks.byte_kernels --target "llvm -mattr=-amx-int8"      on a machine with AMX: use dot products

Both are timed by the processor time of their process, so other programs of a shared machine do not count; a program on
the other hardware thread of the core slows both. A round of a kernel takes less than a tenth of a second and is
compared with the rounds of the bare loop before and after it; in a much shorter round, operands would still come from
memory. The share is the median of the rounds; speeds are their 80th percentiles.
"""

from __future__ import annotations

import argparse
import json
import os
import time

os.environ["TVM_NUM_THREADS"] = "1"

import numpy as np

import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay.op.nn.packed import contrib_conv2d_nchwc_int8

from . import result_file
from .harness import percentile
from .machine import Loop

# Multiply-adds of a round.
PRODUCTS = 15_000_000_000


def _matmul(m: int, n: int, k: int):
    x = relay.var("x", shape=(m, k), dtype="uint8")
    weight = np.random.default_rng(0).integers(-127, 128, (n, k)).astype("int8")
    return relay.nn.dense(x, relay.const(weight), out_dtype="int32"), m * n * k


def _convolution(channels: int, filters: int, size: int, window: int):
    """Return a convolution with data and output in blocked layouts, as inside a network."""
    x = relay.var("x", shape=(1, channels // 16, size, size, 16), dtype="uint8")
    weight = np.random.default_rng(0).integers(-127, 128, (filters // 16, channels // 16, window, window, 4, 16, 4))
    body = contrib_conv2d_nchwc_int8(
        x, relay.const(weight.astype("int8")), kernel_size=(window, window), padding=(window // 2,) * 2,
        data_layout="NCHW16c", kernel_layout="OIHW4i16o4i", out_layout="NCHW16c", out_dtype="int32",
    )  # fmt: skip
    return body, channels * filters * size * size * window * window


KERNELS = {
    "matmul 2048": _matmul(2048, 2048, 2048),
    "matmul 128x3072x768": _matmul(128, 3072, 768),
    "convolution 3x3, 64 channels, 56x56": _convolution(64, 64, 56, 3),
    "convolution 3x3, 256 channels, 14x14": _convolution(256, 256, 14, 3),
    "convolution 1x1, 256 to 64 channels, 56x56": _convolution(256, 64, 56, 1),
}


class _Kernel:
    """A compiled kernel and its times."""

    def __init__(self, body, products: int, target: str):
        func = relay.Function(relay.analysis.free_vars(body), body)
        with tvm.transform.PassContext(opt_level=3):
            library = relay.build(tvm.IRModule.from_expr(func), target=target)
        self.model = graph_executor.GraphModule(library["default"](tvm.cpu()))
        shape = [int(d) for d in func.params[0].type_annotation.shape]
        self.model.set_input("x", np.random.default_rng(1).integers(0, 256, shape).astype("uint8"))
        self.products, self.times = products, []
        self.number = max(1, PRODUCTS // products)

    def round(self) -> None:
        begin = time.process_time()
        for _ in range(self.number):
            self.model.run()
        self.times.append((time.process_time() - begin) / self.number)

    def speed(self) -> float:
        """Return the GOPS of the last round."""
        return 2 * self.products / self.times[-1] / 1e9


def measure(rounds: int, target: str) -> dict:
    """Return the peak, and for each kernel its operations per second (two per multiply-add) and their share of the
    peak."""
    kernels = {name: _Kernel(*given, target) for name, given in KERNELS.items()}
    loop, shares, peaks = Loop("byte_peak.c"), {name: [] for name in kernels}, []

    def peak() -> float:
        loop.start()
        peaks.extend(loop.read())
        return peaks[-1]

    if not peak():
        raise SystemExit("this CPU has no 512-bit vpdpbusd instruction (AVX-512 VNNI)")
    for kernel in kernels.values():
        kernel.model.run()
    before = peak()
    for _ in range(rounds):
        for name, kernel in kernels.items():
            kernel.round()
            after = peak()
            shares[name].append(2 * kernel.speed() / (before + after))
            before = after
    loop.close()
    rows = []
    for name, kernel in kernels.items():
        speed = 2 * kernel.products / percentile(kernel.times, 20) / 1e9
        share = percentile(shares[name], 50)
        rows.append({"kernel": name, "rounds": rounds, "gops": round(speed, 1), "share": round(share, 3)})
    return {"peak_gops": round(percentile(peaks, 80), 1), "rows": rows}


def result_rows(result: dict) -> list[dict]:
    """Return the rows of a result file."""
    return [
        {
            "name": row["kernel"],
            "values": {"ours": row["gops"], "peak": result["peak_gops"]},
            "ratios": {"peak": row["share"]},
            "details": row,
        }
        for row in result["rows"]
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--json", metavar="FILE")
    result_file.add_option(parser)
    args = parser.parse_args()
    result = measure(args.rounds, args.target)
    print(f"peak {result['peak_gops']} GOPS")
    for row in result["rows"]:
        print(f"{row['gops']:8.1f} GOPS {row['share']:6.2f}  {row['kernel']}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump(result, out, indent=1)
            out.write("\n")
    result_file.record(
        args.record, "int8-kernels", result_rows(result), unit="GOPS", command="python -m benchmarks.byte_kernels",
        method="one thread, processor time; the peak is a bare loop of vpdpbusd, measured between the rounds",
    )  # fmt: skip


if __name__ == "__main__":
    main()

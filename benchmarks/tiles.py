"""Products of tiles (AMX) on one core beside their peak: ``taskset -c 2 python -m benchmarks.tiles``.

A row is a matmul or a convolution as a model has it, compiled without tuning. The peak is that of ``tile_peak.c``,
measured in turn with the calls of a row, as the clock and the neighbours of a core change within seconds. A time is the
least of many calls, as neighbours only add to it; beside it is the 80th percentile of the shares of all turns.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np

os.environ.setdefault("TVM_NUM_THREADS", "1")

import tvm
from tvm import te
from tvm.topi.cpu import conv2d_tiles, matmul_tiles
from tvm.topi.cpu.tiles import BFLOAT16, Kind
from tvm.topi.schedule.cpu import schedule_for


@functools.cache
def peak_program() -> Path:
    program = Path(tempfile.mkdtemp()) / "tile_peak"
    flags = ["-O2", "-mamx-tile", "-mamx-bf16", "-mamx-int8"]
    subprocess.run(["gcc", *flags, "-o", program, Path(__file__).with_name("tile_peak.c")], check=True)
    return program


def peaks() -> dict[str, float]:
    """GFLOPS of bf16 and int8 products on operands that stay in registers."""
    return json.loads(subprocess.run([peak_program()], check=True, capture_output=True, text=True).stdout)


def timed(inputs: list, out, target: str):
    """A function that measures a computation of filled inputs."""
    with tvm.target.Target(target) as where:
        built = tvm.build(schedule_for([out], where), [*inputs, out], where)
    arrays = [tvm.nd.empty([int(d) for d in t.shape], t.dtype) for t in (*inputs, out)]
    for array in arrays[:-1]:
        # Memory that was never written is one page.
        array.copyfrom(np.random.default_rng(0).integers(0, 3, array.shape).astype(array.numpy().dtype))
    return lambda repeat: built.time_evaluator(
        built.entry_name, tvm.cpu(), number=1, repeat=repeat, min_repeat_ms=1
    )(*arrays).results  # fmt: skip


def dense(m: int, n: int, k: int, kind: str, target: str):
    """``m x k`` times packed ``k x n``, and its operations."""
    of = kind_of(kind)
    data = te.placeholder((m, k), of.lhs, name="data")
    panels = te.placeholder((n // 32, k // of.k, 16, 32, of.depth), of.rhs, name="panels")
    return timed([data, panels], matmul_tiles.products(data, panels, n, of), target), 2 * m * n * k


def kind_of(kind: str) -> Kind:
    return BFLOAT16 if kind == "bf16" else Kind("uint8", "int8", "int32", 4)


def conv2d(channels: int, size: int, filters: int, window: int, kind: str, target: str):
    """A convolution of blocks of channels, and its operations."""
    of, pad = kind_of(kind), window // 2
    block = of.k
    data = te.placeholder((1, channels // block, size, size, block), of.lhs, name="data")
    shape = (filters // block, channels // block, window, window, block // of.depth, block, of.depth)
    kernel = te.placeholder(shape, of.rhs, name="kernel")
    out = conv2d_tiles.conv2d(data, kernel, 1, pad, 1, of)
    return timed([data, kernel], out, target), 2 * size * size * channels * filters * window * window


ROWS = {
    "matmul 2048": lambda *a: dense(2048, 2048, 2048, *a),
    "dense 128x768x768": lambda *a: dense(128, 768, 768, *a),
    "dense 128x3072x768": lambda *a: dense(128, 3072, 768, *a),
    "dense 128x768x3072": lambda *a: dense(128, 768, 3072, *a),
    "dense 197x768x3072": lambda *a: dense(197, 768, 3072, *a),
    "dense 512x1024x1024": lambda *a: dense(512, 1024, 1024, *a),
    "conv 3x3 128x28": lambda *a: conv2d(128, 28, 128, 3, *a),
    "conv 3x3 64x56": lambda *a: conv2d(64, 56, 64, 3, *a),
    "conv 1x1 256x14": lambda *a: conv2d(256, 14, 1024, 1, *a),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="rows whose name has this")
    parser.add_argument("--kinds", default="bf16,int8")
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--repeat", type=int, default=60)
    parser.add_argument("--turns", type=int, default=6, help="how often the peak is measured for a row")
    parser.add_argument("--no-peak", action="store_true", help="on machines without tiles")
    parser.add_argument("--knobs", default="", help="other knobs of the matmul, as steps=8,rows=16;non_temporal=0")
    parser.add_argument("--conv-knobs", default="", help="other knobs of convolutions")
    options = parser.parse_args()
    for kind in options.kinds.split(","):
        for name in (name for name in ROWS if options.only in name):
            report(name, ROWS[name], kind, options)
            knobs = options.conv_knobs if name.startswith("conv") else options.knobs
            if knobs:
                try_knobs(name, kind, knobs, options)


def report(name: str, make, kind: str, options) -> None:
    """Print the rate of a row, and what share it is of the peak measured around it."""
    measure, operations = make(kind, options.target)
    turns = []
    for _ in range(options.turns):
        peak = 0 if options.no_peak else peaks()[kind]
        turns.append((operations / min(measure(-(-options.repeat // options.turns))) / 1e9, peak))
    rate, peak = (max(column) for column in zip(*turns))
    shares = sorted(r / p for r, p in turns if p)
    part = f"{rate / peak:.3f} of {peak:.0f} (in turns {shares[int(0.8 * len(shares))]:.3f})" if peak else ""
    print(f"{name:36s} {kind} {rate:8.1f} GFLOPS {part}", flush=True)


def try_knobs(name: str, kind: str, texts: str, options) -> None:
    """A row with other knobs than the chosen ones, such as ``steps=8,rows=16;non_temporal=0@matmul 2048``."""
    template = conv2d_tiles.Conv2dTiles if name.startswith("conv") else matmul_tiles.MatmulTiles
    own = template.choose
    for text in texts.split(";"):
        if text.split("@")[1:] not in ([], [name]):
            continue
        parts = (part.split("=") for part in text.split("@")[0].split(","))
        change = {key: int(number) for key, number in parts}
        template.choose = lambda *args, change=change: {**own(*args), **change}
        report(f"{name} {text}", ROWS[name], kind, options)
    template.choose = own


if __name__ == "__main__":
    main()

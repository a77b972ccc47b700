"""AMX matmuls and convolutions on one core beside the peak: ``taskset -c 2 python -m benchmarks.tiles``.

A row is a matmul or a convolution as in a model, compiled without tuning. Its calls run in turns of about 100 ms.
``tile_peak.c`` measures the peak for the same time directly before and after each turn: a core holds its highest clock
for only some milliseconds of tile products, and clock and neighbouring load change within seconds, so that a peak at
another clock is no reference. The rate of a turn is the median of its calls, its peak the mean of both measurements.
The output has the median rate and share of all turns and, in brackets, the best rate and the 80th percentile of the
shares: other machines on the host slow the calls, which need the caches, more than the peak loop.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import statistics
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

# Seconds of the calls of a turn, and of a measurement of the peak; the calls are measured in parts.
TURN_MS, PARTS = 100, 10


@functools.cache
def peak_program() -> Path:
    program = Path(tempfile.mkdtemp()) / "tile_peak"
    flags = ["-O2", "-mamx-tile", "-mamx-bf16", "-mamx-int8"]
    subprocess.run(["gcc", *flags, "-o", program, Path(__file__).with_name("tile_peak.c")], check=True)
    return program


def peak_of(kind: str) -> float:
    """Return the GFLOPS of tile products on operands that stay in registers, sustained for a turn."""
    command = [peak_program(), kind, str(TURN_MS)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def timed(inputs: list, out, target: str):
    """Return a function that measures a computation of random inputs. The peak loop has random inputs, too: numbers
    with few set bits need less power."""
    with tvm.target.Target(target) as where:
        built = tvm.build(schedule_for([out], where), [*inputs, out], where)
    arrays = [tvm.nd.empty([int(d) for d in t.shape], t.dtype) for t in (*inputs, out)]
    rng = np.random.default_rng(0)
    for array in arrays[:-1]:
        kind = array.numpy().dtype
        least, most = (0.5, 2) if array.dtype == "bfloat16" else (np.iinfo(kind).min, np.iinfo(kind).max + 1)
        array.copyfrom(rng.uniform(least, most, array.shape).astype(kind))
    return lambda: built.time_evaluator(
        built.entry_name, tvm.cpu(), number=1, repeat=PARTS, min_repeat_ms=TURN_MS // PARTS
    )(*arrays).results  # fmt: skip


def dense(m: int, n: int, k: int, kind: str, target: str, is_narrow: bool = False):
    """Return ``m x k`` times packed ``k x n``, and its number of operations. The output has the type of the
    accumulators, or with ``is_narrow`` the type in models: bfloat16, or requantized int8."""
    of = kind_of(kind)
    data = te.placeholder((m, k), of.lhs, name="data")
    panels = te.placeholder((n // 32, k // of.k, 16, 32, of.depth), of.rhs, name="panels")
    out = matmul_tiles.products(data, panels, n, of)
    return timed([data, panels], narrowed(out, kind) if is_narrow else out, target), 2 * m * n * k


def narrowed(sums, kind: str):
    """Return the epilogue of a layer whose output is the operand of the next layer."""

    def body(*at):
        if kind == "bf16":
            return sums(*at).astype("bfloat16")
        scaled = te.nearbyint(sums(*at).astype("float32") * tvm.tir.const(1 / 512, "float32"))
        return te.max(te.min(scaled, tvm.tir.const(255, "float32")), tvm.tir.const(0, "float32")).astype("uint8")

    return te.compute(sums.shape, body, name="narrowed", tag="elemwise")


def kind_of(kind: str) -> Kind:
    return BFLOAT16 if kind == "bf16" else Kind("uint8", "int8", "int32", 4)


def conv2d(channels: int, size: int, filters: int, window: int, kind: str, target: str):
    """Return a convolution in a blocked layout, and its number of operations."""
    of, pad = kind_of(kind), window // 2
    block = of.k
    data = te.placeholder((1, channels // block, size, size, block), of.lhs, name="data")
    shape = (filters // block, channels // block, window, window, block // of.depth, block, of.depth)
    kernel = te.placeholder(shape, of.rhs, name="kernel")
    out = narrowed(conv2d_tiles.conv2d(data, kernel, 1, pad, 1, of), kind)
    return timed([data, kernel], out, target), 2 * size * size * channels * filters * window * window


ROWS = {
    "matmul 2048": lambda *a: dense(2048, 2048, 2048, *a, is_narrow=True),
    "matmul 2048, wide result": lambda *a: dense(2048, 2048, 2048, *a),
    "dense 128x768x768": lambda *a: dense(128, 768, 768, *a),
    "dense 128x3072x768": lambda *a: dense(128, 3072, 768, *a),
    "dense 128x768x3072": lambda *a: dense(128, 768, 3072, *a),
    "dense 197x768x3072": lambda *a: dense(197, 768, 3072, *a),
    "dense 512x1024x1024": lambda *a: dense(512, 1024, 1024, *a),
    "conv 3x3 128x28": lambda *a: conv2d(128, 28, 128, 3, *a),
    "conv 3x3 64x56": lambda *a: conv2d(64, 56, 64, 3, *a),
    "conv 3x3 256x56": lambda *a: conv2d(256, 56, 256, 3, *a),
    "conv 3x3 512x28": lambda *a: conv2d(512, 28, 512, 3, *a),
    "conv 1x1 256x14": lambda *a: conv2d(256, 14, 1024, 1, *a),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only rows whose name contains this text")
    parser.add_argument("--kinds", default="bf16,int8")
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--turns", type=int, default=7, help="turns of a row; the peak is measured around each")
    parser.add_argument("--no-peak", action="store_true", help="do not measure the peak (machines without AMX)")
    parser.add_argument("--knobs", default="", help="other knobs of matmuls: steps=8,rows=16;near=0@matmul 2048")
    parser.add_argument("--conv-knobs", default="", help="other knobs of convolutions: block=1x2x1")
    options = parser.parse_args()
    for kind in options.kinds.split(","):
        for name in (name for name in ROWS if options.only in name):
            texts = options.conv_knobs if name.startswith("conv") else options.knobs
            wanted = [text for text in texts.split(";") if text and text.split("@")[1:] in ([], [name])]
            report(name, kind, ["", *wanted], options)


def report(name: str, kind: str, texts: list[str], options) -> None:
    """Print, for each text of knobs, the rate of a row and its share of the peak measured around it. Each turn runs
    all of them, one after the other, as the clock changes from turn to turn."""
    made = [with_knobs(name, kind, text, options.target) for text in texts]
    for measure, _ in made:
        measure()
    rates: list[list[float]] = [[] for _ in made]
    peaks = [0.0 if options.no_peak else peak_of(kind)]
    for own, (measure, operations) in list(zip(rates, made)) * options.turns:
        own.append(operations / statistics.median(measure()) / 1e9)
        peaks.append(0.0 if options.no_peak else peak_of(kind))
    around = [(before + after) / 2 for before, after in itertools.pairwise(peaks)]
    for number, text in enumerate(texts):
        line = summary(rates[number], around[number :: len(texts)])
        print(f"{f'{name} {text}':52s} {kind} {line}", flush=True)


def with_knobs(name: str, kind: str, text: str, target: str):
    """Return a row with other knobs than the chosen ones, such as ``steps=8,rows=16`` or ``block=1x2x1``;
    ``packs=0`` reads the rows of a matmul in place."""
    template = conv2d_tiles.Conv2dTiles if name.startswith("conv") else matmul_tiles.MatmulTiles
    own, pays = template.choose, matmul_tiles.pays
    parts = (part.split("=") for part in text.split("@")[0].split(",") if part)
    change = {key: tuple(map(int, v.split("x"))) if "x" in v else int(v) for key, v in parts}
    if not change.pop("packs", 1):
        matmul_tiles.pays = lambda *args: False

    def choose(*args):
        config = own(*args)
        if not change.keys() <= config.keys():
            raise SystemExit(f"{name}: unknown knob among {', '.join(change)}; known: {', '.join(config)}")
        return {**config, **change}

    template.choose = choose
    try:
        return ROWS[name](kind, target)
    finally:
        template.choose, matmul_tiles.pays = own, pays


def summary(rates: list[float], peaks: list[float]) -> str:
    """Return the rates of the turns beside the peaks around them; peaks of 0 were not measured."""
    text = f"{statistics.median(rates):8.1f} GFLOPS (best turn {max(rates):.1f})"
    shares = sorted(rate / peak for rate, peak in zip(rates, peaks) if peak)
    if shares:
        text += f" {statistics.median(shares):.3f} of {statistics.median(peaks):.0f}"
        text += f" (80 %: {shares[int(0.8 * (len(shares) - 1))]:.3f})"
    return text


if __name__ == "__main__":
    main()

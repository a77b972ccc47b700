"""The convolutions of ResNet-18 on the cycle-level simulator of the accelerator, with and without latency hiding.

    python -m tools bench vta [--write] [--only NAMES] [--config FILE]

For each layer, the tile with the fewest estimated cycles runs without virtual threads and with two. The outputs are
compared with NumPy. ``--write`` writes docs/vta.md. The roofline is
build/vta_roofline.html.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

import tvm
import vta
from tvm import autotvm, te, topi
from tvm.autotvm.task.space import ConfigEntity
from tvm.contrib.vta import device
from tvm.drawing.chart import roofline
from tvm.drawing.page import page
from vta.testing import simulator
from vta.top.op import clip
from vta.top.tiles import Product, Tile, choose
from vta.top.vta_conv2d import conv2d_packed, schedule_conv2d_packed

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "vta.md"


class Layer(NamedTuple):
    """A convolution: size of the image, channels, and kernel size, padding and stride in both directions."""

    size: int
    inputs: int
    outputs: int
    kernel: int
    pad: int
    stride: int


# The paper omits C1, whose three input channels do not fill a block; it runs on the CPU.
LAYERS = {
    "C2": Layer(56, 64, 64, 3, 1, 1),
    "C3": Layer(56, 64, 128, 3, 1, 2),
    "C4": Layer(56, 64, 128, 1, 0, 2),
    "C5": Layer(28, 128, 128, 3, 1, 1),
    "C6": Layer(28, 128, 256, 3, 1, 2),
    "C7": Layer(28, 128, 256, 1, 0, 2),
    "C8": Layer(14, 256, 256, 3, 1, 1),
    "C9": Layer(14, 256, 512, 3, 1, 2),
    "C10": Layer(14, 256, 512, 1, 0, 2),
    "C11": Layer(7, 512, 512, 3, 1, 1),
}


class Measured(NamedTuple):
    """One run: its cycles, the share of cycles in which the GEMM core starts a micro-op, and the bytes of DRAM."""

    cycles: int
    utilization: float
    moved: int
    tile: Tile


def configuration(tile: Tile) -> ConfigEntity:
    sizes = {"co": tile.out_channels, "ci": tile.in_channels, "h": tile.height, "w": tile.width}
    knobs = [[f"tile_{name}", "sp", [-1, size]] for name, size in sizes.items()]
    threads = [["oc_nthread", "ot", tile.oc_threads], ["h_nthread", "ot", tile.h_threads]]
    return ConfigEntity.from_json_dict({"index": 0, "code_hash": None, "entity": knobs + threads})


def expected(data: np.ndarray, weight: np.ndarray, layer: Layer) -> np.ndarray:
    wide = np.pad(data.astype("float64"), [(0, 0), (0, 0), *[(layer.pad, layer.pad)] * 2, (0, 0), (0, 0)])
    out = (layer.size + 2 * layer.pad - layer.kernel) // layer.stride + 1
    last = (out - 1) * layer.stride + 1
    total = np.zeros((data.shape[0], weight.shape[0], out, out, data.shape[4], weight.shape[4]))
    for y in range(layer.kernel):
        for x in range(layer.kernel):
            part = wide[:, :, y : y + last : layer.stride, x : x + last : layer.stride]
            total += np.einsum("nkhwbi,mkji->nmhwbj", part, weight[:, :, y, x].astype("float64"), optimize=True)
    return np.clip(total.astype("int64") >> 8, 0, 127).astype("int8")


def measure(layer: Layer, threads: int, rng: np.random.Generator) -> Measured:
    env = vta.get_env()
    blocks = layer.inputs // env.BLOCK_IN, layer.outputs // env.BLOCK_OUT
    out = (layer.size + 2 * layer.pad - layer.kernel) // layer.stride + 1
    kernel, stride = (layer.kernel, layer.kernel), (layer.stride, layer.stride)
    tile = choose(env, Product(1, blocks[1], out, out, blocks[0], kernel, stride), threads)
    shape = (1, blocks[0], layer.size, layer.size, env.BATCH, env.BLOCK_IN)
    data = te.placeholder(shape, env.inp_dtype, "data")
    weight = te.placeholder((*blocks[::-1], *kernel, env.BLOCK_OUT, env.BLOCK_IN), env.wgt_dtype, "weight")
    with env.target, autotvm.task.ApplyConfig(configuration(tile), "conv2d_packed.vta"):
        pads, layout = (layer.pad, layer.pad), f"NCHW{env.BATCH}n{env.BLOCK_IN}c"
        res = conv2d_packed(data, weight, stride, pads, (1, 1), layout, env.acc_dtype)
        res = topi.cast(clip(topi.right_shift(res, 8), 0, 127), env.out_dtype)
        function = vta.build(schedule_conv2d_packed([res]), [data, weight, res], env.target, name="conv")
    inputs = [rng.integers(-128, 128, [int(d) for d in t.shape]).astype("int8") for t in (data, weight)]
    place = tvm.ext_dev(0)
    got = tvm.nd.empty([int(d) for d in res.shape], res.dtype, place)
    simulator.clear_stats()
    function(*(tvm.nd.array(x, place) for x in inputs), got)
    np.testing.assert_array_equal(got.numpy(), expected(*inputs, layer))
    counted = simulator.stats()
    moved = sum(value for name, value in counted.items() if name.endswith("nbytes"))
    return Measured(counted["cycles"], simulator.utilization(counted), moved, tile)


def table(found: dict[str, tuple[Measured, Measured]]) -> str:
    lines = [
        "| layer | cycles, one thread | utilization | cycles, two threads | utilization | speedup |",
        "|---|---|---|---|---|---|",
    ]
    for name, (one, two) in found.items():
        lines.append(
            f"| {name} | {one.cycles:,} | {one.utilization:.1%} | {two.cycles:,} | {two.utilization:.1%} "
            f"| {one.cycles / two.cycles:.2f}× |"
        )
    means = [np.mean([pair[k].utilization for pair in found.values()]) for k in (0, 1)]
    lines.append(f"| mean | | {means[0]:.1%} | | {means[1]:.1%} | |")
    return "\n".join(lines)


def picture(found: dict[str, tuple[Measured, Measured]]) -> str:
    """The roofline at a clock of 1 GHz: one cycle is one nanosecond."""
    env = vta.get_env()
    peak, bus = simulator.operations_per_cycle(env.config), (1 << env.config.log_bus_width) / 8
    points = []
    for name, (one, two) in found.items():
        operations = two.utilization * two.cycles * peak
        points.append((int(name[1:]), operations / two.moved, operations / two.cycles, operations / one.cycles))
    drawn = roofline("convolutions of ResNet-18 at 1 GHz", peak, [("DRAM", bus)], points, "layer")
    return page("The accelerator at 1 GHz", f"<p>Small dots: one virtual thread. Large dots: two.</p>{drawn}")


def text(found: dict[str, tuple[Measured, Measured]]) -> str:
    return f"""# Latency hiding on the accelerator

The [simulated accelerator](vta_isa.md) loads, computes and stores in three modules that run concurrently. A program of
one thread uses them one after the other, because each tile waits for its data. With two virtual threads, the load
module loads the tile of one thread while the GEMM core computes the tile of the other.

The table lists the convolutions of ResNet-18 (batch 1) on the cycle-level simulator with its default sizes. The
utilization is the share of all cycles in which the GEMM core starts a micro-op. For each layer and number of threads,
the tile with the fewest estimated cycles is measured. Every output equals the output of NumPy.

{table(found)}

The layers C4, C7 and C10 have 1×1 kernels with stride 2: they load 4 values for each value that they use, so the
bandwidth of DRAM limits them. The first layer of the network has three input channels and runs on the CPU.

With random integer weights, all convolutions of the network but the first take 7,685,357 cycles at a utilization of
86.2% (`python -m benchmarks.vta_network`). `vta.top.graph_pack` packs the graph. The operators that are not packed run
on the host, and the outputs are those of the CPU.

The command reproduces the table and draws a roofline (`build/vta_roofline.html`):

```
python -m tools bench vta --write
```
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="ResNet-18's convolutions on the cycle-level simulator")
    parser.add_argument("--write", action="store_true", help="write docs/vta.md")
    parser.add_argument("--only", default="", help="names of layers, separated by commas")
    parser.add_argument("--config", default="", help="a configuration file (default: vta_config.json)")
    given = parser.parse_args()
    names = given.only.split(",") if given.only else list(LAYERS)
    values = json.loads(Path(given.config).read_text(encoding="utf-8")) if given.config else {}
    rng = np.random.default_rng(0)
    with vta.Environment({**values, "TARGET": "tsim"}) as env:
        device.configure(env.config)
        found = {name: (measure(LAYERS[name], 1, rng), measure(LAYERS[name], 2, rng)) for name in names}
        drawn = ROOT / "build" / "vta_roofline.html"
        drawn.parent.mkdir(exist_ok=True)
        drawn.write_text(picture(found), encoding="utf-8")
    print(table(found))
    for name, pair in found.items():
        print(name, *(f"{one.tile}, {one.moved} bytes" for one in pair), sep="\n  ")
    if given.write and not given.only and not given.config:
        PAGE.write_text(text(found), encoding="utf-8")


if __name__ == "__main__":
    main()

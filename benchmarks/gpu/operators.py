"""Operators on a GPU with their templates and with the default GPU schedule: outputs are compared, then timed.

    python -m benchmarks.gpu.operators [FAMILY ...] [--target cuda] [--drawn 4] [--json FILE]

Families: depthwise, grouped, transposed, winograd, transpose, together, sorting. ``--drawn`` also times this number of
random configurations of a template beside its choice. Times are microseconds of one call by the device's clock.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

import tvm
from tvm import te, topi
from tvm.topi.gpu import conv_transpose, depthwise, gemm, transpose
from tvm.topi.nn.winograd import transform_filters_in_planes

from ..harness import save
from .turns import wait_for_turn

# Depthwise convolutions of MobileNetV2, EfficientNet and ConvNeXt: channels, size, window, stride.
DEPTHWISE = [
    (32, 112, 3, 1),
    (96, 112, 3, 2),
    (144, 56, 3, 1),
    (192, 28, 3, 1),
    (384, 14, 3, 1),
    (960, 7, 3, 1),
    (240, 28, 5, 2),
    (672, 14, 5, 1),
    (96, 56, 7, 1),
    (384, 14, 7, 1),
]
# 3x3 convolutions of VGG and ResNet: images, channels, filters, size.
WINOGRAD = [
    (1, 64, 64, 224),
    (1, 128, 128, 112),
    (1, 256, 256, 56),
    (1, 512, 512, 28),
    (1, 512, 512, 14),
    (1, 64, 64, 56),
    (1, 128, 128, 28),
    (1, 256, 256, 14),
    (8, 64, 64, 56),
    (8, 256, 256, 14),
]
# ResNeXt: channels, size, groups, stride. Decoders: channels, filters, size, window, stride.
GROUPED = [(128, 56, 32, 1), (256, 28, 32, 1), (512, 14, 32, 1), (1024, 7, 32, 1)]
TRANSPOSED = [(512, 256, 8, 4, 2), (256, 128, 16, 4, 2), (128, 64, 32, 4, 2), (64, 64, 56, 2, 2)]
TRANSPOSES = [
    ((4096, 4096), (1, 0)),
    ((12, 128, 64), (0, 2, 1)),
    ((1, 256, 56, 56), (0, 2, 3, 1)),
    ((1, 56, 56, 256), (0, 3, 1, 2)),
]
# Sorted arrays: shape, axis, type, number of wanted elements (0: all).
SORTED = [
    ((1_000_000,), 0, "float32", 0),
    ((1_000_000,), 0, "float64", 0),
    ((1_000_000,), 0, "int32", 0),
    ((1_000_000,), 0, "float32", 100),
    ((1, 50_000), 1, "float32", 5),
    ((32, 1000), 1, "float32", 5),
    ((8, 4096), 1, "float32", 0),
    ((1000, 1000), 1, "float32", 0),
    ((4096, 64), 0, "float32", 0),
    ((100_000, 16), 1, "float16", 0),
]

# The largest allowed errors; float16 outputs are rounded.
ERROR = 5e-3


class Case(NamedTuple):
    """Shapes of the inputs, their type, the computation, and the variants to time."""

    name: str
    shapes: list[tuple[int, ...]]
    dtype: str
    make: Callable[..., Any]
    plain: Any
    template: Any
    wanted: Callable[..., np.ndarray] | None = None


@contextmanager
def replaced(module: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


@contextmanager
def without_templates() -> Iterator[None]:
    with replaced(gemm, "is_tiled", lambda *a: False), replaced(transpose, "plan", lambda *a: False):
        with replaced(conv_transpose, "conv", lambda *a: None):
            yield


def cases(families: list[str]) -> Iterator[Case]:
    if "depthwise" in families:
        for channels, size, window, stride in DEPTHWISE:
            for dtype in ("float32", "float16"):
                for layout in ("NCHW", "NHWC"):
                    yield depthwise_case(channels, size, window, stride, layout, dtype)
    if "grouped" in families:
        for channels, size, groups, stride in GROUPED:
            shapes = [(1, channels, size, size), (channels, channels // groups, 3, 3)]
            make = lambda d, k, s=stride, g=groups: topi.cuda.group_conv2d_nchw(d, k, s, 1, 1, g)
            yield Case(f"grouped {channels}x{size} /{groups}", shapes, "float32", make, without_templates, None)
    if "transposed" in families:
        for channels, filters, size, window, stride in TRANSPOSED:
            shapes = [(1, channels, size, size), (channels, filters, window, window)]
            pad = (window - stride) // 2
            make = lambda d, k, s=stride, p=pad: topi.cuda.conv_transpose(d, k, s, p, 1, 1, "NCHW", "IOHW")
            yield Case(f"transposed {channels}>{filters} {size}", shapes, "float32", make, without_templates, None)
    if "transpose" in families:
        for shape, order in TRANSPOSES:
            make = lambda x, o=order: topi.transpose(x, o)
            yield Case(f"transpose {shape} {order}", [shape], "float32", make, without_templates, None)
    if "together" in families:
        for shape, axis in (((1_000_000,), 0), ((64, 16384), 1), ((16384, 64), 0)):
            make = lambda x, a=axis: topi.cuda.cumsum(x, a)
            yield Case(f"cumsum {shape}", [shape], "float32", make, None, None)
    if "sorting" in families:
        for shape, axis, dtype, count in SORTED:
            yield sorting_case(shape, axis, dtype, count)
        make = lambda x: topi.cuda.unique(x, True, True)
        yield Case("unique 1000000 int32", [(1_000_000,)], "int32", make, None, None, counts)


def counts(x: np.ndarray) -> np.ndarray:
    """Return the number of occurrences of each value, padded with zeros."""
    found = np.unique(x, return_counts=True)[1]
    return np.concatenate([found, np.zeros(len(x) - len(found), found.dtype)])


def sorting_case(shape: tuple[int, ...], axis: int, dtype: str, count: int) -> Case:
    """Return the indices of the greatest elements in order, with those of NumPy for comparison."""

    def wanted(x):
        return np.take(np.argsort(-x.astype("float64"), axis, kind="stable"), range(count or shape[axis]), axis)

    name = f"topk {count or 'all'} of {shape} axis {axis} {dtype}"
    make = lambda x: topi.cuda.topk(x, count, axis, "both", False, "int32")
    return Case(name, [shape], dtype, make, None, None, wanted)


def depthwise_case(channels: int, size: int, window: int, stride: int, layout: str, dtype: str) -> Case:
    if layout == "NCHW":
        shapes = [(1, channels, size, size), (channels, 1, window, window), (channels, 1, 1)]
        conv = topi.cuda.depthwise_conv2d_nchw
    else:
        shapes = [(1, size, size, channels), (window, window, channels, 1), (channels,)]
        conv = topi.cuda.depthwise_conv2d_nhwc

    def make(d, k, b):
        return topi.nn.relu(topi.add(conv(d, k, stride, window // 2, 1), b))

    name = f"depthwise {channels}x{size} {window}x{window}/{stride} {layout} {dtype}"
    return Case(name, shapes, dtype, make, without_templates, depthwise.TEMPLATE)


class Built:
    """A function with its inputs; its arrays are copied to the device when it is timed."""

    def __init__(self, runner: Runner, make: Callable[..., Any], inputs: list[np.ndarray]):
        self.device, self.inputs = runner.device, inputs
        with runner.target:
            tensors = [te.placeholder(v.shape, str(v.dtype)) for v in inputs]
            made = make(*tensors)
            outs = list(made) if isinstance(made, (list, tuple)) else [made]
            schedule = topi.schedule.schedule_for(outs, runner.target)
            self.function = tvm.build(schedule, [*tensors, *outs], runner.target)
        self.outs = [([int(d) for d in o.shape], o.dtype) for o in outs]

    def time(self) -> tuple[float, np.ndarray]:
        """Return the microseconds of one call, and the last output."""
        arrays = [tvm.nd.array(v, self.device) for v in self.inputs]
        arrays += [tvm.nd.array(np.zeros(shape, dtype), self.device) for shape, dtype in self.outs]
        timer = self.function.time_evaluator(self.function.entry_name, self.device, number=20, repeat=5)
        self.function(*arrays)
        return float(min(timer(*arrays).results)) * 1e6, arrays[-1].numpy()


class Runner:
    """Builds everything first: the functions that ``prepared`` and ``winograd`` return time it and make a row."""

    def __init__(self, target: str):
        self.target = tvm.target.Target(target, host="llvm")
        self.device = tvm.device(self.target.kind.name, 0)
        self.rng = np.random.default_rng(0)

    def prepared(self, case: Case, drawn: int) -> Callable[[], dict[str, Any]]:
        inputs = [self.rng.standard_normal(s).astype(case.dtype) for s in case.shapes]
        ours, plain = Built(self, case.make, inputs), None
        if case.plain is not None:
            with case.plain():
                plain = Built(self, case.make, inputs)
        others = [self.drawn(case, inputs) for _ in range(drawn if case.template is not None else 0)]

        def measure() -> dict[str, Any]:
            us, got = ours.time()
            row: dict[str, Any] = {"name": case.name, "ours_us": us}
            if case.wanted is not None:
                row["error"] = float((got != case.wanted(*inputs)).mean())
            if plain is not None:
                row["plain_us"], wanted = plain.time()
                row["error"] = error(got, wanted)
            if others:
                row["drawn"] = [{"config": config, "us": built.time()[0]} for config, built in others]
            return row

        return measure

    def drawn(self, case: Case, inputs: list[np.ndarray]) -> tuple[dict[str, Any], Built]:
        """Return another, random configuration."""
        chosen: dict[str, Any] = {}

        def choose(sizes, machine):
            table = case.template.space(sizes, machine)
            while True:
                config = {name: values[self.rng.integers(len(values))] for name, values in table.items()}
                if case.template.valid(sizes, machine, config):
                    chosen.update(config)
                    return config

        with replaced(case.template, "choose", choose):
            return chosen, Built(self, case.make, inputs)

    def winograd(self, images: int, channels: int, filters: int, size: int) -> Callable[[], dict[str, Any]]:
        """Time tiles of both sizes beside one matmul."""
        x = self.rng.standard_normal((images, channels, size, size)).astype("float32")
        w = self.rng.standard_normal((filters, channels, 3, 3)).astype("float32")
        plain = Built(self, lambda d, k: topi.cuda.conv2d(d, k, 1, 1, 1, data_layout="NCHW", kernel_layout="HWIO"),
                      [x, np.ascontiguousarray(w.transpose(2, 3, 1, 0))])  # fmt: skip
        tiles = {tile: Built(self, lambda d, k: topi.cuda.conv2d_winograd_nchw(d, k, 1),
                             [x, transform_filters_in_planes(w, tile)]) for tile in (2, 4)}  # fmt: skip

        def measure() -> dict[str, Any]:
            us, wanted = plain.time()
            row: dict[str, Any] = {"name": f"winograd {images} {channels}>{filters} {size}", "plain_us": us}
            for tile, built in tiles.items():
                row[f"tiles_{tile}_us"], got = built.time()
                row[f"error_{tile}"] = error(got, wanted)
            return row

        return measure


def error(got: np.ndarray, wanted: np.ndarray) -> float:
    """Return the relative error by the Frobenius norm."""
    wanted = wanted.astype("float64")
    return float(np.linalg.norm(got.astype("float64") - wanted) / max(np.linalg.norm(wanted), 1e-30))


def worst_error(row: dict[str, Any]) -> float:
    return max((value for key, value in row.items() if key.startswith("error")), default=0.0)


def shown(row: dict[str, Any]) -> str:
    cells = []
    for key, value in row.items():
        if key == "drawn":
            best = min(value, key=lambda x: x["us"])
            cells.append(f"best drawn {best['us']:.1f} {best['config']}")
        else:
            cells.append(str(value) if key == "name" else f"{key} {value:.3g}")
    return " | ".join(cells)


def main() -> None:
    families = ["depthwise", "grouped", "transposed", "winograd", "transpose", "together", "sorting"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", default=families)
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--drawn", type=int, default=0)
    parser.add_argument("--json", help="JSON file for the rows")
    arguments = parser.parse_args()
    runner = Runner(arguments.target)
    prepared = [runner.prepared(case, arguments.drawn) for case in cases(arguments.families)]
    prepared += [runner.winograd(*shape) for shape in (WINOGRAD if "winograd" in arguments.families else ())]
    wait_for_turn()
    rows = []
    for measure in prepared:
        rows.append(measure())
        print(shown(rows[-1]), flush=True)
        if arguments.json:
            # A program that is stopped leaves the rows that it has.
            save(arguments.json, rows)
    wrong = [row["name"] for row in rows if not worst_error(row) <= ERROR]
    if wrong:
        raise SystemExit(f"outputs differ: {', '.join(wrong)}")


if __name__ == "__main__":
    main()

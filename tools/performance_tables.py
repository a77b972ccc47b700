"""The tables and charts of docs/performance.md: which question, machine, rows and columns each of them shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Row = dict[str, Any]
BY_CASE = ("name", "input")
BY_NAME = ("name",)
BY_GROUP = ("group",)


class Column(NamedTuple):
    """A column: the value of a program, or, with ``over``, the value divided by that of another program.

    A ratio that the result file has is taken from there, since it may be over fewer rounds than the values. A cell of
    several rows shows their geometric mean and, in parentheses, the largest number.
    """

    program: str
    title: str
    over: str = ""

    @property
    def is_ratio(self) -> bool:
        return bool(self.over)

    def number(self, row: Row) -> float | None:
        values = row["values"]
        if not self.over:
            return values.get(self.program)
        known = row.get("ratios", {}).get(self.over)
        if known is not None and self.program == "ours":
            return known[0] if isinstance(known, list) else known
        if self.program in values and self.over in values:
            return values[self.program] / values[self.over]
        return None


class Source(NamedTuple):
    """Rows of a question on one or more machines.

    ``by`` names the fields that make the label of a row; ``only`` chooses rows; ``needs`` are the programs that a row
    must have, by default those of the columns.
    """

    question: str
    machine: str
    columns: tuple[Column, ...]
    prefix: str = ""
    by: tuple[str, ...] = BY_CASE
    only: Callable[[Row], bool] | None = None
    needs: frozenset[str] | None = None

    @property
    def programs(self) -> frozenset[str]:
        return self.needs if self.needs is not None else frozenset(c.over or c.program for c in self.columns)

    def takes(self, row: Row) -> bool:
        return self.only is None or self.only(row)

    def label(self, row: Row) -> str:
        return ", ".join(str(row[field]) for field in self.by if row.get(field))

    def titles(self) -> list[str]:
        return [f"{self.prefix}: {column.title}" if self.prefix else column.title for column in self.columns]


class Table(NamedTuple):
    """A table: the title of its first column, its sources side by side, whether rows are sorted by their first number
    and whether a row of geometric means is the last."""

    name: str
    first: str
    sources: tuple[Source, ...]
    mean: bool = False
    sort: bool = False


class Series(NamedTuple):
    """The bars of one colour: their name in the legend, the rows and the column."""

    title: str
    source: Source
    column: Column


class Chart(NamedTuple):
    """A chart: bars are cut at ``most``, and a line is drawn at ``mark``."""

    name: str
    title: str
    series: tuple[Series, ...]
    most: float = 1.5
    mark: float = 1.0


def value(program: str, title: str = "") -> Column:
    return Column(program, title or program)


def ratio(over: str, title: str = "") -> Column:
    return Column("ours", title or f"ours / {over}", over)


def in_group(group: str) -> Callable[[Row], bool]:
    return lambda row: row.get("group") == group


def is_main_case(row: Row) -> bool:
    """Whether a row of cpu-float32 has batch 1, the usual image and two threads."""
    return not row.get("input")


OURS = value("ours", "ours, ms")
RUNTIMES = (OURS, ratio("onnxruntime"), ratio("OpenVINO"))
FLOAT32 = Source("cpu-float32", "sapphirerapids", RUNTIMES, "Sapphire Rapids")
FLOAT32_ARM = Source("cpu-float32", "neoverse", RUNTIMES[:2], "Neoverse-N1")
FRAMEWORKS = Source(
    "cpu-float32", "xeon", (ratio("PyTorch"), ratio("torch.compile"), ratio("XLA")), "Xeon", only=is_main_case
)
TORCH = tuple(
    Source(
        "torch-compile",
        machines,
        (
            ratio("inductor", "time / inductor"),
            Column("ours, first call (s)", "first call / inductor", "inductor, first call (s)"),
        ),
        device,
        BY_GROUP,
    )
    for machines, device in (("x86 neoverse", "CPU, float32"), ("h200", "H200, float16"))
)
TFLITE = tuple(
    Source("tflite", machine, (OURS, ratio("LiteRT")), f"{title}, {threads}", BY_NAME, in_group(threads))
    for machine, title in (("x86", "x86-64"), ("neoverse", "Neoverse-N1"))
    for threads in ("2 threads", "1 thread")
)
BFLOAT16 = Source("cpu-bfloat16", "sapphirerapids", (OURS, ratio("OpenVINO")), "bfloat16")
INT8 = Source("cpu-int8", "sapphirerapids", RUNTIMES, "int8, AMX", needs=frozenset(["onnxruntime"]))
INT8_VNNI = Source("cpu-int8", "cascadelake", RUNTIMES, "int8, VNNI")
KERNELS = (
    Source("amx-kernels", "sapphirerapids", (value("bfloat16"), value("int8")), "AMX"),
    Source("int8-kernels", "sapphirerapids", (ratio("peak", "int8"),), "Sapphire Rapids without AMX"),
    Source("int8-kernels", "cascadelake", (ratio("peak", "int8"),), "Cascade Lake"),
)
DYNAMIC = tuple(
    Source("dynamic-shapes", machine, (column,), title, BY_NAME)
    for machine, title in (("xeon", "Xeon"), ("neoverse", "Neoverse-N1"))
    for column in (ratio("onnxruntime"), ratio("one size"))
)
DYNAMIC_COMPILE = Source("dynamic-compile", "xeon", (ratio("one size", "compile time / one size"),), "Xeon", BY_NAME)
GPU_DYNAMIC = Source(
    "gpu-dynamic-shapes",
    "h200",
    (ratio("PyTorch", "ours / PyTorch eager"),),
    "H200, float16",
    BY_NAME,
    in_group("graphs"),
)
GPU = tuple(
    Source(
        "gpu-models", "h200", (OURS, value("PyTorch", "PyTorch, ms"), ratio("PyTorch")), dtype, BY_NAME, in_group(dtype)
    )
    for dtype in ("float32", "float16")
)
GPU_LATER = tuple(
    Source(
        "gpu-models", "h200", (value("ours", "ours alone, ms"),), dtype, BY_NAME, in_group(dtype), frozenset(["before"])
    )
    for dtype in ("float32", "float16")
)
GPU_MATMUL = Source(
    "gpu-matmul",
    "h200",
    (value("ours", "ours, TFLOPS"), value("cuBLAS", "cuBLAS, TFLOPS"), ratio("cuBLAS")),
    by=BY_NAME,
)
GPU_SEARCH = Source("gpu-auto-scheduler", "h200", (ratio("untuned"), ratio("PyTorch")), by=BY_GROUP)
COMPILE = Source(
    "compile-time",
    "xeon",
    (
        value("wall", "wall time, s"),
        value("processor", "processor time, s"),
        value("target", "target, s"),
        value("memory (GiB)", "peak memory, GiB"),
    ),
)
MEMORY = Source(
    "peak-memory",
    "sapphirerapids",
    (
        value("ours", "ours, MiB"),
        value("onnxruntime", "onnxruntime, MiB"),
        value("OpenVINO", "OpenVINO, MiB"),
        ratio("onnxruntime"),
        ratio("OpenVINO"),
    ),
)
TUNED = Source("tuning", "xeon", (value("trials"), value("tuned / untuned")), needs=frozenset(["trials"]))
SEARCHED = tuple(
    Source(
        "auto-scheduler-models",
        "sapphirerapids",
        (OURS, ratio("untuned"), ratio("onnxruntime")),
        title,
        BY_NAME,
        in_group(title),
    )
    for title in ("no weights", "shipped weights")
)
OPERATORS = Source("auto-scheduler-ops", "xeon", (ratio("PyTorch"), ratio("default schedule")), by=BY_GROUP)
CHOICE = tuple(
    Source(question, "xeon", (ratio("best"),), title, BY_GROUP)
    for question, title in (("analytic-choice", "AVX-512"), ("analytic-choice-avx2", "AVX2"))
)
SERVERS = (value("tvm_rpc_server"), value("tvm.rpc.Server"))
RPC = Source("rpc", "neoverse", (*SERVERS, value("target")))
IMPORTERS = Source("importers", "arm", (value("ResNet-50", "ResNet-50, s"), value("BERT-base", "BERT-base, s")))

TABLES = (
    Table("cpu-float32", "model", (FLOAT32, FLOAT32_ARM, FRAMEWORKS), mean=True, sort=True),
    Table("torch-compile", "20 models", TORCH, mean=True),
    Table("tflite", "TFLite model", TFLITE, mean=True),
    Table("low-precision", "model", (BFLOAT16, INT8, INT8_VNNI), mean=True),
    Table("kernels", "share of peak, one core", KERNELS),
    Table("dynamic-shapes", "model", (*DYNAMIC, DYNAMIC_COMPILE, GPU_DYNAMIC), mean=True),
    Table("gpu-models", "model", (*GPU, *GPU_LATER), mean=True, sort=True),
    Table("gpu-matmul", "4096 x 4096 x 4096", (GPU_MATMUL,)),
    Table("gpu-auto-scheduler", "AutoScheduler", (GPU_SEARCH,)),
    Table("compile-time", "step", (COMPILE,)),
    Table("peak-memory", "model", (MEMORY,), mean=True, sort=True),
    Table("tuning", "`tvmc tune`", (TUNED,)),
    Table("auto-scheduler-models", "AutoScheduler", SEARCHED, mean=True, sort=True),
    Table("auto-scheduler-ops", "operator class", (OPERATORS,), mean=True),
    Table("analytic-choice", "layers without search", CHOICE, mean=True),
    Table("rpc", "measurement", (RPC,)),
    Table("importers", "format", (IMPORTERS,)),
)


def _ratios(source: Source) -> tuple[Series, ...]:
    """The ratio columns of a source as series."""
    return tuple(
        Series(f"{source.prefix} / {column.over}".strip(), source, column)
        for column in source.columns
        if column.is_ratio
    )


def _values(source: Source, *columns: Column) -> tuple[Series, ...]:
    return tuple(Series(column.title, source, column) for column in columns)


CHARTS = (
    Chart(
        "cpu-float32",
        "time of ours / time of the other runtime, float32, 2 threads",
        (*_ratios(FLOAT32), *_ratios(FLOAT32_ARM)),
    ),
    Chart(
        "low-precision",
        "time of ours / time of the other runtime",
        (*_ratios(BFLOAT16), *_ratios(INT8), *_ratios(INT8_VNNI)),
    ),
    Chart(
        "dynamic-shapes",
        "time of ours / time of the other, mean over the inputs",
        tuple(series for source in DYNAMIC for series in _ratios(source)),
    ),
    Chart(
        "gpu",
        "time of ours / time of PyTorch, NVIDIA H200",
        tuple(s for source in GPU for s in _ratios(source)),
        most=1.2,
    ),
    Chart("compile-time", "seconds", _values(COMPILE, *COMPILE.columns[:2]), most=100.0, mark=0.0),
    Chart("peak-memory", "peak memory of ours / of the other runtime", _ratios(MEMORY)),
    Chart("tuning", "time of searched kernels / time of the other", tuple(s for c in SEARCHED for s in _ratios(c))),
    Chart(
        "rpc",
        "percent of a local run",
        _values(RPC._replace(only=lambda row: row.get("unit") == "%"), *SERVERS),
        most=200.0,
        mark=100.0,
    ),
    Chart("importers", "processor seconds", _values(IMPORTERS, *IMPORTERS.columns), most=100.0, mark=0.0),
)

"""Ansor's features of programs: a row for each tensor that a program stores to, computed from its lowered loops.

They are for user-defined cost models and analyses; ``XGBModel`` uses other features in closed form (state_features.py).
Values are log2(1 + number), except for one-hot features, which are 0 or 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..dtype import info
from ..error import TVMError
from ..ir import prim
from ..ir.prim import Call, IntImm, ProducerLoad, Ramp, Var
from ..ir.visit import post_order
from ..te.lower import schedule_ops
from ..tir.buffer import BufferLoad
from ..tir.function import PrimFunc
from ..tir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    For,
    ForKind,
    LetStmt,
    ProducerRealize,
    ProducerStore,
    Stmt,
    lanes_of,
)
from .annotation_steps import AUTO_UNROLL
from .measure import MAX_FLOAT, MeasureInput, MeasureResult
from .measure_record import RecordReader
from .reach import Reach, reach_of
from .search_task import SearchTask

DEFAULT_MAX_N_BUFS = 5
DEFAULT_FEATURE_VEC_LEN = 164
_CACHE_LINE_BYTES = 64
_CURVE_POINTS = 10

# -- names ---------------------------------------------------------------------------------------------------------

_KINDS: dict[str, tuple[type, ...]] = {
    "addsub": (prim.Add, prim.Sub),
    "mul": (prim.Mul,),
    "divmod": (prim.Div, prim.Mod, prim.FloorDiv, prim.FloorMod),
    "cmp": (prim.Max, prim.Min, prim.EQ, prim.NE, prim.LT, prim.LE, prim.GT, prim.GE),
}
_OPERATIONS = ("mad", *_KINDS, "math_func", "other_func")
_ARITHMETIC = [
    *(f"float_{kind}" for kind in _OPERATIONS),
    *(f"int_{kind}" for kind in _OPERATIONS),
    "bool_op",
    "select_op",
]
_ANNOTATIONS = {"vec": ForKind.VECTORIZED, "unroll": ForKind.UNROLLED, "parallel": ForKind.PARALLEL}
_POSITIONS = (
    "kPosNone",
    "kPosInnerSpatial",
    "kPosMiddleSpatial",
    "kPosOuterSpatial",
    "kPosInnerReduce",
    "kPosMiddleReduce",
    "kPosOuterReduce",
    "kPosMixed",
)
_THREADS = [f"{kind}Idx.{axis}" for kind in ("block", "thread") for axis in "xyz"]
_ACCESSES = ("acc_type.kRead", "acc_type.kWrite", "acc_type.kReadWrite")
_REUSES = ("reuse_type.kLoopMultipleRead", "reuse_type.kSerialMultipleReadWrite", "reuse_type.kNoReuse")
_AMOUNTS = ("bytes", "unique_bytes", "lines", "unique_lines")
_BUFFER = (
    *_ACCESSES,
    *_AMOUNTS,
    *_REUSES,
    "reuse_dis_iter",
    "reuse_dis_bytes",
    "reuse_ct",
    *(f"{amount}_d_reuse_ct" for amount in _AMOUNTS),
    "stride",
)
_REST = ("alloc_size", "alloc_prod", "alloc_outer_prod", "alloc_inner_prod", "outer_prod", "num_loops", AUTO_UNROLL)


def get_per_store_feature_names(max_n_bufs: int | None = None) -> list[str]:
    """The names of the elements of a row.

    Parameters
    ----------
    max_n_bufs : int, optional
        The maximum number of tensors of a statement with features, those with the most traffic first; 5 by default.

    Returns
    -------
    list of str
        The names.
    """
    count = max_n_bufs or DEFAULT_MAX_N_BUFS
    annotations = [
        f"{name}_{what}"
        for name in _ANNOTATIONS
        for what in ("num", "prod", "len", *(f"type.{place}" for place in _POSITIONS))
    ]
    threads = [f"{tag.replace('.', '_')}_len" for tag in _THREADS]
    return [
        *_ARITHMETIC,
        *annotations,
        "is_gpu",
        *threads,
        "vthread_len",
        *(f"B{n}.{what}" for n in range(count) for what in _BUFFER),
        *(f"arith_intensity_curve_{n}" for n in range(_CURVE_POINTS)),
        *_REST,
    ]


def _is_kind(name: str) -> bool:
    """Return whether a feature is an element of a one-hot encoding."""
    return "_type." in name or name == "is_gpu"


# -- statements and their context ----------------------------------------------------------------------------------


@dataclass(eq=False)
class _Loop:
    """A loop, and the elements of tensors that its statements access over all its iterations."""

    var: Var
    extent: int
    kind: ForKind
    touched: dict[Any, list[int]] = field(default_factory=dict)
    widths: dict[Any, int] = field(default_factory=dict)

    def note(self, access: _Access, elements: int) -> None:
        self.touched.setdefault(access.key, []).append(elements)
        self.widths[access.key] = access.width

    def bytes(self) -> float:
        return float(sum(self.widths[key] * sum(amounts) for key, amounts in self.touched.items()))


@dataclass(frozen=True)
class _Context:
    """The loops and attributes around a statement."""

    loops: tuple[_Loop, ...] = ()
    threads: tuple[tuple[str, int], ...] = ()
    unroll: int = 0
    values: tuple[tuple[Var, Any], ...] = ()
    # For each tensor allocated in the program: the loops outside its allocation, and its size in bytes.
    memory: tuple[tuple[Any, int, int], ...] = ()

    @property
    def iterations(self) -> int:
        return math.prod(loop.extent for loop in self.loops)

    def looped(self, var: Var, extent: Any, kind: ForKind) -> _Context:
        # A data-dependent extent counts as one.
        count = extent.value if isinstance(extent, IntImm) else 1
        return replace(self, loops=(*self.loops, _Loop(var, count, kind)))


def _inside(stmt: Stmt, around: _Context) -> _Context:
    """Return the context of the body of a statement."""
    if isinstance(stmt, For):
        return around.looped(stmt.loop_var, stmt.extent, stmt.kind)
    if isinstance(stmt, AttrStmt) and stmt.attr_key in ("thread_extent", "virtual_thread"):
        tag = "vthread" if stmt.attr_key == "virtual_thread" else stmt.node.thread_tag
        count = stmt.value.value if isinstance(stmt.value, IntImm) else 1
        threads = (*around.threads, (tag, count))
        return replace(around.looped(stmt.node.var, stmt.value, ForKind.SERIAL), threads=threads)
    if isinstance(stmt, AttrStmt) and stmt.attr_key == f"pragma_{AUTO_UNROLL}":
        return replace(around, unroll=stmt.value.value)
    if isinstance(stmt, LetStmt):
        return replace(around, values=(*around.values, (stmt.var, stmt.value)))
    if isinstance(stmt, (ProducerRealize, Allocate)):
        is_tensor = isinstance(stmt, ProducerRealize)
        key, dtype = (stmt.producer, stmt.producer.dtype) if is_tensor else (stmt.buffer_var, stmt.dtype)
        lengths = [r.extent for r in stmt.bounds] if is_tensor else stmt.extents
        size = math.prod(d.value if isinstance(d, IntImm) else 1 for d in lengths) * _width(dtype)
        return replace(around, memory=(*around.memory, (key, around.iterations, size)))
    return around


def _stores(root: Stmt) -> Iterator[tuple[Any, _Context]]:
    """Yield the stores of a program in order, each with its context."""
    todo = [(root, _Context())]
    while todo:
        stmt, around = todo.pop()
        if isinstance(stmt, (ProducerStore, BufferStore)):
            yield stmt, around
            continue
        inner = _inside(stmt, around)
        todo += [(child, inner) for child in reversed(stmt.children()) if isinstance(child, Stmt)]


# -- accesses ------------------------------------------------------------------------------------------------------


def _width(dtype: str) -> int:
    return max((info(dtype).bits + 7) // 8, 1)


def _reach(index: Any) -> Reach:
    if not isinstance(index, Ramp):
        return reach_of(index)
    base, stride = reach_of(index.base), getattr(index.stride, "value", 1)
    return lambda extents: base(extents) + abs(stride) * (lanes_of(index) - 1)


@dataclass
class _Access:
    """A tensor that a statement reads, writes, or both, and the spans of its indices."""

    key: Any
    width: int
    shape: tuple[int, ...]
    is_written: bool = False
    is_read: bool = False
    places: list[list[Reach]] = field(default_factory=list)
    variables: set[Var] = field(default_factory=set)

    def region(self, extents: dict[Var, int]) -> list[int]:
        """Return the number of accessed elements along each dimension for the given loop extents."""
        return [min(max(place[d](extents) for place in self.places), size) for d, size in enumerate(self.shape)]

    def stride(self, var: Var) -> int:
        """Return the number of elements by which one iteration of a loop advances; 0 if the access does not depend on
        it."""
        found = []
        for place in self.places:
            for dim in reversed(range(len(self.shape))):
                step = place[dim]({var: 2}) - place[dim]({})
                if step:
                    found.append(step * math.prod(self.shape[dim + 1 :]))
                    break
        return min(found, default=0)


def _place(node: Any) -> tuple[Any, str, Sequence[Any]]:
    if isinstance(node, (ProducerStore, ProducerLoad)):
        return node.producer, node.producer.dtype, node.producer.shape
    return node.buffer.data, node.buffer.dtype, node.buffer.shape


def _nodes(store: Any, around: _Context) -> list[Any]:
    """Yield the nodes of a stored value, including the values of let variables."""
    values, seen = dict(around.values), set[int]()
    todo, found = [store.value, *store.indices], []
    while todo:
        for node in post_order(todo.pop(), seen=seen):
            found.append(node)
            if isinstance(node, Var) and node in values:
                todo.append(values[node])
    return found


def _accesses(store: Any, nodes: Sequence[Any]) -> list[_Access]:
    found: dict[Any, _Access] = {}
    for node in (*(n for n in nodes if isinstance(n, (ProducerLoad, BufferLoad))), store):
        key, dtype, shape = _place(node)
        sizes = tuple(d.value if isinstance(d, IntImm) else 1 for d in shape)
        access = found.setdefault(key, _Access(key, _width(dtype), sizes))
        access.is_written |= node is store
        access.is_read |= node is not store
        access.places.append([_reach(index) for index in node.indices])
        access.variables.update(v for index in node.indices for v in post_order(index) if isinstance(v, Var))
    return list(found.values())


# -- features of one statement -------------------------------------------------------------------------------------


def _arithmetic(store: Any, nodes: Sequence[Any], iterations: int) -> dict[str, float]:
    counts: dict[str, float] = {}
    for node in nodes:
        if not isinstance(node, prim.PrimExpr):
            continue
        operand = getattr(node, "a", node)
        side = "float" if "float" in operand.dtype else "int"
        if isinstance(node, (prim.And, prim.Or, prim.Not)):
            name = "bool_op"
        elif isinstance(node, prim.Select):
            name = "select_op"
        elif isinstance(node, Call):
            is_function = not getattr(node.op, "name", "").startswith(("tir.call_", "tir.tvm_call"))
            name = f"{side}_{'math_func' if is_function else 'other_func'}"
        else:
            kind = next((kind for kind, classes in _KINDS.items() if isinstance(node, classes)), None)
            if kind is None:
                continue
            name = f"{side}_{kind}"
        counts[name] = counts.get(name, 0.0) + iterations
    return counts


def _annotations(store: Any, loops: Sequence[_Loop]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, kind in _ANNOTATIONS.items():
        chosen = [loop for loop in loops if loop.kind is kind]
        found[f"{name}_num"] = len(chosen)
        if chosen:
            found[f"{name}_prod"] = math.prod(loop.extent for loop in chosen)
            found[f"{name}_len"] = chosen[-1].extent
        found[f"{name}_type.{_position(store, loops, chosen)}"] = 1.0
    return found


def _position(store: Any, loops: Sequence[_Loop], chosen: Sequence[_Loop]) -> str:
    """Return the position of the innermost of some loops among the stored dimensions, or among the reductions."""
    if not chosen:
        return "kPosNone"
    var = chosen[-1].var
    variables = [{v for v in post_order(index) if isinstance(v, Var)} for index in store.indices]
    places = [dim for dim, inside in enumerate(variables) if var in inside]
    if len(places) > 1:
        return "kPosMixed"
    if places:
        place, count, kind = places[0], len(variables), "Spatial"
    else:
        stored = set().union(*variables)
        reductions = [loop.var for loop in loops if loop.var not in stored]
        place, count, kind = reductions.index(var), len(reductions), "Reduce"
    return f"kPos{'Inner' if place == count - 1 else 'Outer' if place == 0 else 'Middle'}{kind}"


def _reuse(access: _Access, loops: Sequence[_Loop]) -> tuple[str, float, float, float]:
    """Return how a tensor is reused: the kind of reuse, the iterations and bytes between two accesses, and the
    count."""
    iterations, between = 1.0, None
    for loop in reversed(loops):
        if loop.var not in access.variables:
            if between is None:
                between = float(sum(loop.widths.values()))
            return _REUSES[0], iterations, between, loop.extent
        iterations *= loop.extent
        between = loop.bytes()
        others = loop.touched[access.key]
        if len(others) > 1:
            return _REUSES[1], min(others) / loop.extent, between / loop.extent, len(others) - 1
    return _REUSES[2], 0.0, 0.0, 0.0


def _buffer(access: _Access, loops: Sequence[_Loop], line_bytes: int) -> dict[str, float]:
    iterations = math.prod(loop.extent for loop in loops)
    region = access.region({loop.var: loop.extent for loop in loops})
    stride, repeated, is_innermost = 0, 1, True
    for loop in reversed(loops):
        stride = access.stride(loop.var)
        if stride:
            break
        repeated, is_innermost = repeated * loop.extent, False
    contiguous = access.width
    for size, reached in zip(reversed(access.shape), reversed(region)):
        contiguous *= reached
        if reached != size:
            break
    unique = math.prod(region) * access.width
    lines = iterations / repeated * min(1.0, stride * access.width / line_bytes)
    amounts = {
        "bytes": iterations * access.width,
        "unique_bytes": unique,
        "lines": max(lines, 1.0),
        "unique_lines": max(unique / min(contiguous, line_bytes), 1.0),
    }
    reuse, distance, distance_bytes, count = _reuse(access, loops)
    # A tensor without reuse counts twice.
    shares = {f"{name}_d_reuse_ct": amount / count if count else 2 * amount for name, amount in amounts.items()}
    kind = _ACCESSES[2 if access.is_read and access.is_written else int(access.is_written)]
    return {
        kind: 1.0,
        reuse: 1.0,
        **amounts,
        **shares,
        "reuse_dis_iter": distance,
        "reuse_dis_bytes": distance_bytes,
        "reuse_ct": count,
        "stride": float(stride) if is_innermost else 0.0,
    }


def _curve(counts: dict[str, float], loops: Sequence[_Loop]) -> dict[str, float]:
    """Return the arithmetic intensity (operations per byte) for more and more outer loops, sampled at equal distances
    of operations."""
    operations, iterations = sum(counts.values()), math.prod(loop.extent for loop in loops)
    points, ratios = [], []
    done = operations / max(iterations, 1)
    for loop in reversed(loops):
        done *= loop.extent
        points.append(math.log2(done + 1))
        ratios.append(points[-1] / max(math.log2(loop.bytes() + 1), 1e-9))
    if not points or points[-1] <= 0:
        return {}
    at = np.arange(1, _CURVE_POINTS + 1) * points[-1] / _CURVE_POINTS
    return {f"arith_intensity_curve_{n}": float(value) for n, value in enumerate(np.interp(at, points, ratios))}


def _features(
    store: Any, around: _Context, accesses: Sequence[_Access], nodes: Sequence[Any], max_n_bufs: int, line_bytes: int
) -> dict[str, float]:
    loops, iterations = around.loops, around.iterations
    counts = _arithmetic(store, nodes, iterations * max(map(lanes_of, store.indices), default=1))
    found = {**counts, **_annotations(store, loops), **_curve(counts, loops)}
    found["is_gpu"] = float(bool(around.threads))
    for tag in (*_THREADS, "vthread"):
        found[f"{tag.replace('.', '_')}_len"] = dict(around.threads).get(tag, 1)
    buffers = [_buffer(access, loops, line_bytes) for access in accesses]
    buffers.sort(key=lambda one: (-one["lines"], -one["bytes"]))
    for number, one in enumerate(buffers[:max_n_bufs]):
        found.update({f"B{number}.{name}": value for name, value in one.items()})
    key = _place(store)[0]
    for owner, outside, size in around.memory:
        if owner == key:
            found.update(
                alloc_size=size,
                alloc_outer_prod=outside,
                alloc_inner_prod=iterations / outside,
                alloc_prod=size * outside,
            )
    return {**found, "outer_prod": iterations, "num_loops": len(loops), AUTO_UNROLL: around.unroll}


def _rows(body: Stmt, line_bytes: int, max_n_bufs: int, log_scale: bool) -> np.ndarray:
    """Return a row for each stored tensor, computed from the last statement that stores to it."""
    rows: dict[Any, dict[str, float]] = {}
    for store, around in _stores(body):
        nodes = _nodes(store, around)
        accesses = _accesses(store, nodes)
        extents: dict[Var, int] = {}
        for loop in reversed(around.loops):
            extents[loop.var] = loop.extent
            for access in accesses:
                loop.note(access, math.prod(access.region(extents)))
        rows[_place(store)[0]] = _features(store, around, accesses, nodes, max_n_bufs, line_bytes)
    names = get_per_store_feature_names(max_n_bufs)
    values = np.array([[row.get(name, 0.0) for name in names] for row in rows.values()], "float64")
    values = values.reshape(len(rows), len(names))
    if log_scale:
        numbers = [place for place, name in enumerate(names) if not _is_kind(name)]
        values[:, numbers] = np.log2(1 + values[:, numbers])
    return values.astype("float32")


# -- public functions ------------------------------------------------------------------------------------------------


def features_from_primfunc(
    func: PrimFunc, cache_line_bytes: int = _CACHE_LINE_BYTES, max_n_bufs: int | None = None, log_scale: bool = False
) -> np.ndarray:
    """The features of a function, a row for each tensor that it stores to.

    Parameters
    ----------
    func : PrimFunc
        The function.
    cache_line_bytes : int
        The bytes of a cache line.
    max_n_bufs : int, optional
        The maximum number of tensors of a statement with features; 5 by default.
    log_scale : bool
        Whether to return log2(1 + number).

    Returns
    -------
    numpy.ndarray
        The rows.
    """
    return _rows(func.body, cache_line_bytes, max_n_bufs or DEFAULT_MAX_N_BUFS, log_scale)


def named_features_from_primfunc(
    func: PrimFunc, cache_line_bytes: int = _CACHE_LINE_BYTES, max_n_bufs: int | None = None, log_scale: bool = False
) -> dict[str, np.ndarray] | None:
    """The features of a function by name.

    Parameters
    ----------
    func : PrimFunc
        The function.
    cache_line_bytes : int
        The bytes of a cache line.
    max_n_bufs : int, optional
        The maximum number of tensors of a statement with features; 5 by default.
    log_scale : bool
        Whether to return log2(1 + number).

    Returns
    -------
    dict of str to numpy.ndarray, or None
        The column of each name; None if the function has no stores.
    """
    rows = features_from_primfunc(func, cache_line_bytes, max_n_bufs, log_scale)
    return (
        {name: rows[:, place] for place, name in enumerate(get_per_store_feature_names(max_n_bufs))}
        if len(rows)
        else None
    )


def get_per_store_features_from_states(
    states: Sequence[Any], task: SearchTask, max_n_bufs: int | None = None
) -> np.ndarray:
    """The features of states.

    Parameters
    ----------
    states : list of State
        The states.
    task : SearchTask
        Their task.
    max_n_bufs : int, optional
        The maximum number of tensors of a statement with features; 5 by default.

    Returns
    -------
    numpy.ndarray
        An array of rows for each state; a row of zeros if the state cannot be lowered.
    """
    count = max_n_bufs or DEFAULT_MAX_N_BUFS
    found = np.empty(len(states), dtype=object)
    for number, state in enumerate(states):
        try:
            schedule, _ = task.compute_dag.apply_steps_from_state(getattr(state, "state_object", state))
            body = schedule_ops(schedule.normalize())
            found[number] = _rows(body, task.hardware_params.cache_line_bytes or _CACHE_LINE_BYTES, count, True)
        except TVMError:
            found[number] = np.zeros((1, len(get_per_store_feature_names(count))), "float32")
    return found


def get_per_store_features_from_measure_pairs(
    inputs: Sequence[MeasureInput],
    results: Sequence[MeasureResult],
    skip_first_n_feature_extraction: int = 0,
    max_n_bufs: int | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The features of measured states.

    Parameters
    ----------
    inputs : list of MeasureInput
        The states.
    results : list of MeasureResult
        Their measurements.
    skip_first_n_feature_extraction : int
        The number of states at the start for which no features are computed.
    max_n_bufs : int, optional
        The maximum number of tensors of a statement with features; 5 by default.

    Returns
    -------
    tuple of numpy.ndarray
        An array of rows for each state, its speed relative to the fastest of its task (0 for a failed state), and the
        index of its task.
    """
    tasks: dict[tuple[str, str], SearchTask] = {}
    features = np.empty(len(inputs), dtype=object)
    ids, costs = [], []
    for number, (inp, res) in enumerate(zip(inputs, results)):
        key = (inp.task.workload_key, inp.task.target_text)
        task = tasks.setdefault(key, inp.task)
        ids.append(list(tasks).index(key))
        costs.append(res.mean_cost)
        features[number] = np.zeros((0, len(get_per_store_feature_names(max_n_bufs))), "float32")
        if number >= skip_first_n_feature_extraction:
            features[number] = get_per_store_features_from_states([inp.state], task, max_n_bufs)[0]
    fastest = [min(cost for cost, own in zip(costs, ids) if own == one) for one in range(len(tasks))]
    speeds = [fastest[one] / cost if cost < MAX_FLOAT else 0.0 for one, cost in zip(ids, costs)]
    return features, np.array(speeds, "float32"), np.array(ids, "int32")


def get_per_store_features_from_file(
    filename: str, max_lines: int, max_n_bufs: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The features of the states of a record file.

    Parameters
    ----------
    filename : str
        The file.
    max_lines : int
        The maximum number of records to read.
    max_n_bufs : int, optional
        The maximum number of tensors of a statement with features; 5 by default.

    Returns
    -------
    tuple of numpy.ndarray
        The same values as ``get_per_store_features_from_measure_pairs``.
    """
    inputs, results = RecordReader(filename).read_lines(max_lines)
    return get_per_store_features_from_measure_pairs(inputs, results, max_n_bufs=max_n_bufs)


__all__ = [
    "DEFAULT_FEATURE_VEC_LEN",
    "DEFAULT_MAX_N_BUFS",
    "features_from_primfunc",
    "get_per_store_feature_names",
    "get_per_store_features_from_file",
    "get_per_store_features_from_measure_pairs",
    "get_per_store_features_from_states",
    "named_features_from_primfunc",
]

"""Features of configurations for cost models.

There are two kinds. Features of a space are computed from its knobs: one table per knob is computed once, so that
thousands of configurations can be looked up without lowering them. Features of a schedule are computed from its loops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..arith import detect_linear_equation
from ..driver.build_module import schedule_to_module
from ..ir.prim import Add as AddExpr
from ..ir.prim import BufferLoad, Div, FloorDiv, IntImm, Mod, Mul, PrimExpr, Sub, Var
from ..ir.visit import post_order
from ..tir.stmt import AttrStmt, BufferStore, For, ForKind, Stmt
from .task.entity import AnnotateEntity, Entity, ReorderEntity, SplitEntity
from .task.space import ConfigEntity, ConfigSpace

if TYPE_CHECKING:
    import numpy as np

# The maximum number of logarithmic columns whose pairs become features too.
_MAX_PAIRED_COLUMNS = 14


# -- features of knobs -------------------------------------------------------------------------------------------------


def _log2(x: float) -> float:
    return math.log2(x) if x > 0 else -1.0


def _knob_features(entity: Entity) -> list[float]:
    return entity.features()


def _loop_features(entity: Entity) -> list[float]:
    """Return the logarithms of loop lengths and of the nests inside each loop, which determine cache and register
    use."""
    if isinstance(entity, SplitEntity):
        inner = entity.size[1:]
        lengths = [_log2(s) for s in inner]
        nests = [sum(lengths[i:]) for i in range(len(lengths) - 1)]
        return lengths + nests if inner else [0.0]
    if isinstance(entity, (ReorderEntity, AnnotateEntity)):
        return entity.features()
    found = []
    for x in entity.features():
        found += [x, _log2(x)]
    return found


def _curve_features(entity: Entity) -> list[float]:
    """Return the number of elements that a nest covers, sampled at eight levels from the innermost loop outwards."""
    if isinstance(entity, SplitEntity):
        total, curve = 0.0, []
        for s in reversed(entity.size[1:]):
            total += _log2(s)
            curve.append(total)
        return (curve + [total] * 8)[:8]
    return entity.features()


_KINDS = {"knob": _knob_features, "itervar": _loop_features, "curve": _curve_features}


class SpaceFeatures:
    """The features of the configurations of a space, as rows of a matrix.

    Parameters
    ----------
    space : ConfigSpace
        The space.
    kind : str
        "itervar", "knob" or "curve".
    """

    def __init__(self, space: ConfigSpace, kind: str):
        import numpy as np

        if kind not in _KINDS:
            raise RuntimeError(f"unknown feature type '{kind}'; use one of {', '.join(_KINDS)}")
        self.kind = kind
        self.space = space
        self.names = list(space.space_map)
        self.features = _KINDS[kind]
        rows = [[self.features(e) for e in s.entities] for s in space.space_map.values()]
        self.widths = [max((len(r) for r in table), default=0) for table in rows]
        self.tables = [
            np.array([r + [0.0] * (width - len(r)) for r in table], dtype="float32").reshape(len(table), width)
            for table, width in zip(rows, self.widths)
        ]
        self.dims = np.array(space.dims, dtype=np.int64)

    def knobs(self, indexes: Any) -> np.ndarray:
        """The choice of each knob, one row per index.

        Parameters
        ----------
        indexes : sequence of int
            The indices of configurations in the space.

        Returns
        -------
        ndarray
            Integers, configurations × knobs.
        """
        import numpy as np

        left = np.asarray(indexes, dtype=np.int64).copy()
        columns = []
        for dim in self.dims:
            columns.append(left % dim)
            left //= dim
        return np.stack(columns, axis=1) if columns else np.zeros((len(left), 0), np.int64)

    def of_knobs(self, knobs: np.ndarray) -> np.ndarray:
        """The features of configurations, given by the choice of each knob.

        Parameters
        ----------
        knobs : ndarray
            Integers, configurations × knobs, as returned by ``knobs``.

        Returns
        -------
        ndarray
            Floats, configurations × features.
        """
        import numpy as np

        columns = [table[knobs[:, i]] for i, table in enumerate(self.tables)]
        empty = np.zeros((len(knobs), 1), "float32")
        return self._with_tile_products(np.concatenate(columns, axis=1) if columns else empty)

    def of_indexes(self, indexes: Any) -> np.ndarray:
        """The features of configurations, given by their indices in the space.

        Parameters
        ----------
        indexes : sequence of int
            The indices.

        Returns
        -------
        ndarray
            Floats, configurations × features.
        """
        return self.of_knobs(self.knobs(indexes))

    def of_configs(self, configs: Sequence[ConfigEntity]) -> np.ndarray:
        """The features of configurations that may belong to another space with the same knobs (records of other
        shapes).

        Parameters
        ----------
        configs : sequence of ConfigEntity
            The configurations; features of a knob that is missing in a configuration are 0.

        Returns
        -------
        ndarray
            Floats, configurations × features.
        """
        import numpy as np

        rows = []
        for config in configs:
            row: list[float] = []
            for name, width in zip(self.names, self.widths):
                found = self.features(config._entity_map[name]) if name in config._entity_map else []
                row += (found + [0.0] * width)[:width]
            rows.append(row)
        return self._with_tile_products(np.array(rows, dtype="float32").reshape(len(rows), sum(self.widths)))

    def _with_tile_products(self, x: np.ndarray) -> np.ndarray:
        """Add products of tile sizes (sums of their logarithms) to the features: decision trees find thresholds, not
        products."""
        import numpy as np

        if self.kind != "itervar":
            return x
        logs = self._log_columns()
        if not 2 <= len(logs) <= _MAX_PAIRED_COLUMNS:
            return x
        pairs = [x[:, i] + x[:, j] for a, i in enumerate(logs) for j in logs[a + 1 :]]
        total = x[:, logs].sum(axis=1)
        return np.concatenate([x, np.stack([*pairs, total], axis=1)], axis=1)

    def _log_columns(self) -> list[int]:
        columns, at = [], 0
        for space, width in zip(self.space.space_map.values(), self.widths):
            entity = space[0]
            if isinstance(entity, SplitEntity):
                columns += range(at, at + max(len(entity.size) - 1, 0))
            elif not isinstance(entity, (ReorderEntity, AnnotateEntity)):
                columns += range(at + 1, at + width, 2)
            at += width
        return columns


# -- features of loops -------------------------------------------------------------------------------------------------

_ANNOTATIONS = (
    "blockIdx.x",
    "blockIdx.y",
    "blockIdx.z",
    "threadIdx.x",
    "threadIdx.y",
    "threadIdx.z",
    "unroll",
    "vectorize",
    "parallel",
    "serial",
    "vthread",
)
_KIND_NAMES = {ForKind.UNROLLED: "unroll", ForKind.VECTORIZED: "vectorize", ForKind.PARALLEL: "parallel"}
_NUMBERS_OF_ACCESS = 6
_ARITHMETIC = ((AddExpr, Sub), (Mul,), (Div, FloorDiv, Mod))


class _Loop:
    """A loop: its variable, extent and annotation, and the operations and accesses inside it."""

    def __init__(self, var: Var, length: int, word: str, outside: tuple[_Loop, ...]):
        self.var, self.length, self.word, self.outside = var, length, word, outside
        self.accesses: list[tuple[str, tuple[PrimExpr, ...], tuple[int, ...], tuple[_Loop, ...]]] = []
        self.arithmetic = [0, 0, 0]

    @property
    def path(self) -> tuple[_Loop, ...]:
        return (*self.outside, self)


class _Reader:
    """An analysis that collects the loops of a statement in program order."""

    def __init__(self):
        self.loops: list[_Loop] = []

    def statement(self, stmt: Stmt, path: tuple[_Loop, ...]) -> None:
        if isinstance(stmt, For):
            path = self.enter(stmt.loop_var, stmt.extent, _KIND_NAMES.get(stmt.kind, "serial"), path)
        elif isinstance(stmt, AttrStmt) and stmt.attr_key in ("thread_extent", "virtual_thread"):
            word = stmt.node.thread_tag if stmt.attr_key == "thread_extent" else "vthread"
            path = self.enter(stmt.node.var, stmt.value, word, path)
        if isinstance(stmt, BufferStore):
            self.note(stmt.buffer, stmt.indices, path)
        for child in stmt.children():
            if isinstance(child, Stmt):
                self.statement(child, path)
            elif isinstance(child, PrimExpr) and not isinstance(stmt, (For, AttrStmt)):
                self.expression(child, path, stmt)

    def enter(self, var: Var, extent: Any, word: str, path: tuple[_Loop, ...]) -> tuple[_Loop, ...]:
        loop = _Loop(var, extent.value if isinstance(extent, IntImm) else 1, word, path)
        self.loops.append(loop)
        return loop.path

    def expression(self, root: PrimExpr, path: tuple[_Loop, ...], stmt: Stmt) -> None:
        if isinstance(stmt, BufferStore) and any(root is i for i in stmt.indices):
            return
        indexes = {
            id(n)
            for load in post_order(root)
            if isinstance(load, BufferLoad)
            for index in load.indices
            for n in post_order(index)
        }
        for node in post_order(root):
            if isinstance(node, BufferLoad):
                self.note(node.buffer, node.indices, path)
            elif path and id(node) not in indexes:
                for slot, kinds in enumerate(_ARITHMETIC):
                    path[-1].arithmetic[slot] += isinstance(node, kinds)

    def note(self, buffer: Any, indices: tuple[PrimExpr, ...], path: tuple[_Loop, ...]) -> None:
        shape = tuple(d.value if isinstance(d, IntImm) else 1 for d in buffer.shape)
        for loop in path:
            loop.accesses.append((buffer.name, indices, shape, path))


def _stride(indices: tuple[PrimExpr, ...], shape: tuple[int, ...], var: Var) -> int:
    """Return the distance in elements between the accesses of two consecutive iterations."""
    total, unit = 0, 1
    for index, size in zip(reversed(indices), reversed(shape)):
        found = detect_linear_equation(index, [var])
        if found and isinstance(found[0], IntImm):
            total += found[0].value * unit
        unit *= size
    return total


def _read(sch: Any, args: Sequence[Any]) -> list[_Loop]:
    reader = _Reader()
    for function in schedule_to_module(sch, list(args)).functions.values():
        reader.statement(function.body, ())
    return _joined_loops(reader.loops)


def _joined_loops(loops: list[_Loop]) -> list[_Loop]:
    """Merge loops over the same thread, and merge a loop that initializes a reduction into the loop of the
    reduction."""
    kept: dict[Any, _Loop] = {}
    for place, loop in enumerate(loops):
        name = loop.var.name.removesuffix(".init")
        later = [x for x in loops[place + 1 :] if x.var.name == name] if name != loop.var.name else [loop]
        main = kept.setdefault(later[0].var if later else loop.var, later[0] if later else loop)
        if main is not loop:
            main.accesses = loop.accesses + main.accesses
    order = {id(loop): place for place, loop in enumerate(loops)}
    return sorted(kept.values(), key=lambda loop: order[id(loop)])


def _depth(loop: _Loop, path: tuple[_Loop, ...]) -> int:
    """Return the position of a loop, or of the loop it was merged into, among the loops around an access."""
    names = (loop.var.name, loop.var.name + ".init")
    return next(place for place, x in enumerate(path) if x is loop or x.var is loop.var or x.var.name in names)


def get_itervar_feature(sch: Any, args: Sequence[Any], take_log: bool = False) -> list[list[list[Any]]]:
    """Features of each loop: its variable, attributes, arithmetic operations, and accesses of each buffer.

    ``_attr_`` contains the extent, the depth, the number of iterations of the loop with all outer loops and with all
    inner loops, and its annotation as a one-hot vector. For a buffer there are stride, modulus (-1), accessed elements,
    iterations per element, and the last two again for threads. Loops that initialize a reduction are merged into the
    loops of the reduction.

    Parameters
    ----------
    sch : Schedule
        The schedule.
    args : list of Tensor
        The arguments of the program.
    take_log : bool, optional
        Whether to return logarithms.

    Returns
    -------
    list[list[list[Any]]]
    """
    scale = (lambda x: math.log2(x + 1) if x >= 0 else -math.log2(1 - x)) if take_log else (lambda x: x)
    features = []
    for loop in _read(sch, args):
        down = math.prod(x.length for x in loop.path)
        nests = [math.prod(x.length for x in a[3][_depth(loop, a[3]) :]) for a in loop.accesses]
        deepest = max(nests, default=loop.length)
        words = [float(loop.word == word) for word in _ANNOTATIONS]
        rows: list[list[Any]] = [
            ["_itervar_", loop.var],
            ["_attr_", *(scale(x) for x in (loop.length, len(loop.path), down, deepest)), *words],
            ["_arith_", *(scale(x) for x in loop.arithmetic)],
        ]
        counts: dict[str, int] = {}
        for name, indices, shape, path in loop.accesses:
            inner = path[_depth(loop, path) :]
            strides = [_stride(indices, shape, x.var) for x in inner]
            touched = math.prod(x.length for x, s in zip(inner, strides) if s)
            reuse = deepest / touched
            threads = [x.length for x, s in zip(inner, strides) if s and x.word.startswith("threadIdx")]
            both = (math.prod(threads), reuse) if threads else (0, 0)
            number = counts.get(name, 0)
            counts[name] = number + 1
            rows.append([f"{name}_{number}", *(scale(x) for x in (strides[0], -1, touched, reuse, *both))])
        features.append(rows)
    return features


def flatten_itervar_feature(fea: list[list[list[Any]]]) -> np.ndarray:
    """The features of all loops in one row. Buffers are ordered by the number of accessed elements, so that names do
    not matter. Every loop has space for all accesses of the program, so that all schedules of a program have rows of
    equal length.

    Parameters
    ----------
    fea : list[list[list[Any]]]
        The output of ``get_itervar_feature``.

    Returns
    -------
    np.ndarray
    """
    import numpy as np

    names = {row[0] for rows in fea for row in rows[3:]}
    features: list[float] = []
    for rows in fea:
        fixed = [x for row in rows[1:3] for x in row[1:]]
        touched = sorted((row[1:] for row in rows[3:]), key=lambda row: -row[2])
        touched += [[0.0] * _NUMBERS_OF_ACCESS] * (len(names) - len(touched))
        features += fixed + [x for row in touched for x in row]
    return np.array(features, dtype="float32")


def get_itervar_feature_flatten(sch: Any, args: Sequence[Any], take_log: bool = True) -> np.ndarray:
    """The features of all loops of a schedule in one row.

    Parameters
    ----------
    sch : Schedule
        The schedule.
    args : list of Tensor
        The arguments of the program.
    take_log : bool, optional
        Whether to return logarithms.

    Returns
    -------
    np.ndarray
    """
    return flatten_itervar_feature(get_itervar_feature(sch, args, take_log))


def get_flatten_name(fea: list[list[list[Any]]]) -> list[str]:
    """The name of each feature of ``flatten_itervar_feature``.

    Parameters
    ----------
    fea : list[list[list[Any]]]
        The output of ``get_itervar_feature``.

    Returns
    -------
    list[str]
    """
    names = []
    accesses = {row[0] for rows in fea for row in rows[3:]}
    for rows in fea:
        loop = str(rows[0][1])
        names += [f"{loop}.{row[0]}.{i}" for row in rows[1:3] for i in range(len(row) - 1)]
        touched = [row[0] for row in sorted(rows[3:], key=lambda row: -row[3])]
        touched += sorted(accesses.difference(touched))
        names += [f"{loop}.{name}.{i}" for name in touched for i in range(_NUMBERS_OF_ACCESS)]
    return names


def get_buffer_curve_sample_flatten(sch: Any, args: Sequence[Any], sample_n: int = 30) -> np.ndarray:
    """For each buffer, four curves of ``sample_n`` points (x, y) at powers of two: accessed elements and iterations per
    element as functions of the iterations, and these two as functions of each other.

    Parameters
    ----------
    sch : Schedule
        The schedule.
    args : list of Tensor
        The arguments of the program.
    sample_n : int, optional
        The number of points of a curve.

    Returns
    -------
    np.ndarray
    """
    import numpy as np

    points: dict[str, list[tuple[float, float, float]]] = {}
    for loop in _read(sch, args):
        for name, indices, shape, path in loop.accesses:
            inner = path[_depth(loop, path) :]
            iterations = math.prod(x.length for x in inner)
            touched = math.prod(x.length for x in inner if _stride(indices, shape, x.var))
            points.setdefault(name, []).append(
                (math.log2(iterations), math.log2(touched), math.log2(iterations / touched))
            )
    rows: list[Any] = []
    for found in points.values():
        iterations, touched, reuse = zip(*sorted([(0.0, 0.0, 0.0), *found]))
        for xs, ys in ((iterations, touched), (iterations, reuse), (touched, reuse), (reuse, touched)):
            at = np.linspace(0, max(xs), sample_n)
            order = np.argsort(xs, kind="stable")
            rows += [at, np.interp(at, np.array(xs)[order], np.array(ys)[order])]
    return np.concatenate(rows).astype("float32") if rows else np.zeros(0, "float32")

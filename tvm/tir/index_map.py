"""Index maps: functions from the indices of one layout to the indices of another."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ..error import ExprValueError
from ..ir import primop
from ..ir.node import Node
from ..ir.prim import Add, FloorDiv, FloorMod, IntImm, PrimExpr, Range, Sub, Var, const, convert
from ..ir.visit import post_order

# Extents of this size or larger count as unbounded.
_UNBOUNDED = 1 << 24


class IndexMap(Node, key="tir.IndexMap"):
    """A map from ``initial_indices`` to ``final_indices``. Pass ``inverse_index_map`` if it cannot be derived.

    Parameters
    ----------
    initial_indices : list of Var
        Variables for the indices of the source layout.
    final_indices : list of PrimExpr
        The indices of the target layout, as expressions of ``initial_indices``.
    inverse_index_map : IndexMap, optional
        The inverse map.
    """

    AXIS_SEPARATOR = "axis_separator"

    initial_indices: tuple[Var, ...]
    final_indices: tuple[PrimExpr, ...]
    inverse_index_map: Any = None

    # --- construction ---

    @staticmethod
    def from_func(mapping_function, ndim=None, inverse_index_map=None, *, index_dtype="int64") -> IndexMap:
        """The map that a function such as ``lambda i, j: [j, i]`` describes. For ``lambda *i: ...``, pass ``ndim``.

        Parameters
        ----------
        mapping_function : Callable
            The function that computes the target indices from the source indices.
        ndim : int, optional
            The number of source indices.
        inverse_index_map : Callable or IndexMap, optional
            The inverse map, if it cannot be derived.
        index_dtype : str
            The type of the indices.

        Returns
        -------
        IndexMap
            The map.

        Raises
        ------
        ExprValueError
            The output of the function contains separators, or ``ndim`` differs from its number of arguments.
        """
        index_map, separators = IndexMap.from_func_with_separators(
            mapping_function, ndim, inverse_index_map, index_dtype=index_dtype
        )
        if separators:
            raise ExprValueError(
                f"IndexMap: axis separators {separators} are not allowed here; use from_func_with_separators"
            )
        return index_map

    @staticmethod
    def from_func_with_separators(
        mapping_function: Any, ndim: int | None = None, inverse_index_map: Any = None, *, index_dtype: str = "int64"
    ) -> tuple[IndexMap, list[int]]:
        """Convert a function to a map and its axis separators: the positions of AXIS_SEPARATOR in the function's
        output.

        Parameters
        ----------
        mapping_function : Callable
            The function that computes the target indices from the source indices.
        ndim : int, optional
            The number of source indices.
        inverse_index_map : Callable or IndexMap, optional
            The inverse map, if it cannot be derived.
        index_dtype : str
            The type of the indices.

        Returns
        -------
        tuple
            The map and the positions of the separators.
        """
        variables, args, named = _arguments(mapping_function, ndim, index_dtype)
        indices, separators = [], []
        for value in _flat(mapping_function(*args, **named)):
            if isinstance(value, str) and value == IndexMap.AXIS_SEPARATOR:
                separators.append(len(indices))
            else:
                indices.append(convert(value))
        if callable(inverse_index_map) and not isinstance(inverse_index_map, IndexMap):
            inverse_index_map = IndexMap.from_func(inverse_index_map, ndim=len(indices), index_dtype=index_dtype)
        return IndexMap(tuple(variables), tuple(indices), inverse_index_map), separators

    # --- application ---

    def map_indices(self, indices: Sequence[Any]) -> list[PrimExpr]:
        """The target indices of the element at ``indices``.

        Parameters
        ----------
        indices : list of PrimExpr
            The indices.

        Returns
        -------
        list of PrimExpr
            The target indices.
        """
        self._check_rank(indices, "indices")
        table = {
            v: const(i, v.dtype) if isinstance(i, int) else convert(i) for v, i in zip(self.initial_indices, indices)
        }
        simplify = _analyzer({}).simplify
        return [simplify(_promoted(e, table)) for e in self.final_indices]

    def map_shape(self, shape: Sequence[Any]) -> list[PrimExpr]:
        """The smallest target shape that contains every element of ``shape``.

        Parameters
        ----------
        shape : list of PrimExpr
            The shape.

        Returns
        -------
        list of PrimExpr
            The target shape.
        """
        self._check_rank(shape, "dimensions")
        from ..arith.interval_set import eval_set

        # The domain is padded so that each split contains only complete blocks.
        domain = {v: _pad(v, r, self.final_indices) for v, r in self._domain(shape).items()}
        simplify = _analyzer(domain).simplify
        sets = [eval_set(e, domain) for e in self.final_indices]
        kinds = [convert(s).dtype for s in shape]
        dtype = kinds[0] if kinds and all(k == kinds[0] for k in kinds) else "int64"
        out = []
        for s in sets:
            extent = simplify(s.max_value + const(1, s.max_value.dtype))
            out.append(const(extent.value, dtype) if isinstance(extent, IntImm) else extent)
        return out

    def map_ranges(self, ranges: Sequence[Range], analyzer: Any = None) -> list[Range]:
        """Ranges in the target layout that contain every element of the given ranges. If an extent varies, its maximum
        is used.

        Parameters
        ----------
        ranges : list of Range
            The ranges.
        analyzer : Analyzer, optional
            The analyzer with the known bounds of the variables in the ranges.

        Returns
        -------
        list of Range
            The target ranges.
        """
        self._check_rank(ranges, "ranges")
        from ..arith.interval_set import eval_set

        analyzer = _analyzer({}) if analyzer is None else analyzer
        domain = dict(zip(self.initial_indices, ranges))
        out = []
        for index in self.final_indices:
            found = eval_set(index, domain, analyzer)
            low = analyzer.simplify(found.min_value)
            extent = analyzer.simplify(found.max_value - low + const(1, low.dtype))
            if not isinstance(extent, IntImm):
                most = analyzer.const_int_bound(extent).max_value
                extent = const(max(most, 0), low.dtype) if most < _UNBOUNDED else extent
            out.append(Range(min=low, extent=extent))
        return out

    def map_ndarray(self, arr_src: Any) -> Any:
        """An array (of NumPy or of the runtime) with its elements moved to their target positions; gaps are zero.

        Parameters
        ----------
        arr_src : NDArray or numpy.ndarray
            The array.

        Returns
        -------
        NDArray or numpy.ndarray
            The new array.
        """
        import numpy as np

        if hasattr(arr_src, "numpy"):
            from ..runtime.ndarray import array

            return array(self.map_ndarray(arr_src.numpy()))
        source = np.asarray(arr_src)
        shape = [int(s) for s in self.map_shape(source.shape)]
        grid = np.indices(source.shape)
        table = {v: grid[k] for k, v in enumerate(self.initial_indices)}
        out = np.zeros(shape, source.dtype)
        out[tuple(np.broadcast_to(_evaluate(e, table), source.shape) for e in self.final_indices)] = source
        return out

    def is_equivalent_to(self, other_map: IndexMap) -> bool:
        """Whether both maps map equal indices to equal indices.

        Parameters
        ----------
        other_map : IndexMap
            The other map.

        Returns
        -------
        bool
            True if they do.
        """
        if len(self.initial_indices) != len(other_map.initial_indices):
            return False
        if len(self.final_indices) != len(other_map.final_indices):
            return False
        analyzer = _analyzer({})
        others = other_map.map_indices(self.initial_indices)
        return all(analyzer.can_prove_equal(*primop.match_types(a, b)) for a, b in zip(self.final_indices, others))

    def inverse(self, shape: Sequence[Any]) -> IndexMap:
        """The inverse map for indices inside ``shape``. The map must be bijective on ``shape``; otherwise an error is
        raised.

        Parameters
        ----------
        shape : list of PrimExpr
            The shape.

        Returns
        -------
        IndexMap
            The inverse map.
        """
        if self.inverse_index_map is not None:
            return self.inverse_index_map
        domain = self._domain(shape)
        return self._invert(domain, self._outputs())

    def non_surjective_inverse(self, shape: Sequence[Any]) -> tuple[IndexMap, PrimExpr]:
        """The inverse map and the condition under which an index of the target layout is padding.

        Dimensions that are not divisible by their splits are padded to the next multiple.

        Parameters
        ----------
        shape : list of PrimExpr
            The shape.

        Returns
        -------
        tuple
            The inverse map and the condition.
        """
        self._check_rank(shape, "dimensions")
        domain = self._domain(shape)
        padded = {v: _pad(v, r, self.final_indices) for v, r in domain.items()}
        inverse = self._invert(padded, self._outputs())
        outputs = {o: Range(0, e) for o, e in zip(inverse.initial_indices, self._extents(padded))}
        padding: PrimExpr = const(False, "bool")
        for value, var in zip(inverse.final_indices, self.initial_indices):
            padding = primop.logical_or(padding, self._padding(var, value, domain[var], padded[var], outputs))
        return inverse, padding

    def _padding(self, var: Var, value: PrimExpr, dom: Range, padded: Range, outputs: dict[Var, Range]) -> PrimExpr:
        """Return the condition that ``value`` (the index ``var`` in terms of the outputs) is in ``padded`` but not in
        ``dom``.

        If ``var`` is split, the condition tests its outermost part: only its first and last blocks contain padding.
        """
        analyzer = _analyzer(outputs)
        if dom is padded:
            return const(False, "bool")
        low, high = dom.min.value, dom.min.value + dom.extent.value
        start, stop = padded.min.value, padded.min.value + padded.extent.value
        split = _outermost(var, self.final_indices)
        if split is None:
            below = primop.less(value, const(low, value.dtype)) if start < low else const(False, "bool")
            above = primop.greater_equal(value, const(high, value.dtype)) if high < stop else const(False, "bool")
            return primop.logical_or(analyzer.simplify(below), analyzer.simplify(above))
        position, offset, step = split
        outer = list(outputs)[position]
        inner = analyzer.simplify(value + const(offset, value.dtype) - outer * const(step, outer.dtype))
        condition: PrimExpr = const(False, "bool")
        for first, last, edge in ((start, low - 1, start), (high, stop - 1, stop - 1)):
            if first > last:
                continue
            block = (edge + offset) // step
            a, b = first + offset - block * step, last + offset - block * step
            if a == b and a > 0:
                within = primop.equal(const(a, inner.dtype), inner)
            else:
                within = primop.less(inner, b + 1) if a == 0 else primop.greater_equal(inner, a)
            here = analyzer.simplify(primop.equal(outer, const(block, outer.dtype)))
            condition = primop.logical_or(condition, primop.logical_and(here, within))
        return condition

    # --- helpers ---

    def _check_rank(self, items: Sequence[Any], what: str) -> None:
        if len(items) != len(self.initial_indices):
            raise ExprValueError(f"IndexMap: the map takes {len(self.initial_indices)} {what}, got {len(items)}")

    def _domain(self, shape: Sequence[Any]) -> dict[Var, Range]:
        self._check_rank(shape, "dimensions")
        out = {}
        for var, extent in zip(self.initial_indices, shape):
            if isinstance(extent, Range):
                out[var] = extent
            else:
                out[var] = Range.from_min_extent(const(0, var.dtype), _as(extent, var.dtype))
        return out

    def _outputs(self) -> list[Var]:
        return [Var(f"axis{k}", e.dtype) for k, e in enumerate(self.final_indices)]

    def _extents(self, domain: dict[Var, Range]) -> list[PrimExpr]:
        from ..arith.interval_set import eval_set

        return [eval_set(e, domain).max_value + 1 for e in self.final_indices]

    def _invert(self, domain: dict[Var, Range], outputs: list[Var]) -> IndexMap:
        from ..arith import detect_iter_map, inverse_affine_iter_map

        found = detect_iter_map(self.final_indices, domain, True, "bijective", simplify_trivial_iterators=False)
        if not found.indices:
            extents = ", ".join(str(r.extent) for r in domain.values())
            reasons = "; ".join(str(e) for e in found.errors)
            raise ExprValueError(f"IndexMap: {self} is not bijective on ({extents}): {reasons}")
        values = inverse_affine_iter_map(found.indices, outputs)
        simplify = _analyzer({}).simplify
        back = [simplify(_as(values.get(v, domain[v].min), v.dtype)) for v in self.initial_indices]
        return IndexMap(tuple(outputs), tuple(back))

    def __str__(self) -> str:
        return f"index_map(lambda {', '.join(v.name for v in self.initial_indices)}: {_list(self.final_indices)})"

    __repr__ = __str__


def _list(items) -> str:
    return f"({', '.join(str(i) for i in items)}{',' if len(items) == 1 else ''})"


def _arguments(function: Callable, ndim: int | None, dtype: str) -> tuple[list[Var], list[Var], dict[str, Var]]:
    """Return variables for the parameters of ``function``: all, the positional ones and the keyword ones."""
    args: list[Var] = []
    named: dict[str, Var] = {}
    rest = None
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind == inspect.Parameter.VAR_POSITIONAL:
            rest = parameter.name
        elif parameter.kind == inspect.Parameter.KEYWORD_ONLY:
            named[parameter.name] = Var(parameter.name, dtype)
        elif parameter.kind == inspect.Parameter.VAR_KEYWORD:
            raise ExprValueError("IndexMap: a mapping function must not have **keyword parameters")
        else:
            args.append(Var(parameter.name, dtype))
    if rest is not None:
        if ndim is None:
            raise ExprValueError(f"IndexMap: give ndim for a mapping function that takes *{rest}")
        args += [Var(f"{rest}_{k}", dtype) for k in range(ndim - len(args) - len(named))]
    if ndim is not None and ndim != len(args) + len(named):
        raise ExprValueError(f"IndexMap: the mapping function takes {len(args) + len(named)} indices, not {ndim}")
    return [*args, *named.values()], args, named


def _flat(values: Any) -> list:
    if not isinstance(values, (list, tuple)):
        return [values]
    out = []
    for v in values:
        out.extend(_flat(v) if isinstance(v, (list, tuple)) else [v])
    return out


def _as(value: Any, dtype: str) -> PrimExpr:
    return const(value, dtype) if isinstance(value, int) else primop.cast(dtype, convert(value))


def _analyzer(domain: dict[Var, Range]):
    from ..arith import Analyzer

    analyzer = Analyzer()
    for var, dom in domain.items():
        analyzer.bind(var, dom)
    return analyzer


def _promoted(e: PrimExpr, table: dict[Var, PrimExpr]) -> PrimExpr:
    """Replace variables by expressions, possibly of another type; expressions that contain them are rebuilt with that
    type."""
    new: dict[int, PrimExpr] = {}
    for node in post_order(e):
        build = primop.BUILD.get(type(node))
        if isinstance(node, Var):
            new[id(node)] = table.get(node, node)
        elif build is not None:
            new[id(node)] = build(new[id(node.a)], new[id(node.b)])
        else:
            new[id(node)] = node.map_children(lambda c: new[id(c)])
    return new[id(e)]


def _outermost(var: Var, indices: Sequence[PrimExpr]) -> tuple[int, int, int] | None:
    """Return (position, offset, step) of the index (var + offset) // step with the largest step."""
    best = None
    for k, index in enumerate(indices):
        if isinstance(index, FloorDiv) and isinstance(index.b, IntImm):
            offset = _offset(index.a, var)
            if offset is not None and (best is None or index.b.value > best[2]):
                best = (k, offset, index.b.value)
    return best


def _pad(var: Var, dom: Range, indices: Sequence[PrimExpr]) -> Range:
    """Extend ``dom`` so that it is a multiple of every divisor by which the indices divide ``var`` (plus a
    constant)."""
    if not (isinstance(dom.min, IntImm) and isinstance(dom.extent, IntImm)):
        return dom
    low, high = dom.min.value, dom.min.value + dom.extent.value
    for index in indices:
        for node in post_order(index):
            if isinstance(node, (FloorDiv, FloorMod)) and isinstance(node.b, IntImm):
                offset = _offset(node.a, var)
                if offset is not None:
                    step = node.b.value
                    low = min(low, (low + offset) // step * step - offset)
                    high = max(high, -(-(high + offset) // step) * step - offset)
    if (low, high) == (dom.min.value, dom.min.value + dom.extent.value):
        return dom
    return Range(min=const(low, var.dtype), extent=const(high - low, var.dtype))


def _offset(e: PrimExpr, var: Var) -> int | None:
    """Return c if ``e`` is var + c, else None."""
    if e is var:
        return 0
    if isinstance(e, (Add, Sub)) and e.a is var and isinstance(e.b, IntImm):
        return e.b.value if isinstance(e, Add) else -e.b.value
    return None


def _evaluate(e: PrimExpr, table: dict[Var, Any]) -> Any:
    """Evaluate an integer expression on NumPy arrays."""
    import numpy as np

    values: dict[int, Any] = {}
    for node in post_order(e):
        if isinstance(node, Var):
            values[id(node)] = table[node]
        elif isinstance(node, IntImm):
            values[id(node)] = np.int64(node.value)
        else:
            operands = [values[id(c)] for c in node.children()]
            values[id(node)] = _NUMPY[type(node).__name__](np, *operands)
    return values[id(e)]


_NUMPY: dict[str, Callable] = {
    "Add": lambda np, a, b: a + b,
    "Sub": lambda np, a, b: a - b,
    "Mul": lambda np, a, b: a * b,
    "FloorDiv": lambda np, a, b: a // b,
    "FloorMod": lambda np, a, b: a % b,
    "Min": lambda np, a, b: np.minimum(a, b),
    "Max": lambda np, a, b: np.maximum(a, b),
    "EQ": lambda np, a, b: a == b,
    "NE": lambda np, a, b: a != b,
    "LT": lambda np, a, b: a < b,
    "LE": lambda np, a, b: a <= b,
    "GT": lambda np, a, b: a > b,
    "GE": lambda np, a, b: a >= b,
    "Select": lambda np, c, a, b: np.where(c, a, b),
    "Cast": lambda np, a: a,
}

__all__ = ["IndexMap"]

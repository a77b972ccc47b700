"""Stable sorting along an axis: equal elements keep their order in both directions. NaN counts as the largest value: it
is last in ascending and first in descending order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import te, tir
from ..dtype import canonical, info
from ..error import ExprValueError
from ..ir import primop
from ..ir.prim import IntImm, PrimExpr, const, convert
from ..target import Target
from ..tir.ir_builder import BufferVar, IRBuilder, create
from . import utils
from .assumptions import assume
from .gpu.sort import Lines, sort_lines
from .loops import nest
from .scan import cumsum
from .utils import check_tensor, normalize_axis

# With fewer elements, one thread sorts faster than other threads are woken.
_PARALLEL = 1 << 15


def comes_before(a: PrimExpr, b: PrimExpr, ascend: bool) -> PrimExpr:
    """Return the condition that ``a`` must precede ``b``; false for equal elements."""
    if not info(a.dtype).is_float:
        return a < b if ascend else a > b
    if ascend:
        return tir.any(a < b, tir.all(te.isnan(b), primop.logical_not(te.isnan(a))))
    return tir.any(a > b, tir.all(te.isnan(a), primop.logical_not(te.isnan(b))))


def merge_sort(ib: IRBuilder, keys: BufferVar, places: BufferVar, n: PrimExpr, ascend: bool) -> PrimExpr:
    """Sort the first ``n`` elements of ``keys`` and reorder ``places`` with them. Both buffers have room for twice as
    many elements. Return the index at which the result starts."""
    # Runs of ``width`` elements are merged pairwise from one half of the buffer into the other, until one run remains.
    width, source, left, right = (
        ib.allocate("int32", (1,), name=name, scope="local") for name in ("width", "source", "left", "right")
    )
    width[0], source[0] = 1, 0
    room = utils.simplify(keys._buffer.shape[0] // 2)
    with ib.while_loop(width[0] < n):
        other = room - source[0]
        with ib.for_range(0, tir.ceildiv(n, width[0] * 2), name="run") as run:
            begin = run * width[0] * 2
            middle, end = te.min(begin + width[0], n), te.min(begin + width[0] * 2, n)
            left[0], right[0] = begin, middle
            with ib.for_range(0, end - begin, name="step") as step:
                at_left, at_right = source[0] + left[0], source[0] + right[0]
                right_first = te.if_then_else(
                    left[0] >= middle,
                    const(True, "bool"),
                    te.if_then_else(
                        right[0] >= end, const(False, "bool"), comes_before(keys[at_right], keys[at_left], ascend)
                    ),
                )
                with ib.if_scope(right_first):
                    keys[other + begin + step] = keys[at_right]
                    places[other + begin + step] = places[at_right]
                    right[0] = right[0] + 1
                with ib.else_scope():
                    keys[other + begin + step] = keys[at_left]
                    places[other + begin + step] = places[at_left]
                    left[0] = left[0] + 1
        source[0] = other
        width[0] = width[0] * 2
    return source[0]


def sorted_parts(
    data, axis, ascend, count, outputs: dict[str, str], valid_count=None, name="sort", *, gpu: Target | None = None
) -> list[te.Tensor]:
    """Return the first ``count`` sorted elements: "values", "indices" or both, each with its dtype. With ``gpu``, many
    threads sort each row."""
    axis = normalize_axis(axis, len(data.shape), name)
    n = data.shape[axis]
    others = [dim for place, dim in enumerate(data.shape) if place != axis]
    shape = [*data.shape[:axis], convert(count), *data.shape[axis + 1 :]]
    if gpu is not None and _fits_threads(data.shape):
        return _sorted_on_gpu(data, axis, ascend, shape, outputs, valid_count, name, gpu)

    def statement(ins, outs):
        ib = create()
        source = ib.buffer_ptr(ins[0])
        results = {kind: ib.buffer_ptr(out) for kind, out in zip(outputs, outs)}

        def line(indices):
            keys = ib.allocate(data.dtype, (n * 2,), name="keys")
            places = ib.allocate("int32", (n * 2,), name="places")
            with ib.for_range(0, n, name="fill") as i:
                keys[i] = source[(*indices[:axis], i, *indices[axis:])]
                places[i] = i
            length = n
            if valid_count is not None:
                given = ib.buffer_ptr(ins[1])[tuple(indices[: len(valid_count.shape)])]
                length = te.max(te.min(primop.cast("int32", given), n), 0)
            begin = merge_sort(ib, keys, places, length, ascend)
            with ib.for_range(0, te.min(convert(count), n), name="out") as i:
                # Elements after the valid ones stay in place.
                at = begin + i if valid_count is None else te.if_then_else(i < length, begin + i, i)
                target = (*indices[:axis], i, *indices[axis:])
                if "values" in results:
                    results["values"][target] = keys[at]
                if "indices" in results:
                    results["indices"][target] = primop.cast(outputs["indices"], places[at])

        nest(ib, others, line, "parallel" if _worth_threads(data.shape, others) else "serial", True)
        return ib.get()

    inputs = [data] if valid_count is None else [data, valid_count]
    shapes, dtypes = [tuple(shape)] * len(outputs), list(outputs.values())
    made = te.extern(shapes, inputs, statement, dtype=dtypes, name=name, tag=name)
    return made if isinstance(made, list) else [made]


def _sorted_on_gpu(
    data, axis: int, ascend: bool, shape: list, outputs: dict[str, str], valid_count, name: str, gpu: Target
) -> list[te.Tensor]:
    """Return ``sorted_parts`` computed by many threads of a GPU."""
    others = [dim for place, dim in enumerate(data.shape) if place != axis]

    def statement(ins, outs):
        ib = create()
        source = ib.buffer_ptr(ins[0])
        results = {kind: ib.buffer_ptr(out) for kind, out in zip(outputs, outs)}

        def at(line, i):
            indices = _unfold(line, others)
            return (*indices[:axis], i, *indices[axis:])

        def length(line):
            return primop.cast("int32", ib.buffer_ptr(ins[1])[tuple(_unfold(line, others)[: len(valid_count.shape)])])

        def write(line, i, key, place):
            if "values" in results:
                results["values"][at(line, i)] = key
            if "indices" in results:
                results["indices"][at(line, i)] = primop.cast(outputs["indices"], place)

        lines = Lines(
            utils.simplify(utils.prod(others)), data.shape[axis], te.min(shape[axis], data.shape[axis]), data.dtype,
            lambda a, b: comes_before(a, b, ascend), lambda line, i: source[at(line, i)], write,
            None if valid_count is None else length, "indices" in outputs,
        )  # fmt: skip
        sort_lines(ib, lines, gpu)
        return ib.get()

    inputs = [data] if valid_count is None else [data, valid_count]
    shapes, dtypes = [tuple(shape)] * len(outputs), list(outputs.values())
    made = te.extern(shapes, inputs, statement, dtype=dtypes, name=name, tag=name)
    return made if isinstance(made, list) else [made]


def _unfold(number: PrimExpr, shape: list) -> list[PrimExpr]:
    """Return the indices of the ``number``-th element of a shape."""
    indices = []
    for place, dim in reversed(list(enumerate(shape))):
        indices.append(te.indexmod(number, dim) if place else number)
        number = te.indexdiv(number, dim)
    return indices[::-1]


def _fits_threads(shape: Any) -> bool:
    """Return whether, as far as is known, there are elements and all their indices fit 32 bits."""
    return 0 < utils.prod(dim.value for dim in shape if isinstance(dim, IntImm)) < 1 << 29


def _worth_threads(shape: Any, others: list) -> bool:
    known = all(isinstance(dim, IntImm) for dim in shape)
    return known and bool(others) and others[0].value > 1 and utils.prod(d.value for d in shape) >= _PARALLEL


def _check(data: Any, name: str) -> None:
    check_tensor(data, name)
    if not data.shape:
        raise ExprValueError(f"{name}: a tensor of 0 dimensions has no axis to sort along")


def sort(data, axis=-1, is_ascend=1, *, gpu=None):
    """The elements along ``axis`` in sorted order."""
    _check(data, "sort")
    n = data.shape[normalize_axis(axis, len(data.shape), "sort")]
    return sorted_parts(data, axis, bool(is_ascend), n, {"values": data.dtype}, gpu=gpu)[0]


def argsort(data, valid_count=None, axis=-1, is_ascend=1, dtype="float32", *, gpu=None):
    """The indices of the elements along ``axis`` in sorted order. With ``valid_count`` only that many elements of each
    row are sorted; the others stay in place.

    Raises
    ------
    ExprValueError
        The counts do not have one dimension less than the data.
    """
    _check(data, "argsort")
    n = data.shape[normalize_axis(axis, len(data.shape), "argsort")]
    if valid_count is not None and len(valid_count.shape) >= len(data.shape):
        raise ExprValueError(
            f"argsort: the counts have {len(valid_count.shape)} dimensions, the data {len(data.shape)}; expected one "
            "dimension less"
        )
    outputs = {"indices": canonical(dtype)}
    return sorted_parts(data, axis, bool(is_ascend), n, outputs, valid_count, "argsort", gpu=gpu)[0]


def topk(data, k=1, axis=-1, ret_type="both", is_ascend=False, dtype="int64", *, gpu=None):
    """The ``k`` largest (or smallest) elements along ``axis`` in sorted order: values, indices or both. All elements if
    k is less than 1.

    Raises
    ------
    ExprValueError
        ``ret_type`` is not both, values or indices.
    """
    _check(data, "topk")
    if ret_type not in ("both", "values", "indices"):
        raise ExprValueError(f"topk: ret_type must be both, values or indices, got '{ret_type}'")
    n = data.shape[normalize_axis(axis, len(data.shape), "topk")]
    outputs = {}
    if ret_type != "indices":
        outputs["values"] = data.dtype
    if ret_type != "values":
        outputs["indices"] = canonical(dtype)
    made = sorted_parts(data, axis, bool(is_ascend), _count(k, n), outputs, name="topk", gpu=gpu)
    return made if ret_type == "both" else made[0]


def _count(k: Any, n: PrimExpr) -> PrimExpr:
    if isinstance(k, te.Tensor):
        return te.size_var("k")
    k = convert(k)
    if not isinstance(k, IntImm):
        return k
    if k.value < 1:
        return n
    assume(n >= k, f"a dimension with at least {k} elements")
    if isinstance(n, IntImm) and k.value > n.value:
        raise ExprValueError(f"topk: k is {k.value}, but the dimension has only {n.value} elements")
    return k


def searchsorted(sorted_sequence, values, right=False, out_dtype="int64"):
    """The index at which each value would be inserted into a sorted vector, or into the corresponding row: before equal
    elements, or after them with ``right``.

    Raises
    ------
    ExprValueError
        The sequence has no dimensions, or its rows do not match those of the values.
    """
    check_tensor(sorted_sequence, "searchsorted"), check_tensor(values, "searchsorted")
    if not sorted_sequence.shape:
        raise ExprValueError("searchsorted: the sorted sequence needs at least one dimension")
    rows = len(sorted_sequence.shape) - 1
    if rows and len(values.shape) != rows + 1:
        raise ExprValueError(
            f"searchsorted: sequences of {rows + 1} dimensions do not match values of {len(values.shape)}"
        )
    n = sorted_sequence.shape[-1]
    out_dtype = canonical(out_dtype)

    def statement(ins, outs):
        ib = create()
        sequence, wanted, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(ins[1]), ib.buffer_ptr(outs[0])

        def one(indices):
            value = wanted[tuple(indices)]
            low, high = (ib.allocate("int32", (1,), name=name, scope="local") for name in ("low", "high"))
            low[0], high[0] = 0, n
            with ib.while_loop(low[0] < high[0]):
                middle = (low[0] + high[0]) // 2
                element = sequence[(*indices[:rows], middle)]
                passed = primop.logical_not(comes_before(value, element, True)) if right else None
                with ib.if_scope(passed if right else comes_before(element, value, True)):
                    low[0] = middle + 1
                with ib.else_scope():
                    high[0] = middle
            result[tuple(indices)] = primop.cast(out_dtype, low[0])

        nest(ib, values.shape, one, independent_axes=True)
        return ib.get()

    return te.extern(
        [tuple(values.shape)], [sorted_sequence, values], statement, dtype=out_dtype, name="searchsorted",
        tag="searchsorted",
    )  # fmt: skip


def unique(data, is_sorted=True, return_counts=False, *, gpu=None):
    """The unique elements of a vector: [elements, index of the first occurrence of each, for each input element the
    index of its unique value, number of unique values, (number of occurrences of each)]. All vectors have the length of
    ``data``; entries after the last unique value are zero. Values are in sorted order if ``is_sorted``, else in order
    of appearance.

    Raises
    ------
    ExprValueError
        The data is not a vector.
    """
    check_tensor(data, "unique")
    if len(data.shape) != 1:
        raise ExprValueError(f"unique: data must be a vector, got {len(data.shape)} dimensions")
    n = data.shape[0]
    whole, one = (n,), (convert(1),)
    shapes = [whole, whole, whole, one, *([whole] if return_counts else [])]
    dtypes = [data.dtype, *["int32"] * (len(shapes) - 1)]
    if gpu is not None and _fits_threads(data.shape):
        inputs, statement = _unique_on_gpu(data, n, is_sorted, gpu)
        return te.extern(shapes, inputs, statement, dtype=dtypes, name="unique", tag="unique")
    statement = _unique_statement(data, n, is_sorted)
    return te.extern(shapes, [data], statement, dtype=dtypes, name="unique", tag="unique")


def _unique_statement(data: te.Tensor, n: PrimExpr, is_sorted: bool) -> Callable:
    def statement(ins, outs):
        ib = create()
        source = ib.buffer_ptr(ins[0])
        elements, firsts, inverse, total, *counts = [ib.buffer_ptr(out) for out in outs]
        with ib.for_range(0, n, name="clear") as i:
            elements[i], firsts[i] = const(0, data.dtype), 0
            if counts:
                counts[0][i] = 0
        keys, places = ib.allocate(data.dtype, (n * 2,), name="keys"), ib.allocate("int32", (n * 2,), name="places")
        with ib.for_range(0, n, name="fill") as i:
            keys[i], places[i] = source[i], i
        begin = merge_sort(ib, keys, places, n, True)
        # Groups of equal elements in sorted order. The sort is stable, so each group starts with its first occurrence.
        group, ranks = ib.allocate("int32", (1,), name="group", scope="local"), None
        group[0] = -1
        if not is_sorted:
            ranks = _ranks_by_appearance(ib, keys, places, n, begin)
        with ib.for_range(0, n, name="scan") as i:
            fresh = _fresh(keys, begin, i)
            with ib.if_scope(fresh):
                group[0] = group[0] + 1
            place = places[begin + i]
            number = group[0] if ranks is None else ranks[group[0]]
            with ib.if_scope(fresh):
                elements[number] = keys[begin + i]
                firsts[number] = place
            inverse[place] = number
            if counts:
                counts[0][number] = counts[0][number] + 1
        total[0] = group[0] + 1
        return ib.get()

    return statement


def _fresh(keys: BufferVar, begin: PrimExpr, i: PrimExpr) -> PrimExpr:
    """Return the condition that the ``i``-th sorted element is the first of its value."""
    before = keys[begin + te.max(i - 1, 0)]
    return tir.any(i < 1, comes_before(before, keys[begin + i], True))


def _ranks_by_appearance(ib: IRBuilder, keys: BufferVar, places: BufferVar, n: PrimExpr, begin: PrimExpr) -> BufferVar:
    """Return, for each group in sorted order, the number of groups that appear before it in the data."""
    is_first, ranks = ib.allocate("int32", (n,), name="is_first"), ib.allocate("int32", (n,), name="ranks")
    group = ib.allocate("int32", (1,), name="ranked", scope="local")
    with ib.for_range(0, n, name="mark") as i:
        is_first[i] = 0
    with ib.for_range(0, n, name="mark") as i:
        with ib.if_scope(_fresh(keys, begin, i)):
            is_first[places[begin + i]] = 1
    group[0] = 0
    with ib.for_range(0, n, name="count") as i:
        group[0] = group[0] + is_first[i]
        is_first[i] = group[0] - 1
    group[0] = 0
    with ib.for_range(0, n, name="rank") as i:
        with ib.if_scope(_fresh(keys, begin, i)):
            ranks[group[0]] = is_first[places[begin + i]]
            group[0] = group[0] + 1
    return ranks


def _unique_on_gpu(data: te.Tensor, n: PrimExpr, is_sorted: bool, gpu: Target) -> tuple[list[te.Tensor], Callable]:
    """Return ``unique`` computed by many threads. In sorted order, the group of an element is the number of preceding
    elements that are the first of their value; in order of appearance, it is the same number for the positions of the
    first elements."""
    outputs = {"values": data.dtype, "indices": "int32"}
    keys, places = sorted_parts(data, 0, True, n, outputs, name="unique_sorted", gpu=gpu)

    def is_fresh(i):
        return primop.cast("int32", tir.any(i < 1, comes_before(keys(te.max(i - 1, 0)), keys(i), True)))

    fresh = te.compute((n,), is_fresh, name="unique_fresh", tag="injective")
    groups = cumsum(fresh, gpu=gpu)

    def mark(ins, outs):
        ib = create()
        flags, numbers, order = (ib.buffer_ptr(b) for b in ins)
        begins, heads, appears = (ib.buffer_ptr(b) for b in outs)

        def one(i):
            place, group = order[i[0]], numbers[i[0]] - 1
            with ib.if_scope(primop.not_equal(flags[i[0]], 0)):
                begins[group], heads[group] = i[0], place
            appears[place] = flags[i[0]]

        nest(ib, [n], one, independent_axes=True)
        return ib.get()

    begins, heads, appears = te.extern(
        [(n,)] * 3, [fresh, groups, places], mark, dtype=["int32"] * 3, name="unique_groups", tag="unique_groups"
    )
    inputs = [keys, places, fresh, groups, begins, *([] if is_sorted else [heads, cumsum(appears, gpu=gpu)])]
    return inputs, lambda ins, outs: _put_unique(ins, outs, n)


def _put_unique(ins: list, outs: list, n: PrimExpr) -> Any:
    ib = create()
    keys, places, fresh, groups, begins, *by_appearance = (ib.buffer_ptr(b) for b in ins)
    elements, firsts, inverse, total, *counts = (ib.buffer_ptr(b) for b in outs)

    def one(i):
        at, group, found = i[0], groups[i[0]] - 1, groups[n - 1]
        number = group
        if by_appearance:
            heads, appears = by_appearance
            number = appears[heads[group]] - 1
        inverse[places[at]] = number
        with ib.if_scope(primop.not_equal(fresh[at], 0)):
            elements[number], firsts[number] = keys[at], places[at]
            if counts:
                counts[0][number] = te.if_then_else(group + 1 < found, begins[group + 1], n) - at
        with ib.if_scope(at >= found):
            elements[at], firsts[at] = const(0, elements.dtype), 0
            if counts:
                counts[0][at] = 0

    def last(i):
        total[i[0]] = te.if_then_else(n > 0, groups[te.max(n - 1, 0)], 0)

    nest(ib, [n], one, independent_axes=True)
    nest(ib, [1], last, independent_axes=True)
    return ib.get()


__all__ = ["argsort", "searchsorted", "sort", "topk", "unique"]

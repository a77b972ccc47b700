"""Non-maximum suppression: removes boxes that overlap boxes with higher scores."""

from __future__ import annotations

from typing import Any

from ... import te, tir
from ...error import ExprTypeError, ExprValueError
from ...ir import primop
from ...ir.prim import IntImm, PrimExpr, const
from ...target import Target
from ...tir.ir_builder import create
from ..assumptions import agree
from ..loops import INDEPENDENT, nest
from ..scan import cumsum
from ..sort import argsort, merge_sort, sorted_parts
from ..utils import check_tensor, equal_const_int, get_const_int, prod, simplify
from .boxes import Numbers, crew, overlap, suppress

# With fewer scores, one thread finishes before other threads are woken.
_PARALLEL = 1 << 15


def store_once(ib, thread, buffer, index, value) -> None:
    """Store a value that all threads of an image have, by its first thread only."""
    with ib.if_scope(thread < 1):
        buffer[index] = value


def _check_boxes(data: Any, what: str, least: int) -> None:
    check_tensor(data, what)
    if len(data.shape) != 3 or get_const_int(data.shape[2]) < least:
        raise ExprValueError(f"{what}: boxes must be (batch, number, at least {least} values), got {list(data.shape)}")


def get_valid_counts(data, score_threshold=0, id_index=0, score_index=1, *, gpu=None):
    """[the number of boxes of each batch whose score is above the threshold (and whose class is not negative), those
    boxes moved to the front, their original indices]. The remaining entries are -1."""
    _check_boxes(data, "get_valid_counts", 1)
    batch, n, width = data.shape
    numbers = Numbers({"score_threshold": (score_threshold, data.dtype)}, "get_valid_counts")
    if gpu is not None:
        return _valid_counts_parallel(data, numbers, id_index, score_index, gpu)

    def statement(ins, outs):
        ib = create()
        source = ib.buffer_ptr(ins[0])
        counts, boxes, places = (ib.buffer_ptr(out) for out in outs)
        threshold = numbers.read(ib, ins[1:])["score_threshold"]
        with ib.for_range(0, batch, name="b", annotations={INDEPENDENT: 1}) as b:
            found = ib.allocate("int32", (1,), name="found", scope="local")
            found[0] = 0
            with ib.for_range(0, n, name="box") as i:
                valid = source[b, i, score_index] > threshold
                if id_index >= 0:
                    valid = tir.all(valid, source[b, i, id_index] >= const(0, data.dtype))
                with ib.if_scope(valid):
                    with ib.for_range(0, width, name="v") as v:
                        boxes[b, found[0], v] = source[b, i, v]
                    places[b, found[0]] = i
                    found[0] = found[0] + 1
            counts[b] = found[0]
            with ib.for_range(0, n - found[0], name="rest") as rest:
                with ib.for_range(0, width, name="v") as v:
                    boxes[b, found[0] + rest, v] = const(-1, data.dtype)
                places[b, found[0] + rest] = -1
        return ib.get()

    return te.extern(
        [(batch,), tuple(data.shape), (batch, n)], [data, *numbers.tensors.values()], statement,
        dtype=["int32", data.dtype, "int32"], name="get_valid_counts", tag="get_valid_counts",
    )  # fmt: skip


def _valid_counts_parallel(data, numbers: Numbers, id_index: int, score_index: int, gpu: Target):
    """Compute ``get_valid_counts`` so that each box finds its position independently: it is the number of valid boxes
    before it."""
    batch, n, width = data.shape

    def mark(ins, outs):
        ib = create()
        source, valid = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        threshold = numbers.read(ib, ins[1:])["score_threshold"]

        def one(i):
            good = source[(*i, score_index)] > threshold
            if id_index >= 0:
                good = tir.all(good, source[(*i, id_index)] >= const(0, data.dtype))
            valid[tuple(i)] = primop.cast("int32", good)

        nest(ib, (batch, n), one, independent_axes=True)
        return ib.get()

    inputs = [data, *numbers.tensors.values()]
    valid = te.extern([(batch, n)], inputs, mark, dtype="int32", name="valid", tag="valid")
    before = cumsum(valid, 1, gpu=gpu)

    def put(ins, outs):
        ib = create()
        source, marks, numbers_to = (ib.buffer_ptr(b) for b in ins)
        counts, boxes, places = (ib.buffer_ptr(out) for out in outs)

        def one(i):
            b, box = i
            found = numbers_to[b, n - 1]
            with ib.if_scope(primop.not_equal(marks[b, box], 0)):
                with ib.for_range(0, width, name="v") as v:
                    boxes[b, numbers_to[b, box] - 1, v] = source[b, box, v]
                places[b, numbers_to[b, box] - 1] = box
            with ib.if_scope(box >= found):
                with ib.for_range(0, width, name="v") as v:
                    boxes[b, box, v] = const(-1, data.dtype)
                places[b, box] = -1
            store_once(ib, box, counts, b, found)

        nest(ib, (batch, n), one, independent_axes=True)
        return ib.get()

    return te.extern(
        [(batch,), tuple(data.shape), (batch, n)], [data, valid, before], put,
        dtype=["int32", data.dtype, "int32"], name="get_valid_counts", tag="get_valid_counts",
    )  # fmt: skip


def non_max_suppression(
    data, valid_count, indices, max_output_size=-1, iou_threshold=0.5, force_suppress=False, top_k=-1, coord_start=2,
    score_index=1, id_index=0, return_indices=True, invalid_to_bottom=False, *, gpu=None,
):  # fmt: skip
    """Of the first ``valid_count`` boxes of each batch, by descending score: those that do not overlap a better one (of
    the same class, unless ``force_suppress``) by ``iou_threshold`` or more.

    With ``return_indices``: [the entries of ``indices`` for the selected boxes, followed by -1; their number (batch,
    1)]. Otherwise: the boxes by descending score, with -1 in all values of suppressed boxes, or with selected boxes in
    front if ``invalid_to_bottom``.

    Raises
    ------
    ExprValueError
        The counts or indices do not match the number of boxes.
    """
    _check_boxes(data, "non_max_suppression", coord_start + 4)
    check_tensor(valid_count, "non_max_suppression"), check_tensor(indices, "non_max_suppression")
    batch, n, width = data.shape
    for own, whole in ((valid_count.shape[0], batch), (indices.shape[0], batch), (indices.shape[1], n)):
        if not agree(own, whole, "counts and indices for as many boxes as the data has"):
            raise ExprValueError(
                f"non_max_suppression: counts and indices must be for {batch} times {n} boxes, got {own}"
            )
    scores = te.compute((batch, n), lambda b, i: data(b, i, score_index), name="scores", tag="elemwise")
    order = argsort(scores, valid_count, 1, False, "int32", gpu=gpu)
    given = {"max_output_size": (max_output_size, "int32"), "iou_threshold": (iou_threshold, data.dtype)}
    numbers = Numbers(given, "non_max_suppression")
    by_class = id_index >= 0 and not force_suppress
    front = return_indices or invalid_to_bottom

    def statement(ins, outs):
        ib = create()
        boxes, counts, places, sequence = (ib.buffer_ptr(b) for b in ins[:4])
        results = [ib.buffer_ptr(out) for out in outs]
        given = numbers.read(ib, ins[4:])
        limit = tir.Select(given["max_output_size"] > 0, given["max_output_size"], const(-1, "int32"))
        alive = ib.allocate("int32", (batch, n), name="alive")
        workers = crew(ib, batch, gpu)
        with workers.item() as b:
            total = te.max(te.min(primop.cast("int32", counts[b]), n), 0)
            considered = te.min(total, top_k) if top_k > 0 else total
            with workers.each(n, "i") as i:
                box = sequence[b, i]
                valid = boxes[b, box, score_index] > const(0, data.dtype)
                if id_index >= 0:
                    valid = tir.all(valid, boxes[b, box, id_index] >= const(0, data.dtype))
                alive[b, i] = primop.cast("int32", tir.all(i < considered, valid))
                if return_indices:
                    results[0][b, i] = -1
                else:
                    with ib.for_range(0, width, name="v") as v:
                        results[0][b, i, v] = const(-1, data.dtype)

            workers.wait()

            def corners(i):
                return [boxes[b, sequence[b, i], coord_start + side] for side in range(4)]

            def overlaps(i, j):
                over = overlap(corners(i), corners(j)) >= given["iou_threshold"]
                if by_class:
                    first, second = boxes[b, sequence[b, i], id_index], boxes[b, sequence[b, j], id_index]
                    over = tir.all(primop.equal(first, second), over)
                return over

            def keep(i, number):
                if return_indices:
                    results[0][b, number] = places[b, sequence[b, i]]
                    return
                with ib.for_range(0, width, name="v") as v:
                    results[0][b, number if front else i, v] = boxes[b, sequence[b, i], v]

            kept = suppress(ib, considered, alive, limit, overlaps, keep, workers, (b,))
            if return_indices:
                with workers.one():
                    results[1][b, 0] = kept[0]
        return ib.get()

    shapes = [(batch, n), (batch, 1)] if return_indices else [tuple(data.shape)]
    dtypes = ["int32", "int32"] if return_indices else [data.dtype]
    return te.extern(
        shapes, [data, valid_count, indices, order, *numbers.tensors.values()], statement, dtype=dtypes,
        name="non_max_suppression", tag="non_max_suppression",
    )  # fmt: skip


def all_class_non_max_suppression(
    boxes, scores, max_output_boxes_per_class, iou_threshold, score_threshold, output_format="onnx", *, gpu=None
):
    """Non-maximum suppression in each class separately: ``boxes`` (batch, n, 4) by opposite corners, ``scores`` (batch,
    classes, n).

    onnx: [(batch, class, box) of the selected boxes, by batch, class and descending score, followed by -1; their number
    (1,)]. tensorflow: [(class, box) for each batch by descending score; their scores; their number for each batch].

    Raises
    ------
    ExprValueError
        The scores are not (batch, classes, n), or the output format is unknown.
    ExprTypeError
        Boxes and scores have different dtypes.
    """
    _check_boxes(boxes, "all_class_non_max_suppression", 4)
    check_tensor(scores, "all_class_non_max_suppression")
    if len(scores.shape) != 3:
        raise ExprValueError(
            f"all_class_non_max_suppression: scores must be (batch, classes, n), got {list(scores.shape)}"
        )
    for own, whole in ((boxes.shape[0], scores.shape[0]), (boxes.shape[1], scores.shape[2])):
        if not agree(own, whole, "boxes against scores"):
            raise ExprValueError(f"all_class_non_max_suppression: boxes {own} and scores {whole} do not match")
    if scores.dtype != boxes.dtype:
        raise ExprTypeError(f"all_class_non_max_suppression: boxes are {boxes.dtype}, but scores are {scores.dtype}")
    if output_format not in ("onnx", "tensorflow"):
        raise ExprValueError(
            f"all_class_non_max_suppression: the output format must be onnx or tensorflow, got '{output_format}'"
        )
    given = {
        "limit": (max_output_boxes_per_class, "int64"), "iou": (iou_threshold, boxes.dtype),
        "score": (score_threshold, boxes.dtype),
    }  # fmt: skip
    numbers = Numbers(given, "all_class_non_max_suppression")
    build = _onnx_result if output_format == "onnx" else _tensorflow_result
    return build(boxes, scores, numbers, gpu)


def _suppress_class(ib, given: dict, boxes: Any, box_at, candidates: PrimExpr, n: PrimExpr, alive, on_keep, **crew):
    """Suppress boxes in one class: ``box_at(i)`` is the i-th of its ``candidates``, whose corners are in ``boxes``.
    There are ``n`` boxes."""

    def corners(i):
        return [boxes(box_at(i), side) for side in range(4)]

    def overlaps(i, j):
        return overlap(corners(i), corners(j)) > given["iou"]

    # The requested number of boxes may exceed the number of boxes.
    limit = primop.cast("int32", te.min(te.max(given["limit"], 0), primop.cast("int64", n)))
    return suppress(ib, candidates, alive, limit, overlaps, on_keep, **crew)


def _chosen(boxes, scores, numbers: Numbers, gpu: Target | None):
    """Return [the selected boxes of each class, by descending score; their number]."""
    batch, classes, _ = scores.shape
    inputs, body = [boxes, scores], _choose
    if gpu is not None and not equal_const_int(simplify(prod(scores.shape)), 0):
        inputs, body = [*inputs, argsort(scores, None, 2, False, "int32", gpu=gpu)], _choose_parallel

    def statement(ins, outs):
        ib = create()
        given = numbers.read(ib, ins[len(inputs) :])
        body(ib, scores, given, [ib.buffer_ptr(b) for b in (*ins[: len(inputs)], *outs)], gpu)
        return ib.get()

    return te.extern(
        [tuple(scores.shape), (batch, classes)], [*inputs, *numbers.tensors.values()], statement,
        dtype=["int32", "int32"], name="chosen", tag="chosen",
    )  # fmt: skip


def _choose(ib, scores: te.Tensor, given: dict, buffers: list, gpu: Target | None) -> None:
    """Process each class in one thread: boxes above the threshold, usually few, are gathered and sorted."""
    boxes, values, chosen, counts = buffers
    batch, classes, n = scores.shape
    count = simplify(prod(scores.shape))
    is_serial = gpu is not None or isinstance(count, IntImm) and count.value < _PARALLEL

    def one(line):
        b, c = te.indexdiv(line[0], _at_least_one(classes)), te.indexmod(line[0], _at_least_one(classes))
        keys = ib.allocate(scores.dtype, (n * 2,), name="keys")
        places = ib.allocate("int32", (n * 2,), name="places")
        alive = ib.allocate("int32", (n,), name="alive")
        found = ib.allocate("int32", (1,), name="found", scope="local")
        found[0] = 0
        with ib.for_range(0, n, name="box") as i:
            with ib.if_scope(values[b, c, i] > given["score"]):
                keys[found[0]], places[found[0]] = values[b, c, i], i
                alive[found[0]] = 1
                found[0] = found[0] + 1
        begin = merge_sort(ib, keys, places, found[0], False)

        def keep(i, number):
            chosen[b, c, number] = places[begin + i]

        kept = _suppress_class(ib, given, lambda box, side: boxes[b, box, side], lambda i: places[begin + i], found[0],
                               n, alive, keep)  # fmt: skip
        counts[b, c] = kept[0]

    nest(ib, [simplify(batch * classes)], one, "serial" if is_serial else "parallel", True)


def _choose_parallel(ib, scores: te.Tensor, given: dict, buffers: list, gpu: Target) -> None:
    """Process the sorted boxes of a class with a block of threads."""
    boxes, values, sequence, chosen, counts = buffers
    batch, classes, n = scores.shape
    alive = ib.allocate("int32", (batch, classes, n), name="alive")
    workers = crew(ib, simplify(batch * classes), gpu)
    with workers.item() as line:
        b, c = te.indexdiv(line, _at_least_one(classes)), te.indexmod(line, _at_least_one(classes))
        with workers.each(n, "i") as i:
            alive[b, c, i] = primop.cast("int32", values[b, c, sequence[b, c, i]] > given["score"])
        workers.wait()

        def keep(i, number):
            chosen[b, c, number] = sequence[b, c, i]

        kept = _suppress_class(ib, given, lambda box, side: boxes[b, box, side], lambda i: sequence[b, c, i], n, n,
                               alive, keep, workers=workers, row=(b, c))  # fmt: skip
        with workers.one():
            counts[b, c] = kept[0]


def _at_least_one(size: Any) -> PrimExpr:
    """Return the number of threads along an axis, at least one: without boxes, a thread still has to write their
    number."""
    return simplify(te.max(size, 1))


def _last(ends: Any, count: Any, *before: Any) -> PrimExpr:
    """Return the last of several running sums, 0 if there is none."""
    return tir.if_then_else(count > 0, ends[(*before, te.max(count - 1, 0))], const(0, "int32"))


def _onnx_parallel(boxes, scores, numbers: Numbers, gpu: Target):
    """Write the boxes in parallel: once the boxes of each class are selected, each box computes the number of boxes
    before it."""
    batch, classes, n = scores.shape
    lines, rows = simplify(batch * classes), simplify(batch * classes * n)
    chosen, counts = _chosen(boxes, scores, numbers, gpu)
    through = cumsum(counts, gpu=gpu)

    def put(ins, outs):
        ib = create()
        kept, own, ends = (ib.buffer_ptr(b) for b in ins)
        result, total = (ib.buffer_ptr(out) for out in outs)

        def one(i):
            b, c, number = i
            line, found = b * classes + c, _last(ends, lines)
            with ib.if_scope(tir.all(b < batch, c < classes, number < n)):
                with ib.if_scope(number < own[b, c]):
                    for place, value in enumerate((b, c, kept[b, c, number])):
                        result[ends[line] - own[b, c] + number, place] = primop.cast("int64", value)
                with ib.if_scope(line * n + number >= found):
                    for place in range(3):
                        result[line * n + number, place] = const(-1, "int64")
            with ib.if_scope(b + c + number < 1):
                total[0] = primop.cast("int64", found)

        nest(ib, [_at_least_one(d) for d in (batch, classes, n)], one, independent_axes=True)
        return ib.get()

    return te.extern(
        [(rows, 3), (1,)], [chosen, counts, through], put, dtype=["int64", "int64"],
        name="all_class_non_max_suppression", tag="all_class_non_max_suppression",
    )  # fmt: skip


def _onnx_result(boxes, scores, numbers: Numbers, gpu: Target | None):
    if gpu is not None:
        return _onnx_parallel(boxes, scores, numbers, gpu)
    batch, classes, n = scores.shape
    rows = simplify(batch * classes * n)

    def statement(ins, outs):
        ib = create()
        chosen, counts = (ib.buffer_ptr(b) for b in ins)
        result, total = (ib.buffer_ptr(out) for out in outs)
        found = ib.allocate("int32", (1,), name="found", scope="local")
        found[0] = 0
        with ib.for_range(0, batch, name="b") as b, ib.for_range(0, classes, name="c") as c:
            with ib.for_range(0, counts[b, c], name="number") as number:
                for place, value in enumerate((b, c, chosen[b, c, number])):
                    result[found[0] + number, place] = primop.cast("int64", value)
            found[0] = found[0] + counts[b, c]
        total[0] = primop.cast("int64", found[0])
        with ib.for_range(0, rows - found[0], name="rest") as rest:
            for place in range(3):
                result[found[0] + rest, place] = const(-1, "int64")
        return ib.get()

    return te.extern(
        [(rows, 3), (1,)], _chosen(boxes, scores, numbers, gpu), statement, dtype=["int64", "int64"],
        name="all_class_non_max_suppression", tag="all_class_non_max_suppression",
    )  # fmt: skip


def _tensorflow_parallel(boxes, scores, numbers: Numbers, gpu: Target):
    """Sort the selected boxes of all classes together with many threads."""
    batch, classes, n = scores.shape
    rows = simplify(classes * n)
    chosen, counts = _chosen(boxes, scores, numbers, gpu)
    through = cumsum(counts, 1, gpu=gpu)

    def pack(ins, outs):
        ib = create()
        values, kept, own, ends = (ib.buffer_ptr(b) for b in ins)
        keys, places, found = (ib.buffer_ptr(out) for out in outs)

        def one(i):
            b, c, number = i
            with ib.if_scope(tir.all(c < classes, number < n)):
                with ib.if_scope(number < own[b, c]):
                    at, box = ends[b, c] - own[b, c] + number, kept[b, c, number]
                    keys[b, at], places[b, at] = values[b, c, box], c * n + box
            with ib.if_scope(c + number < 1):
                found[b] = _last(ends, classes, b)

        nest(ib, [batch, *(_at_least_one(d) for d in (classes, n))], one, independent_axes=True)
        return ib.get()

    keys, places, found = te.extern(
        [(batch, rows), (batch, rows), (batch,)], [scores, chosen, counts, through], pack,
        dtype=[scores.dtype, "int32", "int32"], name="chosen_scores", tag="chosen_scores",
    )  # fmt: skip
    best, sequence = sorted_parts(keys, 1, False, rows, {"values": scores.dtype, "indices": "int32"}, found, gpu=gpu)

    def put(ins, outs):
        ib = create()
        values, where, places, found = (ib.buffer_ptr(b) for b in ins)
        result, scored, total = (ib.buffer_ptr(out) for out in outs)

        def one(i):
            b, row = i
            with ib.if_scope(row < rows):
                with ib.if_scope(row < found[b]):
                    place = places[b, where[b, row]]
                    scored[b, row] = values[b, row]
                    result[b, row, 0] = primop.cast("int64", te.indexdiv(place, _at_least_one(n)))
                    result[b, row, 1] = primop.cast("int64", te.indexmod(place, _at_least_one(n)))
                with ib.else_scope():
                    scored[b, row] = const(0, scores.dtype)
                    result[b, row, 0], result[b, row, 1] = const(-1, "int64"), const(-1, "int64")
            with ib.if_scope(row < 1):
                total[b] = primop.cast("int64", found[b])

        nest(ib, (batch, _at_least_one(rows)), one, independent_axes=True)
        return ib.get()

    return te.extern(
        [(batch, rows, 2), (batch, rows), (batch,)], [best, sequence, places, found], put,
        dtype=["int64", scores.dtype, "int64"], name="all_class_non_max_suppression",
        tag="all_class_non_max_suppression",
    )  # fmt: skip


def _tensorflow_result(boxes, scores, numbers: Numbers, gpu: Target | None):
    if gpu is not None and not equal_const_int(simplify(scores.shape[1] * scores.shape[2]), 0):
        return _tensorflow_parallel(boxes, scores, numbers, gpu)
    batch, classes, n = scores.shape
    rows = simplify(classes * n)

    def statement(ins, outs):
        ib = create()
        values, chosen, counts = (ib.buffer_ptr(b) for b in ins)
        result, best, total = (ib.buffer_ptr(out) for out in outs)
        with ib.for_range(0, batch, name="b", annotations={INDEPENDENT: 1}) as b:
            found = ib.allocate("int32", (1,), name="found", scope="local")
            keys = ib.allocate(scores.dtype, (rows * 2,), name="keys")
            places = ib.allocate("int32", (rows * 2,), name="places")
            found[0] = 0
            with ib.for_range(0, classes, name="c") as c:
                with ib.for_range(0, counts[b, c], name="number") as number:
                    box = chosen[b, c, number]
                    keys[found[0] + number], places[found[0] + number] = values[b, c, box], c * n + box
                found[0] = found[0] + counts[b, c]
            begin = merge_sort(ib, keys, places, found[0], False)
            with ib.for_range(0, rows, name="row") as row:
                with ib.if_scope(row < found[0]):
                    best[b, row] = keys[begin + row]
                    result[b, row, 0] = primop.cast("int64", places[begin + row] // _at_least_one(n))
                    result[b, row, 1] = primop.cast("int64", places[begin + row] % _at_least_one(n))
                with ib.else_scope():
                    best[b, row] = const(0, scores.dtype)
                    result[b, row, 0], result[b, row, 1] = const(-1, "int64"), const(-1, "int64")
            total[b] = primop.cast("int64", found[0])
        return ib.get()

    return te.extern(
        [(batch, rows, 2), (batch, rows), (batch,)], [scores, *_chosen(boxes, scores, numbers, gpu)], statement,
        dtype=["int64", scores.dtype, "int64"], name="all_class_non_max_suppression",
        tag="all_class_non_max_suppression",
    )  # fmt: skip


__all__ = ["all_class_non_max_suppression", "get_valid_counts", "non_max_suppression"]

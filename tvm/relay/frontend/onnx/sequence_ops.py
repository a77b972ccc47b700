"""Converters of sequences and optionals, which values.py defines."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ....ir.tensor_type import TensorType
from ... import op as relay
from ...expr import const
from ..common import run_time
from .load import onnx_dtype
from .loops import Step, repeated, scalar
from .shape_ops import split_sizes
from .table import argument, axis_of, op
from .values import Nothing, Sequence, is_list, is_option, joined_type


def _is_dynamic(ctx, value, position=None) -> bool:
    """Return whether the length of a sequence, or the given position, is known at run time."""
    if not isinstance(value, Sequence) and not is_list(value):
        raise TVMError("the input must be a sequence")
    return is_list(value) or position is not None and ctx.value(position) is None


def _position(ctx, position, count: int, ends: int) -> int:
    """Return a non-negative position in a sequence; with ``ends`` 1 the position after the last element is valid."""
    at = ctx.ints(position, "the position")[0]
    if not -count <= at < count + ends:
        raise TVMError(f"position {at} is out of range for a sequence of {count} tensors")
    return at + count if at < 0 else at


@op("SequenceConstruct")
def sequence_construct(ctx, inputs, attrs):
    kinds = {ctx.dtype(x) for x in inputs}
    if len(kinds) > 1:
        raise TVMError(f"the tensors of a sequence must have the same type, got {', '.join(sorted(kinds))}")
    return Sequence(tuple(inputs))


@op("SequenceEmpty")
def sequence_empty(ctx, inputs, attrs):
    onnx_dtype(attrs.get("dtype", 1))
    return Sequence(())


@op("SequenceAt")
def sequence_at(ctx, inputs, attrs):
    value, position = inputs
    if not _is_dynamic(ctx, value, position):
        return value.items[_position(ctx, position, len(value.items), 0)]
    lists = ctx.importer.lists
    xs = lists.as_list(value)
    return lists.call("sequence_at", [xs, lists.place(ctx, xs, position)], lists.element(xs))


@op("SequenceLength")
def sequence_length(ctx, inputs, attrs):
    if _is_dynamic(ctx, inputs[0]):
        return ctx.importer.lists.count(inputs[0])
    return const(len(inputs[0].items), "int64")


@op("SequenceInsert")
def sequence_insert(ctx, inputs, attrs):
    value, tensor, position = inputs[0], inputs[1], argument(inputs, 2)
    if not _is_dynamic(ctx, value, position):
        items = value.items
        at = len(items) if position is None else _position(ctx, position, len(items), 1)
        return Sequence((*items[:at], tensor, *items[at:]))
    lists = ctx.importer.lists
    xs = lists.as_list(value)
    t = lists.list_of(joined_type(xs.checked_type_.args[0], lists.type_of(tensor)))
    if position is None:
        return lists.call("sequence_append", [xs, tensor], t)
    return lists.call("sequence_insert", [xs, lists.place(ctx, xs, position, 1), tensor], t)


@op("SequenceErase")
def sequence_erase(ctx, inputs, attrs):
    value, position = inputs[0], argument(inputs, 1)
    if _is_dynamic(ctx, value, position):
        lists = ctx.importer.lists
        xs = lists.as_list(value)
        return lists.call("sequence_erase", [xs, lists.place(ctx, xs, position)], xs.checked_type_)
    items = value.items
    if not items:
        raise TVMError("cannot read or erase an element of an empty sequence")
    at = len(items) - 1 if position is None else _position(ctx, position, len(items), 0)
    return Sequence((*items[:at], *items[at + 1 :]))


@op("ConcatFromSequence")
def concat_from_sequence(ctx, inputs, attrs):
    if _is_dynamic(ctx, inputs[0]):
        return _joined_list(ctx, inputs[0], attrs)
    items = list(inputs[0].items)
    if not items:
        raise TVMError("cannot concatenate an empty sequence")
    if attrs.get("new_axis", 0):
        return relay.stack(items, axis_of(attrs["axis"], ctx.rank(items[0]) + 1))
    axis = axis_of(attrs["axis"], ctx.rank(items[0]))
    return items[0] if len(items) == 1 else relay.concatenate(items, axis)


def _joined_list(ctx, xs, attrs):
    """Concatenate the tensors of a list; for a new axis, each tensor is expanded first."""
    lists = ctx.importer.lists
    element = lists.element(xs)
    if not attrs.get("new_axis", 0):
        return lists.concatenated(xs, element, axis_of(attrs["axis"], len(element.shape)))
    axis = axis_of(attrs["axis"], len(element.shape) + 1)
    wide = TensorType([*element.shape[:axis], 1, *element.shape[axis:]], element.dtype)
    rows = lists.mapped(xs, lambda x: relay.expand_dims(x, axis), element, wide)
    return lists.concatenated(rows, wide, axis)


@op("SplitToSequence")
def split_to_sequence(ctx, inputs, attrs):
    """Split into parts of a constant size with a smaller last part, of listed sizes, or into single elements."""
    data, sizes = inputs[0], argument(inputs, 1)
    axis = axis_of(attrs.get("axis", 0), ctx.rank(data))
    total, known = ctx.shape(data)[axis], ctx.value(sizes)
    if not isinstance(total, int) or sizes is not None and known is None:
        return _split_at_run_time(ctx, data, sizes, axis, bool(attrs.get("keepdims", 1)))
    if known is None:
        parts = split_sizes(data, [1] * total, axis)
        return Sequence(tuple(parts if attrs.get("keepdims", 1) else [relay.squeeze(p, [axis]) for p in parts]))
    numbers = [int(v) for v in known.reshape(-1)]
    if not known.ndim:
        each = numbers[0]
        if each < 1:
            raise TVMError(f"split must be positive, got {each}")
        numbers = [min(each, total - at) for at in range(0, total, each)]
    if sum(numbers) != total or min(numbers, default=0) < 0:
        raise TVMError(f"split sizes {numbers} do not add up to the size {total} of axis {axis}")
    return Sequence(tuple(split_sizes(data, numbers, axis)))


def _split_at_run_time(ctx, data, sizes, axis: int, keepdims: bool):
    """Split into a run-time number of parts or parts of run-time sizes, by a loop that adds each part to a list."""
    importer = ctx.importer
    infer, lists = importer.typer.infer, importer.lists
    zero, one = const(0, "int64"), const(1, "int64")
    total = infer(relay.take(relay.shape_of(data, "int64"), const(axis, "int64"), 0))
    listed = sizes is not None and ctx.rank(sizes) == 1
    if listed:
        count = infer(relay.take(relay.shape_of(sizes, "int64"), zero, 0))
        sizes = infer(relay.cast(sizes, "int64"))
        whole = relay.equal(relay.sum(sizes), total)
        fit = infer(relay.logical_and(whole, relay.all(relay.greater_equal(sizes, zero))))
        words = f"split sizes must be at least 0 and add up to the size of axis {axis}"
        count = run_time.checked(ctx, count, fit, words)
    else:
        each = one if sizes is None else scalar(ctx, sizes, "int64")
        each = run_time.at_least(ctx, infer(each), 1, "split")
        count = infer(relay.floor_divide(relay.subtract(relay.add(total, each), one), each))

    def step(number, values: list) -> Step:
        scope = importer.scopes[-1]
        inside, size = importer.captured(scope, data), importer.captured(scope, sizes if listed else each)
        begin = values[0]
        end = relay.add(begin, relay.take(size, number, 0) if listed else size)
        end = infer(relay.minimum(end, importer.captured(scope, total)))
        part = relay.take(inside, relay.arange(begin, end, one, "int64"), axis)
        part = infer(part if keepdims or sizes is not None else relay.squeeze(part, [axis]))
        t = lists.list_of(joined_type(values[1].checked_type_.args[0], part.checked_type_))
        return Step(None, [end, lists.call("Cons", [part, values[1]], t)], [])

    states, _ = repeated(ctx, count, None, [zero, Sequence(())], step)
    return lists.call("rev", [states[1]], states[1].checked_type_)


@op("SequenceMap")
def sequence_map(ctx, inputs, attrs):
    """Apply the body to the elements of the sequences at each position; tensor inputs are passed unchanged
    each time.
    """
    body, importer = attrs["body"], ctx.importer
    _is_dynamic(ctx, inputs[0])
    if any(is_list(value) for value in inputs):
        return _mapped_at_run_time(ctx, inputs, body)
    lengths = {len(value.items) for value in inputs if isinstance(value, Sequence)}
    if len(lengths) > 1:
        raise TVMError(f"the sequences must have the same length, got {sorted(lengths)}")
    rows = [
        importer.subgraph(body, [v.items[k] if isinstance(v, Sequence) else v for v in inputs])
        for k in range(lengths.pop())
    ]
    return [Sequence(tuple(row[i] for row in rows)) for i in range(len(body.output))]


def _mapped_at_run_time(ctx, inputs: list, body) -> list:
    """Convert to a loop that reads the first tensor of each list and prepends its results to the output lists."""
    importer, lists = ctx.importer, ctx.importer.lists
    many = [isinstance(value, Sequence) or is_list(value) for value in inputs]
    rests = [lists.as_list(value) for value, is_many in zip(inputs, many) if is_many]
    zero = const(0, "int64")

    def step(number, values: list) -> Step:
        scope, taken = importer.scopes[-1], iter(values)
        given = []
        for value, is_many in zip(inputs, many):
            xs = next(taken) if is_many else None
            given.append(lists.call("sequence_at", [xs, zero], lists.element(xs)) if is_many
                         else importer.captured(scope, value))  # fmt: skip
        left = [lists.call("sequence_erase", [xs, zero], xs.checked_type_) for xs in values[: len(rests)]]
        made = []
        for xs, result in zip(values[len(rests) :], importer.subgraph(body, given)):
            t = lists.list_of(joined_type(xs.checked_type_.args[0], lists.type_of(result)))
            made.append(lists.call("Cons", [result, xs], t))
        return Step(None, [*left, *made], [])

    start = [*rests, *(Sequence(()) for _ in body.output)]
    states, _ = repeated(ctx, lists.count(rests[0]), None, start, step)
    return [lists.call("rev", [xs], xs.checked_type_) for xs in states[len(rests) :]]


# -- optionals --------------------------------------------------------------------------------------------------------


@op("Optional")
def optional(ctx, inputs, attrs):
    if inputs:
        return inputs[0]
    if "type" not in attrs:
        raise TVMError("an empty optional must have the attribute 'type'")
    return Nothing(ctx.importer.lists.declared(attrs["type"], None, "the optional"))


@op("OptionalHasElement")
def optional_has_element(ctx, inputs, attrs):
    if inputs and is_option(inputs[0]):
        return ctx.importer.lists.call("has_element", [inputs[0]], TensorType((), "bool"))
    return const(np.array(bool(inputs) and not isinstance(inputs[0], Nothing)), "bool")


@op("OptionalGetElement")
def optional_get_element(ctx, inputs, attrs):
    if isinstance(inputs[0], Nothing):
        raise TVMError("the optional is empty")
    if is_option(inputs[0]):
        return ctx.importer.lists.call("get_element", [inputs[0]], inputs[0].checked_type_.args[0])
    return inputs[0]


# Operators that accept sequences; all others accept only tensors.
TAKE_SEQUENCES = frozenset(
    "Identity SequenceAt SequenceLength SequenceInsert SequenceErase ConcatFromSequence SequenceMap If Loop Optional "
    "OptionalHasElement OptionalGetElement".split()
)

__all__ = ["TAKE_SEQUENCES"]

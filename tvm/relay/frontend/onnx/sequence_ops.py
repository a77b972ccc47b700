"""Converters of sequences and optionals.

A sequence whose length is known when compiling is a list of expressions here, and nothing of it is left in the program.
An optional is what it holds, or nothing.
"""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import const
from .load import onnx_dtype
from .shape_ops import split_sizes
from .table import Sequence, argument, axis_of, op


def _items(value, what: str = "the input") -> tuple:
    if not isinstance(value, Sequence):
        raise TVMError(f"{what} must be a sequence")
    return value.items


def _place(ctx, position, count: int, ends: int) -> int:
    """A position in a sequence, counted from the front; ``ends`` is 1 where the place behind the last counts."""
    at = ctx.ints(position, "the position")[0]
    if not -count <= at < count + ends:
        raise TVMError(f"there is no place {at} in a sequence of {count} tensors")
    return at + count if at < 0 else at


@op("SequenceConstruct")
def sequence_construct(ctx, inputs, attrs):
    kinds = {ctx.dtype(x) for x in inputs}
    if len(kinds) > 1:
        raise TVMError(f"the tensors of a sequence have one type, got {', '.join(sorted(kinds))}")
    return Sequence(tuple(inputs))


@op("SequenceEmpty")
def sequence_empty(ctx, inputs, attrs):
    onnx_dtype(attrs.get("dtype", 1))
    return Sequence(())


@op("SequenceAt")
def sequence_at(ctx, inputs, attrs):
    items = _items(inputs[0])
    return items[_place(ctx, inputs[1], len(items), 0)]


@op("SequenceLength")
def sequence_length(ctx, inputs, attrs):
    return const(len(_items(inputs[0])), "int64")


@op("SequenceInsert")
def sequence_insert(ctx, inputs, attrs):
    items, position = _items(inputs[0]), argument(inputs, 2)
    at = len(items) if position is None else _place(ctx, position, len(items), 1)
    return Sequence((*items[:at], inputs[1], *items[at:]))


@op("SequenceErase")
def sequence_erase(ctx, inputs, attrs):
    items, position = _items(inputs[0]), argument(inputs, 1)
    if not items:
        raise TVMError("nothing can be taken from an empty sequence")
    at = len(items) - 1 if position is None else _place(ctx, position, len(items), 0)
    return Sequence((*items[:at], *items[at + 1 :]))


@op("ConcatFromSequence")
def concat_from_sequence(ctx, inputs, attrs):
    items = list(_items(inputs[0]))
    if not items:
        raise TVMError("an empty sequence cannot be joined")
    if attrs.get("new_axis", 0):
        return relay.stack(items, axis_of(attrs["axis"], ctx.rank(items[0]) + 1))
    axis = axis_of(attrs["axis"], ctx.rank(items[0]))
    return items[0] if len(items) == 1 else relay.concatenate(items, axis)


@op("SplitToSequence")
def split_to_sequence(ctx, inputs, attrs):
    """Parts of the given sizes: one size for all and a smaller rest, a list, or single elements."""
    data, sizes = inputs[0], argument(inputs, 1)
    axis = axis_of(attrs.get("axis", 0), ctx.rank(data))
    total = ctx.known_size(data, axis)
    if sizes is None:
        parts = split_sizes(data, [1] * total, axis)
        return Sequence(tuple(parts if attrs.get("keepdims", 1) else [relay.squeeze(p, [axis]) for p in parts]))
    rank, numbers = ctx.rank(sizes), ctx.ints(sizes, "the sizes")
    if rank == 0:
        each = numbers[0]
        if each < 1:
            raise TVMError(f"parts have at least one element, got {each}")
        numbers = [min(each, total - at) for at in range(0, total, each)]
    if sum(numbers) != total or min(numbers, default=0) < 0:
        raise TVMError(f"parts of {numbers} elements do not make up the {total} of axis {axis}")
    return Sequence(tuple(split_sizes(data, numbers, axis)))


# -- optionals --------------------------------------------------------------------------------------------------------


@op("Optional")
def optional(ctx, inputs, attrs):
    if not inputs:
        raise TVMError("an optional that holds nothing is not supported")
    return inputs[0]


@op("OptionalHasElement")
def optional_has_element(ctx, inputs, attrs):
    return const(np.array(bool(inputs)), "bool")


@op("OptionalGetElement")
def optional_get_element(ctx, inputs, attrs):
    return inputs[0]


# Operators that take sequences; every other one takes tensors.
TAKE_SEQUENCES = frozenset(
    "Identity SequenceAt SequenceLength SequenceInsert SequenceErase ConcatFromSequence SequenceMap If Loop Optional "
    "OptionalHasElement OptionalGetElement".split()
)

__all__ = ["TAKE_SEQUENCES"]

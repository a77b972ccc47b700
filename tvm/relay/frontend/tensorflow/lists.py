"""Lists of tensors.

A list is a Python list as long as its indices are known at compile time; otherwise it is one tensor, the stack of its
elements.
"""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr, const
from ..common import run_time
from .table import Context, Handle, check_count, check_steps, host
from .tensors import plain_dtype


class TensorList:
    """A list of tensors. ``items`` contains None for unwritten elements; if ``items`` is None, ``stack`` contains the
    elements.

    ``stack`` has the elements along its first axis. ``hollow`` means that the element shape of the stack is still
    unknown.
    """

    def __init__(self, dtype: str, shape: tuple | None, items: list | None = None, stack=None, hollow: bool = False):
        self.dtype, self.shape, self.items, self.stack, self.hollow = dtype, shape, items, stack, hollow

    def changed(self, items: list) -> TensorList:
        return TensorList(self.dtype, self.shape, items)

    def with_stack(self, stack: RelayExpr, hollow: bool | None = None) -> TensorList:
        return TensorList(self.dtype, self.shape, None, stack, self.hollow if hollow is None else hollow)

    def element_shape(self, ctx: Context) -> tuple | None:
        """Return the shape of an element, as far as it is known."""
        written = [i for i in self.items or [] if i is not None]
        return ctx.shape(written[0]) if written else self.shape

    def empty(self, ctx: Context) -> RelayExpr:
        """Return an unwritten element: zeros."""
        shape = self.element_shape(ctx)
        if shape is None or any(not isinstance(d, int) or d < 0 for d in shape):
            raise TVMError("cannot read an unwritten element of a list without a static element shape")
        check_count("an element", shape)
        return Constant(np.zeros(shape, self.dtype))

    def stacked(self, ctx: Context) -> TensorList:
        """Return the list with its elements stacked into one tensor."""
        if self.items is None:
            return self
        check_steps("a list", len(self.items))
        shape = self.element_shape(ctx)
        hollow = shape is None or any(not isinstance(d, int) or d < 0 for d in shape)
        if hollow and any(i is not None for i in self.items):
            if any(i is None for i in self.items):
                raise TVMError("cannot read an unwritten element of a list without a static element shape")
            hollow = False
        if hollow or not self.items:
            sizes = [d if isinstance(d, int) and d >= 0 else 1 for d in shape or ()]
            check_count("a list", [len(self.items), *sizes])
            return self.with_stack(Constant(np.zeros((len(self.items), *sizes), self.dtype)), hollow)
        parts = [self.empty(ctx) if i is None else i for i in self.items]
        return self.with_stack(ctx.made(relay.stack(parts, 0)), False)

    def differs(self, ctx: Context, after) -> bool:
        """Return whether the element shape is known only after a loop iteration."""
        return isinstance(after, TensorList) and self.hollow and not after.hollow

    def like(self, ctx: Context, after: TensorList) -> TensorList:
        """Return the list before a loop iteration, with the element shape that it has after the iteration."""
        count, shape = ctx.known_size(self.stack, 0), ctx.shape(after.stack)[1:]
        if any(not isinstance(d, int) for d in shape):
            raise TVMError(
                "a list that is written in a loop must have elements of static shape; pass the input shapes to "
                "from_tensorflow"
            )
        check_count("a list", [count, *shape])
        return self.with_stack(Constant(np.zeros((count, *shape), self.dtype)), False)

    # -- elements -------------------------------------------------------------------------------------------------

    def length(self, ctx: Context) -> RelayExpr:
        if self.items is not None:
            return const(len(self.items), "int32")
        return ctx.made(relay.cast(run_time.size_of(ctx, self.stack, 0), "int32"))

    def read(self, ctx: Context, index: RelayExpr) -> RelayExpr:
        known = ctx.value(index)
        if self.items is None or known is None:
            return ctx.made(relay.take(self.stacked(ctx).stack, run_time.scalar(ctx, index), 0))
        at = int(known.reshape(-1)[0])
        if not 0 <= at < len(self.items):
            raise TVMError(f"cannot read element {at} of a list with {len(self.items)} elements")
        return self.empty(ctx) if self.items[at] is None else self.items[at]

    def written(self, ctx: Context, index: RelayExpr, value: RelayExpr, grows: bool = False) -> TensorList:
        known = ctx.value(index)
        if self.items is None or known is None:
            return self._dynamic_write(ctx, index, value)
        at, items = int(known.reshape(-1)[0]), list(self.items)
        if grows and at >= len(items):
            check_steps("a list", at)
            items += [None] * (at + 1 - len(items))
        if not 0 <= at < len(items):
            raise TVMError(f"cannot write element {at} of a list with {len(items)} elements")
        items[at] = value
        return self.changed(items)

    def _dynamic_write(self, ctx: Context, index: RelayExpr, value: RelayExpr) -> TensorList:
        have = self.stacked(ctx)
        stack = have.stack
        if have.hollow:
            zero = relay.expand_dims(relay.zeros_like(value), 0)
            count = ctx.known_size(stack, 0)
            stack = ctx.made(relay.concatenate([zero] * count, 0) if count > 1 else zero)
        places = run_time.counted(ctx, run_time.size_of(ctx, stack, 0))
        hit = relay.equal(places, run_time.scalar(ctx, index))
        hit = relay.reshape(hit, (-1, *[1] * (ctx.rank(stack) - 1)))
        return have.with_stack(ctx.made(relay.where(hit, relay.expand_dims(value, 0), stack)), False)

    def pushed(self, ctx: Context, value: RelayExpr) -> TensorList:
        if self.items is not None:
            check_steps("a list", len(self.items))
            return self.changed([*self.items, value])
        row = relay.expand_dims(value, 0)
        if self.hollow:
            return self.with_stack(ctx.made(row), False)
        return self.with_stack(ctx.made(relay.concatenate([self.stack, row], 0)))

    def popped(self, ctx: Context) -> tuple[TensorList, RelayExpr]:
        if self.items is None:
            last = relay.subtract(run_time.size_of(ctx, self.stack, 0), run_time.number(1))
            value = ctx.made(relay.take(self.stack, ctx.made(last), 0))
            return self.with_stack(ctx.made(relay.strided_slice(self.stack, [0], [-1], [1], [0]))), value
        if not self.items:
            raise TVMError("cannot pop from an empty list")
        return self.changed(self.items[:-1]), self.items[-1] if self.items[-1] is not None else self.empty(ctx)

    def whole(self, ctx: Context) -> RelayExpr:
        """Return all elements stacked along a new first axis."""
        made = self.stacked(ctx)
        if made.hollow and ctx.known_size(made.stack, 0):
            raise TVMError("cannot read an unwritten list without a static element shape")
        return made.stack


def _shape(ctx: Context, e: RelayExpr) -> tuple | None:
    """Return an element shape that is an operand; a scalar -1 means any shape."""
    found = ctx.value(e)
    return None if found is None or found.ndim == 0 else tuple(int(v) for v in found)


def _kind(attrs, name: str = "element_dtype") -> str:
    return plain_dtype(attrs.get(name, "float32"))


def _list(value) -> TensorList:
    if not isinstance(value, TensorList):
        raise TVMError("the input must be a list of tensors")
    return value


def _count(ctx: Context, e: RelayExpr) -> int:
    count = ctx.single(e, "the number of elements")
    check_steps("a list", count)
    if count < 0:
        raise TVMError(f"the number of elements of a list must not be negative, got {count}")
    return count


def rows(ctx: Context, x: RelayExpr) -> list:
    """Return the slices of a tensor along its first axis."""
    count = ctx.known_size(x, 0)
    check_steps("a list", count)
    return [ctx.made(relay.take(x, const(i, "int32"), 0)) for i in range(count)]


@host("TensorListReserve")
def reserve(ctx, inputs, attrs):
    return TensorList(_kind(attrs), _shape(ctx, inputs[0]), [None] * _count(ctx, inputs[1]))


@host("EmptyTensorList")
def empty_list(ctx, inputs, attrs):
    return TensorList(_kind(attrs), _shape(ctx, inputs[0]), [])


@host("TensorListFromTensor")
def from_tensor(ctx, inputs, attrs):
    x = inputs[0]
    size = ctx.shape(x)[0]
    made = TensorList(_kind(attrs), _shape(ctx, inputs[1]))
    if not isinstance(size, int) or size > 1024:
        return made.with_stack(x, False)
    return made.changed(rows(ctx, x))


@host("TensorListStack")
def stack(ctx, inputs, attrs):
    return _list(inputs[0]).whole(ctx)


@host("TensorListGetItem")
def get_item(ctx, inputs, attrs):
    return _list(inputs[0]).read(ctx, inputs[1])


@host("TensorListSetItem")
def set_item(ctx, inputs, attrs):
    grows = attrs.get("resize_if_index_out_of_bounds", False)
    return _list(inputs[0]).written(ctx, inputs[1], inputs[2], grows)


@host("TensorListPushBack")
def push_back(ctx, inputs, attrs):
    return _list(inputs[0]).pushed(ctx, inputs[1])


@host("TensorListPopBack")
def pop_back(ctx, inputs, attrs):
    return list(_list(inputs[0]).popped(ctx))


@host("TensorListLength")
def length(ctx, inputs, attrs):
    return _list(inputs[0]).length(ctx)


@host("TensorListElementShape")
def element_shape(ctx, inputs, attrs):
    shape = _list(inputs[0]).element_shape(ctx)
    if shape is None or any(not isinstance(d, int) for d in shape):
        raise TVMError("the element shape of the list is unknown")
    return Constant(np.array(shape, _kind(attrs, "shape_type")))


@host("TensorListResize")
def resize(ctx, inputs, attrs):
    have, count = _list(inputs[0]), _count(ctx, inputs[1])
    if have.items is None:
        raise TVMError("resizing a list whose length is known at run time is not supported")
    return have.changed((have.items + [None] * count)[:count])


@host("TensorListGather")
def gather(ctx, inputs, attrs):
    return relay.take(_list(inputs[0]).whole(ctx), inputs[1], 0)


def _scattered(ctx: Context, have: TensorList, x: RelayExpr, places: RelayExpr, grows: bool) -> TensorList:
    for i, at in enumerate(ctx.ints(places, "the places")):
        have = have.written(ctx, const(at, "int32"), ctx.made(relay.take(x, const(i, "int32"), 0)), grows)
    return have


@host("TensorListScatter", "TensorListScatterV2")
def scatter(ctx, inputs, attrs):
    count = _count(ctx, inputs[3]) if len(inputs) > 3 and ctx.single(inputs[3], "the number of elements") >= 0 else 0
    have = TensorList(_kind(attrs), _shape(ctx, inputs[2]), [None] * count)
    return _scattered(ctx, have, inputs[0], inputs[1], True)


@host("TensorListScatterIntoExistingList")
def scatter_into(ctx, inputs, attrs):
    return _scattered(ctx, _list(inputs[0]), inputs[1], inputs[2], True)


def _joined(ctx: Context, have: TensorList) -> list:
    """Return all elements concatenated along their first axis, and their lengths."""
    if have.items is None:
        whole = have.stack
        size = ctx.known_size(whole, 1)
        lengths = relay.full(const(size, "int64"), (ctx.known_size(whole, 0),), "int64")
        return [relay.reshape(whole, (-3, -2) if ctx.rank(whole) > 2 else (-3,)), lengths]
    parts = [have.empty(ctx) if i is None else i for i in have.items]
    sizes = [ctx.known_size(p, 0) for p in parts]
    return [relay.concatenate(parts, 0) if len(parts) > 1 else parts[0], Constant(np.array(sizes, "int64"))]


@host("TensorListConcat", "TensorListConcatV2")
def concat(ctx, inputs, attrs):
    return _joined(ctx, _list(inputs[0]))


@host("TensorListSplit")
def split(ctx, inputs, attrs):
    made = TensorList(_kind(attrs), _shape(ctx, inputs[1]))
    return made.changed(_parts(ctx, inputs[0], inputs[2]))


def _parts(ctx: Context, x: RelayExpr, lengths: RelayExpr) -> list:
    ends = [0, *np.cumsum(ctx.ints(lengths, "the lengths")).tolist()]
    check_steps("a list", len(ends))
    if ends != sorted(ends):
        raise TVMError("a part of a split has a negative length")
    return [ctx.made(relay.strided_slice(x, [a], [b], [1], [0])) for a, b in zip(ends, ends[1:])]


# -- TensorArrays of TensorFlow 1: the handle identifies the list, and the flow value is its state --------------------


@host("TensorArrayV3")
def tensor_array(ctx, inputs, attrs):
    made = TensorList(_kind(attrs, "dtype"), attrs.get("element_shape"), [None] * _count(ctx, inputs[0]))
    return [Handle("array", ctx.node, ctx.node.name), made]


@host("TensorArrayReadV3")
def array_read(ctx, inputs, attrs):
    return _list(inputs[2]).read(ctx, inputs[1])


@host("TensorArrayWriteV3")
def array_write(ctx, inputs, attrs):
    return _list(inputs[3]).written(ctx, inputs[1], inputs[2], True)


@host("TensorArraySizeV3")
def array_size(ctx, inputs, attrs):
    return _list(inputs[1]).length(ctx)


@host("TensorArrayGatherV3")
def array_gather(ctx, inputs, attrs):
    have = _list(inputs[2])
    places = ctx.value(inputs[1])
    if have.items is not None and places is not None and places.tolist() == list(range(len(have.items))):
        return have.whole(ctx)
    return relay.take(have.whole(ctx), inputs[1], 0)


@host("TensorArrayScatterV3")
def array_scatter(ctx, inputs, attrs):
    have, places = _list(inputs[3]), ctx.value(inputs[1])
    if have.items is not None and places is None and not any(i is not None for i in have.items):
        # If the number of rows is dynamic, the rows are written in order.
        return have.with_stack(inputs[2], False)
    return _scattered(ctx, have, inputs[2], inputs[1], True)


@host("TensorArrayConcatV3")
def array_concat(ctx, inputs, attrs):
    return _joined(ctx, _list(inputs[1]))


@host("TensorArraySplitV3")
def array_split(ctx, inputs, attrs):
    return _list(inputs[3]).changed(_parts(ctx, inputs[1], inputs[2]))


__all__ = ["TensorList"]

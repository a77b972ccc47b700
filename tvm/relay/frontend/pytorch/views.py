"""Views: the operators that create them, and how a change of a view is written back into its base tensor."""

from __future__ import annotations

import math

import numpy as np

from ... import op as relay
from ...expr import RelayExpr, const
from .table import Context, Number, axis_of, op

# Operators whose output is a view of their first argument, by how a change is written back: "same" elements at the same
# positions, the same elements in another "shape", "axes" permuted, a "slice" of an axis, one of the "parts" of an axis.
VIEWS = {
    **dict.fromkeys("alias detach contiguous lift_fresh".split(), "same"),
    **dict.fromkeys("view reshape flatten unflatten unsqueeze squeeze view_as reshape_as".split(), "shape"),
    **dict.fromkeys("permute transpose t numpy_T movedim swapaxes".split(), "axes"),
    **dict.fromkeys("select slice narrow".split(), "slice"),
    **dict.fromkeys("split split_with_sizes chunk unbind tensor_split".split(), "parts"),
    **dict.fromkeys("expand expand_as diagonal as_strided unfold".split(), "other"),
}
# View operators that copy the data of non-contiguous tensors.
COPYING = frozenset("contiguous reshape flatten reshape_as".split())


def write_back(ctx: Context, view, base, value):
    """Return the tensor ``base`` with the elements of the view replaced by ``value``."""
    kind = VIEWS[view.name] if view.name else "same"
    if kind == "same":
        return value
    if kind == "shape":
        return relay.reshape(value, ctx.known_shape(base), True)
    if kind == "axes":
        return relay.transpose(value, _inverse(ctx, view, base))
    if kind == "slice" and view.name == "select" and isinstance(view.args["index"], (RelayExpr, Number)):
        return _replace_at_index(ctx, view, base, value)
    if view.name == "slice" and _is_all(view.args):
        return value
    if kind == "slice":
        axis, start, count, step, one = _range(ctx, view, base)
        return set_slice(ctx, base, relay.expand_dims(value, axis) if one else value, axis, start, count, step)
    if kind == "parts":
        return _replace_part(ctx, view, base, value)
    return _replace_selected(ctx, base, value, view.name, view.args)


def _replace_selected(ctx: Context, base, value, name: str, args):
    """Return the base with the elements that a view operator selects replaced.

    The operator is applied to the indices of all elements to find the positions.
    """
    shape = ctx.known_shape(base)
    count = math.prod(shape)
    numbers = const(np.arange(count, dtype="int64").reshape(shape))
    places = ctx.array(ctx.convert(name, ctx.infer(numbers), **args), "the places of the view").reshape(-1)
    chosen, taken = np.zeros(count, bool), np.zeros(count, "int64")
    chosen[places], taken[places] = True, np.arange(len(places))
    moved = relay.take(relay.reshape(value, (-1,)), const(taken.reshape(shape)), 0)
    return relay.where(const(chosen.reshape(shape)), moved, base)


@op("diagonal_scatter")
def diagonal_scatter(ctx, self, src, offset=0, dim1=0, dim2=1):
    return _replace_selected(ctx, self, src, "diagonal", {"offset": offset, "dim1": dim1, "dim2": dim2})


@op("as_strided_scatter")
def as_strided_scatter(ctx, self, src, size, stride, storage_offset=None):
    args = {"size": size, "stride": stride, "storage_offset": storage_offset}
    return _replace_selected(ctx, self, src, "as_strided", args)


def _is_all(args) -> bool:
    """Return whether a slice is a whole axis of any size."""
    return args.get("start") in (None, 0) and args.get("end") in (None, (1 << 63) - 1) and args.get("step", 1) == 1


def _replace_at_index(ctx: Context, view, base, value):
    """Return the base with one element of an axis replaced, whose index is known at run time."""
    axis = ctx.axis(base, view.args.get("dim", 0))
    size, place = ctx.tensor(ctx.size(base, axis), "int64"), ctx.tensor(view.args["index"], "int64")
    place = relay.where(relay.less(place, const(0, "int64")), relay.add(place, size), place)
    chosen = relay.equal(relay.arange(const(0, "int64"), size, const(1, "int64"), "int64"), place)
    spread = [-1 if i == axis else 1 for i in range(ctx.rank(base))]
    return relay.where(relay.reshape(chosen, spread), relay.expand_dims(value, axis), base)


def _inverse(ctx: Context, view, base) -> list[int]:
    """Return the inverse permutation of the view."""
    order = list(range(ctx.rank(base)))
    args = view.args
    if view.name == "permute":
        order = [d % len(order) for d in args["dims"]]
    elif view.name in ("transpose", "swapaxes"):
        first, second = (axis_of(args[k], len(order)) for k in ("dim0", "dim1"))
        order[first], order[second] = order[second], order[first]
    elif view.name == "movedim":
        order = moved_axes(len(order), args["source"], args["destination"])
    else:
        order.reverse()
    return [order.index(i) for i in range(len(order))]


def moved_axes(rank: int, source, destination) -> list[int]:
    """Return the permutation that moves some axes and keeps the order of the others."""
    pairs = [[v] if not isinstance(v, (list, tuple)) else v for v in (source, destination)]
    moved = {axis_of(d, rank): axis_of(s, rank) for s, d in zip(*pairs)}
    rest = iter([i for i in range(rank) if i not in moved.values()])
    return [moved[i] if i in moved else next(rest) for i in range(rank)]


def _range(ctx: Context, view, base) -> tuple[int, int, int, int, bool]:
    """Return the axis, the first element, the number of elements, the step, and whether the axis is removed."""
    args = view.args
    axis = ctx.axis(base, args.get("dim", 0))
    size = ctx.known_size(base, axis)
    if view.name == "select":
        return axis, ctx.known_int(args["index"], "the index") % max(size, 1), 1, 1, True
    if view.name == "narrow":
        start = ctx.known_int(args["start"], "the start")
        return axis, start % max(size, 1), ctx.known_int(args["length"], "the length"), 1, False
    given = (args.get(k) for k in ("start", "end"))
    bounds = [None if v is None else ctx.known_int(v, "the bounds of a slice") for v in given]
    start, stop, step = slice(*bounds, ctx.known_int(args.get("step", 1), "the step")).indices(size)
    return axis, start, len(range(start, stop, step)), step, False


def set_slice(ctx: Context, base, value, axis: int, start: int, count: int, step: int):
    """Return the base with ``count`` elements of an axis replaced, beginning at ``start`` with the given step."""
    size = ctx.known_size(base, axis)
    if count == 0:
        return base
    if step == 1:
        parts = [relay.strided_slice(base, [0], [start], [1], [axis])] if start else []
        parts.append(value)
        if start + count < size:
            parts.append(relay.strided_slice(base, [start + count], [size], [1], [axis]))
        return parts[0] if len(parts) == 1 else relay.concatenate(parts, axis)
    places = np.zeros(size, "int64")
    chosen = np.zeros(size, bool)
    at = start + step * np.arange(count)
    places[at], chosen[at] = np.arange(count), True
    spread = [-1 if i == axis else 1 for i in range(ctx.rank(base))]
    return relay.where(const(chosen.reshape(spread)), relay.take(value, const(places), axis), base)


def _replace_part(ctx: Context, view, base, value):
    axis = ctx.axis(base, view.args.get("dim", 0))
    size = ctx.known_size(base, axis)
    if view.name == "unbind":
        return set_slice(ctx, base, relay.expand_dims(value, axis), axis, view.index, 1, 1)
    sizes = part_sizes(ctx, view.name, size, view.args)
    return set_slice(ctx, base, value, axis, sum(sizes[: view.index]), sizes[view.index], 1)


def part_sizes(ctx: Context, name: str, size: int, args) -> list[int]:
    """Return the sizes of the parts into which an axis is split."""
    if name == "chunk":
        chunks = ctx.known_int(args["chunks"], "the number of parts")
        each = max(-(-size // chunks), 1)
    elif name == "tensor_split":
        sections, indices = args.get("sections"), args.get("indices")
        held = ctx.array(args.get("tensor_indices_or_sections"), "the tensor of sections or indices")
        if held is not None:
            sections, indices = (None, held.tolist()) if held.ndim else (int(held), None)
        if sections is None:
            given = ctx.known_ints(indices, "the indices")
            cuts = [min(max(i if i >= 0 else i + size, 0), size) for i in given]
            return [max(b - a, 0) for a, b in zip([0, *cuts], [*cuts, size])]
        count = ctx.known_int(sections, "the number of parts")
        return [size // count + (i < size % count) for i in range(count)]
    else:
        given = args.get("split_sizes", args.get("split_size"))
        if isinstance(given, (list, tuple)):
            return ctx.known_ints(given, "the sizes of the parts")
        each = ctx.known_int(given, "the size of a part")
    if each == 0:
        return [0]
    return [min(each, size - i * each) for i in range(max(math.ceil(size / each), 1))]


__all__ = ["COPYING", "VIEWS", "moved_axes", "part_sizes", "write_back", "set_slice"]

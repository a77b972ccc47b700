"""Layout rules: how operators follow a layout change, such as NCHW to NHWC or to the blocked layout NCHW16c.

``layout_rule(attrs, types, old, new)`` of an operator record is called for a call whose input dimensions are named
``old`` and stored in layout ``new``. It returns a ``LayoutChange``, or None if the call cannot follow and keeps its old
layout. ``types`` are the input types of the original call. ConvertLayout and AlterOpLayout use only these rules.

If the number of channels is not a multiple of the block, the last block is padded. The padding has unspecified finite
values. Only operators that map finite values to finite values accept such data (``layout_filled``), so that zero
weights cancel the padding.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from ...ir.op import OPS
from ...ir.type import TupleType
from ..expr import Constant, const
from .record import BROADCAST, ELEMWISE, call
from .rules import dims, normalize_axes, normalize_axis


class Vector(NamedTuple):
    """A vector along one dimension of the old layout that is combined with tensors in the new layout."""

    letter: str
    layout: str


class LayoutChange(NamedTuple):
    """The change of a call for a new layout.

    ``inputs`` contains the required layout of each input, or None to keep it; inputs of lower rank than ``old`` first
    get leading dimensions of size 1. ``output`` is the layout of the output, or of each field of a tuple (None:
    unchanged). ``named`` are the names of the output dimensions in the original graph if they differ from ``old``.
    ``build`` creates the new expression from the inputs if it is not the same operator with ``attrs``.
    """

    inputs: list[str | Vector | None]
    output: str | tuple[str | None, ...]
    attrs: dict[str, Any]
    named: str | None = None
    build: Callable[..., Any] | None = None


def parts(layout: str) -> list[tuple[str, int]]:
    """Return the dimensions of a layout: (N, 0), (C, 0), (H, 0), (W, 0), (c, 16) for NCHW16c."""
    return [(letter, int(size or 0)) for size, letter in re.findall("([0-9]*)([A-Za-z])", layout)]


def letters(layout: str) -> list[str]:
    """Return the names of the dimensions of a layout in order: N, C, H, W, c for NCHW16c."""
    return [letter for letter, _ in parts(layout)]


def blocks(layout: str) -> dict[str, int]:
    """Return the blocked dimensions with their block sizes: {C: 16} for NCHW16c."""
    return {letter.upper(): size for letter, size in parts(layout) if letter.islower()}


def is_blocked(layout: str) -> bool:
    """Return whether a layout has blocked dimensions."""
    return bool(blocks(layout))


def totals(shape, layout: str) -> dict[str, Any]:
    """Return the full sizes of the dimensions; a tensor of lower rank has the last ones."""
    found: dict[str, Any] = {}
    for letter, size in zip(reversed(letters(layout)), reversed(shape)):
        found[letter.upper()] = found.get(letter.upper(), 1) * size
    return found


def is_filled(t: Any, old: str, new: str) -> bool:
    """Return whether a tensor, or a field of a tuple, has padded blocks in the new layout. Dynamic dimensions may be
    padded."""
    if isinstance(t, TupleType):
        return any(is_filled(f, old, new) for f in t.fields)
    if len(letters(old)) != len(dims(t)):
        return False
    shape = totals(dims(t), old)
    return any(not isinstance(shape[c], int) or shape[c] % size for c, size in blocks(new).items())


def without(layout: str, gone: set[str]) -> str:
    """Return a layout without some dimensions."""
    return "".join(f"{size or ''}{letter}" for letter, size in parts(layout) if letter.upper() not in gone)


def _changed(attrs, **new: Any) -> dict[str, Any]:
    return {**(attrs.entries if attrs is not None else {}), **new}


def _place(axis: int, old: str, new: str) -> int | None:
    """Return the index of an axis in the new layout; None if the axis is blocked."""
    name = letters(old)[normalize_axis(axis, len(letters(old)))]
    return None if name in blocks(new) else letters(new).index(name)


def same(attrs, types, old: str, new: str) -> LayoutChange:
    """Rule of element-wise operators: every tensor in the new layout, scalars unchanged."""
    inputs = []
    for t in types:
        tensors = t.fields if isinstance(t, TupleType) else (t,)
        inputs.append(new if any(len(p.shape) for p in tensors) else None)
    return LayoutChange(inputs, new, _changed(attrs))


def broadcast(attrs, types, old: str, new: str) -> LayoutChange:
    """Rule of broadcasting operators: like ``same``, but a dimension of size 1 gets blocks of size 1.

    If a blocked dimension has size 1 in all inputs, the largest input has padded blocks, as the output does.
    """
    inputs: list[str | Vector | None] = []
    # Tensors with one element are used as scalars, unless all inputs have one element: the output needs the full rank.
    lone = all(d == 1 for t in types for d in dims(t))
    along = {c: max(totals(dims(t), old).get(c, 1) for t in types) for c in blocks(new)}
    largest = max((_count(dims(t)) for t in types if len(dims(t)) == len(letters(old))), default=None)
    for t in types:
        shape = dims(t)
        is_whole = len(shape) == len(letters(old))
        if all(d == 1 for d in shape) and not (lone and is_whole):
            inputs.append(None)
            continue
        named = totals(shape, old)
        leads = is_whole and _count(shape) == largest
        single = {c for c in blocks(new) if named.get(c, 1) == 1 and not (leads and along[c] == 1)}
        inputs.append("".join(f"{1 if letter.upper() in single else size}{letter}" if size else letter
                              for letter, size in parts(new)))  # fmt: skip
    return LayoutChange(inputs, new, _changed(attrs))


def _count(shape) -> tuple[int, int]:
    """Return a sort key for tensor sizes: the number of dynamic dimensions, then the product of the static ones."""
    known = [d for d in shape if isinstance(d, int)]
    return len(shape) - len(known), math.prod(known)


def divides_alike(rule, types, old: str) -> bool:
    """Return whether a call on blocked tensors may use other blocks: it is element-wise, and in each blocked dimension
    a tensor has size 1 or the common size."""
    shapes = [dims(t) for t in types if not isinstance(t, TupleType)]
    if rule not in (same, broadcast) or any(len(s) != len(letters(old)) for s in shapes) or len(shapes) < len(types):
        return False
    sizes = [totals(s, old) for s in shapes]
    return all(s[c] in (1, max(t[c] for t in sizes)) for s in sizes for c in blocks(old))


def by_name(key: str, *others: str):
    """Return a rule for operators whose layout is the attribute ``key``; other inputs are unchanged."""

    def rule(attrs, types, old: str, new: str) -> LayoutChange | None:
        if is_blocked(new) and key == "data_layout" or attrs.get(key) != old:
            return None
        more = {k: new if getattr(attrs, k, "") else "" for k in others}
        return LayoutChange([new] + [None] * (len(types) - 1), new, _changed(attrs, **{key: new}, **more))

    return rule


def window(attrs, types, old: str, new: str) -> LayoutChange | None:
    """Rule of deformable convolutions: like ``by_name``, and the offsets have the layout of the data."""
    found = by_name("data_layout", "out_layout")(attrs, types, old, new)
    return None if found is None else found._replace(inputs=[new, new, None])


def unblocked(rule):
    """Return a rule that does not accept blocked layouts."""
    return lambda attrs, types, old, new: None if is_blocked(new) else rule(attrs, types, old, new)


def along_axis(attrs, types, old: str, new: str) -> LayoutChange | None:
    """Rule of operators with an axis attribute; vectors along the axis are unchanged."""
    at = _place(attrs.axis, old, new)
    if at is None:
        return None
    return LayoutChange([new] + [None] * (len(types) - 1), new, _changed(attrs, axis=at))


def batch_norm(attrs, types, old: str, new: str) -> LayoutChange | None:
    """Rule of batch_norm: like ``along_axis``, but only the first output has the layout of the data."""
    found = along_axis(attrs, types, old, new)
    return None if found is None else found._replace(output=(new, None, None))


def with_vector(build: Callable[..., Any]):
    """Return a rule for operators with a vector along an axis. If the axis is blocked, ``build(data, vector)`` creates
    an equivalent expression with a blocked vector."""

    def rule(attrs, types, old: str, new: str) -> LayoutChange | None:
        found = along_axis(attrs, types, old, new)
        if found is not None:
            return found
        letter = letters(old)[normalize_axis(attrs.axis, len(letters(old)))]
        return LayoutChange([new, Vector(letter, new)], new, _changed(attrs), None, build)

    return rule


def _prelu(data, slope):
    zero = const(0.0, "float32")
    return call("add", call("maximum", data, zero), call("multiply", call("minimum", data, zero), slope))


def joined(attrs, types, old: str, new: str) -> LayoutChange | None:
    """Rule of concatenation: all fields in the new layout. Along blocks, only the last field may have a padded
    block."""
    axis = normalize_axis(attrs.axis, len(letters(old)))
    name = letters(old)[axis]
    size = blocks(new).get(name, 1)
    if size > 1 and any(dims(t)[axis] % size for t in types[0].fields[:-1]):
        return None
    return LayoutChange([new], new, _changed(attrs, axis=letters(new).index(name)))


def cut(attrs, types, old: str, new: str) -> LayoutChange | None:
    """Rule of split along an axis; along blocks, all split points must be between blocks."""
    axis = normalize_axis(attrs.axis, len(letters(old)))
    name, at, whole = letters(old)[axis], attrs.indices_or_sections, dims(types[0])[axis]
    size = blocks(new).get(name, 1)
    count = at if isinstance(at, int) else len(at) + 1
    if size > 1:
        if not isinstance(whole, int):
            return None
        places = [whole // at * i for i in range(1, at)] if isinstance(at, int) else list(at)
        if any(p % size for p in places):
            return None
        at = tuple(p // size for p in places)
    attrs = _changed(attrs, indices_or_sections=at, axis=letters(new).index(name))
    return LayoutChange([new], (new,) * count, attrs)


def _even_bounds(attrs, sizes: list) -> list[tuple[int, int, int]] | None:
    """Return (begin, end, stride) for each axis of a slice; missing bounds select the rest of the axis.

    None if such an axis is dynamic.
    """
    out = []
    for i, size in enumerate(sizes):
        step = attrs.strides[i] if i < len(attrs.strides) else 1
        given = i < len(attrs.begin), i < len(attrs.end)
        if not all(given) and not isinstance(size, int):
            return None
        first = attrs.begin[i] if given[0] else 0 if step > 0 else size - 1
        rest = -1 if attrs.slice_mode == "size" else size if step > 0 else -size - 1
        out.append((first, attrs.end[i] if given[1] else rest, step))
    return out


def sliced(attrs, types, old: str, new: str) -> LayoutChange | None:
    """Rule of strided_slice; along blocks, only whole blocks can be selected."""
    shape, names = dims(types[0]), letters(old)
    if attrs.axes is None and not is_blocked(new):
        bounds = _even_bounds(attrs, list(shape))
        if bounds is not None:
            begin, end, strides = zip(*[bounds[names.index(c)] for c in letters(new)])
            return LayoutChange([new], new, _changed(attrs, begin=begin, end=end, strides=strides))
    count = max(len(attrs.begin), len(attrs.end), len(attrs.strides))
    axes = range(count) if attrs.axes is None else normalize_axes(attrs.axes, len(names))
    bounds = _even_bounds(attrs, [shape[a] for a in axes])
    if bounds is None:
        return None
    strides = [stride for _, _, stride in bounds]
    begin, end = [], []
    for i, axis in enumerate(axes):
        (first, last, _), size, whole = bounds[i], blocks(new).get(names[axis], 1), shape[axis]
        if size > 1:
            if strides[i] != 1 or attrs.slice_mode != "end" or not isinstance(whole, int):
                return None
            first, last = (max(0, min(v + whole if v < 0 else v, whole)) for v in (first, last))
            if first % size or last % size and last != whole:
                return None
            first, last = first // size, -(-last // size)
        begin.append(first)
        end.append(last)
    places = tuple(letters(new).index(names[a]) for a in axes)
    kept = None if attrs.axes is None and places == tuple(range(len(places))) else places
    changed = _changed(attrs, begin=tuple(begin), end=tuple(end), strides=tuple(strides), axes=kept)
    return LayoutChange([new], new, changed)


def taken(attrs, types, old: str, new: str) -> LayoutChange | None:
    """Rule of take with a vector of indices along an axis that is not blocked."""
    if attrs.axis is None or attrs.batch_dims or len(types[1].shape) != 1:
        return None
    at = _place(attrs.axis, old, new)
    return None if at is None else LayoutChange([new, None], new, _changed(attrs, axis=at))


def reduced(attrs, types, old: str, new: str) -> LayoutChange | None:
    """Rule of reductions: the reduced axes are renamed, and the other dimensions keep the order of the new layout.

    If a blocked dimension is reduced, its block dimension is reduced too; with ``keepdims`` it has blocks of size 1.
    """
    names = letters(old)
    axes = list(range(len(names))) if attrs.axis is None else normalize_axes(attrs.axis, len(names))
    if attrs.exclude:
        axes = [i for i in range(len(names)) if i not in axes]
    gone = {names[a] for a in axes}
    divided = gone & set(blocks(new))
    if divided and (is_blocked(old) or is_filled(types[0], old, new)):
        # The padding of a block must not be included in the reduction.
        return None
    reduced_names = [n for a in axes for n in (names[a], names[a].lower()) if n in letters(new)]
    changed = _changed(attrs, axis=tuple(letters(new).index(n) for n in reduced_names), exclude=False)
    if not attrs.keepdims:
        return LayoutChange([new], without(new, gone), changed, without(old, gone))
    kept = "".join(
        f"{1 if letter.islower() and letter.upper() in divided else size or ''}{letter}" for letter, size in parts(new)
    )
    return LayoutChange([new], kept, changed)


def placed(attrs, types, old: str, new: str) -> LayoutChange | None:
    """Rule of argmax and argmin: like ``reduced``, but the order of the reduced axes must not change."""
    found = reduced(attrs, types, old, new)
    if found is None or any(letters(new)[a].islower() for a in found.attrs["axis"]):
        return None
    return found if list(found.attrs["axis"]) == sorted(found.attrs["axis"]) else None


def squeezed(attrs, types, old: str, new: str) -> LayoutChange | None:
    """Rule of squeeze: the remaining dimensions keep the order of the new layout."""
    names, shape = letters(old), dims(types[0])
    one = [i for i, d in enumerate(shape) if isinstance(d, int) and d == 1]
    axes = one if attrs.axis is None else normalize_axes(attrs.axis, len(names))
    gone = {names[a] for a in axes}
    if gone & set(blocks(new)):
        return None
    changed = _changed(attrs, axis=tuple(letters(new).index(names[a]) for a in axes))
    return LayoutChange([new], without(new, gone), changed, without(old, gone))


def along_axes(attrs, types, old: str, new: str) -> LayoutChange | None:
    """Rule of operators with an attribute of axes, whose output has the shape of the data."""
    axes = range(len(letters(old))) if attrs.axis is None else attrs.axis
    places = [_place(a, old, new) for a in axes]
    return None if None in places else LayoutChange([new], new, _changed(attrs, axis=tuple(places)))


def ranked(attrs, types, old: str, new: str) -> LayoutChange | None:
    """Rule of topk: values, indices or both along an axis."""
    found = along_axis(attrs, types, old, new)
    return found._replace(output=(new, new)) if found is not None and attrs.ret_type == "both" else found


def cut_alike(attrs, types, old: str, new: str) -> LayoutChange | None:
    """Rule of slice_like: both tensors in the new layout, with the axes renamed."""
    if attrs.axes is None:
        return None if is_blocked(new) else LayoutChange([new, new], new, _changed(attrs))
    places = [_place(a, old, new) for a in attrs.axes]
    return None if None in places else LayoutChange([new, new], new, _changed(attrs, axes=tuple(places)))


def quantized_pair(attrs, types, old: str, new: str) -> LayoutChange | None:
    """Rule of quantized binary operators: two broadcast tensors and quantization parameters, whose axes are renamed."""
    found = broadcast(attrs, types[:2], old, new)
    axes = {}
    if any(len(dims(t)) for t in types[2:]):
        places = [_place(a, old, new) for a in (attrs.lhs_axis, attrs.rhs_axis)]
        if None in places or any(len(dims(t)) != len(letters(old)) for t in types[:2]):
            return None
        axes = dict(zip(("lhs_axis", "rhs_axis"), places))
    return LayoutChange(found.inputs + [None] * (len(types) - 2), new, _changed(attrs, **axes))


def quantized_joined(attrs, types, old: str, new: str) -> LayoutChange | None:
    """Rule of quantized concatenation: like ``joined``; the quantization parameters are unchanged."""
    found = joined(attrs, types, old, new)
    return None if found is None else found._replace(inputs=[new] + [None] * (len(types) - 1))


def padded(attrs, types, old: str, new: str) -> LayoutChange | None:
    """Rule of pad: the pad widths are permuted. Blocked dimensions must not be padded."""
    widths = dict(zip(letters(old), attrs.pad_width))
    if any(any(widths[c]) for c in blocks(new)):
        return None
    moved = tuple(widths[c] if c.isupper() else (0, 0) for c in letters(new))
    return LayoutChange([new] + [None] * (len(types) - 1), new, _changed(attrs, pad_width=moved))


def _renamed(old: str, new: str, order: list[int]) -> LayoutChange:
    """Return a change that only renames dimensions: the tensor is not moved."""
    named = "".join(letters(old)[i] for i in order)
    return LayoutChange([new], new, {}, named, lambda data: data)


def transposed(attrs, types, old: str, new: str) -> LayoutChange:
    rank = len(letters(old))
    axes = range(rank)[::-1] if attrs.axes is None else normalize_axes(attrs.axes, rank)
    return _renamed(old, new, list(axes))


def layout_changed(attrs, types, old: str, new: str) -> LayoutChange | None:
    source, wanted = attrs.src_layout, attrs.dst_layout
    if not source.isalpha() or sorted(source) != sorted(wanted) or len(source) != len(letters(old)):
        return None
    return _renamed(old, new, [source.index(c) for c in wanted])


def measured(attrs, types, old: str, new: str) -> LayoutChange | None:
    """Rule of shape_of, computed without rearranging the tensor: static sizes are constants, dynamic ones are
    selected."""
    sizes = dict(zip(letters(old), dims(types[0])))
    if any(not isinstance(sizes[c], int) for c in blocks(new)):
        return None

    def build(data):
        places = const([letters(new).index(c) for c in sizes], "int64")
        given = call("take", call("shape_of", data, dtype=attrs.dtype), places, axis=0, batch_dims=0, mode="clip")
        is_open = const([0 if isinstance(d, int) else 1 for d in sizes.values()], attrs.dtype)
        known = const([d if isinstance(d, int) else 0 for d in sizes.values()], attrs.dtype)
        return call("add", call("multiply", given, is_open), known)

    return LayoutChange([new], old, {}, build=build)


_POOLS = [f"nn.{kind}_pool{n}d" for n in (1, 2, 3)
          for kind in ("max", "avg", "global_max", "global_avg", "adaptive_max", "adaptive_avg")]  # fmt: skip

RULES = (
    (by_name("data_layout", "out_layout"), ("nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.conv1d_transpose",
                                            "nn.conv2d_transpose", "nn.conv3d_transpose", "qnn.conv2d",
                                            "qnn.conv2d_transpose")),
    (window, ("nn.deformable_conv2d",)),
    (by_name("layout", "out_layout"), _POOLS),
    (by_name("layout"), ("nn.upsampling", "nn.upsampling3d", "image.resize1d", "image.resize2d", "image.resize3d")),
    (unblocked(by_name("layout")), ("nn.depth_to_space", "nn.space_to_depth", "image.grid_sample", "vision.roi_align",
                                     "vision.roi_pool")),
    (along_axis, ("nn.layer_norm", "nn.instance_norm", "nn.group_norm", "nn.softmax", "nn.log_softmax",
                  "nn.fast_softmax", "nn.lrn", "qnn.quantize", "qnn.dequantize", "qnn.requantize")),
    (batch_norm, ("nn.batch_norm",)),
    (with_vector(lambda data, bias: call("add", data, bias)), ("nn.bias_add",)),
    (with_vector(_prelu), ("nn.prelu",)),
    (joined, ("concatenate",)),
    (cut, ("split",)),
    (sliced, ("strided_slice",)),
    (taken, ("take",)),
    (placed, ("argmax", "argmin")),
    (squeezed, ("squeeze",)),
    (along_axes, ("nn.l2_normalize",)),
    (ranked, ("topk",)),
    (cut_alike, ("slice_like",)),
    (quantized_pair, ("qnn.add", "qnn.subtract", "qnn.mul")),
    (quantized_joined, ("qnn.concatenate",)),
    (reduced, ("sum", "mean", "max", "min", "prod", "variance", "all", "any")),
    (padded, ("nn.pad", "nn.mirror_pad")),
    (same, ("nn.dropout", "zeros_like", "ones_like", "copy")),
    (broadcast, ("where",)),
    (transposed, ("transpose",)),
    (layout_changed, ("layout_transform",)),
    (measured, ("shape_of",)),
)  # fmt: skip


def _divided(args) -> bool:
    """Return whether the divisor is a non-zero scalar. A vector would be padded with zeros."""
    divisor = args[1]
    return isinstance(divisor, Constant) and divisor.data.numpy().size == 1 and bool(divisor.data.numpy().all())


# Operators that map finite values to finite values.
FILLED = (
    *_POOLS, "nn.upsampling", "image.resize2d", "nn.bias_add", "nn.prelu", "concatenate", "split", "strided_slice",
    "take", "sum", "mean", "max", "min", "nn.pad", "nn.mirror_pad", "nn.dropout", "copy", "where", "transpose",
    "layout_transform", "nn.relu", "nn.leaky_relu", "clip", "sigmoid", "tanh", "erf", "abs", "negative", "floor",
    "ceil", "round", "add", "subtract", "multiply", "maximum", "minimum", "fast_tanh", "fast_erf",
    "fast_sigmoid", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and",
    "logical_or", "logical_not", "shape_of",
)  # fmt: skip


# Operators that do not follow a single input: "all" requires the layout for all inputs, "none" follows no input.
FOLLOWS = {"slice_like": "all", "vision.roi_align": "none", "vision.roi_pool": "none"}


def install() -> None:
    """Add the rules to the operator records; element-wise operators get a rule from their fusion pattern."""
    for rule, names in RULES:
        for name in names:
            if name in OPS:
                OPS[name].attrs.setdefault("layout_rule", rule)
    for name in OPS:
        facts = OPS[name].attrs
        pattern = facts.get("TOpPattern")
        if pattern == ELEMWISE and name != "full" and facts.get("num_inputs") == 1:
            facts.setdefault("layout_rule", same)
        elif pattern == BROADCAST and facts.get("num_inputs") == 2 and "infer_inputs" in facts:
            facts.setdefault("layout_rule", broadcast)
    for name in FILLED:
        if name in OPS:
            OPS[name].attrs.setdefault("layout_filled", lambda args: True)
    for name, which in FOLLOWS.items():
        OPS[name].attrs.setdefault("layout_follows", which)
    OPS["divide"].attrs.setdefault("layout_filled", _divided)


__all__ = ["LayoutChange", "Vector", "blocks", "install", "is_blocked", "is_filled", "letters", "parts"]

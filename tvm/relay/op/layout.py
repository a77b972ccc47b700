"""How operators follow a change of layout: NCHW to NHWC, or to channels in blocks (NCHW16c).

``layout_rule(attrs, types, old, new)`` of a record says what becomes of a call whose first tensor comes in layout
``new`` instead of ``old``: the layouts the inputs must have (None: as they are), the layout of the results, and the
changed attributes. Inputs with fewer dimensions are first given leading dimensions of size one, up to the length of
``old``. A rule that gives None cannot follow; the call keeps its old layout.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from ...ir.op import OPS
from ...ir.type import TupleType
from .record import BROADCAST, ELEMWISE
from .rules import dims, normalize_axes, normalize_axis


class LayoutChange(NamedTuple):
    """``inputs``: one layout (or None) for each input; ``output``: the layout of the result, or of each part of it."""

    inputs: list[str | None]
    output: str | None
    attrs: dict[str, Any]


def letters(layout: str) -> list[str]:
    """The dimensions of a layout in order: NCHW16c has N, C, H, W, c."""
    return re.findall("[A-Za-z]", layout)


def is_blocked(layout: str) -> bool:
    """Whether a dimension is divided into blocks."""
    return any(c.islower() for c in letters(layout))


def _changed(attrs, **new: Any) -> dict[str, Any]:
    return {**(attrs.entries if attrs is not None else {}), **new}


def _place(axis: int, rank: int, old: str, new: str) -> int | None:
    """Where an axis stands in the new layout; None for one that is divided into blocks."""
    name = letters(old)[normalize_axis(axis, rank)]
    return None if name.lower() in letters(new) else letters(new).index(name)


def same(attrs, types, old: str, new: str) -> LayoutChange:
    """Element by element: every tensor in the new layout, scalars as they are."""
    inputs = []
    for t in types:
        parts = t.fields if isinstance(t, TupleType) else (t,)
        inputs.append(new if any(len(p.shape) for p in parts) else None)
    return LayoutChange(inputs, new, _changed(attrs))


def broadcast(attrs, types, old: str, new: str) -> LayoutChange | None:
    """As ``same``; blocks need every input to have whole channels, or one."""
    if is_blocked(new):
        channel = letters(old).index("C") - len(letters(old))
        for t in types:
            shape = dims(t)
            if shape and (len(shape) < -channel or shape[channel] == 1) and any(d != 1 for d in shape):
                return None
    return same(attrs, types, old, new)


def by_name(key: str, *others: str):
    """The layout is an attribute; other inputs stay as they are."""

    def rule(attrs, types, old: str, new: str) -> LayoutChange | None:
        if is_blocked(new) and key == "data_layout":
            return None
        more = {k: new if getattr(attrs, k, "") else "" for k in others}
        return LayoutChange([new] + [None] * (len(types) - 1), new, _changed(attrs, **{key: new}, **more))

    return rule


def along_axis(attrs, types, old: str, new: str) -> LayoutChange | None:
    """An axis is an attribute; vectors along it stay as they are."""
    rank = len(letters(old))
    at = _place(attrs.axis, rank, old, new)
    if at is None:
        return None
    return LayoutChange([new] + [None] * (len(types) - 1), new, _changed(attrs, axis=at))


def joined(attrs, types, old: str, new: str) -> LayoutChange | None:
    """All parts of a tuple in the new layout; along channels, blocks must come out even."""
    axis = normalize_axis(attrs.axis, len(letters(old)))
    name = letters(old)[axis]
    if name.lower() in letters(new):
        size = int(re.search(f"([0-9]+){name.lower()}", new).group(1))
        if any(dims(t)[axis] % size for t in types[0].fields):
            return None
    return LayoutChange([new], new, _changed(attrs, axis=letters(new).index(name)))


def reduced(attrs, types, old: str, new: str) -> LayoutChange | None:
    """The reduced axes move; without them the rest keeps the order of the new layout."""
    names = letters(old)
    axes = list(range(len(names))) if attrs.axis is None else normalize_axes(attrs.axis, len(names))
    if attrs.exclude:
        axes = [i for i in range(len(names)) if i not in axes]
    gone = {names[a] for a in axes}
    if any(n.lower() in letters(new) for n in gone):
        return None
    places = tuple(letters(new).index(names[a]) for a in axes)
    if attrs.keepdims:
        output = new
    elif is_blocked(new):
        return None
    else:
        output = "".join(c for c in new if c not in gone)
    return LayoutChange([new], output, _changed(attrs, axis=places, exclude=False))


def padded(attrs, types, old: str, new: str) -> LayoutChange | None:
    """One pair of widths for each dimension; none along blocks."""
    widths = dict(zip(letters(old), attrs.pad_width))
    if any(c.upper() in widths and any(widths[c.upper()]) for c in letters(new) if c.islower()):
        return None
    moved = tuple(widths[c] if c.isupper() else (0, 0) for c in letters(new))
    return LayoutChange([new] + [None] * (len(types) - 1), new, _changed(attrs, pad_width=moved))


_POOLS = [f"nn.{kind}_pool{n}d" for n in (1, 2, 3)
          for kind in ("max", "avg", "global_max", "global_avg", "adaptive_max", "adaptive_avg")]  # fmt: skip

RULES = (
    (by_name("data_layout", "out_layout"), ("nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.conv1d_transpose",
                                            "nn.conv2d_transpose", "nn.conv3d_transpose", "nn.deformable_conv2d",
                                            "qnn.conv2d", "qnn.conv2d_transpose")),
    (by_name("layout", "out_layout"), _POOLS),
    (by_name("layout"), ("nn.upsampling", "nn.upsampling3d", "nn.depth_to_space", "nn.space_to_depth", "image.resize1d",
                         "image.resize2d", "image.resize3d", "image.grid_sample")),
    (along_axis, ("nn.bias_add", "nn.batch_norm", "nn.layer_norm", "nn.instance_norm", "nn.group_norm", "nn.prelu",
                  "nn.softmax", "nn.log_softmax", "nn.fast_softmax", "nn.lrn", "split", "qnn.quantize",
                  "qnn.dequantize", "qnn.requantize")),
    (joined, ("concatenate",)),
    (reduced, ("sum", "mean", "max", "min", "prod", "variance", "all", "any")),
    (padded, ("nn.pad", "nn.mirror_pad")),
    (same, ("nn.dropout", "zeros_like", "ones_like", "copy")),
)  # fmt: skip


def install() -> None:
    """Write the rules into the records; operators element by element have theirs from their pattern."""
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
    OPS["where"].attrs.setdefault("layout_rule", broadcast)

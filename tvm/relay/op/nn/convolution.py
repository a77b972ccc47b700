"""Convolution operators."""

from __future__ import annotations

from .... import topi
from ....ir.prim import PrimExpr
from ....ir.tensor_type import TensorType
from ....topi.assumptions import agree, are_noted, assume
from ....topi.nn.convolution import SPATIAL
from ....topi.nn.utils import pads
from ..layout import parts
from ..record import OUT_ELEMWISE_FUSABLE, call, op
from ..rules import dims, product, tensor
from .window import window_call


def spatial_names(layout: str) -> str:
    """Return the names of the spatial dimensions of a layout."""
    names = "".join(c for c, _ in parts(layout) if c.isupper() and c not in "NC")
    if names not in SPATIAL.values() and "".join(sorted(names)) not in SPATIAL.values():
        raise TypeError(f"{layout} is not a data layout of a convolution")
    return "".join(sorted(names))


def sizes_by_name(t: TensorType, layout: str, what: str) -> dict:
    """Return the sizes by the letters of a layout; blocks (NCHW16c) are multiplied with their dimension."""
    shape, named = dims(t), parts(layout)
    if len(shape) != len(named):
        raise TypeError(f"{what} has {len(shape)} dimensions, but its layout {layout} has {len(named)}")
    sizes: dict = {}
    for (letter, block), size in zip(named, shape):
        if block and isinstance(size, int) and size != block:
            raise TypeError(
                f"{what} has blocks of {size} in dimension {letter}, but its layout {layout} requires {block}"
            )
        sizes[letter.upper()] = product([sizes.get(letter.upper(), 1), size])
    return sizes


def in_layout(sizes: dict, layout: str) -> list:
    """Return the shape of a tensor of these sizes in a layout, which may be blocked."""
    size_of: dict[str, int] = {}
    for letter, block in parts(layout):
        if block:
            size_of[letter.upper()] = size_of.get(letter.upper(), 1) * block
    for letter, block in size_of.items():
        if isinstance(sizes[letter], int) and sizes[letter] % block:
            raise TypeError(f"size {sizes[letter]} is not a multiple of the block size {block} in layout {layout}")
    return [
        block or (sizes[letter] // size_of[letter] if letter in size_of else sizes[letter])
        for letter, block in parts(layout)
    ]


def check_window(attrs, window: tuple) -> None:
    """Check that the window of the weight agrees with ``kernel_size`` and is not empty."""
    if attrs.kernel_size is not None and tuple(int(k) for k in attrs.kernel_size) != window:
        raise TypeError(f"kernel_size is {tuple(attrs.kernel_size)}, but the weight has window {window}")
    if any(isinstance(k, int) and k < 1 for k in window):
        raise TypeError(f"the window of the weight must have size 1 or more in each dimension, got {window}")


def conv_type(attrs, types):
    """Return the output type of a convolution, in the layout of the data."""
    data_type, weight_type = tensor(types[0], "the data"), tensor(types[1], "the weight")
    names = spatial_names(attrs.data_layout)
    data = sizes_by_name(data_type, attrs.data_layout, "the data")
    weight = sizes_by_name(weight_type, attrs.kernel_layout, "the weight")
    check_window(attrs, tuple(weight[c] for c in names))
    per_group = weight["I"]
    filters = weight["O"]
    if is_depthwise_layout(attrs) or has_multiplier(attrs, data["C"], weight["O"], weight["I"]):
        filters, per_group = weight["O"] * weight["I"], 1
    if not agree(data["C"], per_group * attrs.groups, "channels of the data against the weight's"):
        raise TypeError(
            f"the data has {data['C']} channels, but the weight requires {per_group} for each of {attrs.groups} groups"
        )
    if isinstance(filters, int) and filters % attrs.groups:
        raise TypeError(f"{filters} filters cannot be divided into {attrs.groups} groups")
    if attrs.channels is not None and not agree(int(attrs.channels), filters, "channels against filters"):
        raise TypeError(f"channels is {attrs.channels}, but the weight has {filters} filters")
    out = {"N": data["N"], "C": filters}
    sizes = [(weight[c] - 1) * d + 1 for c, d in zip(names, attrs.dilation)]
    before, after = pads(attrs.padding, sizes, len(names), "padding")
    for c, k, s, lo, hi in zip(names, sizes, attrs.strides, before, after):
        if isinstance(data[c], PrimExpr):
            if are_noted():
                assume(data[c] + (lo + hi) >= k, f"padded data that holds the kernel ({k} with dilation) along {c}")
            out[c] = data[c] if s == 1 and lo + hi == k - 1 else (data[c] + (lo + hi - k)) // s + 1
            continue
        out[c] = (data[c] + lo + hi - k) // s + 1
        if out[c] < 1:
            raise TypeError(
                f"the kernel ({k} with dilation) is larger than the padded data ({data[c] + lo + hi}) along {c}"
            )
    return TensorType(in_layout(out, attrs.out_layout or attrs.data_layout), attrs.out_dtype or data_type.dtype)


def conv_macs(attrs, types, out) -> int:
    """Return the number of multiply-adds: each output element sums over the window and the channels of its group."""
    window = sizes_by_name(types[1], attrs.kernel_layout, "the weight")
    filters = window["O"]
    if is_depthwise_layout(attrs) or filters_in_front(attrs, types):
        filters *= window["I"]
    return product(dims(out)) * product(dims(types[1])) // filters


def is_depthwise_layout(attrs) -> bool:
    """Return whether the kernel layout is HWOI, which TensorFlow uses for depthwise convolutions."""
    return attrs.groups > 1 and attrs.kernel_layout == "HWOI"


def has_multiplier(attrs, channels, outer, inner) -> bool:
    """Return whether the weight of a depthwise convolution is (channels, filters for each channel, ...) instead of the
    equivalent (filters, 1, ...)."""
    return (attrs.groups > 1 and attrs.kernel_layout.startswith("OI") and _is_plain(attrs) and inner != 1
            and channels == outer == attrs.groups)  # fmt: skip


def filters_in_front(attrs, types) -> tuple | None:
    """Return the shape of the weight as (filters, 1, ...) if it has a channel multiplier, else None."""
    if attrs.groups == 1 or not _is_plain(attrs):
        return None
    channels, shape = dims(types[0])[attrs.data_layout.index("C")], dims(types[1])
    return (shape[0] * shape[1], 1, *shape[2:]) if has_multiplier(attrs, channels, *shape[:2]) else None


def conv_inputs(attrs, types):
    """Infer the type of the weight from the attributes, for graphs that are built before their parameters."""
    data = tensor(types[0], "the data")
    if attrs.channels is None or attrs.kernel_size is None:
        raise TypeError("the type of the weight is unknown; give channels and kernel_size, or annotate it")
    by_name = sizes_by_name(data, attrs.data_layout, "the data")
    names = spatial_names(attrs.data_layout)
    sizes = {"O": int(attrs.channels), "I": by_name["C"] // attrs.groups, **dict(zip(names, attrs.kernel_size))}
    if is_depthwise_layout(attrs):
        sizes["O"], sizes["I"] = by_name["C"], int(attrs.channels) // by_name["C"]
    return [data, TensorType([int(d) for d in in_layout(sizes, attrs.kernel_layout)], data.dtype)]


def plain_layouts(attrs) -> tuple[str, str]:
    """Return the layouts of the data and the kernel without blocks."""
    return without_blocks(attrs.data_layout), without_blocks(attrs.kernel_layout)


def without_blocks(layout: str) -> str:
    return "".join(c for c, _ in parts(layout) if c.isupper())


def _is_plain(attrs) -> bool:
    return plain_layouts(attrs) == (attrs.data_layout, attrs.kernel_layout) and attrs.out_layout in (
        "",
        attrs.data_layout,
    )


def conv_expand(name: str):
    """Return the expansion of a convolution in a blocked layout, or with another output layout, to a plain convolution
    between layout changes. A channel multiplier is converted to filters."""

    def expand(attrs, args, types):
        if _is_plain(attrs):
            shape = filters_in_front(attrs, types)
            return (
                None
                if shape is None
                else call(name, args[0], call("reshape", args[1], newshape=shape, allowzero=False), **attrs.entries)
            )
        data, kernel = plain_layouts(attrs)
        entries = {**attrs.entries, "data_layout": data, "kernel_layout": kernel, "out_layout": ""}
        inputs = [
            call("layout_transform", arg, src_layout=have, dst_layout=plain) if have != plain else arg
            for arg, have, plain in zip(args, (attrs.data_layout, attrs.kernel_layout), (data, kernel))
        ]
        made = call(name, *inputs, **entries)
        out = attrs.out_layout or attrs.data_layout
        return made if out == data else call("layout_transform", made, src_layout=data, dst_layout=out)

    return expand


def _conv_compute(
    attrs,
    inputs,
    out,
    conv=topi.nn.conv,
    depthwise_nchw=topi.nn.depthwise_conv2d_nchw,
    depthwise_nhwc=topi.nn.depthwise_conv2d_nhwc,
):
    if not _is_plain(attrs):
        return _blocked_compute(attrs, inputs, out, conv)
    data, weight = inputs
    channels = data.shape[attrs.data_layout.index("C")]
    shape = filters_in_front(attrs, [TensorType(t.shape, t.dtype) for t in inputs])
    weight = weight if shape is None else topi.reshape(weight, shape)
    filters = out.shape[attrs.data_layout.index("C")]
    depthwise = attrs.groups > 1 and getattr(channels, "value", 0) == attrs.groups and len(attrs.data_layout) == 4
    if depthwise and attrs.data_layout == "NCHW" and attrs.kernel_layout == "OIHW" and int(filters) == attrs.groups:
        return depthwise_nchw(data, weight, attrs.strides, attrs.padding, attrs.dilation, out.dtype)
    if is_depthwise_layout(attrs):
        return depthwise_nhwc(data, weight, attrs.strides, attrs.padding, attrs.dilation, "HWOI", out.dtype)
    return conv(
        data,
        weight,
        attrs.strides,
        attrs.padding,
        attrs.dilation,
        attrs.groups,
        attrs.data_layout,
        attrs.kernel_layout,
        out.dtype,
        f"conv{len(attrs.data_layout) - 2}d",
    )


def _blocked_compute(attrs, inputs, out, conv):
    """Compute a convolution on data and weight in their blocked layouts."""
    layout, kernel = plain_layouts(attrs)
    data = inputs[0] if layout == attrs.data_layout else topi.layout_transform(inputs[0], attrs.data_layout, layout)
    weight = (
        inputs[1] if kernel == attrs.kernel_layout else topi.layout_transform(inputs[1], attrs.kernel_layout, kernel)
    )
    made = conv(
        data,
        weight,
        attrs.strides,
        attrs.padding,
        attrs.dilation,
        attrs.groups,
        layout,
        kernel,
        out.dtype,
        f"conv{len(layout) - 2}d",
    )
    wanted = attrs.out_layout or attrs.data_layout
    return made if wanted == layout else topi.layout_transform(made, layout, wanted)


def _facts(name: str) -> dict:
    return {
        "pattern": OUT_ELEMWISE_FUSABLE,
        "contraction": "convolution",
        "type_rule": conv_type,
        "macs": conv_macs,
        "infer_inputs": conv_inputs,
        "compute": _conv_compute,
        "expand": conv_expand(name),
        "expands_blocks": True,
    }


@op("nn.conv1d", 2, **_facts("nn.conv1d"))
def conv1d(
    data,
    weight,
    strides=1,
    padding=0,
    dilation=1,
    groups=1,
    channels=None,
    kernel_size=None,
    data_layout="NCW",
    kernel_layout="OIW",
    out_layout="",
    out_dtype="",
):
    """Compute a 1-D convolution (cross-correlation)."""
    return window_call("nn.conv1d", 1, locals())


@op("nn.conv2d", 2, **_facts("nn.conv2d"))
def conv2d(
    data,
    weight,
    strides=(1, 1),
    padding=(0, 0),
    dilation=(1, 1),
    groups=1,
    channels=None,
    kernel_size=None,
    data_layout="NCHW",
    kernel_layout="OIHW",
    out_layout="",
    out_dtype="",
):
    """Compute a 2-D convolution (cross-correlation).

    Examples
    --------
    >>> x, w = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(4, 3, 3, 3))
    >>> mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.nn.conv2d(x, w, padding=(1, 1))))
    >>> mod["main"].ret_type
    Tensor[(1, 4, 8, 8), float32]
    """
    return window_call("nn.conv2d", 2, locals())


@op("nn.conv3d", 2, **_facts("nn.conv3d"))
def conv3d(
    data,
    weight,
    strides=(1, 1, 1),
    padding=(0, 0, 0),
    dilation=(1, 1, 1),
    groups=1,
    channels=None,
    kernel_size=None,
    data_layout="NCDHW",
    kernel_layout="OIDHW",
    out_layout="",
    out_dtype="",
):
    """Compute a 3-D convolution (cross-correlation)."""
    return window_call("nn.conv3d", 3, locals())

"""Transposed convolutions: the data is dilated by the strides, then correlated with the mirrored kernel."""

from __future__ import annotations

from typing import Any, NamedTuple

from ... import te, tir
from ...error import TVMError
from ..utils import get_const_int, simplify
from .convolution import SPATIAL, check_layout
from .utils import pads, spatial


class Transposed(NamedTuple):
    """The parameters of a transposed convolution, with sizes by dimension letter of the layouts."""

    spatial: str
    data_layout: str
    kernel_layout: str
    data: dict[str, Any]
    weight: dict[str, Any]
    out: dict[str, Any]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    spans: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    extra: tuple[int, ...]
    groups: int
    dtype: str


def transposed_of(
    inp,
    filt,
    strides,
    padding,
    dilation,
    groups,
    data_layout,
    kernel_layout="",
    output_padding=0,
    out_dtype=None,
    name="conv_transpose",
) -> Transposed:
    """Return the transposed convolution that the arguments describe. Errors for invalid arguments name the operator."""
    n = len(inp.shape) - 2
    names = SPATIAL.get(n)
    if names is None:
        raise TVMError(f"{name}: data must have 1 to 3 spatial dimensions, got {len(inp.shape)} dimensions")
    kernel_layout = kernel_layout or "IO" + names
    check_layout(data_layout, "NC" + names, name)
    check_layout(kernel_layout, "OI" + names, name)
    strides, dilations = spatial(strides, n, name + ": strides"), spatial(dilation, n, name + ": dilation")
    extra = spatial(output_padding, n, name + ": output_padding", 0)
    data = {c: inp.shape[data_layout.index(c)] for c in data_layout}
    weight = {c: filt.shape[kernel_layout.index(c)] for c in kernel_layout}
    groups = get_const_int(groups)
    if isinstance(getattr(data["C"], "value", None), int) and data["C"].value % groups:
        raise TVMError(f"{name}: {data['C']} channels cannot be divided into {groups} groups")
    spans = tuple(get_const_int((weight[c] - 1) * d + 1) for c, d in zip(names, dilations))
    before, after = pads(padding, spans, n, name)
    for e, s, d, c in zip(extra, strides, dilations, names):
        if e and e >= max(s, d):
            raise TVMError(
                f"{name}: output_padding {e} along {c} must be smaller than the stride {s} or the dilation {d}"
            )
    out = {"N": data["N"], "C": weight["O"] * groups}
    for c, k, s, lo, hi, e in zip(names, spans, strides, before, after, extra):
        out[c] = simplify((data[c] - 1) * s + k - lo - hi + e)
    return Transposed(
        names,
        data_layout,
        kernel_layout,
        data,
        weight,
        out,
        strides,
        dilations,
        spans,
        before,
        after,
        extra,
        groups,
        out_dtype or inp.dtype,
    )


def conv_transpose(
    inp,
    filt,
    strides,
    padding,
    dilation,
    groups,
    data_layout,
    kernel_layout="",
    output_padding=0,
    out_dtype=None,
    name="conv_transpose",
):
    """The gradient of a convolution with respect to its data. In ``kernel_layout`` I counts the channels of ``inp``
    and O the output channels of one group."""
    known = transposed_of(
        inp, filt, strides, padding, dilation, groups, data_layout, kernel_layout, output_padding, out_dtype, name
    )
    names, weight, out, dtype = known.spatial, known.weight, known.out, known.dtype
    lead = {c: k - 1 - lo for c, k, lo in zip(names, known.spans, known.before)}
    reach = {c: out[c] + k - 1 for c, k in zip(names, known.spans)}
    spread = _dilate_and_pad(inp, known.data, data_layout, names, known.strides, lead, reach)
    per_group, filters = simplify(known.data["C"] // known.groups), weight["O"]
    rc = te.reduce_axis((0, per_group), name="rc")
    window = [te.reduce_axis((0, weight[c]), name="r" + c.lower()) for c in names]

    def body(*at):
        i = dict(zip(data_layout, at))
        one = known.groups == 1
        channel = rc if one else (i["C"] // filters) * per_group + rc
        where = {"N": i["N"], "C": channel, **{c: i[c] + w * d for c, w, d in zip(names, window, known.dilations)}}
        kernel = {
            "I": channel,
            "O": i["C"] if one else i["C"] % filters,
            **{c: weight[c] - 1 - w for c, w in zip(names, window)},
        }
        x = spread(*[where[c] for c in data_layout]).astype(dtype)
        return te.sum(x * filt(*[kernel[c] for c in known.kernel_layout]).astype(dtype), axis=[rc, *window])

    return te.compute([simplify(out[c]) for c in data_layout], body, name=name, tag=f"{name}_{data_layout.lower()}")


def _dilate_and_pad(inp, data, layout, names, strides, lead, sizes):
    """Return the data with zeros between the elements (by strides) and around them; negative leading padding crops."""
    stride = dict(zip(names, strides))

    def body(*at):
        index, inside = [], []
        for c, i in zip(layout, at):
            if c not in names:
                index.append(i)
                continue
            j = i - lead[c]
            inside += [j >= 0, j < (data[c] - 1) * stride[c] + 1]
            if stride[c] > 1:
                inside.append(te.indexmod(j, stride[c]).equal(0))
            index.append(te.indexdiv(j, stride[c]) if stride[c] > 1 else j)
        return tir.if_then_else(tir.all(*inside), inp(*index), tir.const(0, inp.dtype))

    shape = [simplify(sizes[c]) if c in names else inp.shape[layout.index(c)] for c in layout]
    return te.compute(shape, body, name="data_spread", tag="injective,pad")


def conv1d_transpose_ncw(data, kernel, stride, padding, out_dtype, output_padding):
    """Transposed convolution along one dimension, data NCW and weights IOW."""
    return conv_transpose(
        data, kernel, stride, padding, 1, 1, "NCW", "IOW", output_padding, out_dtype, "conv1d_transpose"
    )


def conv2d_transpose_nchw(Input, Filter, strides, padding, out_dtype, output_padding):
    """Transposed convolution along two dimensions, data NCHW and weights IOHW."""
    return conv_transpose(
        Input, Filter, strides, padding, 1, 1, "NCHW", "IOHW", output_padding, out_dtype, "conv2d_transpose"
    )


def group_conv2d_transpose_nchw(data, kernel, stride, padding, out_dtype, output_padding, groups):
    """Grouped transposed convolution, data NCHW and weights IOHW."""
    return conv_transpose(
        data, kernel, stride, padding, 1, groups, "NCHW", "IOHW", output_padding, out_dtype, "conv2d_transpose"
    )


def conv3d_transpose_ncdhw(Input, Filter, strides, padding, out_dtype, output_padding):
    """Transposed convolution along three dimensions, data NCDHW and weights IODHW."""
    return conv_transpose(
        Input, Filter, strides, padding, 1, 1, "NCDHW", "IODHW", output_padding, out_dtype, "conv3d_transpose"
    )

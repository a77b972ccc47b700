"""Convolutions on packed data."""

from __future__ import annotations

from typing import Any

from .... import autotvm, te, topi
from ....autotvm.task.space import OtherOptionEntity, SplitEntity
from ....error import TVMError
from ....te.operation import ComputeOp
from ..environment import get_env
from .stages import Placed, place, stages_of
from .tiles import Product, choose
from .utils import is_packed_layout

TAG = "conv2d_dense"


@autotvm.register_topi_compute("conv2d_packed.vta")
def conv2d_packed(cfg: Any, data: Any, kernel: Any, strides: Any, padding: Any, dilation: Any, layout: str,
                  out_dtype: str) -> Any:  # fmt: skip
    """Compute a convolution of (N, C, H, W, n, c) data with an (O, I, H, W, o, i) kernel.

    Parameters
    ----------
    cfg : ConfigEntity
        The configuration of the template.
    data, kernel : Tensor
        The operands.
    strides, padding, dilation : sequence of int
        The attributes of the convolution. ``padding`` has two or four values.
    layout : str
        The layout of the data, such as ``NCHW1n16c``.
    out_dtype : str
        The type of the accumulators.

    Returns
    -------
    Tensor
        The output.

    Raises
    ------
    TVMError
        The layout is not packed, or the dilation is not 1.
    """
    if not is_packed_layout(layout) or len(data.shape) != 6 or len(kernel.shape) != 6:
        raise TVMError(f"conv2d_packed: the layout {layout} with {len(data.shape)} dimensions is not packed")
    if tuple(int(d) for d in dilation) != (1, 1):
        raise TVMError(f"conv2d_packed: the dilation must be 1, got {tuple(dilation)}")
    top, left, bottom, right = (int(p) for p in (padding if len(padding) == 4 else (*padding, *padding)))
    if top or left or bottom or right:
        data = topi.nn.pad(data, [0, 0, top, left, 0, 0], [0, 0, bottom, right, 0, 0], name="pad_data")
    kh, kw = int(kernel.shape[2]), int(kernel.shape[3])
    sh, sw = (int(s) for s in strides)
    height, width = (int(data.shape[2]) - kh) // sh + 1, (int(data.shape[3]) - kw) // sw + 1
    d_i, d_j = te.reduce_axis((0, kh), "d_i"), te.reduce_axis((0, kw), "d_j")
    k_o, k_i = te.reduce_axis((0, data.shape[1]), "k_o"), te.reduce_axis((0, data.shape[5]), "k_i")
    cfg.add_flop(
        2 * height * width * kh * kw * _size(kernel.shape[0], kernel.shape[1], *kernel.shape[4:], *data.shape[::4])
    )
    return te.compute(
        (data.shape[0], kernel.shape[0], height, width, data.shape[4], kernel.shape[4]),
        lambda b_o, c_o, i, j, b_i, c_i: te.sum(
            data[b_o, k_o, i * sh + d_i, j * sw + d_j, b_i, k_i].astype(out_dtype)
            * kernel[c_o, k_o, d_i, d_j, c_i, k_i].astype(out_dtype),
            axis=[k_o, d_i, d_j, k_i],
        ),
        name="res",
        tag=TAG,
        attrs={"strides": [sh, sw]},
    )


def _size(*extents: Any) -> int:
    size = 1
    for extent in extents:
        size *= int(extent)
    return size


@autotvm.register_topi_schedule("conv2d_packed.vta")
def schedule_conv2d_packed(cfg: Any, outs: Any) -> Any:
    """Schedule a convolution with the elementwise operations after it.

    Parameters
    ----------
    cfg : ConfigEntity
        The configuration: tiles, and the numbers of virtual threads.
    outs : list of Tensor
        The output.

    Returns
    -------
    Schedule
        The schedule.
    """
    return schedule_product(cfg, outs[0], TAG)


def schedule_product(cfg: Any, output: Any, tag: str) -> Any:
    """Schedule a product on the GEMM core with the elementwise operations after it."""
    env, found = get_env(), stages_of(output, tag)
    placed = place(env, found)
    s, conv = placed.schedule, found.anchor.output(0)
    data, kernel = s[conv].op.input_tensors
    is_padded = isinstance(data.op, ComputeOp) and "pad" in data.op.tag
    cdata = data if is_padded else s.cache_read(data, env.inp_scope, [conv])
    ckernel = s.cache_read(kernel, env.wgt_scope, [conv])
    for stage, scope in ((cdata, env.inp_scope), (ckernel, env.wgt_scope), (conv, env.acc_scope)):
        s[stage].set_scope(scope)
    axes = list(s[output].op.axis)
    spatial = axes[2:-2]
    k_o, *taps, k_i = s[conv].op.reduce_axis
    _define(cfg, axes, spatial, k_o)
    if cfg.is_fallback:
        _choose(env, cfg, found, conv, spatial)
    at = _tile_output(cfg, placed, axes, spatial)
    for stage in (conv, *placed.middle, *placed.loads):
        s[stage].compute_at(s[output], at)
    b, co, *pixels, bi, ci = s[conv].op.axis
    k_out, k_in = cfg["tile_ci"].apply(s, conv, k_o)
    s[conv].reorder(k_out, b, k_in, co, *pixels[:1], *taps, *pixels[1:], bi, ci, k_i)
    for stage in (cdata, ckernel):
        s[stage].compute_at(s[conv], k_out)
        s[stage].pragma(s[stage].op.axis[0], env.dma_copy)
    s[conv].tensorize(bi, env.gemm)
    return s


def _define(cfg: Any, axes: list[Any], spatial: list[Any], k_o: Any) -> None:
    cfg.define_split("tile_co", axes[1], num_outputs=2)
    cfg.define_split("tile_ci", k_o, num_outputs=2)
    for name, axis in zip(("tile_h", "tile_w"), spatial):
        cfg.define_split(name, axis, num_outputs=2)
    cfg.define_knob("oc_nthread", [1, 2])
    cfg.define_knob("h_nthread", [1, 2] if spatial else [1])


def _choose(env: Any, cfg: Any, found: Any, conv: Any, spatial: list[Any]) -> None:
    """Set the tiles of a configuration without tuning records."""
    data, kernel = found.anchor.input_tensors
    shape = [int(d) for d in conv.shape]
    sizes = {"height": shape[2], "width": shape[3]} if spatial else {"height": 1, "width": 1}
    taps = {"kernel": tuple(int(k) for k in kernel.shape[2:4])} if spatial else {}
    stride = {"stride": tuple(int(v) for v in found.anchor.attrs["strides"])} if spatial else {}
    whole = len(conv.shape)
    extra = len(found.widened) + sum(len(t.shape) == whole and int(t.shape[0]) == shape[0] for _, t in found.loaded)
    tile = choose(
        env, Product(shape[0], shape[1], in_channels=int(data.shape[1]), extra=extra, **sizes, **taps, **stride)
    )
    values = {"tile_co": tile.out_channels, "tile_ci": tile.in_channels, "tile_h": tile.height, "tile_w": tile.width}
    for name, size in values.items():
        if name in cfg.space_map:
            cfg[name] = SplitEntity([-1, size])
    cfg["oc_nthread"] = OtherOptionEntity(tile.oc_threads)
    cfg["h_nthread"] = OtherOptionEntity(tile.h_threads)


def _tile_output(cfg: Any, placed: Placed, axes: list[Any], spatial: list[Any]) -> Any:
    """Tile the output, bind virtual threads, and return the axis of one tile."""
    env, s, output = get_env(), placed.schedule, placed.output
    b, co, *_, bi, ci = axes
    co_out, co_in = cfg["tile_co"].apply(s, output, co)
    pairs = [cfg[name].apply(s, output, axis) for name, axis in zip(("tile_h", "tile_w"), spatial)]
    outer, inner = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    s[output].reorder(b, *outer[:1], co_out, *outer[1:], co_in, *inner, bi, ci)
    at = outer[-1] if outer else co_out
    first = b
    for name, axis in (("oc_nthread", co_out), ("h_nthread", outer[0] if outer else None)):
        count = int(cfg[name].val)
        if count > 1:
            own, thread = s[output].split(axis, factor=count)
            s[output].reorder(thread, first)
            s[output].bind(thread, te.thread_axis("cthread"))
            at = own if axis is at else at
            first = thread
    s[output].pragma(co_in, env.dma_copy)
    return at

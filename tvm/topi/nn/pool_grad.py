"""Gradients of pooling."""

from __future__ import annotations

from ... import te, tir
from ...error import TVMError
from ...ir import primop
from ...ir.prim import const, convert
from .. import reduction
from ..utils import get_const_int
from .utils import spatial


class _Windows:
    """Pooling windows over two spatial axes: the windows that contain a position, and the positions that a window
    contains."""

    def __init__(self, grads, data, kernel, stride, padding, layout: str):
        self.axes = [layout.index("H"), layout.index("W")]
        self.sizes = [data.shape[axis] for axis in self.axes]
        self.counts = [grads.shape[axis] for axis in self.axes]
        self.kernel, self.stride = spatial(kernel, 2, "pool_grad"), spatial(stride, 2, "pool_grad")
        pads = [get_const_int(p) for p in padding]
        if len(pads) not in (2, 4):
            raise TVMError(f"pool_grad: padding must have 2 or 4 values, got {len(pads)}")
        self.before = pads[:2]

    def put(self, indices, places) -> list:
        own = list(indices)
        for axis, place in zip(self.axes, places):
            own[axis] = place
        return own

    def holding(self, indices, offsets) -> tuple[list, list]:
        """Return the windows in which a position has these offsets, and the conditions for their existence."""
        windows, conditions = [], []
        for n, (axis, offset) in enumerate(zip(self.axes, offsets)):
            top = indices[axis] + self.before[n] - offset
            window = top // self.stride[n]
            conditions += [top >= 0, primop.equal(top % self.stride[n], 0), window < self.counts[n]]
            windows.append(te.max(te.min(window, self.counts[n] - 1), 0))
        return windows, conditions

    def held(self, indices, offsets) -> tuple[list, list]:
        """Return the positions of a window at these offsets, and the conditions that they are inside the data."""
        places, conditions = [], []
        for n, (axis, offset) in enumerate(zip(self.axes, offsets)):
            place = indices[axis] * self.stride[n] + offset - self.before[n]
            conditions += [place >= 0, place < self.sizes[n]]
            places.append(place)
        return places, conditions

    def offsets(self) -> list:
        return [te.reduce_axis((0, size), name=name) for size, name in zip(self.kernel, ("wh", "ww"))]


def pool_grad(grads, data, kernel, stride, padding, pool_type, ceil_mode=False, layout="NCHW", count_include_pad=True):
    """The gradient of ``data``, given the gradient of each window. The first maximum of a window receives its whole
    gradient (max), or all elements receive equal shares (avg).

    Raises
    ------
    TVMError
        The pooling type is neither max nor avg, or the layout does not contain N, C, H and W.
    """
    if pool_type not in ("max", "avg"):
        raise TVMError(f"pool_grad: the pooling type must be max or avg, got '{pool_type}'")
    if sorted(layout) != sorted("NCHW"):
        raise TVMError(f"pool_grad: the layout must contain N, C, H and W, got '{layout}'")
    windows = _Windows(grads, data, kernel, stride, padding, layout)
    spread = _spread_max if pool_type == "max" else _spread_average
    return spread(grads, data, windows, count_include_pad)


def _spread_average(grads, data, windows: _Windows, count_include_pad: bool):
    offsets = windows.offsets()
    zero = const(0, data.dtype)

    def element(*indices):
        found, conditions = windows.holding(indices, [o.var for o in offsets])
        count = convert(windows.kernel[0] * windows.kernel[1])
        if not count_include_pad:
            count = convert(1)
            for n, window in enumerate(found):
                begin = window * windows.stride[n] - windows.before[n]
                end = te.min(begin + windows.kernel[n], windows.sizes[n])
                count = count * te.max(end - te.max(begin, 0), 1)
        value = grads(*windows.put(indices, found)) / primop.cast(data.dtype, count)
        return te.sum(te.if_then_else(tir.all(*conditions), value, zero), axis=offsets)

    return te.compute(data.shape, element, name="T_pool_grad", tag="pool_grad_nchw")


def _spread_max(grads, data, windows: _Windows, count_include_pad: bool):
    inside = windows.offsets()
    width = windows.sizes[1]

    def best(*indices):
        places, conditions = windows.held(indices, [o.var for o in inside])
        value = te.if_then_else(tir.all(*conditions), data(*windows.put(indices, places)), reduction.least(data.dtype))
        flat = te.if_then_else(
            tir.all(*conditions), primop.cast("int32", places[0] * width + places[1]), te.max_value("int32")
        )
        return reduction.first_place((flat, value), axis=inside)

    places, _ = te.compute(grads.shape, best, name="pool_grad_place", tag="pool_grad_place")
    offsets = windows.offsets()
    zero = const(0, data.dtype)

    def element(*indices):
        found, conditions = windows.holding(indices, [o.var for o in offsets])
        at = windows.put(indices, found)
        own = primop.cast("int32", indices[windows.axes[0]] * width + indices[windows.axes[1]])
        chosen = tir.all(*conditions, primop.equal(places(*at), own))
        return te.sum(te.if_then_else(chosen, grads(*at), zero), axis=offsets)

    return te.compute(data.shape, element, name="T_pool_grad", tag="pool_grad_nchw")


__all__ = ["pool_grad"]

"""Resizing by run-time scales, sizes and regions.

Along each axis the program computes the indices and weights of the elements, by the formulas that ``resize.Axis``
evaluates at compile time.
"""

from __future__ import annotations

from typing import Any

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr, const
from . import run_time
from .context import MOST_ELEMENTS

# Maximum number of output elements along the resized axes.
LARGEST = 1 << 40


def real(value) -> RelayExpr:
    return const(value, "float64")


class RunTimeAxis:
    """The resizing of one axis: ``size`` and ``out`` are its input and output size, ``scale`` is their ratio.

    ``region`` is the visible part of the axis. All of them are expressions.
    """

    def __init__(self, ctx, size, out, scale, attrs, region: tuple | None):
        self.ctx, self.attrs = ctx, attrs
        self.size, self.out, self.scale = size, out, scale
        self.mode = attrs.get("coordinate_transformation_mode", "half_pixel")
        kind = "float32" if attrs.get("mode", "nearest") == "nearest" else "float64"
        self.at = ctx.made(relay.cast(self._places(region, kind), "float64"))

    def _places(self, region: tuple | None, kind: str) -> RelayExpr:
        def real(value):
            return const(value, kind)

        x, size, out = (relay.cast(v, kind) for v in (run_time.counted(self.ctx, self.out), self.size, self.out))
        scale = relay.cast(self.scale, kind)
        middle = relay.divide(relay.add(x, real(0.5)), scale)
        one, alone = real(1.0), relay.less_equal(out, real(1.0))
        if self.mode == "half_pixel":
            return relay.subtract(middle, real(0.5))
        if self.mode == "half_pixel_symmetric":
            shrink = relay.divide(out, relay.multiply(scale, size))
            shift = relay.multiply(relay.multiply(size, real(0.5)), relay.subtract(one, shrink))
            return relay.subtract(relay.add(shift, middle), real(0.5))
        if self.mode == "pytorch_half_pixel":
            return relay.where(alone, relay.zeros_like(x), relay.subtract(middle, real(0.5)))
        if self.mode == "asymmetric":
            return relay.divide(x, scale)
        if self.mode == "tf_half_pixel_for_nn":
            return middle
        last, steps = relay.subtract(size, one), relay.maximum(relay.subtract(out, one), one)
        if self.mode == "align_corners":
            return relay.where(alone, relay.zeros_like(x), relay.divide(relay.multiply(x, last), steps))
        if self.mode != "tf_crop_and_resize" or region is None:
            raise TVMError(f"coordinate_transformation_mode '{self.mode}' is not supported")
        begin, end = (relay.cast(e, kind) for e in region)
        step = relay.divide(relay.multiply(relay.subtract(end, begin), last), steps)
        spread = relay.add(relay.multiply(begin, last), relay.multiply(x, step))
        centre = relay.multiply(relay.multiply(real(0.5), relay.add(begin, end)), last)
        return relay.where(alone, relay.add(relay.zeros_like(x), centre), spread)

    def outside(self) -> RelayExpr:
        """Return a mask of the output elements whose coordinates are outside the data."""
        last = relay.cast(relay.subtract(self.size, run_time.number(1)), "float64")
        return relay.logical_or(relay.less(self.at, real(0.0)), relay.greater(self.at, last))

    def _inside(self, places) -> RelayExpr:
        places = relay.cast(places, "int64")
        return relay.maximum(relay.minimum(places, relay.subtract(self.size, run_time.number(1))), run_time.number(0))

    def _nearest(self) -> RelayExpr:
        rule = self.attrs.get("nearest_mode", "round_prefer_floor")
        rules = {
            "round_prefer_floor": lambda at: relay.ceil(relay.subtract(at, real(0.5))),
            "round_prefer_ceil": lambda at: relay.floor(relay.add(at, real(0.5))),
            "floor": relay.floor,
            "ceil": relay.ceil,
        }
        if rule not in rules:
            raise TVMError(f"nearest_mode '{rule}' is not supported")
        return self._inside(rules[rule](self.at))

    def apply(self, data, axis: int, mode: str):
        if mode == "nearest":
            return self.ctx.made(relay.take(data, self.ctx.made(self._nearest()), axis))
        if self.attrs.get("antialias", 0):
            return self._filtered(data, axis, mode)
        base = relay.floor(self.at)
        ratio = relay.subtract(self.at, base)
        rank, dtype = self.ctx.rank(data), self.ctx.dtype(data)
        rows: list[tuple[Any, Any]] = []
        total = None
        for offset in (0, 1) if mode == "linear" else (-1, 0, 1, 2):
            weight = self._weight(relay.abs(relay.subtract(ratio, real(float(offset)))), mode)
            place = relay.add(base, real(float(offset)))
            if self.attrs.get("exclude_outside", 0):
                weight = self._only_inside(place, weight)
                total = weight if total is None else relay.add(total, weight)
            rows.append((place, weight))
        out = None
        for place, weight in rows:
            weight = weight if total is None else relay.divide(weight, total)
            weight = relay.cast(run_time.along(self.ctx, self.ctx.made(weight), axis, rank), dtype)
            part = relay.multiply(relay.take(data, self.ctx.made(self._inside(place)), axis), weight)
            out = part if out is None else relay.add(out, part)
        return self.ctx.made(out)

    def _only_inside(self, place, weight) -> RelayExpr:
        size = relay.cast(self.size, "float64")
        out = relay.logical_or(relay.less(place, real(0.0)), relay.greater_equal(place, size))
        return relay.where(out, real(0.0), weight)

    def _weight(self, distance, mode: str) -> RelayExpr:
        if mode == "linear":
            return relay.maximum(relay.subtract(real(1.0), distance), real(0.0))
        a = float(self.attrs.get("cubic_coeff_a", -0.75))

        def polynomial(*factors: float) -> RelayExpr:
            out = real(factors[0])
            for f in factors[1:]:
                out = relay.add(relay.multiply(out, distance), real(f))
            return out

        near = polynomial(a + 2, -(a + 3), 0.0, 1.0)
        far = polynomial(a, -5 * a, 8 * a, -4 * a)
        beyond = relay.where(relay.less(distance, real(2.0)), far, real(0.0))
        return relay.where(relay.less_equal(distance, real(1.0)), near, beyond)

    def _filtered(self, data, axis: int, mode: str):
        """Apply an antialiasing filter, which is wider for downscaling, by a matmul with a weight matrix.

        Elements before the first and after the last one are clamped to these.
        """
        ctx = self.ctx
        scale = relay.minimum(self.scale, real(1.0))
        reach = relay.cast(relay.ceil(relay.divide(real(1.0 if mode == "linear" else 2.0), scale)), "int64")
        count = relay.add(self.size, relay.multiply(reach, run_time.number(2)))
        places = relay.subtract(run_time.counted(ctx, ctx.made(count)), reach)
        whole = relay.cast(places, "float64")
        distance = relay.abs(relay.subtract(relay.expand_dims(whole, 0), relay.expand_dims(self.at, 1)))
        weights = self._weight(relay.multiply(distance, scale), mode)
        if self.attrs.get("exclude_outside", 0):
            weights = self._only_inside(relay.expand_dims(whole, 0), weights)
        weights = relay.divide(weights, relay.sum(weights, axis=1, keepdims=True))
        rank, dtype = ctx.rank(data), ctx.dtype(data)
        order = [i for i in range(rank) if i != axis] + [axis]
        taken = relay.transpose(relay.take(data, ctx.made(self._inside(places)), axis), order)
        flat = run_time.flattened(ctx, ctx.made(taken), rank - 1)
        out = ctx.made(relay.nn.dense(flat, relay.cast(weights, dtype)))
        out = run_time.unflattened(ctx, out, taken, rank - 1)
        return ctx.made(relay.transpose(out, [order.index(i) for i in range(rank)]))


def _is_scale(e) -> RelayExpr:
    return relay.logical_and(relay.greater(e, real(0.0)), relay.less(e, real(float("inf"))))


class RunTimeSizes:
    """The scales and sizes of an operator, each a constant or an expression."""

    def __init__(self, ctx, data, axes: list[int], scales, sizes, attrs):
        self.ctx, self.data, self.axes = ctx, data, axes
        self.have = [run_time.size_of(ctx, data, a) for a in axes]
        count = len(axes)
        given = scales if sizes is None else sizes
        if ctx.length(given, "the scales or sizes") != count:
            raise TVMError(f"there are {ctx.length(given, 'the scales or sizes')} scales or sizes for {count} axes")
        if sizes is None:
            flat = relay.cast(relay.reshape(scales, (-1,)), "float64")
            flat = run_time.checked(ctx, ctx.made(flat), ctx.made(_is_scale(flat)), "scales must be positive numbers")
            self.scales = [run_time.element(ctx, flat, i) for i in range(count)]
            self.out = self._floors(0.0)
            return
        # An axis of size 0 can be resized to 0; other sizes must be positive, since 0 has no scale.
        wanted = run_time.vector(ctx, sizes)
        least = ctx.made(relay.minimum(run_time.joined(ctx, self.have), run_time.number(1)))
        wanted = run_time.checked(ctx, wanted, ctx.made(relay.greater_equal(wanted, least)), "sizes must be positive")
        self.out = self._limited([run_time.element(ctx, wanted, i) for i in range(count)])
        wide = [relay.cast(relay.maximum(h, run_time.number(1)), "float64") for h in self.have]
        self.scales = [ctx.made(relay.divide(relay.cast(o, "float64"), h)) for o, h in zip(self.out, wide)]
        policy = attrs.get("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            one = self.scales[0]
            for s in self.scales[1:]:
                one = relay.minimum(one, s) if policy == "not_larger" else relay.maximum(one, s)
            self.scales = [ctx.made(one)] * count
            self.out = self._floors(0.5)

    def _floors(self, more: float) -> list[RelayExpr]:
        sizes = [relay.multiply(relay.cast(h, "float64"), s) for h, s in zip(self.have, self.scales)]
        return self._limited([self.ctx.made(relay.floor(relay.add(s, real(more)))) for s in sizes])

    def _limited(self, sizes: list[RelayExpr]) -> list[RelayExpr]:
        """Return the sizes as integers.

        Sizes for which tables or the output would be too large are rejected before any memory for them is allocated.
        """
        ctx, numbers = self.ctx, [self.ctx.made(relay.cast(s, "float64")) for s in sizes]
        whole = ctx.made(relay.prod(run_time.joined(ctx, numbers)))
        out = []
        for size, number in zip(sizes, numbers):
            fits = relay.less_equal(number, real(float(MOST_ELEMENTS)))
            if ctx.value(size) is None or ctx.value(whole) is not None:
                fits = relay.logical_and(fits, relay.less_equal(whole, real(float(LARGEST))))
            words = f"sizes must be at most {MOST_ELEMENTS}, and the output must have at most {LARGEST} elements"
            out.append(ctx.made(relay.cast(run_time.checked(ctx, size, ctx.made(fits), words), "int64")))
        return out

    def stays(self, i: int) -> bool:
        """Return whether an axis is known to be unchanged."""
        known, out = self.ctx.value(self.scales[i]), self.ctx.value(self.out[i])
        have = self.ctx.value(self.have[i])
        return known is not None and known.item() == 1.0 and (out is None or have is None or out == have)


def resized(ctx, data, scales, sizes, attrs, roi=None, axes: list[int] | None = None):
    """Resize ``data`` along ``axes``, to which scales, sizes and region refer."""
    rank = ctx.rank(data)
    axes = list(range(rank)) if axes is None else axes
    mode = attrs.get("mode", "nearest")
    mode = {"bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    if mode not in ("nearest", "linear", "cubic"):
        raise TVMError(f"resizing mode '{mode}' is not supported")
    crop = attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    asked = RunTimeSizes(ctx, data, axes, scales, sizes, attrs)
    kept = ctx.dtype(data)
    out = data if mode == "nearest" or ctx.is_float(data) else ctx.made(relay.cast(data, "float32"))
    region = None if roi is None else ctx.made(relay.cast(relay.reshape(roi, (-1,)), "float64"))
    outside = None
    for i, axis in enumerate(axes):
        if asked.stays(i) and not crop:
            continue
        ends = tuple(run_time.element(ctx, region, i + k * len(axes)) for k in (0, 1)) if region is not None else None
        rule = RunTimeAxis(ctx, asked.have[i], asked.out[i], asked.scales[i], attrs, ends)
        out = rule.apply(out, axis, mode)
        if crop:
            beyond = run_time.along(ctx, rule.outside(), axis, rank)
            outside = beyond if outside is None else relay.logical_or(outside, beyond)
    if outside is not None:
        out = ctx.made(relay.where(outside, ctx.like(attrs.get("extrapolation_value", 0.0), out), out))
    return out if ctx.dtype(out) == kept else relay.cast(relay.round(out), kept)


__all__ = ["RunTimeAxis", "RunTimeSizes", "resized"]

"""Transposed convolutions on a GPU, as products.

Results whose places have the same rest by the strides see the same part of the window, and they see it densely: for
each such phase the result is a convolution of the data as it is. The phases are a batch of products; what a phase lacks
of the window is filled with nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any

from ... import te
from ...target import Target
from ...target.gpu_cost import MAX_GRID_BLOCKS
from ...te.tensor import Tensor
from .. import nn
from ..nn.transposed import transposed_of
from . import gemm, tuned
from .machine import Machine

# Terms of a sum below which a thread for each result is as fast.
FEW_TERMS = 8


def conv_transpose(
    inp: Tensor, filt: Tensor, strides: Any, padding: Any, dilation: Any, groups: Any, data_layout: str,
    kernel_layout: str = "", output_padding: Any = 0, out_dtype: str | None = None, name: str = "conv_transpose", *,
    target: Target,
) -> Tensor:
    """``topi.nn.conv_transpose`` in tiles, where it is a matmul."""
    known = transposed_of(inp, filt, strides, padding, dilation, groups, data_layout, kernel_layout, output_padding,
                          out_dtype, name)
    workload = tuned.transposed_workload(name, inp, filt, (data_layout, known.kernel_layout), known.strides,
                                         (*known.before, *known.after), known.dilations, known.groups, known.dtype,
                                         known.extra)
    made = conv(inp, filt, known.groups, known.strides, known.dilations, known.before, data_layout,
                known.kernel_layout, known.out, known.dtype, name, Machine(target), workload)
    return made if made is not None else nn.conv_transpose(
        inp, filt, strides, padding, dilation, groups, data_layout, kernel_layout, output_padding, out_dtype, name)


def conv(
    data: Tensor, filt: Tensor, groups: int, strides: Sequence[int], dilations: Sequence[int], before: Sequence[int],
    data_layout: str, kernel_layout: str, out: dict[str, Any], dtype: str, name: str, machine: Machine,
    workload: tuple[Any, ...] | None = None,
) -> Tensor | None:
    """The transposed convolution with ``before`` cut away in front; None where unknown sizes, short sums or dilations
    that share a factor with their stride do not allow a product."""
    names = [c for c in kernel_layout if c not in "OI"]
    names.sort(key=data_layout.index)
    sizes = {c: getattr(v, "value", v) for c, v in out.items()}
    if not gemm.is_tiled((data, filt)) or not all(isinstance(v, int) and v > 0 for v in sizes.values()):
        return None
    if any(gcd(s, d) != 1 for s, d in zip(strides, dilations)):
        return None
    shape = {c: int(filt.shape[kernel_layout.index(c)]) for c in kernel_layout}
    extent = {c: int(data.shape[data_layout.index(c)]) for c in data_layout}
    per_group, filters = shape["I"] // groups, shape["O"]
    axes = [_Axis(sizes[c], extent[c], shape[c], s, d, lo) for c, s, d, lo in zip(names, strides, dilations, before)]
    terms = per_group
    for axis in axes:
        terms *= axis.steps
    batch = [groups] if groups > 1 else []
    batch += [axis.stride for axis in axes if axis.stride > 1]
    count = 1
    for n in batch:
        count *= n
    if terms < FEW_TERMS or count > MAX_GRID_BLOCKS:
        return None
    product = _Product(data, filt, data_layout, kernel_layout, names, axes, groups, per_group, filters, sizes["N"])
    return product.make(batch, terms, sizes, dtype, name, machine, workload)


class _Axis:
    """One spatial dimension: its sizes, and which of the data and of the window a result sees."""

    def __init__(self, size: int, data: int, window: int, stride: int, dilation: int, lead: int):
        self.data, self.window, self.stride, self.dilation, self.lead = data, window, stride, dilation, lead
        # Results of a phase, and places of the window that it sees.
        self.count = -(-size // stride)
        self.steps = -(-window // stride)
        self.inverse = pow(dilation, -1, stride) if stride > 1 else 0

    def seen(self, phase: Any, place: Any, step: Any) -> tuple[Any, Any]:
        """Where result number ``place`` of a phase finds its term: in the data and in the window."""
        start = phase + self.lead
        first = start * self.inverse % self.stride if self.stride > 1 else 0
        at = (start - first * self.dilation) // self.stride + place - step * self.dilation
        return at, first + step * self.stride


class _Product:
    def __init__(self, data: Tensor, filt: Tensor, data_layout: str, kernel_layout: str, names: list[str],
                 axes: list[_Axis], groups: int, per_group: int, filters: int, images: int):
        self.data, self.filt, self.data_layout, self.kernel_layout = data, filt, data_layout, kernel_layout
        self.names, self.axes, self.groups, self.per_group = names, axes, groups, per_group
        self.filters, self.images = filters, images
        self.area = 1
        for axis in axes:
            self.area *= axis.count

    def phases(self, lead: Sequence[Any]) -> tuple[Any, list[Any]]:
        """The group and the phase along each dimension that indices of the batch say."""
        rest = list(lead)
        group = rest.pop(0) if self.groups > 1 else 0
        return group, [rest.pop(0) if axis.stride > 1 else 0 for axis in self.axes]

    def term(self, k: Any) -> tuple[Any, list[Any]]:
        """Channel of the group and step along each dimension; channels go fastest."""
        steps, at = [], k // self.per_group
        for axis in reversed(self.axes):
            steps.append(at % axis.steps)
            at = at // axis.steps
        return k % self.per_group, steps[::-1]

    def weights(self, *index: Any) -> Any:
        *lead, k, o = index
        group, phases = self.phases(lead)
        channel, steps = self.term(k)
        at = {"I": group * self.per_group + channel, "O": o}
        inside = []
        for c, axis, phase, step in zip(self.names, self.axes, phases, steps):
            _, at[c] = axis.seen(phase, 0, step)
            if axis.steps * axis.stride > axis.window:
                inside.append(at[c] < axis.window)
        value = self.filt(*[at[c] for c in self.kernel_layout])
        return te.if_then_else(te.all(*inside), value, te.const(0, value.dtype)) if inside else value

    def image(self, *index: Any) -> Any:
        *lead, k, p = index
        group, phases = self.phases(lead)
        channel, steps = self.term(k)
        at = {"C": group * self.per_group + channel, "N": p // self.area if self.images > 1 else 0}
        rest = p % self.area if self.images > 1 else p
        inside = []
        for number in reversed(range(len(self.axes))):
            axis = self.axes[number]
            place = rest % axis.count if number else rest
            rest = rest // axis.count
            found, _ = axis.seen(phases[number], place, steps[number])
            inside += [found >= 0, found < axis.data]
            at[self.names[number]] = found
        value = self.data(*[at[c] for c in self.data_layout])
        return te.if_then_else(te.all(*inside), value, te.const(0, value.dtype))

    def places(self, last: bool) -> gemm.Places:
        """Which dimensions of the result are which of the products, where there are no phases."""
        where = {c: i for i, c in enumerate(self.data_layout)}
        pixels, channel = (where["N"], *(where[c] for c in self.names)), where["C"]
        groups, filters = (), (channel,)
        if self.groups > 1:
            groups, filters = (gemm.Part(channel, self.filters, False),), (gemm.Part(channel, self.filters, True),)
        rows, columns = (pixels, filters) if last else (filters, pixels)
        return {"batch": groups, "rows": rows, "columns": columns}

    def make(self, batch: list[int], terms: int, sizes: dict[str, int], dtype: str, name: str,
             machine: Machine, workload: tuple[Any, ...] | None) -> Tensor:
        layout, columns = self.data_layout, self.images * self.area
        last = layout.endswith("C")
        of_image, of_weights = (columns, self.image), (self.filters, self.weights)
        rows, across = (of_image, of_weights) if last else (of_weights, of_image)
        strided = any(axis.stride > 1 for axis in self.axes)
        # Results of a phase lie apart, a tile of them is no box; they are put to their places afterwards.
        places = None if strided else self.places(last)
        made = gemm.product(rows[1], across[1], batch, (rows[0], across[0], terms), dtype, name, places,
                            machine, workload)
        stride = dict(zip(self.names, (axis.stride for axis in self.axes)))

        def unfold(*at):
            i = dict(zip(layout, at))
            index = [i["C"] // self.filters] if self.groups > 1 else []
            index += [i[c] % s for c, s in stride.items() if s > 1]
            place = i["N"]
            for c, axis in zip(self.names, self.axes):
                place = place * axis.count + (i[c] // axis.stride if axis.stride > 1 else i[c])
            o = i["C"] % self.filters if self.groups > 1 else i["C"]
            return (made(*index, place, o) if last else made(*index, o, place)).astype(dtype)

        return te.compute([sizes[c] for c in layout], unfold, name=name, tag=f"{name}_{layout.lower()}")


__all__ = ["conv_transpose"]

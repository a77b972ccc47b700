"""Transposed convolutions on a GPU, as implicit GEMM.

Output pixels whose coordinates are equal modulo the strides (a phase) use the same taps of the window, with a stride of
one in the data. Each phase is an ordinary convolution of the data. The phases are the batch of a matmul; taps that a
phase does not have are zeros.
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
from . import gemm, tiled_matmul, tuned
from .machine import Machine

# For smaller k, one thread for each output element is as fast.
MIN_K = 8


def conv_transpose(
    inp: Tensor,
    filt: Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    groups: Any,
    data_layout: str,
    kernel_layout: str = "",
    output_padding: Any = 0,
    out_dtype: str | None = None,
    name: str = "conv_transpose",
    *,
    target: Target,
) -> Tensor:
    """Return ``topi.nn.conv_transpose`` as implicit GEMM if possible."""
    known = transposed_of(
        inp, filt, strides, padding, dilation, groups, data_layout, kernel_layout, output_padding, out_dtype, name
    )
    workload = tuned.transposed_workload(
        name,
        inp,
        filt,
        (data_layout, known.kernel_layout),
        known.strides,
        (*known.before, *known.after),
        known.dilations,
        known.groups,
        known.dtype,
        known.extra,
    )
    out = conv(
        inp,
        filt,
        known.groups,
        known.strides,
        known.dilations,
        known.before,
        data_layout,
        known.kernel_layout,
        known.out,
        known.dtype,
        name,
        Machine(target),
        workload,
    )
    return (
        out
        if out is not None
        else nn.conv_transpose(
            inp, filt, strides, padding, dilation, groups, data_layout, kernel_layout, output_padding, out_dtype, name
        )
    )


def conv(
    data: Tensor,
    filt: Tensor,
    groups: int,
    strides: Sequence[int],
    dilations: Sequence[int],
    before: Sequence[int],
    data_layout: str,
    kernel_layout: str,
    out: dict[str, Any],
    dtype: str,
    name: str,
    machine: Machine,
    workload: tuple[Any, ...] | None = None,
) -> Tensor | None:
    """Return the transposed convolution with ``before`` cropped at the start. Return None if a matmul is not possible
    because of dynamic dimensions, a small k, or dilations that share a factor with their stride."""
    names = [c for c in kernel_layout if c not in "OI"]
    names.sort(key=data_layout.index)
    sizes = {c: getattr(v, "value", v) for c, v in out.items()}
    known = tuned.is_known(data.shape, filt.shape) and all(isinstance(v, int) and v > 0 for v in sizes.values())
    if not known or not gemm.is_tiled((data, filt)):
        return None
    if any(gcd(s, d) != 1 for s, d in zip(strides, dilations)):
        return None
    shape = {c: int(filt.shape[kernel_layout.index(c)]) for c in kernel_layout}
    extent = {c: int(data.shape[data_layout.index(c)]) for c in data_layout}
    per_group, filters = shape["I"] // groups, shape["O"]
    axes = [_Axis(sizes[c], extent[c], shape[c], s, d, lo) for c, s, d, lo in zip(names, strides, dilations, before)]
    reduction = per_group
    for axis in axes:
        reduction *= axis.taps
    batch = [groups] if groups > 1 else []
    batch += [axis.stride for axis in axes if axis.stride > 1]
    count = 1
    for n in batch:
        count *= n
    if reduction < MIN_K or count > MAX_GRID_BLOCKS:
        return None
    matmul = _ImplicitGemm(data, filt, data_layout, kernel_layout, names, axes, groups, per_group, filters, sizes["N"])
    return matmul.compute(batch, reduction, sizes, dtype, name, machine, workload)


class _Axis:
    """One spatial dimension: its sizes, and the data element and tap for each output pixel."""

    def __init__(self, size: int, data: int, window: int, stride: int, dilation: int, lead: int):
        self.data, self.window, self.stride, self.dilation, self.lead = data, window, stride, dilation, lead
        # The pixels of a phase, and the taps it uses.
        self.count = -(-size // stride)
        self.taps = -(-window // stride)
        self.inverse = pow(dilation, -1, stride) if stride > 1 else 0

    def operands_at(self, phase: Any, pixel: Any, tap: Any) -> tuple[Any, Any]:
        """Return the index in the data and the index in the window for a pixel and a tap of a phase."""
        start = phase + self.lead
        first = start * self.inverse % self.stride if self.stride > 1 else 0
        at = (start - first * self.dilation) // self.stride + pixel - tap * self.dilation
        return at, first + tap * self.stride


class _ImplicitGemm:
    """The operands, dimensions and axis roles of the matmul that computes a transposed convolution."""

    def __init__(
        self,
        data: Tensor,
        filt: Tensor,
        data_layout: str,
        kernel_layout: str,
        names: list[str],
        axes: list[_Axis],
        groups: int,
        per_group: int,
        filters: int,
        images: int,
    ):
        self.data, self.filt, self.data_layout, self.kernel_layout = data, filt, data_layout, kernel_layout
        self.names, self.axes, self.groups, self.per_group = names, axes, groups, per_group
        self.filters, self.images = filters, images
        self.area = 1
        for axis in axes:
            self.area *= axis.count

    def phases(self, lead: Sequence[Any]) -> tuple[Any, list[Any]]:
        """Return the group, and the phase along each dimension, for the indices of the batch."""
        rest = list(lead)
        group = rest.pop(0) if self.groups > 1 else 0
        return group, [rest.pop(0) if axis.stride > 1 else 0 for axis in self.axes]

    def channel_and_taps(self, k: Any) -> tuple[Any, list[Any]]:
        """Return the channel of the group, and the tap along each dimension, for an index along k. The channel varies
        fastest."""
        taps, at = [], k // self.per_group
        for axis in reversed(self.axes):
            taps.append(at % axis.taps)
            at = at // axis.taps
        return k % self.per_group, taps[::-1]

    def weights(self, *index: Any) -> Any:
        *lead, k, o = index
        group, phases = self.phases(lead)
        channel, taps = self.channel_and_taps(k)
        at = {"I": group * self.per_group + channel, "O": o}
        inside = []
        for c, axis, phase, tap in zip(self.names, self.axes, phases, taps):
            _, at[c] = axis.operands_at(phase, 0, tap)
            if axis.taps * axis.stride > axis.window:
                inside.append(at[c] < axis.window)
        value = self.filt(*[at[c] for c in self.kernel_layout])
        return te.if_then_else(te.all(*inside), value, te.const(0, value.dtype)) if inside else value

    def image(self, *index: Any) -> Any:
        *lead, k, p = index
        group, phases = self.phases(lead)
        channel, taps = self.channel_and_taps(k)
        at = {"C": group * self.per_group + channel, "N": p // self.area if self.images > 1 else 0}
        rest = p % self.area if self.images > 1 else p
        inside = []
        for n in reversed(range(len(self.axes))):
            axis = self.axes[n]
            pixel = rest % axis.count if n else rest
            rest = rest // axis.count
            index, _ = axis.operands_at(phases[n], pixel, taps[n])
            inside += [index >= 0, index < axis.data]
            at[self.names[n]] = index
        value = self.data(*[at[c] for c in self.data_layout])
        return te.if_then_else(te.all(*inside), value, te.const(0, value.dtype))

    def axis_roles(self, channels_last: bool) -> gemm.AxisRoles:
        """Return the axis roles of the output if there are no phases."""
        where = {c: i for i, c in enumerate(self.data_layout)}
        pixels, channel = (where["N"], *(where[c] for c in self.names)), where["C"]
        groups, filters = (), (channel,)
        if self.groups > 1:
            groups = (gemm.AxisPiece(channel, self.filters, False),)
            filters = (gemm.AxisPiece(channel, self.filters, True),)
        m, n = (pixels, filters) if channels_last else (filters, pixels)
        return {"batch": groups, "m": m, "n": n}

    def compute(
        self,
        batch: list[int],
        reduction: int,
        sizes: dict[str, int],
        dtype: str,
        name: str,
        machine: Machine,
        workload: tuple[Any, ...] | None,
    ) -> Tensor:
        layout, pixels = self.data_layout, self.images * self.area
        channels_last = layout.endswith("C")
        operands = (pixels, self.image), (self.filters, self.weights)
        (m, lhs), (n, rhs) = operands if channels_last else operands[::-1]
        strided = any(axis.stride > 1 for axis in self.axes)
        # The pixels of a phase are not contiguous in the output, so its tiles are not boxes: a separate kernel
        # interleaves the phases after the matmul.
        axis_roles = None if strided else self.axis_roles(channels_last)
        result = tiled_matmul.matmul(lhs, rhs, batch, (m, n, reduction), dtype, name, axis_roles, machine, workload)
        stride = dict(zip(self.names, (axis.stride for axis in self.axes)))

        def unfold(*at):
            i = dict(zip(layout, at))
            index = [i["C"] // self.filters] if self.groups > 1 else []
            index += [i[c] % s for c, s in stride.items() if s > 1]
            pixel = i["N"]
            for c, axis in zip(self.names, self.axes):
                pixel = pixel * axis.count + (i[c] // axis.stride if axis.stride > 1 else i[c])
            o = i["C"] % self.filters if self.groups > 1 else i["C"]
            return (result(*index, pixel, o) if channels_last else result(*index, o, pixel)).astype(dtype)

        return te.compute([sizes[c] for c in layout], unfold, name=name, tag=f"{name}_{layout.lower()}")


__all__ = ["conv_transpose"]

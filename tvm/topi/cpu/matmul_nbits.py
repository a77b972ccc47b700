"""Matmuls with weights of 8 or 4 bits that are quantized in groups and dequantized in registers.

The weight is packed into panels of contiguous units, like that of float matmuls. A register tile accumulates the
products of integers and data over a group, and adds them to the output after multiplying by the scales of the group.
With few rows the kernel is bound by memory: a 4-bit weight needs an eighth of the bytes of float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import te
from ...target import Target
from ...te.schedule import Stage
from ...te.tensor import ComputeOp, Tensor
from .. import access
from ..nn.nbits import IN_BYTE, check_nbits, dense_nbits, feature, unpacked
from ..nn.packed import crop_units
from ..template import CPUTemplate
from .machine import Machine
from .matmul import CHAINS, MAX_ROWS, NOMINAL_ROWS, ceil_div

if TYPE_CHECKING:
    from ..schedule.cpu import Planner

# The width of the widest panel, in vectors.
MAX_VECTORS = 8
# The cost of dequantizing a vector of the weight, relative to a multiplication.
DEQUANTIZE = {8: 2.0, 4: 3.0}
# The bytes of a panel's column that are read in one iteration.
UNROLL = 4


def tile_cost(m: int, rows: int, vectors: int, bits: int) -> float:
    """Return the relative cycles of a matmul with ``m`` rows per vector of units and step of k."""
    each = max(rows * vectors, CHAINS) + vectors * DEQUANTIZE[bits] + rows * 0.6
    return ceil_div(m, rows) * each / vectors


def tiles(m: int, bits: int, machine: Machine) -> list[tuple[int, int]]:
    """Return rows and vectors of the register tiles that fit the registers together with the integers of one byte and
    one broadcast."""
    return [
        (rows, vectors)
        for vectors in (8, 4, 2, 1)
        for rows in range(1, min(m, MAX_ROWS) + 1)
        if rows * vectors + vectors * IN_BYTE[bits] + 2 <= machine.registers or (rows, vectors) == (1, 1)
    ]


def panel_width(m: int, units: int, bits: int, machine: Machine) -> int:
    """Return the number of units in a panel for a matmul with ``m`` rows. Every thread should have some panels."""
    lanes = machine.lanes("float32")
    fit = [t for t in tiles(m, bits, machine) if ceil_div(units, t[1] * lanes) >= 4 * machine.threads]
    return lanes * min(fit or [(1, 1)], key=lambda t: tile_cost(m, *t, bits))[1]


def dense_nbits_pack(
    data: Tensor,
    weight: Tensor,
    scale: Tensor,
    bits: int = 8,
    group_size: int = 32,
    units: Any = None,
    out_dtype: str | None = None,
    *,
    target: Target,
) -> Tensor:
    """Return ``topi.nn.dense_nbits`` for a weight (panels, bytes, width) and scales (panels, groups, width)."""
    if len(weight.shape) == 2:
        return dense_nbits(data, weight, scale, bits, group_size, units, out_dtype)
    dtype = out_dtype or data.dtype
    features, groups = check_nbits(data, weight, scale, bits, group_size)
    in_byte, width = IN_BYTE[bits], int(weight.shape[2])
    group = te.reduce_axis((0, groups), name="group")
    byte, place = te.reduce_axis((0, group_size // in_byte), name="byte"), te.reduce_axis((0, in_byte), name="place")
    lead_shape, all_units = data.shape[:-1], int(weight.shape[0]) * width

    def sums(*at):
        *lead, g, j = at
        in_row = g * (group_size // in_byte) + byte
        value = feature(data, lead, in_row * in_byte + place, features, groups * group_size)
        integer = unpacked(weight(te.indexdiv(j, width), in_row, te.indexmod(j, width)), bits, place)
        return te.sum(value.astype(dtype) * integer.astype(dtype), axis=[byte, place])

    of_groups = te.compute((*lead_shape, groups, all_units), sums, name="T_dense_nbits_groups", tag="groups")

    def scaled(*at):
        *lead, j = at
        factor = scale(te.indexdiv(j, width), group, te.indexmod(j, width)).astype(dtype)
        return te.sum(of_groups(*lead, group, j) * factor, axis=group)

    attrs = {"panel": width, "bits": bits}
    whole = te.compute((*lead_shape, all_units), scaled, name="T_dense_nbits", tag="dense_nbits", attrs=attrs)
    return crop_units(whole, data, units)


class MatmulNBits(CPUTemplate):
    """A matmul over panels of quantized integers, computed group by group."""

    tags = ("dense_nbits",)

    def applies(self, op: ComputeOp) -> bool:
        """Return True: the computation is defined only for this template."""
        return True

    def space(self, op: ComputeOp, machine: Machine) -> dict[str, list]:
        """Return the register tiles: a panel by some rows."""
        m = _rows(op)
        vectors = max(op.attrs["panel"] // machine.lanes(op.output(0).dtype), 1)
        return {"tile": [t for t in tiles(m, op.attrs["bits"], machine) if vectors % t[1] == 0] or [(1, 1)]}

    def choose(self, op: ComputeOp, machine: Machine) -> dict[str, Any]:
        """Return the tile with the fewest cycles."""
        return {"tile": min(self.space(op, machine)["tile"], key=lambda t: tile_cost(_rows(op), *t, op.attrs["bits"]))}

    def apply(self, planner: Planner, stage: Stage, host: Stage, config: dict[str, Any]) -> None:
        """Apply the configuration: the loops are panels, rows, groups inside a tile, and the bytes of a group."""
        rows, vectors = config["tile"]
        lanes = min(planner.machine.lanes(stage.op.output(0).dtype), stage.op.attrs["panel"])
        groups = next(planner.s[t] for t in stage.op.input_tensors if (t.op.tag or "") == "groups")
        *lead, j = host.op.axis
        j_outer, j_inner = host.split(j, factor=vectors * lanes)
        j_vector, lane = host.split(j_inner, factor=lanes)
        inside = j_outer
        if lead:
            *lead, i = lead
            i_outer, within = host.split(i, factor=rows)
            host.reorder(j_outer, *lead, i_outer, within, j_vector, lane)
            host.unroll(within)
            if access.extent_of(i) is None or (access.extent_of(i) or 1) % rows:
                host.pragma(i_outer, "loop_partition_hint", True)
            inside = i_outer
        host.vectorize(lane)
        host.unroll(j_vector)
        if access.work(groups.op) >= planner.parallel_points:
            host.parallel(j_outer)
        stage.compute_at(host, inside)
        _tile(stage, lanes, outer=[stage.op.reduce_axis[0]], inner=[])
        groups.compute_at(stage, stage.op.reduce_axis[0])
        byte, place = groups.op.reduce_axis
        outer, step = groups.split(byte, factor=UNROLL)
        _tile(groups, lanes, outer=[outer], inner=[step, place])
        planner.placed.add(groups)


def _tile(stage: Stage, lanes: int, outer: list, inner: list) -> None:
    """Schedule a register tile: all loops except the ``outer`` loops are unrolled."""
    *lead, j = stage.op.axis
    j_vector, lane = stage.split(j, factor=lanes)
    stage.reorder(*outer, *inner, *lead, j_vector, lane)
    stage.vectorize(lane)
    for axis in (*inner, *lead, j_vector):
        stage.unroll(axis)
    stage.set_scope("local")


def _rows(op: ComputeOp) -> int:
    return (
        NOMINAL_ROWS
        if len(op.axis) > 1 and access.extent_of(op.axis[-2]) is None
        else (access.extent_of(op.axis[-2]) or 1 if len(op.axis) > 1 else 1)
    )


TEMPLATE = MatmulNBits()

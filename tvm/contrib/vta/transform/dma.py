"""Copies between DRAM and scratchpads as DMA instructions.

A copy is described by one dimension for each loop, with its strides in both memories. A DMA instruction transfers a
matrix of elements: rows of ``x`` consecutive elements, ``stride`` apart in DRAM, that are dense in the scratchpad. A
load can add zeros around the matrix. Further dimensions become loops around the instruction.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ....arith import Analyzer
from ....error import TVMError
from ....ir import primop
from ....ir.prim import IntImm, PrimExpr, Var, const
from ....ir.transform import Pass
from ....tir.op import call_extern
from ....tir.stmt import AttrStmt, Evaluate, For, ForKind, Stmt, no_op
from ....tir.transform import InjectCopyIntrin
from ..environment import Environment, get_env
from .pragmas import pragma_pass


@dataclass(frozen=True)
class Dim:
    """One dimension of a copy: the number of transferred elements, the strides, and the padding around them."""

    extent: PrimExpr
    dram: int
    sram: int
    before: PrimExpr
    after: PrimExpr


class Shape:
    """The dimensions of a copy, outermost first, in elements of the scratchpad."""

    def __init__(self, what: str, dims: list[Dim], lanes: int):
        self.what, self.analyzer = what, Analyzer()
        self.dims = self.merged(self.in_elements([d for d in dims if not self.is_single(d)], lanes))

    def equal(self, a: Any, b: Any) -> bool:
        return self.analyzer.can_prove_equal(a, b)

    def is_plain(self, d: Dim) -> bool:
        return self.equal(d.before, 0) and self.equal(d.after, 0)

    def is_single(self, d: Dim) -> bool:
        return self.equal(d.extent, 1) and self.is_plain(d)

    def in_elements(self, dims: list[Dim], lanes: int) -> list[Dim]:
        """Remove the innermost dimensions that are inside one element."""
        size = 1
        while size < lanes:
            d = dims.pop() if dims else None
            count = d.extent.value if d and isinstance(d.extent, IntImm) and self.is_plain(d) else 0
            if d is None or d.dram != size or d.sram != size or not count:
                raise TVMError(f"{self.what}: the innermost {lanes} values must be dense in both memories")
            size *= count
            if size > lanes:
                rest, remainder = divmod(size, lanes)
                if remainder:
                    raise TVMError(f"{self.what}: {size} innermost values are not a multiple of {lanes}")
                dims.append(Dim(const(rest, "int32"), lanes, lanes, const(0, "int32"), const(0, "int32")))
        for d in dims:
            if d.dram % lanes or d.sram % lanes:
                raise TVMError(f"{self.what}: the strides ({d.dram}, {d.sram}) are not multiples of {lanes} values")
        return [replace(d, dram=d.dram // lanes, sram=d.sram // lanes) for d in dims]

    def merged(self, dims: list[Dim]) -> list[Dim]:
        """Merge adjacent dimensions that are one longer dimension in both memories."""
        out: list[Dim] = []
        for d in reversed(dims):
            inner = out[-1] if out else None
            if inner is not None and self.is_plain(inner) and isinstance(inner.extent, IntImm):
                count = inner.extent.value
                if d.dram == count * inner.dram and d.sram == count * inner.sram:
                    parts = (self.analyzer.simplify(x * count) for x in (d.extent, d.before, d.after))
                    extent, before, after = parts
                    out[-1] = Dim(extent, inner.dram, inner.sram, before, after)
                    continue
            out.append(d)
        return out[::-1]

    def matrix(self) -> tuple[list[Dim], Dim, Dim]:
        """Return the dimensions of loops around the instruction, and the rows and columns of its matrix."""
        dims, zero, one = self.dims, const(0, "int32"), const(1, "int32")
        if dims and dims[-1].dram == dims[-1].sram == 1:
            *dims, x = dims
        else:
            x = Dim(one, 1, 1, zero, zero)
        width = x.before + x.extent + x.after
        if dims and self.equal(width, dims[-1].sram):
            *dims, y = dims
        else:
            y = Dim(one, 1, 1, zero, zero)
        for d in dims:
            if not self.is_plain(d):
                raise TVMError(f"{self.what}: only two dimensions of a load can be padded")
        return dims, y, x


def _lanes(env: Environment, scope: str) -> tuple[int, str, int, int]:
    """Return for a scratchpad: values of an element, their type, the number of the memory, and the queue."""
    dev = env.dev
    table = {
        env.inp_scope: ("INP", dev.MEM_ID_INP, dev.QID_LOAD_INP),
        env.wgt_scope: ("WGT", dev.MEM_ID_WGT, dev.QID_LOAD_WGT),
        env.acc_scope: ("ACC", dev.MEM_ID_ACC, dev.QID_LOAD_OUT),
    }
    if scope not in table:
        raise TVMError(f"dma_copy: cannot copy to or from memory of scope {scope}; scratchpads are {', '.join(table)}")
    name, memory, queue = table[scope]
    lanes = getattr(env, f"{name}_ELEM_BITS") // getattr(env, f"{name}_WIDTH")
    return lanes, getattr(env, f"{name.lower()}_dtype"), memory, queue


def _stride(what: str, value: PrimExpr) -> int:
    if not isinstance(value, IntImm):
        raise TVMError(f"{what}: the stride {value} is not constant")
    return value.value


def _copy(src: Any, dst: Any, pad_before: list[PrimExpr], pad_after: list[PrimExpr], pad_value: Any) -> Stmt:
    env = get_env()
    loads = src.scope() == "global"
    dram, sram = (src, dst) if loads else (dst, src)
    what = f"dma_copy from {src.name} to {dst.name}"
    if (dst.scope() != "global") != loads:
        raise TVMError(f"{what}: a copy is between global memory and a scratchpad, not {src.scope()} and {dst.scope()}")
    lanes, dtype, memory, queue = _lanes(env, sram.scope())
    if not loads and sram.scope() != env.acc_scope:
        raise TVMError(f"{what}: only {env.acc_scope} can be stored")
    wanted = dtype if loads else env.out_dtype
    is_narrow = loads and dram.dtype == env.inp_dtype and memory == env.dev.MEM_ID_ACC and sram.dtype == dtype
    if dram.dtype != wanted and not is_narrow:
        raise TVMError(f"{what}: values in DRAM must have type {wanted}, got {dram.dtype}")
    if pad_value is not None and not Analyzer().can_prove_equal(pad_value, const(0, pad_value.dtype)):
        raise TVMError(f"{what}: the padding value must be 0, got {pad_value}")
    zeros = [const(0, "int32")] * len(src.shape)
    before, after = (pad_before or zeros), (pad_after or zeros)
    # A store reads and writes regions of one shape; a load reads the region without padding.
    rows = zip(src.shape, dram.strides, sram.strides, before, after)
    dims = [Dim(e, _stride(what, d), _stride(what, s), low, high) for e, d, s, low, high in rows]
    if is_narrow:
        memory = env.dev.MEM_ID_ACC_8BIT
    outer, y, x = Shape(what, dims, lanes).matrix()
    names = [Var(f"dma_{i}", "int32") for i in range(len(outer))]
    offset = {
        d: sum((v * (getattr(e, d) * lanes) for v, e in zip(names, outer)), const(0, "int32")) for d in ("dram", "sram")
    }
    address = dram.access_ptr("r" if loads else "w", offset=primop.cast(dram.elem_offset.dtype, offset["dram"]))
    index = sram.access_ptr("w" if loads else "r", "int32", offset=primop.cast(sram.elem_offset.dtype, offset["sram"]))
    sizes = [primop.cast("int32", e) for e in (x.extent, y.extent)]
    stride = const(y.dram, "int32")
    if loads:
        queue_of = queue
        pads = [primop.cast("int32", e) for e in (x.before, y.before, x.after, y.after)]
        call = call_extern(
            "int32", "VTALoadBuffer2D", env.dev.command_handle, address, 0, *sizes, stride, *pads, index, memory
        )
    else:
        queue_of = env.dev.QID_STORE_OUT
        out = env.dev.MEM_ID_OUT
        call = call_extern("int32", "VTAStoreBuffer2D", env.dev.command_handle, index, out, address, 0, *sizes, stride)
    body: Stmt = Evaluate(call)
    for var, d in reversed(list(zip(names, outer))):
        body = For(var, const(0, "int32"), primop.cast("int32", d.extent), ForKind.SERIAL, body)
    return AttrStmt(env.dev.vta_axis, "coproc_scope", const(env.dev.get_task_qid(queue_of), "int32"), body)


def InjectDMAIntrin() -> Pass:
    """A pass that replaces copies with the pragma ``dma_copy`` by DMA instructions.

    Returns
    -------
    Pass
    """
    return InjectCopyIntrin("dma_copy", _copy)


def InjectSkipCopy() -> Pass:
    """A pass that removes copies with the pragma ``skip_dma_copy`` (``Environment.mock``).

    Returns
    -------
    Pass
    """
    return pragma_pass("InjectSkipCopy", skip_dma_copy=lambda node: no_op())

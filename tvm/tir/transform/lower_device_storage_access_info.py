"""LowerDeviceStorageAccessInfo: replace ``tvm_access_ptr``, a pointer with its access mode, by a plain address.

The address in a memory that a ``MemoryInfo`` describes is the number of an access unit. The allocations of such a
memory are placed one after the other and removed, because only intrinsics access it.
"""

from __future__ import annotations

from typing import Any

from ...arith import Analyzer
from ...dtype import info
from ...error import TVMError
from ...ir import primop
from ...ir.op import Op
from ...ir.prim import BufferLoad, Call, PrimExpr, Var, const
from ...ir.visit import rewrite
from ..buffer import Buffer
from ..function import PrimFunc
from ..stmt import Allocate, BufferStore
from .statement import is_call
from .tagged_memory import constant_bytes, memory_info, scope_of


class Units:
    """The access units of described memories: the first unit of each allocation."""

    def __init__(self) -> None:
        self.used: dict[str, int] = {}
        self.first: dict[Var, int] = {}
        self.analyzer = Analyzer()

    def is_described(self, data: Var) -> bool:
        return memory_info(scope_of(data)) is not None

    def address(self, node: Call) -> PrimExpr:
        element, data, offset = node.args[:3]
        known = memory_info(scope_of(data))
        count, rest = divmod(known.unit_bits, info(element.dtype).bits * info(element.dtype).lanes)
        if rest:
            raise TVMError(
                f"{data.name}: elements of type {element.dtype} do not divide a unit of {known.unit_bits} bits"
            )
        if not self.analyzer.can_prove_equal(primop.floormod(offset, count), const(0, offset.dtype)):
            raise TVMError(
                f"{data.name}: an intrinsic accesses element {offset}, which is not provably the first of a unit of "
                f"{count} elements in {scope_of(data)}"
            )
        unit = self.analyzer.simplify(primop.floordiv(offset, count))
        return primop.cast(node.dtype, unit + const(self.place(data), unit.dtype))

    def place(self, data: Var) -> int:
        if data not in self.first:
            raise TVMError(f"{data.name}: memory of scope {scope_of(data)} is used outside its allocation")
        return self.first[data]

    def allocate(self, node: Allocate) -> None:
        scope, size = scope_of(node.buffer_var), constant_bytes(node)
        known = memory_info(scope)
        if size is None:
            raise TVMError(f"{node.buffer_var.name}: an allocation in {scope} needs a constant size")
        start = self.used.get(scope, 0)
        self.first[node.buffer_var] = start
        self.used[scope] = start + -(-size * 8 // known.unit_bits)
        if self.used[scope] * known.unit_bits > known.max_num_bits:
            raise TVMError(
                f"{node.buffer_var.name}: the allocations in {scope} need {self.used[scope]} units of "
                f"{known.unit_bits} bits; the memory has {known.max_num_bits // known.unit_bits}"
            )


def lower_device_storage_access_info(func: PrimFunc) -> PrimFunc:
    buffers: dict = {}
    units = Units()

    def before(node: Any):
        if isinstance(node, Allocate) and units.is_described(node.buffer_var):
            units.allocate(node)
        return None

    def post(node: Any):
        if isinstance(node, Allocate) and node.buffer_var in units.first:
            return node.body
        if isinstance(node, (BufferLoad, BufferStore)) and units.is_described(node.buffer.data):
            raise TVMError(
                f"{node.buffer.data.name}: host code cannot access memory of scope {scope_of(node.buffer.data)}; "
                "only intrinsics can (is a pragma missing?)"
            )
        if not is_call(node, "tir.tvm_access_ptr"):
            return None
        element, data, offset = node.args[:3]
        if units.is_described(data):
            return units.address(node)
        key = (data, element.dtype)
        if key not in buffers:
            buffers[key] = Buffer(data, element.dtype, (const(1, "int32"),), (), const(0, "int32"), data.name)
        return Call("handle", Op.get("tir.address_of"), (BufferLoad(buffers[key], (offset,)),))

    return func.replace(body=rewrite(func.body, post, before))

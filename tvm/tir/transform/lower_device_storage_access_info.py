"""LowerDeviceStorageAccessInfo: replace ``tvm_access_ptr``, a pointer with its access mode, by a plain address."""

from __future__ import annotations

from typing import Any

from ...ir.op import Op
from ...ir.prim import BufferLoad, Call, const
from ...ir.visit import rewrite
from ..buffer import Buffer
from ..function import PrimFunc
from .statement import is_call


def lower_device_storage_access_info(func: PrimFunc) -> PrimFunc:
    buffers: dict = {}

    def post(node: Any):
        if not is_call(node, "tir.tvm_access_ptr"):
            return None
        element, data, offset = node.args[:3]
        key = (data, element.dtype)
        if key not in buffers:
            buffers[key] = Buffer(data, element.dtype, (const(1, "int32"),), (), const(0, "int32"), data.name)
        return Call("handle", Op.get("tir.address_of"), (BufferLoad(buffers[key], (offset,)),))

    return func.replace(body=rewrite(func.body, post))

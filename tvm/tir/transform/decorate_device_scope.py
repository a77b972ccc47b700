"""DecorateDeviceScope: mark the whole body of a function as a device region."""

from __future__ import annotations

from ...ir.prim import const
from ..function import PrimFunc
from ..stmt import AttrStmt


def decorate_device_scope(func: PrimFunc) -> PrimFunc:
    zero = const(0, "int32")
    return func.replace(body=AttrStmt(zero, "device_scope", zero, func.body))

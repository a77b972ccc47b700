"""MakeUnpackedAPI: generate a function of plain pointers and scalars without checks, for callers that know the
signature.

If the function has buffers, attributes around its body contain the device of the buffers.
"""

from __future__ import annotations

from ...error import TVMError
from ...ir.module import IRModule
from ...ir.prim import StringImm, const
from ...ir.type import PrimType
from ..function import PrimFunc
from ..stmt import AttrStmt, seq
from .make_packed_api import DEFAULT, ret, undefined_variables


def make_unpacked_api(mod: IRModule) -> IRModule:
    def one(var, func):
        if not isinstance(func, PrimFunc) or func.attrs.get("calling_conv", DEFAULT) != DEFAULT:
            return func
        if "global_symbol" not in func.attrs:
            return func
        params = [func.buffer_map[p].data if p in func.buffer_map else p for p in func.params]
        missing = undefined_variables(func.body, params)
        if missing:
            names = ", ".join(v.name for v in missing)
            raise TVMError(
                f"{var.name_hint}: the unpacked interface does not pass the sizes {names}; add them to the arguments"
            )
        if "target" not in func.attrs:
            raise TVMError(f"{var.name_hint}: Require the target attribute, which determines the device of the buffers")
        body = seq(func.body, ret(const(0, "int32")))
        if func.buffer_map:
            device = const(func.attrs["target"].get_target_device_type(), "int32")
            for key, value in (("device_type", device), ("device_id", const(0, "int32"))):
                body = AttrStmt(StringImm("default"), key, value, body)
        return PrimFunc(params, body, PrimType("int32"), {}, func.attrs)

    return mod.map_functions(one)

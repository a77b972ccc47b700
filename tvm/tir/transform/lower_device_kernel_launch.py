"""LowerDeviceKernelLaunch: replace a call of a kernel by a packed call with its arguments and its grid and block
sizes."""

from __future__ import annotations

from typing import Any

from ...dtype import info
from ...error import ScheduleError
from ...ir import primop
from ...ir.module import GlobalVar, IRModule
from ...ir.op import Op
from ...ir.prim import Call, IntImm, PrimExpr, StringImm, const
from ...ir.subst import substitute
from ...ir.visit import pre_order, rewrite
from ..function import PrimFunc
from ..stmt import Allocate, AttrStmt
from .make_packed_api import DEVICE_KERNEL
from .statement import statements_in
from .tagged_memory import constant_bytes, scope_of

DYNAMIC_SHARED = "tir.use_dyn_shared_memory"


def launch_sizes(kernel: PrimFunc) -> dict[str, PrimExpr]:
    """Return the extent of each thread tag, in order of appearance, and the size of dynamic shared memory last."""
    sizes: dict[str, PrimExpr] = {}
    dynamic: PrimExpr | None = None
    for node in pre_order(kernel.body, stop=lambda n: isinstance(n, PrimExpr)):
        if isinstance(node, AttrStmt) and node.attr_key == "thread_extent":
            tag = node.node.thread_tag
            first = sizes.setdefault(tag, node.value)
            if isinstance(first, IntImm) and isinstance(node.value, IntImm) and first.value != node.value.value:
                raise ScheduleError(
                    f"kernel {kernel.attrs['global_symbol']}: {tag} has extent {first.value} in one loop and "
                    f"{node.value.value} in another; bind both loops to one te.thread_axis, or give it an extent"
                )
        elif isinstance(node, Allocate) and scope_of(node.buffer_var) == "shared.dyn":
            known = constant_bytes(node)
            if known is not None:
                size: PrimExpr = const(known, "int32")
            else:
                size = const(info(node.dtype).bytes * info(node.dtype).lanes, "int32")
                for extent in node.extents:
                    size = size * primop.cast("int32", extent)
            dynamic = size if dynamic is None else dynamic + size
    if dynamic is not None:
        sizes[DYNAMIC_SHARED] = dynamic
    return sizes


def lower_device_kernel_launch(mod: IRModule) -> IRModule:
    kernels = {
        var.name_hint: func
        for var, func in mod.functions.items()
        if isinstance(func, PrimFunc)
        and func.attrs.get("tir.is_global_func")
        and "target" in func.attrs
        and any(isinstance(n, AttrStmt) and n.attr_key == "thread_extent" for n in statements_in(func.body))
    }
    sizes = {name: launch_sizes(func) for name, func in kernels.items()}

    def post(node: Any):
        if not (type(node) is Call and isinstance(node.op, GlobalVar) and node.op.name_hint in kernels):
            return None
        kernel = kernels[node.op.name_hint]
        given = dict(zip(kernel.params, node.args))
        grid = [substitute(size, given) for size in sizes[node.op.name_hint].values()]
        symbol = StringImm(str(kernel.attrs["global_symbol"]))
        return Call("int32", Op.get("tir.tvm_call_packed"), (symbol, *node.args, *grid))

    def one(var: GlobalVar, func: Any):
        if var.name_hint in kernels:
            attrs = {"calling_conv": DEVICE_KERNEL, "tir.kernel_launch_params": tuple(sizes[var.name_hint])}
            return func.with_attr(attrs)
        return func.replace(body=rewrite(func.body, post)) if isinstance(func, PrimFunc) else func

    return mod.map_functions(one)

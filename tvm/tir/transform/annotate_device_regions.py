"""AnnotateDeviceRegions: annotate device regions with the target of the device."""

from __future__ import annotations

from typing import Any

from ...ir.prim import const
from ..function import PrimFunc
from ..stmt import AttrStmt, Stmt
from .statement import StmtRewriter

REGION = "target"
_KERNEL_KEYS = ("thread_extent", "pipeline_exec_scope", "device_scope")


class RegionMarker(StmtRewriter):
    def __init__(self, target: Any):
        self.target = target

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key == REGION:
            return node
        if node.attr_key in _KERNEL_KEYS:
            return AttrStmt(self.target, REGION, const(0, "int32"), node)
        return self.keep(node)


def annotate_device_regions(func: PrimFunc) -> PrimFunc:
    target = func.attrs.get("target")
    if target is None:
        return func
    return func.replace(body=RegionMarker(target).stmt(func.body))

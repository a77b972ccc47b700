"""ApplyLayoutTransforms: change the layouts of buffers: their shapes and the indices of their accesses.

The attribute ``layout_transform_map`` of a function contains the index maps of each buffer, in the order of
application. An access through a view (``buffer_bind_scope``) becomes an access of the buffer, because the elements of
the view are not contiguous in the new layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...arith import Analyzer
from ...error import TVMError
from ...ir.prim import BufferLoad, PrimExpr, Range, Var
from ...ir.visit import rewrite
from ..buffer import Buffer
from ..function import PrimFunc
from ..index_map import IndexMap
from ..stmt import AttrStmt, BufferRealize, BufferStore, Prefetch, Stmt
from .statement import RangeRewriter, uses_any

ATTRIBUTE = "layout_transform_map"


class LayoutRewriter(RangeRewriter):
    def __init__(self, layouts: dict[Buffer, Sequence[IndexMap]]):
        self.analyzer = Analyzer()
        self.layouts = layouts
        self.buffers = {buffer: _laid_out(buffer, maps) for buffer, maps in layouts.items()}
        # For each view of a transformed buffer: the buffer and the indices at which the view begins.
        self.views: dict[Buffer, tuple[Buffer, list[PrimExpr]]] = {}
        self.values: dict[Var, PrimExpr] = {}

    def indices(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> tuple[Buffer, tuple[PrimExpr, ...]] | None:
        """Return the buffer and indices that replace an access, or None if the access does not change."""
        if buffer in self.views:
            buffer, begins = self.views[buffer]
            own = len(begins) - len(indices)
            indices = [*begins[:own], *(b + i for b, i in zip(begins[own:], indices))]
        if buffer not in self.layouts:
            return None
        for index_map in self.layouts[buffer]:
            indices = index_map.map_indices(indices)
        return self.buffers[buffer], tuple(self.analyzer.simplify(i) for i in indices)

    def region(self, buffer: Buffer, region: Sequence[Range]) -> tuple[Range, ...]:
        for index_map in self.layouts[buffer]:
            region = index_map.map_ranges(region, self.analyzer)
        return tuple(region)

    def expr(self, node: Any) -> Any:
        return rewrite(node, self._access)

    def _access(self, node: Any):
        if isinstance(node, Var):
            return self.values.get(node)
        found = self.indices(node.buffer, node.indices) if type(node) is BufferLoad else None
        return None if found is None else BufferLoad(*found)

    def on_BufferStore(self, node: BufferStore) -> Stmt:
        value, indices = self.expr(node.value), tuple(self.expr(i) for i in node.indices)
        buffer, indices = self.indices(node.buffer, indices) or (node.buffer, indices)
        return BufferStore(buffer, value, indices)

    def on_BufferRealize(self, node: BufferRealize) -> Stmt:
        new = self.keep(node)
        if node.buffer not in self.layouts:
            return new
        bounds = self.region(node.buffer, new.bounds)
        return new.replace(buffer=self.buffers[node.buffer], bounds=bounds)

    def on_Prefetch(self, node: Prefetch) -> Stmt:
        new = self.keep(node)
        if node.buffer not in self.layouts:
            return new
        return new.replace(buffer=self.buffers[node.buffer], bounds=self.region(node.buffer, new.bounds))

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key == "buffer_bind_scope":
            view, target = node.node
            if target in self.layouts or target in self.views:
                return self._without_view(node, view, target)
        new = super().on_AttrStmt(node)
        if isinstance(node.node, Buffer) and node.node in self.buffers:
            return new.replace(node=self.buffers[node.node])
        return new

    def _without_view(self, node: AttrStmt, view: Buffer, target: Buffer) -> Stmt:
        arguments: Any = node.value
        begins, extents = ([self.expr(a) for a in arguments.args[k::2]] for k in (0, 1))
        self.views[view] = (target, begins)
        own = len(extents) - len(view.shape)
        self.values.update({v: e for v, e in zip(view.shape, extents[own:]) if isinstance(v, Var)})
        body = self.stmt(node.body)
        del self.views[view]
        parts = [v for v in (view.data, view.elem_offset, *view.strides) if isinstance(v, Var)]
        if target not in self.layouts or uses_any(body, parts):
            raise TVMError(
                f"transform_layout of {target.name}: an extern or intrinsic uses the pointer, offset or strides of "
                f"its view {view.name}; only element accesses can be transformed; remove the layout transform"
            )
        return body


def _laid_out(buffer: Buffer, maps: Sequence[IndexMap]) -> Buffer:
    if buffer.strides:
        raise TVMError(
            f"transform_layout of {buffer.name}: the buffer has strides; only dense buffers can be transformed"
        )
    shape = buffer.shape
    for index_map in maps:
        shape = index_map.map_shape(shape)
    return buffer.replace(shape=tuple(shape))


def apply_layout_transforms(func: PrimFunc) -> PrimFunc:
    layouts = func.attrs.get(ATTRIBUTE)
    if not layouts:
        return func
    rewriter = LayoutRewriter(dict(layouts.items()))
    for buffer in layouts:
        if uses_any(func.body, [buffer.data]):
            raise TVMError(
                f"transform_layout of {buffer.name}: the function uses its pointer directly; only element accesses "
                "can be transformed"
            )
    body = rewriter.stmt(func.body)
    buffers = {handle: rewriter.buffers.get(buffer, buffer) for handle, buffer in func.buffer_map.items()}
    return func.replace(body=body, buffer_map=buffers).without_attr(ATTRIBUTE)

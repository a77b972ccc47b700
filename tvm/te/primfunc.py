"""Conversion of tensor programs to functions of blocks without a schedule: ``create_prim_func``."""

from __future__ import annotations

from typing import Any

from ..error import TVMError
from ..ir.prim import BufferLoad, IterVar, PrimExpr, ProducerLoad, Range, Var, const
from ..ir.visit import post_order, rewrite
from ..tir.buffer import Buffer, decl_buffer
from ..tir.function import PrimFunc
from ..tir.stmt import Block, BlockRealize, BufferRegion, BufferStore, For, ForKind, LetStmt, Stmt, seq
from .axes import range_of
from .graph import post_order_ops
from .operation import extern
from .tensor import ComputeOp, ExternOp, PlaceholderOp, Tensor


class _Builder:
    def __init__(self, outputs: list[Tensor], index_dtype: str | None):
        self.outputs = outputs
        self.index_dtype = index_dtype
        self.buffers: dict[Tensor, Buffer] = {}
        self.names: dict[str, int] = {}

    def unique(self, name: str) -> str:
        count = self.names.get(name, 0)
        self.names[name] = count + 1
        return name if count == 0 else f"{name}_{count}"

    def buffer(self, tensor: Tensor) -> Buffer:
        got = self.buffers.get(tensor)
        if got is None:
            got = self.buffers[tensor] = decl_buffer(tensor.shape, tensor.dtype, tensor.op.name.replace(".", "_"))
        return got

    def over_buffers(self, e: PrimExpr, table: dict[Var, PrimExpr], memo: dict[Any, Any]) -> PrimExpr:
        def post(node: Any) -> Any:
            if isinstance(node, Var):
                return table.get(node)
            if type(node) is ProducerLoad:
                return BufferLoad(self.buffer(node.producer), node.indices)
            return None

        return rewrite(e, post, memo=memo)

    def compute(self, op: ComputeOp) -> Stmt:
        roots = list(op.axis) + list(op.reduce_axis)
        names = [f"v_{a.var.name}" for a in roots]
        block_axes = [IterVar(a.dom, Var(n, a.var.dtype), a.iter_type) for n, a in zip(names, roots)]
        table: dict[Var, PrimExpr] = {a.var: b.var for a, b in zip(roots, block_axes)}
        memo: dict[Any, Any] = {}
        indices = tuple(table[a.var] for a in op.axis)
        buffers = [self.buffer(t) for t in op.outputs]
        init = None
        if op.reduce_axis:
            reduce = op.body[0]
            start = [self.over_buffers(e, table, memo) for e in reduce.init or reduce.combiner.identity_element]
            source = tuple(self.over_buffers(e, table, memo) for e in reduce.source)
            old = tuple(BufferLoad(b, indices) for b in buffers)
            values = list(reduce.combiner(old, source))
            init = seq(*[BufferStore(b, start[i], indices) for i, b in enumerate(buffers)])
        else:
            values = [self.over_buffers(e, table, memo) for e in op.body]
        body = self._stores(buffers, values, indices, bool(op.reduce_axis))
        reads = self._reads(values, skip=buffers if op.reduce_axis else [])
        writes = [BufferRegion(b, tuple(Range.from_min_extent(i, 1) for i in indices)) for b in buffers]
        notes = dict(op.attrs or {})
        name = self.unique(op.name.replace(".", "_"))
        block = Block(block_axes, reads, writes, name, body, init, annotations=notes)
        loops = [Var(a.var.name, a.var.dtype) for a in roots]
        stmt: Stmt = BlockRealize(
            [v if _zero(low) else v + low for v, low in zip(loops, (range_of(a).min for a in roots))], True, block
        )
        for variable, a in zip(reversed(loops), reversed(roots)):
            stmt = For(variable, const(0, variable.dtype), range_of(a).extent, ForKind.SERIAL, stmt)
        return stmt

    def _stores(self, buffers: Any, values: Any, indices: Any, reduction: bool) -> Stmt:
        if len(buffers) == 1 or not reduction:
            return seq(*[BufferStore(b, v, indices) for b, v in zip(buffers, values)])
        names = [Var(f"v_{b.name}", v.dtype) for b, v in zip(buffers, values)]
        stmt = seq(*[BufferStore(b, n, indices) for b, n in zip(buffers, names)])
        for n, v in zip(reversed(names), reversed(values)):
            stmt = LetStmt(n, v, stmt)
        return stmt

    def _reads(self, values: Any, skip: Any) -> list[BufferRegion]:
        found: dict[Buffer, list[Any]] = {}
        for v in values:
            for node in post_order(v):
                if type(node) is BufferLoad and node.buffer not in skip:
                    found.setdefault(node.buffer, []).append(node.indices)
        out: list[BufferRegion] = []
        for buffer, uses in found.items():
            if len(uses) == 1:
                out.append(BufferRegion(buffer, tuple(Range.from_min_extent(i, 1) for i in uses[0])))
            else:
                out.append(
                    BufferRegion(buffer, tuple(Range.from_min_extent(const(0, d.dtype), d) for d in buffer.shape))
                )
        return out

    def extern(self, op: ExternOp) -> Stmt:
        views = dict(zip(op.input_placeholders, op.inputs))
        views.update(zip(op.output_placeholders, op.outputs))
        table: dict[Any, Any] = {}
        for view, tensor in views.items():
            table[view] = self.buffer(tensor)
            table[view.data] = table[view].data

        def post(node: Any) -> Any:
            if isinstance(node, Var):
                return table.get(node)
            if type(node) is BufferLoad and node.buffer in table:
                return BufferLoad(table[node.buffer], node.indices)
            if type(node) is BufferStore and node.buffer in table:
                return BufferStore(table[node.buffer], node.value, node.indices)
            return None

        body = rewrite(op.body, post)

        def whole(t: Any):
            return BufferRegion(self.buffer(t), tuple(Range.from_min_extent(const(0, d.dtype), d) for d in t.shape))

        block = Block(
            [],
            [whole(t) for t in op.inputs],
            [whole(t) for t in op.outputs],
            self.unique(op.name),
            body,
            annotations=dict(op.attrs or {}),
        )
        return BlockRealize([], True, block)


def _zero(e: PrimExpr) -> bool:
    return getattr(e, "value", None) == 0


def create_prim_func(ops: Any, index_dtype_override: str | None = None) -> PrimFunc:
    """A function over the given tensors (inputs and outputs, in this order) with one block per operation.

    Parameters
    ----------
    ops : list of Tensor
        The parameters of the function: inputs, then outputs.
    index_dtype_override : str, optional
        The integer dtype of all indices. Default: the dtype of each variable.

    Returns
    -------
    PrimFunc

    Raises
    ------
    TypeError
        One of ``ops`` is neither a tensor nor a variable, or comes from an operation other than a placeholder,
        compute or extern.
    TVMError
        An input is not among ``ops``.
    """
    args = [ops] if isinstance(ops, Tensor) else list(ops)
    for a in args:
        if not isinstance(a, (Tensor, Var)):
            raise TypeError(f"create_prim_func: arguments must be tensors or variables, got {type(a).__name__}")
    tensors = [a for a in args if isinstance(a, Tensor)]
    builder = _Builder(tensors, index_dtype_override)
    order = post_order_ops([t.op for t in tensors])
    for op in order:
        if not isinstance(op, (PlaceholderOp, ComputeOp, ExternOp)):
            kind = type(op).__name__
            known = "only placeholder, compute and extern are supported"
            raise TypeError(f"create_prim_func: {op.name} is a {kind}; {known}")
    for t in tensors:
        builder.buffer(t)
    stmts: list[Stmt] = []
    for op in order:
        if isinstance(op, PlaceholderOp):
            missing = [t.name for t in op.outputs if t not in builder.buffers]
            if missing:
                raise TVMError(f"create_prim_func: input {missing[0]} is not among the arguments")
        elif isinstance(op, ComputeOp):
            stmts.append(builder.compute(op))
        elif isinstance(op, ExternOp):
            stmts.append(builder.extern(op))
    given = {builder.buffers[t] for t in tensors}
    local = [b for b in builder.buffers.values() if b not in given]
    root = Block([], [], [], "root", seq(*stmts), alloc_buffers=local)
    params: list[Var] = []
    buffer_map: dict[Var, Buffer] = {}
    for a in args:
        if isinstance(a, Var):
            params.append(a)
            continue
        handle = Var(f"var_{builder.buffers[a].name}", "handle")
        buffer_map[handle] = builder.buffers[a]
        params.append(handle)
    return PrimFunc(
        params, BlockRealize([], True, root), None, buffer_map, {"global_symbol": "main", "tir.noalias": True}
    )


def extern_primfunc(input_tensors: Any, primfunc: PrimFunc, **kwargs: Any):
    """An extern operation whose body is a PrimFunc; the last buffers of the function are the outputs.

    Parameters
    ----------
    input_tensors : list of Tensor
        The tensors to which the first buffers are bound.
    primfunc : PrimFunc
        The function.
    **kwargs
        Further arguments of ``te.extern``.

    Returns
    -------
    Tensor or list of Tensor

    Raises
    ------
    ValueError
        A tensor has a different number of dimensions than its parameter.
    """
    buffers = [primfunc.buffer_map[p] for p in primfunc.params]
    n = len(input_tensors)
    ins, outs = buffers[:n], buffers[n:]
    for tensor, buffer in zip(input_tensors, ins):
        if len(tensor.shape) != len(buffer.shape):
            raise ValueError(
                f"extern_primfunc: tensor {tensor.name} has {len(tensor.shape)} dimensions; parameter {buffer.name} "
                f"has {len(buffer.shape)}"
            )
    return extern(
        [b.shape for b in outs],
        input_tensors,
        lambda _ins, _outs: primfunc.body,
        in_buffers=ins,
        out_buffers=outs,
        dtype=[b.dtype for b in outs],
        **kwargs,
    )


__all__ = ["create_prim_func", "extern_primfunc"]

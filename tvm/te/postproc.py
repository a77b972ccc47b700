"""Conversion of statements over tensors to functions over buffers."""

from __future__ import annotations

from typing import Any

from ..error import ScheduleError, TVMError
from ..ir.prim import BufferLoad, PrimExpr, ProducerLoad, Var
from ..ir.subst import variables
from ..ir.visit import post_order, rewrite
from ..tir.buffer import Buffer, decl_buffer
from ..tir.function import PrimFunc
from ..tir.stmt import AttrStmt, BufferRealize, BufferStore, ProducerRealize, ProducerStore, Stmt
from .axes import range_of
from .layout_steps import read_layouts
from .schedule import Schedule
from .tensor import ComputeOp, Operation, PlaceholderOp, ScanOp, Tensor


def broadcast_inputs(schedule: Schedule) -> set[Tensor]:
    """Return the inputs indexed by axes whose extent is unrelated to theirs. A dynamic dimension of such an input may
    be 1 at run time and is then broadcast."""
    found: set[Tensor] = set()
    for stage in schedule.stages:
        op = stage.op
        if not isinstance(op, ComputeOp):
            continue
        laid_out = {t for s in schedule.stages if s.layout_transforms for t in s.op.outputs}
        lengths = {a.var: range_of(a).extent for a in (*op.axis, *op.reduce_axis)}
        for load in (n for body in op.body for n in post_order(body) if type(n) is ProducerLoad):
            if not isinstance(load.producer.op, PlaceholderOp) or load.producer in laid_out:
                continue
            for index, dim in zip(load.indices, load.producer.shape):
                length = lengths.get(index) if isinstance(index, Var) else None
                if length is not None and isinstance(dim, Var) and dim not in variables(length):
                    found.add(load.producer)
    return found


def argument_buffers(
    args: Any, broadcast: Any = (), binds: dict[Any, Any] | None = None
) -> tuple[dict[Tensor, Buffer], list[Any]]:
    """Return a buffer for every tensor argument, and the arguments with buffers in place of tensors. Buffers of tensors
    in ``broadcast`` accept any strides and broadcast dimensions of size 1."""
    table: dict[Tensor, Buffer] = dict(binds or {})
    out: list[Any] = []
    for arg in args:
        if isinstance(arg, Tensor):
            if arg not in table:
                kind = "auto_broadcast" if arg in broadcast else ""
                table[arg] = decl_buffer(arg.shape, arg.dtype, _clean(arg.name), buffer_type=kind)
            out.append(table[arg])
        elif isinstance(arg, (Var, Buffer)):
            out.append(arg)
        else:
            raise ValueError(f"an argument must be a tensor, a buffer or a variable, got {type(arg).__name__}")
    seen: set[Any] = set()
    for arg in out:
        key = arg.data if isinstance(arg, Buffer) else arg
        if key in seen:
            raise ValueError(f"argument {arg.name} is given twice")
        seen.add(key)
    return table, out


def _clean(name: str) -> str:
    return name


class ToBuffers:
    """A rewriter that replaces tensors by buffers. The outputs of inlined, cached or scanned operations map to the
    buffer that stores them."""

    def __init__(self, table: dict[Tensor, Buffer], scans: list[ScanOp]):
        self.table = dict(table)
        # The caller provides the memory of all arguments, including intermediate tensors of the schedule.
        self.given = {id(buffer) for buffer in table.values()}
        self.separators: dict[Tensor, tuple[int, ...]] = {}
        self.alias: dict[Tensor, Tensor] = {}
        for op in scans:
            for i, output in enumerate(op.outputs):
                for inner in (op.init[i], op.update[i], op.state_placeholder[i]):
                    self.alias[inner] = output

    def separate(self, args: list[Any], separators: dict[Tensor, tuple[int, ...]]) -> list[Any]:
        """Return the arguments, with buffers that have axis separators for tensors with separated axes. Other tensors
        get theirs when they are created."""
        changed: dict[Buffer, Buffer] = {}
        for tensor, buffer in self.table.items():
            if tensor in separators:
                changed[buffer] = buffer.replace(axis_separators=separators[tensor])
        self.table = {tensor: changed.get(buffer, buffer) for tensor, buffer in self.table.items()}
        self.given = {id(buffer) for buffer in self.table.values()}
        self.separators = separators
        return [changed.get(arg, arg) for arg in args]

    def buffer(self, tensor: Tensor, scope: str = "") -> Buffer:
        tensor = self.alias.get(tensor, tensor)
        got = self.table.get(tensor)
        if got is None:
            got = self.table[tensor] = decl_buffer(
                tensor.shape,
                tensor.dtype,
                _clean(tensor.name),
                scope=scope,
                axis_separators=self.separators.get(tensor),
            )
        return got

    def __call__(self, stmt: Stmt) -> Stmt:
        # Realizations are visited after their bodies (post-order), so collect storage scopes first.
        from ..ir.visit import pre_order

        for node in pre_order(stmt, stop=lambda n: isinstance(n, PrimExpr)):
            if isinstance(node, ProducerRealize) and isinstance(node.producer, Tensor):
                self.buffer(node.producer, node.storage_scope)
        return rewrite(stmt, self._post)

    def _post(self, node: Any):
        kind = type(node)
        if kind is ProducerLoad and isinstance(node.producer, Tensor):
            return BufferLoad(self.buffer(node.producer), node.indices)
        if kind is ProducerStore and isinstance(node.producer, Tensor):
            return BufferStore(self.buffer(node.producer), node.value, node.indices)
        if kind is ProducerRealize and isinstance(node.producer, Tensor):
            buffer = self.buffer(node.producer)
            if id(buffer) in self.given:
                if node.storage_scope not in ("", "global"):
                    raise ScheduleError(
                        f"set_scope on stage {node.producer.name}: it is an argument of the function, so its memory "
                        f"belongs to the caller and is in scope global, not {node.storage_scope}"
                    )
                return node.body
            return BufferRealize(buffer, node.bounds, node.condition, node.body)
        if kind is AttrStmt:
            return self._attribute(node)
        return None

    def _attribute(self, node: AttrStmt):
        what = node.node
        if isinstance(what, Tensor):
            return AttrStmt(self.buffer(what), node.attr_key, node.value, node.body)
        if isinstance(what, (tuple, list)) and any(isinstance(w, Tensor) for w in what):
            new = tuple(self.buffer(w) if isinstance(w, Tensor) else w for w in what)
            return AttrStmt(new, node.attr_key, node.value, node.body)
        if isinstance(what, Operation):
            return AttrStmt(self.buffer(what.output(0)), node.attr_key, node.value, node.body)
        return None


def check_outputs(schedule: Schedule, args: Any) -> None:
    """Check that an output that is not an argument is read by another stage: it is stored inside the function."""
    if any(isinstance(a, Buffer) for a in args):
        return
    given = {schedule[a] for a in args if isinstance(a, Tensor) and a in schedule}
    read = {schedule[t] for stage in schedule.stages for t in stage.op.input_tensors if t in schedule}
    for stage in schedule.stages:
        if stage.is_output and stage not in given and stage not in read:
            name = stage.op.output(0).name
            raise TVMError(f"output {name} of the schedule is not among the arguments of the function")


def to_prim_func(schedule: Schedule, args: Any, stmt: Stmt, table: dict[Tensor, Buffer], name: str) -> PrimFunc:
    """Return a function of the given arguments around the statement of a schedule."""
    now = dict(table)
    for tensor, buffer in table.items():
        stage = schedule.stage_map.get(tensor.op)
        if stage is not None:
            now[stage.op.output(tensor.value_index)] = buffer
    scans = [stage.op for stage in schedule.stages if isinstance(stage.op, ScanOp)]
    return _function(args, ToBuffers(now, scans), stmt, name)


def SchedulePostProcToPrimFunc(arg_list: Any, body: Stmt, extern_buffer_opt: Any = None) -> PrimFunc:
    """A function of these tensors, buffers and variables around a statement of ScheduleOps. A tensor whose operation
    was replaced by a cache is found by its name."""
    table, args = argument_buffers(arg_list, (), dict(extern_buffer_opt or {}))
    made = [n.producer for n in post_order(body) if isinstance(n, (ProducerLoad, ProducerStore, ProducerRealize))]
    named = {(t.name, t.value_index): t for t in made if isinstance(t, Tensor)}
    for tensor, buffer in list(table.items()):
        if tensor not in named.values():
            table[named.get((tensor.name, tensor.value_index), tensor)] = buffer
    scans = list(dict.fromkeys(t.op for t in named.values() if isinstance(t.op, ScanOp)))
    return _function(args, ToBuffers(table, scans), body, "main")


def _function(args: Any, convert: ToBuffers, stmt: Stmt, name: str) -> PrimFunc:
    stmt, layouts = read_layouts(stmt)
    args = convert.separate(args, {tensor: separators for tensor, (_, separators) in layouts.items() if separators})
    body = convert(stmt)
    params: list[Var] = []
    buffers: dict[Var, Buffer] = {}
    for arg in args:
        if isinstance(arg, Buffer):
            handle = Var(f"{arg.name}_handle", "handle")
            buffers[handle] = arg
            params.append(handle)
        else:
            params.append(arg)
    attrs: dict[str, Any] = {"from_legacy_te_schedule": True, "tir.noalias": True, "global_symbol": name}
    if layouts:
        attrs["layout_transform_map"] = {convert.buffer(tensor): list(maps) for tensor, (maps, _) in layouts.items()}
    return PrimFunc(params, body, None, buffers, attrs)

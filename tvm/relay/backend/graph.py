"""The graph of kernel calls that the executor runs: nodes, their memory, and its JSON text."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from typing import Any

from ...dtype import info
from ...error import TVMError
from ...ir.op import Op
from ...ir.prim import IntImm
from ...ir.span import source_text
from ...ir.tensor_type import TensorType
from ...ir.visit import post_order
from ..expr import Call, Constant, Function, RelayExpr, Tuple, TupleGetItem, Var
from ..op.record import BROADCAST, pattern_of
from .memory_plan import Entry, Plan, Step, plan
from .te_compiler import Kernel, KernelCompiler, flatten_type

# Kernels read and write whole vectors quickest where they start at a line of the cache.
ALIGNMENT = 64


@dataclass
class Node:
    """An input (kernel None), a kernel call, or a view (``nop``) of what it reads. ``inputs`` are (node, output) pairs;
    the kernel may write over those in ``over``."""

    name: str
    types: list[TensorType]
    inputs: list[tuple[int, int]] = field(default_factory=list)
    kernel: Kernel | None = None
    nop: bool = False
    extra: dict[str, str] = field(default_factory=dict)
    over: list[tuple[int, int]] = field(default_factory=list)


class GraphCodegen:
    """Walks an optimized function whose calls are fused kernels."""

    def __init__(self, compiler: KernelCompiler):
        self.compiler = compiler
        self.nodes: list[Node] = []
        self.values: dict[int, Any] = {}
        self.params: dict[str, Any] = {}
        # Of the inputs.
        self.names: set[str] = set()
        self.heads: list[tuple[int, int]] = []
        self.plan: Plan | None = None
        # Results that lie inside a join, and results the caller sees.
        self.parts: set[tuple[int, int]] = set()
        self.kept: set[tuple[int, int]] = set()
        self.results: set[int] = set()

    def run(self, function: Function) -> None:
        self.results = seen_outside(function.body)
        for param in function.params:
            self._input(param)
        for node in post_order_calls(function.body):
            self.values[id(node)] = self._visit(node)
        result = self.values[id(function.body)]
        self.heads = result if isinstance(result, list) else [result]
        self._plan_memory()

    def _input(self, var: Var) -> None:
        t = var.checked_type_ or var.type_annotation
        if not isinstance(t, TensorType):
            raise TVMError(f"input %{var.name_hint} has type {t}; the graph executor takes tensors")
        self.names.add(var.name_hint)
        self.nodes.append(Node(var.name_hint, [static(t, f"input '{var.name_hint}'")]))
        self.values[id(var)] = (len(self.nodes) - 1, 0)

    def _visit(self, node: RelayExpr) -> Any:
        if id(node) in self.values:
            return self.values[id(node)]
        if isinstance(node, Constant):
            name = self._constant_name()
            self.params[name] = node.data
            self.nodes.append(Node(name, [TensorType(node.data.shape, node.data.dtype)]))
            return (len(self.nodes) - 1, 0)
        if isinstance(node, Tuple):
            flat: list = []
            for f in node.fields:
                value = self.values[id(f)]
                flat.extend(value if isinstance(value, list) else [value])
            return flat
        if isinstance(node, TupleGetItem):
            return self.values[id(node.tuple_value)][node.index]
        if isinstance(node, Call) and isinstance(node.op, Function):
            return self._kernel(node)
        raise TVMError(
            f"{type(node).__name__} in the graph: the graph executor runs straight graphs of kernels; "
            "control flow needs the virtual machine"
        )

    def _constant_name(self) -> str:
        """A name that no input has."""
        numbers = itertools.count(len(self.params))
        return next(name for i in numbers if (name := f"p{i}") not in self.names and name not in self.params)

    def _kernel(self, node: Call) -> Any:
        inputs: list[tuple[int, int]] = []
        for arg in node.args:
            value = self.values[id(arg)]
            inputs.extend(value if isinstance(value, list) else [value])
        types = [
            static(t, "the result of a kernel") for t in flatten_type(node.op.body.checked_type_ or node.op.ret_type)
        ]
        joined = self._joined(node.op, inputs)
        if joined is not None:
            self.nodes.append(Node("concatenate_nop", types, joined, nop=True))
            self.parts.update(joined)
        elif is_reshape(node.op) and len(inputs) == 1:
            self.nodes.append(Node("reshape_nop", types, inputs, nop=True))
        else:
            kernel = self.compiler.lower(node.op)
            extra = {"hash": node.op.attrs["hash"]} if "hash" in node.op.attrs else {}
            if node.span is not None:
                extra["source"] = source_text(node.span)
            over = [i for i, p in zip(inputs, node.op.params) if p in written_over(node.op)] if len(types) == 1 else []
            self.nodes.append(Node(kernel.name, types, inputs, kernel, False, {**extra, **_layouts(node.op)}, over))
        index = len(self.nodes) - 1
        if id(node) in self.results:
            self.kept.update((index, i) for i in range(len(types)))
        several = not isinstance(node.op.body.checked_type_ or node.op.ret_type, TensorType)
        return [(index, i) for i in range(len(types))] if several else (index, 0)

    def _joined(self, function: Function, inputs: list[tuple[int, int]]) -> list[tuple[int, int]] | None:
        """The parts of a join that can be written where they belong: results of kernels, each of them whole and in one
        piece of the joined memory."""
        body = function.body
        if not isinstance(body, Call) or body.op.name != "concatenate" or "cpu" not in self.compiler.target.keys:
            return None
        fields = body.args[0].fields if isinstance(body.args[0], Tuple) else ()
        if len(inputs) != len(function.params) or {id(f) for f in fields} != {id(p) for p in function.params}:
            return None
        place = {id(p): i for p, i in zip(function.params, inputs)}
        parts = [place[id(f)] for f in fields]
        shape = body.checked_type_.shape
        whole = all(int(d) == 1 for d in shape[: body.attrs.axis % len(shape)])
        if not whole or len(set(parts)) != len(parts) or any(p in self.parts or p in self.kept for p in parts):
            return None
        nodes = [self.nodes[n] for n, _ in parts]
        aligned = all(byte_size(n.types[i]) % ALIGNMENT == 0 for n, (_, i) in zip(nodes, parts))
        return parts if aligned and all(n.kernel is not None for n in nodes) else None

    # -- memory ------------------------------------------------------------------------------------------------

    def row_ptr(self) -> list[int]:
        rows = [0]
        for node in self.nodes:
            rows.append(rows[-1] + len(node.types))
        return rows

    def _plan_memory(self) -> None:
        rows = self.row_ptr()
        heads = {rows[n] + i for n, i in self.heads}
        entries: list[Entry] = []
        within: dict[int, tuple[int, int]] = {}
        steps: list[Step] = []
        for number, node in enumerate(self.nodes):
            outs = list(range(rows[number], rows[number + 1]))
            ins = [rows[n] + i for n, i in node.inputs]
            for e, t in zip(outs, node.types):
                entries.append(Entry(byte_size(t), pinned=node.kernel is None and not node.nop or e in heads))
            if node.nop and len(ins) == 1:
                within[outs[0]] = (ins[0], 0)
            elif node.nop:
                offset = 0
                for e in ins:
                    within[e] = (outs[0], offset)
                    offset += entries[e].nbytes
            steps.append(Step(ins, outs, [rows[n] + i for n, i in node.over]))
        for e in heads:
            entries[_base(within, e)].pinned = True
        for e in within:
            # It lives where the whole does.
            entries[e].pinned = False
        self.plan = plan(steps, entries, within)

    # -- text --------------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        assert self.plan is not None
        rows = self.row_ptr()
        names = _unique([n.name for n in self.nodes])
        nodes = []
        for node, name in zip(self.nodes, names):
            if node.kernel is None and not node.nop:
                nodes.append({"op": "null", "name": name, "inputs": []})
                continue
            attrs = {
                "func_name": "__nop" if node.nop else node.kernel.name,
                "num_inputs": str(len(node.inputs)),
                "num_outputs": str(len(node.types)),
                "flatten_data": "0",
                **node.extra,
            }
            inputs = [[n, i, 0] for n, i in node.inputs]
            nodes.append({"op": "tvm_op", "name": name, "attrs": attrs, "inputs": inputs})
        types = [t for node in self.nodes for t in node.types]
        attrs = {
            "dltype": ["list_str", [t.dtype for t in types]],
            "device_index": ["list_int", [self.compiler.target.get_target_device_type()] * len(types)],
            "storage_id": ["list_int", [e.storage for e in self.plan.entries]],
            "storage_offset": ["list_int", [e.offset for e in self.plan.entries]],
            "shape": ["list_shape", [[int(d) for d in t.shape] for t in types]],
        }
        graph = {
            "nodes": nodes,
            "arg_nodes": [i for i, n in enumerate(self.nodes) if n.kernel is None and not n.nop],
            "heads": [[n, i, 0] for n, i in self.heads],
            "attrs": attrs,
            "node_row_ptr": rows,
        }
        return json.dumps(graph, indent=2)


def _layouts(function: Function) -> dict[str, str]:
    """Layouts of the operators in a kernel, which reports show."""
    found: dict[str, str] = {}
    for node in post_order(function.body):
        attrs = getattr(node, "attrs", None) if isinstance(node, Call) else None
        for name in ("data_layout", "layout", "kernel_layout"):
            value = getattr(attrs, name, None)
            if isinstance(value, str) and value:
                found.setdefault("data_layout" if name == "layout" else name, value)
    return found


def _base(within: dict[int, tuple[int, int]], e: int) -> int:
    while e in within:
        e = within[e][0]
    return e


def post_order_calls(body: RelayExpr) -> list[RelayExpr]:
    """Expressions of the outer graph, operands first; fused functions are not entered."""
    order: list[RelayExpr] = []
    seen: set[int] = set()
    stack: list[tuple[RelayExpr, bool]] = [(body, False)]
    while stack:
        e, ready = stack.pop()
        if ready:
            order.append(e)
        elif id(e) not in seen:
            seen.add(id(e))
            stack.append((e, True))
            kids = e.args if isinstance(e, Call) else [] if isinstance(e, Function) else e.children()
            stack.extend((c, False) for c in reversed(kids) if id(c) not in seen)
    return order


def seen_outside(body: RelayExpr) -> set[int]:
    """Ids of the calls whose results the caller of the graph sees, as they are or reshaped."""
    found: set[int] = set()
    stack = [body]
    while stack:
        e = stack.pop()
        if id(e) in found:
            continue
        found.add(id(e))
        if isinstance(e, (Tuple, TupleGetItem)):
            stack.extend(e.children())
        elif isinstance(e, Call) and isinstance(e.op, Function) and is_reshape(e.op):
            stack.extend(e.args)
    return found


def is_reshape(function: Function) -> bool:
    """Whether the kernel only sees the same elements in another shape."""
    for node in post_order(function.body):
        if isinstance(node, Call):
            if not node.op.attrs.get("reshape_only"):
                return False
        elif not isinstance(node, (Var, Op)):
            return False
    return not isinstance(function.body, Var)


def written_over(function: Function) -> set[Var]:
    """Inputs that a kernel reads only at the element it writes: it may write over them."""
    near: set[int] = {id(function.body)}
    far: set[int] = set()
    order = [n for n in post_order(function.body) if not isinstance(n, Op)]
    for node in reversed(order):
        for child in node.children():
            if isinstance(child, Op):
                continue
            alike = isinstance(node, Call) and (
                bool(node.op.attrs.get("reshape_only"))
                or pattern_of(node.op) <= BROADCAST and _shape(child) == _shape(node)
            )
            if id(node) in near and id(node) not in far and alike:
                near.add(id(child))
            else:
                far.add(id(child))
    return {p for p in function.params if id(p) in near and id(p) not in far}


def _shape(e: RelayExpr) -> tuple[int, ...] | None:
    t = e.checked_type_ or getattr(e, "type_annotation", None)
    return tuple(int(d) for d in t.shape) if isinstance(t, TensorType) else None


def static(t: TensorType, what: str) -> TensorType:
    for d in t.shape:
        if not isinstance(d, IntImm):
            shape = ", ".join(str(x) for x in t.shape)
            raise TVMError(f"{what} has shape ({shape}); the graph executor needs every dimension to be known")
    return t


def byte_size(t: TensorType) -> int:
    total = info(t.dtype).bytes * info(t.dtype).lanes
    for d in t.shape:
        total *= int(d)
    return max(total, 1)


def _unique(names: list[str]) -> list[str]:
    seen: dict[str, int] = {}
    out = []
    for name in names:
        count = seen.get(name, 0)
        seen[name] = count + 1
        out.append(name if count == 0 else f"{name}_{count}")
    return out

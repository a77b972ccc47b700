"""The graph of kernel calls that the executor runs: nodes, their memory, and its JSON text."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from ...dtype import info
from ...error import TVMError
from ...ir.op import Op
from ...ir.prim import IntImm
from ...ir.tensor_type import TensorType
from ...ir.visit import post_order
from ..expr import Call, Constant, Function, RelayExpr, Tuple, TupleGetItem, Var
from .memory_plan import Entry, Plan, plan
from .te_compiler import Kernel, KernelCompiler, flatten_type


@dataclass
class Node:
    """An input (kernel None) or a kernel call. ``inputs`` are (node, output) pairs."""

    name: str
    types: list[TensorType]
    inputs: list[tuple[int, int]] = field(default_factory=list)
    kernel: Kernel | None = None
    nop: bool = False
    extra: dict[str, str] = field(default_factory=dict)


class GraphCodegen:
    """Walks an optimized function whose calls are fused kernels."""

    def __init__(self, compiler: KernelCompiler):
        self.compiler = compiler
        self.nodes: list[Node] = []
        self.values: dict[int, Any] = {}
        self.params: dict[str, Any] = {}
        self.heads: list[tuple[int, int]] = []
        self.plan: Plan | None = None

    def run(self, function: Function) -> None:
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
        self.nodes.append(Node(var.name_hint, [static(t, f"input '{var.name_hint}'")]))
        self.values[id(var)] = (len(self.nodes) - 1, 0)

    def _visit(self, node: RelayExpr) -> Any:
        if id(node) in self.values:
            return self.values[id(node)]
        if isinstance(node, Constant):
            name = f"p{len(self.params)}"
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

    def _kernel(self, node: Call) -> Any:
        inputs: list[tuple[int, int]] = []
        for arg in node.args:
            value = self.values[id(arg)]
            inputs.extend(value if isinstance(value, list) else [value])
        types = [
            static(t, "the result of a kernel") for t in flatten_type(node.op.body.checked_type_ or node.op.ret_type)
        ]
        if is_reshape(node.op) and len(inputs) == 1:
            self.nodes.append(Node("reshape_nop", types, inputs, nop=True))
        else:
            kernel = self.compiler.lower(node.op)
            extra = {"hash": node.op.attrs["hash"]} if "hash" in node.op.attrs else {}
            self.nodes.append(Node(kernel.name, types, inputs, kernel, extra={**extra, **_layouts(node.op)}))
        index = len(self.nodes) - 1
        several = not isinstance(node.op.body.checked_type_ or node.op.ret_type, TensorType)
        return [(index, i) for i in range(len(types))] if several else (index, 0)

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
        alias: dict[int, int] = {}
        steps = []
        for number, node in enumerate(self.nodes):
            outs = list(range(rows[number], rows[number + 1]))
            ins = [rows[n] + i for n, i in node.inputs]
            for e, t in zip(outs, node.types):
                entries.append(Entry(byte_size(t), pinned=node.kernel is None and not node.nop or e in heads))
            if node.nop:
                if entries[outs[0]].pinned or entries[ins[0]].pinned:
                    # A reshaped input or result lives where the original does.
                    entries[outs[0]].pinned = False
                alias[outs[0]] = ins[0]
                if outs[0] in heads:
                    entries[_base(alias, ins[0])].pinned = True
            steps.append((ins, outs))
        self.plan = plan(steps, entries, alias)

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
            "device_index": ["list_int", [1] * len(types)],
            "storage_id": ["list_int", [e.storage for e in self.plan.entries]],
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


def _base(alias: dict[int, int], e: int) -> int:
    while e in alias:
        e = alias[e]
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


def is_reshape(function: Function) -> bool:
    """Whether the kernel only sees the same elements in another shape."""
    for node in post_order(function.body):
        if isinstance(node, Call):
            if not node.op.attrs.get("reshape_only"):
                return False
        elif not isinstance(node, (Var, Op)):
            return False
    return not isinstance(function.body, Var)


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

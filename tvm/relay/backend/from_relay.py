"""Convert an optimized Relay function, whose calls are fused kernels, to nodes of a program."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ...error import TVMError
from ...ir.op import Op
from ...ir.span import source_text
from ...ir.tensor_type import TensorType
from ...ir.visit import post_order
from ..expr import Call, Constant, Function, RelayExpr, Tuple, TupleGetItem, Var
from ..op.record import BROADCAST, pattern_of
from ..symbolic import flatten_type, has_dynamic_dims
from .external.call import attrs_of_partition
from .program import Kind, Node, Program, Ref, byte_size
from .shape_func import needs_shape_function
from .te_compiler import KernelCompiler

# Vector loads and stores are fastest on cache-line boundaries.
ALIGNMENT = 64


class ProgramBuilder:
    """Adds nodes for inputs, functions and copies between devices to a program. ``any_size``: whether dynamic shapes
    are allowed."""

    def __init__(self, any_size: bool = False) -> None:
        self.program = Program()
        self.any_size = any_size
        self.input_names: set[str] = set()
        # Outputs that are stored inside a concatenation, and outputs that are visible outside their function.
        self.parts: set[Ref] = set()
        self.kept: set[Ref] = set()

    def add(self, node: Node) -> int:
        self.program.nodes.append(node)
        return len(self.program.nodes) - 1

    def input(self, var: Var, device: int) -> Ref:
        t = var.checked_type_ or var.type_annotation
        if not isinstance(t, TensorType):
            raise TVMError(
                f"input %{var.name_hint} has type {t}; inputs of the graph executor must be tensors; use the virtual "
                "machine"
            )
        self.input_names.add(var.name_hint)
        self.check(t, f"input '{var.name_hint}'")
        return self.add(Node(Kind.INPUT, var.name_hint, [t], device)), 0

    def check(self, t: TensorType, what: str) -> None:
        if not self.any_size and has_dynamic_dims(t):
            shape = ", ".join(str(x) for x in t.shape)
            raise TVMError(
                f"{what} has shape ({shape}); the executors graph and aot need static shapes; use "
                "relay.vm.compile for dynamic shapes"
            )

    def constant(self, data: Any, device: int) -> Ref:
        """Add a constant with a name that no input has."""
        held = self.program.constants
        numbers = itertools.count(len(held))
        name = next(n for i in numbers if (n := f"p{i}") not in self.input_names and n not in held)
        held[name] = data
        return self.add(Node(Kind.CONSTANT, name, [TensorType(data.shape, data.dtype)], device)), 0

    def copy(self, value: Ref, device: int) -> Ref:
        """Add a copy of a value to another device."""
        number, index = value
        return self.add(Node(Kind.COPY, "__copy", [self.program.nodes[number].types[index]], device, [value])), 0

    def function(self, function: Function, arguments: Sequence[Ref], compiler: KernelCompiler) -> list[Ref]:
        """Add the calls of a function on the device of the compiler's target, and return its flattened outputs.

        ``arguments`` are the values of its parameters.
        """
        return _FunctionNodes(self, function, arguments, compiler).results()


class _FunctionNodes:
    """Adds the nodes of one function. A value is a Ref, or a list of Refs for a tuple."""

    def __init__(self, builder: ProgramBuilder, function: Function, arguments: Sequence[Ref], compiler: KernelCompiler):
        self.builder = builder
        self.function = function
        self.compiler = compiler
        self.device = compiler.target.get_target_device_type()
        self.values: dict[int, Any] = {id(p): value for p, value in zip(function.params, arguments)}
        self.seen_outside = seen_outside(function.body)

    def results(self) -> list[Ref]:
        for node in post_order_calls(self.function.body):
            if id(node) not in self.values:
                self.values[id(node)] = self._visit(node)
        result = self.values[id(self.function.body)]
        return result if isinstance(result, list) else [result]

    def _visit(self, node: RelayExpr) -> Any:
        if isinstance(node, Constant):
            return self.builder.constant(node.data, self.device)
        if isinstance(node, Tuple):
            return self._flat(node.fields)
        if isinstance(node, TupleGetItem):
            return self.values[id(node.tuple_value)][node.index]
        if isinstance(node, Call) and isinstance(node.op, Function):
            return self._call(node)
        raise TVMError(
            f"unsupported expression {type(node).__name__} in the graph: the executors graph and aot do not support "
            "control flow; use the virtual machine (relay.vm.compile)"
        )

    def _flat(self, operands: Sequence[RelayExpr]) -> list[Ref]:
        found: list[Ref] = []
        for operand in operands:
            value = self.values[id(operand)]
            found.extend(value if isinstance(value, list) else [value])
        return found

    def _call(self, node: Call) -> Any:
        result = node.op.body.checked_type_ or node.op.ret_type
        types = flatten_type(result)
        for t in types:
            self.builder.check(t, "the output of a kernel")
        inputs = self._flat(node.args)
        if attrs_of_partition(node.op) is not None:
            inputs = self._arguments_of_partition(node.op, inputs)
        index = self.builder.add(self._node(node, inputs, types))
        refs = [(index, i) for i in range(len(types))]
        if id(node) in self.seen_outside:
            self.builder.kept.update(refs)
        return refs[0] if isinstance(result, TensorType) else refs

    def _arguments_of_partition(self, function: Function, inputs: list[Ref]) -> list[Ref]:
        """Return the arguments of a partition in order. The fused function around its call has each argument once, and
        contains scalar constants."""
        rest = iter(inputs)
        values = {id(p): [next(rest) for _ in flatten_type(p.checked_type_)] for p in function.params}
        found: list[Ref] = []
        for e in function.body.args:
            for part in e.fields if isinstance(e, Tuple) else (e,):
                found += [self._visit(part)] if isinstance(part, Constant) else values[id(part)]
        return found

    def _node(self, node: Call, inputs: list[Ref], types: list[TensorType]) -> Node:
        function = node.op
        joined = self._joined(function, inputs)
        if joined is not None:
            self.builder.parts.update(joined)
            return Node(Kind.VIEW, "concatenate_nop", types, self.device, joined)
        sized = function if needs_shape_function(function) else None
        if is_reshape(function) and (len(inputs) == 1 or sized is not None):
            return Node(Kind.VIEW, "reshape_nop", types, self.device, inputs, function=sized)
        kernel = self.compiler.lower(function)
        attrs = {"hash": function.attrs["hash"]} if "hash" in function.attrs else {}
        if node.span is not None:
            attrs["source"] = source_text(node.span)
        attrs.update(layouts(function))
        over = written_over(function) if len(types) == 1 and sized is None else ()
        in_place = [i for i, p in zip(inputs, function.params) if p in over]
        return Node(Kind.KERNEL, kernel.name, types, self.device, inputs, kernel, attrs, in_place, sized)

    def _joined(self, function: Function, inputs: list[Ref]) -> list[Ref] | None:
        """Return the operands of a concatenation whose producers can write directly into its output, else None.

        Each operand must be a kernel output that occupies one contiguous part of the concatenation.
        """
        body = function.body
        if needs_shape_function(function):
            return None
        if not isinstance(body, Call) or body.op.name != "concatenate" or not self.compiler.target.features.is_cpu:
            return None
        fields = body.args[0].fields if isinstance(body.args[0], Tuple) else ()
        if len(inputs) != len(function.params) or {id(f) for f in fields} != {id(p) for p in function.params}:
            return None
        place = {id(p): i for p, i in zip(function.params, inputs)}
        parts = [place[id(f)] for f in fields]
        shape = body.checked_type_.shape
        whole = all(int(d) == 1 for d in shape[: body.attrs.axis % len(shape)])
        builder = self.builder
        if not whole or len(set(parts)) != len(parts) or any(p in builder.parts or p in builder.kept for p in parts):
            return None
        nodes = [builder.program.nodes[n] for n, _ in parts]
        aligned = all(byte_size(n.types[i]) % ALIGNMENT == 0 for n, (_, i) in zip(nodes, parts))
        return parts if aligned and all(n.kind is Kind.KERNEL for n in nodes) else None


def layouts(function: Function) -> dict[str, str]:
    """Return the layouts of the operators in a kernel, for reports."""
    found: dict[str, str] = {}
    for node in post_order(function.body):
        attrs = getattr(node, "attrs", None) if isinstance(node, Call) else None
        for name in ("data_layout", "layout", "kernel_layout"):
            value = getattr(attrs, name, None)
            if isinstance(value, str) and value:
                found.setdefault("data_layout" if name == "layout" else name, value)
    return found


def post_order_calls(body: RelayExpr) -> list[RelayExpr]:
    """Return the expressions of the outer graph, operands first, without the bodies of fused functions."""

    def operands(e: RelayExpr) -> Sequence[RelayExpr]:
        return e.args if isinstance(e, Call) else () if isinstance(e, Function) else e.children()

    return list(post_order(body, operands=operands))


def seen_outside(body: RelayExpr) -> set[int]:
    """Return the ids of the calls whose outputs are outputs of the graph, directly or through reshapes."""
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
    """Return whether a kernel only reshapes its first input."""
    node = function.body
    while isinstance(node, Call) and (node.op.attrs.get("reshape_only") or node.op.name == "reshape_like"):
        if any(not isinstance(other, Var) for other in node.args[1:]):
            return False
        node = node.args[0]
    return node is not function.body and isinstance(node, Var) and node is function.params[0]


def written_over(function: Function) -> set[Var]:
    """Return the inputs of which a kernel reads only the element that it writes, so that it may run in place."""
    near: set[int] = {id(function.body)}
    far: set[int] = set()
    order = [n for n in post_order(function.body) if not isinstance(n, Op)]
    for node in reversed(order):
        for child in node.children():
            if isinstance(child, Op):
                continue
            alike = isinstance(node, Call) and (
                bool(node.op.attrs.get("reshape_only"))
                or pattern_of(node.op) <= BROADCAST
                and _shape(child) == _shape(node)
            )
            if id(node) in near and id(node) not in far and alike:
                near.add(id(child))
            else:
                far.add(id(child))
    return {p for p in function.params if id(p) in near and id(p) not in far}


def _shape(e: RelayExpr) -> tuple[int, ...] | None:
    t = e.checked_type_ or getattr(e, "type_annotation", None)
    return tuple(int(d) for d in t.shape) if isinstance(t, TensorType) else None


__all__ = ["ProgramBuilder", "post_order_calls", "written_over"]

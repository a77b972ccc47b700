"""Partitions as JSON graphs, in the layout of Apache TVM's JSON runtime, and the modules that run them.

Each call of an operator or composite function becomes a node with the op ``kernel``. The name of the node is the name
of its kernel: the name of the composite function, or the names of the code generator and of the operator
(``acme.nn.relu``). A shared library implements the kernels (``csrc/include/tvm/kernel_library.h``).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from typing import Any

from ....error import TVMError
from ....ir.op import Op
from ....ir.visit import post_order
from ....runtime.module import Module
from ....runtime.params import pack_params
from ....runtime.partition import MAGIC, load_partition
from ....runtime.registry import get_global_func
from ...expr import Call, Constant, Function, RelayExpr, Tuple, TupleGetItem, Var
from ...symbolic import flatten_type, has_dynamic_dims

# Returns attributes of the node of a call, in addition to those of its operators, which they replace.
Attributes = Callable[[Call], Mapping[str, Any]]

# The index of a node and of its output, and the version, which is always 0.
Ref = list[int]


def json_graph(function: Function, attributes: Attributes | None = None) -> tuple[str, dict[str, Any]]:
    """Return a partition as JSON text, and its constants by name.

    The attributes of a node are those of its operator. The node of a composite function has the attributes of all its
    operators, where the first operator in execution order determines an attribute; ``operators`` contains the names of
    the operators; and the constants in its body are inputs after its arguments.

    Parameters
    ----------
    function : Function
        The partition, with types and the attributes ``Compiler`` and ``global_symbol``.
    attributes : callable, optional
        ``(call) -> dict`` returns further attributes of the node of a call: numbers, texts, or lists of them.

    Returns
    -------
    tuple of str and dict
        The JSON text, and the constants.

    Raises
    ------
    TVMError
        The partition contains an expression other than operators, composite functions and tuples, or a dynamic shape.
    """
    writer = _Writer(function, attributes or (lambda call: {}))
    heads = writer.run()
    lists = {
        "arg_nodes": [i for i, node in enumerate(writer.nodes) if node["op"] != "kernel"],
        "heads": heads,
        "node_row_ptr": writer.rows,
    }
    nodes = ",\n  ".join(map(json.dumps, writer.nodes))
    rest = ",\n".join(f' "{name}": {json.dumps(value)}' for name, value in lists.items())
    return f'{{\n "nodes": [\n  {nodes}\n ],\n{rest}\n}}\n', writer.constants


def json_module(function: Function, attributes: Attributes | None = None) -> Module:
    """Return the module of a partition that the JSON runtime runs with registered kernels.

    Parameters
    ----------
    function : Function
        The partition.
    attributes : callable, optional
        As for ``json_graph``.

    Returns
    -------
    Module
    """
    text, constants = json_graph(function, attributes)
    params = b"".join(pack_params(constants)) if constants else b""
    blocks = (str(function.attrs["global_symbol"]).encode(), text.encode(), params)
    return load_partition(MAGIC + b"".join(struct.pack("<Q", len(block)) + block for block in blocks))


def constants_of(function: Function) -> dict[str, Any]:
    """Return the constants of a partition by name, in execution order, or those that its code generator's function
    ``relay.ext.<name>.constant_updater`` returns."""
    compiler, symbol = str(function.attrs["Compiler"]), str(function.attrs["global_symbol"])
    updater = get_global_func(f"relay.ext.{compiler}.constant_updater", allow_missing=True)
    if updater is not None:
        return dict(updater(function, symbol))
    found = [node for node in post_order(function.body) if isinstance(node, Constant)]
    return {f"{symbol}_const_{i}": node.data for i, node in enumerate(found)}


class _Writer:
    def __init__(self, function: Function, attributes: Attributes):
        self.function, self.attributes = function, attributes
        self.compiler = str(function.attrs["Compiler"])
        self.nodes: list[dict[str, Any]] = []
        self.rows = [0]
        self.constants: dict[str, Any] = {}
        self.names: dict[int, str] = {}
        self.values: dict[int, list[Ref]] = {}

    def run(self) -> list[Ref]:
        for param in self.function.params:
            types = flatten_type(param.checked_type_)
            names = [param.name_hint] if len(types) == 1 else [f"{param.name_hint}_{i}" for i in range(len(types))]
            self.values[id(param)] = [self.add("input", name, [t])[0] for name, t in zip(names, types)]
        given = constants_of(self.function)
        for name, data in given.items():
            self.constants[name] = data
        named = iter(given)
        for node in post_order(self.function.body):
            if isinstance(node, Constant):
                self.names[id(node)] = next(named, "")
        for node in post_order(self.function.body, operands=_operands):
            if id(node) not in self.values:
                self.values[id(node)] = self.value(node)
        return self.values[id(self.function.body)]

    def add(self, op: str, name: str, types: list[Any], **fields: Any) -> list[Ref]:
        for t in types:
            if has_dynamic_dims(t):
                raise TVMError(f"a partition for '{self.compiler}' has a value with the dynamic shape {t}")
        attrs = fields.pop("attrs", {})
        attrs["shape"] = [[[int(d) for d in t.shape] for t in types]]
        attrs["dtype"] = [[str(t.dtype) for t in types]]
        number = len(self.nodes)
        self.nodes.append({"op": op, "name": name, **fields, "attrs": attrs})
        self.rows.append(self.rows[-1] + len(types))
        return [[number, i, 0] for i in range(len(types))]

    def value(self, node: RelayExpr) -> list[Ref]:
        if isinstance(node, Constant):
            return self.constant(node)
        if isinstance(node, Tuple):
            return [ref for field in node.fields for ref in self.values[id(field)]]
        if isinstance(node, TupleGetItem):
            fields = [len(flatten_type(t)) for t in node.tuple_value.checked_type_.fields]
            start = sum(fields[: node.index])
            return self.values[id(node.tuple_value)][start : start + fields[node.index]]
        if isinstance(node, Call) and isinstance(node.op, (Op, Function)):
            return self.call(node)
        kind = f"variable %{node.name_hint}" if isinstance(node, Var) else type(node).__name__
        raise TVMError(f"a partition for '{self.compiler}' contains the unsupported expression {kind}")

    def constant(self, node: Constant) -> list[Ref]:
        name = self.names[id(node)]
        if not name:
            raise TVMError(
                f"relay.ext.{self.compiler}.constant_updater returned fewer constants than the partition contains"
            )
        return self.add("const", name, [node.checked_type_])

    def call(self, node: Call) -> list[Ref]:
        inputs = [ref for arg in node.args for ref in self.values[id(arg)]]
        found: dict[str, Any] = {}
        if isinstance(node.op, Op):
            name, calls = f"{self.compiler}.{node.op.name}", [node]
        else:
            if "Composite" not in node.op.attrs:
                raise TVMError(f"a partition for '{self.compiler}' calls a function that is not composite")
            name = str(node.op.attrs["Composite"])
            pattern = node.op.attrs.get("PartitionedFromPattern")
            if pattern is not None:
                found["PartitionedFromPattern"] = str(pattern)
            inner = list(post_order(node.op.body))
            calls = [n for n in inner if isinstance(n, Call) and isinstance(n.op, Op)]
            inputs += [ref for n in inner if isinstance(n, Constant) for ref in self.constant(n)]
        types = flatten_type(node.checked_type_)
        attrs: dict[str, Any] = {"num_inputs": str(len(inputs)), "num_outputs": str(len(types))}
        found["operators"] = [c.op.name for c in calls]
        for each in calls:
            for key, value in dict(each.attrs.items() if each.attrs is not None else ()).items():
                found.setdefault(key, value)
        found.update(self.attributes(node))
        attrs.update({key: [_texts(value)] for key, value in found.items()})
        return self.add("kernel", name, types, inputs=inputs, attrs=attrs)


def _operands(e: RelayExpr) -> Any:
    """Return the operands of an expression of the outer graph; bodies of composite functions are not visited."""
    return e.args if isinstance(e, Call) else () if isinstance(e, Function) else e.children()


def _texts(value: Any) -> list[str]:
    """Return an attribute as a flat list of texts."""
    if isinstance(value, (list, tuple)):
        return [text for item in value for text in _texts(item)]
    value = getattr(value, "value", value)
    if value is None:
        return [""]
    return [str(int(value)) if isinstance(value, bool) else str(value)]


__all__ = ["constants_of", "json_graph", "json_module"]

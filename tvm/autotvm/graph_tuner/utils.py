"""A graph as a numbered list of nodes, and the dependencies between the target operators."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.tensor_type import TensorType
from ...ir.type import TupleType
from ...ir.visit import post_order
from ...relay.expr import Call, Constant, Function, Let, RelayExpr, Tuple, TupleGetItem, Var, bind, var
from ...relay.infer import infer_module
from ...target import Target

Entry = dict[str, Any]


def bind_inputs(expr: Function, input_shapes: Mapping[str, Sequence[int]], input_dtypes: Any = "float32") -> Function:
    """Return the function with the given parameter shapes, and one type for all parameters or a type for each name."""
    fresh = {}
    for p in expr.params:
        if p.name_hint in input_shapes:
            dtype = input_dtypes if isinstance(input_dtypes, str) else input_dtypes[p.name_hint]
            fresh[p] = var(p.name_hint, shape=tuple(input_shapes[p.name_hint]), dtype=dtype)
    made = Function([fresh.get(p, p) for p in expr.params], bind(expr.body, fresh))
    return infer_module(IRModule.from_expr(made))["main"]


def expr2graph(
    expr: RelayExpr,
    target_ops: Collection[Op],
    node_dict: dict[RelayExpr, int],
    node_list: list[Entry],
    tvm_target: Any = "llvm",
) -> None:
    """Fill ``node_list`` with the nodes of a graph, operands first, and ``node_dict`` with their indices.

    An entry contains the node, its operator, its ``inputs`` (pairs of node index and output index), and the ``types``
    of its outputs."""
    if not all(isinstance(op, Op) for op in target_ops):
        raise TypeError("graph tuner: target_ops must be operators, such as relay.op.get('nn.conv2d')")
    Target(tvm_target)
    for node in post_order(expr):
        if isinstance(node, (Op, Function)) or node in node_dict:
            continue
        entry: Entry = {"node": node, "inputs": [], "types": _types(node), "op": None, "name": ""}
        if isinstance(node, Call):
            if not isinstance(node.op, Op):
                raise ValueError(f"graph tuner: only calls of operators are supported, not of {type(node.op).__name__}")
            entry["op"], entry["name"] = node.op, f"{node.op.name}{len(node_list)}"
            entry["inputs"] = [_place(a, node_dict) for a in node.args]
        elif isinstance(node, Tuple):
            entry["inputs"] = [_place(f, node_dict) for f in node.fields]
        elif isinstance(node, TupleGetItem):
            entry["inputs"] = [[node_dict[node.tuple_value], node.index, 0]]
        elif isinstance(node, Var):
            entry["name"] = node.name_hint
        elif isinstance(node, Constant):
            entry["name"] = f"Constant_{len(node_list)}"
        elif isinstance(node, Let):
            raise ValueError("graph tuner: let expressions are not supported")
        node_dict[node] = len(node_list)
        node_list.append(entry)


def _place(operand: RelayExpr, node_dict: Mapping[RelayExpr, int]) -> list[int]:
    return [node_dict[operand], 0, 0]


def _types(node: RelayExpr) -> list[TensorType]:
    made = node.checked_type_
    return [] if made is None else list(made.fields) if isinstance(made, TupleType) else [made]


def is_boundary_node(node_entry: Entry, input_names: Collection[str]) -> bool:
    """Return whether a node is an input of the graph, where layouts begin."""
    return isinstance(node_entry["node"], Var) and node_entry["name"] in input_names


def is_skipped_node(node_entry: Entry) -> bool:
    """Return whether a node only creates or accesses a tuple."""
    return isinstance(node_entry["node"], (Tuple, TupleGetItem))


def has_multiple_inputs(
    node_list: Sequence[Entry], node_idx: int, input_names: Collection[str], opt_out_op: Collection[Op] = ()
) -> bool:
    """Return whether several operands of a node depend on inputs, so that their layouts must be equal."""
    return _where_layouts_join(node_list[: node_idx + 1], input_names, opt_out_op)[node_idx]


def _where_layouts_join(
    node_list: Sequence[Entry], input_names: Collection[str], opt_out_op: Collection[Op]
) -> list[bool]:
    reached: list[bool] = []
    joins: list[bool] = []
    for entry in node_list:
        count = sum(reached[i[0]] for i in entry["inputs"])
        reached.append(count > 0 or is_boundary_node(entry, input_names))
        joins.append(count > 1 and entry["op"] not in opt_out_op)
    return joins


def get_direct_ancestor(
    node_list: Sequence[Entry],
    visited_dict: dict[int, list[int]],
    target_ops: Collection[Op],
    node_idx: int,
    input_names: Collection[str],
) -> list[int]:
    """Return the indices of the nearest ancestors of a node that have their own layout: target operators, inputs, and
    nodes whose operands must have equal layouts."""
    joins = _where_layouts_join(node_list[: node_idx + 1], input_names, target_ops)
    for at in range(node_idx + 1):
        entry = node_list[at]
        found = {at: None} if is_boundary_node(entry, input_names) else {}
        for i in entry["inputs"]:
            own = node_list[i[0]]["op"] in target_ops or joins[i[0]]
            found.update(dict.fromkeys([i[0]] if own else visited_dict[i[0]]))
        visited_dict[at] = list(found)
    return visited_dict[node_idx]


def get_in_nodes(
    node_list: Sequence[Entry], target_ops: Collection[Op], input_names: Collection[str]
) -> dict[int, list[int]]:
    """Return the ancestors of every target operator and of every node whose operands must have equal layouts, by
    index."""
    above: dict[int, list[int]] = {}
    get_direct_ancestor(node_list, above, target_ops, len(node_list) - 1, input_names)
    joins = _where_layouts_join(node_list, input_names, target_ops)
    return {at: above[at] for at, entry in enumerate(node_list) if entry["op"] in target_ops or joins[at]}


def get_out_nodes(in_node_dict: Mapping[int, Sequence[int]]) -> dict[int, list[int]]:
    """Return the inverse of ``get_in_nodes``: the successors of each node."""
    out: dict[int, list[int]] = {}
    for at, above in in_node_dict.items():
        for i in above:
            out.setdefault(i, []).append(at)
        out.setdefault(at, [])
    return {at: sorted(after) for at, after in sorted(out.items())}


__all__ = [
    "bind_inputs",
    "expr2graph",
    "get_direct_ancestor",
    "get_in_nodes",
    "get_out_nodes",
    "has_multiple_inputs",
    "is_boundary_node",
    "is_skipped_node",
]

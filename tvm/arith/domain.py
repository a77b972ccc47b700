"""The regions of a buffer that a statement reads and writes.

Statement classes belong to a higher layer, so they are distinguished by type key.
"""

from __future__ import annotations

from typing import Any

from ..ir.node import Node
from ..ir.prim import BufferLoad, IterVar, Let, PrimExpr, Range, Var, const
from ..ir.visit import post_order
from .analyzer import Analyzer
from .interval_set import IntSet, as_set, eval_set, from_min_extent, union

_THREADS = ("thread_extent", "virtual_thread")


def domain_touched(stmt: Node, buffer: Any, consider_loads: bool = True, consider_stores: bool = True) -> list[Range]:
    """Return one range per dimension that covers every access of ``buffer`` in ``stmt``, or an empty list without
    accesses.

    Loop variables are eliminated. Conditions are ignored, so the ranges may be larger than the accessed region. A
    dimension that cannot be bounded gets its whole extent.
    """
    analyzer = Analyzer()
    touched: list[list[IntSet]] = []
    stack: list[tuple[Any, dict[Var, IntSet]]] = [(stmt, {})]
    while stack:
        node, domains = stack.pop()
        if isinstance(node, PrimExpr):
            if consider_loads:
                _loads(node, buffer, domains, analyzer, touched)
            continue
        if node._type_key == "tir.BufferStore" and node.buffer is buffer and consider_stores:
            touched.append([eval_set(i, domains, analyzer) for i in node.indices])
        inner = _inner_domains(node, domains, analyzer)
        stack.extend((child, inner) for child in node.children())
    if not touched:
        return []
    out: list[Range] = []
    for sets, extent in zip(zip(*touched), buffer.shape):
        out.append(union(sets, analyzer).range(Range(min=const(0, extent.dtype), extent=extent), analyzer))
    return out


def _loads(expr: PrimExpr, buffer: Any, domains: dict[Any, Any], analyzer: Analyzer, touched: list[Any]) -> None:
    nodes = list(post_order(expr))
    bound = [n for n in nodes if isinstance(n, Let)]
    if bound:
        domains = dict(domains)
        # Post-order visits the lets inside a value before the value.
        for let in bound:
            domains[let.var] = eval_set(let.value, domains, analyzer)
    for node in nodes:
        if isinstance(node, BufferLoad) and node.buffer is buffer:
            touched.append([eval_set(i, domains, analyzer) for i in node.indices])


def _inner_domains(node: Any, domains: dict[Var, IntSet], analyzer: Analyzer) -> dict[Var, IntSet]:
    """Return the domains inside a statement that defines variables."""
    key = node._type_key
    if key == "tir.For":
        return {**domains, node.loop_var: from_min_extent(node.min, node.extent)}
    if key == "tir.LetStmt" and node.value.dtype != "handle":
        return {**domains, node.var: eval_set(node.value, domains, analyzer)}
    if key == "tir.AttrStmt" and node.attr_key in _THREADS and isinstance(node.node, IterVar):
        return {**domains, node.node.var: from_min_extent(0, node.value)}
    if key == "tir.BlockRealize":
        values = {i.var: eval_set(v, domains, analyzer) for i, v in zip(node.block.iter_vars, node.iter_values)}
        return {**domains, **values}
    if key == "tir.Block":
        return {**{i.var: as_set(i.dom) for i in node.iter_vars}, **domains}
    return domains

"""The graph of operations: topological order, and the operations inside a scan."""

from __future__ import annotations

from ..ir.visit import post_order
from .tensor import Operation, ScanOp


def post_order_ops(outputs: list[Operation]) -> list[Operation]:
    """Return every operation that the outputs depend on, producers first."""
    seen: set[int] = set()
    return [op for output in outputs for op in post_order(output, operands=_producers, seen=seen)]


def _producers(op: Operation) -> list[Operation]:
    return [tensor.op for tensor in op.input_tensors]


def scan_body(scan: ScanOp) -> list[Operation]:
    """Return the operations inside a scan, between its states and its updates, producers first."""
    states = {t.op for t in scan.state_placeholder}
    inside: set[Operation] = set()
    order = post_order_ops([t.op for t in scan.update])
    for op in order:
        if op in states:
            continue
        if any(t.op in states or t.op in inside for t in op.input_tensors):
            inside.add(op)
    inside.update(t.op for t in scan.update)
    return [op for op in order if op in inside]

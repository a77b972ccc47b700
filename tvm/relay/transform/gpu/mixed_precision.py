"""Scalars of half-precision operands, multiplied after the matmul instead of before it.

An operand that is scaled has to be stored scaled, by a kernel of its own; a matmul that accumulates in float32 scales
its result for nothing. The operand is then not rounded after it is scaled, so the result is nearer to the exact one
than that of the operators as they stand. Other back ends keep the rounding of the graph.
"""

from __future__ import annotations

from ...expr import Call, RelayExpr
from ..simplify_expr import Table, hoist_scalar_past_matmul


def hoist_half_precision_scalar(node: Call, counts) -> RelayExpr | None:
    return hoist_scalar_past_matmul(node, counts, mixed=True)


RULES: Table = dict.fromkeys(("nn.batch_matmul", "nn.matmul", "nn.dense"), (hoist_half_precision_scalar,))

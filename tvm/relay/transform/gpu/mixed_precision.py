"""Move scalar factors of half-precision matmul operands to the matmul's output.

A scaled operand has to be stored by a separate kernel, whereas a matmul that accumulates in float32 scales its output
without extra cost. The scaled operand is then no longer rounded, so the output is more accurate than that of the
original graph. Other back ends keep the rounding of the graph."""

from __future__ import annotations

from ...expr import Call, RelayExpr
from ..simplify_expr import Table, hoist_scalar_past_matmul


def hoist_half_precision_scalar(node: Call, counts) -> RelayExpr | None:
    return hoist_scalar_past_matmul(node, counts, mixed=True)


RULES: Table = dict.fromkeys(("nn.batch_matmul", "nn.matmul", "nn.dense"), (hoist_half_precision_scalar,))

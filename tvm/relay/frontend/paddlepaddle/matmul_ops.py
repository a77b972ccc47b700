"""Converters of matmul operators."""

from __future__ import annotations

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr
from ..common import run_time
from ..common.matmul import numpy_matmul
from .activations import named
from .shape_ops import is_known, matrix
from .table import Context, op


def _transpose_last(ctx: Context, e: RelayExpr, asked: bool) -> RelayExpr:
    """Transpose the last two axes if ``asked`` is set; a vector is unchanged."""
    rank = ctx.rank(e)
    if not asked or rank < 2:
        return e
    return ctx.made(relay.transpose(e, [*range(rank - 2), rank - 1, rank - 2]))


@op("matmul_v2")
def matmul_v2(ctx):
    x, y = ctx.get("X"), ctx.get("Y")
    x, y = _transpose_last(ctx, x, ctx.attr("trans_x", False)), _transpose_last(ctx, y, ctx.attr("trans_y", False))
    ctx.refuse(fused_reshape_X=[], fused_reshape_Y=[], fused_reshape_Out=[], fused_transpose_X=[],
               fused_transpose_Y=[], fused_transpose_Out=[])  # fmt: skip
    return numpy_matmul(ctx, x, y)


@op("matmul")
def matmul(ctx):
    x, y = ctx.get("X"), ctx.get("Y")
    x, y = (
        _transpose_last(ctx, x, ctx.attr("transpose_X", False)),
        _transpose_last(ctx, y, ctx.attr("transpose_Y", False)),
    )
    out, alpha = ctx.made(numpy_matmul(ctx, x, y)), ctx.attr("alpha", 1.0)
    out = relay.reshape(out, (1,)) if not ctx.rank(out) else out
    return out if alpha == 1.0 else relay.multiply(out, ctx.like(alpha, x))


@op("bmm")
def bmm(ctx):
    return numpy_matmul(ctx, ctx.get("X"), ctx.get("Y"))


@op("mv")
def mv(ctx):
    return numpy_matmul(ctx, ctx.get("X"), ctx.get("Vec"))


@op("dot")
def dot(ctx):
    x = ctx.get("X")
    return relay.sum(relay.multiply(x, ctx.get("Y")), axis=ctx.rank(x) - 1)


@op("addmm")
def addmm(ctx):
    x = ctx.get("X")
    out = relay.multiply(numpy_matmul(ctx, x, ctx.get("Y")), ctx.like(ctx.attr("Alpha", 1.0), x))
    return relay.add(relay.multiply(ctx.get("Input"), ctx.like(ctx.attr("Beta", 1.0), x)), out)


def _flat_matmul(ctx: Context, x: RelayExpr, y: RelayExpr, cut: int, y_cut: int) -> RelayExpr:
    """Multiply two tensors flattened to matrices at ``cut`` and ``y_cut``. The row axes are restored in the output."""
    if not 0 < cut < max(ctx.rank(x), 2) or not 0 < y_cut < max(ctx.rank(y), 2):
        raise TVMError(
            f"cannot flatten tensors of {ctx.rank(x)} and {ctx.rank(y)} dimensions at axes {cut} and {y_cut}"
        )
    columns = ctx.known_shape(y)[y_cut:]
    rows, right = ctx.made(matrix(ctx, x, cut)), ctx.made(matrix(ctx, y, y_cut))
    out = ctx.made(numpy_matmul(ctx, rows, right))
    if cut == 1 and len(columns) == 1:
        return out
    if is_known(ctx, x):
        return relay.reshape(out, (*ctx.known_shape(x)[:cut], *columns))
    out = ctx.made(run_time.unflattened(ctx, out, x, cut))
    return out if len(columns) == 1 else relay.reshape(out, [*[0] * cut, *columns])


@op("mul")
def mul(ctx):
    return _flat_matmul(ctx, ctx.get("X"), ctx.get("Y"), ctx.attr("x_num_col_dims", 1), ctx.attr("y_num_col_dims", 1))


@op("fc")
def fc(ctx):
    ctx.refuse(padding_weights=False, use_mkldnn=False)
    x, bias = ctx.get("Input"), ctx.maybe("Bias")
    out = _flat_matmul(ctx, x, ctx.get("W"), ctx.attr("in_num_col_dims", 1), 1)
    out = out if bias is None else relay.add(out, relay.reshape(bias, (-1,)))
    return named(ctx.attr("activation_type", ""))(ctx, ctx.made(out))


@op("einsum")
def einsum(ctx):
    return relay.einsum(ctx.tensors("Operands"), ctx.attr("equation", "").replace(" ", ""))

"""Converters of matmul, linear algebra and attention operators."""

from __future__ import annotations

import math

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr, const
from ..common.matmul import numpy_matmul
from .make_ops import diagonal, on_diagonal
from .reduce_ops import vector
from .table import Context, axis_of, op

_TRANSPOSED = "transpose_a:bool=False transpose_b:bool=False"


def _transpose_last(ctx: Context, x: RelayExpr, turn: bool) -> RelayExpr:
    """Transpose the last two axes if ``turn`` is set."""
    rank = ctx.rank(x)
    if not turn:
        return x
    if rank < 2:
        raise TVMError("a vector cannot be transposed")
    return ctx.made(relay.transpose(x, [*range(rank - 2), rank - 1, rank - 2]))


@op("dot", _TRANSPOSED)
def dot(ctx, inputs, attrs):
    """Contract the last axis of the left operand with the first axis of the right one."""
    sides = list(inputs)
    for i, turn in enumerate((attrs.transpose_a, attrs.transpose_b)):
        rank = ctx.rank(sides[i])
        if turn and rank > 1:
            # With more than two axes, transposing moves the first axis of the left operand to the end, or the last axis
            # of the right operand to the front.
            order = [*range(1, rank), 0] if i == 0 else [rank - 1, *range(rank - 1)]
            sides[i] = ctx.made(relay.transpose(sides[i], order))
    a, b = sides
    return vector(ctx, _contract_axis(ctx, a, b, ctx.rank(a) - 1, 0))


def _contract_axis(ctx: Context, a: RelayExpr, b: RelayExpr, left: int, right: int) -> RelayExpr:
    """Contract one axis of each operand. The output has the other axes, those of the left operand first."""
    x, y = ctx.known_shape(a), ctx.known_shape(b)
    if x[left] != y[right]:
        raise TVMError(
            f"cannot multiply tensors of shapes {x} and {y}: the reduction axes have sizes {x[left]} and {y[right]}"
        )
    rows = [d for i, d in enumerate(x) if i != left]
    columns = [d for i, d in enumerate(y) if i != right]
    a = relay.transpose(a, [*(i for i in range(len(x)) if i != left), left])
    b = relay.transpose(b, [right, *(i for i in range(len(y)) if i != right)])
    a = relay.reshape(a, (math.prod(rows), x[left]), True)
    b = relay.reshape(b, (x[left], math.prod(columns)), True)
    return relay.reshape(numpy_matmul(ctx, ctx.made(a), ctx.made(b)), (*rows, *columns), True)


@op("_np_dot")
def np_dot(ctx, inputs, attrs):
    a, b = inputs
    if not ctx.rank(a) or not ctx.rank(b):
        return relay.multiply(a, b)
    return _contract_axis(ctx, a, b, ctx.rank(a) - 1, max(ctx.rank(b) - 2, 0))


@op("batch_dot", _TRANSPOSED)
def batch_dot(ctx, inputs, attrs):
    a, b = inputs
    if ctx.rank(a) < 3 or ctx.shape(a)[:-2] != ctx.shape(b)[:-2]:
        raise TVMError(
            "batch_dot needs operands of at least 3 dimensions with equal batch dimensions, got shapes "
            f"{ctx.shape(a)} and {ctx.shape(b)}"
        )
    return numpy_matmul(ctx, _transpose_last(ctx, a, attrs.transpose_a), _transpose_last(ctx, b, attrs.transpose_b))


@op("_npi_matmul")
def matmul(ctx, inputs, attrs):
    return numpy_matmul(ctx, *inputs)


@op("_npi_tensordot", "a_axes_summed:dims b_axes_summed:dims")
def tensordot(ctx, inputs, attrs):
    return _contract_axes(ctx, inputs, list(attrs.a_axes_summed), list(attrs.b_axes_summed))


@op("_npi_tensordot_int_axes", "axes:int")
def tensordot_int(ctx, inputs, attrs):
    rank = ctx.rank(inputs[0])
    if not 0 <= attrs.axes <= min(rank, ctx.rank(inputs[1])):
        raise TVMError(f"the attribute axes={attrs.axes} is out of range")
    return _contract_axes(ctx, inputs, list(range(rank - attrs.axes, rank)), list(range(attrs.axes)))


def _contract_axes(ctx: Context, inputs: list, left: list, right: list) -> RelayExpr:
    """Contract several axes, merged into one."""
    sides = []
    for k, (x, axes) in enumerate(zip(inputs, (left, right))):
        rank = ctx.rank(x)
        axes = [axis_of(a, rank) for a in axes]
        if len(set(axes)) != len(axes):
            raise TVMError(f"the axes {axes} contain an axis twice")
        rest = [i for i in range(rank) if i not in axes]
        dims = ctx.known_shape(x)
        inner = math.prod(dims[i] for i in axes)
        order, shape = ([*rest, *axes], [*(dims[i] for i in rest), inner])
        if k:
            order, shape = [*axes, *rest], [inner, *(dims[i] for i in rest)]
        sides.append(ctx.made(relay.reshape(relay.transpose(x, order), shape, True)))
    return _contract_axis(ctx, *sides, ctx.rank(sides[0]) - 1, 0)


@op("_npi_einsum", "subscripts:str optimize:int=0")
def einsum(ctx, inputs, attrs):
    text = attrs.subscripts.replace(" ", "")
    letters = text.split("->")[0].split(",")
    if "." in text:
        raise TVMError(f"the attribute subscripts={text} contains an ellipsis, which is not supported")
    if "->" not in text:
        joined = "".join(letters)
        text += "->" + "".join(sorted(c for c in set(joined) if joined.count(c) == 1))
    if len(letters) != len(inputs) or any(len(w) != ctx.rank(x) for w, x in zip(letters, inputs)):
        raise TVMError(f"the attribute subscripts={text} does not match the inputs")
    return relay.einsum(inputs, text)


@op("khatri_rao")
def khatri_rao(ctx, inputs, attrs):
    """Return the column-wise Kronecker product of the inputs."""
    out = inputs[0]
    for x in inputs[1:]:
        columns = ctx.known_size(x, 1)
        pair = relay.multiply(relay.expand_dims(out, 1), relay.expand_dims(x, 0))
        out = ctx.made(relay.reshape(pair, (-1, columns)))
    return out


# -- linear algebra ---------------------------------------------------------------------------------------------------


def _check_axis(attrs) -> None:
    if attrs.axis != -2:
        raise TVMError(f"the attribute axis={attrs.axis} is not supported; it must be -2")


def _times(ctx: Context, factor: float, x: RelayExpr) -> RelayExpr:
    return x if factor == 1 else relay.multiply(ctx.like(factor, ctx.made(x)), x)


@op("_linalg_gemm2", _TRANSPOSED + " alpha:float=1 axis:int=-2")
def gemm2(ctx, inputs, attrs):
    _check_axis(attrs)
    a, b = _transpose_last(ctx, inputs[0], attrs.transpose_a), _transpose_last(ctx, inputs[1], attrs.transpose_b)
    return _times(ctx, attrs.alpha, numpy_matmul(ctx, a, b))


@op("_linalg_gemm", _TRANSPOSED + " alpha:float=1 beta:float=1 axis:int=-2")
def gemm(ctx, inputs, attrs):
    return relay.add(gemm2(ctx, inputs[:2], attrs), _times(ctx, attrs.beta, inputs[2]))


@op("_linalg_syrk", "transpose:bool=False alpha:float=1")
def syrk(ctx, inputs, attrs):
    a = inputs[0]
    transposed = _transpose_last(ctx, a, True)
    return _times(
        ctx, attrs.alpha, numpy_matmul(ctx, transposed, a) if attrs.transpose else numpy_matmul(ctx, a, transposed)
    )


@op("_linalg_trmm", "transpose:bool=False rightside:bool=False lower:bool=True alpha:float=1")
def trmm(ctx, inputs, attrs):
    """Multiply by a triangular matrix, of which only one triangle is read."""
    a, b = inputs

    a = _transpose_last(ctx, ctx.made(relay.trilu(a, const(0, "int32"), upper=not attrs.lower)), attrs.transpose)
    return _times(ctx, attrs.alpha, numpy_matmul(ctx, b, a) if attrs.rightside else numpy_matmul(ctx, a, b))


@op("_linalg_extractdiag", "offset:int=0")
def extractdiag(ctx, inputs, attrs):
    return diagonal(ctx, inputs[0], attrs.offset, -2, -1)


@op("_linalg_makediag", "offset:int=0")
def makediag(ctx, inputs, attrs):
    return on_diagonal(ctx, inputs[0], attrs.offset)


@op("_linalg_sumlogdiag")
def sumlogdiag(ctx, inputs, attrs):
    return vector(ctx, relay.sum(relay.log(diagonal(ctx, inputs[0], 0, -2, -1)), -1))


# -- attention --------------------------------------------------------------------------------------------------------


def _heads(ctx: Context, x: RelayExpr, heads: int, parts: int) -> list[RelayExpr]:
    """Split a tensor (steps, batch, heads * parts * size) into its parts, each a batch of one matrix for each head."""
    steps, batch, width = ctx.known_shape(x)
    if heads < 1 or width % (heads * parts):
        raise TVMError(f"a width of {width} is not divisible by heads={heads} times the number of parts")
    size = width // (heads * parts)
    split = relay.reshape(x, (steps, batch * heads, parts, size))
    out = []
    for k in range(parts):
        part = relay.squeeze(relay.strided_slice(split, [k], [k + 1], [1], [2]), [2])
        out.append(ctx.made(relay.transpose(part, (1, 0, 2))))
    return out


def _scores(ctx: Context, queries: RelayExpr, keys: RelayExpr) -> RelayExpr:
    scale = ctx.like(1 / math.sqrt(ctx.known_size(queries, 2)), queries)
    return numpy_matmul(ctx, ctx.made(relay.multiply(queries, scale)), _transpose_last(ctx, keys, True))


def _attended(ctx: Context, attention: RelayExpr, values: RelayExpr, heads: int) -> RelayExpr:
    out = ctx.made(numpy_matmul(ctx, attention, values))
    stacks, steps, size = ctx.known_shape(out)
    return relay.reshape(relay.transpose(out, (1, 0, 2)), (steps, stacks // heads, heads * size))


@op("_contrib_interleaved_matmul_selfatt_qk", "heads:int")
def selfatt_qk(ctx, inputs, attrs):
    queries, keys, _ = _heads(ctx, inputs[0], attrs.heads, 3)
    return _scores(ctx, queries, keys)


@op("_contrib_interleaved_matmul_selfatt_valatt", "heads:int")
def selfatt_valatt(ctx, inputs, attrs):
    return _attended(ctx, inputs[1], _heads(ctx, inputs[0], attrs.heads, 3)[2], attrs.heads)


@op("_contrib_interleaved_matmul_encdec_qk", "heads:int")
def encdec_qk(ctx, inputs, attrs):
    (queries,), (keys, _) = (_heads(ctx, x, attrs.heads, n) for x, n in zip(inputs, (1, 2)))
    return _scores(ctx, queries, keys)


@op("_contrib_interleaved_matmul_encdec_valatt", "heads:int")
def encdec_valatt(ctx, inputs, attrs):
    return _attended(ctx, inputs[1], _heads(ctx, inputs[0], attrs.heads, 2)[1], attrs.heads)


@op("_contrib_div_sqrt_dim")
def div_sqrt_dim(ctx, inputs, attrs):
    x = inputs[0]
    return relay.multiply(x, ctx.like(1 / math.sqrt(max(ctx.known_size(x, ctx.rank(x) - 1), 1)), x))

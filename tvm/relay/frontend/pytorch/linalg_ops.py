"""Converters of determinants, inverses and linear systems.

Gaussian elimination is unrolled row by row, which is suitable for the small matrices in networks.
"""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import const
from ...op.rules import broadcast_dims
from .table import op

# Maximum number of rows of a matrix; each row becomes about ten operators.
MOST_ROWS = 64


def _square(ctx, a) -> int:
    """Return the number of rows of a batch of square matrices."""
    rows, columns = (ctx.known_size(a, axis) for axis in (-2, -1))
    if rows != columns or not 0 < rows <= MOST_ROWS or not ctx.is_float(a):
        raise TVMError(
            f"{rows} x {columns} matrices of {ctx.dtype(a)} are not supported; they must be square float "
            f"matrices with at most {MOST_ROWS} rows"
        )
    return rows


def _part(ctx, x, axis: int, begin: int, end: int):
    """Return a range of an axis, which is counted from the end of the shape."""
    return ctx.infer(relay.strided_slice(x, [begin], [end], [1], [ctx.rank(x) + axis]))


def _eliminated(ctx, a):
    """Apply Gaussian elimination with row pivoting.

    Return each row from the diagonal on, and the sign of the row permutation. Columns right of the square part are
    eliminated along with it.
    """
    count, rows = ctx.known_size(a, -2), []
    sign = None
    for left in range(count, 0, -1):
        last = ctx.rank(a) - 1
        column = _part(ctx, a, -1, 0, 1)
        at = relay.argmax(relay.abs(column), axis=last - 1, keepdims=True)
        hit = ctx.infer(relay.equal(const(np.arange(left, dtype="int32").reshape(left, 1)), relay.cast(at, "int32")))
        pivot = ctx.infer(relay.sum(relay.where(hit, a, ctx.like(0, a)), axis=last - 1, keepdims=True))
        rows.append(pivot)
        first = _part(ctx, hit, -2, 0, 1)
        one = relay.where(first, ctx.like(1, a), ctx.like(-1, a))
        sign = ctx.infer(one if sign is None else relay.multiply(sign, one))
        if left > 1:
            rest = _part(ctx, relay.where(hit, _part(ctx, a, -2, 0, 1), a), -2, 1, left)
            head = _part(ctx, pivot, -1, 0, 1)
            share = relay.divide(_part(ctx, rest, -1, 0, 1), head)
            # A column of zeros needs no elimination.
            share = relay.where(relay.equal(head, ctx.like(0, a)), ctx.like(0, a), share)
            a = relay.subtract(rest, relay.multiply(share, pivot))
            a = _part(ctx, a, -1, 1, ctx.known_size(rest, -1))
    return rows, sign


def _substituted(ctx, rows: list):
    """Solve triangular systems by back substitution; a row contains its part of the triangle and the
    right-hand sides.
    """
    found = None
    for at, row in enumerate(reversed(rows), 1):
        width = ctx.known_size(row, -1)
        value = _part(ctx, row, -1, at, width)
        if found is not None:
            known = ctx.convert("matmul", _part(ctx, row, -1, 1, at), found)
            value = ctx.infer(relay.subtract(value, known))
        value = ctx.infer(relay.divide(value, _part(ctx, row, -1, 0, 1)))
        found = value if found is None else ctx.infer(relay.concatenate([value, found], ctx.rank(value) - 2))
    return found


def _broadcast_batches(ctx, a, b) -> list:
    """Broadcast the batch dimensions of two operands against each other."""
    stack = broadcast_dims(ctx.known_shape(a)[:-2], ctx.known_shape(b)[:-2])
    return [ctx.convert("expand", v, [*stack, *ctx.known_shape(v)[-2:]]) for v in (a, b)]


def _solved(ctx, a, b):
    """Solve linear systems with several right-hand sides each."""
    _square(ctx, a)
    a, b = _broadcast_batches(ctx, a, b)
    rows, _ = _eliminated(ctx, ctx.infer(relay.concatenate([a, b], ctx.rank(a) - 1)))
    return _substituted(ctx, rows)


def _determinant(ctx, a):
    """Return the diagonal after elimination, and the sign of the row permutation; the determinant is their product."""
    _square(ctx, a)
    rows, sign = _eliminated(ctx, a)
    last = ctx.rank(a) - 1
    heads = [_part(ctx, row, -1, 0, 1) for row in rows]
    diagonal = relay.concatenate(heads, last) if len(heads) > 1 else heads[0]
    return ctx.infer(relay.squeeze(diagonal, [last - 1])), ctx.infer(relay.squeeze(sign, [last - 1, last]))


def _only(ctx, made, kept: int = 1):
    """Return the outputs that are supported; the factors of a decomposition are not."""
    if any(ctx.wants(i) for i in range(kept, ctx.outputs)):
        raise TVMError("the factors of the matrix are not supported as outputs")
    none = const(0, "int32")
    made = made if isinstance(made, tuple) else (made,)
    return (*made, *[none] * (ctx.outputs - len(made))) if ctx.outputs > 1 else made[0]


@op("det", "linalg_det", "_linalg_det")
def det(ctx, self=None, A=None):
    diagonal, sign = _determinant(ctx, A if self is None else self)
    return _only(ctx, relay.multiply(sign, relay.prod(diagonal, axis=-1)))


@op("slogdet", "linalg_slogdet", "_linalg_slogdet", "logdet")
def slogdet(ctx, self=None, A=None):
    diagonal, sign = _determinant(ctx, A if self is None else self)
    sign = ctx.infer(relay.multiply(sign, relay.prod(relay.sign(diagonal), axis=-1)))
    log = ctx.infer(relay.sum(relay.log(relay.abs(diagonal)), axis=-1))
    if ctx.name == "logdet":
        return relay.where(relay.less(sign, ctx.like(0, sign)), ctx.like(float("nan"), log), log)
    return _only(ctx, (sign, log), 2)


@op("inverse", "linalg_inv", "linalg_inv_ex")
def inverse(ctx, self=None, A=None, check_errors=False):
    a = A if self is None else self
    return _only(ctx, _solved(ctx, a, const(np.eye(_square(ctx, a), dtype=ctx.dtype(a)))))


@op("linalg_solve", "linalg_solve_ex", "_linalg_solve_ex")
def solve(ctx, A, B, left=True, check_errors=False):
    if not left:
        return _only(ctx, _matrix_transposed(ctx, solve(ctx, _matrix_transposed(ctx, A), _matrix_transposed(ctx, B))))
    # B is either one vector per matrix, or a single vector.
    vector = ctx.rank(B) == 1 or ctx.rank(B) == ctx.rank(A) - 1 and ctx.shape(B) == ctx.shape(A)[:-1]
    made = _solved(ctx, A, ctx.infer(relay.expand_dims(B, ctx.rank(B))) if vector else B)
    return _only(ctx, relay.squeeze(made, [ctx.rank(made) - 1]) if vector else made)


def _matrix_transposed(ctx, a):
    return ctx.convert("transpose", a, -2, -1)


@op("linalg_solve_triangular", "triangular_solve")
def solve_triangular(ctx, self, B=None, A=None, upper=True, left=True, unitriangular=False, transpose=False):
    """Accept the arguments of both operators: the older one has the matrix as its second argument."""
    older = ctx.name == "triangular_solve"
    a, b = (A, self) if older else (self, B)
    if transpose or not left:
        a, upper = _matrix_transposed(ctx, a), not upper
    made = _triangle(ctx, a, b if left else _matrix_transposed(ctx, b), bool(upper), bool(unitriangular))
    return _only(ctx, made if left else _matrix_transposed(ctx, made))


def _triangle(ctx, a, b, upper: bool, unit: bool):
    """Solve triangular systems. A lower triangular system is converted to an upper one by reversing rows and
    columns.
    """
    count = _square(ctx, a)
    if not upper:
        flipped = _triangle(ctx, ctx.convert("flip", a, [-2, -1]), ctx.convert("flip", b, [-2]), True, unit)
        return ctx.convert("flip", flipped, [-2])
    a, b = _broadcast_batches(ctx, a, b)
    rows = []
    for i in range(count):
        own = _part(ctx, _part(ctx, a, -2, i, i + 1), -1, i + unit, count)
        parts = [own, _part(ctx, b, -2, i, i + 1)]
        if unit:
            parts.insert(0, ctx.infer(relay.ones_like(_part(ctx, parts[-1], -1, 0, 1))))
        rows.append(ctx.infer(relay.concatenate(parts, ctx.rank(a) - 1)))
    return _substituted(ctx, rows)


@op("cholesky", "linalg_cholesky", "linalg_cholesky_ex")
def cholesky(ctx, self, upper=False, check_errors=False):
    """Compute the factor column by column, subtracting the outer product of each column from the remaining matrix."""
    count, last = _square(ctx, self), ctx.rank(self) - 1
    rest, columns = self, []
    if upper and ctx.name == "cholesky":
        # The other operators always read the lower triangle.
        rest = _matrix_transposed(ctx, self)
    for i in range(count):
        column = relay.divide(_part(ctx, rest, -1, 0, 1), relay.sqrt(_part(ctx, _part(ctx, rest, -1, 0, 1), -2, 0, 1)))
        column = ctx.infer(column)
        below = _part(ctx, column, -2, 1, count - i)
        columns.append(ctx.infer(relay.nn.pad(column, [*[(0, 0)] * (last - 1), (i, 0), (0, 0)])))
        if i + 1 < count:
            rest = _part(ctx, _part(ctx, rest, -2, 1, count - i), -1, 1, count - i)
            rest = ctx.infer(relay.subtract(rest, relay.multiply(below, _matrix_transposed(ctx, below))))
    made = ctx.infer(relay.concatenate(columns, last)) if count > 1 else columns[0]
    return _only(ctx, _matrix_transposed(ctx, made) if upper else made)


__all__ = ["MOST_ROWS"]

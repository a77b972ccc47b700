"""Diagonal form of an integer matrix by unimodular row and column operations."""

from __future__ import annotations

from typing import NamedTuple

Matrix = list[list[int]]


class Diagonal(NamedTuple):
    """The result of ``diagonalize``: ``left * matrix * right`` has the entries ``diagonal`` (nonzero, as many as the
    rank) on its diagonal and zeros elsewhere."""

    left: Matrix
    diagonal: list[int]
    right: Matrix
    right_inverse: Matrix


def _identity(size: int) -> Matrix:
    return [[int(i == j) for j in range(size)] for i in range(size)]


def diagonalize(matrix: Matrix, columns: int) -> Diagonal:
    """Convert ``matrix`` (a list of rows) to diagonal form. The pivot is the smallest entry of the remaining submatrix.

    The columns of ``right`` beyond the rank span the solutions of the homogeneous system. The first nonzero entry of
    each column is positive.
    """
    work = [list(row) for row in matrix]
    left, right, inverse = _identity(len(work)), _identity(columns), _identity(columns)
    rank = 0
    while rank < min(len(work), columns):
        pivot = _smallest(work, rank, columns)
        if pivot is None:
            break
        _swap_rows(work, left, rank, pivot[0])
        _swap_columns(work, right, inverse, rank, pivot[1])
        if _clear(work, left, right, inverse, rank, columns):
            rank += 1
    for j in range(rank, columns):
        first = next((right[i][j] for i in range(columns) if right[i][j]), 1)
        if first < 0:
            for row in right:
                row[j] = -row[j]
            inverse[j] = [-c for c in inverse[j]]
    return Diagonal(left, [work[i][i] for i in range(rank)], right, inverse)


def _smallest(work: Matrix, start: int, columns: int) -> tuple[int, int] | None:
    """Return the position of the entry with the smallest absolute value, in row order, in the submatrix that is not
    diagonal yet."""
    best = None
    for i in range(start, len(work)):
        for j in range(start, columns):
            size = abs(work[i][j])
            if size and (best is None or size < best[0]):
                best = (size, i, j)
    return None if best is None else best[1:]


def _swap_rows(work: Matrix, left: Matrix, a: int, b: int) -> None:
    for m in (work, left):
        m[a], m[b] = m[b], m[a]


def _swap_columns(work: Matrix, right: Matrix, inverse: Matrix, a: int, b: int) -> None:
    for m in (work, right):
        for row in m:
            row[a], row[b] = row[b], row[a]
    inverse[a], inverse[b] = inverse[b], inverse[a]


def _clear(work: Matrix, left: Matrix, right: Matrix, inverse: Matrix, k: int, columns: int) -> bool:
    """Subtract multiples of the pivot's row and column. Return whether all other entries of its row and column are
    zero."""
    clean = True
    for i in range(k + 1, len(work)):
        factor = work[i][k] // work[k][k]
        if factor:
            for m in (work, left):
                m[i] = [x - factor * y for x, y in zip(m[i], m[k])]
        clean = clean and not work[i][k]
    for j in range(k + 1, columns):
        factor = work[k][j] // work[k][k]
        if factor:
            for m in (work, right):
                for row in m:
                    row[j] -= factor * row[k]
            inverse[k] = [x + factor * y for x, y in zip(inverse[k], inverse[j])]
        clean = clean and not work[k][j]
    return clean

"""Einstein summation."""

from __future__ import annotations

from collections import Counter

from .. import te
from ..error import ExprValueError
from ..ir.prim import convert
from . import tag
from .broadcast import broadcast_dim, broadcast_index
from .utils import check_tensor

# Labels for the dimensions that "..." covers, counted from the last one.
_DOTS = [chr(0x3B1 + i) for i in range(24)]


def _terms(subscripts: str, ranks: list[int]) -> tuple[list[str], str]:
    """Return the labels of each operand and of the output, one character per dimension."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ExprValueError(f"einsum '{subscripts}': {len(terms)} terms for {len(ranks)} tensors")
    labels, widest = [], 0
    for term, rank in zip(terms, ranks):
        plain = term.replace("...", "", 1)
        if any(not c.isalpha() or not c.isascii() for c in plain):
            raise ExprValueError(f"einsum '{subscripts}': '{term}' may contain only letters and one '...'")
        covered = rank - len(plain)
        if covered < 0 or (covered and "..." not in term):
            raise ExprValueError(f"einsum '{subscripts}': '{term}' does not label the {rank} dimensions of its tensor")
        widest = max(widest, covered)
        labels.append(term.replace("...", "".join(_DOTS[:covered][::-1])))
    dots = "".join(_DOTS[:widest][::-1])
    if arrow:
        result = right.replace("...", dots)
    else:
        seen = Counter("".join(term.replace("...", "") for term in terms))
        result = dots + "".join(sorted(label for label, times in seen.items() if times == 1))
    if len(set(result)) != len(result) or not set(result) <= set("".join(labels)):
        raise ExprValueError(f"einsum '{subscripts}': the output repeats a label or uses one that no tensor has")
    return labels, result


def einsum(subscripts, *operand):
    """NumPy's einsum: products of elements, reduced over the labels that are missing in the output."""
    tensors = list(operand[0]) if len(operand) == 1 and isinstance(operand[0], (list, tuple)) else list(operand)
    for tensor in tensors:
        check_tensor(tensor, "einsum")
    labels, result = _terms(subscripts, [len(t.shape) for t in tensors])
    extents: dict = {}
    for term, tensor in zip(labels, tensors):
        for label, dim in zip(term, tensor.shape):
            extents[label] = broadcast_dim(extents.get(label, convert(1)), dim, f"einsum '{subscripts}'")
    summed = [label for label in extents if label not in result]
    over = {label: te.reduce_axis((0, extents[label]), name=f"k{n}") for n, label in enumerate(summed)}

    def element(*indices):
        at = dict(zip(result, indices)) | {label: axis.var for label, axis in over.items()}
        value = None
        for term, tensor in zip(labels, tensors):
            own = broadcast_index(tensor.shape, [extents[label] for label in term], [at[label] for label in term])
            value = tensor(*own) if value is None else value * tensor(*own)
        return te.sum(value, axis=list(over.values())) if over else value

    shape = [extents[label] for label in result]
    return te.compute(shape, element, name="T_einsum", tag="einsum" if over else tag.INJECTIVE)


__all__ = ["einsum"]

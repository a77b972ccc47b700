"""Tensor intrinsics that a search may use: instructions that compute a small product at once.

Back ends declare them (``Backend.search_intrinsics``) as a table by name; steps of records hold the name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..error import TVMError
from ..target import Target
from ..target.backend import BACKENDS, find_backend, load
from ..te.tensor_intrin import TensorIntrin

# Where the fragments of lhs and of rhs are, and the sums of their products.
FRAGMENTS, ACCUMULATOR = ("wmma.matrix_a", "wmma.matrix_b"), "wmma.accumulator"


@dataclass(frozen=True)
class Fragments:
    """The small matrices in registers that an intrinsic multiplies: the intrinsics, by their names, that load those of
    lhs and of rhs, and the one that stores sums. In shared memory the stride of rows is a multiple of ``rows[0]``
    elements and ``rows[1]`` more, so that they are in different banks."""

    loads: tuple[str, str]
    store: str
    rows: tuple[int, int]


@dataclass(frozen=True)
class SearchIntrinsic:
    """An intrinsic by its name: which targets have it, and how it is made.

    Parameters
    ----------
    name : str
        The name, which is that of the tensor intrinsic too.
    fits : callable
        Whether a target has it.
    make : callable
        Gives the tensor intrinsic, with a reset and an update.
    replaces : str, optional
        The intrinsic of the same target that is not worth trying where this one fits.
    fragments : Fragments, optional
        How its operands get into registers; none where it reads and writes memory.
    """

    name: str
    fits: Callable[[Target], bool]
    make: Callable[[], TensorIntrin]
    replaces: str | None = None
    fragments: Fragments | None = None


def _table(kind: str) -> Mapping[str, SearchIntrinsic]:
    reference = BACKENDS[kind].search_intrinsics
    return load(reference)() if reference is not None else {}


def intrinsics_of(target: Target) -> list[SearchIntrinsic]:
    """The intrinsics that a target has.

    Parameters
    ----------
    target : Target
        The target.

    Returns
    -------
    list of SearchIntrinsic
    """
    backend = find_backend(target)
    return [one for one in _table(backend.kind).values() if one.fits(target)] if backend is not None else []


def tensor_intrin(name: str) -> TensorIntrin:
    """The intrinsic of a name, as steps of records have it.

    Parameters
    ----------
    name : str
        The name.

    Returns
    -------
    TensorIntrin

    Raises
    ------
    TVMError
        No back end has declared it.
    """
    for kind in BACKENDS:
        found = _table(kind).get(name)
        if found is not None:
            return found.make()
    raise TVMError(f"no back end has declared a tensor intrinsic '{name}' for searches")


__all__ = ["ACCUMULATOR", "FRAGMENTS", "Fragments", "SearchIntrinsic", "intrinsics_of", "tensor_intrin"]

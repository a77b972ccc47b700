"""Tensor intrinsics that a search may use: instructions that compute a small product at once.

Back ends declare them (``Backend.search_intrinsics``) as a table by name; steps of records hold the name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

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


class BlockLengths(NamedTuple):
    """A product of ``m`` tiles of ``rows`` and ``n`` tiles of ``columns`` over ``steps`` tiles of ``terms``, and over
    all taps of a window of ``height`` by ``width``, whose rows are a ``stride`` apart."""

    m: int
    rows: int
    n: int
    columns: int
    steps: int
    terms: int
    height: int = 1
    width: int = 1
    stride: int = 1

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The rows, columns and terms of all its tiles."""
        return self.m * self.rows, self.n * self.columns, self.steps * self.terms

    def named(self, family: str) -> str:
        return f"{family}/{'x'.join(map(str, self))}"


@dataclass(frozen=True)
class Blocks:
    """The products of blocks of matrix registers that an intrinsic stands for: the types of both operands and of sums,
    and how many terms lie side by side in the rhs. ``choose`` gives lengths for a number of rows, columns and terms,
    which need not divide these, and a window (height, width, stride); where it ``is_packed`` the tiles of the lhs lie
    apart, else its rows."""

    types: tuple[str, str, str]
    depth: int
    choose: Callable[..., Sequence[BlockLengths]]
    is_packed: bool


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
        Gives the tensor intrinsic, with an update and a reset; that of ``blocks`` is given their lengths.
    replaces : str, optional
        The intrinsic of the same target that is not worth trying where this one fits.
    fragments : Fragments, optional
        How its operands get into registers; none where it reads and writes memory.
    blocks : Blocks, optional
        Where it stands for products of many lengths, with which their names end: ``name/2x16x2x16x8x64x1x1x1``.
    """

    name: str
    fits: Callable[[Target], bool]
    make: Callable[..., TensorIntrin]
    replaces: str | None = None
    fragments: Fragments | None = None
    blocks: Blocks | None = None


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
    family, _, given = name.partition("/")
    lengths = [int(length) for length in given.split("x") if length.isdecimal()]
    blocks = [BlockLengths(*lengths)] if len(lengths) == len(BlockLengths._fields) else []
    is_whole = name == (blocks[0].named(family) if blocks else family)
    for kind in BACKENDS:
        found = _table(kind).get(family)
        if found is not None and is_whole and bool(found.blocks) == bool(blocks):
            return found.make(*blocks)
    raise TVMError(f"no back end has declared a tensor intrinsic '{name}' for searches")


__all__ = ["ACCUMULATOR", "BlockLengths", "Blocks", "FRAGMENTS", "Fragments", "SearchIntrinsic", "intrinsics_of",
           "tensor_intrin"]

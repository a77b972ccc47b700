"""Tensor intrinsics for searches: instructions that compute a small matmul.

Back ends declare them (``Backend.search_intrinsics``) as a table by name; steps in records contain the name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..error import TVMError
from ..target import Target
from ..target.backend import BACKENDS, find_backend, load
from ..te.tensor_intrin import TensorIntrin

# The scopes of the fragments of lhs and rhs, and of the accumulators.
FRAGMENTS, ACCUMULATOR = ("wmma.matrix_a", "wmma.matrix_b"), "wmma.accumulator"


@dataclass(frozen=True)
class Fragments:
    """The fragments that an intrinsic multiplies: the names of the intrinsics that load lhs and rhs fragments, and of
    the one that stores accumulators. In shared memory the row stride is a multiple of ``rows[0]`` elements plus
    ``rows[1]``, so that rows use different banks."""

    loads: tuple[str, str]
    store: str
    rows: tuple[int, int]


class BlockLengths(NamedTuple):
    """The size of a matmul of ``m`` tiles of ``rows`` and ``n`` tiles of ``columns`` over ``steps`` tiles of ``terms``,
    and over all taps of a window of ``height`` by ``width``, whose rows have the distance ``stride``."""

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
        """Return the total numbers of rows, columns and terms."""
        return self.m * self.rows, self.n * self.columns, self.steps * self.terms

    def named(self, family: str) -> str:
        return f"{family}/{'x'.join(map(str, self))}"


@dataclass(frozen=True)
class Blocks:
    """The matmuls of blocks of matrix registers that an intrinsic can compute: the types of both operands and of the
    accumulator, and the number of terms that are contiguous in the rhs. ``choose`` returns block lengths for numbers of
    rows, columns and terms, which need not be multiples, and a window (height, width, stride). With ``is_packed`` the
    tiles of the lhs are stored separately, otherwise its rows are read in place."""

    types: tuple[str, str, str]
    depth: int
    choose: Callable[..., Sequence[BlockLengths]]
    is_packed: bool


@dataclass(frozen=True)
class SearchIntrinsic:
    """A tensor intrinsic for searches: its name, its targets, and the function that creates it.

    Parameters
    ----------
    name : str
        The name of the tensor intrinsic.
    fits : callable
        The function that returns whether a target supports it.
    make : callable
        The function that creates the tensor intrinsic with its update and reset functions; with ``blocks`` it receives
        the block lengths.
    replaces : str, optional
        The intrinsic of the same target that is not tried if this one applies.
    fragments : Fragments, optional
        How operands are loaded into registers; None if the intrinsic reads and writes memory.
    blocks : Blocks, optional
        The block matmuls, if the intrinsic supports several lengths, which are appended to its name:
        ``name/2x16x2x16x8x64x1x1x1``.
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
    """The intrinsics that a target supports.

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
    """The intrinsic with a name, as in the steps of records.

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
    raise TVMError(f"unknown tensor intrinsic '{name}': no back end has declared it for searches")


__all__ = [
    "ACCUMULATOR",
    "BlockLengths",
    "Blocks",
    "FRAGMENTS",
    "Fragments",
    "SearchIntrinsic",
    "intrinsics_of",
    "tensor_intrin",
]

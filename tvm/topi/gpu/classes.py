"""Tiles of matmuls whose sizes are not known while compiling: a configuration for each of a few classes of sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...ir.prim import IntImm, PrimExpr, Var
from ...ir.subst import variables
from .. import nominal, size_class

# How far each class of sizes reaches, and the size its tiles are chosen for; those of LARGEST are for all others.
CLASSES = ((32, 16), (128, 64), (512, 256), (2048, 1024), (8192, 4096))
LARGEST = 16384
# The assumed value of an unknown size other than the one that classes distinguish.
OTHER = 256

Config = dict[str, Any]


def is_known(size: Any) -> bool:
    return isinstance(size, (int, IntImm))


def as_number(size: Any) -> Any:
    """A size as an int where it is known."""
    return int(size) if is_known(size) else size


def padded(size: Any, block: int) -> Any:
    """A size rounded up to whole blocks."""
    return (size + (block - 1)) // block * block if not is_known(size) else -(-int(size) // block) * block


def configuration(
    count: Any, sizes: Sequence[Any], choose: Callable[[int, tuple[int, int, int]], Config]
) -> Config:
    """The configuration ``choose(batch, (m, n, k))`` of a matmul: for its sizes or, where some are unknown, for the
    class of sizes that is compiled. Neighbouring classes with one configuration are one class."""
    unknown = [size for size in sizes if not is_known(size)]
    if not unknown:
        return choose(_number(count, {}, 1), tuple(sizes))
    rows = unknown[0]
    least = nominal.at(rows, 1)
    limits = [limit for limit, _ in CLASSES if limit > least]
    chosen = [nominal_size for limit, nominal_size in CLASSES if limit > least] + [LARGEST]
    configs = [choose(*_nominal_sizes(count, sizes, rows, max(value, least))) for value in chosen]
    kept = [i for i, limit in enumerate(limits) if configs[i] != configs[i + 1]]
    number = size_class.which([rows <= limits[i] for i in kept])
    return configs[kept[number - 1]] if number else configs[-1]


def _nominal_sizes(
    count: Any, sizes: Sequence[Any], rows: PrimExpr, value: int
) -> tuple[int, tuple[int, int, int]]:
    """The sizes of a matmul where ``rows`` is a number."""
    given = {rows: value} if isinstance(rows, Var) else {}
    m, n, k = (value if size is rows else _number(size, given, OTHER) for size in sizes)
    return _number(count, given, 1), (m, n, k)


def _number(size: Any, given: dict[Any, int], other: int) -> int:
    if is_known(size):
        return int(size)
    return nominal.at(size, 1 if any(v in given for v in variables(size)) else other, given)


__all__ = ["as_number", "configuration", "is_known", "padded"]

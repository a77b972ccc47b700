"""Tiles of matmuls with dynamic dimensions: one configuration for each of a few size classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...ir.prim import IntImm, PrimExpr, Var
from ...ir.subst import variables
from .. import nominal, size_class

# The upper bound of each size class, and the size for which its tiles are chosen. LARGEST is the class of all larger
# sizes.
CLASSES = ((32, 16), (128, 64), (512, 256), (2048, 1024), (8192, 4096))
LARGEST = 16384
# The assumed value of dynamic dimensions that do not determine the size class.
OTHER = 256

Config = dict[str, Any]


def is_known(size: Any) -> bool:
    return isinstance(size, (int, IntImm))


def as_number(size: Any) -> Any:
    """Return a constant dimension as an int, and any other unchanged."""
    return int(size) if is_known(size) else size


def padded(size: Any, block: int) -> Any:
    """Return a dimension rounded up to whole blocks."""
    return (size + (block - 1)) // block * block if not is_known(size) else -(-int(size) // block) * block


def configuration(count: Any, sizes: Sequence[Any], choose: Callable[[int, tuple[int, int, int]], Config]) -> Config:
    """Return the configuration ``choose(batch, (m, n, k))`` of a matmul: for its dimensions or, if some are dynamic,
    for the size class that is compiled. Adjacent classes with the same configuration form one class."""
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


def _nominal_sizes(count: Any, sizes: Sequence[Any], rows: PrimExpr, value: int) -> tuple[int, tuple[int, int, int]]:
    """Return the dimensions of a matmul with ``rows`` as a constant."""
    given = {rows: value} if isinstance(rows, Var) else {}
    m, n, k = (value if size is rows else _number(size, given, OTHER) for size in sizes)
    return _number(count, given, 1), (m, n, k)


def _number(size: Any, given: dict[Any, int], other: int) -> int:
    if is_known(size):
        return int(size)
    return nominal.at(size, 1 if any(v in given for v in variables(size)) else other, given)


__all__ = ["as_number", "configuration", "is_known", "padded"]

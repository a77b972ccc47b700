"""Result types of the analyzer, and the effort of its proofs."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING, Any

from ..ir.node import Node
from .const_bound import NEG_INF, POS_INF

if TYPE_CHECKING:
    from ..ir.span import Span


class ProofStrength(IntEnum):
    """The effort of ``can_prove``."""

    DEFAULT = 0
    SYMBOLIC_BOUND = 1


class Extension(IntFlag):
    """Optional rewrites of Apache TVM. They are accepted without effect: all sound rewrites are always enabled."""

    NoExtensions = 0
    TransitivelyProveInequalities = 1
    ConvertBooleanToAndOfOrs = 2
    ApplyConstraintsToBooleanBranches = 4
    ComparisonOfProductAndSum = 8


class ConstIntBound(Node, key="arith.ConstIntBound"):
    """The smallest and the largest value; NEG_INF and POS_INF mean unbounded.

    Parameters
    ----------
    min_value : int
        The smallest value.
    max_value : int
        The largest value.
    """

    min_value: int
    max_value: int

    POS_INF = POS_INF
    NEG_INF = NEG_INF

    def __init__(self, min_value: Any, max_value: Any, span: Span | None = None):
        self.min_value = int(min_value)
        self.max_value = int(max_value)
        self.span = span

    def __str__(self):
        def show(v: Any):
            return "neg_inf" if v == NEG_INF else "pos_inf" if v == POS_INF else str(v)

        return f"ConstIntBound[{show(self.min_value)},{show(self.max_value)}]"

    __repr__ = __str__


class ModularSet(Node, key="arith.ModularSet"):
    """The integers ``coeff * k + base``.

    Parameters
    ----------
    coeff : int
        The step.
    base : int
        One of the integers.
    """

    coeff: int
    base: int

    def __init__(self, coeff: Any, base: Any, span: Span | None = None):
        self.coeff = int(coeff)
        self.base = int(base)
        self.span = span

    def __str__(self):
        return f"ModularSet(coeff={self.coeff}, base={self.base})"

    __repr__ = __str__

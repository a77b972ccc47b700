"""The queries of the rewrite rules, which refer to these methods by name."""

from __future__ import annotations

from fractions import Fraction
from math import gcd
from typing import Any

from ..dtype import info
from ..ir.prim import And, IntImm, Max, Min, Mul, Or, PrimExpr
from .const_bound import NEG_INF, POS_INF, is_index
from .context import Context
from .modular import modular_of
from .sums import combine


class Queries(Context):
    """A context with the queries that rewrite rules use."""

    __slots__ = ()

    def is_const(self, e: PrimExpr) -> bool:
        """Whether an expression is an integer literal.

        Parameters
        ----------
        e : PrimExpr
            The expression.

        Returns
        -------
        bool
        """
        return e.__class__ is IntImm

    def is_extreme(self, e: PrimExpr) -> bool:
        """Whether an expression is a min or a max.

        Parameters
        ----------
        e : PrimExpr
            The expression.

        Returns
        -------
        bool
        """
        return e.__class__ is Min or e.__class__ is Max

    def finite(self, e: PrimExpr) -> bool:
        """Whether both bounds of an expression are known.

        Parameters
        ----------
        e : PrimExpr
            An interned expression.

        Returns
        -------
        bool
        """
        lo, hi = self.bound(e)
        return lo != NEG_INF and hi != POS_INF

    def never_above(self, a: PrimExpr, b: PrimExpr, depth: int = 0) -> bool:
        """Whether a <= b can be proven.

        Parameters
        ----------
        a : PrimExpr
            An interned expression.
        b : PrimExpr
            Another expression of the same type.
        depth : int, optional
            The number of operands of min and max that were expanded so far; at most three are.

        Returns
        -------
        bool
            False also if unknown.
        """
        if self.difference_bound(a, b)[1] <= 0:
            return True
        if depth < 3:
            if a.__class__ is Max:
                return self.never_above(a.a, b, depth + 1) and self.never_above(a.b, b, depth + 1)
            if b.__class__ is Min:
                return self.never_above(a, b.a, depth + 1) and self.never_above(a, b.b, depth + 1)
            if a.__class__ is Min:
                return self.never_above(a.a, b, depth + 1) or self.never_above(a.b, b, depth + 1)
            if b.__class__ is Max:
                return self.never_above(a, b.a, depth + 1) or self.never_above(a, b.b, depth + 1)
        return False

    def below(self, a: PrimExpr, b: PrimExpr) -> bool:
        """Whether 0 <= a < b can be proven.

        Parameters
        ----------
        a : PrimExpr
            An interned expression.
        b : PrimExpr
            Another expression of the same type.

        Returns
        -------
        bool
            False also if unknown.
        """
        return self.bound(a)[0] >= 0 and self.difference_bound(a, b)[1] < 0

    def decided(self, a: PrimExpr, b: PrimExpr) -> bool:
        """Whether a < b can be proven or disproven.

        Parameters
        ----------
        a : PrimExpr
            An interned expression.
        b : PrimExpr
            Another expression of the same type.

        Returns
        -------
        bool
        """
        lo, hi = self.difference_bound(a, b)
        return hi < 0 or lo >= 0

    def has_product(self, a: PrimExpr, b: PrimExpr) -> bool:
        """Whether the program already multiplies these two factors, so that the product is known to fit its type.

        Parameters
        ----------
        a : PrimExpr
            An interned factor.
        b : PrimExpr
            The other factor; the order does not matter.

        Returns
        -------
        bool
        """
        return (Mul, a, b) in self.nodes or (Mul, b, a) in self.nodes

    def in_chain(self, chain: PrimExpr, e: PrimExpr, is_min: bool) -> bool:
        """Whether ``e`` is an operand of a chain of min (or max) nodes.

        Parameters
        ----------
        chain : PrimExpr
            The outermost node of the chain, which is nested in its left operands.
        e : PrimExpr
            The operand to search.
        is_min : bool
            True for a chain of min nodes, False for max.

        Returns
        -------
        bool
            False also if the operand is more than eight nodes deep.
        """
        cls = Min if is_min else Max
        for _ in range(8):
            if chain.__class__ is not cls:
                return False
            if chain.b is e or chain.a is e:
                return True
            chain = chain.a
        return False

    def _in_tree(self, tree: PrimExpr, e: PrimExpr, cls: type) -> bool:
        for _ in range(16):
            if tree is e:
                return True
            if tree.__class__ is not cls:
                return False
            if tree.b is e:
                return True
            tree = tree.a
        return False

    def in_conjunction(self, e: PrimExpr, tree: PrimExpr) -> bool:
        """Whether a condition is an operand of a chain of ``and`` nodes.

        Parameters
        ----------
        e : PrimExpr
            The condition to search.
        tree : PrimExpr
            The outermost ``and``, which is nested in its left operands.

        Returns
        -------
        bool
            False also if the condition is more than sixteen nodes deep.
        """
        return self._in_tree(tree, e, And)

    def in_disjunction(self, e: PrimExpr, tree: PrimExpr) -> bool:
        """Whether a condition is an operand of a chain of ``or`` nodes.

        Parameters
        ----------
        e : PrimExpr
            The condition to search.
        tree : PrimExpr
            The outermost ``or``, which is nested in its left operands.

        Returns
        -------
        bool
            False also if the condition is more than sixteen nodes deep.
        """
        return self._in_tree(tree, e, Or)

    def implied(self, e: PrimExpr, given: PrimExpr) -> bool:
        """Whether the comparison ``given`` implies ``e`` by its bound on the same sum of terms.

        Parameters
        ----------
        e : PrimExpr
            The comparison to prove.
        given : PrimExpr
            The comparison that is assumed to hold.

        Returns
        -------
        bool
            False also if one of them is not a comparison of scalar indices.
        """
        a, b = self._as_fact(e), self._as_fact(given)
        if a is None or b is None or len(a) != 1 or len(b) != 1:
            return False
        (p, (lo, hi)), (q, known) = a[0], b[0]
        if p != q:
            if {t: -c for t, c in p.items()} != q:
                return False
            lo, hi = -hi, -lo
        return lo <= known[0] and known[1] <= hi

    def product_below_sum(self, a: PrimExpr, b: PrimExpr, c: int, d: int) -> bool:
        """Whether a * b * c < (a + b) * d can be proven. For positive values this is equivalent to c / d < 1 / a + 1 /
        b.

        Parameters
        ----------
        a : PrimExpr
            An interned expression.
        b : PrimExpr
            Another expression of the same type.
        c : int
            The factor of the product.
        d : int
            The factor of the sum.

        Returns
        -------
        bool
            False also if unknown.
        """
        if c <= 0 or d <= 0 or self.bound(a)[0] <= 0 or self.bound(b)[0] <= 0:
            return False
        # The reciprocal of an unbounded positive value is greater than zero.
        most = [self.bound(e)[1] for e in (a, b) if self.bound(e)[1] != POS_INF]
        least = sum(Fraction(1, m) for m in most)
        return Fraction(c, d) < least or len(most) == 1 and Fraction(c, d) == least

    def same_difference(self, a: PrimExpr, b: PrimExpr, c: Any, d: Any) -> bool:
        """Whether a - b equals c - d.

        Parameters
        ----------
        a : PrimExpr
            The minuend of the first difference.
        b : PrimExpr
            The subtrahend of the first difference.
        c : PrimExpr
            The minuend of the second difference.
        d : PrimExpr
            The subtrahend of the second difference.

        Returns
        -------
        bool
            False also if their linear forms do not show it.
        """
        left = combine(self.linear(a), self.linear(b), -1)
        right = combine(self.linear(c), self.linear(d), -1)
        return left == right

    def is_congruent(self, e: PrimExpr, c: int) -> bool:
        """Whether the remainder of ``e`` by ``c`` is known.

        Parameters
        ----------
        e : PrimExpr
            An interned expression.
        c : int
            The divisor.

        Returns
        -------
        bool
        """
        coeff, _ = modular_of(self, e)
        return coeff % c == 0

    def congruent(self, e: PrimExpr, c: int) -> int:
        """The remainder of an expression by ``c``. ``is_congruent`` must be true for it.

        Parameters
        ----------
        e : PrimExpr
            An interned expression.
        c : int
            The divisor.

        Returns
        -------
        int
            An integer from 0 to ``c`` - 1.
        """
        return modular_of(self, e)[1] % c

    def is_multiple(self, e: PrimExpr, c: int) -> bool:
        """Whether an expression is known to be divisible by ``c``.

        Parameters
        ----------
        e : PrimExpr
            An interned expression.
        c : int
            The divisor.

        Returns
        -------
        bool
        """
        coeff, base = modular_of(self, e)
        return coeff % c == 0 and base % c == 0

    def one_bucket(self, base: PrimExpr, stride: int, lanes: int, c: int) -> bool:
        """Whether all lanes of a ramp have the same quotient by ``c`` > 0, for any base.

        Parameters
        ----------
        base : PrimExpr
            The first lane of the ramp.
        stride : int
            The step from one lane to the next.
        lanes : int
            The number of lanes.
        c : int
            The divisor.

        Returns
        -------
        bool
        """
        coeff, rest = modular_of(self, base)
        step = gcd(coeff, c)
        if step == 0:
            step = c
        first, last = rest % step, rest % step + stride * (lanes - 1)
        return 0 <= first < step and 0 <= last < step

    def never_equal(self, a: PrimExpr, b: PrimExpr) -> bool:
        """Whether a and b can be proven to differ by divisibility: 3 * x + 1 is never 0.

        Parameters
        ----------
        a : PrimExpr
            An interned expression.
        b : PrimExpr
            Another expression of the same type.

        Returns
        -------
        bool
            False also if they are not scalar indices.
        """
        if info(a.dtype).lanes != 1 or not is_index(a.dtype):
            return False
        (p, x), (q, y) = modular_of(self, a), modular_of(self, b)
        step = gcd(p, q)
        return step > 1 and (x - y) % step != 0

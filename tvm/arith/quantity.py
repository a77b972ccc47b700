"""Exact comparison and division of products such as ``4 * n * m``: a constant times symbols.

Scales and extents of iterators have this form. Factorization decides most queries without a proof; the analyzer handles
the rest. Divisors and extents are positive by the definition of an iterator.
"""

from __future__ import annotations

import math

from ..ir.prim import IntImm, Mul, PrimExpr, const
from ..ir.primop import add, floordiv, floormod, multiply, subtract
from .analyzer import Analyzer
from .compare import Interner

# The constant, and the ids of the symbols in ascending order.
Product = tuple[int, tuple[int, ...]]

_MOST_FACTORS = 16


class Quantities:
    """Queries about products, which fall back to one analyzer."""

    __slots__ = ("analyzer", "_interner", "_numbers", "_symbols", "_products", "_simplified")

    def __init__(self, analyzer: Analyzer):
        self.analyzer = analyzer
        self._interner = Interner()
        self._numbers: dict[PrimExpr, int] = {}
        self._symbols: list[PrimExpr] = []
        self._products: dict[PrimExpr, Product] = {}
        self._simplified: dict[PrimExpr, PrimExpr] = {}

    def simplify(self, e: PrimExpr) -> PrimExpr:
        if isinstance(e, IntImm):
            return e
        got = self._simplified.get(e)
        if got is None:
            got = self._simplified[e] = self.analyzer.simplify(e)
        return got

    def product(self, e: PrimExpr) -> Product:
        if isinstance(e, IntImm):
            return e.value, ()
        got = self._products.get(e)
        if got is not None:
            return got
        constant, stack = 1, [self.simplify(e)]
        symbols: list[int] = []
        while stack:
            node = stack.pop()
            # Treat a power of many factors as one symbol; otherwise repeated squares would double the factors at every
            # level.
            if isinstance(node, Mul) and len(symbols) + len(stack) < _MOST_FACTORS:
                stack += (node.b, node.a)
            elif isinstance(node, IntImm):
                constant *= node.value
            else:
                symbols.append(self._number(node))
        got = self._products[e] = constant, tuple(sorted(symbols)) if constant else ()
        return got

    def _number(self, symbol: PrimExpr) -> int:
        symbol = self._interner.intern(symbol)
        number = self._numbers.get(symbol)
        if number is None:
            number = self._numbers[symbol] = len(self._symbols)
            self._symbols.append(symbol)
        return number

    def build(self, product: Product, dtype: str) -> PrimExpr:
        out = None
        for number in product[1]:
            out = self._symbols[number] if out is None else multiply(out, self._symbols[number])
        constant = const(product[0], dtype)
        return constant if out is None else multiply(out, constant)

    def times(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        x, y = self.product(a), self.product(b)
        return self.build((x[0] * y[0], tuple(sorted(x[1] + y[1]))), a.dtype)

    def plus(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        return self.simplify(add(a, b))

    def minus(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        return self.simplify(subtract(a, b))

    def ceildiv(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        got = self.quotient(a, b)
        return self.simplify(floordiv(add(a, subtract(b, 1)), b)) if got is None else got

    def is_one(self, e: PrimExpr) -> bool:
        return isinstance(e, IntImm) and e.value == 1

    def is_zero(self, e: PrimExpr) -> bool:
        return isinstance(e, IntImm) and e.value == 0

    def equal(self, a: PrimExpr, b: PrimExpr) -> bool:
        if a is b or self.product(a) == self.product(b):
            return True
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return False
        return self.analyzer.can_prove_equal(a, b)

    def quotient(self, a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
        """Return ``a / b`` if the division is exact, else None."""
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return None if b.value == 0 or a.value % b.value else const(a.value // b.value, a.dtype)
        if self.is_zero(a) or self.is_one(b):
            return a
        x, y = self.product(a), self.product(b)
        if y[0] == 0:
            return None
        rest = list(x[1])
        for number in y[1]:
            if number not in rest:
                break
            rest.remove(number)
        else:
            if x[0] % y[0] == 0:
                return self.build((x[0] // y[0], tuple(rest)), a.dtype)
        if self.analyzer.can_prove_equal(floormod(a, b), const(0, a.dtype)):
            return self.simplify(floordiv(a, b))
        return None

    def remainder(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """Return ``a % b`` with a common constant factor factored out."""
        x = self.product(a)
        common = math.gcd(x[0], b.value) if isinstance(b, IntImm) else 1
        if common <= 1:
            return self.simplify(floormod(a, b))
        rest = floormod(self.build((x[0] // common, x[1]), a.dtype), b.value // common)
        return multiply(self.simplify(rest), common)

    def common_multiple(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """Return a common multiple of both, the least one as far as the factors show."""
        if self.quotient(a, b) is not None:
            return a
        if self.quotient(b, a) is not None:
            return b
        x, y = self.product(a), self.product(b)
        symbols, missing = list(x[1]), list(x[1])
        for number in y[1]:
            if number in missing:
                missing.remove(number)
            else:
                symbols.append(number)
        return self.build((math.lcm(x[0], y[0]), tuple(sorted(symbols))), a.dtype)

    def at_most(self, a: PrimExpr, b: PrimExpr) -> bool:
        """Return whether ``a <= b`` is proven."""
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return a.value <= b.value
        return self.analyzer.can_prove(a <= b)

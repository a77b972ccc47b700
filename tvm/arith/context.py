"""The context of the integer analysis: bounds, values and conditions, and the facts that follow from them for an
expression."""

from __future__ import annotations

from contextlib import contextmanager
from math import gcd
from typing import TYPE_CHECKING, Any

from ..dtype import info
from ..ir.prim import EQ, LE, LT, NE, Add, And, Call, FloorMod, IntImm, Mod, Mul, PrimExpr, Range, Sub, Var, const
from . import rewrite, rewrite_make
from .compare import Interner
from .const_bound import (
    EVERYTHING,
    NEG_INF,
    Bound,
    add_bounds,
    bound_of,
    dtype_bound,
    intersect,
    is_index,
    linear_bound,
)
from .modular import intersect as intersect_moduli
from .modular import modular_of
from .rule_compiler import LiteralOverflow
from .sums import Sum, combine, fits, scaled

# A sum of more terms is treated as one atom, so that linear forms stay small.
MAX_TERMS = 24
MAX_LINEAR_DEPTH = 40


class Context(Interner):
    """Bindings and known conditions, with cached results.

    Results are cached per context: a change of the context starts empty caches, and leaving a scope restores the
    earlier ones.
    """

    __slots__ = (
        "atom_facts",
        "bounds",
        "canonical",
        "depth",
        "done",
        "epoch",
        "walk",
        "facts",
        "forms",
        "mod_facts",
        "moduli",
        "products",
        "ranges",
        "rewritten",
        "scopes",
        "stays",
        "sums",
        "truths",
        "values",
        "var_bounds",
        "var_moduli",
    )

    # True only in the light context of `ranges.py`, which skips some rules of bounds.
    light = False

    if TYPE_CHECKING:
        # Methods that rules use and that the analyzer, a subclass, defines.
        def bind_axis(self, axis: Any) -> None: ...

        def never_equal(self, a: PrimExpr, b: PrimExpr) -> bool: ...

    def __init__(self):
        Interner.__init__(self)
        self.var_bounds: dict[Var, Bound] = {}
        self.var_moduli: dict[PrimExpr, tuple[int, int]] = {}
        self.values: dict[PrimExpr, PrimExpr] = {}
        # Known inequalities: of sums of several terms, and of single expressions.
        self.facts: dict[frozenset[Any], tuple[tuple[Any, ...], Bound]] = {}
        self.atom_facts: dict[PrimExpr, Bound] = {}
        self.mod_facts: dict[PrimExpr, tuple[int, int]] = {}
        self.truths: dict[PrimExpr, bool] = {}
        self.forms: dict[PrimExpr, Sum] = {}
        # The order in which two factors were first multiplied; later products of the two use the same order.
        self.products: dict[frozenset[Any], tuple[PrimExpr, PrimExpr]] = {}
        # Symbolic ranges of bound variables, for int_set.
        self.ranges: dict[Var, Range] = {}
        # Branches of selects that are simplified in the surrounding context.
        self.stays: dict[PrimExpr, bool] = {}
        self.depth = 0
        self.scopes = 0
        self.epoch = 0
        # The current simplifier; nested contexts continue with the same one.
        self.walk = rewrite.rewrite_expr
        self._fresh()

    def _fresh(self) -> None:
        self.bounds: dict[PrimExpr, Bound] = {}
        self.moduli: dict[PrimExpr, tuple[int, int]] = {}
        self.done: dict[tuple[Any, ...], PrimExpr] = {}
        self.rewritten: dict[PrimExpr, PrimExpr] = {}
        self.canonical: dict[PrimExpr, PrimExpr] = {}
        self.sums: dict[Any, Sum] = {}

    def _changed(self) -> None:
        self.epoch += 1
        self._fresh()

    # --- building blocks used by the rules ---------------------------------------------------------------------

    def make(self, cls: type, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """The simplified form of ``cls(a, b)``, cached for the context.

        Parameters
        ----------
        cls : type
            The class of a node with two operands, such as ``Add`` or ``LT``.
        a : PrimExpr
            The left operand, simplified and interned.
        b : PrimExpr
            The right operand, simplified and interned.

        Returns
        -------
        PrimExpr
            An interned expression with the same value.
        """
        got = self.done.get((cls, a, b))
        return got if got is not None else rewrite_make.make(self, cls, a, b)

    def make_not(self, a: PrimExpr) -> PrimExpr:
        """The simplified negation of a condition.

        Parameters
        ----------
        a : PrimExpr
            The condition, simplified and interned.

        Returns
        -------
        PrimExpr
            An interned expression that is true where ``a`` is false.
        """
        return rewrite_make.make_not(self, a)

    def make_select(self, condition: PrimExpr, yes: PrimExpr, no: PrimExpr) -> PrimExpr:
        """A simplified select: one of its values if the condition is a literal or the values are equal.

        Parameters
        ----------
        condition : PrimExpr
            The condition, simplified and interned.
        yes : PrimExpr
            The value if the condition holds.
        no : PrimExpr
            The value if the condition does not hold.

        Returns
        -------
        PrimExpr
            An interned expression.
        """
        return rewrite_make.make_select(self, condition, yes, no)

    def make_ramp(self, base: PrimExpr, stride: PrimExpr, lanes: int) -> PrimExpr:
        """The vector ``base, base + stride, ...``: its base if it has one lane, a broadcast if the stride is zero.

        Parameters
        ----------
        base : PrimExpr
            The value of the first lane.
        stride : PrimExpr
            The step from one lane to the next.
        lanes : int
            The number of lanes.

        Returns
        -------
        PrimExpr
            An interned expression.
        """
        return rewrite_make.make_ramp(self, base, stride, lanes)

    def make_broadcast(self, value: Any, lanes: int) -> PrimExpr:
        """A scalar in every lane of a vector, or the scalar itself if the vector has one lane.

        Parameters
        ----------
        value : PrimExpr
            The scalar.
        lanes : int
            The number of lanes.

        Returns
        -------
        PrimExpr
            An interned expression.
        """
        return rewrite_make.make_broadcast(self, value, lanes)

    def literal(self, value: int, dtype: str) -> PrimExpr:
        """The interned integer literal of a value and a type.

        Parameters
        ----------
        value : int
            The integer.
        dtype : str
            An integer type; a vector type gives a broadcast.

        Returns
        -------
        PrimExpr
            The literal.

        Raises
        ------
        LiteralOverflow
            The value does not fit into a scalar type, so the rule must not be applied.
        """
        got = self.nodes.get((IntImm, value, dtype))
        if got is not None:
            return got
        if info(dtype).lanes != 1:
            return self.intern(const(value, dtype))
        low, high = dtype_bound(dtype)
        if not low <= value <= high:
            raise LiteralOverflow
        return Interner.literal(self, value, dtype)

    def zero(self, dtype: str) -> PrimExpr:
        """The interned zero of a type.

        Parameters
        ----------
        dtype : str
            An integer type.

        Returns
        -------
        PrimExpr
            The literal.
        """
        return self.literal(0, dtype)

    def bound(self, e: PrimExpr, depth: int = 0) -> Bound:
        """The smallest and the largest value of an expression in this context.

        Parameters
        ----------
        e : PrimExpr
            An interned expression.
        depth : int, optional
            The depth of the recursion; the bound of a deep expression is the range of its type.

        Returns
        -------
        tuple of int
            The lower and the upper bound; ``NEG_INF`` and ``POS_INF`` if unbounded.
        """
        got = self.bounds.get(e)
        return got if got is not None else bound_of(self, e, depth)

    def modular(self, e: PrimExpr, depth: int = 0) -> tuple[int, int]:
        """The modular set of an expression: it equals ``coeff * k + base`` for some integer k.

        Parameters
        ----------
        e : PrimExpr
            An interned expression.
        depth : int, optional
            The depth of the recursion; a deep expression has the set of all integers.

        Returns
        -------
        tuple of int
            ``coeff`` and ``base``; ``coeff`` is 0 for a constant and 1 if nothing is known.
        """
        return modular_of(self, e, depth)

    def linear(self, e: PrimExpr, depth: int = 0) -> Sum:
        """``e`` as a sum of few terms. The result is cached for each node and must not be modified.

        Parameters
        ----------
        e : PrimExpr
            An interned expression.
        depth : int, optional
            The depth of ``e`` in the sum that is being built.

        Returns
        -------
        Sum
            The terms with their coefficients, and a constant. ``e`` is the only term if it is not a sum of scalar
            indices, has too many terms, or may overflow.
        """
        got = self.forms.get(e)
        if got is not None:
            return got
        cls = e.__class__
        if cls is IntImm:
            return Sum({}, e.value)
        kind = rewrite_make.KINDS[e.dtype]
        if depth > MAX_LINEAR_DEPTH or not (kind.is_scalar and kind.is_index):
            return Sum({e: 1}, 0)
        got = None
        if cls is Add or cls is Sub:
            got = combine(self.linear(e.a, depth + 1), self.linear(e.b, depth + 1), 1 if cls is Add else -1)
        elif cls is Mul and e.b.__class__ is IntImm:
            got = scaled(self.linear(e.a, depth + 1), e.b.value)
        if got is None or len(got.terms) > MAX_TERMS or not fits(got, e.dtype):
            got = Sum({e: 1}, 0)
        self.forms[e] = got
        return got

    def difference_bound(self, a: PrimExpr, b: PrimExpr) -> Bound:
        """Bound of ``a - b`` for index types, scalar or vector.

        Parameters
        ----------
        a : PrimExpr
            An interned expression.
        b : PrimExpr
            Another expression of the same type.

        Returns
        -------
        tuple of int
            The smallest and the largest difference. Common terms cancel.
        """
        if a is b:
            return 0, 0
        if not rewrite_make.KINDS[a.dtype].is_scalar:
            (p, q), (r, s) = self.bound(a), self.bound(b)
            return add_bounds((p, q), (-s, -r))
        terms, base = combine(self.linear(a), self.linear(b), -1)
        if not terms:
            return base, base
        return linear_bound(self, terms, base)

    @contextmanager
    def known_value(self, var: Var, bound: Bound, modulus: tuple[int, int]):
        """A scope in which the variable of a let has the bounds of its value.

        Parameters
        ----------
        var : Var
            The variable.
        bound : tuple of int
            The smallest and the largest value.
        modulus : tuple of int
            Coefficient and base of the modular set, as returned by ``modular``.
        """
        saved = self.bounds, self.moduli, self.var_bounds.get(var), self.var_moduli.get(var)
        self.bounds, self.moduli = {}, {}
        self.var_bounds[var], self.var_moduli[var] = bound, modulus
        try:
            yield
        finally:
            self.bounds, self.moduli = saved[:2]
            for table, old in ((self.var_bounds, saved[2]), (self.var_moduli, saved[3])):
                if old is None:
                    del table[var]
                else:
                    table[var] = old

    # --- conditions that hold ----------------------------------------------------------------------------------

    def under(self, condition: PrimExpr, e: PrimExpr) -> PrimExpr:
        """``e`` simplified under the assumption that an interned condition holds.

        Parameters
        ----------
        condition : PrimExpr
            The condition, interned.
        e : PrimExpr
            The expression.

        Returns
        -------
        PrimExpr
            An expression that equals ``e`` if the condition holds.
        """
        saved = self._enter(condition)
        got = self.walk(self, e)
        self._leave(saved)
        return got

    def _enter(self, condition: PrimExpr) -> tuple[Any, ...]:
        saved = (
            self.epoch,
            self.facts,
            self.atom_facts,
            self.mod_facts,
            self.truths,
            self.bounds,
            self.moduli,
            self.done,
            self.rewritten,
            self.canonical,
            self.sums,
        )
        self.scopes += 1
        self.facts, self.atom_facts = dict(self.facts), dict(self.atom_facts)
        self.mod_facts, self.truths = dict(self.mod_facts), dict(self.truths)
        self._fresh()
        for part in self._conjuncts(condition):
            self._assume(part)
        # Results cached while the facts were added did not use all of them, so discard the caches.
        self._fresh()
        return saved

    def _leave(self, saved: tuple[Any, ...]) -> None:
        self.scopes -= 1
        (epoch, self.facts, self.atom_facts, self.mod_facts, self.truths, *tables) = saved
        if epoch == self.epoch:
            (self.bounds, self.moduli, self.done, self.rewritten, self.canonical, self.sums) = tables
        else:
            self._fresh()

    @staticmethod
    def _conjuncts(condition: PrimExpr) -> list[PrimExpr]:
        stack = [condition]
        parts: list[PrimExpr] = []
        while stack:
            e = stack.pop()
            if e.__class__ is And:
                stack += (e.b, e.a)
            elif e.__class__ is Call and getattr(e.op, "name", None) == "tir.likely":
                stack.append(e.args[0])
            else:
                parts.append(e)
        return parts

    def _as_fact(self, e: PrimExpr) -> list[Any] | None:
        """Return a comparison as [(terms, bound)], where the bound contains the sum of the terms, or None for other
        conditions."""
        cls = e.__class__
        if cls not in (LT, LE, EQ) or not is_index(e.a.dtype) or info(e.a.dtype).lanes != 1:
            return None
        terms, base = combine(self.linear(e.a), self.linear(e.b), -1)
        if not terms:
            return None
        step = 0
        for c in terms.values():
            step = gcd(step, c)
        top = -base - 1 if cls is LT else -base
        low = -base if cls is EQ else NEG_INF
        if cls is EQ and base % step:
            return None
        terms = {t: c // step for t, c in terms.items()}
        return [(terms, (low if low == NEG_INF else low // step, top // step))]

    def _assume(self, e: PrimExpr) -> None:
        """Record a condition that is assumed to hold."""
        self.truths[e] = True
        self.truths[rewrite_make.make_not(self, e) if e.__class__ in (LT, LE, EQ, NE) else e] = e.__class__ not in (
            LT,
            LE,
            EQ,
            NE,
        )
        for terms, bound in self._as_fact(e) or ():
            self._learn(terms, bound)
        if e.__class__ is EQ and e.a.__class__ in (FloorMod, Mod) and e.b.__class__ is IntImm:
            divisor = e.a.b
            if divisor.__class__ is IntImm and divisor.value > 0:
                self._learn_modulus(e.a.a, divisor.value, e.b.value)

    def _learn(self, terms: dict[PrimExpr, int], bound: Bound) -> None:
        if len(terms) == 1:
            ((atom, c),) = terms.items()
            if c < 0:
                bound = (-bound[1], -bound[0])
            self.atom_facts[atom] = intersect(self.atom_facts.get(atom, EVERYTHING), bound)
            return
        key = frozenset(terms.items())
        if key not in self.facts:
            mirror = frozenset((t, -c) for t, c in terms.items())
            if mirror in self.facts:
                key, bound = mirror, (-bound[1], -bound[0])
        items, known = self.facts.get(key, (tuple(terms.items()), EVERYTHING))
        self.facts[key] = items, intersect(known, bound)

    def _learn_modulus(self, e: PrimExpr, coeff: int, base: int) -> None:
        """Record that ``e`` is ``base`` modulo ``coeff``. A constant offset of ``e`` is moved into ``base``."""
        terms, offset = self.linear(e)
        if len(terms) == 1:
            ((atom, c),) = terms.items()
            if c == 1:
                e, base = atom, base - offset
        got = (coeff, base % coeff)
        old = self.mod_facts.get(e)
        self.mod_facts[e] = got if old is None else intersect_moduli(old, got)

"""The analyzer: one context (bounds, values, known conditions) and the questions that may be asked in it."""

from __future__ import annotations

from contextlib import contextmanager
from enum import IntEnum, IntFlag
from math import gcd
from typing import Any

from ..dtype import info
from ..ir.node import Node
from ..ir.prim import (
    EQ,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    Call,
    Cast,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Or,
    PrimExpr,
    Range,
    Sub,
    Var,
    const,
    convert,
)
from . import rewrite
from .compare import Interner
from .const_bound import (
    EVERYTHING,
    NEG_INF,
    POS_INF,
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

# A sum of more terms than this is treated as one unknown: linear forms stay small.
MAX_TERMS = 24
MAX_LINEAR_DEPTH = 40


class ProofStrength(IntEnum):
    """How hard ``can_prove`` tries."""

    DEFAULT = 0
    SYMBOLIC_BOUND = 1


class Extension(IntFlag):
    """Optional rewrites; accepted, and all that are sound are always on."""

    NoExtensions = 0
    TransitivelyProveInequalities = 1
    ConvertBooleanToAndOfOrs = 2
    ApplyConstraintsToBooleanBranches = 4


class ConstIntBound(Node, key="arith.ConstIntBound"):
    """Smallest and largest value; NEG_INF and POS_INF for unbounded.

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

    def __init__(self, min_value, max_value, span=None):
        self.min_value = int(min_value)
        self.max_value = int(max_value)
        self.span = span

    def __str__(self):
        def show(v):
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

    def __init__(self, coeff, base, span=None):
        self.coeff = int(coeff)
        self.base = int(base)
        self.span = span

    def __str__(self):
        return f"ModularSet(coeff={self.coeff}, base={self.base})"

    __repr__ = __str__


class Analyzer(Interner):
    """Integer reasoning in a context.

    Bindings last until overridden; constraints last for a ``constraint_scope``. Results are remembered per context:
    a change of context starts fresh tables, and leaving a scope brings the earlier ones back.

    Examples
    --------
    >>> analyzer = tvm.arith.Analyzer()
    >>> x = te.var("x")
    >>> analyzer.simplify(x * 4 // 4 + x - x)
    x
    >>> analyzer.bind(x, tvm.ir.Range(0, 8))
    >>> analyzer.can_prove(x < 8)
    True
    """

    __slots__ = (
        "_extensions",
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

    # All rules of bounds hold here (`ranges.py` has the light mode).
    light = False

    def __init__(self):
        Interner.__init__(self)
        self.var_bounds: dict[Var, Bound] = {}
        self.var_moduli: dict[Var, tuple[int, int]] = {}
        self.values: dict[Var, PrimExpr] = {}
        # Known inequalities: sums of several terms, and single expressions.
        self.facts: dict[frozenset, tuple[tuple, Bound]] = {}
        self.atom_facts: dict[PrimExpr, Bound] = {}
        self.mod_facts: dict[PrimExpr, tuple[int, int]] = {}
        self.truths: dict[PrimExpr, bool] = {}
        self.forms: dict[PrimExpr, Sum] = {}
        # The order in which two factors were first multiplied: both orders become that one.
        self.products: dict[frozenset, tuple[PrimExpr, PrimExpr]] = {}
        # Symbolic ranges of bound variables, for int_set.
        self.ranges: dict[Var, Range] = {}
        # Branches of choices that are simplified in the context around them.
        self.stays: dict[PrimExpr, bool] = {}
        self.depth = 0
        self.scopes = 0
        self.epoch = 0
        # The simplifier at work: nested contexts go on with the same one.
        self.walk = rewrite.rewrite_expr
        self._extensions = Extension.NoExtensions
        self._fresh()

    def _fresh(self) -> None:
        self.bounds: dict[PrimExpr, Bound] = {}
        self.moduli: dict[PrimExpr, tuple[int, int]] = {}
        self.done: dict[tuple, PrimExpr] = {}
        self.rewritten: dict[PrimExpr, PrimExpr] = {}
        self.canonical: dict[PrimExpr, PrimExpr] = {}
        self.sums: dict[PrimExpr, object] = {}

    def _changed(self) -> None:
        self.epoch += 1
        self._fresh()

    # --- building blocks used by the rules ---------------------------------------------------------------------

    def make(self, cls: type, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """The simplified form of ``cls(a, b)``, remembered for the context.

        Parameters
        ----------
        cls : type
            The class of the node, one with two operands such as ``Add`` or ``LT``.
        a : PrimExpr
            The left operand, simplified and interned.
        b : PrimExpr
            The right operand, simplified and interned.

        Returns
        -------
        PrimExpr
            An interned expression of the same value.
        """
        got = self.done.get((cls, a, b))
        return got if got is not None else rewrite.make(self, cls, a, b)

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
        return rewrite.make_not(self, a)

    def make_select(self, condition, yes, no) -> PrimExpr:
        """The simplified choice between two values: one of them where the condition is a literal or both are the same.

        Parameters
        ----------
        condition : PrimExpr
            The condition, simplified and interned.
        yes : PrimExpr
            The value where it holds.
        no : PrimExpr
            The value where it does not.

        Returns
        -------
        PrimExpr
            An interned expression.
        """
        return rewrite.make_select(self, condition, yes, no)

    def make_ramp(self, base, stride, lanes) -> PrimExpr:
        """The vector ``base, base + stride, ...``: its base where it has one lane, a broadcast where the stride is
        zero.

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
        return rewrite.make_ramp(self, base, stride, lanes)

    def make_broadcast(self, value, lanes) -> PrimExpr:
        """A scalar in every lane of a vector; the scalar itself where the vector has one lane.

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
        return rewrite.make_broadcast(self, value, lanes)

    def literal(self, value: int, dtype: str) -> PrimExpr:
        """The interned integer literal of a value and a type.

        Parameters
        ----------
        value : int
            The integer.
        dtype : str
            An integer type; one of several lanes gives a broadcast.

        Returns
        -------
        PrimExpr
            The literal.

        Raises
        ------
        LiteralOverflow
            A scalar type does not hold the value, so the rule that wanted it must not fire.
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
            How many nodes above it are being bounded; a deep expression has the bound of its type.

        Returns
        -------
        tuple of int
            Both ends; ``NEG_INF`` and ``POS_INF`` where it is unbounded.
        """
        got = self.bounds.get(e)
        return got if got is not None else bound_of(self, e, depth)

    def modular(self, e: PrimExpr, depth: int = 0) -> tuple[int, int]:
        """What is known of the remainders of an expression: it is ``coeff * k + base`` for some integer k.

        Parameters
        ----------
        e : PrimExpr
            An interned expression.
        depth : int, optional
            How many nodes above it are being looked at; nothing is known of a deep expression.

        Returns
        -------
        tuple of int
            ``coeff`` and ``base``; ``coeff`` is 0 for a constant and 1 where nothing is known.
        """
        return modular_of(self, e, depth)

    def linear(self, e: PrimExpr, depth: int = 0) -> Sum:
        """``e`` as a sum of few terms, each node's kept; the dictionary must not be changed.

        Parameters
        ----------
        e : PrimExpr
            An interned expression.
        depth : int, optional
            How many nodes above it are part of the sum already.

        Returns
        -------
        Sum
            Its terms with their coefficients, and a constant; ``e`` is the only term where it is no sum of scalar
            indices, has too many terms, or may leave its type.
        """
        got = self.forms.get(e)
        if got is not None:
            return got
        cls = e.__class__
        if cls is IntImm:
            return Sum({}, e.value)
        kind = rewrite.KINDS[e.dtype]
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
            Another of the same type.

        Returns
        -------
        tuple of int
            The smallest and the largest difference; terms that both have in common cancel.
        """
        if a is b:
            return 0, 0
        if not rewrite.KINDS[a.dtype].is_scalar:
            (p, q), (r, s) = self.bound(a), self.bound(b)
            return add_bounds((p, q), (-s, -r))
        terms, base = combine(self.linear(a), self.linear(b), -1)
        if not terms:
            return base, base
        return linear_bound(self, terms, base)

    @contextmanager
    def known_value(self, var: Var, bound: Bound, modulus: tuple[int, int]):
        """Inside the block the variable of a let has the bounds of its value.

        Parameters
        ----------
        var : Var
            The variable.
        bound : tuple of int
            The smallest and the largest value.
        modulus : tuple of int
            Coefficient and base of the modular set, as ``modular`` gives them.
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

    # --- questions the rules ask -------------------------------------------------------------------------------

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
        """Whether a <= b always.

        Parameters
        ----------
        a : PrimExpr
            An interned expression.
        b : PrimExpr
            Another of the same type.
        depth : int, optional
            How many operands of min and max were taken apart on the way; at most three are.

        Returns
        -------
        bool
            False also where it is not known.
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
        """Whether 0 <= a < b always.

        Parameters
        ----------
        a : PrimExpr
            An interned expression.
        b : PrimExpr
            Another of the same type.

        Returns
        -------
        bool
            False also where it is not known.
        """
        return self.bound(a)[0] >= 0 and self.difference_bound(a, b)[1] < 0

    def decided(self, a: PrimExpr, b: PrimExpr) -> bool:
        """Whether a < b is known to be true or known to be false.

        Parameters
        ----------
        a : PrimExpr
            An interned expression.
        b : PrimExpr
            Another of the same type.

        Returns
        -------
        bool
        """
        lo, hi = self.difference_bound(a, b)
        return hi < 0 or lo >= 0

    def has_product(self, a: PrimExpr, b: PrimExpr) -> bool:
        """Whether the program multiplies these two already, so that the product is known to fit its type.

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
            The outermost node of the chain, which grows to the left.
        e : PrimExpr
            The operand that is looked for.
        is_min : bool
            Whether the chain is one of min.

        Returns
        -------
        bool
            False also where it is more than eight nodes deep.
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
        """Whether a condition is one of those that an ``and`` joins.

        Parameters
        ----------
        e : PrimExpr
            The condition that is looked for.
        tree : PrimExpr
            The outermost ``and``; the chain grows to the left.

        Returns
        -------
        bool
            False also where it is more than sixteen nodes deep.
        """
        return self._in_tree(tree, e, And)

    def in_disjunction(self, e: PrimExpr, tree: PrimExpr) -> bool:
        """Whether a condition is one of those that an ``or`` joins.

        Parameters
        ----------
        e : PrimExpr
            The condition that is looked for.
        tree : PrimExpr
            The outermost ``or``; the chain grows to the left.

        Returns
        -------
        bool
            False also where it is more than sixteen nodes deep.
        """
        return self._in_tree(tree, e, Or)

    def implied(self, e: PrimExpr, given: PrimExpr) -> bool:
        """Whether the comparison ``given`` makes ``e`` true, by the bound it puts on the same sum of terms.

        Parameters
        ----------
        e : PrimExpr
            The comparison to be shown.
        given : PrimExpr
            The comparison that holds.

        Returns
        -------
        bool
            False also where one of them is no comparison of scalar indices.
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

    def same_difference(self, a, b, c, d) -> bool:
        """Whether a - b equals c - d.

        Parameters
        ----------
        a : PrimExpr
            What the first difference is taken of.
        b : PrimExpr
            What the first difference takes away.
        c : PrimExpr
            What the second difference is taken of.
        d : PrimExpr
            What the second difference takes away.

        Returns
        -------
        bool
            False also where their linear forms do not show it.
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
        """The remainder of an expression by ``c``, which ``is_congruent`` said is known.

        Parameters
        ----------
        e : PrimExpr
            An interned expression.
        c : int
            The divisor.

        Returns
        -------
        int
            From 0 to ``c`` - 1.
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
        """Whether all lanes of a ramp have the same quotient by ``c`` > 0, whatever the base.

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
        """Whether a and b differ by what divides them: 3 * x + 1 is never 0.

        Parameters
        ----------
        a : PrimExpr
            An interned expression.
        b : PrimExpr
            Another of the same type.

        Returns
        -------
        bool
            False also where they are no scalar indices.
        """
        if info(a.dtype).lanes != 1 or not is_index(a.dtype):
            return False
        (p, x), (q, y) = modular_of(self, a), modular_of(self, b)
        step = gcd(p, q)
        return step > 1 and (x - y) % step != 0

    # --- context -----------------------------------------------------------------------------------------------

    def under(self, condition: PrimExpr, e: PrimExpr) -> PrimExpr:
        """``e`` simplified where an interned condition is known to hold.

        Parameters
        ----------
        condition : PrimExpr
            The condition, interned.
        e : PrimExpr
            The expression.

        Returns
        -------
        PrimExpr
            An expression that equals ``e`` wherever the condition holds.
        """
        saved = self._enter(condition)
        got = self.walk(self, e)
        self._leave(saved)
        return got

    def _enter(self, condition: PrimExpr) -> tuple:
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
        # What was worked out while the facts were added did not know all of them.
        self._fresh()
        return saved

    def _leave(self, saved: tuple) -> None:
        self.scopes -= 1
        (epoch, self.facts, self.atom_facts, self.mod_facts, self.truths, *tables) = saved
        if epoch == self.epoch:
            (self.bounds, self.moduli, self.done, self.rewritten, self.canonical, self.sums) = tables
        else:
            self._fresh()

    @staticmethod
    def _conjuncts(condition: PrimExpr) -> list[PrimExpr]:
        parts, stack = [], [condition]
        while stack:
            e = stack.pop()
            if e.__class__ is And:
                stack += (e.b, e.a)
            elif e.__class__ is Call and getattr(e.op, "name", None) == "tir.likely":
                stack.append(e.args[0])
            else:
                parts.append(e)
        return parts

    def _as_fact(self, e: PrimExpr) -> list | None:
        """A comparison as [(terms, bound)]: the terms' sum lies in the bound. None when it is no such thing."""
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
        """Record a condition that holds."""
        self.truths[e] = True
        self.truths[rewrite.make_not(self, e) if e.__class__ in (LT, LE, EQ, NE) else e] = e.__class__ not in (
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
        """``e`` is ``base`` modulo ``coeff``; a constant offset is moved to the other side."""
        terms, offset = self.linear(e)
        if len(terms) == 1:
            ((atom, c),) = terms.items()
            if c == 1:
                e, base = atom, base - offset
        got = (coeff, base % coeff)
        old = self.mod_facts.get(e)
        self.mod_facts[e] = got if old is None else intersect_moduli(old, got)

    # --- public interface --------------------------------------------------------------------------------------

    def _expr(self, expr) -> PrimExpr:
        if not isinstance(expr, PrimExpr):
            expr = convert(expr)
        self.depth = 0
        got = self.known.get(expr)
        return got if got is not None else self.intern(expr)

    def const_int_bound(self, expr) -> ConstIntBound:
        """Constant bounds of an integer expression.

        A cast to an unsigned type is taken to keep its value here; the simplifier assumes no such thing.

        Parameters
        ----------
        expr : PrimExpr
            The expression.

        Returns
        -------
        ConstIntBound
            The bounds.
        """
        e = self._expr(expr)
        got = self.bound(e)
        if e.__class__ is Cast and info(e.dtype).code == "uint" and info(e.value.dtype).is_integer:
            inner, limit = self.bound(e.value), dtype_bound(e.dtype)
            if inner[0] <= limit[1] and inner[1] >= limit[0]:
                got = intersect(inner, limit)
        return ConstIntBound(*got)

    def const_int_bound_is_bound(self, var) -> bool:
        """Whether bounds of a variable are known.

        Parameters
        ----------
        var : Var
            The variable.

        Returns
        -------
        bool
            Whether they are.
        """
        return var in self.var_bounds

    def modular_set(self, expr) -> ModularSet:
        """What an integer expression is modulo a number: ``coeff * k + base``.

        Parameters
        ----------
        expr : PrimExpr
            The expression.

        Returns
        -------
        ModularSet
            The set.
        """
        return ModularSet(*modular_of(self, self._expr(expr)))

    def rewrite_simplify(self, expr) -> PrimExpr:
        """Simplify by rewriting alone.

        Parameters
        ----------
        expr : PrimExpr
            The expression.

        Returns
        -------
        PrimExpr
            The simpler one.
        """
        return rewrite.rewrite_expr(self, self._expr(expr))

    def canonical_simplify(self, expr) -> PrimExpr:
        """Simplify by canonical form alone.

        Parameters
        ----------
        expr : PrimExpr
            The expression.

        Returns
        -------
        PrimExpr
            The simpler one.
        """
        from .canonical import canonical_expr

        return canonical_expr(self, self._expr(expr))

    def simplify(self, expr, steps: int = 2) -> PrimExpr:
        """Simplify by canonical form and by rewriting, in turn.

        Parameters
        ----------
        expr : PrimExpr
            The expression.
        steps : int
            How many turns there are.

        Returns
        -------
        PrimExpr
            The simpler one.
        """
        e: Any = self._expr(expr)
        if e.__class__ is IntImm:
            return e
        if e.__class__ is Var:
            value = self.values.get(e)
            return e if value is None else value
        from .canonical import canonical_expr, is_plain

        e = canonical_expr(self, e)
        if is_plain(self, e):
            return e
        for step in range(steps):
            if e.__class__ is IntImm:
                return e
            self.depth = 0
            new = rewrite.rewrite_expr(self, e) if step % 2 == 0 else canonical_expr(self, e)
            if new is e:
                return e
            e = new
        return e

    def int_set(self, expr, dom_map=None):
        """The set an expression ranges over when the variables of ``dom_map`` range over theirs.

        Parameters
        ----------
        expr : PrimExpr
            The expression.
        dom_map : dict, optional
            The sets of variables.

        Returns
        -------
        IntSet
            The set.
        """
        from .interval_set import IntSet, eval_set

        if dom_map is None:
            dom_map = dict(self.ranges)
        got = eval_set(expr, dom_map, self)
        assert isinstance(got, IntSet)
        return got

    def bind(self, var: Var, expr, allow_override: bool = True) -> None:
        """Give a variable a value or a range; an earlier binding is replaced.

        Parameters
        ----------
        var : Var
            The variable.
        expr : PrimExpr or Range
            The value, or the range.
        allow_override : bool
            Whether an earlier binding may be replaced.

        Raises
        ------
        ValueError
            The variable is bound already, and may not be bound again.
        """
        var = getattr(var, "var", var)
        if not allow_override and (var in self.values or var in self.var_bounds):
            raise ValueError(f"bind: something is known of '{var.name}' already; pass allow_override=True")
        if isinstance(expr, Range):
            self._bind_range(var, expr)
        else:
            value = self.simplify(convert(expr))
            self._forget(var)
            self.values[var] = value
            if info(var.dtype).is_integer:
                self.var_bounds[var] = self.bound(value)
                self.var_moduli[var] = modular_of(self, value)
            self._changed()

    def _bind_range(self, var: Var, dom: Range) -> None:
        low, extent = self.simplify(dom.min), self.simplify(dom.extent)
        if extent.__class__ is IntImm and extent.value == 1:
            self.bind(var, low)
            return
        self._forget(var)
        self.ranges[var] = Range(min=low, extent=extent)
        if low.dtype != var.dtype or extent.dtype != var.dtype:
            low_bound, extent_bound = self.bound(low), self.bound(extent)
            self.var_bounds[var] = intersect(
                dtype_bound(var.dtype), (low_bound[0], add_bounds(add_bounds(low_bound, extent_bound), (-1, -1))[1])
            )
            self._changed()
            return
        last = combine(combine(self.linear(low), self.linear(extent), 1), Sum({}, 1), -1)
        bottom, top = self.bound(low)[0], linear_bound(self, *last)[1]
        self.var_bounds[var] = (bottom, top) if bottom <= top else (bottom, POS_INF)
        # Symbolic ends are kept as inequalities: var - low >= 0 and var - low - extent <= -1.
        for ends, bound in ((self.linear(low), (0, POS_INF)), (last, (NEG_INF, 0))):
            if ends[0]:
                terms, base = combine(self.linear(var), ends, -1)
                if len(terms) > 1:
                    lo, hi = bound
                    self._learn(terms, (lo if lo == NEG_INF else lo - base, hi if hi == POS_INF else hi - base))
        self._changed()

    def bind_axis(self, axis) -> None:
        """Bounds of a reduction axis met inside an expression; what is known already is kept.

        Parameters
        ----------
        axis : IterVar
            The axis.
        """
        var, dom = axis.var, axis.dom
        if dom is None or var in self.var_bounds or var in self.values:
            return
        low, extent = self.bound(self.intern(dom.min)), self.bound(self.intern(dom.extent))
        top = add_bounds(add_bounds(low, extent), (-1, -1))[1]
        self.var_bounds[var] = intersect(dtype_bound(var.dtype), (low[0], max(top, low[0])))
        self.bounds.pop(var, None)

    def _forget(self, var: Var) -> None:
        """Drop what is known of a variable."""
        if var in self.var_bounds or var in self.values:
            self.facts = {k: b for k, b in self.facts.items() if not any(t is var for t, _ in k)}
            self.atom_facts.pop(var, None)
        for table in (self.values, self.var_bounds, self.var_moduli, self.ranges):
            table.pop(var, None)

    def update(self, var: Var, info_, override: bool = False) -> None:
        """Set the constant bound or the modular set of a variable.

        Parameters
        ----------
        var : Var
            The variable.
        info_ : ConstIntBound or ModularSet
            What is known.
        override : bool
            Whether it replaces what was known before.

        Raises
        ------
        TypeError
            It is neither.
        """
        if isinstance(info_, ConstIntBound):
            self.const_int_bound_update(var, info_, override)
        elif isinstance(info_, ModularSet):
            self.modular_set_update(var, info_, override)
        else:
            raise TypeError(f"update: expected a ConstIntBound or a ModularSet, got {type(info_).__name__}")

    def const_int_bound_update(self, var: Var, info_: ConstIntBound, override: bool = False) -> None:
        """Set the constant bounds of a variable.

        Parameters
        ----------
        var : Var
            The variable.
        info_ : ConstIntBound
            The bounds.
        override : bool
            Whether they replace others.

        Raises
        ------
        ValueError
            Others are known, and may not be replaced.
        """
        got = (info_.min_value, info_.max_value)
        old = self.var_bounds.get(var)
        if old is not None and old != got and not override:
            raise ValueError(
                f"update: '{var.name}' already has the bounds {old}; pass override=True to replace them by {got}"
            )
        self.var_bounds[var] = got
        self._changed()

    def modular_set_update(self, var: Var, info_: ModularSet, override: bool = False) -> None:
        """Set the modular set of a variable.

        Parameters
        ----------
        var : Var
            The variable.
        info_ : ModularSet
            The set.
        override : bool
            Whether it replaces another.

        Raises
        ------
        ValueError
            Another is known, and may not be replaced.
        """
        got = (info_.coeff, info_.base)
        old = self.var_moduli.get(var)
        if old is not None and old != got and not override:
            raise ValueError(f"update: '{var.name}' already has a modular set {old}; pass override=True to replace it")
        self.var_moduli[var] = got
        self._changed()

    def can_prove(self, expr, strength: ProofStrength = ProofStrength.DEFAULT) -> bool:
        """Whether the condition simplifies to true.

        Parameters
        ----------
        expr : PrimExpr
            The condition.
        strength : ProofStrength
            How hard to try.

        Returns
        -------
        bool
            Whether it does.
        """
        e = self._expr(expr)
        if e.__class__ is IntImm:
            return e.value != 0
        got = rewrite.rewrite_expr(self, e)
        if got.__class__ is not IntImm:
            got = self.simplify(got)
        if got.__class__ is Broadcast:
            got = got.value
        return got.__class__ is IntImm and got.value != 0

    def can_prove_equal(self, lhs, rhs) -> bool:
        """Whether two expressions are equal for all values of their variables.

        Parameters
        ----------
        lhs : PrimExpr
            The one.
        rhs : PrimExpr
            The other.

        Returns
        -------
        bool
            Whether that is known.
        """
        a, b = self._expr(lhs), self._expr(rhs)
        if a is b:
            return True
        if a.dtype != b.dtype:
            if not (is_index(a.dtype) and is_index(b.dtype)):
                return False
            wide = a.dtype if info(a.dtype).bits >= info(b.dtype).bits else b.dtype
            a, b = (
                self._expr(Cast(wide, a) if a.dtype != wide else a),
                self._expr(Cast(wide, b) if b.dtype != wide else b),
            )
        if not info(a.dtype).is_integer:
            return self.simplify(a) is self.simplify(b)
        return self.can_prove(EQ(a, b)) or self.simplify(Sub(a, b)).__class__ is IntImm and self.can_prove(EQ(a, b))

    def can_prove_greater_equal(self, expr, lower_bound: int) -> bool:
        """Whether an expression is never below a number.

        Parameters
        ----------
        expr : PrimExpr
            The expression.
        lower_bound : int
            The number.

        Returns
        -------
        bool
            Whether that is known.
        """
        e = self._expr(expr)
        if e.__class__ is IntImm:
            return e.value >= lower_bound
        return (
            self.bound(rewrite.rewrite_expr(self, e))[0] >= lower_bound
            or self.bound(self.simplify(e))[0] >= lower_bound
        )

    def can_prove_less(self, expr, upper_bound: int) -> bool:
        """Whether an expression is always below a number.

        Parameters
        ----------
        expr : PrimExpr
            The expression.
        upper_bound : int
            The number.

        Returns
        -------
        bool
            Whether that is known.
        """
        e = self._expr(expr)
        if e.__class__ is IntImm:
            return e.value < upper_bound
        return (
            self.bound(rewrite.rewrite_expr(self, e))[1] < upper_bound or self.bound(self.simplify(e))[1] < upper_bound
        )

    @contextmanager
    def constraint_scope(self, constraint):
        """Inside the ``with`` block the condition is known to hold.

        Parameters
        ----------
        constraint : PrimExpr
            The condition.
        """
        e = rewrite.rewrite_expr(self, self._expr(constraint))
        saved = self._enter(e)
        try:
            yield self
        finally:
            self._leave(saved)

    def enter_constraint(self, constraint):
        """The scope without ``with``: returns the function that leaves it.

        Parameters
        ----------
        constraint : PrimExpr
            The condition.

        Returns
        -------
        Callable
            The function.
        """
        saved = self._enter(rewrite.rewrite_expr(self, self._expr(constraint)))
        return lambda: self._leave(saved)

    @property
    def enabled_extensions(self) -> Extension:
        return self._extensions

    @enabled_extensions.setter
    def enabled_extensions(self, flags) -> None:
        self._extensions = Extension(flags)

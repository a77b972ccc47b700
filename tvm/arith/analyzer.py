"""The analyzer: a context (bounds, values, known conditions) and the queries of its users."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

from ..dtype import info
from ..ir.prim import EQ, Broadcast, Cast, IntImm, PrimExpr, Range, Sub, Var, convert
from ..ir.primop import literal
from . import rewrite
from .const_bound import NEG_INF, POS_INF, add_bounds, dtype_bound, intersect, is_index, linear_bound
from .modular import modular_of
from .queries import Queries
from .results import ConstIntBound, Extension, ModularSet, ProofStrength
from .sums import Sum, combine


class Analyzer(Queries):
    """Integer analysis in a context.

    Bindings last until overridden; constraints last for a ``constraint_scope``. Results are cached per context: a
    change of the context starts empty caches, and leaving a scope restores the earlier ones.

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

    __slots__ = ("_extensions",)

    def __init__(self):
        super().__init__()
        self._extensions = Extension.NoExtensions

    def _expr(self, expr: Any) -> PrimExpr:
        if not isinstance(expr, PrimExpr):
            expr = convert(expr)
        self.depth = 0
        got = self.known.get(expr)
        return got if got is not None else self.intern(expr)

    def const_int_bound(self, expr: PrimExpr) -> ConstIntBound:
        """Constant bounds of an integer expression.

        A cast to an unsigned type is assumed to keep its value here; the simplifier does not assume this.

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

    def const_int_bound_is_bound(self, var: Var) -> bool:
        """Whether bounds of a variable are known.

        Parameters
        ----------
        var : Var
            The variable.

        Returns
        -------
        bool
            True if they are.
        """
        return var in self.var_bounds

    def modular_set(self, expr: PrimExpr) -> ModularSet:
        """The modular set of an integer expression: its values have the form ``coeff * k + base``.

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

    def rewrite_simplify(self, expr: PrimExpr) -> PrimExpr:
        """The expression, simplified by rewrite rules only.

        Parameters
        ----------
        expr : PrimExpr
            The expression.

        Returns
        -------
        PrimExpr
            The simplified expression.
        """
        return rewrite.rewrite_expr(self, self._expr(expr))

    def canonical_simplify(self, expr: PrimExpr) -> PrimExpr:
        """The expression, simplified by its canonical form only.

        Parameters
        ----------
        expr : PrimExpr
            The expression.

        Returns
        -------
        PrimExpr
            The simplified expression.
        """
        from .canonical import canonical_expr

        return canonical_expr(self, self._expr(expr))

    def simplify(self, expr: PrimExpr, steps: int = 2) -> PrimExpr:
        """The expression, simplified alternately by canonical form and by rewrite rules.

        Parameters
        ----------
        expr : PrimExpr
            The expression.
        steps : int
            The number of passes.

        Returns
        -------
        PrimExpr
            The simplified expression.
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

    def int_set(self, expr: Any, dom_map: Any = None):
        """The set of values of an expression when the variables of ``dom_map`` take the values of their sets.

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

    def bind(self, var: Var, expr: Any, allow_override: bool = True) -> None:
        """Bind a variable to a value or a range, and replace an earlier binding.

        Parameters
        ----------
        var : Var
            The variable.
        expr : PrimExpr or Range
            The value, or the range.
        allow_override : bool
            Whether to replace an earlier binding.

        Raises
        ------
        ValueError
            The variable is already bound and ``allow_override`` is False.
        """
        var = getattr(var, "var", var)
        if not allow_override and (var in self.values or var in self.var_bounds):
            raise ValueError(
                f"bind: '{var.name}' already has a binding or bounds; pass allow_override=True to replace them"
            )
        if isinstance(expr, Range):
            self._bind_range(var, expr)
        else:
            value, is_new = self.simplify(convert(expr)), self._is_new(var)
            self._forget(var)
            self.values[var] = value
            if info(var.dtype).is_integer:
                self.var_bounds[var] = self.bound(value)
                self.var_moduli[var] = modular_of(self, value)
            if not is_new:
                self._changed()

    def _bind_range(self, var: Var, dom: Range) -> None:
        low, extent = self.simplify(dom.min), self.simplify(dom.extent)
        if extent.__class__ is IntImm and extent.value == 1:
            self.bind(var, low)
            return
        is_new = self._is_new(var)
        self._forget(var)
        self.ranges[var] = Range(min=low, extent=extent)
        if low.dtype != var.dtype or extent.dtype != var.dtype:
            low_bound, extent_bound = self.bound(low), self.bound(extent)
            self.var_bounds[var] = intersect(
                dtype_bound(var.dtype), (low_bound[0], add_bounds(add_bounds(low_bound, extent_bound), (-1, -1))[1])
            )
            if not is_new:
                self._changed()
            return
        last = combine(combine(self.linear(low), self.linear(extent), 1), Sum({}, 1), -1)
        bottom, top = self.bound(low)[0], linear_bound(self, *last)[1]
        self.var_bounds[var] = (bottom, top) if bottom <= top else (bottom, POS_INF)
        # Symbolic bounds are stored as inequalities: var - low >= 0 and var - low - extent <= -1.
        for ends, bound in ((self.linear(low), (0, POS_INF)), (last, (NEG_INF, 0))):
            if ends[0]:
                terms, base = combine(self.linear(var), ends, -1)
                if len(terms) > 1:
                    lo, hi = bound
                    self._learn(terms, (lo if lo == NEG_INF else lo - base, hi if hi == POS_INF else hi - base))
        if not is_new:
            self._changed()

    def _is_new(self, var: Var) -> bool:
        """Return whether no earlier expression contains the variable. Cached results then stay valid for any
        binding."""
        return var not in self.known and var not in self.var_bounds and var not in self.values

    def bind_axis(self, axis: Any) -> None:
        """Bind the bounds of a reduction axis found inside an expression, unless the variable is already bound.

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
        """Delete all information about a variable."""
        if var in self.var_bounds or var in self.values:
            self.facts = {k: b for k, b in self.facts.items() if not any(t is var for t, _ in k)}
            self.atom_facts.pop(var, None)
        for table in (self.values, self.var_bounds, self.var_moduli, self.ranges):
            table.pop(var, None)

    def update(self, var: Var, info_: Any, override: bool = False) -> None:
        """Set the constant bound or the modular set of a variable.

        Parameters
        ----------
        var : Var
            The variable.
        info_ : ConstIntBound or ModularSet
            The bound or modular set.
        override : bool
            Whether it replaces an earlier one.

        Raises
        ------
        TypeError
            ``info_`` is neither a ConstIntBound nor a ModularSet.
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
            Whether they replace earlier bounds.

        Raises
        ------
        ValueError
            The variable already has bounds and ``override`` is False.
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
            Whether it replaces an earlier set.

        Raises
        ------
        ValueError
            The variable already has a modular set and ``override`` is False.
        """
        got = (info_.coeff, info_.base)
        old = self.var_moduli.get(var)
        if old is not None and old != got and not override:
            raise ValueError(f"update: '{var.name}' already has a modular set {old}; pass override=True to replace it")
        self.var_moduli[var] = got
        self._changed()

    def can_prove(self, expr: PrimExpr, strength: ProofStrength = ProofStrength.DEFAULT) -> bool:
        """Whether the condition can be proven.

        Parameters
        ----------
        expr : PrimExpr
            The condition.
        strength : ProofStrength
            The effort of the proof.

        Returns
        -------
        bool
            True if it simplifies to true.
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

    def can_prove_equal(self, lhs: PrimExpr, rhs: Any) -> bool:
        """Whether two expressions are provably equal for all values of their variables.

        Parameters
        ----------
        lhs : PrimExpr
            An expression.
        rhs : PrimExpr
            Another expression.

        Returns
        -------
        bool
            True if this can be proven.
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
        return self.can_prove(EQ(a, b)) or literal(self.simplify(Sub(a, b))) == 0

    def can_prove_greater_equal(self, expr: PrimExpr, lower_bound: int) -> bool:
        """Whether an expression is provably at least ``lower_bound``.

        Parameters
        ----------
        expr : PrimExpr
            The expression.
        lower_bound : int
            The constant.

        Returns
        -------
        bool
            True if this can be proven.
        """
        e = self._expr(expr)
        if e.__class__ is IntImm:
            return e.value >= lower_bound
        return (
            self.bound(rewrite.rewrite_expr(self, e))[0] >= lower_bound
            or self.bound(self.simplify(e))[0] >= lower_bound
        )

    def can_prove_less(self, expr: PrimExpr, upper_bound: int) -> bool:
        """Whether an expression is provably less than ``upper_bound``.

        Parameters
        ----------
        expr : PrimExpr
            The expression.
        upper_bound : int
            The constant.

        Returns
        -------
        bool
            True if this can be proven.
        """
        e = self._expr(expr)
        if e.__class__ is IntImm:
            return e.value < upper_bound
        return (
            self.bound(rewrite.rewrite_expr(self, e))[1] < upper_bound or self.bound(self.simplify(e))[1] < upper_bound
        )

    @contextmanager
    def constraint_scope(self, constraint: Any):
        """A scope in which a condition is assumed to hold, for use in a ``with`` statement.

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

    def enter_constraint(self, constraint: Any):
        """Enter a constraint scope without ``with``; the returned function leaves it.

        Parameters
        ----------
        constraint : PrimExpr
            The condition.

        Returns
        -------
        Callable
            The function that leaves the scope.
        """
        saved = self._enter(rewrite.rewrite_expr(self, self._expr(constraint)))
        return lambda: self._leave(saved)

    @property
    def enabled_extensions(self) -> Extension:
        return self._extensions

    @enabled_extensions.setter
    def enabled_extensions(self, flags: Any) -> None:
        self._extensions = Extension(flags)

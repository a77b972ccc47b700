"""Dataflow patterns, and functions that create them.

A pattern matches an expression if its own condition holds and its parts match the parts of the expression. A pattern
object matches a single expression: if it occurs twice, both occurrences must be the same expression.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...error import TVMError
from ...ir.op import Op
from ...ir.prim import IntImm, PrimExpr
from ...ir.structural import structural_equal
from ...ir.tensor_type import TensorType
from ...ir.type import Type
from ..expr import RelayExpr
from ..infer import infer_type

if TYPE_CHECKING:
    from .rewriting import DFPatternCallback


class DFPattern:
    """The base class of patterns. Python operators on patterns create patterns of the corresponding Relay operators."""

    def __call__(self, *args) -> CallPattern:
        """Return a pattern of calls of this pattern; ``pattern(None)`` matches calls with any arguments."""
        if len(args) == 1 and (args[0] is None or isinstance(args[0], (list, tuple))):
            return CallPattern(self, None if args[0] is None else list(args[0]))
        return CallPattern(self, list(args))

    def __or__(self, other: DFPattern) -> AltPattern:
        return AltPattern(self, other)

    def __add__(self, other):
        return is_op("add")(self, other)

    def __sub__(self, other):
        return is_op("subtract")(self, other)

    def __mul__(self, other):
        return is_op("multiply")(self, other)

    def __truediv__(self, other):
        return is_op("divide")(self, other)

    def has_attr(self, attrs: dict[str, Any]) -> AttrPattern:
        """Restrict this pattern to calls, operators or functions with the given attributes.

        Parameters
        ----------
        attrs : dict
            The attributes and their values.

        Returns
        -------
        AttrPattern
            The pattern.
        """
        return AttrPattern(self, attrs)

    def has_type(self, ttype: Type) -> TypePattern:
        """Restrict this pattern to expressions of the given type.

        Parameters
        ----------
        ttype : Type
            The type.

        Returns
        -------
        TypePattern
            The pattern.
        """
        return TypePattern(self, ttype)

    def has_dtype(self, dtype: str) -> DataTypePattern:
        """Restrict this pattern to expressions of the given element type.

        Parameters
        ----------
        dtype : str
            The element type.

        Returns
        -------
        DataTypePattern
            The pattern.
        """
        return DataTypePattern(self, dtype)

    def has_shape(self, shape) -> ShapePattern:
        """Restrict this pattern to expressions of the given shape.

        Parameters
        ----------
        shape : tuple of int
            The shape.

        Returns
        -------
        ShapePattern
            The pattern.
        """
        return ShapePattern(self, shape)

    def optional(self, option_constructor: Callable[[DFPattern], DFPattern]) -> DFPattern:
        """Return a pattern that matches this pattern, or the pattern that ``option_constructor`` builds from it.

        Parameters
        ----------
        option_constructor : Callable
            A function from this pattern to the alternative pattern.

        Returns
        -------
        DFPattern
            The pattern.
        """
        return AltPattern(option_constructor(self), self)

    def dominates(self, parent: DFPattern, path: DFPattern | None = None) -> DominatorPattern:
        """Return a pattern whose child is this pattern, dominated by ``parent`` through ``path``.

        Parameters
        ----------
        parent : DFPattern
            The pattern of the expression that all paths start from.
        path : DFPattern, optional
            The pattern of the expressions on the paths; any expression by default.

        Returns
        -------
        DominatorPattern
            The pattern.
        """
        return DominatorPattern(parent, wildcard() if path is None else path, self)

    def match(self, expr: RelayExpr) -> bool:
        """Return whether the expression matches this pattern.

        Parameters
        ----------
        expr : RelayExpr
            The expression.

        Returns
        -------
        bool
            True if the expression matches.
        """
        from .matching import match

        return match(self, expr)

    def rewrite(self, callback: DFPatternCallback, expr: RelayExpr) -> RelayExpr:
        """Replace all matches of this pattern in an expression by ``callback``.

        Parameters
        ----------
        callback : DFPatternCallback
            The callback that returns the replacement of a match.
        expr : RelayExpr
            The expression.

        Returns
        -------
        RelayExpr
            The rewritten expression.
        """
        from .rewriting import rewrite

        return rewrite(callback, expr)

    def partition(
        self, expr: RelayExpr, attrs: dict | None = None, check: Callable[[RelayExpr], bool] = lambda x: True
    ):
        """Move all matches of this pattern in an expression into functions.

        Parameters
        ----------
        expr : RelayExpr
            The expression.
        attrs : dict, optional
            Additional attributes of the functions.
        check : Callable
            A predicate that selects the matches to move.

        Returns
        -------
        RelayExpr
            The partitioned expression.
        """
        from .rewriting import partition

        return partition(self, expr, attrs, check)

    def astext(self, show_meta_data: Any = True, annotate: Callable[[DFPattern], str] | None = None) -> str:
        """Return the pattern as text, with one line for each nested pattern that has parts or several uses.

        Parameters
        ----------
        show_meta_data : bool, optional
            Ignored: patterns have no metadata. The parameter exists for symmetry with expressions.
        annotate : callable, optional
            A function that returns a comment for the line of a pattern.

        Returns
        -------
        str
            The text of the pattern.

        Examples
        --------
        >>> from tvm.relay.dataflow_pattern import is_constant, is_op, is_var, wildcard
        >>> print((is_op("add")(wildcard(), is_constant()) | is_var("x")).astext())
        %0 = CallPattern(ExprPattern(Op(add)), [WildcardPattern(), ConstantPattern()])
        AltPattern(%0, VarPattern(x))
        """
        from .text import as_text

        return as_text(self, annotate)

    def __str__(self) -> str:
        return self.astext()

    def parts(self) -> list[DFPattern]:
        """Return the nested patterns.

        Returns
        -------
        list of DFPattern
            The patterns.
        """
        return []


class WildcardPattern(DFPattern):
    """Matches any expression."""

    def redirect_to(self, pat: DFPattern) -> None:
        """Redirect this pattern to another one. This allows patterns that refer to themselves.

        Parameters
        ----------
        pat : DFPattern
            The target pattern, which may contain this pattern.
        """
        self.target = pat

    def parts(self):
        return [] if self.target is None else [self.target]

    target: DFPattern | None = None


class ExprPattern(DFPattern):
    """Matches expressions that are structurally equal to a given expression.

    Parameters
    ----------
    expr : RelayExpr
        The expression.
    """

    def __init__(self, expr: RelayExpr):
        self.expr = expr


class ConstantPattern(DFPattern):
    """Matches constants."""


class VarPattern(DFPattern):
    """Matches variables, optionally with a given name.

    Parameters
    ----------
    name_hint : str, optional
        The name; empty for any.
    """

    def __init__(self, name_hint: str = ""):
        self.name = name_hint


class CallPattern(DFPattern):
    """Matches calls whose operator and arguments match the given patterns.

    Parameters
    ----------
    op : DFPattern
        The pattern of the operator.
    args : list[DFPattern]
        The patterns of the arguments; None for any.
    """

    def __init__(self, op: DFPattern, args: list[DFPattern] | None):
        self.op, self.args = op, args

    def parts(self):
        return [self.op, *(self.args or [])]


class FunctionPattern(DFPattern):
    """Matches functions whose parameters and body match the given patterns.

    Parameters
    ----------
    params : list[DFPattern]
        The patterns of the parameters; None for any.
    body : DFPattern
        The pattern of the body.
    """

    def __init__(self, params: list[DFPattern] | None, body: DFPattern):
        self.params, self.body = params, body

    def parts(self):
        return [*(self.params or []), self.body]


class IfPattern(DFPattern):
    """Matches conditionals (``If``) whose parts match the given patterns.

    Parameters
    ----------
    cond : DFPattern
        The pattern of the condition.
    true_branch : DFPattern
        The pattern of the value if the condition is true.
    false_branch : DFPattern
        The pattern of the value if the condition is false.
    """

    def __init__(self, cond: DFPattern, true_branch: DFPattern, false_branch: DFPattern):
        self.cond, self.true_branch, self.false_branch = cond, true_branch, false_branch

    def parts(self):
        return [self.cond, self.true_branch, self.false_branch]


class LetPattern(DFPattern):
    """Matches let expressions whose parts match the given patterns.

    Parameters
    ----------
    var : DFPattern
        The pattern of the variable.
    value : DFPattern
        The pattern of the value.
    body : DFPattern
        The pattern of the body.
    """

    def __init__(self, var: DFPattern, value: DFPattern, body: DFPattern):
        self.var, self.value, self.body = var, value, body

    def parts(self):
        return [self.var, self.value, self.body]


class TuplePattern(DFPattern):
    """Matches tuples whose fields match the given patterns.

    Parameters
    ----------
    fields : list[DFPattern]
        The patterns of the fields; None for any.
    """

    def __init__(self, fields: list[DFPattern] | None):
        self.fields = fields

    def parts(self):
        return list(self.fields or [])


class TupleGetItemPattern(DFPattern):
    """Matches the access to a field of a tuple.

    Parameters
    ----------
    tuple_value : DFPattern
        The pattern of the tuple.
    index : int, optional
        The index of the field; None for any.
    """

    def __init__(self, tuple_value: DFPattern, index: int | None = None):
        self.tuple, self.index = tuple_value, -1 if index is None else index

    def parts(self):
        return [self.tuple]


class AltPattern(DFPattern):
    """Matches an expression if one of two patterns matches; the left one is tried first.

    Parameters
    ----------
    left : DFPattern
        The pattern to try first.
    right : DFPattern
        The pattern to try second.
    """

    def __init__(self, left: DFPattern, right: DFPattern):
        self.left, self.right = left, right

    def parts(self):
        return [self.left, self.right]


class _Around(DFPattern):
    """A pattern with an additional condition."""

    def __init__(self, pattern: DFPattern):
        self.pattern = pattern

    def parts(self):
        return [self.pattern]

    def holds(self, e: RelayExpr) -> bool:
        """Return whether an expression that the inner pattern matches meets the additional condition.

        Parameters
        ----------
        e : RelayExpr
            The expression.

        Returns
        -------
        bool
            False if the condition depends on the type and the type cannot be inferred.

        Raises
        ------
        NotImplementedError
            The class does not define this method.
        """
        raise NotImplementedError(type(self).__name__)


class AttrPattern(_Around):
    """Matches calls, operators and functions that match ``pattern`` and have the given attributes.

    Parameters
    ----------
    pattern : DFPattern
        The inner pattern.
    attrs : dict
        The attributes by name.
    """

    def __init__(self, pattern: DFPattern, attrs: dict[str, Any]):
        super().__init__(pattern)
        self.attrs = dict(attrs)

    def holds(self, e: RelayExpr) -> bool:
        if isinstance(e, Op):
            return all(e.attrs.get(k) == v for k, v in self.attrs.items())
        have = getattr(e, "attrs", None)
        return have is not None and all(k in have and _plain(have[k]) == _plain(v) for k, v in self.attrs.items())


class TypePattern(_Around):
    """Matches expressions that match ``pattern`` and have the given type.

    Parameters
    ----------
    pattern : DFPattern
        The inner pattern.
    ttype : Type
        The type.
    """

    def __init__(self, pattern: DFPattern, ttype: Type):
        super().__init__(pattern)
        self.type = ttype

    def holds(self, e: RelayExpr) -> bool:
        return structural_equal(_type(e), self.type)


class DataTypePattern(_Around):
    """Matches expressions that match ``pattern`` and have the given element type.

    Parameters
    ----------
    pattern : DFPattern
        The inner pattern.
    dtype : str
        The element type.
    """

    def __init__(self, pattern: DFPattern, dtype: str):
        super().__init__(pattern)
        self.dtype = str(dtype)

    def holds(self, e: RelayExpr) -> bool:
        t = _type(e)
        return isinstance(t, TensorType) and t.dtype == self.dtype


class ShapePattern(_Around):
    """Matches expressions that match ``pattern`` and have the given shape.

    Parameters
    ----------
    pattern : DFPattern
        The inner pattern.
    shape : tuple of int or PrimExpr
        The size of each dimension.
    """

    def __init__(self, pattern: DFPattern, shape):
        super().__init__(pattern)
        self.shape = tuple(shape)

    def holds(self, e: RelayExpr) -> bool:
        t = _type(e)
        return (
            isinstance(t, TensorType)
            and len(t.shape) == len(self.shape)
            and all(_plain(a) == _plain(b) for a, b in zip(t.shape, self.shape))
        )


class DominatorPattern(DFPattern):
    """Matches an expression (``child``) that all uses of ``parent`` lead to, through expressions that match ``path``.

    Parameters
    ----------
    parent : DFPattern
        The pattern of the expression that dominates.
    path : DFPattern
        The pattern of the expressions between parent and child.
    child : DFPattern
        The pattern of the final expression.
    """

    def __init__(self, parent: DFPattern, path: DFPattern, child: DFPattern):
        self.parent, self.path, self.child = parent, path, child

    def parts(self):
        return [self.parent, self.path, self.child]


def _plain(value: Any) -> Any:
    if isinstance(value, IntImm) or hasattr(value, "value") and isinstance(value, PrimExpr):
        return value.value
    if isinstance(value, (list, tuple)):
        return tuple(_plain(v) for v in value)
    return value


def _type(e: RelayExpr) -> Type | None:
    if getattr(e, "checked_type_", None) is None and not isinstance(e, Op):
        try:
            infer_type(e)
        except TVMError:
            return None
    return getattr(e, "checked_type_", None)


def wildcard() -> WildcardPattern:
    """Return a pattern that matches any expression.

    Returns
    -------
    WildcardPattern
        The pattern.
    """
    return WildcardPattern()


def is_op(op_name: str) -> ExprPattern:
    """Return a pattern of an operator. Call it with the patterns of the arguments.

    Parameters
    ----------
    op_name : str
        The name of the operator.

    Returns
    -------
    ExprPattern
        The pattern.

    Examples
    --------
    >>> relay.dataflow_pattern.is_op("exp")(relay.dataflow_pattern.wildcard()).match(relay.exp(relay.var("x")))
    True
    """
    return ExprPattern(Op.get(op_name))


def is_expr(expr: RelayExpr) -> ExprPattern:
    """Return a pattern of expressions that are structurally equal to ``expr``.

    Parameters
    ----------
    expr : RelayExpr
        The expression.

    Returns
    -------
    ExprPattern
        The pattern.
    """
    return ExprPattern(expr)


def is_var(name: str = "") -> VarPattern:
    """Return a pattern of variables.

    Parameters
    ----------
    name : str, optional
        The name; empty for any.

    Returns
    -------
    VarPattern
        The pattern.
    """
    return VarPattern(name)


def is_constant() -> ConstantPattern:
    """Return a pattern of constants.

    Returns
    -------
    ConstantPattern
        The pattern.
    """
    return ConstantPattern()


def is_tuple(fields=None) -> TuplePattern:
    """Return a pattern of tuples.

    Parameters
    ----------
    fields : list of DFPattern, optional
        The patterns of the fields; None for any.

    Returns
    -------
    TuplePattern
        The pattern.
    """
    return TuplePattern(fields)


def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> TupleGetItemPattern:
    """Return a pattern of the access to a tuple's field.

    Parameters
    ----------
    tuple_value : DFPattern
        The pattern of the tuple.
    index : int, optional
        The index of the field; None for any.

    Returns
    -------
    TupleGetItemPattern
        The pattern.
    """
    return TupleGetItemPattern(tuple_value, index)


def is_if(cond, true_branch, false_branch) -> IfPattern:
    """Return a pattern of conditionals (``If``).

    Parameters
    ----------
    cond : DFPattern
        The pattern of the condition.
    true_branch : DFPattern
        The pattern of the value if the condition is true.
    false_branch : DFPattern
        The pattern of the value if the condition is false.

    Returns
    -------
    IfPattern
        The pattern.
    """
    return IfPattern(cond, true_branch, false_branch)


def is_let(var, value, body) -> LetPattern:
    """Return a pattern of let expressions.

    Parameters
    ----------
    var : DFPattern
        The pattern of the variable.
    value : DFPattern
        The pattern of the value.
    body : DFPattern
        The pattern of the body.

    Returns
    -------
    LetPattern
        The pattern.
    """
    return LetPattern(var, value, body)


def has_type(ttype, pattern: DFPattern | None = None) -> TypePattern:
    """Return a pattern of expressions of the given type.

    Parameters
    ----------
    ttype : Type
        The type.
    pattern : DFPattern, optional
        A pattern that must match, too.

    Returns
    -------
    TypePattern
        The pattern.
    """
    return TypePattern(pattern or wildcard(), ttype)


def has_dtype(dtype: str, pattern: DFPattern | None = None) -> DataTypePattern:
    """Return a pattern of expressions of the given element type.

    Parameters
    ----------
    dtype : str
        The element type.
    pattern : DFPattern, optional
        A pattern that must match, too.

    Returns
    -------
    DataTypePattern
        The pattern.
    """
    return DataTypePattern(pattern or wildcard(), dtype)


def has_shape(shape, pattern: DFPattern | None = None) -> ShapePattern:
    """Return a pattern of expressions of the given shape.

    Parameters
    ----------
    shape : tuple of int or PrimExpr
        The size of each dimension.
    pattern : DFPattern, optional
        A pattern that must match, too.

    Returns
    -------
    ShapePattern
        The pattern.
    """
    return ShapePattern(pattern or wildcard(), shape)


def has_attr(attrs: dict, pattern: DFPattern | None = None) -> AttrPattern:
    """Return a pattern of calls, operators or functions with the given attributes.

    Parameters
    ----------
    attrs : dict
        The attributes by name.
    pattern : DFPattern, optional
        A pattern that must match, too.

    Returns
    -------
    AttrPattern
        The pattern.
    """
    return AttrPattern(pattern or wildcard(), attrs)


def dominates(parent: DFPattern, path: DFPattern, child: DFPattern) -> DominatorPattern:
    """Return a pattern of an expression that all uses of ``parent`` lead to through ``path``.

    Parameters
    ----------
    parent : DFPattern
        The pattern of the expression that dominates.
    path : DFPattern
        The pattern of the expressions between parent and child.
    child : DFPattern
        The pattern of the final expression.

    Returns
    -------
    DominatorPattern
        The pattern.
    """
    return DominatorPattern(parent, path, child)

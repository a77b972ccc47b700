"""Patterns, and the functions that make them.

A pattern matches an expression when its own test holds and its parts match the parts of the expression; one pattern
object stands for one expression, so using it twice demands the same expression twice.
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
    """Base of patterns. Operators of Python on patterns make patterns of the relay operators."""

    def __call__(self, *args) -> CallPattern:
        """A call of this pattern; ``pattern(None)`` matches calls with any arguments."""
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
        """This pattern of calls, or functions, with certain attributes.

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
        """This pattern of a certain type.

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
        """This pattern of a certain element type.

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
        """This pattern of a certain shape.

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
        """This pattern, or what ``option_constructor`` puts around it.

        Parameters
        ----------
        option_constructor : Callable
            Gives the pattern around this one.

        Returns
        -------
        DFPattern
            The pattern.
        """
        return AltPattern(option_constructor(self), self)

    def dominates(self, parent: DFPattern, path: DFPattern | None = None) -> DominatorPattern:
        """This pattern as the end of all ways that lead from ``parent`` through ``path``.

        Parameters
        ----------
        parent : DFPattern
            Where the ways begin.
        path : DFPattern, optional
            What they go through; anything by default.

        Returns
        -------
        DominatorPattern
            The pattern.
        """
        return DominatorPattern(parent, wildcard() if path is None else path, self)

    def match(self, expr: RelayExpr) -> bool:
        """Whether the expression matches.

        Parameters
        ----------
        expr : RelayExpr
            The expression.

        Returns
        -------
        bool
            Whether it does.
        """
        from .matching import match

        return match(self, expr)

    def rewrite(self, callback: DFPatternCallback, expr: RelayExpr) -> RelayExpr:
        """The expression with what matches replaced by ``callback``.

        Parameters
        ----------
        callback : DFPatternCallback
            What gives the replacement.
        expr : RelayExpr
            The expression.

        Returns
        -------
        RelayExpr
            The expression after it.
        """
        from .rewriting import rewrite

        return rewrite(callback, expr)

    def partition(
        self, expr: RelayExpr, attrs: dict | None = None, check: Callable[[RelayExpr], bool] = lambda x: True
    ):
        """The expression with what matches moved into functions.

        Parameters
        ----------
        expr : RelayExpr
            The expression.
        attrs : dict, optional
            Attributes of the functions.
        check : Callable
            Whether a match is to be moved.

        Returns
        -------
        RelayExpr
            The expression after it.
        """
        from .rewriting import partition

        return partition(self, expr, attrs, check)

    def astext(self, show_meta_data: Any = True, annotate: Callable[[DFPattern], str] | None = None) -> str:
        """The text of the pattern: a line for each pattern inside it that has parts or is used again, then its own.

        Parameters
        ----------
        show_meta_data : bool, optional
            Patterns have none; as for expressions.
        annotate : callable, optional
            Gives a comment for the line of each pattern.

        Returns
        -------
        str

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
        """Patterns inside this one.

        Returns
        -------
        list of DFPattern
            The patterns.
        """
        return []


class WildcardPattern(DFPattern):
    """Matches everything."""

    def redirect_to(self, pat: DFPattern) -> None:
        """Let this pattern stand for another: for patterns that refer to themselves.

        Parameters
        ----------
        pat : DFPattern
            The pattern it stands for, which may contain this one.
        """
        self.target = pat

    def parts(self):
        return [] if self.target is None else [self.target]

    target: DFPattern | None = None


class ExprPattern(DFPattern):
    """Matches expressions equal to one given.

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
    """Matches variables, of one name if given.

    Parameters
    ----------
    name_hint : str, optional
        The name; empty for any.
    """

    def __init__(self, name_hint: str = ""):
        self.name = name_hint


class CallPattern(DFPattern):
    """Matches calls whose operator and arguments match.

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
    """Matches functions whose parameters and body match.

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
    """Matches conditionals whose parts match.

    Parameters
    ----------
    cond : DFPattern
        The condition.
    true_branch : DFPattern
        The value where the condition holds.
    false_branch : DFPattern
        The value elsewhere.
    """

    def __init__(self, cond: DFPattern, true_branch: DFPattern, false_branch: DFPattern):
        self.cond, self.true_branch, self.false_branch = cond, true_branch, false_branch

    def parts(self):
        return [self.cond, self.true_branch, self.false_branch]


class LetPattern(DFPattern):
    """Matches lets whose parts match.

    Parameters
    ----------
    var : DFPattern
        The variable.
    value : DFPattern
        The pattern of the value.
    body : DFPattern
        What follows.
    """

    def __init__(self, var: DFPattern, value: DFPattern, body: DFPattern):
        self.var, self.value, self.body = var, value, body

    def parts(self):
        return [self.var, self.value, self.body]


class TuplePattern(DFPattern):
    """Matches tuples whose fields match.

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
    """Matches a field of a tuple that matches.

    Parameters
    ----------
    tuple_value : DFPattern
        The tuple.
    index : int, optional
        Which field; None for any.
    """

    def __init__(self, tuple_value: DFPattern, index: int | None = None):
        self.tuple, self.index = tuple_value, -1 if index is None else index

    def parts(self):
        return [self.tuple]


class AltPattern(DFPattern):
    """Matches what either side matches; the left one is tried first.

    Parameters
    ----------
    left : DFPattern
        What is tried first.
    right : DFPattern
        What is tried then.
    """

    def __init__(self, left: DFPattern, right: DFPattern):
        self.left, self.right = left, right

    def parts(self):
        return [self.left, self.right]


class _Around(DFPattern):
    """A pattern with a further test."""

    def __init__(self, pattern: DFPattern):
        self.pattern = pattern

    def parts(self):
        return [self.pattern]

    def holds(self, e: RelayExpr) -> bool:
        """Whether an expression that the pattern inside matches passes the further test.

        Parameters
        ----------
        e : RelayExpr
            The expression.

        Returns
        -------
        bool
            False also where the test is one of the type, and it cannot be inferred.

        Raises
        ------
        NotImplementedError
            The class does not define it.
        """
        raise NotImplementedError(type(self).__name__)


class AttrPattern(_Around):
    """Matches calls, operators and functions with these attributes.

    Parameters
    ----------
    pattern : DFPattern
        The pattern.
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
    """Matches what ``pattern`` does where the type is this.

    Parameters
    ----------
    pattern : DFPattern
        The pattern.
    ttype : Type
        The type.
    """

    def __init__(self, pattern: DFPattern, ttype: Type):
        super().__init__(pattern)
        self.type = ttype

    def holds(self, e: RelayExpr) -> bool:
        return structural_equal(_type(e), self.type)


class DataTypePattern(_Around):
    """Matches what ``pattern`` does where the element type is this.

    Parameters
    ----------
    pattern : DFPattern
        The pattern.
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
    """Matches what ``pattern`` does where the shape is this.

    Parameters
    ----------
    pattern : DFPattern
        The pattern.
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
    """``child`` uses what ``parent`` produces, and every use of the parent leads through ``path`` to the child.

    Parameters
    ----------
    parent : DFPattern
        What is produced.
    path : DFPattern
        What lies on the way.
    child : DFPattern
        What uses it.
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
    """A pattern for everything.

    Returns
    -------
    WildcardPattern
    """
    return WildcardPattern()


def is_op(op_name: str) -> ExprPattern:
    """Matches an operator; call it with patterns of the inputs.

    Parameters
    ----------
    op_name : str
        The name of the operator.

    Returns
    -------
    ExprPattern

    Examples
    --------
    >>> relay.dataflow_pattern.is_op("exp")(relay.dataflow_pattern.wildcard()).match(relay.exp(relay.var("x")))
    True
    """
    return ExprPattern(Op.get(op_name))


def is_expr(expr: RelayExpr) -> ExprPattern:
    """A pattern for expressions equal to one given.

    Parameters
    ----------
    expr : RelayExpr
        The expression.

    Returns
    -------
    ExprPattern
    """
    return ExprPattern(expr)


def is_var(name: str = "") -> VarPattern:
    """A pattern for variables.

    Parameters
    ----------
    name : str, optional
        The name; empty for any.

    Returns
    -------
    VarPattern
    """
    return VarPattern(name)


def is_constant() -> ConstantPattern:
    """A pattern for constants.

    Returns
    -------
    ConstantPattern
    """
    return ConstantPattern()


def is_tuple(fields=None) -> TuplePattern:
    """A pattern for tuples.

    Parameters
    ----------
    fields : list of DFPattern, optional
        The patterns of the fields; None for any.

    Returns
    -------
    TuplePattern
    """
    return TuplePattern(fields)


def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> TupleGetItemPattern:
    """A pattern for a field of a tuple.

    Parameters
    ----------
    tuple_value : DFPattern
        The tuple.
    index : int, optional
        Which field; None for any.

    Returns
    -------
    TupleGetItemPattern
    """
    return TupleGetItemPattern(tuple_value, index)


def is_if(cond, true_branch, false_branch) -> IfPattern:
    """A pattern for conditionals.

    Parameters
    ----------
    cond : DFPattern
        The pattern of the condition.
    true_branch : DFPattern
        The pattern of the value where it holds.
    false_branch : DFPattern
        The pattern of the other value.

    Returns
    -------
    IfPattern
    """
    return IfPattern(cond, true_branch, false_branch)


def is_let(var, value, body) -> LetPattern:
    """A pattern for lets.

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
    """
    return LetPattern(var, value, body)


def has_type(ttype, pattern: DFPattern | None = None) -> TypePattern:
    """A pattern for what has this type.

    Parameters
    ----------
    ttype : Type
        The type.
    pattern : DFPattern, optional
        What must match besides.

    Returns
    -------
    TypePattern
    """
    return TypePattern(pattern or wildcard(), ttype)


def has_dtype(dtype: str, pattern: DFPattern | None = None) -> DataTypePattern:
    """A pattern for what has this element type.

    Parameters
    ----------
    dtype : str
        The element type.
    pattern : DFPattern, optional
        What must match besides.

    Returns
    -------
    DataTypePattern
    """
    return DataTypePattern(pattern or wildcard(), dtype)


def has_shape(shape, pattern: DFPattern | None = None) -> ShapePattern:
    """A pattern for what has this shape.

    Parameters
    ----------
    shape : tuple of int or PrimExpr
        The size of each dimension.
    pattern : DFPattern, optional
        What must match besides.

    Returns
    -------
    ShapePattern
    """
    return ShapePattern(pattern or wildcard(), shape)


def has_attr(attrs: dict, pattern: DFPattern | None = None) -> AttrPattern:
    """A pattern for what has these attributes.

    Parameters
    ----------
    attrs : dict
        The attributes by name.
    pattern : DFPattern, optional
        What must match besides.

    Returns
    -------
    AttrPattern
    """
    return AttrPattern(pattern or wildcard(), attrs)


def dominates(parent: DFPattern, path: DFPattern, child: DFPattern) -> DominatorPattern:
    """A pattern for what every use of ``parent`` leads to.

    Parameters
    ----------
    parent : DFPattern
        What is produced.
    path : DFPattern
        What lies on the way.
    child : DFPattern
        What uses it.

    Returns
    -------
    DominatorPattern
    """
    return DominatorPattern(parent, path, child)

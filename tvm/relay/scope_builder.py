"""Build graphs with lets and branches in the order of their evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..ir.type import FuncType, TupleType, Type
from .expr import Call, Function, GlobalVar, If, Let, RelayExpr, Tuple, TupleWrapper, Var


class _Frame:
    """A scope with its let bindings, the condition of its branches, and its value."""

    def __init__(self) -> None:
        self.bindings: list[tuple[Var, RelayExpr]] = []
        self.condition: RelayExpr | None = None
        self.then: RelayExpr | None = None
        self.value: RelayExpr | None = None

    def expression(self) -> RelayExpr:
        if self.value is None:
            raise RuntimeError("ScopeBuilder: the scope has no value; end it with ret(value)")
        made = self.value
        for variable, bound in reversed(self.bindings):
            made = Let(variable, bound, made)
        return made


def _expression(value: Any) -> RelayExpr:
    if isinstance(value, TupleWrapper):
        return value.astuple()
    if isinstance(value, (list, tuple)):
        return Tuple([_expression(v) for v in value])
    return value


class ScopeBuilder:
    """Builds an expression from scopes.

    ``sb.let("t", x + y)`` binds a variable, ``sb.if_scope(c)`` and ``sb.else_scope()`` create branches, ``sb.ret(v)``
    sets the value of a scope, and ``sb.get()`` returns the whole expression.
    """

    def __init__(self) -> None:
        self._frames = [_Frame()]

    def let(self, var: Var | str, value: Any) -> Var:
        """Bind a value to a variable, which is visible in the rest of the scope.

        Parameters
        ----------
        var : Var or str
            The variable, or its name.
        value : RelayExpr
            The value.

        Returns
        -------
        Var
            The variable.
        """
        variable = Var(var) if isinstance(var, str) else var
        self._frames[-1].bindings.append((variable, _expression(value)))
        return variable

    @contextmanager
    def if_scope(self, cond: RelayExpr) -> Iterator[None]:
        """Open the scope of the true branch of a condition.

        Parameters
        ----------
        cond : RelayExpr
            The condition.

        Raises
        ------
        RuntimeError
            A previous ``if_scope`` has no ``else_scope``.
        """
        frame = self._frames[-1]
        if frame.condition is not None:
            raise RuntimeError("ScopeBuilder: an if_scope must be followed by its else_scope")
        frame.condition = cond
        self._frames.append(_Frame())
        yield
        frame.then = self._frames.pop().expression()

    @contextmanager
    def else_scope(self) -> Iterator[None]:
        """Open the scope of the false branch of the preceding ``if_scope``.

        Raises
        ------
        RuntimeError
            There is no preceding ``if_scope``.
        """
        frame = self._frames[-1]
        if frame.condition is None or frame.then is None:
            raise RuntimeError("ScopeBuilder: an else_scope must follow an if_scope")
        self._frames.append(_Frame())
        yield
        frame.value = If(frame.condition, frame.then, self._frames.pop().expression())
        frame.condition = frame.then = None

    def ret(self, value: Any) -> None:
        """Set the value of the scope.

        Parameters
        ----------
        value : RelayExpr
            The value.
        """
        self._frames[-1].value = _expression(value)

    def get(self) -> RelayExpr:
        """Return the expression that was built.

        Returns
        -------
        RelayExpr
            The expression.

        Raises
        ------
        RuntimeError
            A scope has no value, or has not been closed.
        """
        if len(self._frames) != 1:
            raise RuntimeError("ScopeBuilder: get() must not be called inside an if_scope or else_scope")
        return self._frames[0].expression()

    def type_of(self, expr: RelayExpr) -> Type | None:
        """Return the type of an expression if annotations determine it, else None.

        Parameters
        ----------
        expr : RelayExpr
            The expression.

        Returns
        -------
        Type, optional
            The type.
        """
        if isinstance(expr, Var):
            return expr.type_annotation
        if isinstance(expr, Function):
            return FuncType(tuple(p.type_annotation for p in expr.params), expr.ret_type, expr.type_params)
        if isinstance(expr, Tuple):
            fields = [self.type_of(f) for f in expr.fields]
            return None if any(f is None for f in fields) else TupleType(tuple(fields))
        if isinstance(expr, Call) and isinstance(expr.op, GlobalVar):
            return expr.op.checked_type_.ret_type if isinstance(expr.op.checked_type_, FuncType) else None
        return expr.checked_type_


__all__ = ["ScopeBuilder"]

"""Graphs with lets and branches, written in the order of their computation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..ir.type import FuncType, TupleType, Type
from .expr import Call, Function, GlobalVar, If, Let, RelayExpr, Tuple, TupleWrapper, Var


class _Frame:
    """A scope: the lets in it, the condition of its branches, and its value."""

    def __init__(self) -> None:
        self.bindings: list[tuple[Var, RelayExpr]] = []
        self.condition: RelayExpr | None = None
        self.then: RelayExpr | None = None
        self.value: RelayExpr | None = None

    def expression(self) -> RelayExpr:
        if self.value is None:
            raise RuntimeError("ScopeBuilder: the scope gives nothing; end it with ret(value)")
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
    """``sb.let("t", x + y)`` names a value, ``sb.if_scope(c)`` and ``sb.else_scope()`` branch, ``sb.ret(v)`` gives the
    value of a scope, and ``sb.get()`` the whole."""

    def __init__(self) -> None:
        self._frames = [_Frame()]

    def let(self, var: Var | str, value: Any) -> Var:
        """Name a value; the variable stands for it from here on.

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
        """What is computed where the condition holds.

        Parameters
        ----------
        cond : RelayExpr
            The condition.

        Raises
        ------
        RuntimeError
            An ``if_scope`` before it has no ``else_scope``.
        """
        frame = self._frames[-1]
        if frame.condition is not None:
            raise RuntimeError("ScopeBuilder: an if_scope is followed by its else_scope")
        frame.condition = cond
        self._frames.append(_Frame())
        yield
        frame.then = self._frames.pop().expression()

    @contextmanager
    def else_scope(self) -> Iterator[None]:
        """What is computed where the condition of the if_scope before does not hold.

        Raises
        ------
        RuntimeError
            There is no ``if_scope`` before it.
        """
        frame = self._frames[-1]
        if frame.condition is None or frame.then is None:
            raise RuntimeError("ScopeBuilder: an else_scope follows an if_scope")
        self._frames.append(_Frame())
        yield
        frame.value = If(frame.condition, frame.then, self._frames.pop().expression())
        frame.condition = frame.then = None

    def ret(self, value: Any) -> None:
        """The value of the scope.

        Parameters
        ----------
        value : RelayExpr
            The value.
        """
        self._frames[-1].value = _expression(value)

    def get(self) -> RelayExpr:
        """The expression that was built.

        Returns
        -------
        RelayExpr
            The expression.

        Raises
        ------
        RuntimeError
            A scope has no value, or is still open.
        """
        if len(self._frames) != 1:
            raise RuntimeError("ScopeBuilder: get() inside an if_scope or else_scope")
        return self._frames[0].expression()

    def type_of(self, expr: RelayExpr) -> Type | None:
        """The type of an expression as far as annotations tell it; None where they do not.

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

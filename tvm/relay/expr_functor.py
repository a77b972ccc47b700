"""Visitors and mutators of graphs under TVM's names.

Operands are visited before their users from a stack of our own, so when a method of a subclass asks for an operand it
is found in the memo: chains of thousands of operators do not nest calls.
"""

from __future__ import annotations

from typing import Any

from ..ir.adt import Constructor
from ..ir.module import GlobalVar
from ..ir.op import Op
from ..ir.visit import post_order
from .adt import Clause, Match
from .expr import (
    Call,
    Constant,
    Function,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    RelayExpr,
    TempExpr,
    Tuple,
    TupleGetItem,
    Var,
)

_METHODS = {
    Function: "visit_function",
    Call: "visit_call",
    Let: "visit_let",
    Var: "visit_var",
    GlobalVar: "visit_global_var",
    If: "visit_if",
    Tuple: "visit_tuple",
    TupleGetItem: "visit_tuple_getitem",
    Constant: "visit_constant",
    Op: "visit_op",
    RefCreate: "visit_ref_create",
    RefRead: "visit_ref_read",
    RefWrite: "visit_ref_write",
    Constructor: "visit_constructor",
    Match: "visit_match",
}


class ExprFunctor:
    """Calls the method for the class of an expression, once for each expression."""

    def __init__(self):
        self.memo_map: dict[RelayExpr, Any] = {}
        self._depth = 0

    def visit(self, expr: RelayExpr) -> Any:
        """The result for an expression; remembered.

        Parameters
        ----------
        expr : RelayExpr
            The expression.

        Returns
        -------
        Any
            What the method for its class gave the first time.

        Raises
        ------
        TypeError
            It is no expression that a method is for.
        """
        if expr in self.memo_map:
            return self.memo_map[expr]
        if self._depth >= 50:
            # So deep only where methods descend by themselves; from here on operands go first.
            self._prepare(expr)
            if expr in self.memo_map:
                return self.memo_map[expr]
        self._depth += 1
        try:
            result = self._dispatch(expr)
        finally:
            self._depth -= 1
        self.memo_map[expr] = result
        return result

    def _dispatch(self, expr: RelayExpr) -> Any:
        name = _METHODS.get(type(expr))
        if name is None:
            if isinstance(expr, TempExpr):
                return self.visit(expr.realize())
            raise TypeError(f"no method of {type(self).__name__} visits {type(expr).__name__}")
        return getattr(self, name)(expr)

    def _prepare(self, root: RelayExpr) -> None:
        """Visit what lies below ``root``, operands first; branches and bodies too, for subclasses visit all of it."""

        def below(node: RelayExpr) -> list[Any]:
            parts = [c.rhs if isinstance(c, Clause) else c for c in node.children()]
            return [p for p in parts if p not in self.memo_map]

        held, self._depth = self._depth, 0
        try:
            for node in post_order(root, operands=below):
                if node not in self.memo_map:
                    self.memo_map[node] = self._dispatch(node)
        finally:
            self._depth = held

    def _unknown(self, expr: RelayExpr) -> Any:
        """What stands for an expression of one class; subclasses define it for each class that they meet.

        Parameters
        ----------
        expr : RelayExpr
            The expression.

        Returns
        -------
        Any

        Raises
        ------
        NotImplementedError
            The subclass does not define it.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define {_METHODS[type(expr)]}")

    visit_function = visit_call = visit_let = visit_var = visit_global_var = visit_if = visit_tuple = _unknown
    visit_tuple_getitem = visit_constant = visit_op = visit_ref_create = visit_ref_read = visit_ref_write = _unknown
    visit_constructor = visit_match = visit_type = _unknown


class ExprVisitor(ExprFunctor):
    """Looks at every expression once; subclasses define what they care about."""

    def visit_tuple(self, tup):
        """Visit a tuple: what it is made of.

        Parameters
        ----------
        tup : Tuple
            The expression.
        """
        for field in tup.fields:
            self.visit(field)

    def visit_call(self, call):
        """Visit a call: what it is made of.

        Parameters
        ----------
        call : Call
            The expression.
        """
        self.visit(call.op)
        for arg in call.args:
            self.visit(arg)

    def visit_var(self, var):
        """Visit a variable.

        Parameters
        ----------
        var : Var
            The expression.
        """

    def visit_let(self, let):
        """Visit a let: what it is made of.

        Parameters
        ----------
        let : Let
            The expression.
        """
        self.visit(let.var)
        self.visit(let.value)
        self.visit(let.body)

    def visit_function(self, fn):
        """Visit a function: what it is made of.

        Parameters
        ----------
        fn : Function
            The expression.
        """
        for param in fn.params:
            self.visit(param)
        self.visit(fn.body)

    def visit_if(self, i):
        """Visit an if: what it is made of.

        Parameters
        ----------
        i : If
            The expression.
        """
        self.visit(i.cond)
        self.visit(i.true_branch)
        self.visit(i.false_branch)

    def visit_global_var(self, gv):
        """Visit the name of a function.

        Parameters
        ----------
        gv : GlobalVar
            The expression.
        """

    visit_constructor = visit_op = visit_constant = visit_global_var

    def visit_ref_create(self, r):
        """Visit a new reference: what it is made of.

        Parameters
        ----------
        r : RefCreate
            The expression.
        """
        self.visit(r.value)

    def visit_ref_read(self, r):
        """Visit the value of a reference: what it is made of.

        Parameters
        ----------
        r : RefRead
            The expression.
        """
        self.visit(r.ref)

    def visit_ref_write(self, r):
        """Visit a write to a reference: what it is made of.

        Parameters
        ----------
        r : RefWrite
            The expression.
        """
        self.visit(r.ref)
        self.visit(r.value)

    def visit_tuple_getitem(self, t):
        """Visit a field of a tuple: what it is made of.

        Parameters
        ----------
        t : TupleGetItem
            The expression.
        """
        self.visit(t.tuple_value)

    def visit_match(self, m):
        """Visit a match: what it is made of.

        Parameters
        ----------
        m : Match
            The expression.
        """
        self.visit(m.data)
        for clause in m.clauses:
            self.visit(clause.rhs)


class ExprMutator(ExprFunctor):
    """Rebuilds a graph; subclasses change what they care about."""

    def visit_function(self, fn):
        """What stands for a function.

        Parameters
        ----------
        fn : Function
            The expression.

        Returns
        -------
        RelayExpr
            One whose operands were visited; the same where none changed.
        """
        params = [self.visit(p) for p in fn.params]
        body = self.visit(fn.body)
        if body is fn.body and all(a is b for a, b in zip(params, fn.params)):
            return fn
        return Function(params, body, fn.ret_type, fn.type_params, fn.attrs, fn.span)

    def visit_let(self, let):
        """What stands for a let.

        Parameters
        ----------
        let : Let
            The expression.

        Returns
        -------
        RelayExpr
            One whose operands were visited; the same where none changed.
        """
        return _same(let, Let(self.visit(let.var), self.visit(let.value), self.visit(let.body), let.span))

    def visit_call(self, call):
        """What stands for a call.

        Parameters
        ----------
        call : Call
            The expression.

        Returns
        -------
        RelayExpr
            One whose operands were visited; the same where none changed.
        """
        op = self.visit(call.op)
        args = [self.visit(a) for a in call.args]
        return _same(call, Call(op, args, call.attrs, call.type_args, call.span))

    def visit_var(self, var):
        """What stands for a variable.

        Parameters
        ----------
        var : Var
            The expression.

        Returns
        -------
        RelayExpr
            One whose operands were visited; the same where none changed.
        """
        return var

    def visit_global_var(self, gv):
        """What stands for the name of a function.

        Parameters
        ----------
        gv : GlobalVar
            The expression.

        Returns
        -------
        RelayExpr
            One whose operands were visited; the same where none changed.
        """
        return gv

    visit_constructor = visit_op = visit_constant = visit_global_id = visit_global_var

    def visit_if(self, ite):
        """What stands for an if.

        Parameters
        ----------
        ite : If
            The expression.

        Returns
        -------
        RelayExpr
            One whose operands were visited; the same where none changed.
        """
        return _same(ite, If(self.visit(ite.cond), self.visit(ite.true_branch), self.visit(ite.false_branch), ite.span))

    def visit_tuple(self, tup):
        """What stands for a tuple.

        Parameters
        ----------
        tup : Tuple
            The expression.

        Returns
        -------
        RelayExpr
            One whose operands were visited; the same where none changed.
        """
        return _same(tup, Tuple([self.visit(f) for f in tup.fields], tup.span))

    def visit_tuple_getitem(self, op):
        """What stands for a field of a tuple.

        Parameters
        ----------
        op : TupleGetItem
            The expression.

        Returns
        -------
        RelayExpr
            One whose operands were visited; the same where none changed.
        """
        source = self.visit(op.tuple_value)
        return op if source is op.tuple_value else TupleGetItem(source, op.index, op.span)

    def visit_ref_create(self, r):
        """What stands for a new reference.

        Parameters
        ----------
        r : RefCreate
            The expression.

        Returns
        -------
        RelayExpr
            One whose operands were visited; the same where none changed.
        """
        return _same(r, RefCreate(self.visit(r.value)))

    def visit_ref_read(self, r):
        """What stands for the value of a reference.

        Parameters
        ----------
        r : RefRead
            The expression.

        Returns
        -------
        RelayExpr
            One whose operands were visited; the same where none changed.
        """
        return _same(r, RefRead(self.visit(r.ref)))

    def visit_ref_write(self, r):
        """What stands for a write to a reference.

        Parameters
        ----------
        r : RefWrite
            The expression.

        Returns
        -------
        RelayExpr
            One whose operands were visited; the same where none changed.
        """
        return _same(r, RefWrite(self.visit(r.ref), self.visit(r.value)))

    def visit_match(self, m):
        """What stands for a match.

        Parameters
        ----------
        m : Match
            The expression.

        Returns
        -------
        RelayExpr
            One whose operands were visited; the same where none changed.
        """
        data, results = self.visit(m.data), [self.visit(c.rhs) for c in m.clauses]
        if data is m.data and all(result is c.rhs for result, c in zip(results, m.clauses)):
            return m
        return Match(data, [Clause(c.lhs, result) for c, result in zip(m.clauses, results)], m.complete)


def _same(old: RelayExpr, new: RelayExpr) -> RelayExpr:
    """The old node when nothing in it changed: its type stays with it."""
    kids, others = old.children(), new.children()
    if len(kids) == len(others) and all(a is b for a, b in zip(kids, others)):
        if type(old) is not Let or old.var is new.var:
            return old
    return new


class MixedModeVisitor(ExprVisitor):
    """A visitor; every visitor here is free of deep recursion, so this is one name more."""


class MixedModeMutator(ExprMutator):
    """A mutator; ``rewrite_call`` and friends may change a node whose operands are done: ``(pre, post) -> expr``."""

    def visit_call(self, call):
        return self.rewrite_call(call, super().visit_call(call))

    def visit_tuple(self, tup):
        return self.rewrite_tuple(tup, super().visit_tuple(tup))

    def visit_tuple_getitem(self, op):
        return self.rewrite_tuple_getitem(op, super().visit_tuple_getitem(op))

    def rewrite_call(self, pre, post):
        """What takes the place of a call; the call itself unless a subclass says otherwise.

        Parameters
        ----------
        pre : Call
            The call as it was.
        post : Call
            The call with its operands rewritten.

        Returns
        -------
        RelayExpr
        """
        return post

    def rewrite_tuple(self, pre, post):
        """What takes the place of a tuple; the tuple itself unless a subclass says otherwise.

        Parameters
        ----------
        pre : Tuple
            The tuple as it was.
        post : Tuple
            The tuple with its fields rewritten.

        Returns
        -------
        RelayExpr
        """
        return post

    def rewrite_tuple_getitem(self, pre, post):
        """What takes the place of a field of a tuple; the field itself unless a subclass says otherwise.

        Parameters
        ----------
        pre : TupleGetItem
            The expression as it was.
        post : TupleGetItem
            The expression with its tuple rewritten.

        Returns
        -------
        RelayExpr
        """
        return post


__all__ = ["ExprFunctor", "ExprMutator", "ExprVisitor", "MixedModeMutator", "MixedModeVisitor"]

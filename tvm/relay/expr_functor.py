"""Visitors and mutators of expressions under the names of Apache TVM.

Operands are visited before their users with an explicit stack. When a method of a subclass visits an operand, its
result is already in the memo, so that chains of thousands of operators do not cause deep recursion.
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
    """Dispatches to the method for the class of an expression, once for each expression."""

    def __init__(self):
        self.memo_map: dict[RelayExpr, Any] = {}
        self._depth = 0

    def visit(self, expr: RelayExpr) -> Any:
        """Return the memoized result for an expression.

        Parameters
        ----------
        expr : RelayExpr
            The expression.

        Returns
        -------
        Any
            The result of the method for its class.

        Raises
        ------
        TypeError
            No method handles the expression.
        """
        if expr in self.memo_map:
            return self.memo_map[expr]
        if self._depth >= 50:
            # The nesting is this deep only if methods recurse themselves; from here on operands are visited first.
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
            raise TypeError(f"{type(self).__name__} has no method for {type(expr).__name__}")
        return getattr(self, name)(expr)

    def _prepare(self, root: RelayExpr) -> None:
        """Visit all subexpressions of ``root``, operands first, including branches and bodies, which subclasses visit
        too."""

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
        """Return the result for an expression of one class; subclasses define this method for each class that they
        handle.

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
    """Visits every expression once; subclasses override the methods of interest."""

    def visit_tuple(self, tup):
        """Visit a tuple and its operands.

        Parameters
        ----------
        tup : Tuple
            The expression.
        """
        for field in tup.fields:
            self.visit(field)

    def visit_call(self, call):
        """Visit a call and its operands.

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
        """Visit a let and its operands.

        Parameters
        ----------
        let : Let
            The expression.
        """
        self.visit(let.var)
        self.visit(let.value)
        self.visit(let.body)

    def visit_function(self, fn):
        """Visit a function and its operands.

        Parameters
        ----------
        fn : Function
            The expression.
        """
        for param in fn.params:
            self.visit(param)
        self.visit(fn.body)

    def visit_if(self, i):
        """Visit an if and its operands.

        Parameters
        ----------
        i : If
            The expression.
        """
        self.visit(i.cond)
        self.visit(i.true_branch)
        self.visit(i.false_branch)

    def visit_global_var(self, gv):
        """Visit a global variable.

        Parameters
        ----------
        gv : GlobalVar
            The expression.
        """

    visit_constructor = visit_op = visit_constant = visit_global_var

    def visit_ref_create(self, r):
        """Visit the creation of a reference and its operands.

        Parameters
        ----------
        r : RefCreate
            The expression.
        """
        self.visit(r.value)

    def visit_ref_read(self, r):
        """Visit the read of a reference and its operands.

        Parameters
        ----------
        r : RefRead
            The expression.
        """
        self.visit(r.ref)

    def visit_ref_write(self, r):
        """Visit a write to a reference and its operands.

        Parameters
        ----------
        r : RefWrite
            The expression.
        """
        self.visit(r.ref)
        self.visit(r.value)

    def visit_tuple_getitem(self, t):
        """Visit a tuple access and its operands.

        Parameters
        ----------
        t : TupleGetItem
            The expression.
        """
        self.visit(t.tuple_value)

    def visit_match(self, m):
        """Visit a match and its operands.

        Parameters
        ----------
        m : Match
            The expression.
        """
        self.visit(m.data)
        for clause in m.clauses:
            self.visit(clause.rhs)


class ExprMutator(ExprFunctor):
    """Rebuilds a graph; subclasses override the methods of interest."""

    def visit_function(self, fn):
        """Return the rewritten function.

        Parameters
        ----------
        fn : Function
            The expression.

        Returns
        -------
        RelayExpr
            The expression with rewritten operands; the same object if none changed.
        """
        params = [self.visit(p) for p in fn.params]
        body = self.visit(fn.body)
        if body is fn.body and all(a is b for a, b in zip(params, fn.params)):
            return fn
        return Function(params, body, fn.ret_type, fn.type_params, fn.attrs, fn.span)

    def visit_let(self, let):
        """Return the rewritten let.

        Parameters
        ----------
        let : Let
            The expression.

        Returns
        -------
        RelayExpr
            The expression with rewritten operands; the same object if none changed.
        """
        return _same(let, Let(self.visit(let.var), self.visit(let.value), self.visit(let.body), let.span))

    def visit_call(self, call):
        """Return the rewritten call.

        Parameters
        ----------
        call : Call
            The expression.

        Returns
        -------
        RelayExpr
            The expression with rewritten operands; the same object if none changed.
        """
        op = self.visit(call.op)
        args = [self.visit(a) for a in call.args]
        return _same(call, Call(op, args, call.attrs, call.type_args, call.span))

    def visit_var(self, var):
        """Return the rewritten variable.

        Parameters
        ----------
        var : Var
            The expression.

        Returns
        -------
        RelayExpr
            The expression with rewritten operands; the same object if none changed.
        """
        return var

    def visit_global_var(self, gv):
        """Return the rewritten global variable.

        Parameters
        ----------
        gv : GlobalVar
            The expression.

        Returns
        -------
        RelayExpr
            The expression with rewritten operands; the same object if none changed.
        """
        return gv

    visit_constructor = visit_op = visit_constant = visit_global_id = visit_global_var

    def visit_if(self, ite):
        """Return the rewritten if.

        Parameters
        ----------
        ite : If
            The expression.

        Returns
        -------
        RelayExpr
            The expression with rewritten operands; the same object if none changed.
        """
        return _same(ite, If(self.visit(ite.cond), self.visit(ite.true_branch), self.visit(ite.false_branch), ite.span))

    def visit_tuple(self, tup):
        """Return the rewritten tuple.

        Parameters
        ----------
        tup : Tuple
            The expression.

        Returns
        -------
        RelayExpr
            The expression with rewritten operands; the same object if none changed.
        """
        return _same(tup, Tuple([self.visit(f) for f in tup.fields], tup.span))

    def visit_tuple_getitem(self, op):
        """Return the rewritten tuple access.

        Parameters
        ----------
        op : TupleGetItem
            The expression.

        Returns
        -------
        RelayExpr
            The expression with rewritten operands; the same object if none changed.
        """
        source = self.visit(op.tuple_value)
        return op if source is op.tuple_value else TupleGetItem(source, op.index, op.span)

    def visit_ref_create(self, r):
        """Return the rewritten creation of a reference.

        Parameters
        ----------
        r : RefCreate
            The expression.

        Returns
        -------
        RelayExpr
            The expression with rewritten operands; the same object if none changed.
        """
        return _same(r, RefCreate(self.visit(r.value)))

    def visit_ref_read(self, r):
        """Return the rewritten read of a reference.

        Parameters
        ----------
        r : RefRead
            The expression.

        Returns
        -------
        RelayExpr
            The expression with rewritten operands; the same object if none changed.
        """
        return _same(r, RefRead(self.visit(r.ref)))

    def visit_ref_write(self, r):
        """Return the rewritten write to a reference.

        Parameters
        ----------
        r : RefWrite
            The expression.

        Returns
        -------
        RelayExpr
            The expression with rewritten operands; the same object if none changed.
        """
        return _same(r, RefWrite(self.visit(r.ref), self.visit(r.value)))

    def visit_match(self, m):
        """Return the rewritten match.

        Parameters
        ----------
        m : Match
            The expression.

        Returns
        -------
        RelayExpr
            The expression with rewritten operands; the same object if none changed.
        """
        data, results = self.visit(m.data), [self.visit(c.rhs) for c in m.clauses]
        if data is m.data and all(result is c.rhs for result, c in zip(results, m.clauses)):
            return m
        return Match(data, [Clause(c.lhs, result) for c, result in zip(m.clauses, results)], m.complete)


def _same(old: RelayExpr, new: RelayExpr) -> RelayExpr:
    """Return the old node, which keeps its type, if nothing in it changed."""
    kids, others = old.children(), new.children()
    if len(kids) == len(others) and all(a is b for a, b in zip(kids, others)):
        if type(old) is not Let or old.var is new.var:
            return old
    return new


class MixedModeVisitor(ExprVisitor):
    """A visitor, equivalent to ExprVisitor, since all visitors here avoid deep recursion."""


class MixedModeMutator(ExprMutator):
    """A mutator whose methods ``rewrite_call`` and so on replace a node after its operands: ``(pre, post) -> expr``."""

    def visit_call(self, call):
        return self.rewrite_call(call, super().visit_call(call))

    def visit_tuple(self, tup):
        return self.rewrite_tuple(tup, super().visit_tuple(tup))

    def visit_tuple_getitem(self, op):
        return self.rewrite_tuple_getitem(op, super().visit_tuple_getitem(op))

    def rewrite_call(self, pre, post):
        """Return the replacement of a call; by default the call with rewritten operands.

        Parameters
        ----------
        pre : Call
            The call before the rewrite.
        post : Call
            The call with its operands rewritten.

        Returns
        -------
        RelayExpr
            The replacement.
        """
        return post

    def rewrite_tuple(self, pre, post):
        """Return the replacement of a tuple; by default the tuple with rewritten fields.

        Parameters
        ----------
        pre : Tuple
            The tuple before the rewrite.
        post : Tuple
            The tuple with its fields rewritten.

        Returns
        -------
        RelayExpr
            The replacement.
        """
        return post

    def rewrite_tuple_getitem(self, pre, post):
        """Return the replacement of a tuple access; by default the access with a rewritten tuple.

        Parameters
        ----------
        pre : TupleGetItem
            The expression before the rewrite.
        post : TupleGetItem
            The expression with its tuple rewritten.

        Returns
        -------
        RelayExpr
            The replacement.
        """
        return post


__all__ = ["ExprFunctor", "ExprMutator", "ExprVisitor", "MixedModeMutator", "MixedModeVisitor"]

"""Annotate which external compiler executes which part of a graph.

The pass inserts ``annotation.compiler_begin`` at the inputs of every operator and ``annotation.compiler_end`` at each
use of its output. Operators that no external compiler supports get the compiler name ``default``. Annotations of an
earlier run keep their compiler."""

from __future__ import annotations

from typing import Any

from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.transform import PassContext
from ...ir.visit import post_order
from ..expr import Call, Constant, Function, Let, RefCreate, RefRead, RefWrite, RelayExpr, Tuple, TupleGetItem, Var
from ..infer import infer_function
from ..op import annotation
from .function_pass import RelayFunctionPass, function_pass, is_call

BEGIN, END, DEFAULT = "annotation.compiler_begin", "annotation.compiler_end", "default"


def supported(node: Call, target: str) -> bool:
    """Return whether a compiler supports a call: its rule for the operator accepts it, or the call is one of its
    composite functions."""
    if isinstance(node.op, Op):
        rule = node.op.attrs.get(f"target.{target}")
        return bool(rule(node) if callable(rule) else rule)
    if isinstance(node.op, Function):
        return str(node.op.attrs.get("Composite", "")).split(".")[0] == target
    return False


def _is_whole(e: Any) -> bool:
    """Return whether an expression is a composite or primitive function, whose body the pass does not visit."""
    return isinstance(e, Function) and ("Composite" in e.attrs or bool(e.attrs.get("Primitive")))


def _order(body: RelayExpr) -> list[RelayExpr]:
    """Return every expression once, operands first, without the bodies of composite and primitive functions."""
    return list(
        post_order(body, operands=lambda e: () if _is_whole(e) else [c for c in e.children() if not isinstance(c, Op)])
    )


class _Marks:
    """The rewritten expression of each original expression, and the compiler of each annotated expression."""

    def __init__(self, targets: list[str], non_calls: bool):
        self.targets, self.non_calls = targets, non_calls
        self.new: dict[int, RelayExpr] = {}
        self.target: dict[int, str] = {}
        self.given: dict[int, str] = {}

    def run(self, func: Function) -> RelayExpr:
        order = _order(func.body)
        for node in order:
            if is_call(node, END) and node.attrs.compiler != DEFAULT:
                self.given[id(node.args[0])] = node.attrs.compiler
        for node in order:
            self.new[id(node)] = self.node(node)
        return self.ended(func.body)

    def ended(self, old: RelayExpr) -> RelayExpr:
        """Return the rewritten expression, wrapped in a new ``compiler_end`` if a compiler is assigned to it."""
        if isinstance(old, Op):
            return old
        new = self.new[id(old)]
        target = self.target.get(id(new))
        return new if target is None else annotation.compiler_end(new, target)

    def marked(self, node: RelayExpr, target: str) -> RelayExpr:
        operands = node.args if isinstance(node, Call) else node.children()
        inside = {id(a) for a in operands}
        made = node.map_children(
            lambda c: annotation.compiler_begin(self.ended(c), target) if id(c) in inside else self.new.get(id(c), c)
        )
        if operands:
            self.target[id(made)] = target
        return made

    def node(self, node: RelayExpr) -> RelayExpr:
        kind = type(node)
        if is_call(node, BEGIN, END):
            return self.new[id(node.args[0])]
        if is_call(node, "full") and isinstance(node.args[0], Constant):
            # Creation operators (zeros, ones) have no input to annotate.
            return node
        if kind is Call and not isinstance(node.op, (Var, Call)):
            return self.marked(node, self.chosen(node))
        if self.non_calls and kind is Call:
            return self.marked(node, DEFAULT)
        if self.non_calls and kind in (Tuple, TupleGetItem, RefCreate, RefRead, RefWrite):
            below = {self.target.get(id(self.new[id(c)]), DEFAULT) for c in node.children()}
            return self.marked(node, below.pop() if len(below) == 1 else DEFAULT)
        if _is_whole(node):
            return node
        if kind is Let:
            return node.replace(value=self.ended(node.value), body=self.ended(node.body))
        if kind is Function:
            return node.replace(body=self.ended(node.body))
        return node.map_children(self.ended)

    def chosen(self, node: Call) -> str:
        return self.given.get(id(node)) or next((t for t in self.targets if supported(node, t)), DEFAULT)


def AnnotateTarget(targets, include_non_call_ops: bool = True) -> RelayFunctionPass:
    """Annotate each call with the first target that supports it.

    With ``include_non_call_ops``, tuples, tuple fields, references and calls of variables are annotated too.

    Parameters
    ----------
    targets : list of str
        The names of the external compilers, in order of preference.
    include_non_call_ops : bool, optional
        Whether expressions other than operator calls are annotated too.

    Returns
    -------
    RelayFunctionPass
    """
    names = [targets] if isinstance(targets, str) else [str(t) for t in targets]

    @function_pass(opt_level=0, name="AnnotateTargetFunc", required=["InferType"])
    def annotate(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        body = _Marks(names, include_non_call_ops).run(func)
        return infer_function(Function(func.params, body, func.ret_type, func.type_params, func.attrs, func.span), mod)

    return annotate


__all__ = ["AnnotateTarget", "BEGIN", "DEFAULT", "END"]

"""Marks that say which compiler takes which part of a graph.

Every operator lies between ``annotation.compiler_begin`` at its inputs and ``annotation.compiler_end`` at each use of
its result. What no compiler takes is marked ``default``. Marks of an earlier run stay with the compiler they name.
"""

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
    """Whether a compiler takes a call: its rule for the operator says so, or it is a composite function of its own."""
    if isinstance(node.op, Op):
        rule = node.op.attrs.get(f"target.{target}")
        return bool(rule(node) if callable(rule) else rule)
    if isinstance(node.op, Function):
        return str(node.op.attrs.get("Composite", "")).split(".")[0] == target
    return False


def _is_whole(e: Any) -> bool:
    """A function that is not looked into."""
    return isinstance(e, Function) and ("Composite" in e.attrs or bool(e.attrs.get("Primitive")))


def _order(body: RelayExpr) -> list[RelayExpr]:
    """Every expression once, operands first; functions that are not looked into have none."""
    return list(post_order(body, operands=lambda e: () if _is_whole(e) else [
        c for c in e.children() if not isinstance(c, Op)]))


class _Marks:
    """New expressions for old ones, and the compiler of each that has one."""

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
        """What an expression has become, marked as the result of its compiler; each use has a mark of its own."""
        if isinstance(old, Op):
            return old
        new = self.new[id(old)]
        target = self.target.get(id(new))
        return new if target is None else annotation.compiler_end(new, target)

    def marked(self, node: RelayExpr, target: str) -> RelayExpr:
        operands = node.args if isinstance(node, Call) else node.children()
        inside = {id(a) for a in operands}
        made = node.map_children(
            lambda c: annotation.compiler_begin(self.ended(c), target) if id(c) in inside else self.new.get(id(c), c))
        if operands:
            self.target[id(made)] = target
        return made

    def node(self, node: RelayExpr) -> RelayExpr:
        kind = type(node)
        if is_call(node, BEGIN, END):
            return self.new[id(node.args[0])]
        if is_call(node, "full") and isinstance(node.args[0], Constant):
            # zeros and ones have no input.
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
    """Put marks around calls for the first of the targets that takes them; with ``include_non_call_ops`` also around
    tuples, their fields, references and calls of variables.

    Parameters
    ----------
    targets : list of str
        The names of other compilers, the preferred first.
    include_non_call_ops : bool, optional
        Whether what is not a call is marked too.

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

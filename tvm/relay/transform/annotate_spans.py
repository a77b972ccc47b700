"""Passes that write source spans: the index of a call, or the indices of an expression and its dominator."""

from __future__ import annotations

from typing import Any

from ...ir.base import SourceName, Span
from ...ir.module import IRModule
from ...ir.transform import PassContext
from ...ir.visit import post_order
from .. import with_fields
from ..checked_type import with_type_of
from ..expr import Call, Function, Let, RelayExpr, Var
from .function_pass import RelayFunctionPass, function_pass, rewrite_typed

SOURCE = "GeneratedSource"


def AnnotateSpans() -> RelayFunctionPass:
    """Give every call without a span a generated span, whose line is the index of the call in execution order."""

    @function_pass(opt_level=0, name="AnnotateSpans", required=["InferType"])
    def annotate(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        line = 0

        def place(node: RelayExpr) -> RelayExpr | None:
            nonlocal line
            if not isinstance(node, Call):
                return None
            line += 1
            if node.span is not None:
                return None
            return Call(node.op, node.args, node.attrs, node.type_args, Span(SourceName(SOURCE), line, line, 0, 0))

        return rewrite_typed(func, place, mod)

    return annotate


def _parts(e: Any) -> list[Any]:
    """Return the children of an expression, preceded by the variables that it binds."""
    bound = e.params if isinstance(e, Function) else [e.var] if isinstance(e, Let) else []
    return [*bound, *e.children()]


def _dominators(order: list[Any]) -> list[int]:
    """Return the immediate dominator of each node of a post-order list, as an index into the list.

    The immediate dominator is the first node on every path from the node to the root. The root has -1."""
    number = {id(node): i for i, node in enumerate(order)}
    users: list[list[int]] = [[] for _ in order]
    for i, node in enumerate(order):
        for child in node.children():
            users[number[id(child)]].append(i)
    found = [-1] * len(order)
    for i in reversed(range(len(order))):
        for user in users[i]:
            meeting = found[i] if found[i] >= 0 else user
            while meeting != user:
                # The dominator of the smaller index is closer to the node.
                if meeting < user:
                    meeting = found[meeting]
                else:
                    user = found[user]
            found[i] = meeting
    return found


def _placed(func: Function) -> Function:
    order = list(post_order(func, operands=_parts))
    params = {id(p) for node in order if isinstance(node, Function) for p in node.params}
    made: dict[int, Any] = {}
    for i, (node, dominator) in enumerate(zip(order, _dominators(order))):
        new = node.map_children(lambda child: made.get(id(child), child))
        change = getattr(with_fields, f"{type(node).__name__}WithFields", None)
        if change is not None and (not isinstance(node, Var) or id(node) in params):
            given = {"params": [made[id(p)] for p in node.params]} if isinstance(node, Function) else {}
            span = Span(SourceName("index"), i, i, dominator, dominator)
            new = with_type_of(change(new, span=span, **given), node)
        made[id(node)] = new
    return made[id(func)]


def CapturePostDfsIndexInSpans() -> RelayFunctionPass:
    """Give every expression the span ``index:N:D``.

    The line N is the index of the expression in post-order. In this order the operator of a call precedes its
    arguments, and the parameters of a function precede its body. The column D is the index of the expression's
    dominator, or -1 for the function itself. Operators, global variables, matches, and the variables of let bindings
    and patterns are counted but keep their span."""

    @function_pass(opt_level=0, name="CapturePostDfsIndexInSpans", required=["InferType"])
    def capture(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return _placed(func)

    return capture


__all__ = ["AnnotateSpans", "CapturePostDfsIndexInSpans"]

"""Replace operators by simpler ones, as the ``expand`` function in the operator record returns them."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.transform import PassContext
from ...ir.visit import rewrite
from ...target import Target
from ...target.backend import find_backend
from ..checked_type import operands_of, with_derived_type
from ..expr import Call, Function, RelayExpr, Tuple, TupleGetItem
from ..infer import infer_function, infer_type
from ..op.implementation import is_computed
from .function_pass import RelayFunctionPass, function_pass, replacement


def typed(root: RelayExpr) -> RelayExpr:
    """Infer the type of an expression; typed operands are not visited again."""
    stack = [root]
    while stack:
        e = stack[-1]
        if e.checked_type_ is not None:
            stack.pop()
            continue
        operands = operands_of(e)
        if operands is None:
            infer_type(e)
            continue
        waiting = [x for x in operands if x.checked_type_ is None]
        if waiting:
            stack.extend(waiting)
        else:
            with_derived_type(e)
    return root


def expand_function(func: Function, wanted: Callable[[Call], bool], mod: IRModule | None = None) -> Function:
    """Replace each ``wanted`` call by the result of the ``expand`` function of its operator, recursively.

    A call is kept if ``expand`` returns None."""

    def post(node: RelayExpr) -> RelayExpr | None:
        if type(node) is TupleGetItem and isinstance(node.tuple_value, Tuple):
            return node.tuple_value.fields[node.index]
        if type(node) is not Call or not isinstance(node.op, Op):
            return None
        expand = node.op.attrs.get("expand")
        if expand is None or not wanted(node):
            return None
        made = expand(node.attrs, node.args, [typed(a).checked_type_ for a in node.args])
        if made is None:
            return None
        # The new calls of an expansion may need expansion too; its operands are already expanded.
        done = [x for a in node.args for x in ((a, *a.fields) if isinstance(a, Tuple) else (a,))]
        return rewrite(made, post, memo={id(x): (x, x) for x in done})

    new = rewrite(func, lambda node: replacement(post, node))
    return func if new is func else infer_function(new, mod)


def ExpandOps(target: Target | None = None) -> RelayFunctionPass:
    """A pass that replaces every operator without a computation of its own by simpler operators.

    Convolutions that the model defines in a blocked layout become convolutions in a plain layout, for which
    AlterOpLayout chooses the layout.

    Parameters
    ----------
    target : Target, optional
        The target. If its back end computes convolutions in blocked layouts, they are kept.

    Returns
    -------
    Pass
        The pass.
    """
    backend = find_backend(target) if target is not None else None
    keeps_blocks = backend is not None and backend.keeps_blocks

    def has_simpler_form(node: Call) -> bool:
        return not is_computed(node.op) or (bool(node.op.attrs.get("expands_blocks")) and not keeps_blocks)

    @function_pass(opt_level=0, name="ExpandOps", required=["InferType"])
    def expand(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return expand_function(func, has_simpler_form, mod)

    return expand

"""Infrastructure of Relay function passes: pass class, decorator, type inference and type-preserving rewriting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir.module import IRModule
from ...ir.node import Node
from ...ir.op import Op
from ...ir.prim import IntImm
from ...ir.tensor_type import TensorType
from ...ir.transform import PASSES, FunctionPass, ModulePass, PassContext, PassInfo, function_pass_factory
from ...ir.type import Type
from ...ir.visit import post_order
from ...target import Target
from ..checked_type import with_type_of
from ..expr import ORIGIN, Call, Function, RelayExpr
from ..infer import infer_module, infer_type


def target_of_pass(given: Target | None) -> Target | None:
    """Return the target of a pass: the target given at construction, as pipelines do, or else the current target."""
    return given or Target.current(allow_none=True)


def is_typed(mod: IRModule) -> bool:
    """Return whether all Relay functions of a module have types."""
    functions = [f for f in mod.functions.values() if isinstance(f, Function)]
    return all(f.checked_type_ is not None and getattr(f.body, "checked_type_", None) is not None for f in functions)


def typed_module(mod: IRModule) -> IRModule:
    """Return the module with inferred types; a typed module is returned unchanged."""
    return mod if is_typed(mod) else infer_module(mod)


class RelayFunctionPass(FunctionPass):
    """A pass that transforms the Relay functions of a module one by one: ``(func, mod, ctx) -> func``."""

    function_type = Function

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Run the pass on a typed module and infer the types of the result; typed nodes are not visited again."""
        mod = typed_module(mod)
        new = super().run(mod, ctx)
        return new if new is mod else infer_module(new)

    def skips(self, func: Function) -> bool:
        return bool(func.attrs.get("SkipOptimization")) or "Compiler" in func.attrs


function_pass = function_pass_factory(RelayFunctionPass, "function_pass")


def _infer(mod: IRModule, ctx: PassContext) -> IRModule:
    return infer_module(mod)


def InferType() -> ModulePass:
    """Infer the type of every expression of a module.

    Examples
    --------
    >>> mod = tvm.IRModule.from_expr(relay.exp(relay.var("x", shape=(2,))))
    >>> relay.transform.InferType()(mod)["main"].ret_type
    Tensor[(2), float32]
    """
    return ModulePass(_infer, PassInfo(0, "InferType"))


PASSES.register("InferType", InferType)


def InferTypeLocal(expr: RelayExpr) -> Type:
    """Infer the type of an expression whose operands are typed.

    Parameters
    ----------
    expr : RelayExpr
        The expression, with typed operands.

    Returns
    -------
    Type
        The type.
    """
    return type_of(expr)


def build_config(opt_level=2, required_pass=None, disabled_pass=None, trace=None) -> PassContext:
    """Return a pass context (deprecated alias of ``PassContext``).

    Parameters
    ----------
    opt_level : optional
        The optimization level.
    required_pass : list of str, optional
        Passes that run at any optimization level.
    disabled_pass : list of str, optional
        Passes that are disabled.
    trace : optional
        Ignored; accepted for compatibility.

    Returns
    -------
    PassContext
        The pass context.
    """
    return PassContext(opt_level, required_pass, disabled_pass)


def float_shape(t: Type | None) -> tuple[int, ...] | None:
    """Return the static shape of a float32 tensor; None for other data types and dynamic shapes."""
    if not isinstance(t, TensorType) or t.dtype != "float32" or not all(isinstance(d, IntImm) for d in t.shape):
        return None
    return tuple(d.value for d in t.shape)


def type_of(e: RelayExpr, mod: IRModule | None = None) -> Type:
    """Return the type of an expression, and infer it first if it is missing."""
    if e.checked_type_ is None:
        infer_type(e, mod)
    return e.checked_type_  # type: ignore[return-value]


def is_call(e: Any, *names: str) -> bool:
    """Return whether an expression is a call of one of these operators."""
    return type(e) is Call and type(e.op) is Op and e.op.name in names


def is_contraction(e: Any, *kinds: str) -> bool:
    """Return whether an expression is a call of a contraction: a "matmul", a "convolution", or either."""
    kind = e.op.attrs.get("contraction") if type(e) is Call and type(e.op) is Op else None
    return kind is not None and (not kinds or kind in kinds)


def only_changes_layout(e: Any) -> bool:
    """Return whether an expression is a layout-changing op, which only moves elements of its input."""
    return type(e) is Call and type(e.op) is Op and bool(e.op.attrs.get("moves_only"))


def replacement(rule: Callable[[Any], Any], node: Any) -> Any:
    """Return ``rule(node)``; new calls get the span of the node."""
    if node.span is None:
        return rule(node)
    outer = ORIGIN.set(node.span)
    try:
        return rule(node)
    finally:
        ORIGIN.reset(outer)


def rewrite_typed(
    root: RelayExpr, rule: Callable[[Any], Any], mod: IRModule | None = None, counts: dict[int, int] | None = None
) -> Any:
    """Rebuild an expression bottom-up with ``rule(node) -> replacement or None``.

    A replacement has the type of the node that it replaces. Rebuilt nodes therefore keep their types, and inference
    visits only new nodes. New calls get the span of the replaced node.

    ``counts`` (from ``use_counts(root)``) is updated for the nodes that the rules visit.
    """
    memo: dict[int, tuple[Node, Node]] = {}
    replaced: list[Any] = []

    def lookup(node):
        return memo[id(node)][1]

    for node in post_order(root):
        new = node.map_children(lookup)
        if new is not node and isinstance(new, RelayExpr):
            with_type_of(new, node)
        if counts is not None and new is not node:
            counts[id(new)] = counts.get(id(node), 1)
        got = replacement(rule, new)
        if got is not None and got is not new:
            if isinstance(got, RelayExpr) and not isinstance(got, Op):
                type_of(got, mod)
            # Keeps the replaced node alive, so that no new node gets its id while ``counts`` contains the id.
            replaced.append(new)
            if counts is not None:
                counts[id(got)] = max(counts.get(id(got), 1), 1) + counts.get(id(node), 1) - 1
            new = got
        memo[id(node)] = (node, new)
    return memo[id(root)][1]


def use_counts(root: RelayExpr) -> dict[int, int]:
    """Return the number of uses of each expression as an operand, by its id."""
    counts: dict[int, int] = {}
    seen: set[int] = set()
    stack: list[Any] = [root]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        for child in node.children():
            counts[id(child)] = counts.get(id(child), 0) + 1
            stack.append(child)
    return counts


__all__ = [
    "FunctionPass",
    "InferType",
    "InferTypeLocal",
    "RelayFunctionPass",
    "build_config",
    "function_pass",
    "is_call",
    "is_contraction",
    "replacement",
    "rewrite_typed",
    "type_of",
    "is_typed",
    "typed_module",
    "use_counts",
]

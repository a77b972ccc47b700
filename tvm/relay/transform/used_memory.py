"""Annotate functions with the memory that is live at each call of a primitive function."""

from __future__ import annotations

from ...ir.module import IRModule
from ...ir.transform import PASSES, ModulePass, PassContext, PassInfo
from ...ir.type import FuncType, TupleType, Type
from ...ir.visit import post_order
from ..expr import Call, Function, If, Let, RelayExpr, Var
from ..symbolic import flatten_type, has_dynamic_dims
from .function_pass import typed_module


def _bytes(e: RelayExpr) -> int:
    """Return the size of a value in bytes; 0 for a function."""
    from ..backend.program import byte_size

    t: Type | None = e.checked_type_
    if t is None or isinstance(t, FuncType):
        return 0
    if has_dynamic_dims(t):
        raise ValueError(
            f"AnnotateUsedMemory: a value of type {t} has dynamic dimensions, so its memory is not known "
            "at compile time; give every dimension a size"
        )
    if isinstance(t, TupleType):
        return sum(byte_size(field) for field in flatten_type(t))
    return byte_size(t)


class _Annotation:
    """Visits the lets of a block from last to first and tracks the live variables."""

    def __init__(self) -> None:
        # The live bytes at each call of a function, by the variable of the function, last call first.
        self.used: dict[Var, list[int]] = {}

    def block(self, body: RelayExpr, after: set[Var]) -> tuple[RelayExpr, set[Var]]:
        """Return the annotated block and the variables that are live before it; ``after`` are live after it."""
        lets: list[Let] = []
        while isinstance(body, Let):
            lets.append(body)
            body = body.body
        new, live = self.value(body, after)
        live = live | after
        for let in reversed(lets):
            if isinstance(let.value, Function):
                self.check(let)
            value, uses = self.value(let.value, live - {let.var})
            before = (live - {let.var}) | uses
            if isinstance(value, Call) and isinstance(value.op, Var):
                held = (before | live) - {value.op}
                self.used.setdefault(value.op, []).append(sum(_bytes(v) for v in held))
            if isinstance(value, Function):
                value = self.annotated(let.var, value)
            new, live = Let(let.var, value, new, let.span), before
        return new, live

    def check(self, let: Let) -> None:
        if not let.value.attrs.get("Primitive"):
            raise ValueError(
                f"AnnotateUsedMemory: the function bound to %{let.var.name_hint} is not primitive; the "
                "pass takes graphs whose functions are all marked Primitive"
            )

    def value(self, value: RelayExpr, live: set[Var]) -> tuple[RelayExpr, set[Var]]:
        """Return a let value with annotated branches, and the variables that it reads."""
        if isinstance(value, If):
            yes, in_yes = self.block(value.true_branch, live)
            no, in_no = self.block(value.false_branch, live)
            made = If(value.cond, yes, no, value.span)
            return made, _variables(value.cond) | ((in_yes | in_no) - live)
        return value, set() if isinstance(value, Function) else _variables(value)

    def annotated(self, var: Var, function: Function) -> Function:
        sizes = self.used.pop(var, [])
        return function.with_attr("used_memory", sizes[::-1])


def _variables(e: RelayExpr) -> set[Var]:
    return {n for n in post_order(e, operands=_graph) if isinstance(n, Var)}


def _graph(e: RelayExpr) -> list:
    return [] if isinstance(e, Function) else list(e.children())


def annotate_used_memory(function: Function) -> Function:
    """Annotate a typed function in A-normal form with ``io_used_memory``, and its primitive functions with
    ``used_memory``."""
    io = sum(_bytes(e) for e in (*function.params, function.body))
    body, _ = _Annotation().block(function.body, set())
    return function.replace(body=body).with_attr("io_used_memory", io)


def _run(mod: IRModule, ctx: PassContext) -> IRModule:
    mod = typed_module(mod).clone()
    mod["main"] = annotate_used_memory(mod["main"])
    return typed_module(mod)


def AnnotateUsedMemory() -> ModulePass:
    """Annotate functions with the number of bytes that are live during execution.

    Each primitive function of ``main`` gets ``used_memory``, the live bytes at each of its calls. ``main`` gets
    ``io_used_memory``, the bytes of its inputs and outputs. It must be in A-normal form and have static shapes.

    Raises
    ------
    ValueError
        A dimension is dynamic, or a function bound in ``main`` is not primitive.
    """
    return ModulePass(_run, PassInfo(0, "AnnotateUsedMemory", ["ToANormalForm", "InferType"]))


PASSES.register("AnnotateUsedMemory", AnnotateUsedMemory)

__all__ = ["AnnotateUsedMemory", "annotate_used_memory"]

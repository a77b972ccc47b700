"""Annotated graphs, and the functions of partitions, as tests of partitioning write them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import tvm
from tvm import relay
from tvm.relay.expr_functor import ExprMutator
from tvm.relay.op.annotation import compiler_begin, compiler_end


def typed(body_or_mod) -> tvm.IRModule:
    """The module with types; of an expression, its free variables are the parameters."""
    mod = body_or_mod
    if not isinstance(mod, tvm.IRModule):
        is_function = isinstance(mod, relay.Function)
        function = mod if is_function else relay.Function(relay.analysis.free_vars(mod), mod)
        mod = tvm.IRModule.from_expr(function)
    return relay.transform.InferType()(mod)


def assert_same(got, wanted) -> None:
    tvm.ir.assert_structural_equal(got, typed(wanted), map_free_vars=True)


def marks(compiler: str, active: bool = True) -> tuple[Callable, Callable]:
    """The functions that mark the inputs and the output of a region; without effect unless ``active``."""
    if not active:
        return (lambda e: e), (lambda e: e)
    return (lambda e: compiler_begin(e, compiler)), (lambda e: compiler_end(e, compiler))


def external(params, body, compiler: str, symbol: str) -> relay.Function:
    """The function of a partition."""
    attrs = {"Primitive": 1, "Inline": 1, "Compiler": compiler, "global_symbol": symbol}
    function = relay.Function(params, body)
    for name, value in attrs.items():
        function = function.with_attr(name, tvm.tir.IntImm("int32", value) if isinstance(value, int) else value)
    return function


def composite(name: str, params, body, pattern: str = "") -> relay.Function:
    """A composite function; ``pattern`` lists the operators of the pattern that MergeComposite matched."""
    function = relay.Function(params, body).with_attr("Composite", name)
    return function.with_attr("PartitionedFromPattern", pattern) if pattern else function


def annotate(mod: tvm.IRModule, operators, compiler: str) -> tvm.IRModule:
    """Mark every call of the operators as a region of its own."""

    class Annotator(ExprMutator):
        def visit_call(self, call):
            if call.op.name not in operators:
                return super().visit_call(call)
            args = [compiler_begin(self.visit(arg), compiler) for arg in call.args]
            return compiler_end(relay.Call(call.op, args, call.attrs, call.type_args), compiler)

    return typed(tvm.IRModule({var: Annotator().visit(f) for var, f in mod.functions.items()}))


@pytest.fixture
def supports() -> Iterator[Callable[..., str]]:
    """A function that declares operators of a code generator for the duration of a test."""
    made: list[tuple[str, str]] = []

    def declare(compiler: str, *operators: str, rule=lambda call: True) -> str:
        for name in operators:
            tvm.ir.register_op_attr(name, f"target.{compiler}", rule)
            made.append((name, f"target.{compiler}"))
        return compiler

    yield declare
    for name, key in made:
        relay.op.get(name).reset_attr(key)

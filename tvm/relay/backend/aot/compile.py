"""Compile a planned program: lower the kernels, build the main function, plan the memory of both and generate code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ....codegen.c.build import emit_source
from ....codegen.c.plain import COMMENT, INFALLIBLE, LOCAL, PlainC
from ....codegen.c.plain_parallel import ParallelPlainC, loops_of_tasks
from ....driver.build_module import build_for_host
from ....error import TVMError
from ....ir import primop
from ....ir.module import IRModule
from ....ir.op import Op
from ....ir.prim import Call
from ....ir.transform import PassContext
from ....ir.visit import pre_order
from ....target import Target
from ....tir import pipeline
from ....tir.function import PrimFunc
from ....tir.stmt import AssertStmt, Evaluate, For, ForKind, IfThenElse, Stmt, seq
from ....tir.transform.convert_for_loops_to_serial import convert_for_loops_to_serial
from ....tir.transform.lower_tvm_builtin import LOCAL_STACK_BYTES, STACK_BYTES
from ....tir.transform.make_packed_api import COMPUTE_SUFFIX
from ....tir.transform.statement import StmtRewriter
from ..program import Program
from ..te_compiler import ExternalKernel, Kernel
from ..writers import CompiledModel
from .kernels import RawKernel, StackLimits, raw_kernel
from .main_function import (
    MainFunction,
    kernels_in_place,
    local_main_symbol,
    main_function,
    main_symbol,
    output_names_of,
)
from .options import alignment_of, runtime_options
from .plan import Planned, plan_main

# The limits for allocations on the stack of a thread of the runtime, and on the stack of a microcontroller.
_OF_THREADS = StackLimits(STACK_BYTES, LOCAL_STACK_BYTES)
OF_MICROCONTROLLERS = StackLimits(256, 1024)


class Compiled(NamedTuple):
    """A compiled model: its code (a module, or C source), its main function before and after memory planning, and its
    lowered functions."""

    code: Any
    main: MainFunction
    planned: Planned
    lowered: IRModule


def compile_for_runtime(model: CompiledModel, target: Target) -> Compiled:
    """Compile a program for the runtime. The kernels use its thread pool. The main function is a packed function; its
    arguments are inputs, constants, outputs and the workspace."""
    ctx, program, mod_name, host = PassContext.current(), model.program, model.name, model.host
    executor = runtime_options(model.executor)
    kernels: dict[str, RawKernel] = {}
    made: list[tuple[MainFunction, Planned]] = []

    def functions() -> Iterator[IRModule]:
        for kernel in _with_progress(model):
            raw = kernels[kernel.name] = raw_kernel(_loops(kernel), kernel.name + COMPUTE_SUFFIX, _OF_THREADS)
            yield pipeline.raw_host(IRModule({raw.symbol: raw.function}), target, ctx)
        main = main_function(program, mod_name, kernels, False, output_names_of(model.ir_mod))
        planned = plan_main(main.function, executor)
        made.append((main, planned))
        yield pipeline.split_host_device(IRModule({main_symbol(mod_name): planned.function}), host, host, ctx)[0]

    library = model.partitions.into(build_for_host(functions(), host))
    return Compiled(library, *made[0], _lowered(mod_name, kernels, made[0][1]))


def compile_plain(model: CompiledModel, target: Target, is_public: bool) -> Compiled:
    """Compile a program to one file of plain C with static kernels, constants and the main function. With
    ``is_public`` the main function is not static."""
    ctx, mod_name = PassContext.current(), model.name
    _refuse_partitions(model)
    in_parallel = bool(model.runtime["parallel-for"])
    kernels = plain_kernels(model.program, _with_progress(model), in_parallel)
    main = main_function(model.program, mod_name, kernels, True, output_names_of(model.ir_mod))
    planned = plan_main(main.function, model.executor, pools_of(model))
    about = f'Model "{mod_name}": calls the kernels in order.'
    symbol = main_symbol(mod_name) if is_public else local_main_symbol(mod_name)
    functions = {raw.symbol: raw.function for raw in kernels.values()}
    # C requires that callees are defined before their callers.
    functions[symbol] = planned.function.with_attr({"global_symbol": symbol, COMMENT: about, LOCAL: not is_public})
    module = pipeline.plain_host(IRModule(functions), target, ctx)
    dialect = (ParallelPlainC if in_parallel else PlainC).aligned(
        alignment_of(model.executor, "constant-byte-alignment")
    )
    source = emit_source([(name, module[name]) for name in functions], dialect)
    return Compiled(source, main, planned, _lowered(mod_name, kernels, planned))


def compile_objects(model: CompiledModel, target: Target, symbol: str) -> Compiled:
    """Compile a program to machine code that does not call the runtime. The constants are in the constant pools, or
    parameters of the main function if there are none."""
    ctx = PassContext.current()
    _refuse_partitions(model)
    kernels: dict[str, RawKernel] = {}
    made: list[tuple[MainFunction, Planned]] = []

    def functions() -> Iterator[IRModule]:
        for kernel in _with_progress(model):
            loops = quiet_asserts(convert_for_loops_to_serial(_loops(kernel)))
            raw = kernels[kernel.name] = raw_kernel(loops, kernel.name, OF_MICROCONTROLLERS)
            yield pipeline.raw_host(IRModule({raw.symbol: raw.function}), target, ctx)
        links = bool(model.constant_pools)
        main = main_function(model.program, model.name, kernels, links, output_names_of(model.ir_mod))
        planned = plan_main(main.function, model.executor, pools_of(model))
        made.append((main, planned))
        function = planned.function.with_attr("global_symbol", symbol)
        yield pipeline.raw_host(IRModule({symbol: function}), target, ctx)

    library = build_for_host(functions(), model.host)
    _refuse_runtime_calls(library)
    return Compiled(library, *made[0], _lowered(model.name, kernels, made[0][1]))


def _refuse_partitions(model: CompiledModel) -> None:
    """Raise an error if the model calls packed functions of a code generator: they need the runtime."""
    for node in model.program.nodes:
        if isinstance(node.kernel, ExternalKernel):
            raise TVMError(
                f"runtime crt does not support partition {node.kernel.name}: the code of '{node.kernel.compiler}' is a "
                "packed function; use runtime cpp, or a code generator with RelayToTIR"
            )


def _refuse_runtime_calls(library: Any) -> None:
    """Raise an error if the code uses the function table of the runtime."""
    if "load ptr, ptr @__tvm_runtime_table" in library.get_source("ll"):
        raise TVMError(
            "runtime crt does not support a kernel that calls the runtime; use runtime cpp, or a target "
            "without matrix tiles (-mattr=-amx-tile)"
        )


def pools_of(model: CompiledModel) -> list[Any] | None:
    """Return the user's workspace and constant memory pools in one list; None if there are none."""
    given = [pool for pools in (model.workspace_pools, model.constant_pools) if pools for pool in pools.pools]
    return given or None


def _with_progress(model: CompiledModel) -> Iterator[Kernel]:
    kernels = model.program.kernels
    for done, kernel in enumerate(kernels):
        model.progress("scheduling kernels", done, len(kernels))
        yield kernel
    model.progress("generating code", 0, 0)


def _loops(kernel: Kernel) -> PrimFunc:
    function = kernel.module[kernel.name]
    assert isinstance(function, PrimFunc)
    return function


def plain_kernels(program: Program, kernels: Iterable[Kernel], in_parallel: bool = False) -> dict[str, RawKernel]:
    """Return the kernels of a program, by name, lowered to functions with serial loops. With ``in_parallel``, loops
    stay parallel if tasks need no memory but the stack."""
    in_place = kernels_in_place(program)
    loops = loops_of_tasks if in_parallel else convert_for_loops_to_serial
    return {kernel.name: _plain_kernel(kernel, loops(_loops(kernel)), kernel.name in in_place) for kernel in kernels}


def _plain_kernel(kernel: Kernel, function: PrimFunc, is_in_place: bool) -> RawKernel:
    """Return a kernel as a static function. The function returns a status only if it can fail: an assertion can be
    false, or tasks may not start. With ``is_in_place``, an input pointer may equal an output pointer."""
    raw = raw_kernel(function, kernel.name, OF_MICROCONTROLLERS)
    can_fail = any(
        isinstance(node, AssertStmt)
        or (isinstance(node, For) and node.kind is ForKind.PARALLEL)
        or (isinstance(node, Call) and getattr(node.op, "name", "") in _FAILING)
        for node in pre_order(raw.function.body)
    )
    operators = ", ".join(kernel.operators) or "copy"
    attrs = {COMMENT: operators, LOCAL: True, INFALLIBLE: not can_fail}
    function = raw.function.with_attr({**attrs, "tir.noalias": False} if is_in_place else attrs)
    return raw._replace(function=function, can_fail=can_fail)


class _QuietAsserts(StmtRewriter):
    def on_AssertStmt(self, node: AssertStmt) -> Stmt:
        fail = Evaluate(Call("int32", Op.get("tir.tvm_throw_last_error"), ()))
        return seq(IfThenElse(primop.logical_not(node.condition), fail), self.stmt(node.body))


def quiet_asserts(function: PrimFunc) -> PrimFunc:
    """Return the function with assertions without messages, because storing a message requires the runtime."""
    return function.replace(body=_QuietAsserts().stmt(function.body))


_FAILING = frozenset(("tir.tvm_throw_last_error", "tir.ret"))


def _lowered(mod_name: str, kernels: dict[str, RawKernel], planned: Planned) -> IRModule:
    """Return a module with the lowered kernels and the main function of a model."""
    return IRModule({**{raw.symbol: raw.function for raw in kernels.values()}, main_symbol(mod_name): planned.function})


__all__ = [
    "OF_MICROCONTROLLERS",
    "Compiled",
    "compile_for_runtime",
    "compile_objects",
    "compile_plain",
    "plain_kernels",
]

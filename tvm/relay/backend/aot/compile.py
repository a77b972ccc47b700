"""From a planned program to code: raw kernels, the main function, and the plan of their memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ....driver.build_module import build_for_host
from ....ir.module import IRModule
from ....ir.transform import PassContext
from ....target import Target
from ....tir import pipeline
from ....tir.function import PrimFunc
from ....tir.transform.lower_tvm_builtin import STACK_BYTES
from ....tir.transform.make_packed_api import COMPUTE_SUFFIX
from ..program import Program
from .kernels import RawKernel, raw_kernel
from .main_function import MainFunction, main_function, main_symbol
from .plan import Planned, plan_main

Progress = Callable[[str, int, int], None]


class CompiledProgram(NamedTuple):
    """The code of a model, its main function before and after memory planning, and its lowered functions."""

    library: Any
    main: MainFunction
    planned: Planned
    lowered: IRModule


def compile_for_runtime(
    program: Program, mod_name: str, target: Target, host: Target, progress: Progress
) -> CompiledProgram:
    """Compile a program for the runtime: kernels use its threads, and the main function has a packed entry, whose
    arguments are inputs, constants, outputs and the workspace."""
    ctx = PassContext.current()
    kernels: dict[str, RawKernel] = {}
    lowered = IRModule()
    made: list[tuple[MainFunction, Planned]] = []

    def functions() -> Iterator[IRModule]:
        for done, kernel in enumerate(program.kernels):
            progress("scheduling kernels", done, len(program.kernels))
            function = kernel.module[kernel.name]
            assert isinstance(function, PrimFunc)
            raw = kernels[kernel.name] = raw_kernel(function, kernel.name + COMPUTE_SUFFIX, STACK_BYTES)
            lowered.update(IRModule({raw.symbol: raw.function}))
            yield pipeline.raw_host(IRModule({raw.symbol: raw.function}), target, ctx)
        progress("generating code", 0, 0)
        main = main_function(program, mod_name, kernels, link_constants=False)
        planned = plan_main(main.function)
        made.append((main, planned))
        module = IRModule({main_symbol(mod_name): planned.function})
        lowered.update(module)
        yield pipeline.split_host_device(module, host, host, ctx)[0]

    library = build_for_host(functions(), host)
    return CompiledProgram(library, *made[0], lowered)


__all__ = ["CompiledProgram", "compile_for_runtime"]

"""Compile schedules for the accelerator: ``vta.lower`` and ``vta.build``."""

from __future__ import annotations

from typing import Any

from ...driver.build_module import build as tvm_build
from ...driver.build_module import lower as tvm_lower
from ...ir.transform import Pass, PassContext
from ...target.backend import Backend, backend_of, load, register_backend
from ...target.target import Target
from ...tir.function import PrimFunc
from ...tir.op import call_extern
from ...tir.stmt import Evaluate, seq
from ...tir.transform import CombineContextCall, LiftAttrScope, LowerDeviceStorageAccessInfo, prim_func_pass
from . import _lib, transform
from .environment import (
    coproc_dep_pop,
    coproc_dep_push,
    coproc_sync,
    get_env,
    mem_info_acc_buffer,
    mem_info_inp_buffer,
    mem_info_wgt_buffer,
)


def EarlyRewrite() -> Pass:
    """A pass that places tensors in the scratchpads, before virtual threads become loops.

    Returns
    -------
    Pass
    """
    return transform.PlanScratchpads()


def _debug_pass(debug_flag: int) -> Pass:
    def run(func: PrimFunc, mod: object, ctx: object) -> PrimFunc:
        call = call_extern("int32", "VTASetDebugMode", get_env().dev.command_handle, debug_flag)
        return func.replace(body=seq(Evaluate(call), func.body))

    return prim_func_pass(run, opt_level=0, name="tir.vta.SetDebugMode")


def build_config(debug_flag: int = 0, **kwargs: Any) -> PassContext:
    """Return the pass context of compilations for the accelerator.

    Parameters
    ----------
    debug_flag : int
        Flags of ``VTASetDebugMode``, such as ``Environment.DEBUG_FORCE_SERIAL``.
    **kwargs
        Other arguments of ``tvm.transform.PassContext``. Settings in ``config`` are kept; additional lowering passes
        run after those of the accelerator.

    Returns
    -------
    PassContext
        The context.
    """
    passes: list[tuple[int, Pass]] = [
        (1, transform.InjectDMAIntrin()),
        (1, transform.InjectSkipCopy()),
        (1, transform.AnnotateALUCoProcScope()),
        # An instruction has one kind of micro-op, so kernels are not merged.
        (1, LiftAttrScope("coproc_uop_scope", merges_neighbors=False)),
        (1, transform.LiftAllocToScopeBegin()),
        (1, LiftAttrScope("coproc_scope")),
        (1, transform.InjectCoProcSync()),
        (1, EarlyRewrite()),
        (2, transform.InjectALUIntrin()),
        (3, transform.CPUAccessRewrite()),
        (3, LowerDeviceStorageAccessInfo()),
        (3, transform.FoldUopLoop()),
        (3, CombineContextCall()),
    ]
    if debug_flag:
        passes.insert(-1, (3, _debug_pass(debug_flag)))
    config = dict(kwargs.pop("config", None) or {})
    config["tir.add_lower_pass"] = [*passes, *config.get("tir.add_lower_pass", ())]
    return PassContext(config=config, **kwargs)


def _in_context(function: Any, *args: Any, **kwargs: Any) -> Any:
    if PassContext.current().get_config("tir.add_lower_pass"):
        return function(*args, **kwargs)
    with build_config():
        return function(*args, **kwargs)


def lower(*args: Any, **kwargs: Any) -> Any:
    """Lower a schedule for the accelerator, with the arguments of ``tvm.lower``.

    Parameters
    ----------
    *args
        The schedule and its arguments.
    **kwargs
        Other arguments of ``tvm.lower``.

    Returns
    -------
    IRModule
        The program that writes the instructions.
    """
    return _in_context(tvm_lower, *args, **kwargs)


def build(*args: Any, **kwargs: Any) -> Any:
    """Compile a schedule for the accelerator, with the arguments of ``tvm.build``.

    Parameters
    ----------
    *args
        The schedule and its arguments.
    **kwargs
        Other arguments of ``tvm.build``.

    Returns
    -------
    Module
        A module whose functions take arrays of ``tvm.ext_dev(0)``.
    """
    _lib.library()
    return _in_context(tvm_build, *args, **kwargs)


def build_for_host(mod: Any, target: Target) -> Any:
    """Generate the host code that writes the instructions: the back end of target kind ``ext_dev``.

    Parameters
    ----------
    mod : IRModule
        Functions that have been lowered for code generation.
    target : Target
        The target of the accelerator.

    Returns
    -------
    Module
        The module of the host's back end.
    """
    _lib.library()
    host = target.host or Target("llvm")
    return load(backend_of(host).build)(mod, host)


register_backend(
    Backend(
        "ext_dev",
        "tvm.contrib.vta.build_module:build_for_host",
        is_host=True,
        templates="cpu",
        package="vta",
        keeps_blocks=True,
    ),
    override=True,
)

__all__ = [
    "EarlyRewrite",
    "build",
    "build_config",
    "build_for_host",
    "coproc_dep_pop",
    "coproc_dep_push",
    "coproc_sync",
    "lower",
    "mem_info_acc_buffer",
    "mem_info_inp_buffer",
    "mem_info_wgt_buffer",
]

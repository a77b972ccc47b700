"""Compile programs to modules: ``tvm.lower`` and ``tvm.build``."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from ..error import TVMError
from ..ir.module import GlobalVar, IRModule
from ..ir.prim import Call
from ..ir.transform import PassContext
from ..ir.visit import post_order
from ..target import Target
from ..target.backend import backend_of, host_of, load
from ..te.infer import Bounds
from ..te.lower import Lowering
from ..te.postproc import argument_buffers, broadcast_inputs, check_outputs, to_prim_func
from ..te.schedule import Schedule
from ..tir import pipeline
from ..tir.function import PrimFunc


def schedule_to_module(sch: Schedule, args=None, name: str = "main", binds=None) -> IRModule:
    """Convert a schedule to a module with one function of ``args``, before any pass."""
    if args is None:
        raise ValueError("lower: a schedule needs the function's arguments (tensors and variables, in order)")
    table, buffers = argument_buffers(args, broadcast_inputs(sch), binds)
    sch = sch.normalize()
    bounds = Bounds(sch)
    bounds.run()
    stmt = Lowering(sch, bounds).run()
    func = to_prim_func(sch, buffers, stmt, table, name)
    return IRModule({GlobalVar(name): func})


def lower(inp, args=None, name: str = "main", binds=None, simple_mode: bool = False) -> IRModule:
    """The program after the lowering passes; ``simple_mode`` stops where its loops are easiest to read.

    Parameters
    ----------
    inp : Schedule, PrimFunc or IRModule
        The program.
    args : list of Tensor, Var or Buffer, optional
        The parameters of the function, for a schedule.
    name : str, optional
        The name of the function.
    binds : dict of Tensor to Buffer, optional
        Buffers for some of the tensors.
    simple_mode : bool, optional
        Whether to stop early, with a program that is easier to read.

    Returns
    -------
    IRModule

    Raises
    ------
    ValueError
        ``inp`` is not a schedule, PrimFunc or IRModule.

    Examples
    --------
    >>> A = te.placeholder((4,), name="A")
    >>> B = te.compute((4,), lambda i: A[i] * 2.0, name="B")
    >>> mod = tvm.lower(te.create_schedule(B.op), [A, B])
    >>> [name.name_hint for name in mod.get_global_vars()]
    ['main']
    """
    if isinstance(inp, Schedule):
        mod = schedule_to_module(inp, args, name, binds)
    elif isinstance(inp, PrimFunc):
        func = inp if "global_symbol" in inp.attrs else inp.with_attr("global_symbol", name)
        mod = IRModule({GlobalVar(str(func.attrs["global_symbol"])): func})
    elif isinstance(inp, IRModule):
        mod = inp
    else:
        raise ValueError(f"lower: expected a schedule, a PrimFunc or an IRModule, got {type(inp).__name__}")
    return pipeline.lower(mod, PassContext.current(), simple_mode)


def _with_symbols(mod: IRModule) -> IRModule:
    """Add a ``global_symbol`` to each function that no other function calls, so that it is callable from outside."""
    funcs = {var.name_hint: func for var, func in mod.functions.items() if isinstance(func, PrimFunc)}
    nameless = {name for name, func in funcs.items() if "global_symbol" not in func.attrs}
    if not nameless:
        return mod
    calls = (node.op for func in funcs.values() for node in post_order(func.body) if isinstance(node, Call))
    called = {op.name_hint for op in calls if isinstance(op, GlobalVar)}

    def named(var: GlobalVar, func: Any) -> Any:
        is_named = var.name_hint in nameless - called
        return func.with_attr("global_symbol", var.name_hint) if is_named else func

    return mod.map_functions(named)


def build(
    inputs, args=None, target=None, target_host=None, runtime=None, name: str = "default_function", binds=None
) -> Any:
    """Compile a schedule with its arguments, a PrimFunc, an IRModule, or a dictionary target -> IRModule.

    Parameters
    ----------
    inputs : Schedule, PrimFunc, IRModule or dict of Target to IRModule
        The program to compile.
    args : list of Tensor, Var or Buffer, optional
        The parameters of the function, for a schedule.
    target : str or Target, optional
        The target; by default the current target, or "llvm".
    target_host : str or Target, optional
        The target of the host code for a GPU.
    runtime : Runtime, optional
        The runtime of the module.
    name : str, optional
        The name of the function.
    binds : dict of Tensor to Buffer, optional
        Buffers for some of the tensors.

    Returns
    -------
    Module
        A module of the runtime, with the function as its entry.

    Examples
    --------
    >>> A = te.placeholder((4,), name="A")
    >>> B = te.compute((4,), lambda i: A[i] * 2.0, name="B")
    >>> double = tvm.build(te.create_schedule(B.op), [A, B], "llvm")
    >>> b = tvm.nd.empty((4,))
    >>> double(tvm.nd.array(np.arange(4, dtype="float32")), b)
    >>> b.numpy().tolist()
    [0.0, 2.0, 4.0, 6.0]
    """
    target, host = _targets(inputs, target, target_host)
    if isinstance(inputs, Mapping):
        parts = {Target(t) if not isinstance(t, Target) else t: lower(_with_symbols(m)) for t, m in inputs.items()}
    else:
        parts = {target: _input_module(inputs, args, name, binds)}
    built = build_parts(parts, host)
    built._info = built._info._replace(programs=parts, name=name)
    return built


def _targets(inputs, target, target_host) -> tuple[Target, Target]:
    if target_host is not None:
        warnings.warn(
            "target_host is deprecated; use tvm.target.Target(target, host)", DeprecationWarning, stacklevel=3
        )
    if isinstance(inputs, Mapping) and target is None:
        target = next(iter(inputs), "llvm")
    target = target if target is not None else Target.current(allow_none=True) or "llvm"
    target = Target(target) if target_host is None else Target(target, target_host)
    return target, host_of(target)


def _input_module(inputs, args, name: str, binds) -> IRModule:
    if isinstance(inputs, Schedule):
        if args is None:
            raise ValueError("build: a schedule needs the function's arguments (tensors and variables, in order)")
        check_outputs(inputs, args)
        return lower(inputs, args, name, binds)
    if isinstance(inputs, (PrimFunc, IRModule)):
        return lower(_with_symbols(inputs) if isinstance(inputs, IRModule) else inputs, name=name)
    if isinstance(inputs, (list, tuple)):
        merged = IRModule()
        for part in inputs:
            merged.update(_input_module(part, None, name, None))
        return merged
    raise ValueError(
        "build: expected a schedule, a PrimFunc, an IRModule or a dictionary of them by target, got "
        f"{type(inputs).__name__}"
    )


class _Together(AbstractContextManager):
    """Collects functions for a back end that compiles all functions at once."""

    def __init__(self, target: Target):
        self.target, self.mod = target, IRModule()

    def add(self, mod: IRModule) -> None:
        self.mod.update(mod)

    def finish(self) -> Any:
        return _generate(self.mod, self.target)

    def __exit__(self, *error: object) -> None:
        """Do nothing, because no compilation runs in the background."""


def build_parts(parts: dict[Target, IRModule], host: Target):
    """Compile lowered modules, one per target, into one runtime module whose host part imports the device parts."""
    return _compiled(parts.items(), host, _Together(host))


def build_kernels(kernels: Iterable[tuple[Target, IRModule]], host: Target):
    """Compile lowered kernels, each with its target, into one runtime module.

    The kernels may be lowered while they are iterated; meanwhile a back end can compile host code in the background."""
    return _compiled(kernels, host, _compilation(host))


def build_for_host(modules: Iterable[IRModule], host: Target):
    """Compile modules of host functions, which are ready for code generation, into one runtime module.

    A back end can compile a module in the background while the next one is lowered."""
    with _compilation(host) as code:
        for mod in modules:
            code.add(mod)
        return code.finish()


def _compilation(host: Target) -> Any:
    begin = backend_of(host).compilation
    return _Together(host) if begin is None else load(begin)(host)


def _compiled(modules: Iterable[tuple[Target, IRModule]], host: Target, code: Any) -> Any:
    ctx = PassContext.current()
    devices: dict[Target, IRModule] = {}
    found = 0
    with code:
        for target, mod in modules:
            backend_of(target)
            host_part, device_part = pipeline.split_host_device(mod, target, host, ctx)
            code.add(host_part)
            found += len(host_part)
            if len(device_part):
                devices.setdefault(target, IRModule()).update(device_part)
        if not found:
            raise TVMError("build: the module contains no function to compile")
        generated = [_generate(part, target) for target, part in devices.items()]
        built = code.finish()
    for device in generated:
        built.import_module(device)
    return built


def _generate(mod: IRModule, target: Target) -> Any:
    """Generate machine code or source for functions that have been lowered for code generation."""
    return load(backend_of(target).build)(mod, target)


__all__ = ["build", "build_for_host", "build_kernels", "build_parts", "lower", "schedule_to_module"]

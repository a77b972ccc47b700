"""``relay.build``: compile a graph to a deployable module."""

from __future__ import annotations

import contextlib
import importlib
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from ..autotvm import tophub
from ..autotvm.task.dispatcher import DispatchContext, FallbackContext
from ..driver.build_module import build_kernels
from ..error import TVMError
from ..ir.module import IRModule
from ..ir.op import OPS
from ..ir.tensor_type import TensorType
from ..ir.transform import PassContext, run_pipeline
from ..runtime import ndarray
from ..runtime.devices import Device, device
from ..runtime.module import release_free_memory
from ..runtime.name_transforms import sanitize_name
from ..target import Target
from ..target.backend import host_of, is_host
from . import pipeline
from .backend import library_cache, writers
from .backend.compile_program import compile_program
from .backend.external.partitions import Partitions, compile_partitions
from .backend.link_params import link_params
from .backend.memory_plan import plan_program
from .backend.program import Program
from .backend.rare_collections import rare_collections
from .backend.te_compiler import Kernel
from .expr import Constant, Function
from .infer import infer_module
from .op.record import OpPattern, pattern_of
from .substitute import bind
from .transform.auto_schedule import PlaceKernels
from .transform.flat_params import with_flat_params
from .transform.fuse_ops import constants_outside, fuse_function


def bind_params_by_name(func: Function, params: Mapping[str, Any]) -> Function:
    """Replace parameters of a function by constants, by name.

    Names without a parameter are ignored. A uint16 array contains the bits of a bfloat16 parameter.
    """
    names = {p.name_hint: p for p in func.params}
    twice = [n for n in names if sum(p.name_hint == n for p in func.params) > 1 and n in params]
    if twice:
        raise ValueError(f"several parameters of the function are named '{twice[0]}'; parameter names must be unique")
    table = {n: _constant(v, names[n].type_annotation) for n, v in params.items() if n in names}
    return bind(func, table) if table else func


def _constant(value, wanted) -> Constant:
    if isinstance(value, Constant):
        return value
    array = value if isinstance(value, ndarray.NDArray) else ndarray.array(value)
    if array.dtype == "uint16" and isinstance(wanted, TensorType) and wanted.dtype == "bfloat16":
        # Scripts without ml_dtypes represent bfloat16 by its bits.
        array = ndarray.empty(array.shape, "bfloat16").copyfrom(array.numpy())
    return Constant(array)


def _as_module(ir_mod) -> IRModule:
    if isinstance(ir_mod, Function):
        warnings.warn(
            "pass an IRModule to relay.build; a plain function is deprecated", DeprecationWarning, stacklevel=3
        )
        return IRModule.from_expr(ir_mod)
    if not isinstance(ir_mod, IRModule):
        raise ValueError(f"relay.build: expected an IRModule, got {type(ir_mod).__name__}")
    return ir_mod


def _targets(target, target_host) -> tuple[Target, Target]:
    """Return a single target and its host target."""
    targets, host = all_targets(target, target_host)
    if len(targets) != 1:
        raise TVMError(f"expected one target, got {len(targets)}: {', '.join(str(t).strip() for t in targets)}")
    return targets[0], host


def all_targets(target, target_host) -> tuple[list[Target], Target]:
    """Return the targets of a build, one for each device type, and their common host target."""
    if target is None:
        target = Target.current(allow_none=True) or "llvm"
    given = list(target.values()) if isinstance(target, Mapping) and "kind" not in target else target
    given = list(given) if isinstance(given, (list, tuple)) else [given]
    if not given:
        raise TVMError("relay.build: there is no target; pass target= or use `with target:`")
    targets = [Target(t) if target_host is None else Target(t, target_host) for t in given]
    _check_devices(target, targets)
    given_host = next((t.host for t in targets if t.host is not None), None)
    hosts = [t for t in targets if is_host(t)]
    on_cpu = [t for t in hosts if t.get_target_device_type() == Device.kDLCPU]
    return targets, given_host or host_of((on_cpu + hosts + targets)[0])


def _check_devices(given, targets: list[Target]) -> None:
    """Check that the targets have different device types, and that the keys of a mapping agree with them."""
    kinds = [t.get_target_device_type() for t in targets]
    for number, kind in enumerate(kinds):
        if kind in kinds[:number]:
            raise TVMError(
                f"relay.build: targets '{str(targets[kinds.index(kind)]).strip()}' and "
                f"'{str(targets[number]).strip()}' have the same device type; give one target for each"
            )
    if isinstance(given, Mapping) and "kind" not in given:
        for key, target, kind in zip(given, targets, kinds):
            named = getattr(key, "device_type", key)
            named = device(named).device_type if isinstance(named, str) else int(named)
            if named != kind:
                raise TVMError(f"relay.build: target '{str(target).strip()}' does not run on device {key}")


def optimize(mod, target=None, params=None) -> tuple[IRModule, dict]:
    """Apply the graph passes to a module.

    Parameters
    ----------
    mod : IRModule
        The module to optimize.
    target : optional
        The target; None selects the current target.
    params : dict of str to NDArray, optional
        The weights by name.

    Returns
    -------
    tuple of IRModule and dict
        The optimized module, and the weights that are not constants in it.
    """
    mod = _as_module(mod)
    if params:
        mod = mod.clone()
        mod["main"] = bind_params_by_name(mod["main"], params)
    target, _ = _targets(target, None)
    with target:
        mod = run_pipeline(infer_module(mod), pipeline.optimize(target), PassContext.current())
    return infer_module(mod), dict(params or {})


def ignore_progress(stage: str, done: int, total: int) -> None:
    """Ignore the progress; the default progress callback."""


def _fuse(mod: IRModule, target: Target, ctx: PassContext) -> IRModule:
    """Return the module as calls of kernels; without FuseOps each operator is a separate kernel."""
    if "FuseOps" in (ctx.disabled_pass or ()):
        fused = run_pipeline(mod, (PlaceKernels(),), ctx).clone()
        fused["main"] = fuse_function(fused["main"], 0)
    else:
        fused = run_pipeline(mod, pipeline.fusion(target), ctx).clone()
    fused["main"] = constants_outside(fused["main"])
    return infer_module(fused)


def build(
    ir_mod,
    target=None,
    target_host=None,
    executor=None,
    runtime=None,
    workspace_memory_pools=None,
    constant_memory_pools=None,
    params=None,
    mod_name="default",
    *,
    progress=ignore_progress,
) -> Any:
    """Compile the function ``main``. The result creates executors: ``lib["default"](device)``.

    ``executor`` and ``runtime`` select the output format. ``progress(stage, done, total)`` is called during
    compilation. A parameter ``p`` of tuple type becomes inputs ``p_0``, ``p_1`` and so on for its fields.

    Parameters
    ----------
    ir_mod : IRModule or Function
        The model; its function ``main`` is compiled.
    target : str, Target, list or dict, optional
        The target of the compilation; None selects the current target.
    target_host : str or Target, optional
        The target of the host code, for example for a GPU.
    executor : Executor, optional
        The executor; the graph executor by default.
    runtime : Runtime, optional
        The runtime of the compiled model.
    workspace_memory_pools : WorkspaceMemoryPools, optional
        Memory pools for intermediate values; only for executor aot with runtime crt.
    constant_memory_pools : ConstantMemoryPools, optional
        Memory pools for constants; only for executor aot with runtime crt.
    params : dict of str to NDArray, optional
        The weights by name, which become constants.
    mod_name : str, optional
        The module name, which is the prefix of kernel names.
    progress : callable, optional
        Called with the current stage, the number of finished items and their total number.

    Returns
    -------
    ExecutorFactoryModule
        The compiled model: ``export_library`` saves it, ``["default"](device)`` creates an executor.

    Examples
    --------
    >>> x = relay.var("x", shape=(3,))
    >>> mod = tvm.IRModule.from_expr(relay.Function([x], x + relay.const(1.0)))
    >>> lib = relay.build(mod, target="llvm")
    >>> runner = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    >>> runner.run(x=np.array([1, 2, 3], "float32"))
    >>> runner.get_output(0).numpy().tolist()
    [2.0, 3.0, 4.0]
    """
    writer, executor, runtime = writers.choose(executor, runtime, workspace_memory_pools, constant_memory_pools)
    targets, host = all_targets(target, target_host)
    if writer.target is not None:
        targets = [writer.target(one) for one in targets]
    for one in targets:
        if one.libs:
            warnings.warn(
                f"target '{str(one).strip()}': {', '.join(one.libs)} is not supported yet; every operator is compiled",
                stacklevel=2,
            )
    with contextlib.ExitStack() as scope:
        scope.enter_context(rare_collections)
        if writer.context is not None:
            scope.enter_context(writer.context(PassContext.current(), targets[0]))
        for one in targets:
            scope.enter_context(records_at_hand(one))
        links = bool(executor.options.get("link-params")) and not writer.links_constants
        program, fused, used, partitions = _compile_graph(ir_mod, targets, params, mod_name, links, progress)
        built = writer.write(writers.CompiledModel(
            program, lambda: library_of(program.kernels, used, host, progress), fused,
            used[0] if len(used) == 1 else tuple(used), host, mod_name, executor, runtime, progress,
            workspace_memory_pools, constant_memory_pools, partitions,
        ))  # fmt: skip
    if sum(math.prod(value.shape) for value in program.constants.values()) >= _MANY_WEIGHTS:
        release_free_memory()
    return built


# From this number of weight elements on, temporary memory is returned to the system after compilation.
_MANY_WEIGHTS = 1 << 22


def records_at_hand(target: Target) -> Any:
    """Return a context with the default tuning records for the target, unless the user has set tuning records."""
    untouched = type(DispatchContext.current) is FallbackContext
    return tophub.context(target) if untouched and tophub.record_files(target) else contextlib.nullcontext()


def _compile_graph(
    ir_mod, targets: list[Target], params, mod_name: str, links_params: bool, progress
) -> tuple[Program, IRModule, list[Target], Partitions]:
    """Return the planned program of a model, the optimized graph, the targets that it uses, and the partitions that
    other code generators compiled."""
    progress("improving the graph", 0, 0)
    mod = _as_module(ir_mod)
    if params:
        mod = mod.clone()
        mod["main"] = bind_params_by_name(mod["main"], params)
    mod, partitions = compile_partitions(with_flat_params(mod))
    program, fused, used = compile_program(mod, targets, f"tvmgen_{sanitize_name(mod_name)}", to_kernels)
    if links_params:
        link_params(program)
    program.plan = plan_program(program)
    return program, fused, used, partitions


def to_kernels(mod: IRModule, target: Target) -> IRModule:
    """Return the module as calls of kernels for a target."""
    optimized, _ = optimize(mod, target)
    return _fuse(optimized, target, PassContext.current())


def library_of(kernels: Sequence[Kernel], targets: list[Target], host: Target, progress=ignore_progress) -> Any:
    """Compile all kernels to one library module."""

    def lowered():
        # Kernels with long back-end compilation come first: they are compiled while other kernels are scheduled.
        for done, kernel in enumerate(sorted(kernels, key=_is_light)):
            progress("scheduling kernels", done, len(kernels))
            yield kernel.target, kernel.module
        if not kernels:
            yield targets[0], _empty()
        progress("generating code", 0, 0)

    def compile_all():
        return build_kernels(lowered(), host)

    if len(targets) > 1:
        return compile_all()
    return library_cache.library(kernels, targets[0], host, PassContext.current(), compile_all)


def _is_light(kernel: Any) -> bool:
    """Return whether a kernel contains no matmul, convolution or similar operator with long code."""
    names = getattr(kernel, "operators", ())
    return not any(pattern_of(OPS[name]) == OpPattern.OUT_ELEMWISE_FUSABLE for name in names if name in OPS)


def _empty() -> IRModule:
    """Return a module with an empty function, for the library of a model that consists only of reshapes."""
    from ..tir.function import PrimFunc
    from ..tir.stmt import no_op

    return IRModule({"tvmgen_nothing": PrimFunc([], no_op(), None, {}, {"global_symbol": "tvmgen_nothing"})})


def __getattr__(name: str) -> Any:
    # The executors depend on this module, so they are imported on first access.
    if name in ("DebugExecutor", "GraphExecutor", "create_executor"):
        return getattr(importlib.import_module(".interpreter", __package__), name)
    if name == "VMExecutor":
        return importlib.import_module(".backend.vm", __package__).VMExecutor
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")

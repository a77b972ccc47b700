"""From a graph to a deployable module: ``relay.build``."""

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
    """Parameters of the function replaced by constants, by their names; names it does not have are ignored. uint16
    gives the bits of a parameter that is bfloat16."""
    names = {p.name_hint: p for p in func.params}
    twice = [n for n in names if sum(p.name_hint == n for p in func.params) > 1 and n in params]
    if twice:
        raise ValueError(f"several parameters of the function are named '{twice[0]}'")
    table = {n: _constant(v, names[n].type_annotation) for n, v in params.items() if n in names}
    return bind(func, table) if table else func


def _constant(value, wanted) -> Constant:
    if isinstance(value, Constant):
        return value
    array = value if isinstance(value, ndarray.NDArray) else ndarray.array(value)
    if array.dtype == "uint16" and isinstance(wanted, TensorType) and wanted.dtype == "bfloat16":
        # Scripts without ml_dtypes hold bfloat16 as bits.
        array = ndarray.empty(array.shape, "bfloat16").copyfrom(array.numpy())
    return Constant(array)


def _as_module(ir_mod) -> IRModule:
    if isinstance(ir_mod, Function):
        warnings.warn(
            "pass an IRModule to relay.build; a plain function is deprecated", DeprecationWarning, stacklevel=3
        )
        return IRModule.from_expr(ir_mod)
    if not isinstance(ir_mod, IRModule):
        raise ValueError(f"relay.build: an IRModule is wanted, got {type(ir_mod).__name__}")
    return ir_mod


def _targets(target, target_host) -> tuple[Target, Target]:
    """One target, and its host."""
    targets, host = all_targets(target, target_host)
    if len(targets) != 1:
        raise TVMError(f"one target is wanted here, got {len(targets)}: {', '.join(str(t).strip() for t in targets)}")
    return targets[0], host


def all_targets(target, target_host) -> tuple[list[Target], Target]:
    """The targets of a build, one for each kind of device, and the host they share."""
    if target is None:
        target = Target.current(allow_none=True) or "llvm"
    given = list(target.values()) if isinstance(target, Mapping) and "kind" not in target else target
    given = list(given) if isinstance(given, (list, tuple)) else [given]
    if not given:
        raise TVMError("relay.build: no target is given")
    targets = [Target(t) if target_host is None else Target(t, target_host) for t in given]
    _check_devices(target, targets)
    given_host = next((t.host for t in targets if t.host is not None), None)
    hosts = [t for t in targets if is_host(t)]
    on_cpu = [t for t in hosts if t.get_target_device_type() == Device.kDLCPU]
    return targets, given_host or host_of((on_cpu + hosts + targets)[0])


def _check_devices(given, targets: list[Target]) -> None:
    """Each target has a kind of device of its own, and where a mapping names the device, it is the target's."""
    kinds = [t.get_target_device_type() for t in targets]
    for number, kind in enumerate(kinds):
        if kind in kinds[:number]:
            raise TVMError(f"relay.build: targets '{str(targets[kinds.index(kind)]).strip()}' and "
                           f"'{str(targets[number]).strip()}' run on one kind of device; give one target for each kind")
    if isinstance(given, Mapping) and "kind" not in given:
        for key, target, kind in zip(given, targets, kinds):
            named = getattr(key, "device_type", key)
            named = device(named).device_type if isinstance(named, str) else int(named)
            if named != kind:
                raise TVMError(f"relay.build: target '{str(target).strip()}' does not run on device {key}")


def optimize(mod, target=None, params=None) -> tuple[IRModule, dict]:
    """The module after the graph passes.

    Parameters
    ----------
    mod : IRModule
        The module.
    target : optional
        The target; without it, the current one.
    params : dict of str to NDArray, optional
        The weights by name.

    Returns
    -------
    tuple of IRModule and dict
        The module, and the weights that are not part of it.
    """
    mod = _as_module(mod)
    if params:
        mod = mod.clone()
        mod["main"] = bind_params_by_name(mod["main"], params)
    target, _ = _targets(target, None)
    with target:
        mod = run_pipeline(infer_module(mod), pipeline.optimize(target), PassContext.current())
    return infer_module(mod), dict(params or {})


def say_nothing(stage: str, done: int, total: int) -> None:
    """The progress nobody asked for."""


def _fuse(mod: IRModule, target: Target, ctx: PassContext) -> IRModule:
    """The module as calls of kernels; without FuseOps each operator is a kernel of its own."""
    if "FuseOps" in (ctx.disabled_pass or ()):
        fused = run_pipeline(mod, (PlaceKernels(),), ctx).clone()
        fused["main"] = fuse_function(fused["main"], 0)
    else:
        fused = run_pipeline(mod, pipeline.fusion(target), ctx).clone()
    fused["main"] = constants_outside(fused["main"])
    return infer_module(fused)


def build(
    ir_mod, target=None, target_host=None, executor=None, runtime=None, workspace_memory_pools=None,
    constant_memory_pools=None, params=None, mod_name="default", *, progress=say_nothing,
) -> Any:
    """Compile the function ``main``; the result makes executors: ``lib["default"](device)``.

    ``executor`` and ``runtime`` choose what the compiled program is written as. ``progress(stage, done, total)`` is
    told how far it is. A parameter ``p`` of tuple type becomes the inputs ``p_0``, ``p_1`` and so on, its fields.

    Parameters
    ----------
    ir_mod : IRModule or Function
        The model; its function ``main`` is compiled.
    target : str, Target, list or dict, optional
        What it is compiled for; without it, the current target.
    target_host : str or Target, optional
        What the host code of a GPU is compiled for.
    executor : Executor, optional
        How the model is run; the graph executor without it.
    runtime : Runtime, optional
        The runtime it is for.
    workspace_memory_pools : WorkspaceMemoryPools, optional
        Regions for intermediate values.
    constant_memory_pools : ConstantMemoryPools, optional
        Regions for constants.
    params : dict of str to NDArray, optional
        The weights by name, which become constants.
    mod_name : str, optional
        The name of the module, which names of kernels begin with.
    progress : callable, optional
        Told what is being done and how much of it.

    Returns
    -------
    ExecutorFactoryModule
        The compiled model: ``export_library`` saves it, ``["default"](device)`` makes an executor.

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
            warnings.warn(f"target '{str(one).strip()}': {', '.join(one.libs)} is not available yet; every operator is "
                          "compiled", stacklevel=2)
    with contextlib.ExitStack() as scope:
        scope.enter_context(rare_collections)
        if writer.context is not None:
            scope.enter_context(writer.context(PassContext.current(), targets[0]))
        for one in targets:
            scope.enter_context(records_at_hand(one))
        links = bool(executor.options.get("link-params")) and not writer.links_constants
        program, fused, used = _compile_graph(ir_mod, targets, params, mod_name, links, progress)
        built = writer.write(writers.CompiledModel(
            program, lambda: library_of(program.kernels, used, host, progress), fused,
            used[0] if len(used) == 1 else tuple(used), host, mod_name, executor, runtime, progress,
            workspace_memory_pools, constant_memory_pools,
        ))  # fmt: skip
    if sum(math.prod(value.shape) for value in program.constants.values()) >= _MANY_WEIGHTS:
        release_free_memory()
    return built


# Elements of weights from which on the temporary arrays of compiling are worth giving back.
_MANY_WEIGHTS = 1 << 22


def records_at_hand(target: Target) -> Any:
    """Records at hand for the target, where the user has given none."""
    untouched = type(DispatchContext.current) is FallbackContext
    return tophub.context(target) if untouched and tophub.record_files(target) else contextlib.nullcontext()


def _compile_graph(
    ir_mod, targets: list[Target], params, mod_name: str, links_params: bool, progress
) -> tuple[Program, IRModule, list[Target]]:
    """The planned program of a model, the graph it was made from, and the targets whose devices it runs on."""
    progress("improving the graph", 0, 0)
    mod = _as_module(ir_mod)
    if params:
        mod = mod.clone()
        mod["main"] = bind_params_by_name(mod["main"], params)
    made = compile_program(with_flat_params(mod), targets, f"tvmgen_{sanitize_name(mod_name)}", to_kernels)
    if links_params:
        link_params(made[0])
    made[0].plan = plan_program(made[0])
    return made


def to_kernels(mod: IRModule, target: Target) -> IRModule:
    """The module as calls of kernels for a target."""
    optimized, _ = optimize(mod, target)
    return _fuse(optimized, target, PassContext.current())


def library_of(kernels: Sequence[Kernel], targets: list[Target], host: Target, progress=say_nothing) -> Any:
    """The code of all kernels as one module."""

    def lowered():
        # Those that the back end takes longest for come first: it compiles them while others are scheduled.
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
    """Whether a kernel has no operator whose code is long: no matmul, convolution, or the like."""
    names = getattr(kernel, "operators", ())
    return not any(pattern_of(OPS[name]) == OpPattern.OUT_ELEMWISE_FUSABLE for name in names if name in OPS)


def _empty() -> IRModule:
    """A model may be nothing but reshapes; its library still needs a function."""
    from ..tir.function import PrimFunc
    from ..tir.stmt import no_op

    return IRModule({"tvmgen_nothing": PrimFunc([], no_op(), None, {}, {"global_symbol": "tvmgen_nothing"})})


def __getattr__(name: str) -> Any:
    # The executors stand on this module; under TVM's path they are names of it.
    if name in ("DebugExecutor", "GraphExecutor", "create_executor"):
        return getattr(importlib.import_module(".interpreter", __package__), name)
    if name == "VMExecutor":
        return importlib.import_module(".backend.vm", __package__).VMExecutor
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")

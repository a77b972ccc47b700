"""Move kernels for which the auto-scheduler has a schedule out of the graph before passes change layouts.

The auto-scheduler tunes operators in their original layouts. The pass therefore fuses the unmodified graph once. A
fused kernel with a tuning record becomes a function of the module, which later passes do not change. All other
operators are compiled with the templates of the target."""

from __future__ import annotations

import logging
from typing import Any

from ...auto_scheduler.compute_dag import LayoutRewriteOption
from ...error import TVMError
from ...ir.module import GlobalVar, IRModule
from ...ir.op import Op
from ...ir.structural import structural_key
from ...ir.transform import ModulePass, PassContext, PassInfo, run_pipeline
from ...ir.visit import post_order, rewrite
from ...target import Target
from ..backend.auto_schedule import (
    computation_of,
    constants_of,
    has_reduction,
    is_scheduled,
    over_stored,
    wanted_layouts,
    with_steps,
)
from ..backend.te_compiler import kernel_name
from ..expr import Call, Constant, Function
from ..infer import infer_module
from ..substitute import substitute_vars
from .fast_math import FastMath
from .fold_constant import FoldConstant
from .function_pass import target_of_pass, typed_module
from .fuse_ops import FuseOps
from .searched_form import searched_form
from .sink_reshape import SinkReshape

logger = logging.getLogger("auto_scheduler")


def fuse_plain(mod: IRModule, target: Target, ctx: PassContext) -> IRModule:
    """Fuse a graph without the layout and algorithm passes that the target's templates need."""
    passes = (SinkReshape(), FoldConstant(), FastMath(), FuseOps(target=target))
    return typed_module(run_pipeline(typed_module(mod), passes, ctx))


def is_kernel_call(node: Any) -> bool:
    return type(node) is Call and isinstance(node.op, Function) and bool(node.op.attrs.get("Primitive"))


def name_of(function: Function) -> str:
    """Return the name of a kernel, composed of the names of its operators."""
    return kernel_name(tuple(n.op.name for n in post_order(function.body) if type(n) is Call and type(n.op) is Op))


class _Found:
    """The schedules that the current dispatch context has for kernels; each kernel is looked up once."""

    def __init__(self, target: Target):
        self.target = target
        self.known: dict[str, GlobalVar | None] = {}
        self.kernels: dict[GlobalVar, Function] = {}

    def of(self, call: Call) -> Call | None:
        """Return a call of the scheduled kernel, or None if it has no schedule. The form of the kernel that the search
        uses (such as Winograd) is tried first, then the original form."""
        searched = searched_form(call, self.target)
        for form in (searched,) if searched is call else (searched, call):
            kernel = self._kernel(form.op)
            if kernel is not None:
                return Call(kernel, form.args, None, (), call.span)
        return None

    def _kernel(self, function: Function) -> GlobalVar | None:
        key = structural_key(function)
        if key not in self.known:
            made = self._made(function)
            name = None if made is None else GlobalVar(f"auto_scheduled_{len(self.kernels)}")
            self.known[key] = name
            if name is not None:
                self.kernels[name] = made
        return self.known[key]

    def _made(self, function: Function) -> Function | None:
        dag = computation_of(function, self.target)
        if dag is None:
            return None
        # Imported here, so that the auto-scheduler is loaded only if it is used.
        from ...auto_scheduler.dispatcher import DispatchContext

        name, workload_key = name_of(function), dag.workload_key()
        state = DispatchContext.current.query(self.target, workload_key, has_reduction(dag), dag, name)
        if state is None:
            return None
        try:
            dag.state_of(state.transform_steps)
            dag.apply_steps_from_state(state)
        except TVMError as error:
            logger.warning(
                "the tuning record of %s (workload %s) cannot be applied and is ignored: %s", name, workload_key, error
            )
            return None
        return with_steps(function, state)


def AutoScheduleKernels(target: Target) -> ModulePass:
    """Move kernels that have a schedule in the auto-scheduler's dispatch context into functions of the module.

    The pass runs if ``relay.backend.use_auto_scheduler`` is set. ``main`` calls the functions, and later passes do not
    change them."""

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        if not ctx.get_config("relay.backend.use_auto_scheduler"):
            return mod
        found = _Found(target)

        def post(node: Any) -> Any:
            if not is_kernel_call(node):
                return None
            scheduled = found.of(node)
            if scheduled is not None:
                return scheduled
            return substitute_vars(node.op.body, dict(zip(node.op.params, node.args)))

        main = rewrite(fuse_plain(mod, target, ctx)["main"], post)
        if not found.kernels:
            return mod
        new = mod.clone()
        new["main"] = main
        for name, function in found.kernels.items():
            new[name] = function
        return infer_module(new)

    return ModulePass(run, PassInfo(0, "AutoScheduleKernels", ["InferType"]))


def AutoSchedulerLayoutRewrite(target: Target | None = None) -> ModulePass:
    """Store the constants of scheduled kernels in the layout in which the kernels read them, on targets that benefit.

    Parameters
    ----------
    target : Target or None
        The target to compile for; None selects the current target.

    Returns
    -------
    ModulePass
        The pass.
    """
    given = target

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        target = target_of_pass(given)
        kernels = {name.name_hint: f for name, f in mod.functions.items() if is_scheduled(f)}
        if not kernels or target is None or not LayoutRewriteOption.get_target_default(target, True):
            return mod
        new, made = mod.clone(), {}

        def post(node: Any) -> Any:
            kernel = kernels.get(node.op.name_hint) if type(node) is Call and type(node.op) is GlobalVar else None
            constants = constants_of(Call(kernel, node.args)) if kernel is not None else ()
            if not constants:
                return None
            key = (node.op.name_hint, constants)
            if key not in made:
                layouts = wanted_layouts(kernel, target, constants)
                made[key] = GlobalVar(f"{key[0]}_{len(made)}"), layouts
                if layouts:
                    new[made[key][0]] = over_stored(kernel, layouts)
            name, layouts = made[key]
            if not layouts:
                return None
            args = [
                Constant(layouts[place].store(argument.data.numpy())) if place in layouts else argument
                for place, argument in enumerate(node.args)
            ]
            return Call(name, tuple(args), None, (), node.span)

        new["main"] = rewrite(mod["main"], post)
        return infer_module(new)

    return ModulePass(run, PassInfo(3, "AutoSchedulerLayoutRewrite", ["InferType"]))


def PlaceKernels() -> ModulePass:
    """Replace calls of scheduled kernels in ``main`` by calls of inline fused functions, the form that ``FuseOps``
    produces."""

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        kernels = {name.name_hint: f for name, f in mod.functions.items() if is_scheduled(f)}
        if not kernels:
            return mod

        def post(node: Any) -> Any:
            kernel = kernels.get(node.op.name_hint) if type(node) is Call and type(node.op) is GlobalVar else None
            return None if kernel is None else Call(kernel, node.args, None, (), node.span)

        def placed(name: GlobalVar, function: Any) -> Any:
            return None if is_scheduled(function) else rewrite(function, post) if name.name_hint == "main" else function

        return infer_module(mod.map_functions(placed))

    return ModulePass(run, PassInfo(0, "PlaceKernels", ["InferType"]))


__all__ = [
    "AutoScheduleKernels",
    "AutoSchedulerLayoutRewrite",
    "PlaceKernels",
    "fuse_plain",
    "is_kernel_call",
    "name_of",
]

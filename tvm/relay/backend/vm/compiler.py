"""``relay.vm.compile``: compile a module to an executable of the virtual machine."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ....error import TVMError
from ....ir.module import IRModule
from ....ir.transform import PassContext, run_pass, run_pipeline
from ....runtime.devices import Device
from ....runtime.ndarray import NDArray, array
from ....runtime.vm import Executable, VirtualMachine
from ....runtime.vm_code import Code, seal, to_words
from ....target import Target
from ...build_module import all_targets, bind_params_by_name, ignore_progress, library_of, records_at_hand, to_kernels
from ...expr import Function
from ...infer import infer_module
from ...interpreter import Executor
from ...symbolic import sizes_by_name
from ...transform.dead_code import RemoveUnusedFunctions
from ...transform.hoist_loops import HoistLoops
from ...transform.inline import Inline, InlinePrimitives, LambdaLift
from ...transform.lift_called import lift_called
from ...transform.straight_graph import straighten
from ..external.partitions import compile_partitions, without_compilers
from ..rare_collections import rare_collections
from .assembler import Tables
from .codegen import ModuleWriter
from .lines import is_straight
from .region import RegionCompiler

# Passes that remove or inline functions before code generation.
PASSES = (RemoveUnusedFunctions(), Inline(), InlinePrimitives())
Progress = Callable[[str, int, int], None]


class VMCompiler:
    """Compiles a module step by step: ``set_params``, ``lower``, ``codegen``, ``get_exec``."""

    def __init__(self) -> None:
        self.params: dict[str, NDArray] = {}
        self._executable: Executable | None = None
        self._lowered: _Lowered | None = None

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Set the weights, which become constants.

        Parameters
        ----------
        params : dict of str to NDArray
            The weights by name.
        """
        self.params = {name: v if isinstance(v, NDArray) else array(v) for name, v in params.items()}

    def get_params(self) -> dict[str, NDArray]:
        """Return the weights by name.

        Returns
        -------
        dict of str to NDArray
        """
        return dict(self.params)

    def optimize(
        self, mod: IRModule, target: Any = None, target_host: Any = None, params: Mapping[str, Any] | None = None
    ) -> tuple[IRModule, dict[str, NDArray]]:
        """Return the module after all passes on functions, before its operators are compiled.

        Parameters
        ----------
        mod : IRModule
            The module to optimize.
        target : optional
            The target; None selects the current target.
        target_host : optional
            The target of host code.
        params : dict of str to NDArray, optional
            The weights by name.

        Returns
        -------
        tuple of IRModule and dict
            The optimized module, and the weights.
        """
        if params:
            self.set_params(params)
        all_targets(target, target_host)
        return prepared(_with_params(mod, self.params)), self.get_params()

    def lower(
        self, mod: IRModule, target: Any = None, target_host: Any = None, *, mod_name: str = "default",
        progress: Progress = ignore_progress,
    ) -> None:  # fmt: skip
        """Compile the functions to instructions and kernels.

        Parameters
        ----------
        mod : IRModule
            The module to compile.
        target : optional
            The target; None selects the current target.
        target_host : optional
            The target of host code.
        mod_name : str, optional
            The module name, which is part of the kernel names.
        progress : callable, optional
            Called with the current stage, like the callback of ``relay.build``.
        """
        progress("improving the graph", 0, 0)
        self._lowered = _Lowered(_with_params(mod, self.params), *all_targets(target, target_host), mod_name)

    @property
    def kernels(self) -> list[Any]:
        """Return the kernels of the lowered module, including shape functions."""
        return self._lowered.regions.kernels() if self._lowered is not None else []

    def codegen(self, progress: Progress = ignore_progress) -> None:
        """Compile the kernels of the lowered module.

        Parameters
        ----------
        progress : callable, optional
            Called with the current stage, like the callback of ``relay.build``.

        Raises
        ------
        TVMError
            No module has been lowered.
        """
        if self._lowered is None:
            raise TVMError("VMCompiler.codegen: no module has been lowered; call lower first")
        self._executable = self._lowered.executable(progress)

    def get_exec(self) -> Executable:
        """Return the executable that ``codegen`` created.

        Returns
        -------
        Executable

        Raises
        ------
        TVMError
            ``codegen`` has not been called.
        """
        if self._executable is None:
            raise TVMError("VMCompiler.get_exec: there is no executable; call lower and codegen first")
        return self._executable


class _Lowered:
    """The instructions of a module and its kernels."""

    def __init__(self, mod: IRModule, targets: list[Target], host: Target, mod_name: str):
        self.targets, self.host = targets, host
        with self.records():
            mod, self.partitions = compile_partitions(mod)
            mod = prepared(mod)
            self.regions = RegionCompiler(targets, host, f"tvmgen_{mod_name}", to_kernels)
            kinds = [t.get_target_device_type() for t in targets]
            code = Code([Device.kDLCPU, *(kind for kind in kinds if kind != Device.kDLCPU)])
            self.tables = Tables(code, self.regions.default)
            names = [v.name_hint for v, f in mod.functions.items() if isinstance(f, Function)]
            entries = [n for n in names if n == "main"] or names
            ModuleWriter(mod, self.tables, self.regions).write(entries)

    @contextlib.contextmanager
    def records(self) -> Iterator[None]:
        with contextlib.ExitStack() as scope:
            scope.enter_context(rare_collections)
            for target in self.targets:
                scope.enter_context(records_at_hand(target))
            yield

    def executable(self, progress: Progress) -> Executable:
        with self.records():
            library = self.partitions.into(library_of(self.regions.kernels(), self.targets, self.host, progress))
        made = Executable.load_exec(seal(to_words(self.tables.code)), library)
        slots = self.tables.code.constants
        made.load_late_bound_consts_from_map({s.name: a for s, a in zip(slots, self.tables.arrays)})
        return made


def prepared(mod: IRModule) -> IRModule:
    """Return the module after all passes on functions. A module without control flow becomes a single straight
    function."""
    mod = without_compilers(mod)
    if len(mod) == 1 and "main" in mod and isinstance(mod["main"], Function) and is_straight(mod["main"].body):
        # The types of the original model are not inferred, since this function discards them.
        return _straight(mod["main"], mod)
    mod = infer_module(mod)
    if "main" in mod and isinstance(mod["main"], Function):
        main = straighten(mod["main"], mod)
        if is_straight(main.body):
            return _straight(main, mod)
        passes = PASSES
    else:
        passes = PASSES[1:]
    ctx = PassContext.current()
    # LambdaLift runs at every optimization level, since the virtual machine does not support inner functions.
    mod = run_pass(LambdaLift(), lift_called(infer_module(run_pipeline(mod, passes, ctx))), ctx)
    return run_pipeline(mod, (HoistLoops(),), ctx)


def _straight(main: Function, mod: IRModule) -> IRModule:
    straight = IRModule(None, mod.type_definitions)
    straight["main"] = sizes_by_name(main)
    return infer_module(straight)


def _with_params(mod: Any, params: Mapping[str, Any]) -> IRModule:
    if isinstance(mod, Function):
        mod = IRModule.from_expr(mod)
    if not isinstance(mod, IRModule):
        raise TVMError(f"relay.vm.compile: expected an IRModule, got {type(mod).__name__}")
    if not params:
        return mod
    mod = mod.clone()
    mod["main"] = bind_params_by_name(mod["main"], params)
    return mod


def compile(
    mod: Any, target: Any = None, target_host: Any = None, params: Mapping[str, Any] | None = None
) -> Executable:
    """Compile a module for the virtual machine.

    Parameters
    ----------
    mod : IRModule or Function
        The module to compile. Its entry is ``main``; without ``main``, every function is an entry.
    target : optional
        The target; None selects the current target. A list or dict contains one target for each device type: operators
        run on the device of their ``on_device`` annotation; calls, branches and data are on the default device.
    target_host : optional
        The target of host code.
    params : dict of str to NDArray, optional
        The weights by name, which become constants.

    Returns
    -------
    Executable
        The executable for ``tvm.runtime.vm.VirtualMachine``.

    Raises
    ------
    TVMError
        The module contains an expression that the virtual machine does not support.

    Examples
    --------
    >>> x = relay.var("x", shape=())
    >>> mod = tvm.IRModule.from_expr(relay.Function([x], relay.If(x > relay.const(0.0), x, relay.const(0.0) - x)))
    >>> machine = tvm.runtime.vm.VirtualMachine(relay.vm.compile(mod, "llvm"), tvm.cpu())
    >>> float(machine.run(np.float32(-3)).numpy())
    3.0
    """
    compiler = VMCompiler()
    if params:
        compiler.set_params(params)
    compiler.lower(mod, target, target_host)
    compiler.codegen()
    return compiler.get_exec()


def optimize(
    mod: IRModule, target: Any = None, target_host: Any = None, params: Mapping[str, Any] | None = None
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the module after all passes on functions, before its operators are compiled.

    Parameters
    ----------
    mod : IRModule
        The module to optimize.
    target : optional
        The target; None selects the current target.
    target_host : optional
        The target of host code.
    params : dict of str to NDArray, optional
        The weights by name.

    Returns
    -------
    tuple of IRModule and dict
        The optimized module, and the weights.
    """
    return VMCompiler().optimize(mod, target, target_host, params)


class VMExecutor(Executor):
    """An executor that compiles for the virtual machine and runs the result."""

    @property
    def executable(self) -> Executable:
        """The compiled module of the executor."""
        return compile(self.mod, self.target, params=self.params)

    @property
    def vm(self) -> VirtualMachine:
        """A virtual machine for the executable."""
        return VirtualMachine(self.executable, self.device)

    def _compile(self, mod: IRModule) -> Any:
        machine = VirtualMachine(compile(mod, self.target), self.device)

        def run(args: list) -> Any:
            machine.set_input("main", *args)
            return machine.invoke("main")

        run.machine = machine
        return run


__all__ = ["VMCompiler", "VMExecutor", "compile", "optimize"]

"""Test models compiled ahead of time to plain C: build a C program for this machine, run it, compare its outputs."""

from __future__ import annotations

import collections
import contextlib
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..dtype import info
from ..error import TVMError
from ..ir.module import IRModule
from ..ir.transform import PassContext
from ..relay import build as relay_build
from ..relay.backend import Executor, Runtime
from ..relay.backend.executor_factory import AOTExecutorFactoryModule
from ..relay.expr import Function
from ..target import Target
from .aot_program import MODEL_FLAGS, Extras, Program


class AOTTestModel(NamedTuple):
    """A model, its inputs, and the expected outputs.

    Parameters
    ----------
    module : IRModule
        The model.
    inputs : dict of str to numpy.ndarray
        The inputs by name.
    outputs : dict of str to numpy.ndarray
        The outputs by name, in order.
    output_tolerance : float, optional
        The maximum absolute error of an output. By default, integers must be equal and floats must agree to a relative
        error of 1e-4 or an absolute error of 1e-5.
    name : str, optional
        The name of the model.
    params : dict of str to NDArray, optional
        The weights by name.
    extra_memory_in_bytes : int, optional
        The maximum difference between the size of a workspace and its planned size (``debug_calculated_workspaces``).
    """

    module: IRModule
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    output_tolerance: float | None = None
    name: str = "default"
    params: Mapping[str, Any] | None = None
    extra_memory_in_bytes: int = 0


class AOTCompiledTestModel(NamedTuple):
    """A test model and its compiled form.

    Parameters
    ----------
    model : AOTTestModel
        The model.
    executor_factory : AOTExecutorFactoryModule
        The compiled model.
    """

    model: AOTTestModel
    executor_factory: AOTExecutorFactoryModule


class AOTDataLinkage(NamedTuple):
    """The linker section and the alignment of the input and output arrays of a test program.

    Parameters
    ----------
    section : str
        The section of the object file.
    alignment : int
        The alignment in bytes.
    """

    section: str
    alignment: int


class AOTTestRunner(NamedTuple):
    """Settings for building and running a test program.

    Parameters
    ----------
    makefile : str, optional
        "default", which builds for this machine; no other value is supported.
    prologue : str, optional
        C statements at the beginning of main.
    epilogue : str, optional
        C statements at the end of main.
    includes : list of str, optional
        Headers that the program includes.
    parameters : dict of str to str, optional
        Macros of the program.
    pass_config : dict, optional
        Options of the pass context by name.
    """

    makefile: str = "default"
    prologue: str = ""
    epilogue: str = ""
    includes: Sequence[str] = ()
    parameters: Mapping[str, str] = {}
    pass_config: Mapping[str, Any] = {}


def get_dtype_range(dtype: str) -> tuple[int, int]:
    """Return the minimum and maximum of an integer type; -1 and 1 for floating-point types."""
    if info(dtype).code not in ("int", "uint"):
        return -1, 1
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def generate_ref_data(
    mod: IRModule | Function,
    input_data: Mapping[str, Any],
    params: Mapping[str, Any] | None = None,
    target: Any = "llvm",
) -> dict[str, np.ndarray]:
    """Compute the outputs of a model with the graph executor.

    Parameters
    ----------
    mod : IRModule or Function
        The model.
    input_data : dict of str to numpy.ndarray
        The inputs by name.
    params : dict of str to NDArray, optional
        The weights by name.
    target : str or Target, optional
        The target of the reference.

    Returns
    -------
    dict of str to numpy.ndarray
        The outputs: "output", or "output0", "output1" and so on.
    """
    from ..contrib.graph_executor import GraphModule
    from ..runtime import cpu

    module = mod if isinstance(mod, IRModule) else IRModule.from_expr(mod)
    with PassContext(opt_level=3):
        runner = GraphModule(relay_build(module, target, params=params)["default"](cpu(0)))
    runner.run(**input_data)
    count = runner.get_num_outputs()
    names = ["output"] if count == 1 else [f"output{i}" for i in range(count)]
    return collections.OrderedDict((name, runner.get_output(i).numpy()) for i, name in enumerate(names))


def compile_models(
    models: AOTTestModel | Sequence[AOTTestModel],
    interface_api: str,
    use_unpacked_api: bool,
    workspace_byte_alignment: int = 8,
    constant_byte_alignment: int = 8,
    enable_op_fusion: bool = True,
    pass_config: Mapping[str, Any] | None = None,
    use_runtime_executor: bool = True,
    target: Any = "c",
    workspace_memory_pools: Any = None,
    constant_memory_pools: Any = None,
    schedule_name: str | None = None,
) -> list[AOTCompiledTestModel]:
    """Compile models ahead of time.

    Parameters
    ----------
    models : AOTTestModel or list of AOTTestModel
        The models.
    interface_api : str
        "c" or "packed".
    use_unpacked_api : bool
        Whether the main function takes data pointers.
    workspace_byte_alignment : int, optional
        The alignment of the workspace.
    constant_byte_alignment : int, optional
        The alignment of constants.
    enable_op_fusion : bool, optional
        Whether operators are fused.
    pass_config : dict, optional
        Options of the pass context by name.
    use_runtime_executor : bool, optional
        Whether the executor and the runtime are arguments of ``relay.build``, the only way there is.
    target : str or Target, optional
        The target.
    workspace_memory_pools : WorkspaceMemoryPools, optional
        Memory pools for intermediate results.
    constant_memory_pools : ConstantMemoryPools, optional
        Memory pools for constants.
    schedule_name : str, optional
        The name of a schedule of MetaSchedule, which is not supported.

    Returns
    -------
    list of AOTCompiledTestModel

    Raises
    ------
    TVMError
        An option is not supported.
    """
    if not use_runtime_executor:
        raise TVMError("compile_models: use_runtime_executor=False is not supported: the executor is an argument of "
                       "relay.build, not an option of the target")  # fmt: skip
    if schedule_name is not None:
        raise TVMError("compile_models: schedule_name is not supported: it requires MetaSchedule")
    options = {
        "workspace-byte-alignment": workspace_byte_alignment, "constant-byte-alignment": constant_byte_alignment,
        "interface-api": interface_api, "unpacked-api": use_unpacked_api, "link-params": True,
    }  # fmt: skip
    config = {"tir.disable_vectorize": True, **(pass_config or {})}
    disabled = None if enable_op_fusion else ["FuseOps"]
    compiled = []
    for model in [models] if isinstance(models, AOTTestModel) else models:
        with PassContext(opt_level=3, config=config, disabled_pass=disabled):
            factory = relay_build(
                model.module, target, executor=Executor("aot", options), runtime=Runtime("crt"), params=model.params,
                mod_name=model.name, workspace_memory_pools=workspace_memory_pools,
                constant_memory_pools=constant_memory_pools,
            )  # fmt: skip
        compiled.append(AOTCompiledTestModel(model, factory))
    return compiled


def run_and_check(
    models: Sequence[AOTCompiledTestModel], runner: AOTTestRunner, interface_api: str,
    debug_calculated_workspaces: bool = False, workspace_byte_alignment: int = 8, constant_byte_alignment: int = 8,
    data_linkage: AOTDataLinkage | None = None, test_dir: str | None = None, verbose: bool = False,
    use_workspace_io: bool = False, debug_last_error: bool = False,
    checker: Callable[[str], bool] | None = None,
) -> bool:  # fmt: skip
    """Build a C program of compiled models, run it, and compare the outputs with those of the models.

    Parameters
    ----------
    models : list of AOTCompiledTestModel
        The compiled models.
    runner : AOTTestRunner
        The settings for building and running the program.
    interface_api : str
        The interface that the models were compiled with.
    debug_calculated_workspaces : bool, optional
        Whether the size of each workspace in the object file is compared with the memory plan.
    workspace_byte_alignment : int, optional
        The workspace alignment that the models were compiled with.
    constant_byte_alignment : int, optional
        The constant alignment that the models were compiled with.
    data_linkage : AOTDataLinkage, optional
        The section and alignment of inputs and outputs.
    test_dir : str, optional
        The folder of the program; a temporary folder by default.
    verbose : bool, optional
        Whether the source of the program is printed.
    use_workspace_io : bool, optional
        Whether the models were compiled with inputs and outputs in memory pools (``tir.usmp.use_workspace_io``).
    debug_last_error : bool, optional
        Whether the status of a run that failed is printed.
    checker : callable, optional
        A function that is called with the folder instead of comparing the outputs.

    Returns
    -------
    bool
        The return value of ``checker``, or True if the outputs are equal.

    Raises
    ------
    TVMError
        The program could not be built, or a run failed.
    AssertionError
        An output differs.
    """
    if runner.makefile != "default":
        raise TVMError(f"run_and_check: unknown runner '{runner.makefile}'; use 'default', which runs on this machine")
    _check_options(models, interface_api, workspace_byte_alignment, constant_byte_alignment, use_workspace_io)
    attribute = ""
    if data_linkage is not None:
        section, alignment = data_linkage
        attribute = f'__attribute__((section("{section}"), aligned({alignment})))'
    extras = Extras(runner.prologue, runner.epilogue, runner.includes, runner.parameters, attribute)
    with _folder(test_dir) as folder:
        program = Program([m.executor_factory.plain_model for m in models], folder, extras)
        program.build()
        if verbose:
            print((folder / "main.c").read_text())
        if debug_calculated_workspaces:
            _check_workspaces(program, [model.extra_memory_in_bytes for model, _ in models])
        if checker is not None:
            return checker(str(folder))
        for model, _ in models:
            try:
                found = program.run(model.name, model.inputs)
            except TVMError as error:
                if debug_last_error:
                    print(error)
                raise
            _compare(model, found)
    return True


@contextlib.contextmanager
def _folder(asked: str | None) -> Iterator[Path]:
    with contextlib.ExitStack() as scope:
        place = Path(asked or scope.enter_context(tempfile.TemporaryDirectory(prefix="tvm-aot-")))
        place.mkdir(parents=True, exist_ok=True)
        yield place


def _check_options(
    models: Sequence[AOTCompiledTestModel], interface: str, workspace: int, constants: int, uses_io: bool
) -> None:
    """Check that the arguments of the caller agree with the options with which the models were compiled."""
    for model, factory in models:
        metadata = factory.executor_codegen_metadata
        stated = {"interface-api": interface, "workspace-byte-alignment": workspace,
                  "constant-byte-alignment": constants, "tir.usmp.use_workspace_io": uses_io}  # fmt: skip
        own = {"interface-api": metadata.interface_api, "workspace-byte-alignment": metadata.workspace_alignment,
               "constant-byte-alignment": metadata.constant_alignment,
               "tir.usmp.use_workspace_io": bool(metadata.io_pool_allocations)}  # fmt: skip
        for option, value in stated.items():
            if own[option] != value:
                raise TVMError(
                    f"run_and_check: model '{model.name}' was compiled with {option} {own[option]}, not {value}"
                )


def _check_workspaces(program: Program, extra: Sequence[int]) -> None:
    """Compare the size of each workspace in its object file with the memory plan; they may differ by ``extra``
    bytes."""
    for model, allowed in zip(program.models, extra):
        prefix = model.interface.prefix
        symbols = subprocess.run(
            ["nm", "-S", str(program.folder / f"{prefix}.o")], check=True, capture_output=True, text=True
        ).stdout
        entries = [line.split() for line in symbols.splitlines()]
        sizes = {entry[-1]: int(entry[1], 16) for entry in entries if len(entry) == 4}
        for pool in [] if model.interface.pools else model.interface.workspaces:
            found = sizes.get(model.interface.symbol_of(pool), 0)
            if abs(found - pool.nbytes) > allowed:
                raise TVMError(
                    f"model '{model.interface.mod_name}': the memory pool {pool.name} has {found} bytes in "
                    f"the object file, but its planned size is {pool.nbytes} bytes"
                )


def _compare(model: AOTTestModel, found: Sequence[np.ndarray]) -> None:
    assert len(found) == len(model.outputs), f"model '{model.name}' has {len(found)} outputs, not {len(model.outputs)}"
    for (name, wanted), value in zip(model.outputs.items(), found):
        expected = wanted.numpy() if hasattr(wanted, "numpy") else np.asarray(wanted)
        label = f"model '{model.name}', output '{name}'"
        if model.output_tolerance is not None:
            np.testing.assert_allclose(value, expected, rtol=0, atol=model.output_tolerance, err_msg=label)
        elif info(str(expected.dtype)).is_float:
            np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5, err_msg=label)
        else:
            np.testing.assert_array_equal(value, expected, label)


def compile_and_run(
    models: AOTTestModel | Sequence[AOTTestModel], runner: AOTTestRunner, interface_api: str, use_unpacked_api: bool,
    debug_calculated_workspaces: bool = False, workspace_byte_alignment: int = 8, constant_byte_alignment: int = 8,
    enable_op_fusion: bool = True, data_linkage: AOTDataLinkage | None = None, use_runtime_executor: bool = True,
    target: Any = "c", target_opts: Mapping[str, Any] | None = None, test_dir: str | None = None,
    verbose: bool = False, schedule_name: str | None = None, debug_last_error: bool = False,
    checker: Callable[[str], bool] | None = None,
) -> bool:  # fmt: skip
    """Compile models ahead of time, run them in a C program, and compare the outputs: ``compile_models`` and
    ``run_and_check``.

    Parameters
    ----------
    models : AOTTestModel or list of AOTTestModel
        The models.
    runner : AOTTestRunner
        The settings for building and running the program.
    interface_api : str
        "c" or "packed".
    use_unpacked_api : bool
        Whether the main function takes data pointers.
    debug_calculated_workspaces : bool, optional
        Whether the size of each workspace is compared with the memory plan.
    workspace_byte_alignment : int, optional
        The alignment of the workspace.
    constant_byte_alignment : int, optional
        The alignment of constants.
    enable_op_fusion : bool, optional
        Whether operators are fused.
    data_linkage : AOTDataLinkage, optional
        The section and alignment of inputs and outputs.
    use_runtime_executor : bool, optional
        Whether the executor and the runtime are arguments of ``relay.build``, the only way there is.
    target : str or Target, optional
        The target.
    target_opts : dict, optional
        Further options of the target.
    test_dir : str, optional
        The folder of the program; a temporary folder by default.
    verbose : bool, optional
        Whether the source of the program is printed.
    schedule_name : str, optional
        The name of a schedule of MetaSchedule, which is not supported.
    debug_last_error : bool, optional
        Whether the status of a run that failed is printed.
    checker : callable, optional
        A function that is called with the folder instead of comparing the outputs.

    Returns
    -------
    bool
        The return value of ``checker``, or True if the outputs are equal.
    """
    if target_opts:
        target = Target({**Target(target).export(), **target_opts})
    compiled = compile_models(
        models, interface_api, use_unpacked_api, workspace_byte_alignment, constant_byte_alignment, enable_op_fusion,
        runner.pass_config, use_runtime_executor, target, schedule_name=schedule_name,
    )  # fmt: skip
    return run_and_check(
        compiled, runner, interface_api, debug_calculated_workspaces, workspace_byte_alignment,
        constant_byte_alignment, data_linkage, test_dir, verbose,
        bool(runner.pass_config.get("tir.usmp.use_workspace_io")), debug_last_error, checker,
    )  # fmt: skip


class PlainRunner:
    """A model of a ``PlainBatch``, with the methods of ``GraphModule`` that run a model."""

    def __init__(self, batch: PlainBatch, name: str, outputs: int):
        self.batch, self.name, self.count = batch, name, outputs
        self.values: dict[str, Any] = {}
        self.found: list[np.ndarray] = []

    def set_input(self, name: str, value: Any) -> None:
        self.values[name] = value

    def run(self, **input_dict: Any) -> None:
        self.values.update(input_dict)
        self.found = self.batch.program(self.name).run(self.name, self.values)

    def get_num_outputs(self) -> int:
        return self.count

    def get_output(self, index: int) -> Any:
        from ..runtime import ndarray

        return ndarray.array(self.found[index])


class PlainBatch:
    """Models that are compiled to plain C one by one and linked into one program at the first run.

    Parameters
    ----------
    folder : Path
        The folder of the programs.
    flags : sequence of str, optional
        Options of the C compiler for the models.
    """

    def __init__(self, folder: Path, flags: Sequence[str] = MODEL_FLAGS):
        self.folder, self.flags = folder, flags
        self.waiting: list[Any] = []
        self.programs: dict[str, Program] = {}
        self.failures: dict[str, TVMError] = {}
        self.made = 0

    def add(self, module: IRModule, params: Mapping[str, Any]) -> PlainRunner:
        """Compile a model to C."""
        name = f"m{self.made}"
        self.made += 1
        executor = Executor("aot", {"interface-api": "c", "unpacked-api": True})
        built = relay_build(module, "c", params=params, executor=executor, runtime=Runtime("crt"), mod_name=name)
        self.waiting.append(built.plain_model)
        return PlainRunner(self, name, len(built.plain_model.interface.outputs))

    def program(self, name: str) -> Program:
        """Return the program that contains a model. If one model does not compile, each model gets a separate
        program."""
        waiting, self.waiting = self.waiting, []
        try:
            if waiting:
                self._build(waiting)
        except TVMError:
            for model in waiting:
                try:
                    self._build([model])
                except TVMError as error:
                    self.failures[model.interface.mod_name] = error
        if name in self.failures:
            raise self.failures[name]
        return self.programs[name]

    def _build(self, models: list[Any]) -> None:
        place = self.folder / models[0].interface.prefix
        place.mkdir(exist_ok=True)
        program = Program(models, place)
        program.build(self.flags)
        self.programs.update((model.interface.mod_name, program) for model in models)


__all__ = [
    "AOTCompiledTestModel", "AOTDataLinkage", "AOTTestModel", "AOTTestRunner", "PlainBatch", "PlainRunner",
    "compile_and_run", "compile_models", "generate_ref_data", "get_dtype_range", "run_and_check",
]  # fmt: skip

"""The return values of ``relay.build``: the compiled library, the parameters and the executor's data in one object."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...error import TVMError
from ...runtime import ndarray
from ...runtime.export import export_library
from ...runtime.graph_factory import TYPE_KEY, PackedFactory
from ...runtime.registry import get_global_func


class ExecutorFactoryModule:
    """The base class of the return values of ``relay.build``: the library, the parameters and the executor's data.

    A subclass whose models run on the graph executor defines ``get_graph_json``.

    Parameters
    ----------
    libmod : Module
        The compiled kernels.
    libmod_name : str
        The name of the model.
    params : dict of str to NDArray
        The weights by name.
    function_metadata : dict of str to FunctionInfo or callable
        The memory use and the loops of each function, or a callable that computes them on first access.
    """

    iter_cnt: int = 0
    runtime: Any = None

    def __init__(
        self, libmod: Any, libmod_name: str, params: Mapping[str, Any],
        function_metadata: Mapping[str, Any] | Callable[[], Mapping[str, Any]],
    ):  # fmt: skip
        self.lib = libmod
        self.libmod_name = libmod_name
        self.params = dict(params)
        self._function_metadata = function_metadata
        self._module: Any = None

    @property
    def function_metadata(self) -> Mapping[str, Any]:
        """The memory use, loops and graph of the whole model (``__tvm_main__``) and of each kernel, by name."""
        if callable(self._function_metadata):
            self._function_metadata = self._function_metadata()
        return self._function_metadata

    def get_graph_json(self) -> str:
        """The graph as JSON."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_graph_json")

    def get_executor_config(self) -> Any:
        """Return the configuration that the executor reads to run the model."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_executor_config")

    def get_params(self) -> dict[str, Any]:
        """The weights by name."""
        return self.params

    def get_lib(self) -> Any:
        """Return the library that contains the kernels."""
        return self.lib

    @property
    def module(self):
        """The factory as a runtime module, equal to the module that loading the exported library returns."""
        if self._module is None:
            self._check_runtime()
            self.lib._load()
            arrays = [ndarray.array(a) if not isinstance(a, ndarray.NDArray) else a for a in self.params.values()]
            pairs = [part for pair in zip(self.params, arrays) for part in pair]
            create = get_global_func("tvm.graph_executor_factory.create")
            self._module = create(bytearray(self._packed.head()), self.lib, *pairs)
        return self._module

    @property
    def _packed(self) -> PackedFactory:
        self._check_runtime()
        return PackedFactory(self.libmod_name, self.get_graph_json(), self.params)

    def _check_runtime(self) -> None:
        """Raise an error for a model that is compiled for programs without the runtime."""
        if self.runtime is not None and self.runtime.name == "crt":
            raise TVMError(
                f"model '{self.libmod_name}' is compiled for programs without the runtime (runtime "
                f"{self.runtime}) and cannot run here; compile it with runtime cpp"
            )

    def __getitem__(self, item: str):
        return self.module[item] if self.module.implements_function(item) else self.lib[item]

    def export_library(self, file_name, fcompile=None, addons=None, workspace_dir=None, fpack_imports=None, **kwargs):
        """Write a library that contains the graph and the parameters; loading it returns a factory module."""
        root = (TYPE_KEY, self._packed.at)
        return export_library(self.lib, file_name, fcompile, fpack_imports, addons, workspace_dir, root=root, **kwargs)

    def __iter__(self) -> Iterator:
        warnings.warn(
            "unpacking the result of relay.build as graph, lib, params is deprecated; use lib['default'](device)",
            DeprecationWarning,
            stacklevel=2,
        )
        self.iter_cnt = 0
        return self

    def __next__(self) -> Any:
        parts = (self.get_executor_config, self.get_lib, self.get_params)
        if self.iter_cnt >= len(parts):
            raise StopIteration
        self.iter_cnt += 1
        return parts[self.iter_cnt - 1]()


class GraphExecutorFactoryModule(ExecutorFactoryModule):
    """A model compiled for the graph executor. ``lib["default"](device)`` returns an executor module. Iterating over
    the factory yields the graph, the library and the parameters.

    Parameters
    ----------
    ir_mod : IRModule
        The graph from which the kernels were compiled.
    target : Target or tuple of Target
        The target or targets of the compilation.
    executor : Executor
        The executor for which the model was compiled.
    graph_json_str : str
        The graph as JSON.
    libmod : Module
        The compiled kernels.
    libmod_name : str
        The name of the model.
    params : dict of str to NDArray
        The weights by name.
    function_metadata : dict of str to FunctionInfo or callable
        The memory and the loops of each function, or a callable that computes them on first access.
    plan : Plan, optional
        The memory plan: where every value of the graph is stored.
    kernels : sequence of Kernel
        The kernels in the library.
    runtime : Runtime, optional
        The runtime for which the model was compiled, and its options.
    """

    def __init__(
        self, ir_mod, target, executor, graph_json_str: str, libmod, libmod_name: str, params: dict[str, Any],
        function_metadata: Mapping[str, Any] | Callable[[], Mapping[str, Any]], plan=None, kernels=(), runtime=None,
    ):  # fmt: skip
        super().__init__(libmod, libmod_name, params, function_metadata)
        self.ir_mod = ir_mod
        self.target = target
        self.executor = executor
        self.runtime = runtime
        self.graph_json = graph_json_str
        self.memory_plan = plan
        self.kernels = list(kernels)

    def get_graph_json(self) -> str:
        return self.graph_json

    get_executor_config = get_graph_json

    def get_devices(self) -> list[str]:
        """Return the devices that callers must pass to the model: an empty list, since the graph contains the device of
        each node."""
        return []

    def _repr_html_(self) -> str:
        """Return an HTML summary for notebooks: the kernels, and the memory of intermediate values."""
        from ...drawing.memory import memory_body, memory_of
        from ...drawing.page import escape, fragment

        words = f"A model of {len(self.kernels)} kernels for {self.target}, {len(self.params)} parameters."
        return fragment(f"<p>{escape(words)}</p>{memory_body(memory_of(self.graph_json))}")


class AOTExecutorFactoryModule(ExecutorFactoryModule):
    """A model compiled ahead of time: one main function, which calls the kernels with a fixed memory plan.

    Parameters
    ----------
    ir_mod : IRModule
        The graph from which the kernels were compiled.
    lowered_ir_mods : dict of Target to IRModule
        The lowered functions by target.
    target : Target
        The target of the compilation.
    executor : Executor
        The executor and its options.
    runtime : Runtime
        The runtime for which the model was compiled, and its options.
    libmod : Module
        The compiled functions.
    libmod_name : str
        The name of the model.
    params : dict of str to NDArray
        The weights by name; empty if the generated code contains them.
    function_metadata : dict of str to FunctionInfo or callable
        The memory use and the loops of each function, or a callable that computes them on first access.
    executor_codegen_metadata : ExecutorCodegenMetadata
        The interface of the main function.
    devices : list of str
        The devices whose context objects a caller must pass to the model.
    graph_json_str : str, optional
        The graph with which the runtime calls the main function; empty for code that runs without the runtime.
    plain_model : PlainModel, optional
        The C source, the header and the interface of a model for programs without the runtime.
    kernels : sequence of Kernel
        The kernels that the main function calls.
    """

    memory_plan: Any = None

    def __init__(
        self, ir_mod, lowered_ir_mods: Mapping[Any, Any], target, executor, runtime, libmod, libmod_name: str,
        params: Mapping[str, Any], function_metadata: Mapping[str, Any] | Callable[[], Mapping[str, Any]],
        executor_codegen_metadata: Any, devices: list[str], graph_json_str: str = "", plain_model: Any = None,
        kernels: Sequence[Any] = (),
    ):  # fmt: skip
        super().__init__(libmod, libmod_name, params, function_metadata)
        self.ir_mod = ir_mod
        self.lowered_ir_mods = dict(lowered_ir_mods)
        self.target = target
        self.executor = executor
        self.runtime = runtime
        self.executor_codegen_metadata = executor_codegen_metadata
        self.devices = list(devices)
        self.graph_json = graph_json_str
        self.plain_model = plain_model
        self.kernels = list(kernels)

    def get_graph_json(self) -> str:
        self._check_runtime()
        return self.graph_json

    def get_devices(self) -> list[str]:
        """Return the devices whose context objects a caller must pass to the model."""
        return self.devices

    def get_executor_config(self) -> Any:
        """Return the description of the main function's interface."""
        return self.executor_codegen_metadata

    def export_library(self, file_name, fcompile=None, addons=None, workspace_dir=None, fpack_imports=None, **kwargs):
        """Write the library. For runtime cpp it contains the parameters, and loading it returns a factory module."""
        if self.graph_json:
            return super().export_library(file_name, fcompile, addons, workspace_dir, fpack_imports, **kwargs)
        return export_library(self.lib, file_name, fcompile, fpack_imports, addons, workspace_dir, **kwargs)

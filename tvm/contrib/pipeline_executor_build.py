"""Configuration and compilation of pipelines: ``PipelineConfig`` and ``build``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import relay
from ..ir.module import IRModule
from ..ir.type import TupleType
from .pipeline_executor import PipelineExecutorFactoryModule, pipeline_executor_enabled


def pipeline_executor_build_enabled() -> bool:
    """Whether pipelines can be built.

    Returns
    -------
    bool
        True.
    """
    return pipeline_executor_enabled()


def build(pipe_configs: PipelineConfig) -> PipelineExecutorFactoryModule:
    """Compile the modules of a pipeline.

    Parameters
    ----------
    pipe_configs : PipelineConfig
        The modules and their connections.

    Returns
    -------
    PipelineExecutorFactoryModule
        The compiled modules; ``PipelineModule`` runs them.

    Raises
    ------
    RuntimeError
        A module has no target or no device, or no output is connected.
    """
    config = pipe_configs.get_config()
    modules: dict[int, dict[str, Any]] = {}
    connections: list[dict[str, Any]] = []
    for mod, given in config["module_connection"].items():
        name = f"mod{given['pipeline']['mod_idx']}"
        for option in ("target", "dev"):
            if given[option] is None:
                raise RuntimeError(f"pipeline: {name} has no {option}; set config[mod].{option}")
        make = given["build"] or relay.build
        lib = make(mod, given["target"], params=given["params"], target_host=given["target_host"],
                   mod_name=given["mod_name"])  # fmt: skip
        modules[given["pipeline"]["mod_idx"]] = {
            "lib": lib, "dev": given["dev"], "fcompile": given["fcompile"], "export_cc": given["export_cc"],
        }  # fmt: skip
        connections.append({**given["pipeline"], "dev": f"{int(given['dev'].device_type)},{given['dev'].device_id}"})
    connections.sort(key=lambda module: module["mod_idx"])
    if not any("global_output_index" in d for m in connections for o in m["output"] for d in o["dependencies"]):
        raise RuntimeError(
            "pipeline: no module output is connected with an output of the pipeline; connect "
            "config[mod]['output'][0] with config['output'][0]"
        )
    return PipelineExecutorFactoryModule(modules, {**config, "module_connection": connections})


def export_library(factory: PipelineExecutorFactoryModule, directory_path: str) -> str:
    """Write a pipeline into a folder.

    Parameters
    ----------
    factory : PipelineExecutorFactoryModule
        The pipeline.
    directory_path : str
        An existing folder.

    Returns
    -------
    str
        The file that ``PipelineModule.load_library`` takes.
    """
    return factory.export_library(directory_path)


class Binding:
    """An input, output or weight group of a module or of the pipeline, with its connection.

    Parameters
    ----------
    owner : ModuleWrapper or PipelineConfig
        The module or pipeline.
    io_type : str
        "input", "output" or "param".
    name : str or int
        Its name, or the index of an output.
    data_type : Type, optional
        The type of the data.
    """

    def __init__(self, owner: Any, io_type: str, name: Any, data_type: Any = None):
        self.io_owner, self.io_type, self.name, self.data_type = owner, io_type, str(name), data_type
        self.bindings: list[Binding] = []
        self.parents: list[Binding] = []

    def is_pipeline_executor_interface(self) -> bool:
        """Whether it belongs to the pipeline instead of a module."""
        return not isinstance(self.io_owner, ModuleWrapper)

    def get_name(self) -> tuple[str, str]:
        """The name of the module, or "" for the pipeline, and the own name."""
        return "" if self.is_pipeline_executor_interface() else self.io_owner.name, self.name

    def __repr__(self) -> str:
        return f"  |{self.name}: " + " ".join(":".join(b.get_name()) for b in self.bindings)

    def connect(self, binding: Binding) -> None:
        """Connect this binding with another: an input of the pipeline with an input of a module, an output of a module
        with an input of another module or with an output of the pipeline, or a weight group with the weights of a
        module.

        Parameters
        ----------
        binding : Binding
            The other binding.

        Raises
        ------
        RuntimeError
            The connection is not allowed, the types differ, or it would form a cycle.
        """
        ends = tuple(("pipeline " if b.is_pipeline_executor_interface() else "module ") + b.io_type
                     for b in (self, binding))  # fmt: skip
        if ends not in _CONNECTIONS:
            raise RuntimeError(
                f"pipeline: a {ends[0]} cannot be connected with a {ends[1]}; allowed connections are "
                + ", ".join(f"{a} to {b}" for a, b in sorted(_CONNECTIONS))
            )
        if self.io_owner is binding.io_owner:
            raise RuntimeError(f"pipeline: an output of {self.io_owner.name} cannot be connected with its own input")
        if ends[0] == "pipeline input" and self.bindings:
            raise RuntimeError(
                f"pipeline: input '{self.name}' is already connected; an input can be connected with only one module"
            )
        both = not self.is_pipeline_executor_interface() and not binding.is_pipeline_executor_interface()
        if both and self.data_type != binding.data_type:
            raise RuntimeError(
                f"pipeline: output {self.name} has type {self.data_type}, but input '{binding.name}' "
                f"has type {binding.data_type}; the types must be equal"
            )
        if both and binding.io_owner in (self.io_owner, *_before(self.io_owner)):
            raise RuntimeError(f"pipeline: output {self.name} connected with input '{binding.name}' would form a cycle")
        self.bindings.append(binding)
        binding.parents.append(self)


_CONNECTIONS = {
    ("pipeline input", "module input"), ("module output", "module input"), ("module output", "pipeline output"),
    ("pipeline param", "module param"),
}  # fmt: skip


def _before(wrapper: ModuleWrapper) -> Iterator[ModuleWrapper]:
    """Yield the modules from which a module reads, directly or indirectly."""
    for binding in wrapper.input_bindings.bindings.values():
        for parent in binding.parents:
            if isinstance(parent.io_owner, ModuleWrapper):
                yield parent.io_owner
                yield from _before(parent.io_owner)


class BindingList:
    """The inputs, outputs or weight groups of a module or of the pipeline, created on access.

    Parameters
    ----------
    owner : ModuleWrapper or PipelineConfig
        The module or pipeline.
    io_type : str
        "input", "output" or "param".
    """

    def __init__(self, owner: Any, io_type: str):
        self.bindings: dict[str, Binding] = {}
        self.io_owner, self.binding_type = owner, io_type

    def __getitem__(self, key: Any) -> Binding:
        if str(key) not in self.bindings:
            owner = self.io_owner
            kind = owner.get_data_type(key, self.binding_type) if isinstance(owner, ModuleWrapper) else None
            self.bindings[str(key)] = Binding(owner, self.binding_type, key, kind)
        return self.bindings[str(key)]


class ModuleWrapper:
    """A module of a pipeline: its compilation options, inputs and outputs.

    Parameters
    ----------
    mod : IRModule
        The module.
    """

    def __init__(self, mod: IRModule):
        typed = relay.transform.InferType()(mod)["main"]
        self.mod, self.input_params, self.output_type = mod, typed.params, typed.checked_type.ret_type
        self.idx, self.name = -1, "a module"
        self.input_bindings, self.output_bindings = BindingList(self, "input"), BindingList(self, "output")
        self.param_binding = Binding(self, "param", "param")
        # Functions for compiling and exporting; by default `relay.build` and the usual linker.
        self.target: Any = None
        self.target_host: Any = None
        self.dev: Any = None
        self.params: Any = None
        self.build_func: Any = None
        self.fcompile: Any = None
        self.export_cc: str | None = None
        # CPUs of its thread, such as "0,1"; "" for any.
        self.cpu_affinity = ""

    def __getitem__(self, key: str) -> Any:
        found = {"input": self.input_bindings, "output": self.output_bindings, "param": self.param_binding}.get(key)
        if found is None:
            raise RuntimeError(f"pipeline: unknown key '{key}' of a module; use 'input', 'output' or 'param'")
        return found

    def get_data_type(self, key: Any, interface_type: str) -> Any:
        """The type of an input by name, or of an output by index.

        Parameters
        ----------
        key : str or int
            The name or index.
        interface_type : str
            "input" or "output".

        Returns
        -------
        Type
            The type.

        Raises
        ------
        RuntimeError
            The input or output does not exist.
        """
        outputs = list(self.output_type.fields) if isinstance(self.output_type, TupleType) else [self.output_type]
        table = {p.name_hint: p.checked_type for p in self.input_params}
        if interface_type == "output":
            table = {str(i): t for i, t in enumerate(outputs)}
        if str(key) not in table:
            raise RuntimeError(f"pipeline: the module has no {interface_type} '{key}'; it has {', '.join(table)}")
        return table[str(key)]


class PipelineConfig:
    """The modules of a pipeline and their connections: ``config[mod]`` is a module, ``config["input"]``,
    ``config["output"]`` and ``config["param_group"]`` are lists of the pipeline."""

    def __init__(self) -> None:
        self.mod_wrapper: dict[IRModule, ModuleWrapper] = {}
        self.input_bindings, self.output_bindings = BindingList(self, "input"), BindingList(self, "output")
        self.param_group_bindings = BindingList(self, "param")

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, IRModule):
            if key not in self.mod_wrapper:
                self.mod_wrapper[key] = ModuleWrapper(key)
            return self.mod_wrapper[key]
        lists = {"input": self.input_bindings, "output": self.output_bindings, "param_group": self.param_group_bindings}
        if key not in lists:
            raise RuntimeError(f"pipeline: the keys of a configuration are modules, {', '.join(lists)}; got {key!r}")
        return lists[key]

    def __str__(self) -> str:
        self.dag_topology_sort()
        lines, outputs = [], []
        for module in self.mod_wrapper.values():
            for output in module.output_bindings.bindings.values():
                for reader in output.bindings:
                    if reader.is_pipeline_executor_interface():
                        outputs.append(f"  |output({reader.name}) : {module.name}.output({output.name})")
                    else:
                        lines.append(f"  |{module.name}.output({output.name})-> {'.'.join(reader.get_name())}")
        inputs = [repr(b) for b in self.input_bindings.bindings.values()]
        groups = [repr(b) for b in self.param_group_bindings.bindings.values()]
        parts = [["Params", *groups], ["Inputs", *inputs], ["output", *sorted(outputs)], ["connections", *lines]]
        return "\n".join("\n".join(part) + "\n" for part in (parts if groups else parts[1:]))

    def pipe_input(self, name: str) -> Binding:
        """An input of the pipeline.

        Parameters
        ----------
        name : str
            Its name.

        Returns
        -------
        Binding
        """
        return self.input_bindings[name]

    def pipe_output(self, idx: int) -> Binding:
        """An output of the pipeline.

        Parameters
        ----------
        idx : int
            Its index.

        Returns
        -------
        Binding
        """
        return self.output_bindings[idx]

    def get_mod_idx(self, mod: IRModule) -> int:
        """The index of a module in the order of the data flow.

        Parameters
        ----------
        mod : IRModule
            The module.

        Returns
        -------
        int
        """
        self.dag_topology_sort()
        return self[mod].idx

    def dag_topology_sort(self) -> None:
        """Number the modules: each after the modules from which it reads, otherwise in the order of first use."""
        ordered: dict[ModuleWrapper, None] = {}

        def visit(wrapper: ModuleWrapper) -> None:
            for before in _before(wrapper):
                if before not in ordered:
                    visit(before)
            ordered.setdefault(wrapper)

        for wrapper in self.mod_wrapper.values():
            visit(wrapper)
        for number, wrapper in enumerate(ordered):
            wrapper.idx, wrapper.name = number, f"mod{number}"
        self.mod_wrapper = {wrapper.mod: wrapper for wrapper in ordered}

    def get_config(self) -> dict[str, Any]:
        """The configuration as a dictionary.

        Returns
        -------
        dict
            ``module_connection`` by module, ``input_connection`` and ``param_connection``.

        Raises
        ------
        RuntimeError
            An input or weight group of the pipeline is not connected.
        """
        self.dag_topology_sort()
        inputs = [{"global_interface_name": b.name, "mod_idx": to.io_owner.idx, "module_interface_name": to.name}
                  for b, to in _targets(self.input_bindings)]  # fmt: skip
        params = [{"global_param_name": b.name, "mod_idx": to.io_owner.idx}
                  for b, to in _targets(self.param_group_bindings)]  # fmt: skip
        modules = {mod: _module_config(wrapper) for mod, wrapper in self.mod_wrapper.items()}
        return {"module_connection": modules, "input_connection": inputs, "param_connection": params}


def _targets(bindings: BindingList) -> Iterator[tuple[Binding, Binding]]:
    for binding in bindings.bindings.values():
        if not binding.bindings:
            raise RuntimeError(f"pipeline: {binding.io_type} '{binding.name}' is not connected with a module")
        yield binding, binding.bindings[0]


def _module_config(wrapper: ModuleWrapper) -> dict[str, Any]:
    outputs = []
    for output in wrapper.output_bindings.bindings.values():
        readers = [{"global_output_index": int(b.name)} if b.is_pipeline_executor_interface() else
                   {"mod_idx": b.io_owner.idx, "input_name": b.name} for b in output.bindings]  # fmt: skip
        if readers:
            outputs.append({"output_idx": int(output.name), "dependencies": readers})
    return {
        "pipeline": {"mod_idx": wrapper.idx, "cpu_affinity": wrapper.cpu_affinity, "output": outputs},
        "target_host": wrapper.target_host, "mod_name": "default", "build": wrapper.build_func,
        "params": wrapper.params, "target": wrapper.target, "fcompile": wrapper.fcompile,
        "export_cc": wrapper.export_cc, "dev": wrapper.dev,
    }  # fmt: skip


__all__ = [
    "Binding",
    "BindingList",
    "ModuleWrapper",
    "PipelineConfig",
    "build",
    "export_library",
    "pipeline_executor_build_enabled",
]

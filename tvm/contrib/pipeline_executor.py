"""The pipeline executor: runs a model that is split into several modules, which compute in parallel.

Every module has a thread. A run is passed to all threads at once; each thread waits for the modules from which its
module reads, computes, and continues with the next run, so that several runs are processed at the same time.
"""

from __future__ import annotations

import json
import os
import queue
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..runtime import load_module, ndarray
from ..runtime.devices import Device
from . import graph_executor

# The device of a module in a file: device type and number.
_DEVICE = "{},{}"


def pipeline_executor_enabled() -> bool:
    """Whether the pipeline executor is available.

    Returns
    -------
    bool
        True.
    """
    return True


class _Run:
    """A run of a pipeline: the outputs of each module, and the error of the first module that failed."""

    def __init__(self, inputs: Mapping[tuple[int, str], Any], params: Mapping[int, Mapping[str, Any]], count: int):
        self.inputs, self.params = inputs, params
        self.values: dict[tuple[int, int], Any] = {}
        self.done = [threading.Event() for _ in range(count)]
        self.error: BaseException | None = None

    def is_done(self) -> bool:
        return all(event.is_set() for event in self.done)


class _Stage:
    """A module of a pipeline and its connections; runs arrive in ``runs``, and None ends its thread."""

    def __init__(self, number: int, executor: Any, sources: Mapping[str, tuple[int, int]], outputs: Sequence[int],
                 cpus: Sequence[int]):  # fmt: skip
        self.number, self.executor, self.sources, self.outputs = number, executor, dict(sources), list(outputs)
        self.cpus = set(cpus)
        self.runs: queue.SimpleQueue[_Run | None] = queue.SimpleQueue()

    def serve(self) -> None:
        if self.cpus and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(threading.get_native_id(), self.cpus)
        while (run := self.runs.get()) is not None:
            try:
                self.compute(run)
            except Exception as problem:
                run.error = run.error or problem
            finally:
                run.done[self.number].set()

    def compute(self, run: _Run) -> None:
        for module, _ in self.sources.values():
            run.done[module].wait()
        if run.error is not None:
            return
        self.executor.set_input(**run.params.get(self.number, {}))
        for name, source in self.sources.items():
            self.executor.set_input(name, run.values[source])
        for (module, name), value in run.inputs.items():
            if module == self.number:
                self.executor.set_input(name, value)
        self.executor.run()
        for index in self.outputs:
            run.values[self.number, index] = ndarray.array(self.executor.get_output(index).numpy())


class _Pipeline:
    """Graph executors that are connected according to a configuration."""

    def __init__(self, executors: Sequence[Any], config: Mapping[str, Any]):
        self.inputs = {c["global_interface_name"]: (int(c["mod_idx"]), c["module_interface_name"])
                       for c in config["input_connection"]}  # fmt: skip
        self.groups = {c["global_param_name"]: int(c["mod_idx"]) for c in config["param_connection"]}
        self.executors = list(executors)
        sources: list[dict[str, tuple[int, int]]] = [{} for _ in executors]
        outputs: dict[int, tuple[int, int]] = {}
        read: list[set[int]] = [set() for _ in executors]
        for module in config["module_connection"]:
            number = int(module["mod_idx"])
            for output in module["output"]:
                index = int(output["output_idx"])
                read[number].add(index)
                for reader in output["dependencies"]:
                    if "global_output_index" in reader:
                        outputs[int(reader["global_output_index"])] = (number, index)
                    else:
                        sources[int(reader["mod_idx"])][reader["input_name"]] = (number, index)
        self.outputs = [outputs[index] for index in sorted(outputs)]
        cpus = {int(m["mod_idx"]): _cpus(m.get("cpu_affinity", "")) for m in config["module_connection"]}
        self.stages = [_Stage(i, executor, sources[i], sorted(read[i]), cpus[i])
                       for i, executor in enumerate(self.executors)]  # fmt: skip
        for stage in self.stages:
            threading.Thread(target=stage.serve, name=f"tvm-pipeline-{stage.number}", daemon=True).start()
        weakref.finalize(self, _end, self.stages)


def _end(stages: Sequence[_Stage]) -> None:
    for stage in stages:
        stage.runs.put(None)


def _cpus(text: str) -> list[int]:
    """Parse the CPUs in a configuration: comma-separated numbers."""
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise RuntimeError(f"pipeline: cpu_affinity '{text}' is not a list of CPUs such as \"0,1\"") from None


class PipelineModule:
    """A pipeline that can be run.

    Parameters
    ----------
    module : PipelineExecutorFactoryModule
        The return value of ``pipeline_executor_build.build``.

    Examples
    --------
    >>> x = relay.var("x", shape=(2,))
    >>> first, second = (tvm.IRModule.from_expr(op(x)) for op in (relay.exp, relay.log))
    >>> config = pipeline_executor_build.PipelineConfig()
    >>> for mod in (first, second):
    ...     config[mod].target, config[mod].dev = "llvm", tvm.cpu()
    >>> config["input"]["data"].connect(config[first]["input"]["x"])
    >>> config[first]["output"][0].connect(config[second]["input"]["x"])
    >>> config[second]["output"][0].connect(config["output"][0])
    >>> runner = pipeline_executor.PipelineModule(pipeline_executor_build.build(config))
    >>> runner.set_input("data", tvm.nd.array(np.array([0, 1], "float32")))
    >>> runner.run()
    >>> runner.get_output()[0].numpy().tolist()
    [0.0, 1.0]
    """

    def __init__(self, module: Any):
        made = module.get_pipeline_executor_module() if isinstance(module, PipelineExecutorFactoryModule) else module
        if not isinstance(made, _Pipeline):
            raise TypeError(
                f"PipelineModule: expected the result of pipeline_executor_build.build, got {type(module).__name__}"
            )
        self.module = made
        self._inputs: dict[tuple[int, str], Any] = {}
        self._params: dict[int, dict[str, Any]] = {}
        self._runs: list[_Run] = []
        self._started = 0

    def run(self) -> None:
        """Start a run of the pipeline with the current inputs, without waiting for its end."""
        params = {module: dict(values) for module, values in self._params.items()}
        run = _Run(dict(self._inputs), params, len(self.module.stages))
        self._runs.append(run)
        self._started += 1
        for stage in self.module.stages:
            stage.runs.put(run)

    def get_output(self, synchronize: bool = True, sleep_interval: float = 0.001) -> list[Any]:
        """The outputs of the oldest run whose outputs have not been returned yet.

        Parameters
        ----------
        synchronize : bool, optional
            Whether to wait until that run has finished.
        sleep_interval : float, optional
            The polling interval in seconds.

        Returns
        -------
        list of NDArray
            The outputs; empty if there is no such run or it has not finished.

        Raises
        ------
        Exception
            The error that a module of that run raised.
        """
        if not self._runs:
            return []
        while not self._runs[0].is_done():
            if not synchronize:
                return []
            time.sleep(sleep_interval)
        run = self._runs.pop(0)
        if run.error is not None:
            raise run.error
        return [run.values[key] for key in self.module.outputs]

    def set_input(self, key: str, value: Any) -> None:
        """Set an input of the pipeline for subsequent runs.

        Parameters
        ----------
        key : str
            The name of the input.
        value : NDArray or array
            The data.

        Raises
        ------
        RuntimeError
            The pipeline does not have this input.
        """
        given = value.numpy() if hasattr(value, "numpy") else value
        self._inputs[self._input(key)] = ndarray.array(given)

    def get_input(self, key: str) -> Any:
        """The data to which an input was set, or the current data of its module.

        Parameters
        ----------
        key : str
            The name of the input.

        Returns
        -------
        NDArray
            The data.
        """
        module, name = self._input(key)
        held = self._inputs.get((module, name))
        return self.module.executors[module].get_input(name) if held is None else held

    def set_params(self, params_group_name: str, params_data: Mapping[str, Any]) -> None:
        """Set the weights of a module for subsequent runs.

        Parameters
        ----------
        params_group_name : str
            The name of the weight group, which is connected with the module.
        params_data : dict of str to NDArray
            The weights by name.

        Raises
        ------
        RuntimeError
            The group does not exist, or there are no weights.
        """
        if not params_data:
            raise RuntimeError(f"set_params: the weights of group '{params_group_name}' are empty; pass them by name")
        module = self.get_params_group_pipeline_map(params_group_name)
        self._params.setdefault(module, {}).update(params_data)

    def get_input_pipeline_map(self, name: str) -> list[str]:
        """The module with which an input is connected.

        Parameters
        ----------
        name : str
            The name of the input.

        Returns
        -------
        list of str
            The index of the module, and the name of its input.
        """
        module, there = self._input(name)
        return [str(module), there]

    def get_params_group_pipeline_map(self, name: str) -> int:
        """The module with which a weight group is connected.

        Parameters
        ----------
        name : str
            The name of the group.

        Returns
        -------
        int
            The index of the module.
        """
        if name not in self.module.groups:
            raise RuntimeError(f"pipeline: unknown weight group '{name}'; the groups are {_names(self.module.groups)}")
        return self.module.groups[name]

    @property
    def num_executing_pipeline(self) -> int:
        """The number of runs that were started."""
        return self._started

    @property
    def num_outputs(self) -> int:
        """The number of outputs of the pipeline."""
        return len(self.module.outputs)

    @property
    def num_inputs(self) -> int:
        """The number of inputs of the pipeline."""
        return len(self.module.inputs)

    @staticmethod
    def load_library(config_file_name: str) -> PipelineModule:
        """The pipeline in a file that ``export_library`` wrote.

        Parameters
        ----------
        config_file_name : str
            The file whose name ``export_library`` returned. The libraries in the same folder contain code, which is
            executed.

        Returns
        -------
        PipelineModule
            The pipeline.
        """
        folder = Path(config_file_name).parent
        config = json.loads(Path(config_file_name).read_text(encoding="utf-8"))
        libraries = json.loads((folder / config["load_config"]).read_text(encoding="utf-8"))
        connections = json.loads((folder / config["pipeline_config"]).read_text(encoding="utf-8"))
        executors = []
        for part in sorted(libraries, key=lambda p: p["mod_idx"]):
            kind, number = part["dev"].split(",")
            create = load_module(str(folder / part["lib_name"]))[part["mod_name"]]
            executors.append(graph_executor.GraphModule(create(Device(int(kind), int(number)))))
        return PipelineModule(_Pipeline(executors, connections))

    def _input(self, key: str) -> tuple[int, str]:
        if key not in self.module.inputs:
            raise RuntimeError(f"pipeline: unknown input '{key}'; the inputs are {_names(self.module.inputs)}")
        return self.module.inputs[key]


def _names(table: Mapping[str, Any]) -> str:
    return ", ".join(table) or "none"


class PipelineExecutorFactoryModule:
    """The compiled modules of a pipeline and their connections.

    Parameters
    ----------
    pipeline_mods : dict of int to dict
        By index of a module: its library (``lib``), its device (``dev``), and export options.
    mods_config : dict
        The connections.
    """

    def __init__(self, pipeline_mods: Mapping[int, Mapping[str, Any]], mods_config: Mapping[str, Any]):
        self.pipeline_mods = dict(pipeline_mods)
        self.mods_config = mods_config
        self._module: _Pipeline | None = None

    def get_pipeline_executor_module(self) -> Any:
        """The connected executors of the modules.

        Returns
        -------
        object
            The argument of ``PipelineModule``; repeated calls return the same object.
        """
        if self._module is None:
            executors, text = self.graph_executor_create(self.pipeline_mods, self.mods_config)
            self._module = _Pipeline(executors, json.loads(text))
        return self._module

    def graph_executor_create(self, pipeline_mods: Mapping[int, Mapping[str, Any]], mod_config: Mapping[str, Any]):
        """An executor for each module.

        Parameters
        ----------
        pipeline_mods : dict of int to dict
            The modules by index.
        mod_config : dict
            The connections.

        Returns
        -------
        tuple of list of GraphModule and str
            The executors by index, and the connections as JSON.
        """
        executors = []
        for number in sorted(pipeline_mods):
            part = pipeline_mods[number]
            executors.append(graph_executor.GraphModule(part["lib"][part["lib"].libmod_name](part["dev"])))
        return executors, json.dumps(mod_config)

    def export_library(self, directory_path: str) -> str:
        """Write the pipeline into a folder.

        Parameters
        ----------
        directory_path : str
            An existing folder.

        Returns
        -------
        str
            The file that ``PipelineModule.load_library`` takes.

        Raises
        ------
        RuntimeError
            The folder does not exist.
        """
        folder = Path(directory_path)
        if not folder.is_dir():
            raise RuntimeError(f"export_library: the folder '{directory_path}' does not exist; create it first")
        libraries = []
        for number, part in sorted(self.pipeline_mods.items()):
            name = f"lib{number}.so"
            options = {"cc": part["export_cc"]} if part["export_cc"] else {}
            part["lib"].export_library(str(folder / name), part["fcompile"] or None, **options)
            dev = part["dev"]
            libraries.append({
                "mod_idx": number, "lib_name": name, "mod_name": part["lib"].libmod_name,
                "dev": _DEVICE.format(int(dev.device_type), dev.device_id),
            })  # fmt: skip
        files = {"load_config": libraries, "pipeline_config": self.mods_config}
        files["config"] = {name: name for name in files}
        for name, content in files.items():
            (folder / name).write_text(json.dumps(content), encoding="utf-8")
        return str(folder / "config")


__all__ = ["PipelineExecutorFactoryModule", "PipelineModule", "pipeline_executor_enabled"]

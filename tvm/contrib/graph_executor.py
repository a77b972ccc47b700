"""The Python interface of the graph executor: a compiled model with its inputs and outputs."""

from __future__ import annotations

import itertools
import os
import re
from typing import Any

from ..error import TVMError
from ..runtime import ndarray
from ..runtime.benchmark import BenchmarkResult
from ..runtime.container import Map, ShapeTuple, String
from ..runtime.devices import RPC_SESS_MASK
from ..runtime.registry import get_device_func


def create(graph_json_str, libmod, device) -> GraphModule:
    """An executor of a graph (JSON text) with a compiled module. A graph that uses several device types takes a list
    with one device per type.

    Parameters
    ----------
    graph_json_str : str
        The graph as JSON.
    libmod : Module
        The compiled kernels.
    device : Device or list of Device
        The device, or a list of devices.

    Returns
    -------
    GraphModule

    Raises
    ------
    ValueError
        The graph is not a string, or no device is given.
    TVMError
        The graph is not valid JSON, or does not match the library.
    """
    if not isinstance(graph_json_str, str):
        raise ValueError(f"graph_executor.create: the graph must be JSON text, got {type(graph_json_str).__name__}")
    if "\0" in graph_json_str:
        raise TVMError("graph: the text contains a null character, so it is not JSON")
    devices = device if isinstance(device, (list, tuple)) else [device]
    if not devices:
        raise ValueError(
            "graph_executor.create: the list of devices is empty; pass one device per device type of the graph"
        )
    _load(libmod)
    numbers = [number for dev in devices for number in (dev.device_type % RPC_SESS_MASK, dev.device_id)]
    made = get_device_func("tvm.graph_executor.create", devices[0])(graph_json_str, libmod, *numbers)
    return GraphModule(made, keep=libmod)


def _load(module) -> None:
    """Load lazily compiled code, because the C executor looks up functions directly."""
    for part in module.with_imports():
        part._load()


class GraphModule:
    """A model that can be run: ``set_input``, ``run``, ``get_output``.

    Parameters
    ----------
    module : Module
        The executor, as a runtime module.
    keep : optional
        Objects that must live as long as the executor.

    Examples
    --------
    >>> x = relay.var("x", shape=(2,))
    >>> lib = relay.build(tvm.IRModule.from_expr(relay.nn.relu(x)), target="llvm")
    >>> runner = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    >>> runner.set_input("x", np.array([-1, 1], "float32"))
    >>> runner.run()
    >>> runner.get_output(0).numpy().tolist()
    [0.0, 1.0]
    """

    def __init__(self, module, keep: Any = None):
        self.module = module
        self._keep = keep
        self._is_remote = module.type_key == "rpc"
        names = (
            "set_input",
            "run",
            "get_output",
            "get_input",
            "get_num_inputs",
            "get_num_outputs",
            "get_input_index",
            "get_input_name",
            "describe_input",
            "load_params",
            "set_input_zero_copy",
            "set_output_zero_copy",
            "share_arrays",
        )
        for name in names:
            setattr(self, "_" + name, module[name])
        count = self._get_num_inputs()
        self._input_names = [self._get_input_name(i) for i in range(count)]
        # Arrays that the executor reads or writes without a copy, kept alive by index of the input or output.
        self._lent_inputs: dict[int, Any] = {}
        self._lent_outputs: dict[int, Any] = {}

    def _index(self, key) -> int:
        if isinstance(key, int):
            if not 0 <= key < len(self._input_names):
                raise RuntimeError(f"input index {key} is out of range; the model has {len(self._input_names)} inputs")
            return key
        found = self._get_input_index(str(key))
        if found < 0:
            raise RuntimeError(f"unknown input '{key}'; the inputs are {', '.join(self._input_names)}")
        return found

    def set_input(self, key=None, value=None, **params) -> None:
        """Set one input by name or index, or several by name. Data is converted to the input's type; a different shape
        is an error, except that a scalar input also accepts an array with one element. A tuple for ``"p"`` sets the
        inputs ``"p_0"``, ``"p_1"`` and so on, which represent a parameter of tuple type.

        Parameters
        ----------
        key : str or int, optional
            The name or index of the input.
        value : NDArray or array, optional
            The data.
        **params
            Further inputs by name; unknown names, such as parameters that were folded, are ignored.

        Raises
        ------
        RuntimeError
            The input ``key`` does not exist.
        ValueError
            The shape of the data differs from that of the input.
        """
        if key is not None:
            self._set_fields(key, value)
        known = set(self._input_names)
        for name, value in params.items():
            if name not in known and isinstance(value, (tuple, list)) and self._has_fields(name):
                self._set_fields(name, value)
        # Large arrays first, because their copies need the most memory.
        for name in sorted(params, key=lambda k: -_size(params[k])):
            if name in known:
                self._set(self._get_input_index(name), params[name])

    def _set_fields(self, key, value) -> None:
        """Set an input, or the inputs of the fields of a tuple."""
        if not isinstance(value, (tuple, list)) or key in self._input_names or not self._has_fields(key):
            self._set(self._index(key), value)
            return
        fields = (f"{key}_{i}" for i in itertools.count())
        count = next(i for i, name in enumerate(fields) if name not in self._input_names and not self._has_fields(name))
        if len(value) != count:
            raise ValueError(f"input '{key}' is a tuple of {count} fields, got {len(value)} values")
        for i, field in enumerate(value):
            self._set_fields(f"{key}_{i}", field)

    def _has_fields(self, key) -> bool:
        """Whether a parameter of tuple type was split into inputs; the name of its first field ends with _0."""
        first = re.compile(re.escape(str(key)) + "(_0)+")
        return any(first.fullmatch(name) for name in self._input_names)

    def _input_type(self, index: int) -> tuple[str, tuple[int, ...]]:
        dtype, *shape = self._describe_input(index).split(" ")
        return dtype, tuple(int(d) for d in shape)

    def _set(self, index: int, value) -> None:
        dtype, shape = self._input_type(index)
        if not isinstance(value, ndarray.NDArray):
            import numpy as np

            value = np.asarray(value)
        if _is_number(value.shape, shape) or _lacks_batch(value.shape, shape):
            value = (value.numpy() if isinstance(value, ndarray.NDArray) else value).reshape(shape)
        if tuple(value.shape) != shape:
            raise ValueError(f"input '{self._input_names[index]}' has shape {shape}, got {tuple(value.shape)}")
        array = self._get_input(index) if self._is_remote else None
        if isinstance(value, ndarray.NDArray) and (value.dtype != dtype or (array and not _same_machine(value, array))):
            value = value.numpy()
        if not isinstance(value, ndarray.NDArray):
            # Converted directly into the executor's own array, or into a copy if the input uses the caller's memory.
            array = array or self._get_input(index)
            array.copyfrom(value)
            value = array
        self._set_input(index, value)
        self._lent_inputs.pop(index, None)

    def set_input_zero_copy(self, key=None, value=None, **params) -> None:
        """Read inputs without a copy until they are set again. They must be aligned to 64 bytes.

        Parameters
        ----------
        key : str or int, optional
            The name or index of the input.
        value : NDArray, optional
            The array.
        **params
            Further inputs by name.
        """
        pairs = [] if key is None else [(self._index(key), value)]
        pairs += [(self._index(k), v) for k, v in params.items()]
        for index, array in pairs:
            self._set_input_zero_copy(index, array)
            self._lent_inputs[index] = array

    def set_output_zero_copy(self, key, value) -> None:
        """Write output ``key`` to the array ``value`` in every run; the array must be aligned to 64 bytes.

        Parameters
        ----------
        key : int
            The index of the output.
        value : NDArray
            The array.
        """
        self._set_output_zero_copy(int(key), value)
        self._lent_outputs[int(key)] = value

    def run(self, **input_dict) -> None:
        """Run the model, after setting the given inputs.

        Parameters
        ----------
        **input_dict
            Inputs by name.
        """
        if input_dict:
            self.set_input(**input_dict)
        self._run()

    def get_num_outputs(self) -> int:
        """The number of outputs of the model.

        Returns
        -------
        int
            The number.
        """
        return self._get_num_outputs()

    def get_num_inputs(self) -> int:
        """The number of inputs of the model, including parameters.

        Returns
        -------
        int
            The number.
        """
        return self._get_num_inputs()

    def get_num_copies(self) -> int:
        """The number of values that were copied between devices in all runs so far.

        Returns
        -------
        int
            The number.
        """
        return self.module["get_num_copies"]()

    def get_input(self, index, out=None):
        """The data of an input.

        Parameters
        ----------
        index : int or str
            Its index or name.
        out : NDArray, optional
            An array to copy it into.

        Returns
        -------
        NDArray
            The executor's own array, or ``out``.
        """
        array = self._get_input(self._index(index))
        if out is not None:
            array.copyto(out)
            return out
        return array

    def get_input_index(self, name: str) -> int:
        """The index of an input.

        Parameters
        ----------
        name : str
            Its name.

        Returns
        -------
        int
            The index, or -1 if the input does not exist.
        """
        return self._get_input_index(name)

    def get_input_info(self) -> tuple[Map, Map]:
        """Shapes and element types of the inputs, by name.

        Returns
        -------
        tuple of Map
            The shapes, and the element types.
        """
        types = {n: self._input_type(i) for i, n in enumerate(self._input_names)}
        shapes = {n: ShapeTuple(shape) for n, (_, shape) in types.items()}
        return Map(shapes), Map({n: String(dtype) for n, (dtype, _) in types.items()})

    def get_output(self, index: int, out=None):
        """Output ``index``: the executor's own array, or a copy in ``out``.

        Parameters
        ----------
        index : int
            The index of the output.
        out : NDArray, optional
            An array to copy it into.

        Returns
        -------
        NDArray
            The array.
        """
        if out is None:
            return self._get_output(index)
        if self._is_remote:
            return self._get_output(index).copyto(out)
        self._get_output(index, out)
        return out

    def debug_get_output(self, node, out):
        """Not supported; only the debug executor stores the outputs of nodes.

        Parameters
        ----------
        node : int or str
            The node.
        out : NDArray
            An array to copy it into.

        Raises
        ------
        NotImplementedError
            Always: use ``tvm.contrib.debugger.debug_executor``.
        """
        raise NotImplementedError("outputs of nodes are only available in tvm.contrib.debugger.debug_executor")

    def load_params(self, params_bytes) -> None:
        """Set the parameters from serialized parameters.

        Parameters
        ----------
        params_bytes : bytes
            The return value of ``relay.save_param_dict``.
        """
        self._load_params(params_bytes if isinstance(params_bytes, bytearray) else bytes(params_bytes))

    def load_params_from_file(self, path) -> None:
        """Set the parameters from a file without reading the whole file into memory.

        Parameters
        ----------
        path : str
            The file.
        """
        self.module["load_params_from_file"](os.fspath(path))

    def share_params(self, other: GraphModule, params_bytes) -> None:
        """Use the parameters of another executor of the same model without copying (except arrays of the caller).

        Parameters
        ----------
        other : GraphModule
            The other executor.
        params_bytes : bytes
            Serialized parameters, whose names determine the shared parameters.
        """
        from ..runtime.params import load_param_dict

        args: list = []
        for name in load_param_dict(params_bytes):
            if name in self._input_names:
                args += [name, other._get_input(other._index(name))]
        self._share_arrays(*args)

    def flush_denormals(self, enabled: bool | None = None) -> bool:
        """Whether runs flush denormal numbers to zero; if ``enabled`` is given, it is set first.

        The default is true unless the environment variable ``TVM_FLUSH_DENORMALS`` is 0 when the executor is created.

        Parameters
        ----------
        enabled : bool, optional
            The new value.

        Returns
        -------
        bool
            Whether denormal numbers are flushed.
        """
        return bool(self.module["flush_denormals"](*(() if enabled is None else (bool(enabled),))))

    def __getitem__(self, key: str):
        return self.module[key]

    def benchmark(
        self,
        device,
        func_name="run",
        repeat=5,
        number=5,
        min_repeat_ms=None,
        limit_zero_time_iterations=100,
        end_to_end=False,
        cooldown_interval_ms=0,
        repeats_to_cooldown=1,
        **kwargs,
    ) -> BenchmarkResult:
        """The times of whole runs; ``end_to_end`` includes setting inputs and copying outputs.

        Parameters
        ----------
        device : Device
            The device whose clock is used.
        func_name : str
            The function to measure.
        repeat : int
            The number of measurements.
        number : int
            The number of runs that are averaged in one measurement.
        min_repeat_ms : int, optional
            The minimum duration of a repeat in milliseconds.
        limit_zero_time_iterations : int
            How often a repeat with a measured time of zero is retried.
        end_to_end : bool
            Whether to include setting inputs and copying outputs.
        cooldown_interval_ms : int
            The duration of a pause between repeats in milliseconds.
        repeats_to_cooldown : int
            The number of repeats between pauses.
        **kwargs
            Inputs by name.

        Returns
        -------
        BenchmarkResult
            The times in seconds.
        """
        if min_repeat_ms is None and number is None:
            number = 1
        if end_to_end:
            return self._end_to_end(kwargs, repeat, number)
        if kwargs:
            self.set_input(**kwargs)
        return self.module.time_evaluator(
            func_name,
            device,
            repeat=repeat,
            number=number,
            min_repeat_ms=min_repeat_ms or 0,
            limit_zero_time_iterations=limit_zero_time_iterations,
            cooldown_interval_ms=cooldown_interval_ms,
            repeats_to_cooldown=repeats_to_cooldown,
        )()

    def _end_to_end(self, inputs: dict, repeat: int, number: int) -> BenchmarkResult:
        import time

        outputs = range(self.get_num_outputs())
        results = []
        for _ in range(repeat):
            start = time.perf_counter()
            for _ in range(number):
                self.set_input(**inputs)
                self.run()
                for i in outputs:
                    self.get_output(i).numpy()
            results.append((time.perf_counter() - start) / number)
        return BenchmarkResult(results)


def _same_machine(a, b) -> bool:
    return a.device.device_type // RPC_SESS_MASK == b.device.device_type // RPC_SESS_MASK


def _is_number(given, wanted: tuple[int, ...]) -> bool:
    """Whether a scalar is given for a shape of ones, or a shape of ones for a scalar."""
    return tuple(given) != wanted and not (given and wanted) and all(d == 1 for d in (*given, *wanted))


def _lacks_batch(given, wanted: tuple[int, ...]) -> bool:
    """Whether only leading dimensions of size one are missing, such as the batch dimension of one image."""
    missing = len(wanted) - len(given)
    return bool(given) and missing > 0 and tuple(given) == wanted[missing:] and all(d == 1 for d in wanted[:missing])


def _size(value) -> int:
    total = 1
    for d in getattr(value, "shape", ()):
        total *= int(d)
    return total


__all__ = ["GraphModule", "TVMError", "create"]

"""``torch.compile(model, backend="tvm_classic")``: compilation of TorchDynamo graphs.

PyTorch captures a graph of ATen operators, and the importer converts it to a module. Weights become constants, so that
they can be folded and packed. Before each run the weights are checked, and after a change the graph is compiled again.
A graph with dynamic shapes is compiled once and runs on the virtual machine. A graph that cannot be compiled runs in
PyTorch, with one warning. CPU kernels are stored in the cache of compiled models for the next process.
"""

from __future__ import annotations

import operator
import threading
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from ...error import TVMError
from ...relay.frontend.pytorch.exported import FxReader, decompositions
from ...relay.frontend.pytorch.table import Number
from ...relay.frontend.pytorch.tensors import weight_of
from .options import TARGETS, Options, options_of
from .programs import Run, library_of

_VERSION = operator.attrgetter("_version")


def tvm_classic(graph_module, example_inputs, *, options: Mapping[str, Any] | None = None) -> Callable[..., Any]:
    """The back end of ``torch.compile`` under the name ``tvm_classic``.

    Parameters
    ----------
    graph_module : torch.fx.GraphModule
        The graph that TorchDynamo captured.
    example_inputs : list of torch.Tensor
        Example inputs with the types of later inputs.
    options : dict, optional
        ``target`` (by default that of the tensors' device), ``opt_level`` (default 3), ``precision`` (``float16`` or
        ``bfloat16`` for matmuls, convolutions and operators that can follow them, or ``float32``; by default that of
        the model on a GPU, and ``float32`` on the CPU), ``tuning_records`` (a file of records of AutoTVM or the
        auto-scheduler), and ``cuda_graphs`` (default True: a graph with fixed shapes on a GPU is captured and
        replayed).

    Returns
    -------
    callable
        The compiled function.

    Raises
    ------
    TVMError
        An option is unknown or has an invalid value.
    """
    chosen = options_of(options)
    from torch._dynamo.backends.common import aot_autograd  # pyright: ignore[reportMissingImports]

    def compiler(inner, inputs):
        return CompiledGraph(inner, inputs, chosen).boxed()

    return aot_autograd(fw_compiler=compiler, decompositions=decompositions())(graph_module, example_inputs)


class CompiledGraph:
    """A graph, which is compiled at its first run, when its weights are known."""

    def __init__(self, graph_module, inputs, options: Options):
        self.graph_module = graph_module
        self.options = options
        self.weights = _weight_places(graph_module)
        self.marks = Marks([])
        self.program: Run | None = None
        self.lock = threading.Lock()

    def boxed(self) -> Callable[[list], list]:
        """A function that takes a list of arguments and empties it."""

        def call(arguments: list) -> list:
            values = list(arguments)
            arguments.clear()
            return self(values)

        call._boxed_call = True  # pyright: ignore[reportFunctionMemberAccess]
        return call

    def __call__(self, values: list) -> list:
        with self.lock:
            if self.program is None:
                return self._new_program(values)(values)
            # The device computes while the host checks the weights. Outputs computed with outdated weights are
            # discarded.
            results = self.program(values)
            return self._new_program(values)(values) if self._changed(values) else results

    def _new_program(self, values: list) -> Run:
        held = [values[i] for i in self.weights]
        self.marks = Marks(held)
        self.program = self._compiled(values)
        return self.program

    def _changed(self, values: list) -> bool:
        """Whether a weight was replaced, modified or moved. Called at every run, so it uses fast built-in functions
        instead of loops."""
        held = self.marks.tensors
        return not all(map(operator.is_, map(values.__getitem__, self.weights), held)) or self.marks.are_old()

    def _compiled(self, values: list) -> Run:
        try:
            return _program(self.graph_module, values, set(self.weights), self.options)
        except (TVMError, TypeError, ValueError, NotImplementedError) as problem:
            warnings.warn(f"tvm_classic: a graph could not be compiled and runs in PyTorch: {problem}", stacklevel=2)
            module = self.graph_module
            # The graph reads its weights itself and may modify them, so it must not run twice.
            self.weights, self.marks = [], Marks([])
            return lambda given: list(module(*given))


class Marks:
    """The version counters and addresses of tensors; tensors created in inference mode have no version counter."""

    def __init__(self, tensors: list):
        self.tensors = tensors
        self.counted = [t for t in tensors if not t.is_inference()]
        # Bind the method once instead of at every call.
        self.place = type(tensors[0]).data_ptr if tensors else None
        self.found = self._now()

    def _now(self) -> tuple[list[int], list[int]]:
        return list(map(_VERSION, self.counted)), list(map(self.place, self.tensors)) if self.place else []

    def are_old(self) -> bool:
        return self._now() != self.found


def _weight_places(graph_module) -> list[int]:
    """Return the indices of the inputs of a graph that are parameters and buffers, which are constant between runs."""
    from torch._guards import TracingContext  # pyright: ignore[reportMissingImports]

    context = TracingContext.try_get()
    found = getattr(getattr(context, "fw_metadata", None), "static_input_indices", None)
    holders = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
    return [i for i in found or [] if i < len(holders) and hasattr(holders[i].meta.get("val"), "shape")]


def _program(graph_module, values: list, weights: set[int], options: Options) -> Run:
    reader = FxReader(True)
    reader.check(graph_module)
    device = _device_of(graph_module, values)
    holders = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
    given, places = [], []
    for i, (node, value) in enumerate(zip(holders, values)):
        if i in weights:
            given.append(reader.tensor_weight(node.name, weight_of(value, node.name)))
        else:
            before = len(reader.inputs)
            given.append(reader.fake_input(node.name, node.meta["val"]))
            if len(reader.inputs) > before:
                places.append(i)
    outputs = reader.run(graph_module, given)
    reader.refuse_changes([n.name for n in holders])
    kept = [i for i, v in enumerate(outputs) if v is not None and not isinstance(v, (bool, int, float))]
    numbers = {i for i in kept if isinstance(outputs[i], Number)}
    plain = {i: v for i, v in enumerate(outputs) if i not in kept}
    mod, _ = reader.finish([reader.result(outputs[i]) for i in kept])
    run = library_of(mod, options, device).on(device)
    if len(kept) == len(outputs) and not numbers:
        return lambda arguments: run([arguments[i] for i in places])

    def call(arguments: list) -> list:
        out = dict(zip(kept, run([arguments[i] for i in places])))
        out.update((i, out[i].item()) for i in numbers)
        return [out[i] if i in out else plain[i] for i in range(len(outputs))]

    return call


def _device_of(graph_module, values: list):
    """Return the device of all tensors of a graph; scalars may be on the host."""
    import torch  # pyright: ignore[reportMissingImports]

    made = [n.meta.get("val") for n in graph_module.graph.nodes if n.op == "call_function"]
    tensors = [v for v in (*values, *made) if isinstance(v, torch.Tensor)]
    found = {str(t.device): t.device for t in tensors if t.dim() or t.device.type != "cpu"}
    if len(found) > 1:
        raise TVMError(f"the tensors of the graph are on several devices: {', '.join(sorted(found))}")
    device = next(iter(found.values()), torch.device("cpu"))
    if device.type not in TARGETS:
        supported = " and ".join(TARGETS)
        raise TVMError(f"the tensors of the graph are on the device '{device}'; supported devices are {supported}")
    return device


__all__ = ["CompiledGraph", "tvm_classic"]

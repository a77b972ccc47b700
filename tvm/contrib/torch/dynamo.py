"""``torch.compile(model, backend="pytvm")``: graphs of TorchDynamo compiled here.

PyTorch makes a graph of ATen operators of what it captures; the importer turns it into a module. Weights become
constants, so that they can be folded and packed; that a weight was changed is seen before each run, and the graph is
compiled anew. Inputs and results share their memory with PyTorch's tensors. A graph with open sizes is compiled once,
and runs on the virtual machine. A graph that cannot be compiled runs as PyTorch runs it, with one warning.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from ...error import TVMError
from ...ir.prim import IntImm
from ...relay.frontend.pytorch.exported import FxReader, operator_of
from ...relay.frontend.pytorch.tensors import array_of
from ...runtime import ndarray
from ...runtime.devices import cpu

_OPTIONS = {"target": "llvm", "opt_level": 3}


def pytvm(graph_module, example_inputs, *, options: Mapping[str, Any] | None = None) -> Callable[..., Any]:
    """The back end of ``torch.compile`` under the name ``pytvm``.

    Parameters
    ----------
    graph_module : torch.fx.GraphModule
        What TorchDynamo captured.
    example_inputs : list of torch.Tensor
        Inputs of the kinds it will be run with.
    options : dict, optional
        ``target`` (by default ``llvm``) and ``opt_level`` (by default 3).

    Returns
    -------
    callable
        The compiled function.

    Raises
    ------
    TVMError
        An option is not known.
    """
    chosen = {**_OPTIONS, **(options or {})}
    unknown = sorted(set(chosen) - set(_OPTIONS))
    if unknown:
        raise TVMError(f"pytvm: there is no option '{unknown[0]}'; it takes {' and '.join(_OPTIONS)}")
    from torch._dynamo.backends.common import aot_autograd  # pyright: ignore[reportMissingImports]

    def compiler(inner, inputs):
        return CompiledGraph(inner, inputs, chosen).boxed()

    return aot_autograd(fw_compiler=compiler, decompositions=_decompositions())(graph_module, example_inputs)


def _decompositions() -> dict:
    """PyTorch's decompositions of operators that have no converter here."""
    import torch  # pyright: ignore[reportMissingImports]

    reader = FxReader(True)
    table = torch.export.default_decompositions()
    return {entry: table[entry] for entry in list(table.keys()) if not reader.known(*operator_of(entry))}


class CompiledGraph:
    """One graph. It is compiled when it is first run, since its weights are known then."""

    def __init__(self, graph_module, inputs, options: Mapping[str, Any]):
        self.graph_module = graph_module
        self.options = options
        self.weights = _weight_places(graph_module)
        self.held: list[tuple[Any, int]] = []
        self.program: Callable[[list], list] | None = None
        self.lock = threading.Lock()

    def boxed(self) -> Callable[[list], list]:
        """A function of a list of arguments, which it empties."""

        def call(arguments: list) -> list:
            values = list(arguments)
            arguments.clear()
            return self(values)

        call._boxed_call = True  # pyright: ignore[reportFunctionMemberAccess]
        return call

    def __call__(self, values: list) -> list:
        with self.lock:
            if self.program is None or self._changed(values):
                self.held = [(values[i], values[i]._version) for i in self.weights]
                self.program = self._compiled(values)
            return self.program(values)

    def _changed(self, values: list) -> bool:
        return any(values[i] is not t or t._version != version for i, (t, version) in zip(self.weights, self.held))

    def _compiled(self, values: list) -> Callable[[list], list]:
        try:
            return _program(self.graph_module, values, set(self.weights), self.options)
        except (TVMError, TypeError, ValueError, NotImplementedError) as problem:
            warnings.warn(f"pytvm: a graph runs in PyTorch, since it could not be compiled: {problem}", stacklevel=2)
            module = self.graph_module
            return lambda given: list(module(*given))


def _weight_places(graph_module) -> list[int]:
    """Which inputs of a graph are parameters and buffers, that stay from run to run."""
    from torch._guards import TracingContext  # pyright: ignore[reportMissingImports]

    context = TracingContext.try_get()
    found = getattr(getattr(context, "fw_metadata", None), "static_input_indices", None)
    holders = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
    return [i for i in found or [] if i < len(holders) and hasattr(holders[i].meta.get("val"), "shape")]


def _program(graph_module, values: list, weights: set[int], options: Mapping[str, Any]) -> Callable[[list], list]:
    reader = FxReader(True)
    reader.check(graph_module)
    holders = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
    given, places = [], []
    for i, (node, value) in enumerate(zip(holders, values)):
        if i in weights:
            given.append(reader.tensor_weight(node.name, array_of(value, node.name)))
        else:
            before = len(reader.inputs)
            given.append(reader.fake_input(node.name, node.meta["val"]))
            if len(reader.inputs) > before:
                places.append(i)
    outputs = reader.run(graph_module, given)
    reader.refuse_changes([n.name for n in holders])
    kept = [i for i, v in enumerate(outputs) if v is not None and not isinstance(v, (bool, int, float))]
    plain = {i: v for i, v in enumerate(outputs) if i not in kept}
    mod, _ = reader.finish([reader.result(outputs[i]) for i in kept])
    is_open = any(not isinstance(d, IntImm) for p in mod["main"].params for d in p.type_annotation.shape)
    run = (_machine if is_open or _needs_machine(mod) else _graph)(mod, options)

    def call(arguments: list) -> list:
        results = run([arguments[i] for i in places])
        out = dict(zip(kept, results))
        return [out[i] if i in out else plain[i] for i in range(len(outputs))]

    return call


def _needs_machine(mod) -> bool:
    """Whether a program has control flow or sizes that data decide on."""
    from ...ir.visit import post_order
    from ...relay.expr import If, Let
    from ...relay.symbolic import is_symbolic
    from ...relay.transform import InferType

    typed = InferType()(mod)["main"]
    return is_symbolic(typed) or any(isinstance(node, (If, Let)) for node in post_order(typed.body))


# -- tensors of both sides --------------------------------------------------------------------------------------------


def _array(value) -> ndarray.NDArray:
    """A tensor as an array on the same memory; a copy only of what DLPack or kernels cannot take as it lies."""
    import torch  # pyright: ignore[reportMissingImports]

    if not isinstance(value, torch.Tensor):
        return ndarray.array(torch.as_tensor(value).numpy())
    value = value.detach()
    if value.dtype == torch.bool:
        return ndarray.array(value.cpu().numpy())
    value = value.contiguous()
    if value.data_ptr() % 64:
        value = value.clone()
    return ndarray.from_dlpack(value)


def _tensor(array: ndarray.NDArray):
    import torch  # pyright: ignore[reportMissingImports]

    if array.dtype == "bool":
        return torch.from_numpy(array.numpy())
    return torch.utils.dlpack.from_dlpack(array.to_dlpack())


def _graph(mod, options: Mapping[str, Any]) -> Callable[[list], list]:
    """A graph of known sizes: its results are written into tensors of PyTorch."""
    import torch  # pyright: ignore[reportMissingImports]

    from ... import relay
    from ...ir.transform import PassContext
    from ..graph_executor import GraphModule

    with PassContext(opt_level=options["opt_level"]):
        lib = relay.build(mod, options["target"])
    module = GraphModule(lib["default"](cpu(0)))
    names = [p.name_hint for p in mod["main"].params]
    used = {i: name for i, name in enumerate(names) if name in set(module.get_input_info()[0].keys())}
    shapes = [(module.get_output(i).shape, module.get_output(i).dtype) for i in range(module.get_num_outputs())]

    def run(values: list) -> list:
        arrays = [(name, _array(values[i])) for i, name in used.items()]
        for name, array in arrays:
            module.set_input_zero_copy(name, array)
        results = []
        for i, (shape, dtype) in enumerate(shapes):
            if dtype != "bool":
                made = torch.empty(tuple(shape), dtype=getattr(torch, dtype))
                module.set_output_zero_copy(i, ndarray.from_dlpack(made))
                results.append(made)
            else:
                results.append(None)
        module.run()
        return [_tensor(module.get_output(i)) if r is None else r for i, r in enumerate(results)]

    return run


def _machine(mod, options: Mapping[str, Any]) -> Callable[[list], list]:
    """A program with open sizes or control flow."""
    from ... import relay
    from ...ir.transform import PassContext
    from ...runtime.vm import VirtualMachine

    with PassContext(opt_level=options["opt_level"]):
        executable = relay.vm.compile(mod, target=options["target"])
    machine = VirtualMachine(executable, cpu(0))

    def run(values: list) -> list:
        result = machine.run(*[_array(v) for v in values])
        parts = [result] if isinstance(result, ndarray.NDArray) else list(result)
        return [_tensor(p) for p in parts]

    return run


__all__ = ["CompiledGraph", "pytvm"]

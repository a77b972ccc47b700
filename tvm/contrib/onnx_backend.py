"""The ``onnx.backend`` interface: compiles models and single nodes for the CPU and runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep, Device, DeviceType, namedtupledict

from ..ir.transform import PassContext
from ..ir.type import TupleType
from ..relay.frontend.onnx import from_onnx
from ..relay.frontend.onnx.small_types import STRING, SmallType, Texts, from_carrier, small_type
from ..relay.infer import infer_module
from .onnx_values import given, open_shapes, taken, texts_of


class CompiledModel(BackendRep):
    """A compiled model; ``run`` takes inputs in the model's order, or by name.

    A sequence is represented as a list, an empty optional as None. If the rank of an input is unknown, the model is
    compiled at the first run, for the ranks of the given inputs.

    Parameters
    ----------
    model : ModelProto
        The model.
    opt_level : int, optional
        The level of optimization.
    compile : callable, optional
        A function from ``(module, params)`` to an object with the methods of ``GraphModule`` that run a model. By
        default, models are compiled for the graph executor.
    compile_dynamic : callable, optional
        A function from ``(module, params)`` to a function from the inputs by name to the result of a model with dynamic
        shapes or control flow. By default, these models are compiled for the virtual machine.
    """

    def __init__(
        self,
        model,
        opt_level: int = 3,
        compile: Callable[[Any, Any], Any] | None = None,
        compile_dynamic: Callable[[Any, Any], Callable[[dict[str, Any]], Any]] | None = None,
    ):
        self.model, self.opt_level = model, opt_level
        self.compilers = (compile or compile_for_graph_executor, compile_dynamic or compile_for_virtual_machine)
        weights = {w.name for w in model.graph.initializer}
        self.inputs = [v.name for v in model.graph.input if v.name not in weights]
        self.outputs = [o.name for o in model.graph.output]
        self.small = [small_type(o.type.tensor_type.elem_type) for o in model.graph.output]
        kinds = [v.type.tensor_type.elem_type for v in (*model.graph.input, *model.graph.output)]
        self.has_strings = any(small_type(kind) is STRING for kind in kinds)
        self.program: _Program | None = None
        if not open_shapes(model, {}):
            self.program = _Program(model, {}, opt_level, self.compilers)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        if not isinstance(inputs, dict):
            inputs = dict(zip(self.inputs, inputs))
        if self.program is None:
            self.program = _Program(self.model, open_shapes(self.model, inputs), self.opt_level, self.compilers)
        texts = texts_of(self.model, inputs) if self.has_strings else None
        results = self.program(inputs)
        results = [_from_carrier(r, kind, texts) if kind else r for r, kind in zip(results, self.small)]
        return namedtupledict("Outputs", self.outputs)(*results)


def _from_carrier(array: Any, kind: SmallType, texts: Texts | None) -> Any:
    return texts.strings(array) if texts is not None and kind is STRING else from_carrier(array, kind)


def compile_for_graph_executor(module: Any, params: Any) -> Any:
    """Compile a model for the graph executor on this machine's CPU.

    Parameters
    ----------
    module : IRModule
        The model.
    params : dict of str to NDArray
        The weights by name.

    Returns
    -------
    GraphModule
    """
    from ..relay import build
    from ..runtime import cpu
    from .graph_executor import GraphModule

    return GraphModule(build(module, "llvm", params=params)["default"](cpu(0)))


def compile_for_virtual_machine(module: Any, params: Any) -> Callable[[dict[str, Any]], Any]:
    """Compile a model for the virtual machine on this machine's CPU.

    Parameters
    ----------
    module : IRModule
        The model.
    params : dict of str to NDArray
        The weights by name.

    Returns
    -------
    callable
        A function from the inputs by name to the result.
    """
    from ..relay import vm
    from ..runtime import cpu
    from ..runtime.vm import VirtualMachine

    machine = VirtualMachine(vm.compile(module, "llvm", params=params), cpu(0))

    def run(values: dict[str, Any]) -> Any:
        machine.set_input("main", **values)
        return machine.invoke("main")

    return run


class _Program:
    """A compiled model. The first of ``compilers`` compiles models with static shapes and without control flow, the
    second all others."""

    def __init__(self, model, shape: dict[str, list], opt_level: int, compilers: Sequence[Callable[[Any, Any], Any]]):
        from ..relay import vm

        module, params = from_onnx(model, shape=shape)
        main = infer_module(module)["main"]
        result = main.checked_type_.ret_type
        self.types = [result] if len(model.graph.output) == 1 else list(result.fields)
        self.inputs = {p.name_hint: p.checked_type_ for p in main.params}
        # The reason why the model needs the virtual machine; None if the graph executor can run it.
        self.reason = vm.needs_vm(module, params)
        with PassContext(opt_level=opt_level):
            self.module = compilers[self.reason is not None](module, params)

    def __call__(self, inputs: dict[str, Any]) -> list:
        values = {name: given(value, self.inputs.get(name)) for name, value in inputs.items()}
        if self.reason is not None:
            result = self.module(values)
            return [taken(v, t) for v, t in zip([result] if len(self.types) == 1 else result, self.types)]
        for name, value in values.items():
            self.module.set_input(name, value)
        self.module.run()
        arrays = iter([self.module.get_output(i).numpy() for i in range(self.module.get_num_outputs())])
        return [[next(arrays) for _ in t.fields] if isinstance(t, TupleType) else next(arrays) for t in self.types]


class TVMBackend(Backend):
    """Implements prepare, run_model, run_node and supports_device of the ONNX back-end interface."""

    @classmethod
    def is_compatible(cls, model, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether a model can be compiled.

        Parameters
        ----------
        model : ModelProto
            The model.
        device : str, optional
            "CPU".
        **kwargs
            Ignored.

        Returns
        -------
        bool
        """
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model, device: str = "CPU", **kwargs: Any) -> CompiledModel:
        """A model compiled for this CPU.

        Parameters
        ----------
        model : ModelProto
            The model.
        device : str, optional
            "CPU".
        **kwargs
            Further arguments of CompiledModel.

        Returns
        -------
        CompiledModel

        Raises
        ------
        ValueError
            The device is not the CPU.
        """
        if not cls.supports_device(device):
            raise ValueError(f"device '{device}' is not supported; only CPU is")
        return CompiledModel(model, **kwargs)

    @classmethod
    def run_model(cls, model, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """The outputs of a model on arrays.

        Parameters
        ----------
        model : ModelProto
            The model.
        inputs : list of numpy.ndarray
            The inputs, in the model's order.
        device : str, optional
            "CPU".
        **kwargs
            Further arguments of CompiledModel.

        Returns
        -------
        tuple[Any, ...]
        """
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """The outputs of one node on arrays; its inputs remain inputs of the compiled program.

        Parameters
        ----------
        node : NodeProto
            The node.
        inputs : list of numpy.ndarray
            The inputs, in the model's order.
        device : str, optional
            "CPU".
        outputs_info : Sequence[tuple[Any, tuple[int, ...]]], optional
            Type and shape of each output.
        **kwargs
            Ignored.

        Returns
        -------
        tuple[Any, ...]
        """
        opset = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        names = list(dict.fromkeys(n for n in node.input if n))
        arrays = list(inputs.values()) if isinstance(inputs, dict) else [np.asarray(a) for a in inputs]
        infos = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in zip(names, arrays)
        ]
        outs = [helper.make_empty_tensor_value_info(n) for n in node.output if n]
        graph = helper.make_graph([node], "node", infos, outs)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, opset)])
        return cls.run_model(model, arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether models run on a device of this name.

        Parameters
        ----------
        device : str
            The name; only "CPU" is supported.

        Returns
        -------
        bool
        """
        return Device(device).type == DeviceType.CPU


prepare = TVMBackend.prepare
run_model = TVMBackend.run_model
run_node = TVMBackend.run_node
supports_device = TVMBackend.supports_device
is_compatible = TVMBackend.is_compatible

__all__ = ["CompiledModel", "TVMBackend", "is_compatible", "prepare", "run_model", "run_node", "supports_device"]

"""The ``onnx.backend`` interface: models and single nodes compiled for the CPU and run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep, Device, DeviceType, namedtupledict

from ..ir.transform import PassContext
from ..relay.expr import Tuple
from ..relay.frontend.onnx import from_onnx
from ..relay.frontend.onnx.small_types import from_carrier, small_type, to_carrier
from ..runtime import ndarray


def _groups(body, count: int) -> list[int | None]:
    """For each result of a model the number of its tensors if it is a sequence, None if it is one tensor."""
    results = [body] if count == 1 else body.fields
    return [len(r.fields) if isinstance(r, Tuple) else None for r in results]


class CompiledModel(BackendRep):
    """A compiled model; ``run`` takes inputs in the model's order, or by name.

    Parameters
    ----------
    model : ModelProto
        The model.
    opt_level : int, optional
        The level of optimization.
    """

    def __init__(self, model, opt_level: int = 3):
        from ..relay import build
        from ..runtime import cpu
        from . import graph_executor

        module, params = from_onnx(model)
        self.groups = _groups(module["main"].body, len(model.graph.output))
        self.inputs = {p.name_hint: p.type_annotation.dtype for p in module["main"].params}
        self.outputs = [o.name for o in model.graph.output]
        self.small = [small_type(o.type.tensor_type.elem_type) for o in model.graph.output]
        with PassContext(opt_level=opt_level):
            lib = build(module, "llvm", params=params)
        self.module = graph_executor.GraphModule(lib["default"](cpu(0)))

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        if not isinstance(inputs, dict):
            inputs = dict(zip(self.inputs, inputs))
        for name, value in inputs.items():
            self.module.set_input(name, ndarray.array(to_carrier(np.array(value, order="C"))))
        self.module.run()
        count = sum(1 if n is None else n for n in self.groups)
        arrays = iter([self.module.get_output(i).numpy() for i in range(count)])
        results = [next(arrays) if n is None else [next(arrays) for _ in range(n)] for n in self.groups]
        results = [from_carrier(r, kind) if kind else r for r, kind in zip(results, self.small)]
        return namedtupledict("Outputs", self.outputs)(*results)


class TVMBackend(Backend):
    """prepare, run_model, run_node and supports_device of ONNX's interface."""

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
            Taken for callers that pass more.

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
        """One node on arrays; the inputs stay inputs of the compiled program.

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
            Taken for callers that pass more.

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
            The name; "CPU" is the one there is.

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

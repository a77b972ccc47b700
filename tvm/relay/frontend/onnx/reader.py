"""From an ONNX model to a module: the graph is checked as a whole first, then converted node by node."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ....dtype import canonical
from ....error import TVMError
from ....ir.module import IRModule
from ....ir.prim import Any_
from ....ir.tensor_type import TensorType
from ....runtime import ndarray
from ...expr import Constant, Function, RelayExpr, Tuple, TupleWrapper, Var
from ...infer import infer_type
from ...substitute import free_vars
from ...transform.fold_constant import FoldConstantExpr
from .table import CONVERTERS, Context

# The operator set that the importer was written against; newer models are read as far as their operators are known.
NEWEST_OPSET = 25


def from_onnx(
    model, shape=None, dtype="float32", opset=None, freeze_params=True, convert_config=None,
    export_node_renamed_model_path=None,
) -> tuple[IRModule, dict[str, Any]]:
    """An ONNX model (a ModelProto, or the path of a file) as a module and its parameters.

    ``shape`` gives shapes of inputs by name, where the model leaves them open. With ``freeze_params`` (the default)
    weights become constants; otherwise they are inputs, and the second result holds their values.
    """
    import onnx

    if isinstance(model, (str, os.PathLike)):
        model = load_file(model)
    if not isinstance(model, onnx.ModelProto):
        raise TypeError(f"from_onnx: a ModelProto or a path is wanted, got {type(model).__name__}")
    if not model.HasField("graph") or not model.graph.node and not model.graph.output:
        raise TVMError("from_onnx: the model has no graph")
    importer = Importer(model, shape, dtype, opset, freeze_params, convert_config or {})
    return importer.run()


def load_file(path):
    """The model of a file; what is no ONNX model is refused in words."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load(os.fspath(path), load_external_data=False)
    except DecodeError as problem:
        raise TVMError(f"{path} is not an ONNX model, or is cut short: {problem}") from problem
    except (OSError, ValueError) as problem:
        raise TVMError(f"{path} cannot be read: {problem}") from problem
    _load_external(model, os.path.dirname(os.path.abspath(os.fspath(path))))
    return model


def _load_external(model, folder: str) -> None:
    """Weights stored beside the model; they must lie inside the model's own folder."""
    import onnx
    from onnx.external_data_helper import load_external_data_for_tensor, uses_external_data

    root = os.path.realpath(folder)
    for tensor in onnx.external_data_helper._get_all_tensors(model):
        if not uses_external_data(tensor):
            continue
        location = next((e.value for e in tensor.external_data if e.key == "location"), "")
        path = os.path.realpath(os.path.join(folder, location))
        if os.path.isabs(location) or os.path.commonpath([root, path]) != root:
            raise TVMError(f"weight '{tensor.name}' is stored outside the model's folder: {location}")
        if not os.path.isfile(path):
            raise TVMError(f"weight '{tensor.name}' should be in {path}, which is not there")
        load_external_data_for_tensor(tensor, folder)
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]


def tensor_array(tensor):
    """The NumPy array of a TensorProto."""
    from onnx import numpy_helper

    try:
        return numpy_helper.to_array(tensor)
    except (ValueError, TypeError) as problem:
        raise TVMError(f"weight '{tensor.name}' cannot be read: {problem}") from problem


def onnx_dtype(code: int) -> str:
    """Our name of an ONNX element type."""
    from onnx import TensorProto, helper

    if code == TensorProto.BFLOAT16:
        return "bfloat16"
    if code == TensorProto.STRING:
        raise TVMError("tensors of strings are not supported")
    return canonical(helper.tensor_dtype_to_np_dtype(code))


class Importer:
    """Converts one model. Values of the graph are kept by name."""

    def __init__(self, model, shape: Mapping | None, dtype, opset, freeze: bool, config: Mapping):
        self.model = model
        self.shape = dict(shape or {})
        self.dtype = dtype
        self.freeze = freeze
        self.config = config
        sets = {o.domain: o.version for o in model.opset_import}
        self.opset = int(opset) if opset is not None else sets.get("", sets.get("ai.onnx", 1))
        self.values: dict[str, Any] = {}
        self.params: dict[str, Any] = {}
        self.inputs: list[Var] = []

    def run(self) -> tuple[IRModule, dict[str, Any]]:
        graph = self.model.graph
        self.check(graph)
        for tensor in graph.initializer:
            self.weight(tensor.name, tensor_array(tensor))
        for value in graph.input:
            if value.name not in self.values:
                self.input(value)
        unknown = [n for n in self.shape if n not in {v.name for v in graph.input}]
        if unknown:
            known = ", ".join(v.name for v in graph.input if v.name not in {t.name for t in graph.initializer})
            raise TVMError(f"the model has no input '{unknown[0]}'; its inputs are {known}")
        self.nodes(graph)
        outputs = [as_tensor(self.value(o.name, "the graph's outputs")) for o in graph.output]
        body = outputs[0] if len(outputs) == 1 else Tuple(outputs)
        used = free_vars(body)
        extra = [v for v in used if v not in self.inputs]
        function = Function([*self.inputs, *extra], body)
        return IRModule.from_expr(function), {} if self.freeze else self.params

    def check(self, graph) -> None:
        used: list[tuple[str, str]] = []
        stack = [graph]
        while stack:
            for node in stack.pop().node:
                name = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
                used.append((name, node.name or (node.output[0] if node.output else "?")))
                for attribute in node.attribute:
                    if attribute.HasField("g"):
                        stack.append(attribute.g)
        CONVERTERS.check(used, self.opset)

    def weight(self, name: str, array) -> None:
        if self.freeze:
            self.values[name] = Constant(array)
        else:
            variable = Var(name, TensorType(array.shape, canonical(array.dtype)))
            self.values[name] = variable
            self.params[name] = ndarray.array(array)

    def input(self, value) -> None:
        t = value.type.tensor_type
        if not value.type.HasField("tensor_type"):
            raise TVMError(f"input '{value.name}' is not a tensor; sequences and optionals are not supported")
        dtype = self.dtype.get(value.name) if isinstance(self.dtype, Mapping) else None
        dtype = dtype or (onnx_dtype(t.elem_type) if t.elem_type else "float32")
        if value.name in self.shape:
            dims = [Any_() if isinstance(d, Any_) else int(d) for d in self.shape[value.name]]
        else:
            dims = [d.dim_value if d.HasField("dim_value") and d.dim_value > 0 else Any_(d.dim_param or "any")
                    for d in t.shape.dim]
        variable = Var(value.name, TensorType(dims, dtype))
        self.inputs.append(variable)
        self.values[value.name] = variable

    def value(self, name: str, where: str):
        if name not in self.values:
            raise TVMError(f"'{name}' is used by {where} but nothing makes it")
        return self.values[name]

    def nodes(self, graph) -> None:
        for node in graph.node:
            name = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
            where = f"{name} node '{node.name or (node.output[0] if node.output else '?')}'"
            inputs = [None if not i else self.value(i, where) for i in node.input]
            context = Context(self, node, self.opset, where)
            convert = CONVERTERS.find(name, self.opset)
            assert convert is not None
            try:
                got = convert(context, inputs, context.attributes)
            except TVMError as problem:
                if str(problem).startswith(where):
                    raise
                raise type(problem)(f"{where}: {problem}") from problem
            except (TypeError, ValueError, IndexError, KeyError) as problem:
                raise TVMError(f"{where}: {problem}") from problem
            self.outputs(node, got, where)

    def outputs(self, node, got, where: str) -> None:
        results = list(got) if isinstance(got, (list, tuple, TupleWrapper)) else [got]
        wanted = list(node.output)
        if len(results) < len([o for o in wanted if o]):
            raise TVMError(f"{where} should give {len(wanted)} results, {len(results)} are supported")
        for name, value in zip(wanted, results):
            if name:
                self.values[name] = fold(value)


def as_tensor(value) -> RelayExpr:
    return value.astuple() if isinstance(value, TupleWrapper) else value


def fold(value) -> RelayExpr:
    """Shapes computed from constants become constants at once: other nodes need their numbers."""
    value = as_tensor(value)
    infer_type(value)
    if isinstance(value, Constant):
        return value
    got = FoldConstantExpr(value, None)
    if got is not value:
        infer_type(got)
    return got


__all__ = ["Importer", "from_onnx", "load_file"]

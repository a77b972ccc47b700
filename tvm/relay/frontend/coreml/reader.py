"""Convert a Core ML model to a module.

The described features are its inputs and outputs; the body is a neural network, an ML program, or a pipeline of them.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import numpy as np

from ....error import OpNotImplemented, TVMError, did_you_mean
from ....ir.module import IRModule
from ....ir.prim import Any_
from ....runtime import ndarray
from ... import op as relay
from ...expr import RelayExpr
from ..common.importer import GraphImporter, MissingShape, UnknownInput
from ..common.incremental import tensor_type
from .load import Loaded, Weights, load
from .network import Network
from .program import Program
from .schema import FEATURE_TYPES, GRAYSCALE, GRAYSCALE_HALF
from .table import LAYERS, OPERATIONS
from .values import sizes_of, type_name

# The maximum number of operations and layers, with loops unrolled.
_MAX_NODES = 131_072
_NETWORKS = ("neuralNetwork", "neuralNetworkClassifier", "neuralNetworkRegressor")
_PIPELINES = ("pipeline", "pipelineClassifier", "pipelineRegressor")
# The maximum number of models in a pipeline.
_MAX_MEMBERS = 256


def kind_of(model: Any) -> str:
    """Return the type of a model."""
    kinds = [field.name for field, _ in model.ListFields() if field.number >= 200]
    if len(kinds) != 1:
        raise TVMError("the file is not a Core ML model, or its model type is unknown")
    return kinds[0]


def members_of(model: Any) -> list:
    """Return the models of a (nested) pipeline in order."""
    found, work = [], [model]
    while work:
        one = work.pop()
        kind = kind_of(one)
        if kind in _PIPELINES:
            part = getattr(one, kind)
            work += reversed((part if kind == "pipeline" else part.pipeline).models)
        else:
            found.append(one)
        if len(found) > _MAX_MEMBERS:
            raise TVMError(f"a pipeline of more than {_MAX_MEMBERS} models is not supported")
    if not found:
        raise TVMError("the pipeline has no models")
    return found


class Importer(GraphImporter):
    """Converts one model to a module."""

    def __init__(self, loaded: Loaded, shapes: Mapping | None):
        super().__init__()
        self.model, self.weights = loaded.model, Weights(loaded.folder)
        self.shapes = {name: _dims(name, given) for name, given in (shapes or {}).items()}
        self.config: dict[str, Any] = {}
        self.converted = 0
        self.defaults: dict[str, Any] = {}

    def count_node(self) -> None:
        self.converted += 1
        if self.converted > _MAX_NODES:
            raise TVMError(f"the model has more than {_MAX_NODES} operations with its loops unrolled")

    def run(self) -> tuple[IRModule, dict[str, Any]]:
        members = members_of(self.model)
        self.check_kinds(members)
        bodies = [self.body(m) for m in members]
        self.check_operators(bodies)
        features = self.inputs_of(members, bodies)
        for member, body in zip(members, bodies):
            given = {}
            for feature in member.description.input:
                if feature.name not in features:
                    raise TVMError(
                        f"'{feature.name}', an input of a model in the pipeline, is not produced by any previous model"
                    )
                given[feature.name] = features[feature.name]
            features.update(body.run(given))
        module, _ = self.finish(self.outputs(features))
        return module, self.defaults

    def check_kinds(self, members: list) -> None:
        known = (*_NETWORKS, "mlProgram")
        others = sorted({kind_of(m) for m in members} - set(known))
        if others:
            raise OpNotImplemented(f"model types {', '.join(others)} are not supported; supported are neural networks, "
                                   "ML programs and pipelines of them")  # fmt: skip
        for member in members:
            if member.description.state:
                raise TVMError("stateful models are not supported")

    def body(self, member: Any) -> Any:
        kind = kind_of(member)
        if kind == "mlProgram":
            return Program(self, member, self.weights)
        return Network(self, member, getattr(member, kind))

    def check_operators(self, bodies: list) -> None:
        """Report all unsupported operations in one error."""
        for table, kind in ((LAYERS, Network), (OPERATIONS, Program)):
            rows = [(name, where, 0, "") for b in bodies if isinstance(b, kind) for name, where in b.used()]
            table.check_all(rows, lambda name, *rest: kind.knows(name))  # noqa: B023 (called at once)

    # -- inputs ---------------------------------------------------------------------------------------------------

    def inputs_of(self, members: list, bodies: list) -> dict[str, Any]:
        names = [f.name for f in self.model.description.input]
        unknown = [n for n in self.shapes if n not in names]
        if unknown:
            raise UnknownInput(f"the model has no input '{unknown[0]}'; its inputs are {', '.join(names)}"
                               + did_you_mean(unknown[0], names, "; "))  # fmt: skip
        types = {a.name: a.type for b in bodies if isinstance(b, Program) for a in b.function.inputs}
        # Networks of older specifications describe inputs without the batch: channels, or channels, height and width.
        older = {f.name for m, b in zip(members, bodies) if isinstance(b, Network) and b.rank
                 for f in m.description.input}  # fmt: skip
        found: dict[str, Any] = {}
        for feature in self.model.description.input:
            if feature.name in found:
                raise TVMError(f"the model has two inputs named '{feature.name}'")
            dims, dtype = self.declared(feature, types.get(feature.name))
            dims = [1, *dims] if feature.name in older and len(dims) in (1, 3) and None not in dims else dims
            found[feature.name] = self.add_input(feature.name, self.sizes(feature.name, dims), dtype)
            if feature.type.isOptional:
                self.add_default(feature, found[feature.name])
        return found

    def declared(self, feature: Any, program_type: Any) -> tuple[list, str]:
        """Return the shape and the element type of an input."""
        kind = feature.type
        if program_type is not None:
            if not program_type.HasField("tensorType"):
                raise TVMError(f"the input '{feature.name}' of the program is not a tensor")
            dims, dtype = sizes_of(program_type.tensorType), type_name(program_type.tensorType.dataType)
            described = list(kind.multiArrayType.shape) if kind.HasField("multiArrayType") else []
            if None in dims and len(described) == len(dims):
                dims = [d if d is not None else int(s) for d, s in zip(dims, described)]
            elif None in dims and kind.HasField("imageType") and len(dims) == 4:
                dims = self.image_sizes(kind.imageType)
            return dims, dtype
        if kind.HasField("imageType"):
            return self.image_sizes(kind.imageType), "float32"
        if not kind.HasField("multiArrayType"):
            raise TVMError(f"the input '{feature.name}' is neither an array nor an image, which is not supported")
        dtype = FEATURE_TYPES.get(kind.multiArrayType.dataType, "float32")
        # Networks compute in float32, whatever the element type of their arrays is.
        dims = [int(d) for d in kind.multiArrayType.shape] or [None]
        return dims, "int32" if dtype.startswith("int") else "float32"

    def image_sizes(self, image: Any) -> list[int]:
        channels = 1 if image.colorSpace in (GRAYSCALE, GRAYSCALE_HALF) else 3
        return [1, channels, int(image.height), int(image.width)]

    def sizes(self, name: str, dims: list) -> list:
        if name in self.shapes:
            return [Any_() if d is None else _size(name, d) for d in self.shapes[name]]
        if any(d is None or d < 1 for d in dims):
            raise MissingShape(f"the model does not specify the shape of input '{name}'", name)
        return [_size(name, d) for d in dims]

    def add_default(self, feature: Any, variable: Any) -> None:
        """Store the default value of an optional input."""
        array, found = feature.type.multiArrayType, 0.0
        for field in ("intDefaultValue", "floatDefaultValue", "doubleDefaultValue"):
            found = getattr(array, field) if array.HasField(field) else found
        kind = variable.type_annotation
        sizes = [int(d) for d in kind.concrete_shape]
        self.defaults[feature.name] = ndarray.array(np.full(sizes, found, kind.dtype))

    # -- outputs --------------------------------------------------------------------------------------------------

    def outputs(self, features: dict[str, Any]) -> list[RelayExpr]:
        """Return the tensors that the model describes as outputs. Class labels are skipped."""
        found = []
        for feature in self.model.description.output:
            value = features.get(feature.name)
            if not isinstance(value, RelayExpr):
                if feature.type.HasField("stringType") or feature.type.HasField("int64Type"):
                    continue
                raise TVMError(f"the model describes the output '{feature.name}', but no operation produces it")
            dtype = FEATURE_TYPES.get(feature.type.multiArrayType.dataType)
            if feature.type.HasField("multiArrayType") and dtype is not None and dtype.startswith("int"):
                value = self.cast(value, dtype)
            found.append(value)
        if not found:
            raise TVMError("the model has no tensor output")
        return found

    def cast(self, value: RelayExpr, dtype: str) -> RelayExpr:
        found = tensor_type(self.typer.typed(value)).dtype
        return value if found == dtype else self.typer.infer(relay.cast(value, dtype))


def _dims(name: str, given: Any) -> list:
    """Return the dimensions of a user-given shape; None is a dynamic dimension."""
    try:
        return [d if isinstance(d, Any_) else None if d is None or operator.index(d) == -1 else operator.index(d)
                for d in given]  # fmt: skip
    except TypeError as problem:
        raise TVMError(f"shape of input '{name}': expected a list of integers, got {given!r}") from problem


def _size(name: str, d: Any) -> Any:
    if not isinstance(d, Any_) and not 0 < d < 1 << 40:
        raise TVMError(f"shape of input '{name}': {d} is not a valid dimension")
    return d


def from_coreml(model, shape=None) -> tuple[IRModule, dict[str, Any]]:
    """Import a Core ML model as a module and its parameters: a neural network (.mlmodel), an ML program (.mlpackage), a
    classifier or regressor, or a pipeline of them. Files are read without coremltools.

    Images are tensors [batch, channels, height, width] with pixels from 0 to 255 in the color order that the model
    describes. The preprocessing of the model is part of the module. Flexible dimensions have the model's default sizes
    unless ``shape`` overrides them. The outputs are in the order of the model's description. Those of a classifier are
    the class probabilities, without the predicted label.

    Inputs and outputs of networks of specification version 3 and earlier have a batch dimension in front of the
    described channels, or channels, height and width; ``shape`` may add a sequence dimension in front of it.

    Parameters
    ----------
    model : MLModel, Model, bytes or str
        An MLModel object or its specification, the bytes of a model file, or the path of a file or of a package.
    shape : dict of str to tuple, optional
        Input shapes by name, which override the shapes in the model.

    Returns
    -------
    tuple of IRModule and dict
        The module, and the default values of optional inputs.

    Raises
    ------
    OpNotImplemented
        The model uses layers or operations that are not supported; the message lists all of them.
    TVMError
        The model is corrupt, or it uses an unsupported feature.
    TypeError
        ``model`` has another type.
    """
    return Importer(load(model), shape).run()


__all__ = ["Importer", "from_coreml"]

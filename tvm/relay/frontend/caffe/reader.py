"""Convert a Caffe network to a module. All layer types are checked before the first layer is converted."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from ....dtype import canonical
from ....error import TVMError, did_you_mean
from ....ir.module import IRModule
from ...expr import RelayExpr, TupleWrapper
from ..common.importer import GraphImporter, UnknownInput
from .load import Layer, Net, is_text, load_net, load_weights
from .schema import SOURCES
from .table import CONVERTERS, Context

# The maximum number of layers of a network.
MOST_LAYERS = 65_536


class Importer(GraphImporter):
    """Converts one network to a module."""

    def __init__(self, net: Net, weights: dict[str, list[np.ndarray]], shapes: Mapping, dtypes: Mapping):
        super().__init__()
        self.net, self.shapes, self.dtypes = net, dict(shapes), dict(dtypes)
        for layer in net.layers:
            layer.blobs = weights.get(layer.name, [])
        # Blobs that no later layer has read, in the order of definition: the outputs of the network.
        self.left: dict[str, None] = {}
        self.declared: dict[str, list[int] | None] = {}

    def run(self) -> tuple[IRModule, dict[str, Any]]:
        layers = self.net.layers
        if len(layers) > MOST_LAYERS:
            raise TVMError(f"the network has more than {MOST_LAYERS} layers")
        CONVERTERS.check_all([(m.type, m.name, 0, "") for m in layers if m.type not in SOURCES])
        self.declare_inputs()
        for layer in layers:
            if layer.type not in SOURCES:
                self.convert(layer)
        if not self.left:
            raise TVMError("the network has no outputs: a layer reads every blob")
        return self.finish([self.scopes[0][name] for name in self.left])

    # -- inputs ---------------------------------------------------------------------------------------------------

    def declare_inputs(self) -> None:
        """Record the declared inputs and shapes.

        An input is added to the function when a layer first reads it, so that unused inputs such as labels are dropped.
        """
        self.declared.update(self.net.inputs)
        for layer in self.net.layers:
            if layer.type in SOURCES:
                shapes = _shapes(layer)
                if len(shapes) not in (0, 1, len(layer.tops)):
                    raise TVMError(
                        f"{layer.type} '{layer.name}' has {len(layer.tops)} outputs but {len(shapes)} shapes"
                    )
                for i, top in enumerate(layer.tops):
                    self.declared[top] = shapes[i if len(shapes) > 1 else 0] if shapes else None
        unknown = [n for n in (*self.shapes, *self.dtypes) if n not in self.declared]
        if unknown:
            raise UnknownInput(
                f"the network has no input '{unknown[0]}'; its inputs are {', '.join(self.declared)}"
                + did_you_mean(unknown[0], list(self.declared), "; ")
            )

    def source(self, name: str) -> RelayExpr:
        """Add an input of the network to the function and return it."""
        dims = self.shapes.get(name, self.declared[name])
        if dims is None:
            raise TVMError(f"the network does not declare the shape of input '{name}'; pass it in shape_dict")
        try:
            sizes = [operator.index(d) for d in dims]
        except TypeError as problem:
            raise TVMError(f"shape of input '{name}': expected a list of integers, got {dims!r}") from problem
        if any(d < 1 for d in sizes) or int(np.prod(sizes, dtype=object)) > 1 << 40:
            raise TVMError(f"shape of input '{name}': {sizes} is not supported")
        return self.add_input(name, sizes, canonical(self.dtypes.get(name, "float32")))

    # -- layers ---------------------------------------------------------------------------------------------------

    def taken(self, name: str, where: str) -> RelayExpr:
        """Return the expression of the blob ``name`` that a layer reads."""
        if name not in self.scopes[0] and name in self.declared:
            self.scopes[0][name] = self.source(name)
        self.left.pop(name, None)
        return self.value(name, where)

    def convert(self, layer: Layer) -> None:
        where = f"{layer.type} '{layer.name}'"
        with self.at_node(where, layer.name, partial(_in_words, layer)):
            inputs = [self.taken(name, where) for name in layer.bottoms]
            ctx = Context(self, layer, where)
            convert = CONVERTERS.find(layer.type, 0)
            assert convert is not None
            got = convert(ctx, inputs)
            ctx.p.check()
            results = list(got) if isinstance(got, (list, TupleWrapper)) else [got]
            if len(results) != len(layer.tops):
                raise TVMError(f"the layer has {len(results)} outputs, but the network names {len(layer.tops)}")
            for name, value in zip(layer.tops, results):
                self.scopes[0][name] = self.typer.infer(value)
                self.left.pop(name, None)
                self.left[name] = None


def _shapes(layer: Layer) -> list[list[int]]:
    """Return the shapes that a data layer declares for its outputs."""
    found = layer.message.merged("input_param").messages("shape")
    if layer.type == "MemoryData":
        inner = layer.message.merged("memory_data_param")
        return [[sum(inner.ints(k)[-1:]) for k in ("batch_size", "channels", "height", "width")]]
    return [m.ints("dim") for m in found]


def _in_words(layer: Layer, problem: Exception) -> str:
    if isinstance(problem, MemoryError):
        return "not enough memory to convert the layer"
    words = str(problem) or type(problem).__name__
    return f"with {len(layer.bottoms)} inputs and {len(layer.blobs)} weight arrays: {words}"


def from_caffe(init_net, predict_net, shape_dict=None, dtype_dict=None) -> tuple[IRModule, dict[str, Any]]:
    """Import a Caffe network as a module and its parameters. Caffe itself is not needed. Weights become constants of
    the module, so the returned parameters are empty.

    The inputs of the module are the declared inputs of the network and the outputs of its data layers. The caller must
    apply the preprocessing of a data layer (mean subtraction, scaling, cropping). The outputs are the blobs that no
    layer reads, in layer order. ``DetectionOutput`` always returns the maximum number of detections; unused rows are
    -1.

    Parameters
    ----------
    init_net : NetParameter, bytes, str or path
        The weights file (.caffemodel).
    predict_net : NetParameter, bytes, str or path
        The network definition (.prototxt). The two arguments may be swapped.
    shape_dict : dict of str to tuple, optional
        Input shapes by name, which override the shapes that the network declares.
    dtype_dict : dict of str to str, optional
        Element types of inputs by name; the default is float32.

    Returns
    -------
    tuple[IRModule, dict[str, Any]]
        The module and its parameters.

    Raises
    ------
    TypeError
        An argument has another type.
    TVMError
        A file is corrupt, a layer cannot be converted, or an argument is wrong.
    OpNotImplemented
        The network has layers without a converter; the message lists all of them.
    """
    for what, given in (("shape_dict", shape_dict), ("dtype_dict", dtype_dict)):
        if given is not None and not isinstance(given, Mapping):
            raise TypeError(f"from_caffe: {what} must be a dictionary by input name, got {type(given).__name__}")
    if is_text(init_net) and not is_text(predict_net):
        init_net, predict_net = predict_net, init_net
    net, weights = load_net(predict_net), load_weights(init_net)
    with np.errstate(all="ignore"):
        return Importer(net, weights, shape_dict or {}, dtype_dict or {}).run()


__all__ = ["Importer", "from_caffe"]

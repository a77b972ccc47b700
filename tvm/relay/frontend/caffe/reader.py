"""From a network of Caffe to a module: its layers are looked up first, then converted in their order."""

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

# Layers that a network may have.
MOST_LAYERS = 65_536


class Importer(GraphImporter):
    """Converts one network."""

    def __init__(self, net: Net, weights: dict[str, list[np.ndarray]], shapes: Mapping, dtypes: Mapping):
        super().__init__()
        self.net, self.shapes, self.dtypes = net, dict(shapes), dict(dtypes)
        for layer in net.layers:
            layer.blobs = weights.get(layer.name, [])
        # The values that no layer has taken yet, in the order they were made: the outputs.
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
            raise TVMError("the network has no outputs: every value is taken by a layer")
        return self.finish([self.scopes[0][name] for name in self.left])

    # -- inputs ---------------------------------------------------------------------------------------------------

    def declare_inputs(self) -> None:
        """Note the inputs and their shapes; one is added when a layer takes it, so that labels are left out."""
        self.declared.update(self.net.inputs)
        for layer in self.net.layers:
            if layer.type in SOURCES:
                shapes = _shapes(layer)
                if len(shapes) not in (0, 1, len(layer.tops)):
                    raise TVMError(f"{layer.type} '{layer.name}' has {len(layer.tops)} results, {len(shapes)} shapes")
                for i, top in enumerate(layer.tops):
                    self.declared[top] = shapes[i if len(shapes) > 1 else 0] if shapes else None
        unknown = [n for n in (*self.shapes, *self.dtypes) if n not in self.declared]
        if unknown:
            raise UnknownInput(f"the network has no input '{unknown[0]}'; its inputs are {', '.join(self.declared)}"
                               + did_you_mean(unknown[0], list(self.declared), "; "))

    def source(self, name: str) -> RelayExpr:
        """An input of the network, which is added when it is first taken."""
        dims = self.shapes.get(name, self.declared[name])
        if dims is None:
            raise TVMError(f"the network does not say the shape of input '{name}'; give it in shape_dict")
        try:
            sizes = [operator.index(d) for d in dims]
        except TypeError as problem:
            raise TVMError(f"shape of input '{name}': a list of numbers is wanted, got {dims!r}") from problem
        if any(d < 1 for d in sizes) or int(np.prod(sizes, dtype=object)) > 1 << 40:
            raise TVMError(f"shape of input '{name}': {sizes} is not supported")
        return self.add_input(name, sizes, canonical(self.dtypes.get(name, "float32")))

    # -- layers ---------------------------------------------------------------------------------------------------

    def taken(self, name: str, where: str) -> RelayExpr:
        """The value that a layer takes."""
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
                raise TVMError(f"the layer gives {len(results)} results, the network names {len(layer.tops)}")
            for name, value in zip(layer.tops, results):
                self.scopes[0][name] = self.typer.infer(value)
                self.left.pop(name, None)
                self.left[name] = None


def _shapes(layer: Layer) -> list[list[int]]:
    """The shapes that a layer declares for its results."""
    found = layer.message.merged("input_param").messages("shape")
    if layer.type == "MemoryData":
        inner = layer.message.merged("memory_data_param")
        return [[sum(inner.ints(k)[-1:]) for k in ("batch_size", "channels", "height", "width")]]
    return [m.ints("dim") for m in found]


def _in_words(layer: Layer, problem: Exception) -> str:
    if isinstance(problem, MemoryError):
        return "there is not enough memory for this"
    words = str(problem) or type(problem).__name__
    return f"with {len(layer.bottoms)} inputs and {len(layer.blobs)} arrays of weights: {words}"


def from_caffe(init_net, predict_net, shape_dict=None, dtype_dict=None) -> tuple[IRModule, dict[str, Any]]:
    """A network of Caffe as a module and its parameters. Weights become constants, so that there are no parameters.
    Caffe is not needed.

    The inputs are those that the network declares and the results of its layers of data; what such a layer does to
    pictures (means, scales, crops) is left to the caller. The outputs are the values that no layer takes, in the order
    of the layers that make them. ``DetectionOutput`` gives as many rows as it keeps at most; rows beyond the detections
    found are -1.

    Parameters
    ----------
    init_net : NetParameter, bytes, str or path
        The file of weights (.caffemodel).
    predict_net : NetParameter, bytes, str or path
        The text of the network (.prototxt). The two may change places.
    shape_dict : dict of str to tuple, optional
        Shapes of inputs by name, in place of the network's own.
    dtype_dict : dict of str to str, optional
        Element types of inputs by name; float32 without it.

    Returns
    -------
    tuple[IRModule, dict[str, Any]]

    Raises
    ------
    TypeError
        An argument is none of these.
    TVMError
        A file is damaged, a layer cannot be converted, or an argument is wrong.
    OpNotImplemented
        For layers without a converter; all of them are named.
    """
    for what, given in (("shape_dict", shape_dict), ("dtype_dict", dtype_dict)):
        if given is not None and not isinstance(given, Mapping):
            raise TypeError(f"from_caffe: {what} is a dictionary by input, got {type(given).__name__}")
    if is_text(init_net) and not is_text(predict_net):
        init_net, predict_net = predict_net, init_net
    net, weights = load_net(predict_net), load_weights(init_net)
    with np.errstate(all="ignore"):
        return Importer(net, weights, shape_dict or {}, dtype_dict or {}).run()


__all__ = ["Importer", "from_caffe"]

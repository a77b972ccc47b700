"""From a network of DarkNet to a module: its layers are looked up first, then converted in their order, each taking its
weights from the file."""

from __future__ import annotations

import operator
import os
from functools import partial
from typing import Any

import numpy as np

from ....dtype import canonical
from ....error import TVMError
from ....ir.module import IRModule
from ...expr import Constant, RelayExpr
from ..common.importer import GraphImporter
from .load import Network, Section, Weights
from .schema import DETECTORS, REFUSED
from .table import CONVERTERS, Context

# Sizes of an image that DarkNet's own numbers can count.
_MOST_INPUTS = 1 << 31


class Importer(GraphImporter):
    """Converts one network."""

    def __init__(self, net: Network, shape, dtype: str, boxes: bool):
        super().__init__()
        self.net, self.dtype, self.boxes = net, dtype, boxes
        self.weights = Weights(net.weights)
        self.shape = self._input_shape(shape)
        # The result of each layer, those of detectors with what describes them, and the states after a run.
        self.results: list[RelayExpr] = []
        self.detections: list[list[RelayExpr]] = []
        self.states: list[RelayExpr] = []

    def _input_shape(self, given) -> tuple[int, ...]:
        """The shape of the input: the one that is given, or one image of the configuration's size for each step."""
        net = self.net
        image = net.c > 0 and net.h > 0 and net.w > 0
        if given is None:
            given = (net.time_steps, net.c, net.h, net.w) if image else (net.time_steps, net.inputs)
        try:
            shape = tuple(operator.index(d) for d in given)
        except TypeError as problem:
            raise TypeError(f"from_darknet: shape is a list of numbers, got {given!r}") from problem
        if len(shape) != (4 if image else 2) or min(shape) < 1 or int(np.prod(shape, dtype=object)) > _MOST_INPUTS:
            kind = "batch, channels, height and width" if image else "batch and inputs"
            raise TVMError(f"the shape of the input, {shape}, is not that of {kind}")
        return shape

    @property
    def input_size(self) -> tuple[int, int]:
        """The width and the height of the input."""
        return self.shape[3], self.shape[2]

    def run(self) -> tuple[IRModule, dict[str, Any]]:
        layers = self.net.layers
        CONVERTERS.check_all([(s.name, f"layer {s.number}", 0, "") for s in layers])
        value: RelayExpr = self.add_input("data", self.shape, self.dtype)
        for section in layers:
            value = self.convert(section, value)
            self.results.append(value)
        self.weights.finish()
        found = self.outputs(layers[-1])
        return self.finish([*found, *self.states])

    def convert(self, section: Section, value: RelayExpr) -> RelayExpr:
        where = f"layer {section.number} [{section.name}]"
        with self.at_node(where, f"{section.name}_{section.number}", partial(_in_words, section)):
            for option in REFUSED.get(section.name, ()):
                if section.options.get(option, "0") not in ("0", "none"):
                    raise TVMError(f"{option}={section.options[option]} is not supported")
            convert = CONVERTERS.find(section.name, 0)
            assert convert is not None
            return self.typer.infer(convert(Context(self, section, where), value))

    def outputs(self, last: Section) -> list[RelayExpr]:
        """The results of the detectors, the last one first, each with what describes it; or the last layer's result.
        Boxes come in the order of their layers."""
        if self.boxes:
            if not self.detections:
                raise TVMError("the network has no layer [yolo] or [region] to make boxes of")
            return [self.typer.infer(value) for found in self.detections for value in found]
        found = [self.typer.infer(v) for rows in reversed(self.detections) for v in rows]
        return found if last.name in DETECTORS else [self.results[-1], *found]

    # -- what converters tell -------------------------------------------------------------------------------------

    def detected(self, out: RelayExpr, *described: np.ndarray) -> RelayExpr:
        """Note the result of a detector."""
        self.detections.append([out, *(Constant(a) for a in described)])
        return out

    def state(self, name: str, first: np.ndarray) -> RelayExpr:
        """A further input, and the value it has before the first run."""
        from ....runtime import ndarray

        self.params[name] = ndarray.array(first)
        return self.add_input(name, first.shape, self.dtype)

    def keep(self, value: RelayExpr) -> None:
        """Note what a run leaves in a state, in the order of the states."""
        self.states.append(value)

    def finish(self, outputs: list[RelayExpr]) -> tuple[IRModule, dict[str, Any]]:
        """The module, and the values that states begin with."""
        return super().finish(outputs)[0], dict(self.params)


def _in_words(section: Section, problem: Exception) -> str:
    if isinstance(problem, MemoryError):
        return "there is not enough memory for this"
    shown = ", ".join(f"{k}={v[:40]}" for k, v in section.options.items())
    return f"with {shown}: {str(problem) or type(problem).__name__}"


def from_darknet(net, weights=None, dtype="float32", shape=None, boxes=False) -> tuple[IRModule, dict[str, Any]]:
    """A network of DarkNet as a module and its parameters. DarkNet is not needed. The weights become constants; the
    parameters are the first values of the states of recurrent layers.

    The input is ``data``. Of a detector the results are, for each layer ``[yolo]`` and the last one first: the layer's
    numbers, its mask, its anchors and (boxes at a place, channels, height, width, classes, kinds of boxes), which
    ``tvm.relay.testing.yolo_detection`` makes boxes of; for ``[region]`` the numbers, the anchors and (boxes at a
    place, channels, height, width, classes, coordinates, background). The results of a network that ends in another
    layer begin with that layer's. What a run leaves in the states of recurrent layers comes last, in the order of
    the inputs that stand for them.

    Parameters
    ----------
    net : Network, str or path
        A network that ``tvm.relay.testing.darknet`` loaded, or the path of a configuration.
    weights : str or path, optional
        The file of weights of a configuration; without it, the one beside it that has its name. The shape of the input
        may be given in this place too.
    dtype : str, optional
        The element type of the network.
    shape : tuple of int, optional
        The shape of the input, in place of the configuration's.
    boxes : bool, optional
        Whether the results are boxes, one result for each layer ``[yolo]`` or ``[region]`` in their order: rows of the
        centre, the width and the height in parts of the image, the objectness, and its product with each class.

    Returns
    -------
    tuple[IRModule, dict[str, Any]]

    Raises
    ------
    TypeError
        ``net`` is none of these, or ``shape`` is no list of numbers.
    TVMError
        A file is damaged or belongs to another network, or a layer cannot be converted.
    OpNotImplemented
        For layers without a converter; all of them are named.
    """
    if weights is not None and not isinstance(weights, (str, bytes, os.PathLike)):
        if shape is not None:
            raise TypeError(f"from_darknet: weights is a path, got {type(weights).__name__}")
        weights, shape = None, weights
    if isinstance(net, (str, bytes, os.PathLike)):
        net = Network(net, weights)
    elif not isinstance(net, Network):
        raise TypeError(f"from_darknet: a network or the path of a configuration is wanted, got {type(net).__name__}")
    elif weights is not None:
        raise TypeError("from_darknet: a network that is loaded has its weights")
    kind = canonical(dtype)
    if kind not in ("float16", "float32", "float64"):
        raise TVMError(f"from_darknet: dtype {dtype} is not supported; it is float16, float32 or float64")
    with np.errstate(all="ignore"):
        return Importer(net, shape, kind, bool(boxes)).run()


__all__ = ["Importer", "from_darknet"]

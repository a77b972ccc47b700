"""Convert a DarkNet network to a module.

All layer types are checked before the first layer is converted. Each layer consumes its weights from the weights file.
"""

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

# DarkNet stores sizes as 32-bit integers.
_MAX_INPUTS = 1 << 31


class Importer(GraphImporter):
    """Converts one network to a module."""

    def __init__(self, net: Network, shape, dtype: str, boxes: bool):
        super().__init__()
        self.net, self.dtype, self.boxes = net, dtype, boxes
        self.weights = Weights(net.weights)
        self.shape = self._input_shape(shape)
        # The output of each layer; the outputs of detection layers with their parameters; the final recurrent states.
        self.results: list[RelayExpr] = []
        self.detections: list[list[RelayExpr]] = []
        self.states: list[RelayExpr] = []

    def _input_shape(self, given) -> tuple[int, ...]:
        """Return the input shape: the given one, or one image of the configured size for each time step."""
        net = self.net
        image = net.c > 0 and net.h > 0 and net.w > 0
        if given is None:
            given = (net.time_steps, net.c, net.h, net.w) if image else (net.time_steps, net.inputs)
        try:
            shape = tuple(operator.index(d) for d in given)
        except TypeError as problem:
            raise TypeError(f"from_darknet: shape must be a list of integers, got {given!r}") from problem
        if len(shape) != (4 if image else 2) or min(shape) < 1 or int(np.prod(shape, dtype=object)) > _MAX_INPUTS:
            kind = "batch, channels, height and width" if image else "batch and inputs"
            raise TVMError(f"the input shape {shape} does not match {kind}")
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
        """Return the outputs of the detection layers with their parameters, last layer first, or the last layer's
        output. Decoded boxes are in layer order."""
        if self.boxes:
            if not self.detections:
                raise TVMError("boxes=True needs a [yolo] or [region] layer, but the network has none")
            return [self.typer.infer(value) for found in self.detections for value in found]
        found = [self.typer.infer(v) for rows in reversed(self.detections) for v in rows]
        return found if last.name in DETECTORS else [self.results[-1], *found]

    # -- state that converters record ------------------------------------------------------------------------------

    def detected(self, out: RelayExpr, *described: np.ndarray) -> RelayExpr:
        """Record the output of a detection layer."""
        self.detections.append([out, *(Constant(a) for a in described)])
        return out

    def state(self, name: str, first: np.ndarray) -> RelayExpr:
        """Add a recurrent state as an input, with its initial value as a parameter."""
        from ....runtime import ndarray

        self.params[name] = ndarray.array(first)
        return self.add_input(name, first.shape, self.dtype)

    def keep(self, value: RelayExpr) -> None:
        """Record the final value of a recurrent state. Calls must be in the order of the states."""
        self.states.append(value)

    def finish(self, outputs: list[RelayExpr]) -> tuple[IRModule, dict[str, Any]]:
        """Return the module and the initial values of the states."""
        return super().finish(outputs)[0], dict(self.params)


def _in_words(section: Section, problem: Exception) -> str:
    if isinstance(problem, MemoryError):
        return "not enough memory to convert the layer"
    shown = ", ".join(f"{k}={v[:40]}" for k, v in section.options.items())
    return f"with {shown}: {str(problem) or type(problem).__name__}"


def from_darknet(net, weights=None, dtype="float32", shape=None, boxes=False) -> tuple[IRModule, dict[str, Any]]:
    """Import a DarkNet network as a module and its parameters. DarkNet itself is not needed. Weights become constants;
    the parameters are the initial values of recurrent states.

    The input is named ``data``. The outputs of a detector are listed per layer, last layer first:

    - for ``[yolo]``: the layer output, the mask, the anchors, and (boxes per position, channels, height, width,
      classes, number of anchors), which ``tvm.relay.testing.yolo_detection`` decodes into boxes;
    - for ``[region]``: the layer output, the anchors, and (boxes per position, channels, height, width, classes,
      coordinates, background).

    If the network ends in another layer, that layer's output comes first. The final values of recurrent states come
    last, in the order of the state inputs.

    Parameters
    ----------
    net : Network, str or path
        A network loaded by ``tvm.relay.testing.darknet``, or the path of a configuration.
    weights : str or path, optional
        The weights file; the default is the file of the same name next to the configuration. For compatibility the
        input shape may be passed in this position.
    dtype : str, optional
        The element type of the network.
    shape : tuple of int, optional
        The input shape, which overrides the configuration.
    boxes : bool, optional
        Whether to return decoded boxes, one output for each ``[yolo]`` or ``[region]`` layer in layer order. Each row
        has center, width and height as fractions of the image, objectness, and objectness times each class probability.

    Returns
    -------
    tuple[IRModule, dict[str, Any]]
        The module and its parameters.

    Raises
    ------
    TypeError
        ``net`` has another type, or ``shape`` is not a list of integers.
    TVMError
        A file is corrupt or belongs to another network, or a layer cannot be converted.
    OpNotImplemented
        The network has layers without a converter; the message lists all of them.
    """
    if weights is not None and not isinstance(weights, (str, bytes, os.PathLike)):
        if shape is not None:
            raise TypeError(f"from_darknet: weights must be a path, got {type(weights).__name__}")
        weights, shape = None, weights
    if isinstance(net, (str, bytes, os.PathLike)):
        net = Network(net, weights)
    elif not isinstance(net, Network):
        raise TypeError(f"from_darknet: expected a network or the path of a configuration, got {type(net).__name__}")
    elif weights is not None:
        raise TypeError("from_darknet: weights must not be given for a loaded network, which contains its weights")
    kind = canonical(dtype)
    if kind not in ("float16", "float32", "float64"):
        raise TVMError(f"from_darknet: dtype {dtype} is not supported; it must be float16, float32 or float64")
    with np.errstate(all="ignore"):
        return Importer(net, shape, kind, bool(boxes)).run()


__all__ = ["Importer", "from_darknet"]

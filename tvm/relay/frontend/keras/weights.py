"""The weights of each layer, and their location in a file.

An HDF5 file (and a live model) contains a list of weights for each top-level layer, whose paths include the names of
nested layers. An archive contains a group for each layer, named after its class, with numbered weights.
"""

from __future__ import annotations

import re
from typing import Any

from ....error import TVMError
from .config import MODELS, Graph, Layer
from .hdf5 import Group

# The weights of each class, in the order in which Keras creates them. A weight with a setting after a colon exists only
# if the setting is true; names separated by a bar are those of Keras 3 and Keras 2.
_KERNEL = "kernel bias:use_bias"
_CELL = "kernel recurrent_kernel bias:use_bias"
_SEPARABLE = "depthwise_kernel pointwise_kernel bias:use_bias"
OWN: dict[str, str] = {
    **dict.fromkeys(
        ["Dense", *(f"Conv{n}D{t}" for n in (1, 2, 3) for t in ("", "Transpose")), "Convolution2D"], _KERNEL
    ),
    **dict.fromkeys(["DepthwiseConv1D", "DepthwiseConv2D"], "kernel|depthwise_kernel bias:use_bias"),
    **dict.fromkeys(["SeparableConv1D", "SeparableConv2D"], _SEPARABLE),
    **dict.fromkeys(["SimpleRNNCell", "LSTMCell", "GRUCell", "ConvLSTMCell"], _CELL),
    "EinsumDense": "kernel bias:bias_axes",
    "Embedding": "embeddings",
    "ReversibleEmbedding": "embeddings reverse_embeddings:!tie_weights",
    "BatchNormalization": "gamma:scale beta:center moving_mean moving_variance",
    "LayerNormalization": "gamma:scale beta:center",
    "GroupNormalization": "gamma:scale beta:center",
    "RMSNormalization": "scale",
    "LayerScale": "gamma|variable",
    "PReLU": "alpha",
    "Normalization": "mean:!mean variance:!mean",
    "Attention": "scale:use_scale concat_score_weight:=score_mode=concat",
    "AdditiveAttention": "scale:use_scale",
}
OWN["SyncBatchNormalization"] = OWN["BatchNormalization"]
# Settings that are true by default.
_ON = {"use_bias", "scale", "center", "tie_weights"}
_CELLS = {"SimpleRNN": "SimpleRNNCell", "LSTM": "LSTMCell", "GRU": "GRUCell", "CuDNNLSTM": "", "CuDNNGRU": "",
          **{f"ConvLSTM{n}D": "ConvLSTMCell" for n in (1, 2, 3)}}  # fmt: skip
# Classes whose groups in an archive have another name than the class in the configuration.
_CLASSES = {"Model": "Functional", "GroupQueryAttention": "GroupedQueryAttention"}
_PROJECTIONS = (("query_dense", "query"), ("key_dense", "key"), ("gate_dense", "gate"), ("value_dense", "value"),
                ("output_dense", "attention_output"))  # fmt: skip


def own_names(layer: Layer) -> list[str]:
    """Return the names of the weights that a layer itself has."""
    out = []
    for row in OWN.get(layer.kind, "").split():
        name, _, condition = row.partition(":")
        if not condition or _holds(layer, condition):
            out.append(name)
    if layer.kind == "LayerNormalization" and layer.get("rms_scaling", False):
        out = ["gamma"]
    if layer.kind == "AdditiveAttention" and "use_scale" not in layer.config:
        out = ["scale"]
    return out


def _holds(layer: Layer, condition: str) -> bool:
    if condition.startswith("="):
        key, wanted = condition[1:].split("=")
        return layer.get(key) == wanted
    key = condition.lstrip("!")
    if key in ("mean", "bias_axes"):
        return (layer.get(key) is not None) != condition.startswith("!")
    return bool(layer.get(key, key in _ON)) != condition.startswith("!")


def complete(layer: Layer) -> None:
    """Add nested layers that are not in the configuration: cells, projections, the backward direction."""
    inner = layer.inner
    if layer.kind in _CELLS and _CELLS[layer.kind]:
        inner["cell"] = Layer(_CELLS[layer.kind], layer.name, layer.config)
    elif layer.kind in ("MultiHeadAttention", "GroupQueryAttention", "GroupedQueryAttention"):
        for attribute, name in _PROJECTIONS:
            if attribute == "gate_dense" and not layer.get("use_gate", False):
                continue
            settings = {"bias_axes": "all" if layer.get("use_bias", True) else None}
            inner[attribute] = Layer("EinsumDense", name, settings)
    elif layer.kind == "Bidirectional" and "layer" in inner:
        forward = inner.pop("layer")
        backward = inner.pop("backward_layer", None)
        if backward is None:
            flipped = {**forward.config, "go_backwards": not forward.get("go_backwards", False)}
            backward = Layer(forward.kind, forward.name, flipped)
            backward.inner = {k: Layer(v.kind, v.name, v.config) for k, v in forward.inner.items()}
        for side, made in (("forward", forward), ("backward", backward)):
            made.name = made.name if made.name.startswith(side) else f"{side}_{made.name.removeprefix('forward_')}"
            inner[f"{side}_layer"] = made
    for child in inner.values():
        complete(child)
    if layer.graph is not None:
        for child in layer.graph.layers.values():
            complete(child)


def _children(layer: Layer) -> list[Layer]:
    return list(layer.graph.layers.values()) if layer.graph is not None else list(layer.inner.values())


class Flat:
    """Lists of weights by top-level layer, as (path, weight) pairs."""

    def __init__(self, lists: dict[str, list]):
        self.lists = lists

    def attach(self, graph: Graph) -> None:
        for layer in graph.layers.values():
            self._attach(layer, self.lists.get(layer.name, []))

    def _attach(self, layer: Layer, found: list) -> None:
        """Attach weights whose path contains the name of their layer first; the others follow in order."""
        by_name: dict[str, list[int]] = {}
        for number, (path, _) in enumerate(found):
            by_name.setdefault(_last(path), []).append(number)
        used: set[int] = set()
        for exact in (True, False):
            for owner, names in _leaves(layer):
                places = [i for n in names.split("|") for i in by_name.get(n, ())]
                key = names.partition("|")[0]
                if key in owner.weights:
                    continue
                for i in places:
                    if i not in used and (not exact or f"/{owner.name}/" in f"/{found[i][0]}"):
                        owner.weights[key] = found[i][1]
                        used.add(i)
                        break


def _last(path: str) -> str:
    """Return the name of a weight: ``kernel`` for ``dense/kernel:0``. Keras 3 numbers unnamed weights across
    the model.
    """
    return re.sub(r"^variable_\d+$", "variable", path.rpartition("/")[2].partition(":")[0])


def _leaves(layer: Layer) -> list[tuple[Layer, str]]:
    """Return the weights of a layer and its nested layers, each with its owner, in creation order."""
    out, work = [], [layer]
    while work:
        found = work.pop()
        out += [(found, name) for name in own_names(found)]
        work += reversed(_children(found))
    return out


class Tree:
    """Groups by layer, with numbered weights."""

    def __init__(self, group: Group):
        self.group = group

    def attach(self, graph: Graph) -> None:
        self._model(graph, self.group)

    def _model(self, graph: Graph, group: Group) -> None:
        places = next(
            (g for g in map(group.group, ("layers", "_layer_checkpoint_dependencies")) if g is not None), None
        )
        if places is not None:
            self._container([v for v in graph.layers.values() if not v.kind.startswith("ops.")], places)

    def _container(self, layers: list[Layer], places: Group) -> None:
        """Find layers of a list by their class names; the second and following layers of a class have a number."""
        counts: dict[str, int] = {}
        for layer in layers:
            name = snake_case(_CLASSES.get(layer.kind, layer.kind))
            number = counts.get(name, 0)
            counts[name] = number + 1
            found = places.group(f"{name}_{number}" if number else name)
            if found is not None:
                self._layer(layer, found)

    def _layer(self, layer: Layer, group: Group) -> None:
        if layer.graph is not None:
            self._model(layer.graph, group)
            return
        names = own_names(layer)
        values = group.group("vars") if names else None
        for number, name in enumerate(names):
            found = values.weight(str(number)) if values is not None else None
            if found is not None:
                layer.weights[name.partition("|")[0]] = found
        cells = [v for k, v in layer.inner.items() if k.startswith("cells/")]
        if cells:
            holder = group.group("cells") or group.group("cell/cells")
            if holder is not None:
                self._container(cells, holder)
        for attribute, child in layer.inner.items():
            inside = None if attribute.startswith("cells/") else group.group(attribute) or group.group(f"_{attribute}")
            if inside is not None:
                self._layer(child, inside)


def snake_case(name: str) -> str:
    """Return the name of a class as archives write it."""
    plain = re.sub(r"\W+", "", name)
    plain = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", plain)
    return re.sub("([a-z])([A-Z])", r"\1_\2", plain).lower()


def weight_array(layer: Layer, name: str) -> Any:
    """Return the elements of a required weight."""
    found = layer.weights.get(name)
    if found is None:
        raise TVMError(f"the model contains no weight '{name}' for the layer '{layer.name}'")
    return found.array()


__all__ = ["MODELS", "OWN", "Flat", "Tree", "complete", "own_names", "snake_case", "weight_array"]

"""The configuration of a model as records: layers, their calls, and the tensors that each call uses.

Configurations of Keras 2 and Keras 3 encode the same content in different ways.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ....error import TVMError

MODELS = ("Functional", "Model", "Sequential")
_MOST_NESTED = 64
_OPERATIONS = ("keras.src.ops", "keras.ops", "keras.src.activations")
_OWN_MODULES = ("keras", "tf_keras", "tensorflow")


class Ref(NamedTuple):
    """One output of one call of a layer."""

    layer: str
    call: int
    index: int


class Call(NamedTuple):
    """A call of a layer: its arguments, with a Ref for each tensor."""

    args: list
    kwargs: dict[str, Any]


class Layer:
    """A layer: its class, its settings, its calls, and its weights by name, which are attached later.

    ``inner`` are the nested layers by the attribute that contains them.
    """

    def __init__(self, kind: str, name: str, config: dict[str, Any]):
        self.kind, self.name, self.config = kind, name, config
        self.calls: list[Call] = []
        self.weights: dict[str, Any] = {}
        self.inner: dict[str, Layer] = {}
        self.graph: Graph | None = None

    def get(self, key: str, default: Any = None) -> Any:
        """Return a setting; if it is absent or null, the default."""
        found = self.config.get(key)
        return default if found is None else found


class Graph(NamedTuple):
    """A model: its layers, and the tensors that are its inputs and outputs."""

    layers: dict[str, Layer]
    inputs: Any
    outputs: Any


def is_ref(value: Any) -> bool:
    return isinstance(value, Ref)


def mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """Return a structure of lists and dictionaries with ``function`` applied to each element."""
    if type(value) in (list, tuple):
        return type(value)(mapped(v, function) for v in value)
    if isinstance(value, dict):
        return {k: mapped(v, function) for k, v in value.items()}
    return function(value)


def flattened(value: Any) -> list:
    """Return the elements of a structure; dictionaries are in the order of their keys."""
    if type(value) in (list, tuple):
        return [leaf for v in value for leaf in flattened(v)]
    if isinstance(value, dict):
        return [leaf for k in sorted(value) for leaf in flattened(value[k])]
    return [value]


def kind_of(row: dict[str, Any]) -> str:
    """Return the class of a layer as the table names it.

    Operations of keras.ops begin with 'ops.', those of TensorFlow with 'tf.', and classes of other packages with the
    name of the package.
    """
    kind, module = row.get("class_name"), row.get("module")
    if not isinstance(kind, str):
        raise TVMError(f"a layer of the configuration has no class_name; it has {sorted(map(str, row))[:6]}")
    if isinstance(module, str) and module.startswith(_OPERATIONS):
        return f"ops.{kind}"
    config = row.get("config")
    if kind == "TFOpLambda" and isinstance(config, dict):
        return f"tf.{config.get('function')}"
    if (
        module is None
        and kind not in (*MODELS, "InputLayer")
        and isinstance(config, dict)
        and "trainable" not in config
    ):
        # HDF5 files contain no other property that distinguishes operations from layers.
        return f"ops.{kind}"
    if "module" in row and (not isinstance(module, str) or module.partition(".")[0] not in _OWN_MODULES):
        return f"{row.get('registered_name') or kind} (a custom class)"
    return kind


def layer_of(row: Any, depth: int = 0, name: str | None = None) -> Layer:
    """Return a layer of the configuration, with its nested layers."""
    if not isinstance(row, dict) or not isinstance(row.get("config", {}), (dict, list)):
        raise TVMError("an entry of the configuration is not a layer")
    if depth > _MOST_NESTED:
        raise TVMError(f"layers are nested more than {_MOST_NESTED} levels deep")
    kind, config = kind_of(row), row.get("config", {})
    if isinstance(config, list):
        config = {"layers": config}
    found = name or row.get("name") or config.get("name") or kind
    layer = Layer(kind, str(found), config)
    if kind in MODELS:
        layer.graph = graph_of(row, depth + 1)
        return layer
    for key in ("layer", "backward_layer", "cell"):
        if isinstance(config.get(key), dict):
            layer.inner[key] = layer_of(config[key], depth + 1)
    if kind == "RNN" and isinstance(config.get("cell"), list) or kind == "StackedRNNCells":
        cells = config.get("cell") if kind == "RNN" else config.get("cells")
        if not isinstance(cells, list) or not cells:
            raise TVMError(f"the layer '{found}' has no cells")
        for number, cell in enumerate(cells):
            layer.inner[f"cells/{number}"] = layer_of(cell, depth + 1)
    return layer


def graph_of(row: dict[str, Any], depth: int = 0) -> Graph:
    """Return the graph of a model."""
    kind = kind_of(row)
    if kind not in MODELS:
        raise TVMError(
            f"the model is a {kind}: subclassed models are Python code, which cannot be imported; build the model "
            "with the functional API"
        )
    config = row.get("config")
    if isinstance(config, list):
        config = {"layers": config}
    if not isinstance(config, dict) or not isinstance(config.get("layers"), list):
        raise TVMError(f"the configuration of the model '{row.get('name', kind)}' has no layers")
    return _chain(config, depth) if kind == "Sequential" else _functional(config, depth)


def _chain(config: dict[str, Any], depth: int) -> Graph:
    """Return a sequential model. Its input is a layer, or defined by the first layer or by the model."""
    layers: dict[str, Layer] = {}
    last: Ref | None = None
    for row in config["layers"]:
        layer = layer_of(row, depth)
        if last is None and layer.kind != "InputLayer":
            made = _implied_input(layer, config)
            layers[made.name] = made
            last = Ref(made.name, 0, 0)
        if layer.name in layers:
            raise TVMError(f"two layers have the name '{layer.name}'")
        if layer.kind == "InputLayer":
            if last is not None:
                raise TVMError(f"the input '{layer.name}' must be the first layer")
            layer.calls.append(Call([], {}))
        else:
            layer.calls.append(Call([last], {}))
        layers[layer.name] = layer
        last = Ref(layer.name, 0, 0)
    if last is None:
        raise TVMError("the model has no layers")
    return Graph(layers, [Ref(next(iter(layers)), 0, 0)], [last])


def _implied_input(first: Layer, config: dict[str, Any]) -> Layer:
    inside = first
    while "layer" in inside.inner and not inside.get("batch_input_shape"):
        inside = inside.inner["layer"]
    shape = first.get("batch_input_shape") or first.get("batch_shape") or config.get("build_input_shape")
    if shape is None and first.graph is not None:
        source = flattened(first.graph.inputs)
        shape = first.graph.layers[source[0].layer].get("batch_shape") if len(source) == 1 else None
    settings = {"batch_shape": shape, "dtype": inside.get("dtype", "float32"), "name": f"{first.name}_input"}
    made = Layer("InputLayer", settings["name"], settings)
    made.calls.append(Call([], {}))
    return made


def _functional(config: dict[str, Any], depth: int) -> Graph:
    layers: dict[str, Layer] = {}
    names = {row.get("name") for row in config["layers"] if isinstance(row, dict) and isinstance(row.get("name"), str)}
    for row in config["layers"]:
        layer = layer_of(row, depth)
        if layer.name in layers:
            raise TVMError(f"two layers have the name '{layer.name}'")
        calls = row.get("inbound_nodes", [])
        if not isinstance(calls, list):
            raise TVMError(f"the calls of the layer '{layer.name}' must be a list")
        layer.calls = [_call(call, names) for call in calls]
        if layer.kind == "InputLayer" and not layer.calls:
            layer.calls.append(Call([], {}))
        layers[layer.name] = layer
    inputs = mapped_refs(config.get("input_layers"), names)
    outputs = mapped_refs(config.get("output_layers"), names)
    for what, found in (("inputs", inputs), ("outputs", outputs)):
        if not flattened(found) or not all(map(is_ref, flattened(found))):
            raise TVMError(f"the configuration does not define the {what} of the model")
    return _renumbered(
        Graph(layers, inputs, outputs),
        any(isinstance(c, list) for r in config["layers"] for c in r.get("inbound_nodes", [])),
    )


def _renumbered(graph: Graph, old: bool) -> Graph:
    """Number the calls of nested models from 0.

    Most are numbered from 1, because a model is called once when it is created. ``old`` means that Keras 2 wrote the
    configuration, where this also applies to sequential models.
    """

    def counted(values: Any) -> Any:
        used: dict[str, set[int]] = {}
        for ref in filter(is_ref, flattened(values)):
            used.setdefault(ref.layer, set()).add(ref.call)
        late = set()
        for name, layer in graph.layers.items():
            found = used.get(name)
            if layer.graph is not None and found and 0 not in found:
                if max(found) >= len(layer.calls) or layer.kind != "Sequential" or old:
                    late.add(name)
        return mapped(values, lambda v: v._replace(call=v.call - 1) if is_ref(v) and v.layer in late else v)

    # Keras 3 can number the outputs of a model from 1 but the arguments of its calls from 0, so both are handled
    # separately.
    calls = counted([[[c.args, c.kwargs] for c in layer.calls] for layer in graph.layers.values()])
    for layer, found in zip(graph.layers.values(), calls):
        layer.calls = [Call(*pair) for pair in found]
    return graph._replace(outputs=counted(graph.outputs))


def _call(call: Any, names: set) -> Call:
    if isinstance(call, dict):
        args, kwargs = call.get("args", []), call.get("kwargs", {})
        if not isinstance(args, list) or not isinstance(kwargs, dict):
            raise TVMError("a call of a layer has no valid arguments")
        return Call([decoded(a) for a in args], {k: decoded(v) for k, v in kwargs.items()})
    if not isinstance(call, list) or not call:
        raise TVMError("a call of a layer must be a list or an object")
    if isinstance(call[0], str):
        call = [call]
    rows = [r for r in call if isinstance(r, list) and len(r) in (3, 4) and isinstance(r[0], str)]
    if len(rows) != len(call):
        raise TVMError("a call of a layer has an argument that is not the output of a layer")
    kwargs: dict[str, Any] = {}
    for row in rows:
        if len(row) == 4 and isinstance(row[3], dict):
            kwargs.update({k: mapped_refs(v, names) for k, v in row[3].items()})
    refs = [row[2] if row[0] == "_CONSTANT_VALUE" else _ref(row[:3]) for row in rows]
    return Call([refs[0] if len(refs) == 1 else refs], kwargs)


def _ref(row: list) -> Ref:
    name, call, index = row
    if not isinstance(name, str) or not all(isinstance(v, int) and 0 <= v < 1 << 31 for v in (call, index)):
        raise TVMError(f"{row!r} is not a valid reference to the output of a layer")
    return Ref(name, call, index)


def mapped_refs(value: Any, names: set) -> Any:
    """Return a structure in which outputs of layers, written as a name and two numbers, are replaced by a Ref."""
    if isinstance(value, list):
        if (
            len(value) == 3
            and isinstance(value[0], str)
            and value[0] in names
            and all(type(v) is int for v in value[1:])
        ):
            return _ref(value)
        return [mapped_refs(v, names) for v in value]
    if isinstance(value, dict):
        return {k: mapped_refs(v, names) for k, v in value.items()}
    return value


def decoded(value: Any) -> Any:
    """Decode an argument in the format of Keras 3."""
    if isinstance(value, list):
        return [decoded(v) for v in value]
    if not isinstance(value, dict):
        return value
    kind, config = value.get("class_name"), value.get("config")
    if kind is None:
        return {k: decoded(v) for k, v in value.items()}
    if kind == "__keras_tensor__" and isinstance(config, dict):
        history = config.get("keras_history")
        if not isinstance(history, list) or len(history) != 3:
            raise TVMError("a tensor of the configuration has no keras_history")
        return _ref(history)
    if kind == "__slice__" and isinstance(config, dict):
        return slice(*(config.get(k) for k in ("start", "stop", "step")))
    if kind == "__ellipsis__":
        return Ellipsis
    if kind in ("__tuple__", "__list__"):
        return [decoded(v) for v in config if isinstance(config, list)]
    if kind in ("__numpy__", "__tensor__") and isinstance(config, dict):
        return config.get("value")
    if kind in ("__lambda__", "__bytes__"):
        raise TVMError(
            f"an argument of a layer has the class {kind}, which is not supported: code in a model is never executed"
        )
    return value


__all__ = [
    "MODELS", "Call", "Graph", "Layer", "Ref", "flattened", "graph_of", "is_ref", "kind_of", "layer_of",
    "mapped",
]  # fmt: skip

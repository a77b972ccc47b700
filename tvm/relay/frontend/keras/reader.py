"""Import of Keras models: all layers are checked first, then converted call by call."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ....error import OpNotImplemented, TVMError, did_you_mean
from ....ir.module import IRModule
from ....ir.prim import Any_
from ... import op as relay
from ...expr import RelayExpr
from ..common.importer import GraphImporter, MissingShape, UnknownInput
from .config import Call, Graph, Layer, Ref, flattened, graph_of, is_ref, mapped
from .load import Saved, loaded
from .table import CONVERTERS, MASKED, Context, as_list, dtype_of
from .weights import complete

LAYOUTS = ("NCW", "NWC", "NCHW", "NHWC", "NCDHW", "NDHWC")
_MOST_CALLS = 1 << 16
# Arguments of calls that do not affect the output in inference mode.
_WITHOUT_EFFECT = ("training", "mask", "name", "return_attention_scores")


class Value(NamedTuple):
    """A tensor and the mask of its time steps; without a mask all steps are used."""

    expr: RelayExpr
    mask: RelayExpr | None = None


class Importer(GraphImporter):
    """Converts one model."""

    def __init__(self, graph: Graph, version: int, shapes: Mapping | None, layout: str):
        super().__init__()
        self.graph, self.version, self.layout = graph, version, layout
        self.shapes = dict(shapes or {})
        self.calls = 0
        self.moved = self.is_channels_last(graph) == (layout.index("C") == 1)

    def run(self) -> tuple[IRModule, dict[str, Any]]:
        self.check_layers()
        refs = flattened(self.graph.inputs)
        names = [r.layer for r in refs]
        self.check_names(names)
        given = [Value(self.input(self.input_layer(name))) for name in names]
        outputs = flattened(self.graph_values(self.graph, given))
        return self.finish([self.outward(v.expr) for v in outputs])

    # -- data layout ----------------------------------------------------------------------------------------------

    @staticmethod
    def is_channels_last(graph: Graph) -> bool:
        """Return whether images of the model are channels-last, which is the default of layers."""
        found, work = set(), list(graph.layers.values())
        while work:
            layer = work.pop()
            if "data_format" in layer.config:
                found.add(layer.config["data_format"])
            work += layer.inner.values()
            work += layer.graph.layers.values() if layer.graph is not None else ()
        return found != {"channels_first"}

    def inward(self, e: RelayExpr) -> RelayExpr:
        """Convert an input from the layout of the function to that of the model."""
        rank = len(self.layout)
        if not self.moved or len(self.typer.typed(e).checked_type.shape) != rank:
            return e
        last = (0, *range(2, rank), 1)
        first = (0, rank - 1, *range(1, rank - 1))
        return self.typer.infer(relay.transpose(e, last if self.layout.index("C") == 1 else first))

    def outward(self, e: RelayExpr) -> RelayExpr:
        """Convert an output from the layout of the model to that of the function."""
        rank = len(self.layout)
        if not self.moved or len(self.typer.typed(e).checked_type.shape) != rank:
            return e
        last = (0, *range(2, rank), 1)
        first = (0, rank - 1, *range(1, rank - 1))
        return self.typer.infer(relay.transpose(e, first if self.layout.index("C") == 1 else last))

    # -- inputs ---------------------------------------------------------------------------------------------------

    def check_names(self, names: list[str]) -> None:
        unknown = [n for n in self.shapes if n not in names]
        if unknown:
            raise UnknownInput(
                f"the model has no input '{unknown[0]}'; its inputs are {', '.join(sorted(names))}"
                + did_you_mean(str(unknown[0]), names, "; ")
            )
        if len(set(names)) < len(names):
            raise TVMError("two inputs of the model have the same name; names must be unique")

    def input_layer(self, name: str) -> Layer:
        found = self.graph.layers.get(name)
        if found is None or found.kind != "InputLayer":
            raise TVMError(f"the input '{name}' of the model is not an InputLayer")
        return found

    def input(self, layer: Layer) -> RelayExpr:
        if layer.get("sparse", False) or layer.get("ragged", False):
            raise TVMError(f"the input '{layer.name}' is sparse or ragged, which is not supported")
        dtype = layer.get("dtype", "float32")
        if dtype == "string":
            raise TVMError(f"the input '{layer.name}' is a string tensor, which is not supported")
        dims = self.input_sizes(layer)
        return self.inward(self.add_input(layer.name, dims, dtype_of(dtype)))

    def input_sizes(self, layer: Layer) -> list:
        own = layer.get("batch_shape") or layer.get("batch_input_shape")
        if own is None and layer.name not in self.shapes:
            raise MissingShape(f"the model declares no shape for its input '{layer.name}'", layer.name, "1, ...")
        if own is not None and not (isinstance(own, list) and all(d is None or type(d) is int and d >= 0 for d in own)):
            raise TVMError(f"the shape of the input '{layer.name}' must be a list of integers, got {own!r}")
        if layer.name in self.shapes:
            return self.given_sizes(layer.name, own)
        if None in own[1:]:
            sizes = ", ".join("..." if d is None else str(d) for d in (1, *own[1:]))
            raise MissingShape(f"the shape {own} of the input '{layer.name}' has dynamic dimensions", layer.name, sizes)
        sizes = [1 if d is None else d for d in own]
        if self.moved and len(sizes) == len(self.layout):
            front = self.layout.index("C") == 1
            sizes = [sizes[0], sizes[-1], *sizes[1:-1]] if front else [sizes[0], *sizes[2:], sizes[1]]
        return sizes

    def given_sizes(self, name: str, own: list | None) -> list:
        given = self.shapes[name]
        try:
            dims = [d if isinstance(d, Any_) else operator.index(d) for d in given]
        except TypeError as problem:
            raise TVMError(f"the shape of input '{name}' must be a list of integers, got {given!r}") from problem
        if any(isinstance(d, int) and d < 0 for d in dims):
            raise TVMError(f"the shape {dims} of input '{name}' has a negative dimension")
        if own is not None and len(own) != len(dims):
            raise TVMError(f"the shape of input '{name}' has {len(dims)} dimensions, but the model declares {len(own)}")
        return dims

    # -- layers ---------------------------------------------------------------------------------------------------

    def check_layers(self) -> None:
        """Report all layers without a converter in one error, before anything is converted."""
        rows: list[tuple[str, str, int, str]] = []
        work = list(reversed(self.graph.layers.values()))
        while work:
            layer = work.pop()
            if layer.graph is not None:
                work += reversed(layer.graph.layers.values())
            elif layer.kind != "InputLayer":
                rows.append((layer.kind, layer.name, 0, ""))
                work += reversed(layer.inner.values())
        try:
            CONVERTERS.check_all(rows)
        except OpNotImplemented as problem:
            words = str(problem).replace("operators", "layers").replace(" node", " layer")
            if any(row[0] == "Lambda" for row in rows):
                words += "\nA Lambda layer contains Python code, which is never executed; replace it by layers of Keras"
            raise OpNotImplemented(words) from None

    def graph_values(self, graph: Graph, given: list[Value]) -> Any:
        """Convert a model, calling each layer after the calls that it depends on; return its outputs, in their
        structure.
        """
        values: dict[Ref, Value] = {}
        refs = flattened(graph.inputs)
        if len(refs) != len(given):
            raise TVMError(f"the model has {len(refs)} inputs, but is called with {len(given)}")
        values.update(zip(refs, given))
        for layer, number, call in ordered(graph, set(refs)):
            if Ref(layer.name, number, 0) in values:
                continue
            args = [mapped(a, lambda v: values[v] if is_ref(v) else v) for a in call.args]
            kwargs = {k: mapped(a, lambda v: values[v] if is_ref(v) else v) for k, a in call.kwargs.items()}
            for index, value in enumerate(self.layer_values(layer, args, kwargs)):
                values[Ref(layer.name, number, index)] = value

        def found(ref):
            if ref not in values:
                raise TVMError(
                    f"an output of the model refers to output {ref.index} of call {ref.call} of '{ref.layer}', which "
                    "does not exist"
                )
            return values[ref]

        return mapped(graph.outputs, found)

    def layer_values(self, layer: Layer, args: list, kwargs: dict[str, Any]) -> list[Value]:
        """Convert one call of a layer and return its outputs."""
        self.calls += 1
        if self.calls > _MOST_CALLS:
            raise TVMError(f"the model has more than {_MOST_CALLS} calls of layers")
        where = f"{layer.kind} '{layer.name}'"
        with self.at_node(where, layer.name, lambda problem: in_words(layer, problem)):
            if layer.graph is not None:
                return flattened(self.graph_values(layer.graph, flattened(args)))
            masks: dict[int | str, Any] = {i: mapped(a, mask_of) for i, a in enumerate(args)}
            masks.update({k: mapped(a, mask_of) for k, a in kwargs.items()})
            explicit = kwargs.get("mask")
            masks["mask"] = None if explicit is None else mapped(explicit, expr_of)
            results, mask = self.called(
                layer, mapped(args, expr_of), {k: mapped(v, expr_of) for k, v in kwargs.items()}, masks
            )
            masks_out = mask if isinstance(mask, list) else [mask] * len(as_list(results))
            return [Value(e, m) for e, m in zip(as_list(results), masks_out)]

    def called(self, layer: Layer, args: list, kwargs: dict[str, Any], masks: dict[int | str, Any]) -> tuple[Any, Any]:
        """Convert a call of a layer with expressions as arguments; return the outputs and their mask."""
        if layer.graph is not None:
            found = flattened(self.graph_values(layer.graph, [Value(a) for a in flattened(args)]))
            return [v.expr for v in found] if len(found) > 1 else found[0].expr, None
        context = Context(self, layer, f"{layer.kind} '{layer.name}'", masks)
        convert = CONVERTERS.find(layer.kind, 0)
        if convert is None:
            raise TVMError(f"{layer.kind} is not supported")
        # Keras 3 passes ``training`` to every layer, regardless of the recorded call.
        if kwargs.get("training") is True and self.version < 3:
            raise TVMError("the layer is called with training=True, which is not supported")
        given = self.settings(layer, convert, args, kwargs)
        got = convert(context, *self.autocast(context, args), **given)
        results = [self.typer.infer(e) for e in as_list(got)]
        mask = context.result_mask
        if mask is None and layer.kind in MASKED:
            mask = context.mask
            mask = mask[0] if isinstance(mask, list) and len(mask) == 1 else None if isinstance(mask, list) else mask
        return results if isinstance(got, (list, tuple)) else results[0], mask

    def settings(self, layer: Layer, convert, args: list, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments of a converter: those of the call, and the settings of an operation.

        Arguments that the converter does not have are rejected.
        """
        taken = inspect.signature(convert).parameters
        given = dict(kwargs)
        if layer.kind.startswith("ops."):
            positional = [n for n, p in taken.items() if n != "ctx" and p.kind is p.POSITIONAL_OR_KEYWORD][: len(args)]
            own = {k: v for k, v in layer.config.items() if k in taken and k not in positional}
            given = {**own, **given}
        if any(p.kind is p.VAR_KEYWORD for p in taken.values()):
            return given
        for key in [k for k in given if k not in taken]:
            value = given.pop(key)
            if value is not None and value is not False and key not in _WITHOUT_EFFECT:
                raise TVMError(f"argument {key}={value!r} is not supported")
        return given

    def autocast(self, ctx: Context, args: list) -> list:
        """Cast float arguments of a layer to the type that the layer computes in."""
        if ctx.layer.kind.startswith("ops.") or ctx.layer.kind in ("Embedding", "Activation"):
            return args
        dtype = ctx.compute_dtype
        if not dtype.startswith(("float", "bfloat")):
            return args

        def cast(e):
            return ctx.cast(e, dtype) if isinstance(e, RelayExpr) and ctx.is_float(e) else e

        return [mapped(a, cast) for a in args]


def expr_of(value: Any) -> Any:
    return value.expr if isinstance(value, Value) else value


def mask_of(value: Any) -> Any:
    return value.mask if isinstance(value, Value) else None


def ordered(graph: Graph, known: set[Ref]) -> list[tuple[Layer, int, Call]]:
    """Return the calls that the outputs need, each after the calls that it depends on."""
    calls = {(name, i): (layer, i, c) for name, layer in graph.layers.items() for i, c in enumerate(layer.calls)}
    needs = {}
    for key, (layer, number, call) in calls.items():
        if Ref(layer.name, number, 0) in known or layer.kind == "InputLayer":
            needs[key] = set()
            continue
        refs = [r for r in flattened([call.args, call.kwargs]) if is_ref(r)]
        for ref in refs:
            if (ref.layer, ref.call) not in calls:
                raise TVMError(
                    f"'{layer.name}' refers to output {ref.index} of call {ref.call} of '{ref.layer}', which does "
                    "not exist"
                )
        needs[key] = {(r.layer, r.call) for r in refs}
    out, state = [], {}
    for root in flattened(graph.outputs):
        work = [((root.layer, root.call), False)]
        while work:
            key, ready = work.pop()
            if key not in calls:
                raise TVMError(f"an output of the model refers to a call of '{key[0]}', which does not exist")
            if ready:
                state[key] = "done"
                out.append(calls[key])
            elif key not in state:
                state[key] = "open"
                work.append((key, True))
                work += [(k, False) for k in sorted(needs[key], reverse=True) if state.get(k) != "done"]
            elif state[key] == "open":
                raise TVMError(f"the layer '{key[0]}' depends on its own output")
    return [row for row in out if row[0].kind != "InputLayer"]


def in_words(layer: Layer, problem: Exception) -> str:
    """Return a message for an error in a converter."""
    if isinstance(problem, MemoryError):
        return "not enough memory"
    if isinstance(problem, RecursionError):
        return "its settings are nested too deeply"
    shown = ", ".join(f"{k}={v!r}" for k, v in layer.config.items() if isinstance(v, (int, float, str, list)))[:400]
    return f"with the settings ({shown}): {problem or type(problem).__name__}"


def settled(graph: Graph) -> None:
    """Correct the class of layers in HDF5 files that look like operations but have a converter only as layers."""
    work = list(graph.layers.values())
    while work:
        layer = work.pop()
        plain = layer.kind.removeprefix("ops.")
        if plain != layer.kind and CONVERTERS.find(layer.kind, 0) is None and CONVERTERS.find(plain, 0) is not None:
            layer.kind = plain
        work += layer.graph.layers.values() if layer.graph is not None else layer.inner.values()


def imported(saved: Saved, shape: Mapping | None, layout: str) -> tuple[IRModule, dict[str, Any]]:
    with malformed_as_error():
        graph = graph_of(saved.config)
        settled(graph)
        for layer in graph.layers.values():
            complete(layer)
        importer = Importer(graph, saved.version, shape, layout)
        importer.check_layers()
        saved.weights.attach(graph)
        return importer.run()


@contextmanager
def malformed_as_error() -> Iterator[None]:
    """Convert any exception that a malformed configuration causes to an error about the configuration."""
    try:
        yield
    except TVMError:
        raise
    except Exception as problem:
        words = "nested too deeply" if isinstance(problem, RecursionError) else problem or type(problem).__name__
        raise TVMError(f"the configuration of the model is damaged: {words}") from problem


def from_keras(model, shape=None, layout="NCHW") -> tuple[IRModule, dict[str, Any]]:
    """Convert a Keras model to a module and its parameters.

    Weights become constants, so there are no parameters. Models of Keras 2 and 3 are imported through their
    configuration, from a live model or from a file; no code of a model is executed. A dynamic batch dimension becomes 1
    unless ``shape`` fixes it; other dynamic dimensions must be fixed by ``shape``. States of recurrent layers are zero
    at the start of a run.

    Parameters
    ----------
    model : keras.Model, str, os.PathLike or bytes
        The model: a live model, the path of a file (HDF5 or .keras), or the bytes of a file.
    shape : dict of str to tuple, optional
        Shapes of inputs by name, in ``layout``.
    layout : str, optional
        The layout of inputs and outputs of the function that have the same number of dimensions: NCHW (the default),
        NHWC, NCDHW, NDHWC, NCW or NWC. Others keep the layout of the model.

    Returns
    -------
    tuple[IRModule, dict[str, Any]]
        The module, and an empty dictionary of parameters.

    Raises
    ------
    TypeError
        ``model`` is none of these, or ``shape`` is not a dictionary.
    ValueError
        ``layout`` is none of these.
    TVMError
        The file is damaged, or a layer cannot be converted.
    OpNotImplemented
        The model contains layers without a converter; the message lists all of them.
    """
    if shape is not None and not isinstance(shape, Mapping):
        raise TypeError(
            f"from_keras: shape must be a dictionary from input names to shapes, got {type(shape).__name__}"
        )
    if layout not in LAYOUTS:
        raise ValueError(f"from_keras: layout must be one of {', '.join(LAYOUTS)}, got {layout!r}")
    with np.errstate(all="ignore"):
        return imported(loaded(model), shape, layout)


__all__ = ["LAYOUTS", "Importer", "Value", "from_keras", "imported"]

"""From a Keras model to a module: all layers are looked up first, then converted call by call."""

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
# Arguments of calls that say nothing about the result when a model is not trained.
_WITHOUT_EFFECT = ("training", "mask", "name", "return_attention_scores")


class Value(NamedTuple):
    """A tensor, and which of its steps count; without a mask all do."""

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

    # -- the layout -----------------------------------------------------------------------------------------------

    @staticmethod
    def is_channels_last(graph: Graph) -> bool:
        """Whether images of the model have their channels last, which is so if no layer says otherwise."""
        found, work = set(), list(graph.layers.values())
        while work:
            layer = work.pop()
            if "data_format" in layer.config:
                found.add(layer.config["data_format"])
            work += layer.inner.values()
            work += layer.graph.layers.values() if layer.graph is not None else ()
        return found != {"channels_first"}

    def inward(self, e: RelayExpr) -> RelayExpr:
        """An input in the order of axes that the model has."""
        rank = len(self.layout)
        if not self.moved or len(self.typer.typed(e).checked_type.shape) != rank:
            return e
        last = (0, *range(2, rank), 1)
        first = (0, rank - 1, *range(1, rank - 1))
        return self.typer.infer(relay.transpose(e, last if self.layout.index("C") == 1 else first))

    def outward(self, e: RelayExpr) -> RelayExpr:
        """An output in the layout of the function."""
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
            raise TVMError("two inputs of the model have one name")

    def input_layer(self, name: str) -> Layer:
        found = self.graph.layers.get(name)
        if found is None or found.kind != "InputLayer":
            raise TVMError(f"the input '{name}' of the model is no InputLayer")
        return found

    def input(self, layer: Layer) -> RelayExpr:
        if layer.get("sparse", False) or layer.get("ragged", False):
            raise TVMError(f"the input '{layer.name}' is sparse or ragged, which is not supported")
        dtype = layer.get("dtype", "float32")
        if dtype == "string":
            raise TVMError(f"the input '{layer.name}' is of strings, which are not supported")
        dims = self.input_sizes(layer)
        return self.inward(self.add_input(layer.name, dims, dtype_of(dtype)))

    def input_sizes(self, layer: Layer) -> list:
        own = layer.get("batch_shape") or layer.get("batch_input_shape")
        if own is None and layer.name not in self.shapes:
            raise MissingShape(f"the model does not say the shape of its input '{layer.name}'", layer.name, "1, ...")
        if own is not None and not (isinstance(own, list) and all(d is None or type(d) is int and d >= 0 for d in own)):
            raise TVMError(f"the shape {own!r} of the input '{layer.name}' is no list of sizes")
        if layer.name in self.shapes:
            return self.given_sizes(layer.name, own)
        if None in own[1:]:
            sizes = ", ".join("..." if d is None else str(d) for d in (1, *own[1:]))
            raise MissingShape(f"the model does not fix the sizes {own} of its input '{layer.name}'", layer.name, sizes)
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
            raise TVMError(f"shape of input '{name}': a list of numbers is wanted, got {given!r}") from problem
        if any(isinstance(d, int) and d < 0 for d in dims):
            raise TVMError(f"shape of input '{name}': {dims} has a negative size")
        if own is not None and len(own) != len(dims):
            raise TVMError(f"shape of input '{name}': {len(dims)} dimensions are given, the model has {len(own)}")
        return dims

    # -- layers ---------------------------------------------------------------------------------------------------

    def check_layers(self) -> None:
        """Every layer without a converter is named in one error, before anything is converted."""
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
                words += "\nA Lambda layer holds Python code, which is never executed: write it with layers of Keras"
            raise OpNotImplemented(words) from None

    def graph_values(self, graph: Graph, given: list[Value]) -> Any:
        """The outputs of a model, in their structure. Calls wait until their arguments are there."""
        values: dict[Ref, Value] = {}
        refs = flattened(graph.inputs)
        if len(refs) != len(given):
            raise TVMError(f"{len(refs)} inputs are wanted, got {len(given)}")
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
                    f"an output of the model is result {ref.index} of call {ref.call} of '{ref.layer}', which "
                    "there is not"
                )
            return values[ref]

        return mapped(graph.outputs, found)

    def layer_values(self, layer: Layer, args: list, kwargs: dict[str, Any]) -> list[Value]:
        """The results of one call of a layer."""
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
        """What a layer makes of expressions, and the mask of it."""
        if layer.graph is not None:
            found = flattened(self.graph_values(layer.graph, [Value(a) for a in flattened(args)]))
            return [v.expr for v in found] if len(found) > 1 else found[0].expr, None
        context = Context(self, layer, f"{layer.kind} '{layer.name}'", masks)
        convert = CONVERTERS.find(layer.kind, 0)
        if convert is None:
            raise TVMError(f"{layer.kind} is not supported")
        # Keras 3 hands what a run is for to every layer, whatever the call of the layer says.
        if kwargs.get("training") is True and self.version < 3:
            raise TVMError("the layer is called with training=True, which draws random numbers")
        given = self.settings(layer, convert, args, kwargs)
        got = convert(context, *self.autocast(context, args), **given)
        results = [self.typer.infer(e) for e in as_list(got)]
        mask = context.result_mask
        if mask is None and layer.kind in MASKED:
            mask = context.mask
            mask = mask[0] if isinstance(mask, list) and len(mask) == 1 else None if isinstance(mask, list) else mask
        return results if isinstance(got, (list, tuple)) else results[0], mask

    def settings(self, layer: Layer, convert, args: list, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The keywords of a converter: those of the call, and the settings of an operation. What the converter does not
        take is refused."""
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
                raise TVMError(f"the argument {key}={value!r} is not supported")
        return given

    def autocast(self, ctx: Context, args: list) -> list:
        """Arguments of layers are brought to the type that the layer computes in, if they are real numbers."""
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
    """The calls of a graph, each after those whose results it takes; those that no output needs are left out."""
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
                    f"'{layer.name}' takes result {ref.index} of call {ref.call} of '{ref.layer}', which there is not"
                )
        needs[key] = {(r.layer, r.call) for r in refs}
    out, state = [], {}
    for root in flattened(graph.outputs):
        work = [((root.layer, root.call), False)]
        while work:
            key, ready = work.pop()
            if key not in calls:
                raise TVMError(f"an output of the model is a call of '{key[0]}', which there is not")
            if ready:
                state[key] = "done"
                out.append(calls[key])
            elif key not in state:
                state[key] = "open"
                work.append((key, True))
                work += [(k, False) for k in sorted(needs[key], reverse=True) if state.get(k) != "done"]
            elif state[key] == "open":
                raise TVMError(f"the layer '{key[0]}' depends on its own result")
    return [row for row in out if row[0].kind != "InputLayer"]


def in_words(layer: Layer, problem: Exception) -> str:
    """What went wrong in a converter, for the user."""
    if isinstance(problem, MemoryError):
        return "there is not enough memory for this"
    if isinstance(problem, RecursionError):
        return "its settings are nested too deeply"
    shown = ", ".join(f"{k}={v!r}" for k, v in layer.config.items() if isinstance(v, (int, float, str, list)))[:400]
    return f"with the settings ({shown}): {problem or type(problem).__name__}"


def settled(graph: Graph) -> None:
    """In HDF5 files some layers look like operations; they are those that only layers have converters for."""
    work = list(graph.layers.values())
    while work:
        layer = work.pop()
        plain = layer.kind.removeprefix("ops.")
        if plain != layer.kind and CONVERTERS.find(layer.kind, 0) is None and CONVERTERS.find(plain, 0) is not None:
            layer.kind = plain
        work += layer.graph.layers.values() if layer.graph is not None else layer.inner.values()


def imported(saved: Saved, shape: Mapping | None, layout: str) -> tuple[IRModule, dict[str, Any]]:
    with read_with_care():
        graph = graph_of(saved.config)
        settled(graph)
        for layer in graph.layers.values():
            complete(layer)
        importer = Importer(graph, saved.version, shape, layout)
        importer.check_layers()
        saved.weights.attach(graph)
        return importer.run()


@contextmanager
def read_with_care() -> Iterator[None]:
    """A configuration may have anything anywhere; what breaks on it is said to be its fault."""
    try:
        yield
    except TVMError:
        raise
    except Exception as problem:
        words = "nested too deeply" if isinstance(problem, RecursionError) else problem or type(problem).__name__
        raise TVMError(f"the configuration of the model is damaged: {words}") from problem


def from_keras(model, shape=None, layout="NCHW") -> tuple[IRModule, dict[str, Any]]:
    """A Keras model as a module and its parameters. Weights become constants, so that there are no parameters.

    Models of Keras 2 and 3 are read through their configuration, from a live model or from a file alone; no code of a
    model is executed. A batch that the model leaves open is 1 unless ``shape`` says otherwise; other open sizes must be
    given. States of recurrent layers are zero when a run begins.

    Parameters
    ----------
    model : keras.Model, str, os.PathLike or bytes
        The model: a live one, the path of a file (HDF5 or .keras), or the bytes of one.
    shape : dict of str to tuple, optional
        Shapes of inputs by name, in ``layout``.
    layout : str, optional
        The layout of those inputs and outputs of the function that have as many dimensions: NCHW (the default), NHWC,
        NCDHW, NDHWC, NCW or NWC. Others are as in the model.

    Returns
    -------
    tuple[IRModule, dict[str, Any]]

    Raises
    ------
    TypeError
        ``model`` is none of these, or ``shape`` is no dictionary.
    ValueError
        ``layout`` is none of these.
    TVMError
        The file is damaged, or a layer cannot be converted.
    OpNotImplemented
        For layers without a converter; all of them are named.
    """
    if shape is not None and not isinstance(shape, Mapping):
        raise TypeError(f"from_keras: shape is a dictionary by input, got {type(shape).__name__}")
    if layout not in LAYOUTS:
        raise ValueError(f"from_keras: layout is one of {', '.join(LAYOUTS)}, got {layout!r}")
    with np.errstate(all="ignore"):
        return imported(loaded(model), shape, layout)


__all__ = ["LAYOUTS", "Importer", "Value", "from_keras", "imported"]

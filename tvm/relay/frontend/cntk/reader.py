"""Convert a CNTK model to a module.

Operators are converted after their inputs; recurrences are unrolled over the steps.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from ....dtype import canonical
from ....error import TVMError, did_you_mean
from ....ir.module import IRModule
from ....ir.prim import Any_
from ....ir.visit import components
from ... import op as relay
from ...expr import RelayExpr, const
from ..common.context import check_steps
from ..common.importer import GraphImporter, MissingShape, UnknownInput
from .load import FREE, INFERRED, Model, Node, Variable, load
from .sequence_ops import offset_of
from .table import CONVERTERS, Context, Tensor

DELAYS = ("PastValue", "FutureValue")
# The maximum number of converted operators, counting each unrolled step.
_MAX_NODES = 1 << 17


class Importer(GraphImporter):
    """Converts one model to a module."""

    def __init__(self, model: Model, shapes: Mapping | None, dtypes):
        super().__init__(freeze=False)
        self.model = model
        self.shapes = dict(shapes or {})
        self.dtypes = dtypes
        self.config: dict[str, Any] = {}
        self.values: dict[str, Tensor] = {}
        self.converted = 0

    def run(self, outputs) -> tuple[IRModule, dict[str, Any]]:
        wanted = self.outputs(outputs)
        order = components([self.producer(k, "the outputs") for k in wanted], self.needs)
        nodes = [self.model.nodes[k] for group in order for k in group if k in self.model.nodes]
        CONVERTERS.check_all([(n.op, n.name or n.key, 0, "") for n in nodes], lambda name, *rest: name == "Block")
        self.add_variables([k for group in order for k in group])
        for group in order:
            self.convert_group(group)
        return self.finish([self.value_of(k, "the outputs").expr for k in wanted])

    # -- graph lookup ---------------------------------------------------------------------------------------------

    def resolved(self, key: str) -> str:
        """Replace placeholders of blocks by the keys of their arguments."""
        seen = 0
        while key in self.model.aliases:
            key, seen = self.model.aliases[key], seen + 1
            if seen > len(self.model.aliases):
                raise TVMError(f"the block around '{key}' contains itself")
        return key

    def producer(self, key: str, where: str) -> str:
        """Return the key of the variable or operator that produces a value."""
        key = self.resolved(key)
        if key in self.model.variables:
            return key
        if key not in self.model.results:
            raise TVMError(f"'{key}', an input of {where}, is not produced by any operator")
        return self.model.results[key][0]

    def needs(self, key: str) -> list[str]:
        """Return the keys of the variables and operators that an operator depends on."""
        node = self.model.nodes.get(key)
        return [] if node is None else [self.producer(i, node.where) for i in node.inputs]

    def outputs(self, given) -> list[str]:
        """Return the keys of the outputs with the given names, or of the model's own outputs."""
        if not given:
            return [self.producer_key(k) for k in self.model.outputs]
        names = [given] if isinstance(given, str) else list(given)
        known = {
            n.name or n.key: f"{k}_Output_0" if f"{k}_Output_0" in self.model.results else k
            for k, n in self.model.nodes.items()
        }
        for name in names:
            if name not in known:
                raise TVMError(f"the model has no output '{name}'" + did_you_mean(name, known, "; "))
        return [self.producer_key(known[n]) for n in names]

    def producer_key(self, key: str) -> str:
        """Resolve the key of an output and check that its operator exists."""
        self.producer(key, "the outputs")
        return self.resolved(key)

    # -- variables ------------------------------------------------------------------------------------------------

    def add_variables(self, keys: list[str]) -> None:
        used = set(keys)
        inputs = {k: v for k, v in self.model.variables.items() if v.value is None and k in used}
        known = [v.name for v in inputs.values()]
        unknown = [n for n in self.shapes if n not in known]
        if unknown:
            raise UnknownInput(
                f"the model has no input '{unknown[0]}'; its inputs are {', '.join(known)}"
                + did_you_mean(unknown[0], known, "; ")
            )
        for key, variable in self.model.variables.items():
            if key in inputs:
                self.values[key] = self.input(variable)
            elif key in used:
                self.weight(key, np.asarray(variable.value))
                self.values[key] = Tensor(self.scopes[-1][key], 0)

    def input(self, variable: Variable) -> Tensor:
        static = [None if d in (FREE, INFERRED) else d for d in reversed(variable.shape)]
        dims: list = [1, None][: variable.dynamic] + static
        if variable.dynamic > 2:
            raise TVMError(
                f"input '{variable.name}' has {variable.dynamic} dynamic axes; at most 2 (batch and "
                "sequence) are supported"
            )
        if variable.name in self.shapes:
            dims = self.given(variable.name, dims)
        if None in dims:
            more = ", including its sequence length" if variable.dynamic == 2 else ""
            name = variable.name
            raise MissingShape(f"the model does not specify all dimensions of input '{name}': {dims}{more}", name)
        dtype = self.dtypes.get(variable.name) if isinstance(self.dtypes, Mapping) else self.dtypes
        made: RelayExpr = self.add_input(variable.name, dims, canonical(str(dtype or variable.dtype)))
        if dtype and canonical(str(dtype)) != variable.dtype:
            made = self.typer.infer(relay.cast(made, variable.dtype))
        return Tensor(made, variable.dynamic)

    def given(self, name: str, own: list) -> list:
        shape = self.shapes[name]
        try:
            dims = [d if isinstance(d, Any_) else operator.index(d) for d in shape]
        except TypeError as problem:
            raise TVMError(f"shape of input '{name}': expected a list of integers, got {shape!r}") from problem
        if len(dims) != len(own):
            raise TVMError(f"shape of input '{name}': got {len(dims)} dimensions, but the model has {len(own)}")
        if any(isinstance(d, int) and d < 1 for d in dims):
            raise TVMError(f"shape of input '{name}': {dims} has a dimension that is not positive")
        return dims

    # -- operators ------------------------------------------------------------------------------------------------

    def value_of(self, key: str, where: str) -> Tensor:
        key = self.resolved(key)
        if key not in self.values:
            raise TVMError(f"'{key}', an input of {where}, is not produced by any operator")
        return self.values[key]

    def convert_group(self, group: list[str]) -> None:
        first = self.model.nodes.get(group[0])
        if first is None:
            return
        if len(group) == 1 and group[0] not in self.needs(group[0]):
            for key, value in self.results(first, [self.value_of(i, first.where) for i in first.inputs]):
                self.values[key] = value
        else:
            Recurrence(self, group).convert()

    def results(self, node: Node, inputs: list[Tensor]) -> list[tuple[str, Tensor]]:
        """Convert an operator. Return its outputs with their keys."""
        self.converted += 1
        if self.converted > _MAX_NODES:
            raise TVMError(f"the model has more than {_MAX_NODES} operators with its recurrences unrolled")
        with self.at_node(node.where, node.name or node.key, partial(_in_words, node)):
            converter = CONVERTERS.find(node.op, 0)
            if converter is None:
                raise TVMError("the operator is not supported in this position")
            got = converter(Context(self, node), inputs, node.attrs)
            found = got if isinstance(got, list) else [got]
            made = [Tensor(self.typer.infer(t.expr), t.lead) for t in found]
        keys = [k for k in (f"{node.key}_Output_{i}" for i in range(len(made))) if k in self.model.results]
        return list(zip(keys or [node.key], made))


class Recurrence:
    """A cycle of operators that read their own outputs of earlier or later steps."""

    def __init__(self, importer: Importer, keys: list[str]):
        self.importer = importer
        self.nodes = {k: importer.model.nodes[k] for k in keys if k in importer.model.nodes}
        self.delays = [n for n in self.nodes.values() if n.op in DELAYS]
        where = next(iter(self.nodes.values())).where
        if len({n.op for n in self.delays}) != 1:
            raise TVMError(f"{where}: the graph has a cycle without a delay, or a cycle with delays in both directions")
        self.past = self.delays[0].op == "PastValue"
        self.where = where
        self.outer: dict[tuple[str, int], Tensor] = {}
        self.steps: list[dict[str, Tensor]] = []
        # The initial value of each delay; its shape is known after the first step is converted.
        self.shapes: dict[str, tuple[int, ...]] = {}

    def convert(self) -> None:
        importer = self.importer
        order = self.order()
        self.ctx = Context(importer, self.delays[0])
        batch, length = self.extent()
        check_steps("a sequence", length)
        self.steps = [{} for _ in range(length)]
        walk = range(length) if self.past else range(length - 1, -1, -1)
        # Convert the first step with scalars as unknown initial states, to infer the shapes of the states.
        self.step(order, walk[0], batch)
        for node in self.delays:
            source = self.value(node.inputs[0], walk[0])
            self.shapes[node.key] = self.ctx.sizes(source)
        self.steps[walk[0]] = {}
        for t in walk:
            self.step(order, t, batch)
        for key in self.steps[0]:
            parts = [importer.typer.infer(self.whole(s[key], batch)) for s in self.steps]
            importer.values[key] = Tensor(importer.typer.infer(relay.stack(parts, 1)), 2)

    def whole(self, t: Tensor, batch: int) -> RelayExpr:
        """Return the value of one step with its batch axis."""
        return t.expr if t.lead else relay.broadcast_to(t.expr, (batch, *self.ctx.sizes(t)))

    def order(self) -> list[Node]:
        """Return the operators of a step in dependency order."""

        def needs(key: str) -> list[str]:
            node = self.nodes.get(key)
            if node is None or node.op in DELAYS:
                return []
            return [k for k in self.importer.needs(key) if k in self.nodes]

        found = components(list(self.nodes), needs)
        if any(len(group) > 1 for group in found):
            raise TVMError(f"{self.where}: the graph has a cycle without a delay")
        return [self.nodes[k] for group in found for k in group]

    def extent(self) -> tuple[int, int]:
        """Return the batch size and the sequence length, taken from the inputs of the cycle."""
        for node in self.nodes.values():
            for key in node.inputs:
                found = self.importer.values.get(self.importer.resolved(key))
                if found is not None and found.lead == 2:
                    return self.ctx.known_size(found.expr, 0), self.ctx.known_size(found.expr, 1)
        raise TVMError(f"{self.where}: a recurrence without a sequence as input is not supported")

    def value(self, key: str, t: int) -> Tensor:
        """Return the value of a key at a step."""
        key = self.importer.resolved(key)
        if key in self.steps[t]:
            return self.steps[t][key]
        outside = self.importer.value_of(key, self.where)
        if outside.lead != 2:
            return outside
        if (key, t) not in self.outer:
            part = relay.squeeze(relay.strided_slice(outside.expr, [t], [t + 1], [1], [1]), [1])
            self.outer[key, t] = Tensor(self.importer.typer.infer(part), 1)
        return self.outer[key, t]

    def step(self, order: list[Node], t: int, batch: int) -> None:
        for node in order:
            if node.op in DELAYS:
                key = f"{node.key}_Output_0"
                key = key if key in self.importer.model.results else node.key
                self.steps[t][key] = self.delayed(node, t, batch)
                continue
            inputs = [self.value(i, t) for i in node.inputs]
            self.steps[t].update(self.importer.results(node, inputs))

    def delayed(self, node: Node, t: int, batch: int) -> Tensor:
        at = t - offset_of(node.attrs) if self.past else t + offset_of(node.attrs)
        if 0 <= at < len(self.steps) and self.steps[at]:
            return self.value(node.inputs[0], at)
        if len(node.inputs) > 1:
            first = self.value(node.inputs[1], t)
        else:
            first = Tensor(const(float(node.attrs.get("initial", 0.0)), node.attrs["dtype"]), 0)
        shape = self.shapes.get(node.key)
        if shape is None:
            return first
        e = relay.broadcast_to(first.expr, (batch, *shape))
        return Tensor(self.importer.typer.infer(e), 1)


def _in_words(node: Node, problem: Exception) -> str:
    shown = ", ".join(f"{k}={v!r}"[:60] for k, v in sorted(node.attrs.items()))
    return f"with {len(node.inputs)} inputs and attributes ({shown}): {str(problem) or type(problem).__name__}"


def from_cntk(model, shape=None, dtype=None, outputs=None) -> tuple[IRModule, dict[str, Any]]:
    """Import a CNTK model as a module and its parameters. Both formats are supported: CNTK 2, and the older binary
    format (``.dnn``, ``.cmf``). CNTK itself is not needed.

    Tensors have the axis order of the CNTK Python API: the batch, the sequence if there is one, then the axes of a
    sample, channels first for images. All sequences have the same fixed length, given in ``shape``; recurrences are
    unrolled.

    Parameters
    ----------
    model : str or bytes
        The path of a model file, or its bytes.
    shape : dict of str to tuple, optional
        Input shapes by name, including the batch and the sequence. The default batch size is 1.
    dtype : str or dict of str to str, optional
        The element type of all inputs, or a dictionary by input name; the default is that of the model.
    outputs : list of str, optional
        Names of the operators to use as outputs; the default is the model's outputs.

    Returns
    -------
    tuple[IRModule, dict[str, Any]]
        The module and its parameters.

    Raises
    ------
    TypeError
        ``model`` has another type, or ``shape`` is not a dictionary.
    TVMError
        The file is corrupt, an operator cannot be converted, or an argument is wrong.
    OpNotImplemented
        The model has operators without a converter; the message lists all of them.
    """
    if shape is not None and not isinstance(shape, Mapping):
        raise TypeError(f"from_cntk: shape must be a dictionary by input name, got {type(shape).__name__}")
    with np.errstate(all="ignore"):
        return Importer(load(model), shape, dtype).run(outputs)


__all__ = ["Importer", "from_cntk"]

"""From the two nets of a Caffe2 model to a module: the first makes the weights, the second computes with them.

Operators run in the order of the file and may write a blob again, so that a name means what was written last.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import numpy as np

from ....dtype import canonical
from ....error import TVMError, did_you_mean
from ....ir.module import IRModule
from ....ir.prim import Any_
from ...expr import Constant, RelayExpr, TupleWrapper
from ..common.importer import GraphImporter, MissingShape, UnknownInput
from .load import Net, Operator, load
from .table import CONVERTERS, Context

# Operators of a model, with the steps of recurrent networks written out.
_MOST_OPERATORS = 131_072


def _with_steps(operators: list[Operator]) -> list[Operator]:
    """Operators with those of the nets that are steps of recurrent ones."""
    out = []
    for each in operators:
        out.append(each)
        inner = each.args.get("step_net")
        out += _with_steps(inner.operators) if isinstance(inner, Net) else []
    return out


class Importer(GraphImporter):
    """Converts one model."""

    def __init__(self, init: Net, predict: Net, shapes: Mapping | None, dtypes):
        super().__init__(freeze=False)
        self.init, self.predict = init, predict
        self.shapes = dict(shapes or {})
        self.is_asked = shapes is None
        self.dtypes = dtypes
        self.config: dict[str, Any] = {}
        self.converted = 0
        # Scale and zero point of blobs of bytes.
        self.scales: dict[str, tuple[float, int]] = {}
        # Which rows of a blob of regions are real, where there may be fewer than the blob has.
        self.real: dict[str, RelayExpr] = {}

    def run(self) -> tuple[IRModule, dict[str, Any]]:
        every = _with_steps([*self.init.operators, *self.predict.operators])
        CONVERTERS.check_all([(o.type, o.outputs[0] if o.outputs else o.name, 0, "") for o in every])
        with self.inner_scope():
            for each in self.init.operators:
                self.convert(each)
            filled = dict(self.scopes[-1])
        self.add_inputs(filled)
        for each in self.predict.operators:
            self.convert(each)
        names = self.predict.outputs or self.last_blobs()
        found = [self.value(name, "the outputs of predict_net") for name in names]
        return self.finish(found)

    def last_blobs(self) -> list[str]:
        """What nothing reads, for a net that names no outputs."""
        read = {name for o in self.predict.operators for name in o.inputs}
        made = dict.fromkeys(name for o in self.predict.operators for name in o.outputs)
        last = [name for name in made if name not in read]
        if not last:
            raise TVMError("predict_net names no external_output, and every blob is read")
        return last

    # -- inputs ---------------------------------------------------------------------------------------------------

    def outside(self) -> list[str]:
        """The blobs that predict_net reads and does not make, in its own order."""
        made: set[str] = set()
        used: dict[str, None] = {}
        for each in self.predict.operators:
            used.update(dict.fromkeys(name for name in each.inputs if name not in made))
            made.update(each.outputs)
        listed = [name for name in self.predict.inputs if name in used]
        return [*listed, *(name for name in used if name not in listed)]

    def add_inputs(self, filled: dict[str, RelayExpr]) -> None:
        outside = self.outside()
        chosen = [name for name in outside if name not in filled or name in self.shapes]
        if not chosen and self.is_asked and outside and outside[0] in self.predict.inputs[:1]:
            # A net that was exported with a sample of its input has it among the weights, first.
            chosen = outside[:1]
        unknown = [name for name in self.shapes if name not in chosen]
        if unknown:
            raise UnknownInput(f"the model has no input '{unknown[0]}'; its inputs are {', '.join(chosen)}"
                               + did_you_mean(unknown[0], chosen, "; "))
        for name in chosen:
            self.scopes[-1][name] = self.input(name, filled.get(name))
        for name in outside:
            if name in chosen:
                continue
            value = filled[name]
            if isinstance(value, Constant):
                self.weight(name, value.data.numpy())
            else:
                self.scopes[-1][name] = value

    def input(self, name: str, sample: RelayExpr | None) -> RelayExpr:
        kept = None if sample is None else self.typer.typed(sample).checked_type_
        if name in self.shapes:
            given = self.shapes[name]
            try:
                dims = [d if isinstance(d, Any_) else operator.index(d) for d in given]
            except TypeError as problem:
                raise TVMError(f"shape of input '{name}': a list of numbers is wanted, got {given!r}") from problem
        elif kept is not None and not self.is_placeholder(name, list(kept.shape)):
            dims = list(kept.shape)
        else:
            raise MissingShape(f"the model does not say the shape of input '{name}'", name)
        if any(isinstance(d, int) and d < 0 for d in dims):
            raise TVMError(f"shape of input '{name}': {dims} has a negative size")
        dtype = self.dtypes.get(name, "float32") if isinstance(self.dtypes, Mapping) else self.dtypes
        return self.add_input(name, dims, canonical(str(dtype)))

    def is_placeholder(self, name: str, dims: list) -> bool:
        """Whether what init_net fills an input with is no sample of it: one number, in place of a shape."""
        made = [o.type for o in self.init.operators if name in o.outputs]
        return made[-1:] == ["ConstantFill"] and len(dims) == 1

    # -- operators ------------------------------------------------------------------------------------------------

    def convert(self, each: Operator) -> None:
        self.converted += 1
        if self.converted > _MOST_OPERATORS:
            raise TVMError(f"the model has more than {_MOST_OPERATORS} operators with its steps written out")
        with self.at_node(each.where, each.name or (each.outputs or [""])[0], lambda p: _in_words(each, p)):
            inputs = [self.value(name, each.where) for name in each.inputs]
            converter = CONVERTERS.find(each.type, 0)
            assert converter is not None
            ctx = Context(self, each)
            got = converter(ctx, inputs, each.args)
            results = list(got) if isinstance(got, (list, tuple, TupleWrapper)) else [got]
            if len(results) < len(each.outputs):
                raise TVMError(f"the operator has {len(each.outputs)} outputs; {len(results)} are supported")
            # What hands its input on hands on which rows are real.
            same = {id(v): self.real[n] for n, v in zip(each.inputs, inputs) if n in self.real}
            for i, (name, value) in enumerate(zip(each.outputs, results)):
                self.scopes[-1][name] = self.typer.infer(value)
                self.real.pop(name, None)
                mark = ctx.marks.get(i, same.get(id(value)))
                if mark is not None:
                    self.real[name] = mark


def _in_words(each: Operator, problem: Exception) -> str:
    shown = ", ".join(f"{k}={v!r}"[:60] for k, v in sorted(each.args.items()))
    return f"with {len(each.inputs)} inputs and arguments ({shown}): {str(problem) or type(problem).__name__}"


def from_caffe2(init_net, predict_net, shape=None, dtype="float32") -> tuple[IRModule, dict[str, Any]]:
    """A Caffe2 model as a module and its parameters. Caffe2 is not needed.

    Inputs are the blobs that ``predict_net`` reads and neither net makes, and those that ``shape`` names. Where
    ``init_net`` fills every blob, as nets do that were exported with a sample, and no ``shape`` is given, the first
    ``external_input`` is the input. Outputs are the ``external_output`` of ``predict_net``.

    Parameters
    ----------
    init_net : NetDef, bytes or str
        The net that makes the weights, as a message, its bytes or the path of a file.
    predict_net : NetDef, bytes or str
        The net that computes the outputs.
    shape : dict of str to tuple, optional
        Shapes of inputs by name; files do not say them.
    dtype : str or dict of str to str, optional
        The element type of the inputs, or of each by name; float32 for those that are not named.

    Returns
    -------
    tuple[IRModule, dict[str, Any]]

    Raises
    ------
    TypeError
        A net is none of these, or ``shape`` is no dictionary.
    TVMError
        A net is damaged, an operator cannot be converted, or an argument is wrong.
    OpNotImplemented
        For operators without a converter; all of them are named.
    """
    if shape is not None and not isinstance(shape, Mapping):
        raise TypeError(f"from_caffe2: shape is a dictionary by input, got {type(shape).__name__}")
    nets = load(init_net, "init_net"), load(predict_net, "predict_net")
    with np.errstate(all="ignore"):
        return Importer(*nets, shape, dtype).run()


__all__ = ["Importer", "from_caffe2"]

"""Convert the two nets of a Caffe2 model to a module: ``init_net`` creates the weights, ``predict_net`` uses them.

Operators run in file order and may overwrite a blob; a name refers to the last value written.
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

# The maximum number of operators of a model, with recurrent networks unrolled.
_MAX_OPERATORS = 131_072


def _with_steps(operators: list[Operator]) -> list[Operator]:
    """Return the operators, including those of the step nets of recurrent networks."""
    out = []
    for each in operators:
        out.append(each)
        inner = each.args.get("step_net")
        out += _with_steps(inner.operators) if isinstance(inner, Net) else []
    return out


class Importer(GraphImporter):
    """Converts one model to a module."""

    def __init__(self, init: Net, predict: Net, shapes: Mapping | None, dtypes):
        super().__init__(freeze=False)
        self.init, self.predict = init, predict
        self.shapes = dict(shapes or {})
        self.is_asked = shapes is None
        self.dtypes = dtypes
        self.config: dict[str, Any] = {}
        self.converted = 0
        # The scale and the zero point of each int8 blob.
        self.scales: dict[str, tuple[float, int]] = {}
        # The mask of valid rows of each padded blob of regions.
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
        """Return the blobs that no operator reads: the outputs of a net without ``external_output``."""
        read = {name for o in self.predict.operators for name in o.inputs}
        made = dict.fromkeys(name for o in self.predict.operators for name in o.outputs)
        last = [name for name in made if name not in read]
        if not last:
            raise TVMError("predict_net has no external_output, and an operator reads every blob")
        return last

    # -- inputs ---------------------------------------------------------------------------------------------------

    def outside(self) -> list[str]:
        """Return the blobs that predict_net reads and does not produce, in the order of ``external_input``."""
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
            # A net exported with a sample input stores the sample among the weights, as the first external_input.
            chosen = outside[:1]
        unknown = [name for name in self.shapes if name not in chosen]
        if unknown:
            raise UnknownInput(
                f"the model has no input '{unknown[0]}'; its inputs are {', '.join(chosen)}"
                + did_you_mean(unknown[0], chosen, "; ")
            )
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
                raise TVMError(f"shape of input '{name}': expected a list of integers, got {given!r}") from problem
        elif kept is not None and not self.is_placeholder(name, list(kept.shape)):
            dims = list(kept.shape)
        else:
            raise MissingShape(f"the model does not specify the shape of input '{name}'", name)
        if any(isinstance(d, int) and d < 0 for d in dims):
            raise TVMError(f"shape of input '{name}': {dims} has a negative dimension")
        dtype = self.dtypes.get(name, "float32") if isinstance(self.dtypes, Mapping) else self.dtypes
        return self.add_input(name, dims, canonical(str(dtype)))

    def is_placeholder(self, name: str, dims: list) -> bool:
        """Return whether init_net fills an input with a single-axis constant, which is a placeholder, not a sample with
        the input's shape."""
        made = [o.type for o in self.init.operators if name in o.outputs]
        return made[-1:] == ["ConstantFill"] and len(dims) == 1

    # -- operators ------------------------------------------------------------------------------------------------

    def convert(self, each: Operator) -> None:
        self.converted += 1
        if self.converted > _MAX_OPERATORS:
            raise TVMError(f"the model has more than {_MAX_OPERATORS} operators with its recurrent steps unrolled")
        with self.at_node(each.where, each.name or (each.outputs or [""])[0], lambda p: _in_words(each, p)):
            inputs = [self.value(name, each.where) for name in each.inputs]
            converter = CONVERTERS.find(each.type, 0)
            assert converter is not None
            ctx = Context(self, each)
            got = converter(ctx, inputs, each.args)
            results = list(got) if isinstance(got, (list, tuple, TupleWrapper)) else [got]
            if len(results) < len(each.outputs):
                raise TVMError(f"the operator has {len(each.outputs)} outputs, but only {len(results)} are supported")
            # An operator that returns its input unchanged also passes on the mask of valid rows.
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
    """Import a Caffe2 model as a module and its parameters. Caffe2 itself is not needed.

    The inputs are the blobs that ``predict_net`` reads and neither net produces, and those named in ``shape``. If
    ``init_net`` fills every blob, as in nets exported with a sample input, and ``shape`` is not given, the first
    ``external_input`` is the input. The outputs are the ``external_output`` of ``predict_net``.

    Parameters
    ----------
    init_net : NetDef, bytes or str
        The net that creates the weights: a message, its bytes or a path.
    predict_net : NetDef, bytes or str
        The net that computes the outputs.
    shape : dict of str to tuple, optional
        Input shapes by name; Caffe2 files do not contain them.
    dtype : str or dict of str to str, optional
        The element type of all inputs, or a dictionary by input name; the default is float32.

    Returns
    -------
    tuple[IRModule, dict[str, Any]]
        The module and its parameters.

    Raises
    ------
    TypeError
        A net has another type, or ``shape`` is not a dictionary.
    TVMError
        A net is corrupt, an operator cannot be converted, or an argument is wrong.
    OpNotImplemented
        The model has operators without a converter; the message lists all of them.
    """
    if shape is not None and not isinstance(shape, Mapping):
        raise TypeError(f"from_caffe2: shape must be a dictionary by input name, got {type(shape).__name__}")
    nets = load(init_net, "init_net"), load(predict_net, "predict_net")
    with np.errstate(all="ignore"):
        return Importer(*nets, shape, dtype).run()


__all__ = ["Importer", "from_caffe2"]

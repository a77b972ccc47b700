"""From a program of PaddlePaddle to a module: the operators that the outputs need, in the order they run. A variable
may be written again; what is read is what was written last."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from ....error import TVMError, did_you_mean
from ....ir.module import IRModule
from ....ir.tensor_type import TensorType
from ... import op as relay
from ...expr import RelayExpr, TupleWrapper
from ..common.importer import GraphImporter, UnknownInput
from ..common.input_shapes import dimensions, given_shape
from .load import Loaded, load
from .program import Block, Operator
from .table import CONVERTERS, Context

# Operators that a model may have with all steps of loops written out.
MOST_NODES = 131_072
# Blocks lie inside each other so deep.
_MOST_BLOCKS = 64
# Outputs that a converter's single result is for, in the order of preference.
_FIRST = ("Out", "Output", "Y", "Boxes", "Result")
_FRAME = ("feed", "fetch")


class Importer(GraphImporter):
    """Converts one model."""

    def __init__(self, loaded: Loaded, shapes: Mapping | None):
        super().__init__()
        self.program = loaded.program
        self.shapes = dict(shapes or {})
        self.arrays = loaded.params
        self.config: dict[str, Any] = {}
        self.converted = 0
        self.needed: set[str] = set()
        self.declared = {v.name: v for b in reversed(self.program.blocks) for v in b.variables.values()}
        self.feeds = loaded.feeds if loaded.feeds is not None else self._frame("feed")
        self.fetches = loaded.fetches if loaded.fetches is not None else self._frame("fetch")

    def _frame(self, kind: str) -> list[str]:
        """The variables that are fed or fetched, in the order of their columns."""
        rows = []
        for o in self.program.main.operators:
            names = o.writes() if kind == "feed" else o.reads()
            if o.type == kind and names:
                rows.append((o.attrs.get("col", len(rows)), names[0]))
        return [name for _, name in sorted(rows, key=lambda row: row[0])]

    def run(self) -> tuple[IRModule, dict[str, Any]]:
        if not self.fetches:
            self.fetches = self._last()
        kept = self.reached(self.program.main, set(self.fetches))
        self.check_operators(kept)
        self.add_weights()
        self.add_inputs()
        self.block(self.program.main, kept)
        found = [self.value(name, "the outputs") for name in self.fetches]
        for name, value in zip(self.fetches, found):
            if not isinstance(value, RelayExpr):
                raise TVMError(f"the output '{name}' is an array of tensors; stack it into one tensor")
        return self.finish(found)

    def _last(self) -> list[str]:
        """What is written and never read, where the program does not say its outputs."""
        kept = [o for o in self.program.main.operators if o.type not in _FRAME]
        read = {n for o in kept for n in o.reads()}
        found = [n for o in kept for p in _FIRST for n in o.outputs.get(p, ())[:1] if n not in read]
        if not found:
            raise TVMError("the program does not say its outputs (there is no operator fetch)")
        return list(dict.fromkeys(found))

    # -- what is needed -------------------------------------------------------------------------------------------

    def blocks_of(self, node: Operator) -> list[Block]:
        """The blocks that an operator runs."""
        found = [node.attrs[k] for k in ("sub_block",) if k in node.attrs]
        return [self.program.block(i) for i in found if isinstance(i, int) and not isinstance(i, bool)]

    def reached(self, block: Block, needed: set[str], depth: int = 0) -> list[Operator]:
        """The operators of a block that write something that is needed, in their order; what they read is added to
        ``needed``."""
        if depth > _MOST_BLOCKS:
            raise TVMError(f"blocks lie more than {_MOST_BLOCKS} deep inside each other")
        kept = []
        for node in reversed(block.operators):
            inner = self.blocks_of(node)
            written = {*node.writes(), *(n for b in inner for o in b.operators for n in o.writes())}
            if node.type in _FRAME or not written & needed:
                continue
            kept.append(node)
            needed.update(node.reads())
            needed.update(n for v in node.attrs.values() for n in (v if isinstance(v, list) else [v])
                          if isinstance(n, str) and type(n) is not str)  # fmt: skip
            for b in inner:
                # A loop reads in one step what it wrote in the step before.
                needed.update(n for o in b.operators for n in [*o.reads(), *o.writes()])
                self.reached(b, needed, depth + 1)
        self.needed |= needed
        return kept[::-1]

    def check_operators(self, kept: list[Operator]) -> None:
        used, work, seen = [], list(kept), set()
        while work:
            node = work.pop(0)
            used.append((node.type, node.name, 0, ""))
            for b in self.blocks_of(node):
                if b.index not in seen:
                    seen.add(b.index)
                    work += b.operators
        CONVERTERS.check_all(used)

    # -- inputs ---------------------------------------------------------------------------------------------------

    def add_weights(self) -> None:
        for name, array in self.arrays.items():
            if name in self.needed:
                self.weight(name, array)

    def add_inputs(self) -> None:
        known = self.feeds or self._unmade()
        for name in known:
            variable = self.program.main.variables.get(name)
            if variable is None:
                raise TVMError(f"the program does not declare its input '{name}'")
            self.scopes[0][name] = self.input(name, variable.shape, variable.dtype)
        unknown = [n for n in self.shapes if n not in known]
        if unknown:
            raise UnknownInput(f"the model has no input '{unknown[0]}'; its inputs are {', '.join(known)}"
                               + did_you_mean(unknown[0], known, "; "))  # fmt: skip

    def _unmade(self) -> list[str]:
        """What is read and neither written nor a parameter, where the program does not say its inputs."""
        made, found = set(self.arrays), []
        for node in self.program.main.operators:
            found += [n for n in node.reads() if n and n not in made and n not in found]
            made.update(node.writes())
        return [n for n in found if n in self.needed]

    def input(self, name: str, dims: tuple[int, ...], dtype: str):
        sizes: list = list(dims)
        if name in self.shapes:
            sizes = given_shape(name, self.shapes[name], dims)
        return self.add_input(name, dimensions(name, sizes), dtype)

    # -- operators ------------------------------------------------------------------------------------------------

    def block(self, block: Block, operators: list[Operator] | None = None) -> None:
        """Convert the operators of a block into the scope that is open."""
        if len(self.scopes) > _MOST_BLOCKS:
            raise TVMError(f"blocks lie more than {_MOST_BLOCKS} deep inside each other")
        for node in block.operators if operators is None else operators:
            if node.type not in _FRAME:
                self.convert(node)

    def convert(self, node: Operator) -> None:
        where = f"{node.type} '{node.name}'"
        self.converted += 1
        if self.converted > MOST_NODES:
            raise TVMError(f"the model has more than {MOST_NODES} operators with its loops written out")
        with self.at_node(where, node.name, partial(_in_words, node)):
            convert = CONVERTERS.find(node.type, 0)
            if convert is None:
                raise TVMError("the operator is not supported here")
            for name, value in self.results(node, convert(Context(self, node, where))).items():
                self.scopes[-1][name] = self.settled(name, value) if isinstance(value, RelayExpr) else value

    def settled(self, name: str, value: RelayExpr) -> RelayExpr:
        """A value with its type. Older programs have vectors of one element where newer ones have numbers; which it is,
        the program declares."""
        made = self.typer.infer(value)
        declared = self.declared.get(name)
        if not isinstance(made.checked_type_, TensorType) or len(made.checked_type_.shape) or declared is None:
            return made
        is_vector = declared.is_tensor and len(declared.shape) == 1
        return self.typer.infer(relay.reshape(made, (1,))) if is_vector else made

    def results(self, node: Operator, made: Any) -> dict[str, Any]:
        """The values of the variables that an operator writes."""
        if isinstance(made, TupleWrapper):
            made = list(made)
        if not isinstance(made, dict):
            first = next((p for p in _FIRST if node.outputs.get(p)), None) or next(iter(node.outputs), None)
            made = {} if first is None else {first: made}
        found: dict[str, Any] = {}
        for parameter, values in made.items():
            names = node.outputs.get(parameter, [])
            many = values if isinstance(values, list) else [values]
            if len(names) > len(many):
                raise TVMError(f"the output '{parameter}' has {len(names)} variables, the operator makes {len(many)}")
            found.update(zip(names, many))
        return found


def _in_words(node: Operator, problem: Exception) -> str:
    if isinstance(problem, MemoryError):
        return "there is not enough memory for this"
    shown = ", ".join(f"{k}={str(v)[:60]}" for k, v in node.attrs.items() if not k.startswith("op_"))
    return f"with {len(node.reads())} inputs and attributes ({shown}): {str(problem) or type(problem).__name__}"


def from_paddle(program_or_layer, shape_dict=None, scope=None) -> tuple[IRModule, dict[str, Any]]:
    """A PaddlePaddle model as a module and its parameters. Weights become constants, so that there are no parameters.
    PaddlePaddle is not needed to read files.

    Sizes that the model leaves open stay open (``relay.Any()``) unless ``shape_dict`` says them.

    Parameters
    ----------
    program_or_layer : str, paddle.static.Program or paddle.jit.TranslatedLayer
        The path of a program: ``NAME.pdmodel`` or ``NAME.json`` with ``NAME.pdiparams`` beside it, or the older
        ``__model__`` with ``__params__`` or a file for each parameter beside it; or the folder that holds it; or a live
        object.
    shape_dict : dict of str to tuple, optional
        Shapes of inputs by name, in place of the model's own.
    scope : paddle.static.Scope, optional
        What holds the parameters of a live program; the global one by default.

    Returns
    -------
    tuple[IRModule, dict[str, Any]]

    Raises
    ------
    TypeError
        ``program_or_layer`` is none of these, or ``shape_dict`` is no dictionary.
    TVMError
        The file is damaged, an operator cannot be converted, or an argument is wrong.
    OpNotImplemented
        For operators without a converter; all of them are named.
    """
    if shape_dict is not None and not isinstance(shape_dict, Mapping):
        raise TypeError(f"from_paddle: shape_dict is a dictionary by input, got {type(shape_dict).__name__}")
    with np.errstate(all="ignore"):
        return Importer(load(program_or_layer, scope), shape_dict).run()


__all__ = ["MOST_NODES", "Importer", "from_paddle"]

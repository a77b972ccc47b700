"""Convert a PaddlePaddle program to a module: the operators that the outputs need, in execution order.

Variables may be overwritten; a read returns the last value written.
"""

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

# The maximum number of operators, with loops unrolled.
MOST_NODES = 131_072
# The maximum nesting depth of blocks.
_MAX_BLOCKS = 64
# The outputs that the single result of a converter is assigned to, in order of preference.
_FIRST = ("Out", "Output", "Y", "Boxes", "Result")
_FRAME = ("feed", "fetch")


class Importer(GraphImporter):
    """Converts one model to a module."""

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
        """Return the variables of feed or fetch operators, in column order."""
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
                raise TVMError(f"the output '{name}' is a tensor array; stack it into one tensor")
        return self.finish(found)

    def _last(self) -> list[str]:
        """Return the variables that are written and never read: the outputs of a program without fetch operators."""
        kept = [o for o in self.program.main.operators if o.type not in _FRAME]
        read = {n for o in kept for n in o.reads()}
        found = [n for o in kept for p in _FIRST for n in o.outputs.get(p, ())[:1] if n not in read]
        if not found:
            raise TVMError("the program has no outputs (no fetch operator)")
        return list(dict.fromkeys(found))

    # -- dependencies ---------------------------------------------------------------------------------------------

    def blocks_of(self, node: Operator) -> list[Block]:
        """Return the blocks that an operator runs."""
        found = [node.attrs[k] for k in ("sub_block",) if k in node.attrs]
        return [self.program.block(i) for i in found if isinstance(i, int) and not isinstance(i, bool)]

    def reached(self, block: Block, needed: set[str], depth: int = 0) -> list[Operator]:
        """Return the operators of a block that needed variables depend on, in order.

        Add the variables they read to ``needed``.
        """
        if depth > _MAX_BLOCKS:
            raise TVMError(f"blocks are nested deeper than {_MAX_BLOCKS}")
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
                # A loop iteration reads variables that the previous iteration wrote.
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
        """Return the variables that are read but neither written nor parameters: the inputs of a program without feed
        operators."""
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
        """Convert the operators of a block in the current scope."""
        if len(self.scopes) > _MAX_BLOCKS:
            raise TVMError(f"blocks are nested deeper than {_MAX_BLOCKS}")
        for node in block.operators if operators is None else operators:
            if node.type not in _FRAME:
                self.convert(node)

    def convert(self, node: Operator) -> None:
        where = f"{node.type} '{node.name}'"
        self.converted += 1
        if self.converted > MOST_NODES:
            raise TVMError(f"the model has more than {MOST_NODES} operators with its loops unrolled")
        with self.at_node(where, node.name, partial(_in_words, node)):
            convert = CONVERTERS.find(node.type, 0)
            if convert is None:
                raise TVMError("the operator is not supported in this position")
            for name, value in self.results(node, convert(Context(self, node, where))).items():
                self.scopes[-1][name] = self.settled(name, value) if isinstance(value, RelayExpr) else value

    def settled(self, name: str, value: RelayExpr) -> RelayExpr:
        """Infer the type of a value.

        Reshape a scalar to a vector of one element where the program declares a vector, as older programs do.
        """
        made = self.typer.infer(value)
        declared = self.declared.get(name)
        if not isinstance(made.checked_type_, TensorType) or len(made.checked_type_.shape) or declared is None:
            return made
        is_vector = declared.is_tensor and len(declared.shape) == 1
        return self.typer.infer(relay.reshape(made, (1,))) if is_vector else made

    def results(self, node: Operator, made: Any) -> dict[str, Any]:
        """Map the variables that an operator writes to their values."""
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
                raise TVMError(
                    f"the output '{parameter}' has {len(names)} variables, but the operator returns {len(many)}"
                )
            found.update(zip(names, many))
        return found


def _in_words(node: Operator, problem: Exception) -> str:
    if isinstance(problem, MemoryError):
        return "not enough memory to convert the operator"
    shown = ", ".join(f"{k}={str(v)[:60]}" for k, v in node.attrs.items() if not k.startswith("op_"))
    return f"with {len(node.reads())} inputs and attributes ({shown}): {str(problem) or type(problem).__name__}"


def from_paddle(program_or_layer, shape_dict=None, scope=None) -> tuple[IRModule, dict[str, Any]]:
    """Import a PaddlePaddle model as a module and its parameters.

    PaddlePaddle itself is not needed to read files. Weights become constants of the module, so the returned parameters
    are empty.

    Dynamic dimensions of the model stay dynamic (``relay.Any()``) unless ``shape_dict`` overrides them.

    Parameters
    ----------
    program_or_layer : str, paddle.static.Program or paddle.jit.TranslatedLayer
        One of: the path of a program, which is ``NAME.pdmodel`` or ``NAME.json`` with ``NAME.pdiparams`` next to it, or
        an older ``__model__`` with ``__params__`` or one file for each parameter next to it; the path of a folder that
        contains these files; or a PaddlePaddle object.
    shape_dict : dict of str to tuple, optional
        Input shapes by name, which override the shapes in the model.
    scope : paddle.static.Scope, optional
        The scope with the parameters of a Program object; the default is the global scope.

    Returns
    -------
    tuple[IRModule, dict[str, Any]]
        The module and its parameters.

    Raises
    ------
    TypeError
        ``program_or_layer`` has another type, or ``shape_dict`` is not a dictionary.
    TVMError
        The file is corrupt, an operator cannot be converted, or an argument is wrong.
    OpNotImplemented
        The model has operators without a converter; the message lists all of them.
    """
    if shape_dict is not None and not isinstance(shape_dict, Mapping):
        raise TypeError(f"from_paddle: shape_dict must be a dictionary by input name, got {type(shape_dict).__name__}")
    with np.errstate(all="ignore"):
        return Importer(load(program_or_layer, scope), shape_dict).run()


__all__ = ["MOST_NODES", "Importer", "from_paddle"]

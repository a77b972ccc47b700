"""Search for the input shapes of TorchScript models, whose files contain only the names and types of inputs.

Dimensions are dynamic. A trace that was not saved contains the ranks of its inputs. Other ranks are tried until the
model can be imported: if an operator rejects a rank, or the model raises an exception, the inputs that the operator
depends on get the next rank. State that a run stores in attributes becomes additional inputs.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ....error import TVMError
from ....ir.module import IRModule
from ....ir.prim import Any_, IntImm
from ....ir.tensor_type import TensorType
from ....ir.visit import post_order
from ...expr import Call, RelayExpr
from ...infer import infer_module
from ...symbolic import named_sizes, with_types
from ..common.incremental import tensor_type
from .script_inputs import WITH_FIELDS, kind_of
from .table import Number
from .views import VIEWS

if TYPE_CHECKING:
    from .torchscript import ScriptReader

# Ranks in the order in which they are tried: the first dimension of most inputs is a batch.
_RANKS = (2, 3, 4, 5, 1, 0)
# Maximum number of imports; most of them fail at the first operator that rejects a rank.
_MOST_TRIES = 24
# Maximum number of imports with the same ranks, where each adds state inputs or makes more dimensions of state dynamic.
_MOST_STATES = 4
# Element types by argument names in schemas; operators whose output has the type of their first argument.
_KINDS = {"index": "int64", "indices": "int64", "mask": "bool", "condition": "bool"}
_SAME_KIND = {*VIEWS, "add", "sub", "mul", "clamp", "contiguous", "clone", "prim::ListConstruct"}
_NUMBERS = ("IntType", "FloatType", "BoolType", "NumberType")

Made = tuple[IRModule, dict[str, Any]]


class UnknownShapes(TVMError):
    """The shapes of the inputs ``names`` are unknown."""

    def __init__(self, words: str, names: Iterable[str] = ()):
        super().__init__(words)
        self.names = list(names)


class KeptState(TVMError):
    """The model has state that is not an input; ``infos`` contains the shape and element type of each attribute."""

    def __init__(self, words: str, infos: Mapping[str, Any] | None = None):
        super().__init__(words)
        self.infos = dict(infos or {})


class Input(NamedTuple):
    """An input of a graph: its name in the model's code, its value in the graph, and other declared properties."""

    name: str
    value: Any
    kind: str
    default: Any
    has_default: bool


def inputs_of(module) -> list[Input]:
    """Return the inputs of a module or function, without the module itself."""
    values = list(module.inlined_graph.inputs())
    if values and str(values[0].type().kind()) == "ClassType":
        values = values[1:]
    rows = list(getattr(module, "forward", module).schema.arguments)
    return [
        Input(row.name, v, str(v.type().kind()), row.default_value, row.has_default_value())
        for row, v in zip(rows[len(rows) - len(values) :], values)
    ]


def import_open(new_reader: Callable[[], ScriptReader], inputs: list[Input], given: Mapping[str, Any]) -> Made:
    """Import a model for which only the shapes of some inputs are ``given``; return its module and parameters."""
    infos = {i.name: given[i.name] if i.name in given else _known(i, given) for i in inputs}
    fields = {name for i in inputs for name in field_names(i.name, i.value.type(), given)}
    state = {name: info for name, info in given.items() if name not in infos and name not in fields}
    search = _Search(new_reader, inputs, infos, state)
    names = [i.name for i in inputs if infos[i.name] is _OPEN]
    search.go(names)
    module, params = search.result()
    return _with_known_sizes(module, {i.name for i in inputs if i.kind == "TensorType" and i.name not in given}), params


def _with_known_sizes(module: IRModule, names: set[str]) -> IRModule:
    """Return the module in which dynamic dimensions of inputs that operators require to be static, such as channels,
    are static.
    """
    main = module["main"]
    asked = named_sizes(infer_module(module)["main"], module).params
    types: list[TensorType | None] = [None] * len(asked)
    for i, (have, wants) in enumerate(zip(main.params, asked)):
        if have.name_hint in names:
            kind = have.type_annotation
            shape = [q if isinstance(q, IntImm) else p for p, q in zip(kind.shape, wants.type_annotation.shape)]
            types[i] = TensorType(shape, kind.dtype)
    opened = with_types(main, types, None)
    return module.map_functions(lambda var, function: opened if var.name_hint == "main" else function)


_OPEN: Any = object()


def _known(row: Input, given: Mapping[str, Any]):
    """Return the known properties of an input without a shape.

    Numbers have no shape, inputs with a default use it, and ``given`` can contain the shapes of the fields of a tuple.
    The rank of a tensor is known if the graph declares it.
    """
    if row.kind == "TensorType":
        rank = row.value.type().dim()
        return _OPEN if rank is None else tuple(Any_() for _ in range(rank))
    names = field_names(row.name, row.value.type(), given)
    if names and all(name in given for name in names):
        return _field_infos(row.name, row.value.type(), given)
    if row.has_default:
        return row.default
    if row.kind in _NUMBERS:
        return ()
    words = f"the input '{row.name}' is a {row.value.type()}, and TorchScript files contain no shapes"
    if row.kind in WITH_FIELDS:
        raise UnknownShapes(
            f"from_pytorch: {words}; pass the shape of each field, as {{'{row.name}': ((1, 3), (1, 3))}}",
            names or [f"{row.name}_0", f"{row.name}_1"],
        )
    raise TVMError(f"from_pytorch: {words}; pass it in input_infos")


def field_names(name: str, declared, given: Mapping[str, Any]) -> list[str]:
    """Return the names of the tensors in a tuple or list, such as ``x_0`` and ``x_1_0``; empty for a tensor or a
    number.

    The number of elements of a list is the number of its shapes in ``given``.
    """
    return _leaves(_field_infos(name, declared, given, names=True)) if kind_of(declared) in WITH_FIELDS else []


def _field_infos(name: str, declared, given: Mapping[str, Any], names: bool = False):
    """Return the shapes in ``given`` of the fields of an input, or the names of the fields, nested as the type is."""
    kind = kind_of(declared)
    if kind == "TupleType":
        return tuple(_field_infos(f"{name}_{i}", d, given, names) for i, d in enumerate(declared.elements()))
    if kind == "ListType":
        count = next(i for i in itertools.count() if not any(f"{n}_".startswith(f"{name}_{i}_") for n in given))
        return tuple(_field_infos(f"{name}_{i}", declared.getElementType(), given, names) for i in range(count))
    return name if names else given[name]


def _leaves(value) -> list[str]:
    return [leaf for part in value for leaf in _leaves(part)] if isinstance(value, tuple) else [value]


class _Search:
    """A search for ranks that the model supports. ``infos`` are the inputs in order, ``state`` the attributes with
    shapes.
    """

    def __init__(
        self, new_reader: Callable[[], ScriptReader], inputs: list[Input], infos: dict[str, Any], state: dict[str, Any]
    ):
        self.new_reader = new_reader
        self.inputs = {i.value.debugName(): i.name for i in inputs}
        self.infos, self.state = infos, state
        self.kinds: dict[str, str] = {}
        self.made: Made | None = None
        # The error of the import that converted the most nodes, and the number of these nodes.
        self.problem: tuple[int, TVMError] | None = None

    def go(self, names: list[str]) -> None:
        """Try ranks, each given as an index into ``_RANKS``."""
        waiting = deque([dict.fromkeys(names, 0)])
        tried: list[dict[str, int]] = []
        while waiting and len(tried) < _MOST_TRIES:
            places = waiting.popleft()
            if places in tried:
                continue
            tried.append(places)
            reader, made = self.attempt(places)
            if made is None and self.made is None:
                blamed = self.reaching(reader.at) & set(names) or set(names)
                waiting += _next(places, [blamed, *({name} for name in sorted(blamed) if len(blamed) > 1)])
                continue
            if made is None:
                return
            # If the model only adds a dimension to an input, it also supports an input with a batch dimension.
            without, is_first = {name for name in names if _is_only_expanded(made[0], name)}, self.made is None
            if is_first or not without:
                self.made = made
            if not is_first or not without:
                return
            waiting = deque(_next(places, [without]))

    def attempt(self, places: Mapping[str, int]) -> tuple[ScriptReader, Made | None]:
        """Import the model once, and again with additional state inputs as needed."""
        state = dict(self.state)
        for _ in range(_MOST_STATES):
            reader = self.new_reader()
            reader.opens_state = True
            self.kinds = self.kinds or _kinds(reader, self.inputs)
            infos = [
                (name, self.open_info(name, _RANKS[places[name]]) if name in places else info)
                for name, info in self.infos.items()
            ]
            try:
                return reader, reader.run([*infos, *state.items()])
            except KeptState as problem:
                if not problem.infos:
                    raise
                state |= problem.infos
            except TVMError as problem:
                if reader.at is None:
                    raise
                if self.problem is None or reader.steps > self.problem[0]:
                    self.problem = reader.steps, problem
                return reader, None
        raise TVMError("from_pytorch: cannot infer the shapes of the state that the model stores in attributes")

    def open_info(self, name: str, rank: int):
        dims = tuple(Any_() for _ in range(rank))
        return (dims, self.kinds[name]) if name in self.kinds else dims

    def result(self) -> Made:
        if self.made is not None:
            return self.made
        assert self.problem is not None
        names = [name for name, info in self.infos.items() if info is _OPEN]
        if not names:
            raise self.problem[1]
        inputs = " and ".join(f"'{name}'" for name in names)
        raise UnknownShapes(
            f"from_pytorch: TorchScript files do not contain the shape of {inputs}, and the import "
            f"failed for all ranks from 0 to 5 with dynamic dimensions ({self.problem[1]})",
            names,
        )

    def reaching(self, node) -> set[str]:
        """Return the inputs that the operands of a node depend on; for an exception, the inputs of the condition of its
        branch.
        """
        branch = node.owningBlock().owningNode()
        waiting = list((branch if branch is not None and node.kind() == "prim::RaiseException" else node).inputs())
        found: set[str] = set()
        seen: set[str] = set()
        while waiting:
            value = waiting.pop()
            key = value.debugName()
            if key in seen:
                continue
            seen.add(key)
            if key in self.inputs:
                found.add(self.inputs[key])
            else:
                maker = value.node()
                waiting += [*maker.inputs(), *(o for block in maker.blocks() for o in block.outputs())]
        return found


def _next(places: dict[str, int], groups: Iterable[Iterable[str]]) -> list[dict[str, int]]:
    """Return, for each group of inputs, the indices with the next rank for the inputs of the group."""
    made = [{**places, **{name: places[name] + 1 for name in group}} for group in groups]
    return [m for m in made if all(place < len(_RANKS) for place in m.values())]


def _is_only_expanded(module: IRModule, name: str) -> bool:
    """Return whether the model only adds a dimension to an input."""
    main = module["main"]
    variable = next((p for p in main.params if p.name_hint == name), None)
    users = {
        getattr(n.op, "name", "a function")
        for n in post_order(main.body)
        if isinstance(n, Call) and n.args and n.args[0] is variable
    }
    return "expand_dims" in users and users <= {"expand_dims", "shape_of"}


def _kinds(reader: ScriptReader, names: Mapping[str, str]) -> dict[str, str]:
    """Return the element types of inputs that are used as indices or masks, by name."""
    found: dict[str, str] = {}
    blocks = [reader.graph]
    for block in blocks:
        for node in block.nodes():
            blocks += node.blocks()
            if not node.kind().startswith("aten::"):
                continue
            for row, value in zip(reader.parameters_of(node), node.inputs()):
                while (
                    row.name in _KINDS
                    and value.debugName() not in names
                    and value.node().inputsSize()
                    and (value.node().kind().removeprefix("aten::") in _SAME_KIND)
                ):
                    value = value.node().inputsAt(0)
                if row.name in _KINDS and value.debugName() in names:
                    found.setdefault(names[value.debugName()], _KINDS[row.name])
    return found


def state_info(name: str, before, after, is_input: bool) -> tuple[tuple, str] | None:
    """Return the shape and element type of a state input from the values before and after a run.

    Dimensions that differ become dynamic. Return None if the state is already an input whose type fits both values.
    """
    if not isinstance(after, RelayExpr):
        held = after if isinstance(before, Number) else before
        kinds = {bool: "bool", int: "int64", float: "float64"}
        return None if is_input else ((), kinds.get(type(held)) or tensor_type(after.expr).dtype)
    found, left = (tensor_type(v).shape for v in (before, after))
    known = [d.value if isinstance(d, IntImm) else None for d in left]
    if len(found) == len(left):
        known = [k if isinstance(d, IntImm) and d.value == k else None for d, k in zip(found, known)]
        if is_input and sum(isinstance(d, IntImm) for d in found) == len(known) - known.count(None):
            return None
    elif any(isinstance(d, IntImm) and d.value == 0 for d in found):
        # An empty tensor means that the state is not initialized yet.
        known[:1] = [None]
    else:
        raise TVMError(
            f"from_pytorch: the model's attribute '{name}' has {len(found)} dimensions before a run and "
            f"{len(left)} after it; the rank of state must not change"
        )
    return tuple(Any_() if k is None else k for k in known), tensor_type(after).dtype


__all__ = ["Input", "KeptState", "UnknownShapes", "field_names", "import_open", "inputs_of", "state_info"]

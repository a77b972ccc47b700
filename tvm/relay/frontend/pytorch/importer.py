"""The graph under construction: values by the names of the model, operators called by their schema, and tensors that
are changed in place.

PyTorch's operators may change a tensor, and then every view of it changes. Here values never change: a name is given a
new value. For each view the importer keeps the name it looks at and how the view is taken; a change through a view is
put back into what it looks at, and other views are taken again when they are next read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ....error import OpNotImplemented, TVMError
from ....ir.prim import SizeVar
from ....runtime.ndarray import NDArray
from ...expr import Constant, RelayExpr, Tuple, TupleWrapper
from ..common.importer import GraphImporter
from ..common.incremental import as_tensor, tensor_type
from .complex_ops import SEEN_PARTS, holds_complex, on_complex
from .quantized import Quantized, holds_quantized, on_quantized, takes_quantized
from .table import CONVERTERS, Complex, Context, Number, Parameter, arguments, find
from .views import COPYING, VIEWS, put_back

# Functions, branches and loops written out are at most so many nodes.
MOST_NODES = 1 << 17


class Site(NamedTuple):
    """Where an operator is called: in the words of errors, its schema, the name of its first argument and those of its
    results, how many results it has and which of them are read."""

    where: str
    parameters: list[Parameter]
    first: str | None
    results: list[str]
    outputs: int = 1
    used: set[int] | None = None


class View:
    """A name that looks at another one: how it is taken, and the state of the tensor it was taken of."""

    __slots__ = ("args", "base", "index", "name", "state")

    def __init__(self, base: str, name: str, args: dict[str, Any], index: int | None, state: int):
        self.base, self.name, self.args, self.index, self.state = base, name, args, index, state


class TorchImporter(GraphImporter):
    """Converts one model. ``custom`` are converters of the caller, by the operator's full name."""

    def __init__(self, freeze: bool, default_dtype: str = "float32", custom: Mapping[str, Any] | None = None):
        super().__init__(freeze)
        self.default_dtype = default_dtype
        self.custom = dict(custom or {})
        # Whether weights of quantized layers are parameters of integers.
        self.keep_quantized = False
        self.weights: dict[str, RelayExpr] = {}
        self.views: dict[str, View] = {}
        # How often the tensor that a name stands for was changed, and how often an attribute of an object was.
        self.states: dict[str, int] = {}
        self.attribute_changes = 0
        # State that a run leaves in attributes, by its path.
        self.left: dict[tuple[str, ...], Any] = {}
        # What must hold when the model runs, and the words of the error where it does not.
        self.checks: list[tuple[RelayExpr, str]] = []
        # How many of them the branches so far wait for.
        self.awaited = 0
        # By identity: open sizes with their variables.
        self.symbols: dict[int, tuple[Any, SizeVar]] = {}
        # Whether squeezing an axis says that its size is 1. In an exported program no open size is.
        self.names_ones = False
        # Where the model says it: how the first argument of the operator being converted lies in memory.
        self.strides: list[int] | None = None
        # How many parts the model takes out of the list that the operator being converted makes.
        self.taken: int | None = None
        # Tensors that share their elements with a complex one; no change of either is seen in the other.
        self.seen: set[str] = set()
        # By the name of a list: what it is the parts of.
        self.parts: dict[str, tuple[str, str, dict[str, Any]]] = {}

    # -- weights --------------------------------------------------------------------------------------------------

    def tensor_weight(self, name: str, array: np.ndarray | NDArray):
        """A weight under its name, once. A value of the model may have the same name."""
        if name not in self.weights:
            scope = self.scopes[-1]
            before = scope.pop(name, None)
            self.weight(name, array)
            self.weights[name] = self.typer.infer(scope.pop(name))
            if before is not None:
                scope[name] = before
        return self.weights[name]

    def state_at(self, path: tuple[str, ...]):
        """What an attribute holds at this point."""
        return self.left[path]

    # -- values and views -----------------------------------------------------------------------------------------

    def root(self, key: str) -> str:
        while key in self.views:
            key = self.views[key].base
        return key

    def read(self, key: str, where: str):
        """The value of a name, taken again where what it looks at has changed."""
        stale = []
        at = key
        while at in self.views and self.views[at].state != self.states.get(self.root(at), 0):
            stale.append(at)
            at = self.views[at].base
        for name in reversed(stale):
            view = self.views[name]
            base = self.value(view.base, where)
            made = base
            if view.name:
                made = self._view_of(view, base, where)
            self.scopes[-1][name] = made
            view.state = self.states.get(self.root(name), 0)
        return self.value(key, where)

    def _view_of(self, view: View, base, where: str):
        converter = find(view.name)
        assert converter is not None, view.name
        made = converter(Context(self, view.name, where), base, **view.args)
        return self.inferred(made[view.index] if view.index is not None else made)

    def write(self, key: str, value, where: str) -> None:
        """A tensor changed in place: its name has a new value, and so has what it looks at."""
        root = self.root(key)
        self.states[root] = self.states.get(root, 0) + 1
        while True:
            self.scopes[-1][key] = value
            if key not in self.views:
                return
            view = self.views[key]
            view.state = self.states[root]
            context = Context(self, view.name or "alias", where)
            value = self.inferred(put_back(context, view, self.value(view.base, where), value))
            key = view.base

    def note_view(self, key: str, base: str | None, name: str, args: dict[str, Any], index: int | None) -> None:
        if base is not None:
            self.views[key] = View(base, name, args, index, self.states.get(self.root(base), 0))

    # -- operators ------------------------------------------------------------------------------------------------

    def check_operators(self, used: list[tuple[str, str, str]]) -> None:
        """``used`` are (operator, overload, node name) rows; all that have no converter are in one error."""
        rows = [(name, node, 0, overload) for name, overload, node in used]
        CONVERTERS.check_all(rows, lambda name, version, overload: self.known(name, overload))

    def known(self, name: str, overload: str) -> bool:
        if self.custom_of(name, overload) is not None or find(name, overload) is not None:
            return True
        return name.endswith("_") and not name.endswith("__") and find(name[:-1], overload) is not None

    def custom_of(self, name: str, overload: str):
        full = name if "::" in name else f"aten::{name}"
        return self.custom.get(f"{full}.{overload}" if overload else full) or self.custom.get(full)

    def call(self, site: Site, name: str, overload: str, args: list, kwargs: Mapping[str, Any]) -> list:
        """The results of an operator, one for each of the site's names."""
        given = {p.name: v for p, v in zip(site.parameters, args)}
        given.update(kwargs)
        defaults = {p.name: p.default for p in site.parameters if p.has_default}
        context = Context(self, name, site.where, site.outputs, site.used)
        custom = self.custom_of(name, overload)
        if custom is not None:
            # What an exported program leaves out has the default of the schema.
            whole = [given.get(p.name, p.default) for p in site.parameters] or args
            whole = [v.expr if isinstance(v, Number) else v for v in whole]
            return self._results(custom(whole, [self._type_named(v) for v in whole]), len(site.results))
        in_place = name.endswith("_") and not name.endswith("__")
        plain = name[:-1] if in_place and find(name, overload) is None else name
        converter = find(plain, overload)
        if converter is None:
            raise OpNotImplemented(f"the operator {name} is not supported")
        taken = arguments(converter, {**given, **{k: v for k, v in defaults.items() if k not in given}}, defaults)
        if any(map(holds_quantized, taken.values())) and not takes_quantized(plain):
            made = on_quantized(context, plain, converter, taken)
        elif any(map(holds_complex, taken.values())):
            made = on_complex(context, plain, converter, taken)
        else:
            made = converter(context, **taken)
        results = self._results(made, len(site.results))
        if plain in SEEN_PARTS:
            self.seen.update(self.root(n) for n in (site.first, *site.results) if n is not None)
        rest = {k: v for k, v in taken.items() if k != next(iter(taken))}
        if in_place and site.first is not None and results and VIEWS.get(plain) in ("shape", "axes"):
            self._take_anew(site, plain, rest, results[0])
        elif in_place and site.first is not None and results:
            self._change(context, site, results)
        elif plain in VIEWS and results and site.first is not None and self._looks(plain, site.first, args):
            if VIEWS[plain] == "parts":
                self.parts[site.results[0]] = (site.first, plain, rest)
            else:
                self.note_view(site.results[0], site.first, plain, rest, None)
        return results

    def _type_named(self, value) -> str | None:
        """The type of an argument in the words of TVM's converters."""
        if isinstance(value, RelayExpr):
            return tensor_type(self.typer.typed(value)).dtype
        named = {bool: "bool", int: "int32", float: "float32", list: "ListType", tuple: "ListType"}
        return named.get(type(value))

    def take_part(self, key: str, whole: str, index: int) -> None:
        """A name for one of the parts that an operator gave as a list; parts look at what was split."""
        if whole in self.parts:
            base, name, args = self.parts[whole]
            self.note_view(key, base, name, args, index)

    def _looks(self, name: str, base: str, args: list) -> bool:
        """Whether the result of a view operator looks at its argument. Some copy what does not lie in one piece: then
        no part of what lies between is a reordering, or a slice but of the first axis."""
        if not args or not isinstance(args[0], RelayExpr):
            return False
        if name not in COPYING:
            return True
        while base in self.views:
            view = self.views[base]
            kind = VIEWS[view.name] if view.name else "same"
            if kind not in ("same", "shape") and not (kind == "slice" and view.args.get("dim", 0) == 0):
                return False
            base = view.base
        return True

    def _take_anew(self, site: Site, name: str, args: dict[str, Any], value) -> None:
        """A tensor that takes another shape in place: from here on its name is a view of what it was, at which all its
        other views look."""
        key = site.first
        assert key is not None
        before = f"{key}/{len(self.views)}"
        self.scopes[-1][before] = self.value(key, site.where)
        self.states[before] = self.states.get(key, 0)
        if key in self.views:
            self.views[before] = self.views.pop(key)
        for view in self.views.values():
            view.base = before if view.base == key else view.base
        self.note_view(key, before, name, args, None)
        self.scopes[-1][key] = value
        if site.results:
            self.note_view(site.results[0], key, "", {}, None)

    def _change(self, context: Context, site: Site, results: list) -> None:
        """The first argument takes the result; it keeps its type and shape, and the result is the same tensor."""
        assert site.first is not None
        old = self.read(site.first, context.where)
        if isinstance(old, Complex) or self.root(site.first) in self.seen:
            raise TVMError("a complex tensor, or one whose parts are seen, is changed in place, which is not supported")
        if isinstance(old, Quantized):
            self.write(site.first, results[0], context.where)
        if isinstance(old, RelayExpr):
            value = context.tensor(results[0], context.dtype(old))
            if context.shape(value) != context.shape(old):
                value = context.convert("expand_as", value, old)
            results[0] = self.inferred(value)
            self.write(site.first, results[0], context.where)
            if site.results:
                self.note_view(site.results[0], site.first, "", {}, None)

    def _results(self, got, count: int) -> list:
        if isinstance(got, TupleWrapper):
            got = tuple(got)
        if count == 1:
            return [self.inferred(got)]
        if count == 0:
            return []
        if not isinstance(got, (list, tuple)):
            raise TVMError(f"{count} results are wanted, one is supported")
        if len(got) < count:
            raise TVMError(f"{count} results are wanted, {len(got)} are supported")
        return [self.inferred(g) for g in list(got)[:count]]

    def inferred(self, value):
        """A value with types on its tensors; lists and tuples keep their form."""
        if isinstance(value, TupleWrapper):
            value = tuple(value)
        if isinstance(value, Number):
            return Number(self.inferred(value.expr))
        if isinstance(value, Quantized):
            return value.like(self.inferred(value.expr))
        if isinstance(value, Complex):
            return Complex(*map(self.inferred, value.parts))
        if isinstance(value, RelayExpr):
            known = self.symbols.get(id(value))
            made = self.typer.infer(value)
            if known is not None:
                self.symbols[id(made)] = (made, known[1])
            return made
        if isinstance(value, list):
            value[:] = [self.inferred(v) for v in value]
            return value
        if isinstance(value, tuple):
            return tuple(self.inferred(v) for v in value)
        return value

    # -- results --------------------------------------------------------------------------------------------------

    def result(self, value):
        """A result of the model as one expression: lists and tuples become tuples, dictionaries tuples of their
        values, numbers tensors, quantized tensors their integers."""
        if isinstance(value, (Number, Quantized)):
            return value.expr
        if isinstance(value, RelayExpr) or isinstance(value, TupleWrapper):
            return as_tensor(value)
        if isinstance(value, Complex):
            raise TVMError("a result of the model is complex; torch.view_as_real gives its parts as a tensor")
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, (list, tuple)):
            return Tuple([self.result(v) for v in value if v is not None])
        if isinstance(value, (bool, int, float)):
            dtype = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else self.default_dtype
            return Constant(np.array(value, dtype))
        raise TVMError(f"a result of the model is a {type(value).__name__}; tensors, numbers, lists, tuples and "
                       "dictionaries of them are supported")


def in_words(problem: Exception) -> str:
    """What went wrong in a converter, for the user."""
    if isinstance(problem, MemoryError):
        return "there is not enough memory for this"
    if isinstance(problem, RecursionError):
        return "the graphs inside are nested too deep"
    if isinstance(problem, KeyError):
        return f"argument {problem} is missing or has a value that is not known"
    return f"these arguments are not supported: {problem or type(problem).__name__}"


__all__ = ["MOST_NODES", "TorchImporter", "View", "in_words"]

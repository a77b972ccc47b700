"""The graph under construction: named values, operator calls by schema, and in-place changes of tensors.

A PyTorch operator can change a tensor in place, which also changes every view of it. Here values are immutable: a
change assigns a new value to the name. For each view the importer stores the name of its base tensor and the operator
that creates the view. A change through a view is written back into the base, and other views are recomputed at the next
read.
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
from .views import COPYING, VIEWS, write_back

# Maximum number of nodes of inlined functions, branches and loops.
MOST_NODES = 1 << 17


class Site(NamedTuple):
    """The call site of an operator: its description in errors, its schema, and the names of its first argument and
    outputs.

    It also contains the number of outputs, and the outputs that are used.
    """

    where: str
    parameters: list[Parameter]
    first: str | None
    results: list[str]
    outputs: int = 1
    used: set[int] | None = None


class View:
    """A view of another tensor: the operator that creates it, and the version of the base tensor that it was computed
    from.
    """

    __slots__ = ("args", "base", "index", "name", "state")

    def __init__(self, base: str, name: str, args: dict[str, Any], index: int | None, state: int):
        self.base, self.name, self.args, self.index, self.state = base, name, args, index, state


class TorchImporter(GraphImporter):
    """Base class of the PyTorch importers. ``custom`` are the converters of the caller, by full operator name."""

    def __init__(self, freeze: bool, default_dtype: str = "float32", custom: Mapping[str, Any] | None = None):
        super().__init__(freeze)
        self.default_dtype = default_dtype
        self.custom = dict(custom or {})
        # Whether weights of quantized layers are integer parameters.
        self.keep_quantized = False
        self.weights: dict[str, RelayExpr] = {}
        self.views: dict[str, View] = {}
        # The number of changes of each named tensor, and of attributes of objects.
        self.states: dict[str, int] = {}
        self.attribute_changes = 0
        # The final state of attributes after a run, by path.
        self.left: dict[tuple[str, ...], Any] = {}
        # Conditions that are checked at run time, with the error message for each.
        self.checks: list[tuple[RelayExpr, str]] = []
        # The number of these conditions that are already attached to branches.
        self.awaited = 0
        # Dynamic dimensions and their variables, by id.
        self.symbols: dict[int, tuple[Any, SizeVar]] = {}
        # Whether squeezing an axis implies that its size is 1. Dynamic dimensions of exported programs are never 1.
        self.names_ones = False
        # The strides of the first argument of the current operator, if the model contains them.
        self.strides: list[int] | None = None
        # The number of elements that the model unpacks from the list that the current operator returns.
        self.taken: int | None = None
        # Tensors that share memory with a complex tensor; changes of one are not visible in the other.
        self.seen: set[str] = set()
        # The operator and the base tensor of each list of views, by name of the list.
        self.parts: dict[str, tuple[str, str, dict[str, Any]]] = {}

    # -- weights --------------------------------------------------------------------------------------------------

    def tensor_weight(self, name: str, array: np.ndarray | NDArray):
        """Add a weight under its name, once. A value of the model can have the same name."""
        if name not in self.weights:
            scope = self.scopes[-1]
            before = scope.pop(name, None)
            self.weight(name, array)
            self.weights[name] = self.typer.infer(scope.pop(name))
            if before is not None:
                scope[name] = before
        return self.weights[name]

    def state_at(self, path: tuple[str, ...]):
        """Return the current value of an attribute."""
        return self.left[path]

    # -- values and views -----------------------------------------------------------------------------------------

    def root(self, key: str) -> str:
        while key in self.views:
            key = self.views[key].base
        return key

    def read(self, key: str, where: str):
        """Return the value of a name; recompute a view if its base has changed."""
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
        """Assign a new value to a tensor that is changed in place, and update the base of a view."""
        root = self.root(key)
        self.states[root] = self.states.get(root, 0) + 1
        while True:
            self.scopes[-1][key] = value
            if key not in self.views:
                return
            view = self.views[key]
            view.state = self.states[root]
            context = Context(self, view.name or "alias", where)
            value = self.inferred(write_back(context, view, self.value(view.base, where), value))
            key = view.base

    def note_view(self, key: str, base: str | None, name: str, args: dict[str, Any], index: int | None) -> None:
        if base is not None:
            self.views[key] = View(base, name, args, index, self.states.get(self.root(base), 0))

    # -- operators ------------------------------------------------------------------------------------------------

    def check_operators(self, used: list[tuple[str, str, str]]) -> None:
        """Report all operators without a converter in one error. ``used`` are tuples (operator, overload,
        node name).
        """
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
        """Convert an operator and return its outputs, one for each name of the site."""
        given = {p.name: v for p, v in zip(site.parameters, args)}
        given.update(kwargs)
        defaults = {p.name: p.default for p in site.parameters if p.has_default}
        context = Context(self, name, site.where, site.outputs, site.used)
        custom = self.custom_of(name, overload)
        if custom is not None:
            # Arguments that an exported program omits have the default of the schema.
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
            self._reshape_in_place(site, plain, rest, results[0])
        elif in_place and site.first is not None and results:
            self._change(context, site, results)
        elif plain in VIEWS and results and site.first is not None and self._is_view(plain, site.first, args):
            if VIEWS[plain] == "parts":
                self.parts[site.results[0]] = (site.first, plain, rest)
            else:
                self.note_view(site.results[0], site.first, plain, rest, None)
        return results

    def _type_named(self, value) -> str | None:
        """Return the type of an argument by the naming of custom converters in Apache TVM."""
        if isinstance(value, RelayExpr):
            return tensor_type(self.typer.typed(value)).dtype
        named = {bool: "bool", int: "int32", float: "float32", list: "ListType", tuple: "ListType"}
        return named.get(type(value))

    def take_part(self, key: str, whole: str, index: int) -> None:
        """Register the name of one element of a list of views; the elements are views of the split tensor."""
        if whole in self.parts:
            base, name, args = self.parts[whole]
            self.note_view(key, base, name, args, index)

    def _is_view(self, name: str, base: str, args: list) -> bool:
        """Return whether the output of a view operator shares memory with its argument.

        Operators such as reshape copy non-contiguous tensors: then the views between must not permute axes, and may
        slice only the first axis.
        """
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

    def _reshape_in_place(self, site: Site, name: str, args: dict[str, Any], value) -> None:
        """Change the shape of a tensor in place: its name becomes a view of its old value, and so do its
        other views.
        """
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
        """Assign the output to the first argument, which keeps its type and shape; the output is the same tensor."""
        assert site.first is not None
        old = self.read(site.first, context.where)
        if isinstance(old, Complex) or self.root(site.first) in self.seen:
            raise TVMError(
                "in-place changes of a complex tensor, or of a tensor with a complex view, are not supported"
            )
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
            raise TVMError(f"the model uses {count} outputs of the operator; only one is supported")
        if len(got) < count:
            raise TVMError(f"the model uses {count} outputs of the operator; only {len(got)} are supported")
        return [self.inferred(g) for g in list(got)[:count]]

    def inferred(self, value):
        """Infer the types of the tensors in a value; lists and tuples keep their structure."""
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

    # -- outputs --------------------------------------------------------------------------------------------------

    def result(self, value):
        """Return an output of the model as one expression.

        Lists, tuples and the values of dictionaries become tuples, numbers become tensors, and quantized tensors their
        integers.
        """
        if isinstance(value, (Number, Quantized)):
            return value.expr
        if isinstance(value, RelayExpr) or isinstance(value, TupleWrapper):
            return as_tensor(value)
        if isinstance(value, Complex):
            raise TVMError("an output of the model is complex; convert it to a real tensor by torch.view_as_real")
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, (list, tuple)):
            return Tuple([self.result(v) for v in value if v is not None])
        if isinstance(value, (bool, int, float)):
            dtype = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else self.default_dtype
            return Constant(np.array(value, dtype))
        raise TVMError(
            f"an output of the model is a {type(value).__name__}; only tensors, numbers, and lists, tuples "
            "and dictionaries of them are supported"
        )


def in_words(problem: Exception) -> str:
    """Return a message for an error in a converter."""
    if isinstance(problem, MemoryError):
        return "not enough memory"
    if isinstance(problem, RecursionError):
        return "nested graphs are too deep"
    if isinstance(problem, KeyError):
        return f"argument {problem} is missing or has an unknown value"
    return f"these arguments are not supported: {problem or type(problem).__name__}"


__all__ = ["MOST_NODES", "TorchImporter", "View", "in_words"]

"""The graph that an importer builds: values by name in nested scopes, weights, inputs, and node names in errors.

An importer of a format consists of a reader and a table of converters. The reader derives from ``GraphImporter``,
visits the nodes of the file inside ``at_node``, and passes each to a converter of the table.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ....dtype import canonical
from ....error import OpAttributeInvalid, TVMError
from ....ir.module import GlobalVar, IRModule
from ....ir.prim import Any_, SizeVar
from ....ir.span import Span
from ....ir.tensor_type import TensorType
from ....ir.type import TupleType, Type
from ....runtime import ndarray
from ...checked_type import typed_var, with_type
from ...expr import ORIGIN, Constant, Function, RelayExpr, Tuple, TupleGetItem, Var
from ...substitute import free_vars, substitute_vars
from ...transform.dead_code import reachable
from .incremental import IncrementalTyper, opened


class UnknownInput(TVMError, AssertionError):
    """A shape is given for an input that the model does not have. It is an AssertionError because scripts
    expect one.
    """


class MissingShape(TVMError):
    """The shape of an input is neither in the model nor given by the caller.

    ``problem`` is the message, ``name`` the input, and ``sizes`` the text of the known part of its shape.
    """

    def __init__(self, problem: str, name: str = "", sizes: str = "..."):
        super().__init__(f"{problem}; give it: shape={{'{name}': [{sizes}]}}" if name else problem)
        self.problem, self.name, self.sizes = problem, name, sizes


class ClosedScope(dict):
    """The values of a graph that becomes a separate function: values captured from outer scopes become parameters.

    ``captured`` maps the id of each captured value to the value and the parameter that replaces it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.captured: dict[int, tuple[RelayExpr, Var]] = {}


class GraphImporter:
    """Base class of importers. Values are stored by name, in one scope per graph; nested graphs also see outer scopes.

    With ``freeze``, weights of the outermost graph are constants; otherwise they are variables with their values in
    ``params``.
    """

    def __init__(self, freeze: bool = True):
        self.freeze = freeze
        self.scopes: list[dict[str, Any]] = [{}]
        self.params: dict[str, Any] = {}
        self.inputs: list[Var] = []
        self.typer = IncrementalTyper(self.params)
        # The functions that the graph calls, and the data types it uses.
        self.module = IRModule()
        self.numbers = itertools.count()
        # Dynamic dimensions of inputs: the type of each size variable, and the variable of each dimension name.
        self.dynamic_dims: dict[SizeVar, Any_] = {}
        self.named_sizes: dict[str, SizeVar] = {}
        # The input and the axis of which each variable is the size.
        self.holders: dict[SizeVar, tuple[RelayExpr, int]] = {}

    # -- values ---------------------------------------------------------------------------------------------------

    def weight(self, name: str, array) -> None:
        if self.freeze or len(self.scopes) > 1:
            self.scopes[-1][name] = Constant(array)
        else:
            self.params[name] = ndarray.array(array)
            self.scopes[-1][name] = Var(name, TensorType(array.shape, canonical(str(array.dtype))))

    def add_input(self, name: str, dims, dtype: str) -> Var:
        """Create an input of the model; the caller adds it to the scope.

        During the import, dynamic dimensions are variables, and equal names share one variable, so that computed shapes
        can be compared.
        """
        return self.add_open_input(name, TensorType(dims, dtype))

    def add_open_input(self, name: str, t: Type) -> Var:
        """Create an input of a type, possibly a tuple, that can have dynamic dimensions; see ``add_input``."""
        sized = _each_tensor(t, lambda s: TensorType([self._size(d) for d in s.shape], s.dtype))
        made = self.add_typed_input(name, sized)
        self._note_holders(made, made.type_annotation)
        return made

    def _note_holders(self, value: RelayExpr, t: Type) -> None:
        if isinstance(t, TupleType):
            for i, field in enumerate(t.fields):
                self._note_holders(TupleGetItem(value, i), field)
        elif isinstance(t, TensorType):
            for axis, d in enumerate(t.shape):
                if d in self.dynamic_dims:
                    self.holders.setdefault(d, (value, axis))

    def add_typed_input(self, name: str, t: Type) -> Var:
        """Create an input of any type."""
        variable = typed_var(name, t)
        self.inputs.append(variable)
        return variable

    def _size(self, d):
        if not isinstance(d, Any_):
            return d
        found = self.named_sizes.get(d.name)
        if found is None:
            found = SizeVar(d.name, "int64")
            self.dynamic_dims[found] = d
            if d.name != Any_().name:
                self.named_sizes[d.name] = found
        return found

    def value(self, name: str, where: str):
        crossed: list[ClosedScope] = []
        for scope in reversed(self.scopes):
            if name in scope:
                found = scope[name]
                for closed in reversed(crossed):
                    found = self.captured(closed, found)
                return found
            if isinstance(scope, ClosedScope):
                crossed.append(scope)
        raise TVMError(f"{where} uses '{name}', which is neither an input, a weight nor the output of a node")

    def captured(self, scope: ClosedScope, value: RelayExpr) -> RelayExpr:
        """Return the parameter that replaces a value from outside a closed scope; constants are used directly."""
        if isinstance(value, Constant):
            return value
        if id(value) not in scope.captured:
            variable = self.local(getattr(value, "name_hint", "outer"), self.typer.typed(value).checked_type_)
            self.typer.stands_for[id(variable)] = (variable, value)
            scope.captured[id(value)] = (value, variable)
        return scope.captured[id(value)][1]

    def local(self, name: str, t: Type) -> Var:
        """Create a variable of a function that the graph calls; its dynamic dimensions are not shared with model
        inputs.
        """
        variable = typed_var(name, opened(t))
        self.typer.locals.add(variable)
        return variable

    def given_type(self, e: RelayExpr, t: Type) -> RelayExpr:
        """Set the type of an expression that is not an operator call; its operands must have types."""
        with_type(e, t)
        self.typer.done[id(e)] = (e, e)
        return e

    def new_function(self, name: str) -> GlobalVar:
        """Return the name of a new function that the graph will call."""
        plain = "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
        return GlobalVar(f"{plain}_{next(self.numbers)}")

    @contextmanager
    def inner_scope(self, scope: dict[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        """Open a scope for the values of a nested graph."""
        self.scopes.append({} if scope is None else scope)
        try:
            yield self.scopes[-1]
        finally:
            self.scopes.pop()

    # -- nodes ----------------------------------------------------------------------------------------------------

    @contextmanager
    def at_node(self, where: str, name: str, in_words: Callable[[Exception], str]) -> Iterator[None]:
        """Set the context of the conversion of one node: its name is the span of new expressions, and errors begin with
        ``where``.

        An invalid model can raise any exception in a converter; ``in_words`` converts it to a message.
        """
        token = ORIGIN.set(Span(name))
        try:
            yield
        except TVMError as problem:
            if str(problem).startswith(where) or isinstance(problem, MissingShape):
                raise
            raise type(problem)(f"{where}: {problem}") from problem
        except Exception as problem:
            raise OpAttributeInvalid(f"{where}: {in_words(problem)}") from problem
        finally:
            ORIGIN.reset(token)

    # -- outputs --------------------------------------------------------------------------------------------------

    def finish(self, outputs: list[RelayExpr]) -> tuple[IRModule, dict[str, Any]]:
        """Return the module of the imported graph and the values of its parameters."""
        body = outputs[0] if len(outputs) == 1 else Tuple(outputs)
        extra = [v for v in free_vars(body) if v not in self.inputs]
        inputs = [self._opened(v) for v in self.inputs]
        if any(new is not old for new, old in zip(inputs, self.inputs)):
            body = substitute_vars(body, dict(zip(self.inputs, inputs)))
        main = Function([*inputs, *extra], body)
        module = IRModule.from_expr(main, self.module.functions, self.module.type_definitions)
        kept = reachable(module, ["main"])
        module = module.map_functions(lambda var, func: func if var.name_hint in kept else None)
        # A weight whose value was used as a size or an axis is already folded into the graph and is not a parameter.
        taken = {p.name_hint for p in main.params} if not self.freeze else set()
        return module, {name: array for name, array in self.params.items() if name in taken}

    def _opened(self, v: Var) -> Var:
        """Return the input with dynamic dimensions in place of size variables."""
        opened = _each_tensor(v.type_annotation, self._opened_tensor)
        return v if opened is v.type_annotation else Var(v.name_hint, opened, v.span)

    def _opened_tensor(self, t: TensorType) -> TensorType:
        if not any(d in self.dynamic_dims for d in t.shape):
            return t
        return TensorType([self.dynamic_dims.get(d, d) for d in t.shape], t.dtype)


def _each_tensor(t: Type | None, change: Callable[[TensorType], TensorType]) -> Any:
    """Return the type with ``change`` applied to its tensors, also in tuples; the same object if nothing changes."""
    if isinstance(t, TensorType):
        return change(t)
    if not isinstance(t, TupleType):
        return t
    fields = [_each_tensor(f, change) for f in t.fields]
    return t if all(new is old for new, old in zip(fields, t.fields)) else TupleType(fields)


__all__ = ["ClosedScope", "GraphImporter", "UnknownInput"]

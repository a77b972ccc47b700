"""The graph an importer builds: values by name in nested scopes, weights, inputs, and the names of nodes in errors.

An importer of a format is a reader and a table: its reader derives from ``GraphImporter``, walks the nodes of the file
inside ``at_node``, and hands each to a converter of its table.
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
    """A shape was given for an input that the model does not have; scripts expect an assertion."""


class MissingShape(TVMError):
    """The model does not give the shape of an input, and the caller does not either. ``problem`` says so, ``name`` is
    the input, ``sizes`` is the text of what is known of its shape."""

    def __init__(self, problem: str, name: str = "", sizes: str = "..."):
        super().__init__(f"{problem}; give it: shape={{'{name}': [{sizes}]}}" if name else problem)
        self.problem, self.name, self.sizes = problem, name, sizes


class ClosedScope(dict):
    """The values of a graph that becomes a function of its own: what it uses from around it becomes a parameter.
    ``captured`` has by identity each value from around and the variable that stands for it."""

    def __init__(self) -> None:
        super().__init__()
        self.captured: dict[int, tuple[RelayExpr, Var]] = {}


class GraphImporter:
    """Values are kept by name, in one table for each graph; inner graphs see the outer ones. With ``freeze`` weights of
    the outermost graph are constants; otherwise they are variables, whose values are in ``params``."""

    def __init__(self, freeze: bool = True):
        self.freeze = freeze
        self.scopes: list[dict[str, Any]] = [{}]
        self.params: dict[str, Any] = {}
        self.inputs: list[Var] = []
        self.typer = IncrementalTyper(self.params)
        # The functions that the graph calls, and the data types it uses.
        self.module = IRModule()
        self.numbers = itertools.count()
        # Open sizes of inputs: the variable of each, and the one of each name.
        self.open_sizes: dict[SizeVar, Any_] = {}
        self.named_sizes: dict[str, SizeVar] = {}
        # The input and the axis that each variable is the size of.
        self.holders: dict[SizeVar, tuple[RelayExpr, int]] = {}

    # -- values ---------------------------------------------------------------------------------------------------

    def weight(self, name: str, array) -> None:
        if self.freeze or len(self.scopes) > 1:
            self.scopes[-1][name] = Constant(array)
        else:
            self.params[name] = ndarray.array(array)
            self.scopes[-1][name] = Var(name, TensorType(array.shape, canonical(str(array.dtype))))

    def add_input(self, name: str, dims, dtype: str) -> Var:
        """An input of the model, which the caller enters into the scope. While importing, open sizes are variables, one
        for all of one name: what is computed from shapes is known to be equal where it is."""
        return self.add_open_input(name, TensorType(dims, dtype))

    def add_open_input(self, name: str, t: Type) -> Var:
        """An input of a type, the fields of a tuple among them, that may have open sizes, as ``add_input``."""
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
                if d in self.open_sizes:
                    self.holders.setdefault(d, (value, axis))

    def add_typed_input(self, name: str, t: Type) -> Var:
        """An input of any type."""
        variable = typed_var(name, t)
        self.inputs.append(variable)
        return variable

    def _size(self, d):
        if not isinstance(d, Any_):
            return d
        found = self.named_sizes.get(d.name)
        if found is None:
            found = SizeVar(d.name, "int64")
            self.open_sizes[found] = d
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
        raise TVMError(f"'{name}' is used by {where} but nothing makes it")

    def captured(self, scope: ClosedScope, value: RelayExpr) -> RelayExpr:
        """A value from around a closed scope as its graph sees it; constants are seen as they are."""
        if isinstance(value, Constant):
            return value
        if id(value) not in scope.captured:
            variable = self.local(getattr(value, "name_hint", "outer"), self.typer.typed(value).checked_type_)
            self.typer.stands_for[id(variable)] = (variable, value)
            scope.captured[id(value)] = (value, variable)
        return scope.captured[id(value)][1]

    def local(self, name: str, t: Type) -> Var:
        """A variable of a function that the graph calls. Sizes of inputs have no names in it."""
        variable = typed_var(name, opened(t))
        self.typer.locals.add(variable)
        return variable

    def given_type(self, e: RelayExpr, t: Type) -> RelayExpr:
        """An expression that is no operator, with its type; its operands have theirs."""
        with_type(e, t)
        self.typer.done[id(e)] = (e, e)
        return e

    def new_function(self, name: str) -> GlobalVar:
        """The name of a function that the graph will call."""
        plain = "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
        return GlobalVar(f"{plain}_{next(self.numbers)}")

    @contextmanager
    def inner_scope(self, scope: dict[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        """The values of a graph inside another one."""
        self.scopes.append({} if scope is None else scope)
        try:
            yield self.scopes[-1]
        finally:
            self.scopes.pop()

    # -- nodes ----------------------------------------------------------------------------------------------------

    @contextmanager
    def at_node(self, where: str, name: str, in_words: Callable[[Exception], str]) -> Iterator[None]:
        """The conversion of one node: what it becomes has its name as its span, and errors begin with ``where``. A
        model that lies about itself can break a converter anywhere; ``in_words`` says what is wrong with it."""
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

    # -- the result -----------------------------------------------------------------------------------------------

    def finish(self, outputs: list[RelayExpr]) -> tuple[IRModule, dict[str, Any]]:
        """The module of the imported graph, and the values of its parameters."""
        body = outputs[0] if len(outputs) == 1 else Tuple(outputs)
        extra = [v for v in free_vars(body) if v not in self.inputs]
        inputs = [self._opened(v) for v in self.inputs]
        if any(new is not old for new, old in zip(inputs, self.inputs)):
            body = substitute_vars(body, dict(zip(self.inputs, inputs)))
        main = Function([*inputs, *extra], body)
        module = IRModule.from_expr(main, self.module.functions, self.module.type_definitions)
        kept = reachable(module, ["main"])
        module = module.map_functions(lambda var, func: func if var.name_hint in kept else None)
        # A weight that gave a size or an axis is part of the graph by now, and no parameter of it.
        taken = {p.name_hint for p in main.params} if not self.freeze else set()
        return module, {name: array for name, array in self.params.items() if name in taken}

    def _opened(self, v: Var) -> Var:
        """The input as users see it, with open sizes in place of variables."""
        opened = _each_tensor(v.type_annotation, self._opened_tensor)
        return v if opened is v.type_annotation else Var(v.name_hint, opened, v.span)

    def _opened_tensor(self, t: TensorType) -> TensorType:
        if not any(d in self.open_sizes for d in t.shape):
            return t
        return TensorType([self.open_sizes.get(d, d) for d in t.shape], t.dtype)


def _each_tensor(t: Type | None, change: Callable[[TensorType], TensorType]) -> Any:
    """The type with its tensors changed, also in the fields of tuples; itself where nothing changes."""
    if isinstance(t, TensorType):
        return change(t)
    if not isinstance(t, TupleType):
        return t
    fields = [_each_tensor(f, change) for f in t.fields]
    return t if all(new is old for new, old in zip(fields, t.fields)) else TupleType(fields)


__all__ = ["ClosedScope", "GraphImporter", "UnknownInput"]

"""The graph an importer builds: values by name in nested scopes, weights, inputs, and the names of nodes in errors.

An importer of a format is a reader and a table: its reader derives from ``GraphImporter``, walks the nodes of the file
inside ``at_node``, and hands each to a converter of its table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ....dtype import canonical
from ....error import OpAttributeInvalid, TVMError
from ....ir.module import IRModule
from ....ir.span import Span
from ....ir.tensor_type import TensorType
from ....runtime import ndarray
from ...expr import ORIGIN, Constant, Function, RelayExpr, Tuple, Var
from ...substitute import free_vars
from .incremental import IncrementalTyper


class UnknownInput(TVMError, AssertionError):
    """A shape was given for an input that the model does not have; scripts expect an assertion."""


class GraphImporter:
    """Values are kept by name, in one table for each graph; inner graphs see the outer ones. With ``freeze`` weights of
    the outermost graph are constants; otherwise they are variables, whose values are in ``params``."""

    def __init__(self, freeze: bool = True):
        self.freeze = freeze
        self.scopes: list[dict[str, Any]] = [{}]
        self.params: dict[str, Any] = {}
        self.inputs: list[Var] = []
        self.typer = IncrementalTyper(self.params)

    # -- values ---------------------------------------------------------------------------------------------------

    def weight(self, name: str, array) -> None:
        if self.freeze or len(self.scopes) > 1:
            self.scopes[-1][name] = Constant(array)
        else:
            self.params[name] = ndarray.array(array)
            self.scopes[-1][name] = Var(name, TensorType(array.shape, canonical(str(array.dtype))))

    def add_input(self, name: str, dims, dtype: str) -> Var:
        """An input of the model, which the caller enters into the scope."""
        variable = Var(name, TensorType(dims, dtype))
        variable.checked_type_ = variable.type_annotation
        self.inputs.append(variable)
        return variable

    def value(self, name: str, where: str):
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        raise TVMError(f"'{name}' is used by {where} but nothing makes it")

    @contextmanager
    def inner_scope(self) -> Iterator[dict[str, Any]]:
        """The values of a graph inside another one."""
        self.scopes.append({})
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
            if str(problem).startswith(where):
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
        return IRModule.from_expr(Function([*self.inputs, *extra], body)), {} if self.freeze else self.params


__all__ = ["GraphImporter", "UnknownInput"]

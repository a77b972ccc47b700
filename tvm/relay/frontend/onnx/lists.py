"""Run-time sequences and optionals: Relay data types for lists and options, and functions over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ....error import TVMError
from ....ir.prim import Any_
from ....ir.tensor_type import TensorType
from ....ir.type import IncompleteType, Type, TypeCall
from ... import op as relay
from ...adt import Clause, Match, PatternConstructor, PatternVar, PatternWildcard
from ...expr import Call, Function, RelayExpr, Var, const
from ..common import run_time
from ..common.importer import MissingShape
from ..common.row_lists import RowLists
from .load import onnx_dtype
from .small_types import small_type
from .values import Choice, Nothing, Sequence, in_words, is_list, is_option, is_type, joined_type, opened

if TYPE_CHECKING:
    from .reader import Importer

# Positions are relative to the first element; ``Lists.place`` checks them.
LIBRARY = """
def @sequence_is_longer[A](%xs: List[A], %n: int64) -> bool {
  if (%n < 0i64) { True } else {
    match (%xs) { Cons(_, %rest) => @sequence_is_longer(%rest, %n - 1i64), Nil => False, }
  }
}

def @sequence_count[A](%xs: List[A], %n: int64) -> int64 {
  match (%xs) { Cons(_, %rest) => @sequence_count(%rest, %n + 1i64), Nil => %n, }
}

def @sequence_at[A](%xs: List[A], %n: int64) -> A {
  match? (%xs) { Cons(%x, %rest) => { if (%n == 0i64) { %x } else { @sequence_at(%rest, %n - 1i64) } }, }
}

def @sequence_insert[A](%xs: List[A], %n: int64, %x: A) -> List[A] {
  if (%n == 0i64) { Cons(%x, %xs) } else {
    match? (%xs) { Cons(%y, %rest) => Cons(%y, @sequence_insert(%rest, %n - 1i64, %x)), }
  }
}

def @sequence_append[A](%xs: List[A], %x: A) -> List[A] {
  match (%xs) { Cons(%y, %rest) => Cons(%y, @sequence_append(%rest, %x)), Nil => Cons(%x, Nil), }
}

def @sequence_erase[A](%xs: List[A], %n: int64) -> List[A] {
  match? (%xs) {
    Cons(%y, %rest) => { if (%n == 0i64) { %rest } else { Cons(%y, @sequence_erase(%rest, %n - 1i64)) } },
  }
}

def @has_element[A](%o: Option[A]) -> bool { match (%o) { Some(_) => True, None => False, } }

def @get_element[A](%o: Option[A]) -> A { match? (%o) { Some(%x) => %x, } }
"""


class Lists(RowLists):
    """The data types and functions for sequences in a module that is being imported; each is defined at its
    first use.
    """

    importer: Importer
    library = LIBRARY

    def option_of(self, held: Type) -> TypeCall:
        return TypeCall(self.module.get_type("Option")[0], (opened(held),))

    def declared(self, proto, dims: list | None, name: str) -> Type:
        """Return the declared type of a model input. Tensors of a sequence can differ in their dynamic dimensions."""
        kind = proto.WhichOneof("value")
        if kind == "optional_type":
            return self.option_of(self.declared(proto.optional_type.elem_type, dims, name))
        if kind == "sequence_type":
            return self.list_of(self.declared(proto.sequence_type.elem_type, dims, name))
        if kind != "tensor_type":
            raise TVMError(f"input '{name}' is not a tensor, sequence or optional; maps are not supported")
        t = proto.tensor_type
        small = small_type(t.elem_type)
        if small is not None:
            raise TVMError(f"input '{name}': sequences and optionals of {small.name} are not supported")
        if dims is None and not t.HasField("shape"):
            raise MissingShape(f"the model declares no shape for the tensors in input '{name}'", name)
        if dims is None:
            dims = [d.dim_value if d.HasField("dim_value") else Any_() for d in t.shape.dim]
        return TensorType(dims, onnx_dtype(t.elem_type))

    # -- values as expressions --------------------------------------------------------------------------------------

    def type_of(self, value) -> Type:
        """Return the Relay type of a value."""
        if isinstance(value, Sequence):
            element: Type = IncompleteType()
            for item in value.items:
                element = joined_type(element, self.type_of(item))
            return self.list_of(element)
        if isinstance(value, Nothing):
            return self.option_of(value.type)
        if isinstance(value, Choice):
            raise TVMError("a tensor's number of dimensions is known only at run time; this is not supported here")
        kind = self.importer.small.get(id(value))
        if kind is not None:
            raise TVMError(
                f"{kind[1].name} tensors are not supported in values that a run-time condition, loop or sequence "
                "determines"
            )
        return self.importer.typer.typed(value).checked_type_

    def expression(self, value, t: Type) -> RelayExpr:
        """Return a value as an expression of type ``t``."""
        if isinstance(value, Nothing):
            return self.call("None", [], t)
        if is_type(t, "Option") and not is_option(value):
            return self.call("Some", [self.expression(value, t.args[0])], t)
        if not isinstance(value, Sequence):
            return value
        made = self.call("Nil", [], t)
        for item in reversed(value.items):
            made = self.call("Cons", [item, made], t)
        return made

    def settled(self, t: Type) -> Type:
        """Return a complete type: a type parameter that the model does not determine becomes a float32 scalar."""
        if isinstance(t, IncompleteType):
            return TensorType((), "float32")
        return TypeCall(t.func, tuple(map(self.settled, t.args))) if isinstance(t, TypeCall) else t

    def element(self, xs: RelayExpr) -> Type:
        """Return the type of the tensors of a list."""
        found = xs.checked_type_.args[0]
        if isinstance(found, IncompleteType):
            raise TVMError("the sequence is empty, and the model does not determine its element type")
        return found

    def as_list(self, value) -> RelayExpr:
        return value if is_list(value) else self.expression(value, self.type_of(value))

    def mapped(self, xs: RelayExpr, change: Callable[[RelayExpr], RelayExpr], have: Type, made: Type) -> RelayExpr:
        """Return the list with ``change`` applied to each of its tensors."""
        x = Var("x", have)
        function = Function([x], change(x), made)
        return self.call("map", [function, xs], self.list_of(made))

    def concatenated(self, xs: RelayExpr, element: Type, axis: int, empty: bool = False) -> RelayExpr:
        if not isinstance(element, TensorType):
            raise TVMError(f"expected a sequence of tensors, got a sequence of {in_words(element)}")
        return super().concatenated(xs, element, axis, empty)

    # -- positions ----------------------------------------------------------------------------------------------------

    def count(self, xs: RelayExpr) -> RelayExpr:
        return self.call("sequence_count", [xs, const(0, "int64")], TensorType((), "int64"))

    def place(self, ctx, xs: RelayExpr, position: RelayExpr | None, ends: int = 0) -> RelayExpr:
        """Return a position as a non-negative index; ``position`` None is the last element.

        The run ends with an error if the position is out of range. With ``ends`` 1 the position after the last element
        is valid.
        """
        infer = self.importer.typer.infer
        at = const(-1, "int64") if position is None else infer(relay.cast(relay.reshape(position, ()), "int64"))
        known = ctx.value(at)
        if position is None:
            words = "cannot read or erase an element of an empty sequence"
        elif known is not None:
            words = f"the sequence has no position {int(known)}"
        else:
            words = f"the position in input '{ctx.node.input[1 + ends]}' is out of range for the sequence"
        if known is None or int(known) < 0:
            at = infer(relay.where(relay.less(at, const(0, "int64")), relay.add(at, self.count(xs)), at))
        before = infer(relay.subtract(at, const(ends, "int64")))
        inside = self.call("sequence_is_longer", [xs, before], TensorType((), "bool"))
        inside = relay.logical_and(relay.greater_equal(at, const(0, "int64")), inside)
        return run_time.checked(ctx, at, infer(inside), words)

    # -- errors at run time -------------------------------------------------------------------------------------------

    def never(self, t: Type, name: str) -> RelayExpr:
        """Return an expression of this type whose evaluation ends the run with an error that contains ``name``."""
        many, x = self.list_of(t), Var("x", opened(t))
        xs, function = Var("xs", many), self.importer.new_function(name)
        one = PatternConstructor(self.constructor("Cons"), (PatternVar(x), PatternWildcard()))
        self.importer.module[function] = Function([xs], Match(xs, [Clause(one, x)], False), x.type_annotation)
        return self.importer.given_type(Call(function, (self.call("Nil", [], many),)), x.type_annotation)


__all__ = ["Lists"]

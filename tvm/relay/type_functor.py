"""Visitors and mutators of types under the names of Apache TVM."""

from __future__ import annotations

from typing import Any

from ..ir.adt import Constructor, TypeData
from ..ir.tensor_type import TensorType
from ..ir.type import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RelayRefType,
    TupleType,
    Type,
    TypeCall,
    TypeRelation,
    TypeVar,
)

_METHODS = {
    TypeVar: "visit_type_var",
    IncompleteType: "visit_incomplete_type",
    TensorType: "visit_tensor_type",
    FuncType: "visit_func_type",
    TupleType: "visit_tuple_type",
    TypeRelation: "visit_type_relation",
    RelayRefType: "visit_ref_type",
    GlobalTypeVar: "visit_global_type_var",
    TypeCall: "visit_type_call",
    TypeData: "visit_type_data",
}


class TypeFunctor:
    """Dispatches to the method for the class of a type."""

    def visit(self, typ: Type) -> Any:
        """Return the result of the method for the class of a type.

        Parameters
        ----------
        typ : Type
            The type.

        Returns
        -------
        Any
            The result of the method.

        Raises
        ------
        TypeError
            No method handles the type.
        """
        name = _METHODS.get(type(typ))
        if name is None:
            raise TypeError(f"{type(self).__name__} has no method for {type(typ).__name__}")
        return getattr(self, name)(typ)

    def _unknown(self, typ: Type) -> Any:
        """Return the result for a type of one class; subclasses define this method for each class that they handle.

        Parameters
        ----------
        typ : Type
            The type.

        Returns
        -------
        Any

        Raises
        ------
        NotImplementedError
            The subclass does not define it.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define {_METHODS[type(typ)]}")

    visit_type_var = visit_incomplete_type = visit_tensor_type = visit_func_type = visit_tuple_type = _unknown
    visit_type_relation = visit_ref_type = visit_global_type_var = visit_type_call = visit_type_data = _unknown


class TypeVisitor(TypeFunctor):
    """Visits every part of a type; subclasses override the methods of interest."""

    def _leaf(self, typ: Type) -> None:
        """Visit a type without parts.

        Parameters
        ----------
        typ : TypeVar, IncompleteType, TensorType or GlobalTypeVar
            The type.
        """

    visit_type_var = visit_incomplete_type = visit_tensor_type = visit_global_type_var = _leaf

    def visit_func_type(self, ft: FuncType) -> None:
        """Visit a function type: its arguments, result, type parameters and their constraints.

        Parameters
        ----------
        ft : FuncType
            The type.
        """
        for part in (*ft.arg_types, ft.ret_type, *ft.type_params, *ft.type_constraints):
            self.visit(part)

    def visit_tuple_type(self, tt: TupleType) -> None:
        """Visit a tuple type and its fields.

        Parameters
        ----------
        tt : TupleType
            The type.
        """
        for field in tt.fields:
            self.visit(field)

    def visit_type_relation(self, tr: TypeRelation) -> None:
        """Visit a type relation and the types that it relates.

        Parameters
        ----------
        tr : TypeRelation
            The relation.
        """
        for arg in tr.args:
            self.visit(arg)

    def visit_ref_type(self, rt: RelayRefType) -> None:
        """Visit a reference type and the type of its value.

        Parameters
        ----------
        rt : RelayRefType
            The type.
        """
        self.visit(rt.value)

    def visit_type_call(self, tc: TypeCall) -> None:
        """Visit a type call: the applied type and its arguments.

        Parameters
        ----------
        tc : TypeCall
            The type.
        """
        for part in (tc.func, *tc.args):
            self.visit(part)

    def visit_type_data(self, td: TypeData) -> None:
        """Visit a type definition: its name, variables and constructor fields.

        Parameters
        ----------
        td : TypeData
            The definition.
        """
        for part in (td.header, *td.type_vars):
            self.visit(part)
        for constructor in td.constructors:
            for field in constructor.inputs:
                self.visit(field)


class TypeMutator(TypeFunctor):
    """Rebuilds types; subclasses override the methods of interest."""

    def _leaf(self, typ: Type) -> Type:
        """Return a type without parts unchanged.

        Parameters
        ----------
        typ : TypeVar, IncompleteType, TensorType or GlobalTypeVar
            The type.

        Returns
        -------
        Type
            The same type.
        """
        return typ

    visit_type_var = visit_incomplete_type = visit_tensor_type = visit_global_type_var = _leaf

    def _all(self, types: Any) -> tuple:
        return tuple(self.visit(t) for t in types)

    def visit_func_type(self, ft: FuncType) -> Type:
        """Return the rewritten function type.

        Parameters
        ----------
        ft : FuncType
            The type.

        Returns
        -------
        Type
            The type with rewritten arguments, result, type parameters and constraints.
        """
        return FuncType(self._all(ft.arg_types), self.visit(ft.ret_type), self._all(ft.type_params),
                        self._all(ft.type_constraints))  # fmt: skip

    def visit_tuple_type(self, tt: TupleType) -> Type:
        """Return the rewritten tuple type.

        Parameters
        ----------
        tt : TupleType
            The type.

        Returns
        -------
        Type
            The type with rewritten fields.
        """
        return TupleType(self._all(tt.fields))

    def visit_type_relation(self, tr: TypeRelation) -> Type:
        """Return the rewritten type relation.

        Parameters
        ----------
        tr : TypeRelation
            The relation.

        Returns
        -------
        Type
            The same relation between the rewritten types.
        """
        return TypeRelation(tr.func, self._all(tr.args), tr.num_inputs, tr.attrs)

    def visit_ref_type(self, rt: RelayRefType) -> Type:
        """Return the rewritten reference type.

        Parameters
        ----------
        rt : RelayRefType
            The type.

        Returns
        -------
        Type
            The type with a rewritten value type.
        """
        return RelayRefType(self.visit(rt.value))

    def visit_type_call(self, tc: TypeCall) -> Type:
        """Return the rewritten type call.

        Parameters
        ----------
        tc : TypeCall
            The type.

        Returns
        -------
        Type
            The type with rewritten parts.
        """
        return TypeCall(self.visit(tc.func), self._all(tc.args))

    def visit_type_data(self, td: TypeData) -> Type:
        """Return the rewritten type definition.

        Parameters
        ----------
        td : TypeData
            The definition.

        Returns
        -------
        TypeData
            The definition with rewritten name, variables and constructor fields.
        """
        constructors = [Constructor(c.name_hint, self._all(c.inputs), self.visit(c.belong_to)) for c in td.constructors]
        return TypeData(self.visit(td.header), self._all(td.type_vars), tuple(constructors))


__all__ = ["TypeFunctor", "TypeMutator", "TypeVisitor"]

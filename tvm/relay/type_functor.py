"""Visitors and mutators of types under TVM's names."""

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
    """Calls the method for the class of a type."""

    def visit(self, typ: Type) -> Any:
        """The result for a type: what the method for its class gives.

        Parameters
        ----------
        typ : Type
            The type.

        Returns
        -------
        Any

        Raises
        ------
        TypeError
            It is no type that a method is for.
        """
        name = _METHODS.get(type(typ))
        if name is None:
            raise TypeError(f"no method of {type(self).__name__} visits {type(typ).__name__}")
        return getattr(self, name)(typ)

    def _unknown(self, typ: Type) -> Any:
        """What stands for a type of one class; subclasses define it for each class that they meet.

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
    """Looks at every part of a type; subclasses define what they care about."""

    def _leaf(self, typ: Type) -> None:
        """Visit a type that has no parts.

        Parameters
        ----------
        typ : TypeVar, IncompleteType, TensorType or GlobalTypeVar
            The type.
        """

    visit_type_var = visit_incomplete_type = visit_tensor_type = visit_global_type_var = _leaf

    def visit_func_type(self, ft: FuncType) -> None:
        """Visit the type of a function: its arguments, its result, its parameters of type and their constraints.

        Parameters
        ----------
        ft : FuncType
            The type.
        """
        for part in (*ft.arg_types, ft.ret_type, *ft.type_params, *ft.type_constraints):
            self.visit(part)

    def visit_tuple_type(self, tt: TupleType) -> None:
        """Visit the type of a tuple: its fields.

        Parameters
        ----------
        tt : TupleType
            The type.
        """
        for field in tt.fields:
            self.visit(field)

    def visit_type_relation(self, tr: TypeRelation) -> None:
        """Visit a relation between types: those it relates.

        Parameters
        ----------
        tr : TypeRelation
            The relation.
        """
        for arg in tr.args:
            self.visit(arg)

    def visit_ref_type(self, rt: RelayRefType) -> None:
        """Visit the type of a reference: that of its value.

        Parameters
        ----------
        rt : RelayRefType
            The type.
        """
        self.visit(rt.value)

    def visit_type_call(self, tc: TypeCall) -> None:
        """Visit a type with arguments: the type that is applied, and the arguments.

        Parameters
        ----------
        tc : TypeCall
            The type.
        """
        for part in (tc.func, *tc.args):
            self.visit(part)

    def visit_type_data(self, td: TypeData) -> None:
        """Visit the definition of a type: its name, its variables, and the fields of its constructors.

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
    """Makes types anew; subclasses change what they care about."""

    def _leaf(self, typ: Type) -> Type:
        """What stands for a type that has no parts: itself.

        Parameters
        ----------
        typ : TypeVar, IncompleteType, TensorType or GlobalTypeVar
            The type.

        Returns
        -------
        Type
        """
        return typ

    visit_type_var = visit_incomplete_type = visit_tensor_type = visit_global_type_var = _leaf

    def _all(self, types: Any) -> tuple:
        return tuple(self.visit(t) for t in types)

    def visit_func_type(self, ft: FuncType) -> Type:
        """What stands for the type of a function.

        Parameters
        ----------
        ft : FuncType
            The type.

        Returns
        -------
        Type
            One whose arguments, result, parameters of type and constraints were visited.
        """
        return FuncType(self._all(ft.arg_types), self.visit(ft.ret_type), self._all(ft.type_params),
                        self._all(ft.type_constraints))  # fmt: skip

    def visit_tuple_type(self, tt: TupleType) -> Type:
        """What stands for the type of a tuple.

        Parameters
        ----------
        tt : TupleType
            The type.

        Returns
        -------
        Type
            One whose fields were visited.
        """
        return TupleType(self._all(tt.fields))

    def visit_type_relation(self, tr: TypeRelation) -> Type:
        """What stands for a relation between types.

        Parameters
        ----------
        tr : TypeRelation
            The relation.

        Returns
        -------
        Type
            The same relation between the types that were visited.
        """
        return TypeRelation(tr.func, self._all(tr.args), tr.num_inputs, tr.attrs)

    def visit_ref_type(self, rt: RelayRefType) -> Type:
        """What stands for the type of a reference.

        Parameters
        ----------
        rt : RelayRefType
            The type.

        Returns
        -------
        Type
            One whose value was visited.
        """
        return RelayRefType(self.visit(rt.value))

    def visit_type_call(self, tc: TypeCall) -> Type:
        """What stands for a type with arguments.

        Parameters
        ----------
        tc : TypeCall
            The type.

        Returns
        -------
        Type
            One whose parts were visited.
        """
        return TypeCall(self.visit(tc.func), self._all(tc.args))

    def visit_type_data(self, td: TypeData) -> Type:
        """What stands for the definition of a type.

        Parameters
        ----------
        td : TypeData
            The definition.

        Returns
        -------
        TypeData
            One whose name, variables and fields of constructors were visited.
        """
        constructors = [
            Constructor(c.name_hint, self._all(c.inputs), self.visit(c.belong_to)) for c in td.constructors
        ]
        return TypeData(self.visit(td.header), self._all(td.type_vars), tuple(constructors))


__all__ = ["TypeFunctor", "TypeMutator", "TypeVisitor"]

"""Operators: one record per operator or intrinsic, looked up by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..error import TVMError
from ..registry import Registry
from .node import Node

if TYPE_CHECKING:
    from .span import Span

OPS: Registry[Op] = Registry("operator")
# Type relations by name: ``rule(attrs, types) -> type`` relates the types of inputs and output.
TYPE_RELATIONS: Registry[Callable[[Any, list[Any]], Any]] = Registry("type relation")


class Argument(NamedTuple):
    """The description of an operator's input."""

    name: str
    type_info: str
    description: str


class Op(Node, key="Op"):
    """An operator. ``attrs`` contains its properties: effect, type relation, fusion pattern, lowering rules.

    Parameters
    ----------
    name : str
        The name.
    description : str, optional
        A one-sentence description.
    num_inputs : int, optional
        The number of inputs; -1 for any number.
    attrs : dict, optional
        The properties of the operator.
    """

    name: str
    description: str = ""
    num_inputs: int = -1
    attrs: Any = None
    _mutable = True

    def __init__(
        self, name: str, description: Any = "", num_inputs: Any = -1, attrs: Any = None, span: Span | None = None
    ):
        self.name = name
        self.description = description
        self.num_inputs = num_inputs
        self.attrs = {} if attrs is None else attrs
        self.span = span

    @staticmethod
    def get(op_name: str) -> Op:
        """The operator of a name.

        Parameters
        ----------
        op_name : str
            The name.

        Returns
        -------
        Op
            The operator.

        Raises
        ------
        AttributeError
            There is no such operator.
        """
        got = OPS.get(op_name)
        if got is None:
            raise AttributeError(f"operator '{op_name}' is not registered")
        return got

    @staticmethod
    def list_op_names() -> list[str]:
        """The names of all operators.

        Returns
        -------
        list of str
            The names.
        """
        return OPS.names()

    def get_attr(self, attr_name: str) -> Any:
        """An attribute of the operator.

        Parameters
        ----------
        attr_name : str
            Its name.

        Returns
        -------
        Any
            The value, or None if the attribute is not set.
        """
        return self.attrs.get(attr_name)

    def has_attr(self, attr_name: str) -> bool:
        """Whether the operator has an attribute.

        Parameters
        ----------
        attr_name : str
            Its name.

        Returns
        -------
        bool
            Whether the attribute is set.
        """
        return attr_name in self.attrs

    def set_attr(self, attr_name: str, value: Any, plevel: int = 10) -> None:
        """Set an attribute of the operator.

        Parameters
        ----------
        attr_name : str
            Its name.
        value : Any
            Its value.
        plevel : int
            Ignored: the last value is used.
        """
        self.attrs[attr_name] = value

    def reset_attr(self, attr_name: str) -> None:
        """Remove an attribute of the operator.

        Parameters
        ----------
        attr_name : str
            Its name.
        """
        self.attrs.pop(attr_name, None)
        _LEVELS.pop((self.name, attr_name), None)

    # -- defining an operator from Python -----------------------------------------------------------------------

    def set_num_inputs(self, n: int) -> None:
        """Set the number of inputs of the operator.

        Parameters
        ----------
        n : int
            The number.
        """
        self.num_inputs = self.attrs["num_inputs"] = int(n)

    def add_argument(self, name: str, type: str, description: str) -> None:
        """Describe the next input.

        Parameters
        ----------
        name : str
            Its name.
        type : str
            Its type.
        description : str
            What it is.
        """
        self.attrs["arguments"] = (*self.arguments, Argument(name, type, description))

    @property
    def arguments(self) -> tuple[Argument, ...]:
        return self.attrs.get("arguments", ())

    def set_support_level(self, level: int) -> None:
        """Set the support level of the operator; 1 is best.

        Parameters
        ----------
        level : int
            The level.
        """
        self.attrs["support_level"] = int(level)

    @property
    def support_level(self) -> int:
        return self.attrs.get("support_level", 10)

    def set_attrs_type_key(self, key: str) -> None:
        """Set the attribute class of the operator's calls.

        Parameters
        ----------
        key : str
            The name of the class.
        """
        self.attrs["attrs_type_key"] = key

    def add_type_rel(self, rel_name: str, type_rel_func: Callable[[list[Any], Any], Any] | None = None) -> None:
        """Set the type relation: ``type_rel_func(input types, attributes)`` returns the output type; or a registered
        name.

        Parameters
        ----------
        rel_name : str
            The name of the relation.
        type_rel_func : Callable, optional
            The relation.

        Raises
        ------
        TVMError
            No function is given, and no relation with this name is registered.
        """
        if type_rel_func is None and rel_name not in TYPE_RELATIONS:
            raise TVMError(
                f"unknown type relation '{rel_name}'; registered relations: {', '.join(TYPE_RELATIONS.names())}"
            )
        if "type_rule" in self.attrs:
            raise TVMError(f"operator {self.name} already has a type relation")
        if type_rel_func is None:
            self.attrs["type_rule"] = TYPE_RELATIONS[rel_name]
            return

        def rule(attrs: Any, types: Any) -> Any:
            return type_rel_func(list(types), attrs)

        self.attrs["type_rule"] = rule

    def __str__(self):
        return f"Op({self.name})"

    __repr__ = __str__


def register_op(name: str, description: str = "", num_inputs: int = -1, **attrs: Any) -> Op:
    """Create the operator ``name``; raise an error if the name is in use."""
    return OPS.register(name, Op(name, description, num_inputs, attrs))


# Priorities of attributes set through register_op_attr: (operator, key) -> level.
_LEVELS: dict[tuple[str, str], int] = {}


def register_op_attr(op_name: str, attr_key: str, value: Any = None, level: int = 10):
    """Set an attribute of an operator and create the operator if necessary. Without a value, return a decorator.

    Parameters
    ----------
    op_name : str
        The name of the operator.
    attr_key : str
        The attribute.
    value : optional
        Its value.
    level : int, optional
        The priority; a value that was set with a higher level is kept.

    Returns
    -------
    callable
        The value, or a decorator where there is none.
    """

    def set_value(v: Any):
        op = OPS.get(op_name) or register_op(op_name)
        if _LEVELS.get((op_name, attr_key), -1) <= level:
            op.attrs[attr_key] = v
            _LEVELS[(op_name, attr_key)] = level
        return v

    return set_value(value) if value is not None else set_value


def register_intrin_lowering(op_name: str, target: str, *, f: Any = None, level: int = 10):
    """Register how a back end lowers a call of ``op_name`` to simpler expressions: ``f(call) -> expression``.

    Parameters
    ----------
    op_name : str
        The name of the operator.
    target : str
        The target kind, or "default".
    f : callable, optional
        The rule; without it, a decorator is returned.
    level : int, optional
        The priority; a rule that was set with a higher level is kept.

    Returns
    -------
    callable
        The rule, or a decorator if there is no rule.
    """
    return register_op_attr(op_name, target + ".FLowerIntrinsic", f, level)

"""IR modules, and the base classes of functions and relational expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any
from zlib import crc32

from ..hooks import Hook
from .attrs import near_matches
from .node import Node
from .prim import BaseExpr, Call
from .type import TAG_BITS, GlobalTypeVar

if TYPE_CHECKING:
    from .span import Span

IMPORT_STANDARD: Hook[[Any, str], None] = Hook(
    "ir.module.IMPORT_STANDARD", "adds the definitions of a Relay library file to a module"
)
AS_TEXT: Hook[[Any, bool, Any], str] = Hook(
    "ir.module.AS_TEXT",
    "prints a graph or module, `(node, show_meta_data, annotate)`",
    lambda node, show_meta_data, annotate: str(node),
)
PICTURE: Hook[[Any], str] = Hook(
    "ir.module.PICTURE", "renders the graphs of a module as HTML; empty without graphs", lambda module: ""
)
RELAY_CALL: Hook[[Any, tuple[Any, ...]], Any] = Hook("ir.module.RELAY_CALL", "creates a call of a Relay function")
RELAY_FUNCTION: Hook[[Any], Any] = Hook(
    "ir.module.RELAY_FUNCTION", "creates a function whose parameters are the free variables of an expression"
)


# The upper bits of a constructor's tag identify its type; tags are positive int32.
_MOST_TYPES = (1 << 14) - 1


class CallingConv(IntEnum):
    """The calling convention of a function."""

    DEFAULT = 0
    C_PACKED_FUNC = 1
    DEVICE_KERNEL_LAUNCH = 2


class RelayExpr(BaseExpr):
    """Base class of expressions over tensors and functions; ``checked_type`` is set after type inference."""

    _followed = True

    @property
    def checked_type(self):
        got = getattr(self, "checked_type_", None)
        if got is None:
            raise ValueError(f"the type of this {type(self).__name__} has not been inferred; run InferType first")
        return got

    def astext(self, show_meta_data: Any = True, annotate: Any = None) -> str:
        """The text of the expression in Relay's syntax.

        Parameters
        ----------
        show_meta_data : bool, optional
            Whether to append the constants, so that ``tvm.relay.fromtext`` can parse the text.
        annotate : callable, optional
            A function that returns a comment for each expression.

        Returns
        -------
        str
        """
        return AS_TEXT(self, show_meta_data, annotate)


class GlobalVar(RelayExpr, key="GlobalVar", derived={"checked_type_": "None"}):
    """The name of a function in a module.

    Parameters
    ----------
    name_hint : str
        The name.
    type_annot : Type, optional
        The type of the function.
    """

    name_hint: str
    type_annot: Any = None

    def __call__(self, *args: Any):
        if RELAY_CALL and (not args or any(isinstance(a, RelayExpr) for a in args)):
            return RELAY_CALL(self, args)
        return Call("void", self, args)


class BaseFunc(RelayExpr):
    """Base class of functions of every IR; ``attrs`` is a dictionary of attributes."""

    if TYPE_CHECKING:

        @property
        def attrs(self) -> Any: ...

    @property
    def checked_type(self):
        return None

    def get_attr(self, key: str, default: Any = None) -> Any:
        """An attribute of the function.

        Parameters
        ----------
        key : str
            Its name.
        default : Any, optional
            The value where it is not set.

        Returns
        -------
        Any
            Its value.
        """
        return self.attrs.get(key, default)

    def with_attr(self, attr_key_or_dict: Any, attr_value: Any = None):
        """A copy with an attribute, or several.

        Parameters
        ----------
        attr_key_or_dict : str or dict
            Its name, or values by name.
        attr_value : Any, optional
            Its value.

        Returns
        -------
        BaseFunc
            The copy.
        """
        if isinstance(attr_key_or_dict, Mapping):
            return self.replace(attrs={**self.attrs, **attr_key_or_dict})
        return self.replace(attrs={**self.attrs, attr_key_or_dict: attr_value})

    def without_attr(self, attr_key: str):
        """A copy without an attribute.

        Parameters
        ----------
        attr_key : str
            Its name.

        Returns
        -------
        BaseFunc
            The copy.
        """
        return self.replace(attrs={k: v for k, v in self.attrs.items() if k != attr_key})


class Definitions(dict[Any, Any]):
    """The definitions of a module by variable. ``items()`` returns a list, because scripts index it."""

    def items(self) -> list:  # type: ignore[override]
        return list(super().items())


class IRModule(Node, key="IRModule"):
    """Functions by name. The only mutable node: passes create a new module, but users may add functions.

    Parameters
    ----------
    functions : dict of GlobalVar or str to BaseFunc, optional
        The functions.
    type_definitions : dict of GlobalTypeVar to TypeData, optional
        The algebraic data types.
    attrs : DictAttrs or dict, optional
        Attributes of the module.
    """

    _compared = "functions attrs type_definitions"

    _mutable = True

    functions: dict[Any, Any]
    type_definitions: dict[Any, Any]
    attrs: dict[Any, Any]

    def __init__(
        self, functions: Any = None, type_definitions: Any = None, attrs: Any = None, span: Span | None = None
    ):
        self.functions = Definitions()
        self.type_definitions = Definitions(type_definitions or {})
        self.attrs = dict(attrs or {})
        self.span = span
        for name, function in (functions or {}).items():
            self[name] = function

    def __setitem__(self, var: Any, value: Any) -> None:
        if isinstance(var, GlobalTypeVar):
            self.type_definitions[var] = value
            for number, constructor in enumerate(getattr(value, "constructors", ())):
                constructor.tag = self._tag(var, number) if constructor.tag < 0 else constructor.tag
            return
        if RELAY_FUNCTION and isinstance(value, RelayExpr) and not isinstance(value, (BaseFunc, GlobalVar)):
            value = RELAY_FUNCTION(value)
        name = var.name_hint if isinstance(var, GlobalVar) else str(var)
        for old in self.functions:
            if old.name_hint == name:
                self.functions[old] = value
                return
        self.functions[var if isinstance(var, GlobalVar) else GlobalVar(name)] = value

    def _tag(self, var: GlobalTypeVar, number: int) -> int:
        """Return a tag prefix that no other type of the module uses.

        The upper bits are derived from the name of the type, so they are the same in every module without a
        collision."""
        others = {c.tag >> TAG_BITS for v, data in self.type_definitions.items() if v.name_hint != var.name_hint
                  for c in getattr(data, "constructors", ())}  # fmt: skip
        upper = crc32(var.name_hint.encode()) % _MOST_TYPES + 1
        while upper in others:
            upper = upper % _MOST_TYPES + 1
        return upper << TAG_BITS | number

    def __getitem__(self, var: Any):
        if isinstance(var, GlobalTypeVar):
            return self.type_definitions[var]
        if isinstance(var, GlobalVar):
            if var in self.functions:
                return self.functions[var]
            var = var.name_hint
        return self.functions[self.get_global_var(var)]

    def __delitem__(self, var: Any) -> None:
        name = var.name_hint if isinstance(var, GlobalVar) else var
        del self.functions[self.get_global_var(name)]

    def __contains__(self, var: Any) -> bool:
        if isinstance(var, GlobalTypeVar):
            return var in self.type_definitions
        name = var.name_hint if isinstance(var, GlobalVar) else var
        return any(v.name_hint == name for v in self.functions)

    def __iter__(self) -> Iterator[GlobalVar]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def update(self, other: Any) -> None:
        """Add (or replace by name) the functions and type definitions of another module or dictionary.

        Parameters
        ----------
        other : IRModule or dict
            The functions.
        """
        if isinstance(other, IRModule):
            self.type_definitions.update(other.type_definitions)
            other = other.functions
        for var, function in other.items():
            self[var] = function

    def update_func(self, var: GlobalVar, func: Any) -> None:
        """Replace a function, or add it.

        Parameters
        ----------
        var : GlobalVar
            The name of the function.
        func : BaseFunc
            The function.
        """
        self[var] = func

    def _add(self, var: Any, val: Any, update: bool = True) -> None:
        """Add a function; ``update`` allows replacing a function of the same name."""
        if not update and var in self:
            raise ValueError(f"the module already has a function '{getattr(var, 'name_hint', var)}'")
        self[var] = val

    def get_global_var(self, name: str) -> GlobalVar:
        """The variable that names a function.

        Parameters
        ----------
        name : str
            The name.

        Returns
        -------
        GlobalVar
            The variable.

        Raises
        ------
        ValueError
            The module has no function of this name.
        """
        for var in self.functions:
            if var.name_hint == name:
                return var
        names = [v.name_hint for v in self.functions]
        hint = near_matches(str(name), names) if names else "it is empty"
        raise ValueError(f"the module has no function '{name}'; {hint}")

    def get_global_vars(self) -> list[GlobalVar]:
        """The names of all functions.

        Returns
        -------
        list of GlobalVar
            The variables.
        """
        return sorted(self.functions, key=lambda v: v.name_hint)

    def get_global_type_var(self, name: str) -> GlobalTypeVar:
        """The variable that names a type.

        Parameters
        ----------
        name : str
            The name.

        Returns
        -------
        GlobalTypeVar
            The variable.

        Raises
        ------
        ValueError
            The module has no type of this name.
        """
        for var in self.type_definitions:
            if var.name_hint == name:
                return var
        raise ValueError(f"the module has no type '{name}'; it has: {', '.join(self._type_names()) or 'none'}")

    def get_global_type_vars(self) -> list[GlobalTypeVar]:
        """The names of all types.

        Returns
        -------
        list of GlobalTypeVar
            The variables.
        """
        return sorted(self.type_definitions, key=lambda v: v.name_hint)

    def _type_names(self) -> list[str]:
        return [v.name_hint for v in self.get_global_type_vars()]

    def get_type(self, name: str) -> tuple[Any, ...]:
        """The type with this name, followed by its constructors.

        Parameters
        ----------
        name : str
            The name of the type.

        Returns
        -------
        tuple
            The type, then each constructor.
        """
        var = self.get_global_type_var(name)
        return (var, *self.type_definitions[var].constructors)

    def get_constructor(self, tag: int) -> Any:
        """The constructor with a given tag.

        Parameters
        ----------
        tag : int
            The tag.

        Returns
        -------
        Constructor
            The constructor.

        Raises
        ------
        ValueError
            No type has a constructor with this tag.
        """
        for var in self.get_global_type_vars():
            for constructor in self.type_definitions[var].constructors:
                if constructor.tag == tag:
                    return constructor
        raise ValueError(f"the module has no constructor with tag {tag}")

    def import_from_std(self, file_to_import: str) -> None:
        """Add the definitions of a file of Relay's standard library.

        Parameters
        ----------
        file_to_import : str
            The file, such as "prelude.rly".

        Raises
        ------
        ValueError
            The file does not exist.
        """
        if not IMPORT_STANDARD:
            raise ValueError("import_from_std needs tvm.relay; import it first")
        IMPORT_STANDARD(self, file_to_import)

    def get_attr(self, attr_key: str) -> Any:
        """An attribute of the module.

        Parameters
        ----------
        attr_key : str
            Its name.

        Returns
        -------
        Any
            The value, or None if the attribute is not set.
        """
        return self.attrs.get(attr_key)

    def with_attr(self, attr_key: str, attr_value: Any) -> IRModule:
        """A copy with an attribute.

        Parameters
        ----------
        attr_key : str
            Its name.
        attr_value : Any
            Its value.

        Returns
        -------
        IRModule
            The copy.
        """
        new = self.clone()
        new.attrs[attr_key] = attr_value
        return new

    def without_attr(self, attr_key: str) -> IRModule:
        """A copy without an attribute.

        Parameters
        ----------
        attr_key : str
            Its name.

        Returns
        -------
        IRModule
            The copy.
        """
        new = self.clone()
        new.attrs.pop(attr_key, None)
        return new

    def _move(self) -> IRModule:
        return self

    def clone(self) -> IRModule:
        """A copy with the same functions, which can be modified independently.

        Returns
        -------
        IRModule
            The copy.
        """
        new = IRModule(None, self.type_definitions, self.attrs)
        new.functions = Definitions(self.functions)
        return new

    def map_functions(self, f: Callable[[Any, Any], Any]) -> IRModule:
        """A module in which ``f(global_var, function)`` replaces each function; None removes the function.

        Parameters
        ----------
        f : Callable
            A function that returns the replacement of each function.

        Returns
        -------
        IRModule
            The module.
        """
        new = self.clone()
        new.functions = Definitions()
        for var, function in self.functions.items():
            got = f(var, function)
            if got is not None:
                new.functions[var] = got
        return new

    @staticmethod
    def from_expr(expr: Any, functions: Any = None, type_defs: Any = None) -> IRModule:
        """A module whose ``main`` is the expression; a function with a global symbol keeps its own name.

        Parameters
        ----------
        expr : RelayExpr or BaseFunc
            The expression or function; an expression becomes a function of its free variables.
        functions : dict, optional
            Further functions by their variables.
        type_defs : dict, optional
            Type definitions by their variables.

        Returns
        -------
        IRModule
            The module.
        """
        mod = IRModule(functions, type_defs)
        name = expr.attrs.get("global_symbol", "main") if isinstance(expr, BaseFunc) else "main"
        mod[GlobalVar(str(name))] = expr
        return mod

    def astext(self, show_meta_data: Any = True, annotate: Any = None) -> str:
        """The text of the module, which ``tvm.relay.fromtext`` can parse.

        Parameters
        ----------
        show_meta_data : bool
            Whether to append the constants.
        annotate : Callable, optional
            A function that returns a comment for each expression.

        Returns
        -------
        str
            The text.
        """
        return AS_TEXT(self, show_meta_data, annotate)

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks: the graphs of the functions and the text."""
        from ..drawing.page import escape, fragment

        graphs = PICTURE(self)
        text = f"<pre>{escape(AS_TEXT(self, False, None))}</pre>"
        return fragment(f"{graphs}<details><summary>text</summary>{text}</details>" if graphs else text)

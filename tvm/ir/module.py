"""Functions and modules of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .node import Node
from .prim import BaseExpr


class GlobalVar(BaseExpr, key="GlobalVar"):
    """The name of a function in a module."""

    name_hint: str
    type_annot: Any = None

    def __call__(self, *args):
        from .prim import Call

        return Call("void", self, args)


class BaseFunc(BaseExpr):
    """Base of functions of every IR; ``attrs`` is a dictionary of facts about the function."""

    @property
    def checked_type(self):
        return None

    def get_attr(self, key: str, default: Any = None) -> Any:
        return self.attrs.get(key, default)

    def with_attr(self, attr_key_or_dict, attr_value=None):
        if isinstance(attr_key_or_dict, Mapping):
            return self.replace(attrs={**self.attrs, **attr_key_or_dict})
        return self.replace(attrs={**self.attrs, attr_key_or_dict: attr_value})

    def without_attr(self, attr_key: str):
        return self.replace(attrs={k: v for k, v in self.attrs.items() if k != attr_key})


class IRModule(Node, key="IRModule"):
    """Functions by name. The one mutable node: passes build a new module, users may add to one."""

    functions: dict
    type_definitions: dict
    attrs: dict

    def __init__(self, functions=None, type_definitions=None, attrs=None, span=None):
        self.functions = {}
        self.type_definitions = dict(type_definitions or {})
        self.attrs = dict(attrs or {})
        self.span = span
        for name, function in (functions or {}).items():
            self[name] = function

    def __setitem__(self, var, value) -> None:
        name = var.name_hint if isinstance(var, GlobalVar) else str(var)
        for old in self.functions:
            if old.name_hint == name:
                self.functions[old] = value
                return
        self.functions[var if isinstance(var, GlobalVar) else GlobalVar(name)] = value

    def __getitem__(self, var):
        return self.functions[var if isinstance(var, GlobalVar) and var in self.functions else self.get_global_var(
            var.name_hint if isinstance(var, GlobalVar) else var)]

    def __contains__(self, var) -> bool:
        name = var.name_hint if isinstance(var, GlobalVar) else var
        return any(v.name_hint == name for v in self.functions)

    def __iter__(self) -> Iterator[GlobalVar]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def update(self, other) -> None:
        for var, function in (other.functions if isinstance(other, IRModule) else other).items():
            self[var] = function

    def update_func(self, var: GlobalVar, func) -> None:
        self[var] = func

    def get_global_var(self, name: str) -> GlobalVar:
        for var in self.functions:
            if var.name_hint == name:
                return var
        known = ", ".join(sorted(v.name_hint for v in self.functions)) or "none"
        raise ValueError(f"the module has no function '{name}'; it has: {known}")

    def get_global_vars(self) -> list[GlobalVar]:
        return sorted(self.functions, key=lambda v: v.name_hint)

    def get_attr(self, attr_key: str) -> Any:
        return self.attrs.get(attr_key)

    def with_attr(self, attr_key: str, attr_value: Any) -> IRModule:
        new = self.clone()
        new.attrs[attr_key] = attr_value
        return new

    def clone(self) -> IRModule:
        new = IRModule(None, self.type_definitions, self.attrs)
        new.functions = dict(self.functions)
        return new

    def map_functions(self, f) -> IRModule:
        """A module with ``f(global_var, function)`` in place of each function; None drops it."""
        new = self.clone()
        new.functions = {}
        for var, function in self.functions.items():
            got = f(var, function)
            if got is not None:
                new.functions[var] = got
        return new

    @staticmethod
    def from_expr(expr, functions=None, type_defs=None) -> IRModule:
        mod = IRModule(functions, type_defs)
        name = expr.attrs.get("global_symbol", "main") if isinstance(expr, BaseFunc) else "main"
        mod[GlobalVar(str(name))] = expr
        return mod

    def astext(self, show_meta_data=True, annotate=None) -> str:
        return str(self)

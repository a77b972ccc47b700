"""Generation of unique names."""

from __future__ import annotations

from collections.abc import Iterable

from .module import GlobalVar, IRModule


class NameSupply:
    """Generates unique names: a number is appended to a name that is in use.

    Parameters
    ----------
    prefix : str, optional
        The prefix of all names.
    """

    def __init__(self, prefix: str = ""):
        self.prefix = prefix
        self._next: dict[str, int] = {}

    def _full(self, name: str, add_prefix: bool) -> str:
        return f"{self.prefix}_{name}" if add_prefix and self.prefix else name

    def fresh_name(self, name: str, add_prefix: bool = True) -> str:
        """A new unique name, which is marked as used.

        Parameters
        ----------
        name : str
            The preferred name; a number is appended if it is in use.
        add_prefix : bool, optional
            Whether to add the prefix of the supply.

        Returns
        -------
        str
        """
        wanted = self._full(name, add_prefix)
        got = wanted
        count = self._next.get(wanted, -1)
        if count >= 0:
            while got in self._next:
                count += 1
                got = f"{wanted}_{count}"
            self._next[wanted] = count
        self._next.setdefault(got, 0)
        return got

    def reserve_name(self, name: str, add_prefix: bool = True) -> str:
        """Mark ``name`` as used; the name with its prefix.

        Parameters
        ----------
        name : str
            The name.
        add_prefix : bool, optional
            Whether to add the prefix of the supply.

        Returns
        -------
        str
            The reserved name, which may already be in use.
        """
        wanted = self._full(name, add_prefix)
        self._next.setdefault(wanted, 0)
        return wanted

    def contains_name(self, name: str, add_prefix: bool = True) -> bool:
        """Whether a name is in use.

        Parameters
        ----------
        name : str
            The name.
        add_prefix : bool, optional
            Whether to add the prefix of the supply.

        Returns
        -------
        bool
        """
        return self._full(name, add_prefix) in self._next


class GlobalVarSupply:
    """Creates GlobalVars with names that are unique in some modules.

    Parameters
    ----------
    value : NameSupply | IRModule | Iterable[IRModule], optional
        The names in use: a name supply, or one or more modules.
    """

    def __init__(self, value: NameSupply | IRModule | Iterable[IRModule] | None = None):
        self._vars: dict[str, GlobalVar] = {}
        self.name_supply = value if isinstance(value, NameSupply) else NameSupply()
        if isinstance(value, IRModule):
            value = [value]
        if value is not None and not isinstance(value, NameSupply):
            for mod in value:
                for var in mod.get_global_vars():
                    self.reserve_global(var)

    def fresh_global(self, name: str, add_prefix: bool = True) -> GlobalVar:
        """A new GlobalVar with a unique name.

        Parameters
        ----------
        name : str
            The preferred name; a number is appended if it is in use.
        add_prefix : bool, optional
            Whether to add the prefix of the name supply.

        Returns
        -------
        GlobalVar
        """
        var = GlobalVar(self.name_supply.fresh_name(name, add_prefix))
        self._vars[var.name_hint] = var
        return var

    def unique_global_for(self, name: str, add_prefix: bool = True) -> GlobalVar:
        """The GlobalVar of this name; repeated calls return the same one.

        Parameters
        ----------
        name : str
            The name.
        add_prefix : bool, optional
            Whether to add the prefix of the name supply.

        Returns
        -------
        GlobalVar
            Created at the first call with this name.
        """
        full = self.name_supply.reserve_name(name, add_prefix)
        return self._vars.setdefault(full, GlobalVar(full))

    def reserve_global(self, global_var: GlobalVar, allow_conflict: bool = False) -> None:
        """Reserve the name of an existing GlobalVar.

        Parameters
        ----------
        global_var : GlobalVar
            The variable, which ``unique_global_for`` will return for its name.
        allow_conflict : bool, optional
            Whether it may replace another GlobalVar with the same name.

        Raises
        ------
        ValueError
            Another GlobalVar has the name, and ``allow_conflict`` is false.
        """
        name = global_var.name_hint
        if not allow_conflict and self._vars.get(name, global_var) is not global_var:
            raise ValueError(f"two functions are named '{name}'")
        self.name_supply.reserve_name(name, False)
        self._vars[name] = global_var


__all__ = ["GlobalVarSupply", "NameSupply"]

"""Names that are not taken yet."""

from __future__ import annotations

from collections.abc import Iterable

from .module import GlobalVar, IRModule


class NameSupply:
    """Gives names, each once: a name in use gets a number.

    Parameters
    ----------
    prefix : str, optional
        What every name begins with.
    """

    def __init__(self, prefix: str = ""):
        self.prefix = prefix
        self._next: dict[str, int] = {}

    def _full(self, name: str, add_prefix: bool) -> str:
        return f"{self.prefix}_{name}" if add_prefix and self.prefix else name

    def fresh_name(self, name: str, add_prefix: bool = True) -> str:
        """A name that was not given yet, which is taken from then on.

        Parameters
        ----------
        name : str
            The name that is wanted; where it is taken, a number comes after it.
        add_prefix : bool, optional
            Whether the prefix of the supply comes before it.

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
        """Take ``name`` as it is; the name with the prefix.

        Parameters
        ----------
        name : str
            The name.
        add_prefix : bool, optional
            Whether the prefix of the supply comes before it.

        Returns
        -------
        str
            The name that is taken; it may have been taken before.
        """
        wanted = self._full(name, add_prefix)
        self._next.setdefault(wanted, 0)
        return wanted

    def contains_name(self, name: str, add_prefix: bool = True) -> bool:
        """Whether a name is taken.

        Parameters
        ----------
        name : str
            The name.
        add_prefix : bool, optional
            Whether the prefix of the supply comes before it.

        Returns
        -------
        bool
        """
        return self._full(name, add_prefix) in self._next


class GlobalVarSupply:
    """Gives GlobalVars with names that are free in some modules.

    Parameters
    ----------
    value : NameSupply | IRModule | Iterable[IRModule], optional
        What names are taken already: a supply of names, a module or several.
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
        """A new GlobalVar with a name that is not taken.

        Parameters
        ----------
        name : str
            The name that is wanted; where it is taken, a number comes after it.
        add_prefix : bool, optional
            Whether the prefix of the supply of names comes before it.

        Returns
        -------
        GlobalVar
        """
        var = GlobalVar(self.name_supply.fresh_name(name, add_prefix))
        self._vars[var.name_hint] = var
        return var

    def unique_global_for(self, name: str, add_prefix: bool = True) -> GlobalVar:
        """The GlobalVar of this name: always the same one.

        Parameters
        ----------
        name : str
            The name.
        add_prefix : bool, optional
            Whether the prefix of the supply of names comes before it.

        Returns
        -------
        GlobalVar
            Made when the name is first asked for.
        """
        full = self.name_supply.reserve_name(name, add_prefix)
        return self._vars.setdefault(full, GlobalVar(full))

    def reserve_global(self, global_var: GlobalVar, allow_conflict: bool = False) -> None:
        """Take the name of a GlobalVar that exists.

        Parameters
        ----------
        global_var : GlobalVar
            The variable, which ``unique_global_for`` gives for its name from then on.
        allow_conflict : bool, optional
            Whether it may replace another GlobalVar of the same name.

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

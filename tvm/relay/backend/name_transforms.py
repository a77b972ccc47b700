"""Names of functions, variables and constants in generated C, with the prefix TVM, or TVMGen for generated names."""

from __future__ import annotations

from ...error import TVMError
from ...runtime.name_transforms import sanitize_name


def _prefixed(name: str, what: str) -> str:
    if not name:
        raise TVMError(f"{what} name is empty")
    if not name.startswith("TVM"):
        raise TVMError(f"{what} not TVM prefixed: '{name}'")
    return name


def to_c_function_style(original_name: str) -> str:
    """Convert a name to the style of functions: ``TVM_my_function`` becomes ``TVMMyFunction``.

    Parameters
    ----------
    original_name : str
        The name, with the prefix TVM.

    Returns
    -------
    str
    """
    words = _prefixed(original_name, "Function").split("_")
    return "".join(w[:1].upper() + w[1:] for w in words)


def to_c_variable_style(original_name: str) -> str:
    """Convert a name to the style of variables: ``TVM_My_Variable`` becomes ``tvm_my_variable``.

    Parameters
    ----------
    original_name : str
        The name, with the prefix TVM.

    Returns
    -------
    str
    """
    return _prefixed(original_name, "Variable").lower()


def to_c_constant_style(original_name: str) -> str:
    """Convert a name to the style of constants: ``TVM_My_Constant`` becomes ``TVM_MY_CONSTANT``.

    Parameters
    ----------
    original_name : str
        The name, with the prefix TVM.

    Returns
    -------
    str
    """
    return _prefixed(original_name, "Constant").upper()


def _joined(names: list[str] | str, prefix: str) -> str:
    if names == "":
        raise TVMError("Name is empty")
    segments = [names] if isinstance(names, str) else list(names)
    if not segments:
        raise TVMError("Name segments empty")
    if "" in segments:
        raise TVMError("Name segment is empty")
    return "_".join([prefix, *segments])


def prefix_name(names: list[str] | str) -> str:
    """Add the prefix TVM to a name.

    Parameters
    ----------
    names : str or list of str
        The name, or its parts.

    Returns
    -------
    str
    """
    return _joined(names, "TVM")


def prefix_generated_name(names: list[str] | str) -> str:
    """Add the prefix TVMGen, which generated names have, to a name.

    Parameters
    ----------
    names : str or list of str
        The name, or its parts.

    Returns
    -------
    str
    """
    return _joined(names, "TVMGen")


__all__ = [
    "prefix_generated_name",
    "prefix_name",
    "sanitize_name",
    "to_c_constant_style",
    "to_c_function_style",
    "to_c_variable_style",
]

"""Names of functions, variables and constants in generated C: they begin with TVM, or TVMGen where a model has them."""

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
    """A name as of a function: ``TVM_my_function`` becomes ``TVMMyFunction``.

    Parameters
    ----------
    original_name : str
        The name, which begins with TVM.

    Returns
    -------
    str
    """
    words = _prefixed(original_name, "Function").split("_")
    return "".join(w[:1].upper() + w[1:] for w in words)


def to_c_variable_style(original_name: str) -> str:
    """A name as of a variable: ``TVM_My_Variable`` becomes ``tvm_my_variable``.

    Parameters
    ----------
    original_name : str
        The name, which begins with TVM.

    Returns
    -------
    str
    """
    return _prefixed(original_name, "Variable").lower()


def to_c_constant_style(original_name: str) -> str:
    """A name as of a constant: ``TVM_My_Constant`` becomes ``TVM_MY_CONSTANT``.

    Parameters
    ----------
    original_name : str
        The name, which begins with TVM.

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
    """A name, or its parts, behind TVM.

    Parameters
    ----------
    names : str or list of str
        The name.

    Returns
    -------
    str
    """
    return _joined(names, "TVM")


def prefix_generated_name(names: list[str] | str) -> str:
    """A name, or its parts, behind TVMGen, as what is generated for a model has it.

    Parameters
    ----------
    names : str or list of str
        The name.

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

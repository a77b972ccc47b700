"""The library of the accelerator."""

from __future__ import annotations

from ...error import TVMError
from . import _lib


def find_libvta(lib_vta: str, optional: bool = False) -> list[str]:
    """Find the library with the simulators.

    Parameters
    ----------
    lib_vta : str
        The name of a library of Apache TVM, such as ``libvta_fsim``; one library contains all simulators.
    optional : bool
        Whether the library may be missing.

    Returns
    -------
    list of str
        The path; empty if the library is missing and optional.

    Raises
    ------
    TVMError
        The library is missing and not optional.
    """
    try:
        return [_lib.find_library()]
    except TVMError:
        if optional:
            return []
        raise TVMError(f"{lib_vta}: the simulator library was not found; build it with 'make -C csrc'") from None

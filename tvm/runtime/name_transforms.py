"""Conversion of names to C identifiers."""

from __future__ import annotations

import re

from ..error import TVMError


def sanitize_name(original_name: str) -> str:
    """A name in which an underscore replaces every character that is invalid in a C identifier.

    Parameters
    ----------
    original_name : str
        The name.

    Returns
    -------
    str

    Raises
    ------
    TVMError
        The name is empty.

    Examples
    --------
    >>> tvm.runtime.name_transforms.sanitize_name("input:0")
    'input_0'
    """
    if not original_name:
        raise TVMError("Name is empty")
    return re.sub(r"\W", "_", original_name, flags=re.ASCII)


__all__ = ["sanitize_name"]

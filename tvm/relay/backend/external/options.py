"""The options of an external code generator during a compilation."""

from __future__ import annotations

from typing import Any

from ....error import TVMError
from ....ir.transform import PassContext
from ....target.kinds import KINDS
from ....target.parse import checked_value
from ...op.contrib.codegen import CODEGENS


def typed_options(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a code generator, converted to their types, with the defaults of the others.

    Raises
    ------
    TVMError
        An option is unknown, or its value has the wrong type.
    """
    kind = KINDS[name]
    known = CODEGENS[name].options
    out = {key: kind.schema[key].default for key in known}
    for key, value in given.items():
        if key not in known:
            raise TVMError(
                f"code generator '{name}' has no option '{key}'; its options are {', '.join(known) or 'none'}"
            )
        out[key] = checked_value(kind, key, value)
    return out


def options_of(name: str) -> dict[str, Any]:
    """Return the options of a code generator in the current ``PassContext``.

    They are the pass option ``relay.ext.<name>.options``, which ``tvmc`` sets from ``--target`` and
    ``--target-<name>-<option>``; options that are not given have their defaults.

    Parameters
    ----------
    name : str
        The name of the code generator.

    Returns
    -------
    dict of str to object

    Raises
    ------
    TVMError
        An option is unknown, or its value has the wrong type.
    """
    return typed_options(name, dict(PassContext.current().config.get(CODEGENS[name].config_key) or {}))


__all__ = ["options_of", "typed_options"]

"""The operator library: operators on tensors, defined by tensor expressions."""

from __future__ import annotations

import importlib

from . import broadcast, indexing, math, random, reduction, scan, scatter, signal, slicing, tag, transform, utils
from .broadcast import *
from .math import *
from .reduction import *
from .transform import *
from .scan import *
from .compaction import *
from .signal import *
from .utils import get_const_int, get_const_tuple

# These modules have the same name as one of their functions; the name refers to the function.
from .einsum import *
from .sort import *
from .descriptions import describe as _describe

_describe(list(globals().values()), __name__)


def __getattr__(name: str):
    """Import a submodule on first use: ``topi.nn``, ``topi.image``, ``topi.x86`` and so on."""
    if name.startswith("_"):
        raise AttributeError(f"module 'tvm.topi' has no attribute '{name}'")
    try:
        return importlib.import_module("." + name, __name__)
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
        raise AttributeError(f"module 'tvm.topi' has no attribute '{name}'") from None

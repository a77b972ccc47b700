"""The operator library: tensors in, tensors out, written in tensor expressions."""

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

# These files have the name of a function of theirs; the function is what the name means.
from .einsum import *
from .sort import *
from .descriptions import describe as _describe

_describe(list(globals().values()), __name__)


def __getattr__(name: str):
    """Parts that are loaded when they are first named: ``topi.nn``, ``topi.image``, ``topi.x86`` and so on."""
    if name.startswith("_"):
        raise AttributeError(f"module 'tvm.topi' has no attribute '{name}'")
    try:
        return importlib.import_module("." + name, __name__)
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
        raise AttributeError(f"module 'tvm.topi' has no attribute '{name}'") from None

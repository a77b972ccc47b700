"""Operators of quantized networks."""

from . import qnn
from .qnn import *
from .descriptions import PARAMETERS as _PARAMETERS
from ....topi.descriptions import describe as _describe

_describe(list(globals().values()), __name__, "Expr", "TupleWrapper of Expr", _PARAMETERS)

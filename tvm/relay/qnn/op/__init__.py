"""The operators of the QNN dialect."""

from . import qnn
from .qnn import *
from .op import register_qnn_canonicalize, register_qnn_legalize
from . import canonicalizations, legalizations
from .descriptions import PARAMETERS as _PARAMETERS
from ....topi.descriptions import describe as _describe

_describe(list(globals().values()), __name__, "Expr", "TupleWrapper of Expr", _PARAMETERS)

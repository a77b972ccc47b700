"""Operators: one record each."""

from ...ir.op import Op, register_intrin_lowering, register_op_attr
from . import (
    algorithm,
    annotation,
    contrib,
    dynamic,
    image,
    indexing,
    nn,
    op,
    random,
    reduce,
    signal,
    tensor,
    transform,
)
from . import vision
from .algorithm import *
from .indexing import *
from .op import get, register, register_pattern, register_stateful
from .record import OpPattern, as_expr, call
from .reduce import *
from .signal import *
from .tensor import *
from .transform import *

# The older path of these names.
for _source in (indexing, signal):
    transform.__dict__.update({name: getattr(_source, name) for name in _source.__all__})
_TENSOR = ("concatenate", "ndarray_size", "ones", "shape_of", "stack", "zeros")
tensor.__dict__.update({name: getattr(transform, name) for name in _TENSOR})
transform.__dict__["cast"] = tensor.__dict__["cast"]

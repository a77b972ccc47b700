"""Operators: one record each."""

from ...ir.op import Op, register_intrin_lowering, register_op_attr
from . import algorithm, annotation, contrib, image, indexing, nn, op, random, reduce, tensor, transform, vision
from .algorithm import *
from .indexing import *
from .op import get, register, register_pattern, register_stateful
from .record import OpPattern, as_expr, call
from .reduce import *
from .tensor import *
from .transform import *

# The older path of these names.
transform.__dict__.update({name: getattr(indexing, name) for name in indexing.__all__})
_TENSOR = ("concatenate", "ndarray_size", "ones", "shape_of", "stack", "zeros")
tensor.__dict__.update({name: getattr(transform, name) for name in _TENSOR})
transform.__dict__["cast"] = tensor.__dict__["cast"]

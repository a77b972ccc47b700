"""Relay operators, with one record for each."""

from ...ir.op import Op, register_intrin_lowering, register_op_attr
from . import (
    algorithm,
    annotation,
    contrib,
    dynamic,
    image,
    indexing,
    memory,
    nn,
    op,
    random,
    reduce,
    signal,
    sparse,
    tensor,
    transform,
)
from . import vision
from . import vm

# Adds implementations to the records, so it is imported after them.
from . import strategy
from .algorithm import *
from .indexing import *
from .op import (
    OpImplementation,
    OpSpecialization,
    OpStrategy,
    get,
    register,
    register_alter_op_layout,
    register_broadcast_schedule,
    register_compute,
    register_convert_op_layout,
    register_external_compiler,
    register_fake_quantization_to_integer,
    register_gradient,
    register_infer_correct_layout,
    register_injective_schedule,
    register_legalize,
    register_mixed_precision_conversion,
    register_optional_fake_quantization_to_integer,
    register_pattern,
    register_reduce_schedule,
    register_schedule,
    register_shape_func,
    register_stateful,
    register_strategy,
)
from .record import OpPattern, as_expr, call
from .reduce import *
from .signal import *
from .sparse import *
from .support_level import set_levels as _set_levels
from .tensor import *
from .transform import *

from ...not_built import name_of as _name_of
from ...topi.descriptions import describe as _describe
from .record import describe_outputs as _describe_outputs

# Deprecated import paths of these names.
for _source in (indexing, signal, sparse):
    transform.__dict__.update({name: getattr(_source, name) for name in _source.__all__})
_TENSOR = ("concatenate", "ndarray_size", "ones", "shape_of", "stack", "zeros")
tensor.__dict__.update({name: getattr(transform, name) for name in _TENSOR})
transform.__dict__["cast"] = tensor.__dict__["cast"]

for _operators in (globals(), nn.__dict__, image.__dict__, vision.__dict__, random.__dict__):
    _describe(list(_operators.values()), __name__, "Expr", "TupleWrapper of Expr")
    _describe_outputs(list(_operators.values()), __name__)

_set_levels()


def __getattr__(name: str):
    return _name_of(__name__, name)

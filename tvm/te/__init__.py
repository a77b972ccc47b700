"""Tensor expressions and schedules."""

from ..ir.prim import Range, Var
from ..ir.primop import add, multiply, subtract
from ..tir.op import (
    abs,
    acos,
    acosh,
    all,
    any,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    ceil,
    ceildiv,
    comm_reducer,
    const,
    copysign,
    cos,
    cosh,
    div,
    erf,
    exp,
    exp2,
    exp10,
    floor,
    floordiv,
    floormod,
    fmod,
    hypot,
    if_then_else,
    indexdiv,
    indexmod,
    isfinite,
    isinf,
    isnan,
    ldexp,
    likely,
    log,
    log1p,
    log2,
    log10,
    max,
    max_value,
    min,
    min_value,
    nearbyint,
    nextafter,
    popcount,
    power,
    prod,
    q_multiply_shift,
    round,
    rsqrt,
    sigmoid,
    sin,
    sinh,
    sqrt,
    sum,
    tan,
    tanh,
    trace,
    trunc,
    truncdiv,
    truncmod,
)
from . import elementwise, hybrid, operation, schedule, tag, tensor, tensor_intrin
from .operation import compute, extern, placeholder, reduce_axis, scan, size_var, thread_axis, var
from .primfunc import create_prim_func, extern_primfunc
from .schedule import Schedule, Stage, create_schedule, replay
from .tag import tag_scope
from .condition import SpecializedCondition
from ..tir.index_map import IndexMap as _IndexMap
from .tensor import (
    BaseComputeOp,
    ComputeOp,
    ExternOp,
    HybridOp,
    Operation,
    PlaceholderOp,
    ScanOp,
    Tensor,
    TensorComputeOp,
    TensorSlice,
)
from .tensor_intrin import TensorIntrin, decl_tensor_intrin
from ..not_built import name_of as _name_of

AXIS_SEPARATOR = _IndexMap.AXIS_SEPARATOR


def __getattr__(name: str):
    return _name_of(__name__, name)

"""Relay: models as functions over tensors, graph passes, and compilation."""

import importlib

from ..ir import adt as _adt
from ..ir import module as _module
from ..ir.tensor_type import TensorType
from ..ir.adt import Constructor, TypeData
from ..ir.base import SourceName, Span
from ..ir.type import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    TupleType,
    TypeCall,
    TypeConstraint,
    TypeKind,
    TypeRelation,
    TypeVar,
)
from ..ir.type import RelayRefType as RefType
from ..runtime.params import load_param_dict, save_param_dict
from . import adt, backend, expr, op, parser, printer, ty
from .constants import const
from .adt import Clause, Match, Pattern, PatternConstructor, PatternTuple, PatternVar, PatternWildcard
from .expr import (
    Any,
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    RelayExpr,
    TempExpr,
    Tuple,
    TupleGetItem,
    TupleWrapper,
    Var,
    bind,
    var,
)
from .op import annotation, contrib, image, nn, random, vision
from .op.algorithm import *
from .op.indexing import *
from .op.reduce import *
from .op.signal import *
from .op.sparse import *
from .op.tensor import *
from .op.transform import *
from .build_module import build, optimize
from .backend import aot as _aot
from .interpreter import create_executor
from .parser import fromtext, parse, parse_expr
from .transform.span_check import SpanCheck
from .printer import astext, pretty_print
from .substitute import free_vars
from . import analysis, base, dataflow_pattern, expr_functor, function, infer_adt, loops, param_dict, prelude
from . import scope_builder, testing, transform, type_functor
from .prelude import Prelude
from .scope_builder import ScopeBuilder
from .ty import ShapeVar, scalar_type
from .type_functor import TypeFunctor, TypeMutator, TypeVisitor
from . import with_fields as _with_fields
from .with_fields import FunctionWithFields
from .expr_functor import ExprFunctor, ExprMutator, ExprVisitor
from . import qnn
from .op import layout as _layout
from .op.nn import cpu_layout as _cpu_layout
from .op.nn import cpu_layout_nd as _cpu_layout_nd
from .op.nn import layer_hooks as _layer_hooks
from .transform import build_config
from .transform.function_pass import InferType


# The deprecated import path of these names.
expr.__dict__.update({name: getattr(_with_fields, name) for name in _with_fields.__all__})


def _call(op_, args):
    return Call(op_, args)


_module.RELAY_CALL.give(_call)
_module.RELAY_FUNCTION.give(lambda body: Function(free_vars(body), body))
_adt.CALL.give(_call)
printer.install()
_layout.install()
_cpu_layout.install()
_cpu_layout_nd.install()
_layer_hooks.install()


def __getattr__(name: str):
    # These modules depend on Relay, so they are imported on first access.
    if name in ("collage", "data_dep_optimization", "frontend", "quantize", "vm"):
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'tvm.relay' has no attribute '{name}'")

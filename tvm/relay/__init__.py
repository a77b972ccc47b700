"""The graph language: models as functions over tensors, the passes that improve them, and their compilation."""

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
from . import adt, expr, op, parser, printer
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
    Tuple,
    TupleGetItem,
    TupleWrapper,
    Var,
    bind,
    const,
    var,
)
from .op import annotation, image, nn, random, vision
from .op.algorithm import *
from .op.indexing import *
from .op.reduce import *
from .op.signal import *
from .op.tensor import *
from .op.transform import *
from .build_module import build, optimize
from .interpreter import create_executor
from .parser import fromtext, parse, parse_expr
from .printer import astext, pretty_print
from .substitute import free_vars
from . import analysis, dataflow_pattern, expr_functor, infer_adt, prelude, testing, transform
from .expr_functor import ExprFunctor, ExprMutator, ExprVisitor
from . import qnn
from .op import layout as _layout
from .op.nn import cpu_layout as _cpu_layout
from .op.nn import cpu_layout_nd as _cpu_layout_nd
from .transform import build_config
from .transform.function_pass import InferType


def _call(op_, args):
    return Call(op_, args)


_module.RELAY_CALL[:] = [_call]
_module.RELAY_FUNCTION[:] = [lambda body: Function(free_vars(body), body)]
_adt.CALL[:] = [_call]
printer.install()
_layout.install()
_cpu_layout.install()
_cpu_layout_nd.install()


def __getattr__(name: str):
    # The importers stand above the graph language: they are loaded when a script first names them.
    if name == "frontend":
        return importlib.import_module(".frontend", __name__)
    raise AttributeError(f"module 'tvm.relay' has no attribute '{name}'")

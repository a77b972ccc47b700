"""Compile functions with the c back end and call them on NumPy arrays, without argument checks in between."""

from __future__ import annotations

import ctypes

import numpy

from tests.codegen.raw import elementwise, numpy_dtype
from tvm.codegen.c import build as c
from tvm.ir.module import GlobalVar, IRModule
from tvm.target import Target
from tvm.tir.function import PrimFunc

_SCALARS = {"int32": ctypes.c_int32, "int64": ctypes.c_int64, "float32": ctypes.c_float, "float64": ctypes.c_double}


def module_of(*functions: PrimFunc) -> IRModule:
    return IRModule({GlobalVar(str(f.attrs["global_symbol"])): f for f in functions})


def text_of(*functions: PrimFunc) -> str:
    return c.build(module_of(*functions), Target("c")).get_source()


def body_of(function: PrimFunc) -> str:
    """The text of the function alone."""
    return "\n".join(c.emit_source([(str(function.attrs["global_symbol"]), function)]).functions)


def compile_raw(function: PrimFunc, target: str = "c"):
    """A callable that takes arrays (as pointers) and numbers for the parameters."""
    name = str(function.attrs["global_symbol"])
    built = c.build(module_of(function), Target(target))
    code = built._info.load()
    kinds = [ctypes.c_void_p if p.dtype == "handle" else _SCALARS[p.dtype] for p in function.params]
    call = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(code.symbols[name])

    def run(*args) -> int:
        return call(*[a.ctypes.data if isinstance(a, numpy.ndarray) else a for a in args])

    run.code = code
    return run


def run_elementwise(expression, arrays, result: str, lanes: int = 1):
    """The values of ``expression`` over arrays of one length."""
    size = arrays[0].size
    run = compile_raw(elementwise(expression, [str(a.dtype) for a in arrays], result, size, lanes))
    out = numpy.zeros(size, numpy_dtype(result))
    assert run(*arrays, out) == 0
    return out

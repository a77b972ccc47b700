"""Compile one function with the llvm back end and call it on NumPy arrays, without argument checks in between."""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy

from tvm.codegen.llvm import build as llvm
from tvm.codegen.llvm import jit as llvm_jit
from tvm.dtype import info
from tvm.ir.prim import BufferLoad, Ramp, Var, const
from tvm.target import Target
from tvm.target.cpu import resolve_cpu
from tvm.tir.buffer import decl_buffer
from tvm.tir.function import PrimFunc
from tvm.tir.stmt import BufferStore, For, ForKind, seq

_SCALARS = {"int32": ctypes.c_int32, "int64": ctypes.c_int64, "float32": ctypes.c_float, "float64": ctypes.c_double}


def numpy_dtype(dtype: str) -> numpy.dtype:
    return numpy.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def emit(function: PrimFunc, target: str = "llvm") -> tuple[str, object]:
    cpu = resolve_cpu(Target(target))
    module = llvm.emit_module([(function.attrs["global_symbol"], function)], cpu)
    return module.text("test", llvm_jit.data_layout(cpu)), cpu


def compile_raw(function: PrimFunc, target: str = "llvm"):
    """A callable that takes arrays (as pointers) and numbers for the parameters."""
    text, cpu = emit(function, target)
    name = function.attrs["global_symbol"]
    addresses, library = llvm_jit.load_objects([llvm_jit.compile_object(text, cpu)], [name])
    kinds = [ctypes.c_void_p if p.dtype == "handle" else _SCALARS[p.dtype] for p in function.params]
    call = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(addresses[name])

    def run(*args) -> int:
        return call(*[a.ctypes.data if isinstance(a, numpy.ndarray) else a for a in args])

    run.library = library
    return run


def buffer(name: str, dtype: str, size: int, **options):
    return decl_buffer((size,), dtype, name, **options)


def prim_func(buffers, body, name: str = "f", scalars=(), **attrs) -> PrimFunc:
    params = [b.data for b in buffers] + list(scalars)
    return PrimFunc(params, body, attrs={"global_symbol": name, "tir.noalias": True, **attrs})


def elementwise(expression, dtypes: list[str], result: str, size: int, lanes: int = 1) -> PrimFunc:
    """out[i] = expression(in0[i], in1[i], ...) over ``size`` elements: whole vectors, then the rest one by one."""
    inputs = [buffer(f"in{k}", d, size) for k, d in enumerate(dtypes)]
    out = buffer("out", result, size)
    parts = []
    whole = size // lanes if lanes > 1 else 0
    if whole:
        i = Var("i", "int32")
        at = [Ramp(i * lanes, const(1, "int32"), lanes)]
        vectors = BufferStore(out, expression(*[BufferLoad(b, at) for b in inputs]), at)
        parts.append(For(i, 0, whole, ForKind.SERIAL, vectors))
    j = Var("j", "int32")
    rest = BufferStore(out, expression(*[BufferLoad(b, [j]) for b in inputs]), [j])
    if size > whole * lanes:
        parts.append(For(j, whole * lanes, size - whole * lanes, ForKind.SERIAL, rest))
    return prim_func([*inputs, out], seq(*parts))


def run_elementwise(expression, arrays, result: str, lanes: int = 1, target: str = "llvm"):
    """The values of ``expression`` over arrays of one length."""
    dtypes = [_name(a.dtype) for a in arrays]
    size = arrays[0].size
    run = compile_raw(elementwise(expression, dtypes, result, size, lanes), target)
    out = numpy.zeros(size, numpy_dtype(result))
    assert run(*arrays, out) == 0
    return out


def _name(dtype: numpy.dtype) -> str:
    return str(dtype)


def lanes_of(expression) -> int:
    return info(expression.dtype).lanes

"""Functions that users name like functions of the C library: what they compute and export, how they are found."""

from __future__ import annotations

import ctypes
import subprocess

import numpy
import pytest

import tvm
from tests.codegen.raw import buffer, prim_func
from tvm import te, topi
from tvm.codegen import symbols
from tvm.codegen.c import build as c
from tvm.codegen.llvm import build as llvm
from tvm.ir.prim import Var, const
from tvm.runtime import _lib
from tvm.target import Target
from tvm.tir.function import PrimFunc
from tvm.tir.stmt import BufferStore, Evaluate

SIZE = 1237
# For each function of the library: how a user computes it, and NumPy.
FUNCTIONS = {
    "exp": (topi.exp, numpy.exp),
    "sin": (topi.sin, numpy.sin),
    "tan": (topi.tan, numpy.tan),
    "tanh": (topi.tanh, numpy.tanh),
    "floor": (topi.floor, numpy.floor),
    "pow": (lambda a: topi.power(topi.abs(a), te.const(2.5, a.dtype)), lambda a: abs(a) ** a.dtype.type(2.5)),
    "fmod": (
        lambda a: te.compute(a.shape, lambda i: te.fmod(a[i], te.const(1.5, a.dtype))),
        lambda a: numpy.fmod(a, a.dtype.type(1.5)),
    ),
    "memcpy": (lambda a: te.compute(a.shape, lambda i: a[i]), lambda a: a),
    "memset": (lambda a: te.compute(a.shape, lambda i: te.const(0, a.dtype)), numpy.zeros_like),
}
PATHS = ("call", "so", "o", "tar", "ll", "bc")


def build(compute, name: str, dtype: str, target: str):
    a = te.placeholder((SIZE,), dtype, name="a")
    b = compute(a)
    return tvm.build(te.create_schedule(b.op), [a, b], target, name=name)


def by_path(module, path: str, folder):
    """The module itself, or what a file of it gives."""
    if path == "call":
        return module
    file = str(folder / f"lib.{path}")
    if path in ("so", "tar"):
        module.export_library(file)
    else:
        module.save(file)
    return tvm.runtime.load_module(file)


def check(function, expected, dtype: str, tolerance: float) -> None:
    x = numpy.linspace(-7.3, 7.1, SIZE).astype(dtype)
    out = tvm.nd.array(numpy.full(SIZE, 77, dtype))
    function(tvm.nd.array(x), out)
    numpy.testing.assert_allclose(out.numpy(), expected(x), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_with_a_name_of_the_library_computes_what_it_says(name, target):
    compute, expected = FUNCTIONS[name]
    for dtype, suffix, tolerance in (("float64", "", 1e-12), ("float32", "f", 2e-5)):
        for own in {name, name if name.startswith("mem") else name + suffix}:
            module = build(compute, own, dtype, target)
            for function in (module, module[own], module.get_function(own)):
                check(function, expected, dtype, tolerance)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", ["exp", "fmod", "memcpy"])
def test_files_of_such_a_function_give_it_under_its_name(name, path, tmp_path):
    compute, expected = FUNCTIONS[name]
    module = by_path(build(compute, name, "float64", "llvm"), path, tmp_path)
    check(module[name], expected, "float64", 1e-12)
    check(module, expected, "float64", 1e-12)
    assert not module.implements_function("sin")


@pytest.mark.parametrize("path", ["so", "o", "tar", "c"])
def test_files_of_the_c_back_end_give_it_under_its_name(path, tmp_path):
    compute, expected = FUNCTIONS["exp"]
    module = by_path(build(compute, "exp", "float64", "c"), path, tmp_path)
    check(module["exp"], expected, "float64", 1e-12)
    check(module, expected, "float64", 1e-12)


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_no_object_defines_what_it_calls_from_the_library(target, tmp_path):
    for name in FUNCTIONS:
        file = tmp_path / f"{name}.o"
        build(FUNCTIONS[name][0], name, "float64", target).save(str(file))
        rows = subprocess.run(["nm", str(file)], check=True, capture_output=True, text=True).stdout.splitlines()
        defined = {row.split()[-1] for row in rows if row.split()[-2] != "U"}
        assert not defined & symbols.ALLOWED_UNDEFINED
        assert symbols.symbol_of(name) in defined


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_an_extern_call_of_a_library_function_reaches_the_library(target):
    def compute(a):
        return te.compute(a.shape, lambda i: tvm.tir.call_pure_extern(a.dtype, "cbrt", a[i]))

    check(build(compute, "cbrt", "float64", target), numpy.cbrt, "float64", 1e-12)


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("name", ["__divti3", "tvm.exp.float32", ".str.0", "_init", "malloc", "f", "expo"])
def test_names_of_compilers_and_of_nobody_are_names_like_others(name, target, tmp_path):
    module = build(topi.exp, name, "float32", target)
    check(module[name], numpy.exp, "float32", 2e-5)
    check(by_path(module, "so", tmp_path)[name], numpy.exp, "float32", 2e-5)


def test_kernels_of_devices_have_names_of_their_own():
    a = te.placeholder((16,), "float32", name="a")
    b = topi.exp(a)
    schedule = te.create_schedule(b.op)
    schedule[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    module = tvm.build(schedule, [a, b], tvm.target.Target("opencl", host="llvm"), name="exp")
    assert "void exp_kernel(" in module.imported_modules[0].get_source()


def test_only_names_of_others_get_another_symbol():
    for name in ("f", "main", "add", "tvmgen_default_fused_exp", "exp_compute_", "__tvm_main__", "expo", "_f"):
        assert symbols.symbol_of(name) == name == symbols.name_of(name)
    others = ("acos", "cbrt", "fabs", "ldexpl", "lgamma", "sqrtf", "trunc", "__truncdfhf2", "sincos", "memcmp")
    for name in (*others, *symbols.ALLOWED_UNDEFINED):
        assert symbols.symbol_of(name) not in symbols.LIBRARY
        assert symbols.name_of(symbols.symbol_of(name)) == name


def test_statically_linked_code_registers_such_a_function_under_its_name():
    out = te.compute((8,), lambda i: te.const(1, "float32"))
    mod = tvm.lower(te.create_schedule(out.op), [out], name="exp").with_attr("system_lib_prefix", "")
    text = llvm.module_text(mod, Target("llvm"))[0].text("test", "")
    assert 'c"exp\\00"' in text
    assert "@__tvm_function_exp)" in text
    assert "@exp)" not in text


@pytest.mark.parametrize("name", ["time", "__triple"])
@pytest.mark.parametrize("target", ["llvm", "c"])
def test_an_extern_call_of_a_raw_function_of_the_module_stays_in_the_module(target, name):
    x, out = Var("x", "int32"), buffer("out", "int32", 1)
    callee = PrimFunc([x], Evaluate(tvm.tir.ret(x * 3)), attrs={"global_symbol": name})
    body = BufferStore(out, tvm.tir.call_extern("int32", name, const(14, "int32")), [const(0, "int32")])
    module = {"llvm": llvm, "c": c}[target].build(
        tvm.IRModule({name: callee, "f": prim_func([out], body)}), Target(target)
    )
    module._load()
    address = _lib.lib.TVMModGetSymbol(module.handle, b"f")
    got = numpy.zeros(1, "int32")
    assert ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(address)(got.ctypes.data) == 0
    assert got[0] == 42

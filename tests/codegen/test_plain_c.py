"""Plain C: the text of single functions, compiled without warnings and called."""

from __future__ import annotations

import ctypes
import subprocess

import numpy as np
import pytest

import tvm
from tvm import tir
from tvm.codegen.c import plain
from tvm.codegen.c.build import emit_source
from tvm.runtime import link
from tvm.target import Target
from tvm.testing.aot_program import MODEL_FLAGS
from tvm.tir import pipeline


def text_of(function: tir.PrimFunc, name: str = "f") -> str:
    module = pipeline.plain_host(tvm.IRModule({name: function.with_attr("global_symbol", name)}), Target("c"))
    source = emit_source([(name, module[name])], plain.PlainC)
    parts = [plain.HEAD, *source.extern_lines(), *source.helpers.values(), *source.constants, *source.functions]
    return "\n".join(parts) + "\n"


def compiled(text: str, folder) -> ctypes.CDLL:
    (folder / "f.c").write_text(text)
    path = folder / "f.so"
    flags = [*MODEL_FLAGS, "-shared", "-fPIC"]
    subprocess.run([*link.find_compiler(), *flags, "-o", str(path), str(folder / "f.c"), "-lm"], check=True)
    return ctypes.CDLL(str(path))


def elementwise(compute, dtype: str, out: str | None = None, count: int = 64) -> tir.PrimFunc:
    """out[i] = compute(a[i])"""
    a, b = tir.decl_buffer((count,), dtype, "a"), tir.decl_buffer((count,), out or dtype, "b")
    ib = tir.ir_builder.create()
    with ib.for_range(0, count, "i") as i:
        ib.emit(b.vstore(i, compute(a.vload(i))))
    return tir.PrimFunc([a, b], ib.get())


def call(library: ctypes.CDLL, *arrays: np.ndarray) -> int:
    return library.f(*(ctypes.c_void_p(a.ctypes.data) for a in arrays))


def test_leading_zeros_without_builtins(tmp_path):
    text = text_of(elementwise(tir.clz, "int64", "int32"))
    assert "__builtin" not in text
    a = np.array([0, 1, 2, 255, 2**31, 2**62, -1, -(2**63)] * 8, "int64")
    b = np.zeros(64, "int32")
    assert call(compiled(text, tmp_path), a, b) == 0
    assert b.tolist() == [64 - int(v).bit_length() if v >= 0 else 0 for v in a.tolist()]


def test_pointers_are_const_where_memory_is_only_read():
    text = text_of(elementwise(lambda x: x + x, "float32"))
    assert "int32_t f(const float* a, float* b) {" in text
    assert "const float t = a[i];" in text and "b[i] = t + t;" in text


def test_operands_keep_the_parentheses_that_change_a_result(tmp_path):
    def compute(x):
        return (x - (x - 3)) * (x + 2) - (x * x) - (x - (x + 1))

    text = text_of(elementwise(compute, "float64"))
    values = np.random.default_rng(0).normal(size=64)
    out = np.zeros(64)
    assert call(compiled(text, tmp_path), values, out) == 0
    np.testing.assert_array_equal(out, compute(values))


def test_a_constant_is_an_array_of_short_literals(tmp_path):
    values = np.array([0.0, -0.0, 1 / 3, np.inf, -np.inf, np.nan, 1e-45, -3.4e38], "float32")
    out = tir.decl_buffer((8,), "float32", "out")
    data = tir.Var("table", tvm.ir.PointerType(tvm.ir.PrimType("float32")))
    table = tir.decl_buffer((8,), "float32", "table", data=data)
    ib = tir.ir_builder.create()
    with ib.for_range(0, 8, "i") as i:
        ib.emit(out.vstore(i, table.vload(i)))
    body = tir.AllocateConst(data, "float32", [8], tvm.nd.array(values), ib.get())
    text = text_of(tir.PrimFunc([out], body))
    literals = "0.0f, -0.0f, 0.33333334f, INFINITY, (-INFINITY), NAN, 1e-45f, -3.4e+38f"
    assert f"static const float table[8] TVM_ALIGNED(16) = {{\n  {literals}\n}}" in text
    found = np.zeros(8, "float32")
    assert call(compiled(text, tmp_path), found) == 0
    np.testing.assert_array_equal(found.view("uint32"), values.view("uint32"))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64", "bool", "float16", "float64"])
def test_every_type_of_constant_keeps_its_bits(dtype, seed):
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    data = (
        rng.integers(0, 2, 100).astype(bool) if dtype == "bool" else np.frombuffer(rng.bytes(100 * kind.itemsize), kind)
    )
    if kind.kind == "f":
        data = np.where(np.isnan(data), kind.type(1), data)
    if kind.kind == "i":
        data = np.concatenate([data, [np.iinfo(kind).min, np.iinfo(kind).max]]).astype(kind)
    printer = plain.PlainC(None, "constants")
    texts = [t for row in plain.constant_rows(printer, dtype, data) for t in row.split(", ")]
    if dtype == "float16":
        found = np.array([int(t, 16) for t in texts], "uint16").view("float16")
    else:
        values = [eval(t.replace("LL", "").rstrip("ULf"), {"INFINITY": np.inf}) for t in texts]
        found = np.array(values, kind)
    np.testing.assert_array_equal(found.view(f"uint{8 * kind.itemsize}"), data.view(f"uint{8 * kind.itemsize}"))


def test_a_function_of_the_runtime_is_rejected():
    a = tir.decl_buffer((4,), "float32", "a")
    ib = tir.ir_builder.create()
    ib.emit(tir.call_packed("some.function", a.data))
    with pytest.raises(tvm.TVMError, match="f: plain C does not support tvm_stack_alloca, which needs the runtime"):
        text_of(tir.PrimFunc([a], ib.get()))

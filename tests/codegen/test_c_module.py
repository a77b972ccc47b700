"""Whole modules of the c back end: schedules, text, files, symbols, refusals, and a language of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile

import numpy
import pytest

import tvm
from tests.codegen.raw import buffer, prim_func
from tvm import te
from tvm.codegen import symbols
from tvm.codegen.c import build as c
from tvm.codegen.c.like import CLike
from tvm.error import TVMError
from tvm.ir.op import Op
from tvm.ir.prim import BufferLoad, Call, Ramp, StringImm, Var, const
from tvm.target import Target
from tvm.tir.stmt import AttrStmt, BufferStore, Evaluate, SeqStmt


def vector_add(size=12, target="c", **options):
    A, B = te.placeholder((size,), name="A"), te.placeholder((size,), name="B")
    C = te.compute((size,), lambda i: A[i] + B[i], name="C")
    schedule = te.create_schedule(C.op)
    outer, inner = schedule[C].split(C.op.axis[0], 4)
    schedule[C].vectorize(inner)
    return tvm.build(schedule, [A, B, C], target, name="add", **options)


def check_add(module, size=12, name="add"):
    a, b = numpy.arange(size, dtype="float32"), numpy.full(size, 2, "float32")
    out = tvm.nd.array(numpy.zeros(size, "float32"))
    module[name](tvm.nd.array(a), tvm.nd.array(b), out)
    numpy.testing.assert_array_equal(out.numpy(), a + b)


GOLDEN = """\
TVM_EXPORT int32_t add_compute_(float* __restrict__ A, float* __restrict__ B, float* __restrict__ C) {
  for (int32_t i_outer = 0; i_outer < 3; ++i_outer) { /* i.outer */
    for (int32_t lane = 0; lane < 4; ++lane) {
      const int32_t t = (i_outer * 4) + lane;
      C[t] = A[t] + B[t];
    }
  }
  return 0;
}
"""


def test_text_of_a_small_kernel():
    text = vector_add().get_source()
    assert text.endswith("\n" + GOLDEN), text
    assert text == vector_add().get_source("c")
    included = [line for line in text.splitlines() if line.startswith("#include")]
    assert included == ["#include <math.h>", "#include <stdint.h>", "#include <string.h>"]


def test_text_of_the_checked_entry():
    text = vector_add().get_source()
    assert 'static const TVMTensorSpec A_spec = {"add", "A", {2, 32, 1}, 1, A_shape, 0, 1, 4};' in text
    assert '__tvm_runtime_table->raise_value("add: expected 3 arguments, got ", (int64_t)num_args)' in text
    assert "return add_compute_((float*)" in text


_DIGEST = """
import hashlib

from tests.fuzz.run import Case
import tvm
from tvm.error import ScheduleError
for seed in range(5000, 5015):
    case = Case(seed, "c")
    program = case.program
    try:
        built = tvm.build(case.made.schedule, program.inputs + program.outputs + list(program.sizes), "c")
    except (ScheduleError, tvm.error.TVMError):
        continue
    print(seed, hashlib.sha256(built.get_source().encode()).hexdigest())
"""


@pytest.mark.slow("starts several interpreters that compile")
def test_text_does_not_depend_on_the_hash_seed(root):
    seen = set()
    for hash_seed in ("0", "12345"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", _DIGEST]
        seen.add(subprocess.run(command, cwd=root, env=environment, check=True, capture_output=True, text=True).stdout)
    assert len(seen) == 1 and len(next(iter(seen)).splitlines()) >= 5


def test_compilers_find_nothing_to_warn_about(tmp_path):
    """Types agree, nothing is cut off, nothing is ambiguous; names that nobody reads are left to the compiler."""
    path = tmp_path / "m.c"
    for number, module in enumerate((vector_add(), matmul(5, 6, 7)[0])):
        path.write_text(module.get_source())
        flags = ["-std=c11", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Wno-unused", "-Wno-unused-parameter"]
        done = subprocess.run(["cc", *flags, str(path)], capture_output=True, text=True, check=False)
        assert done.returncode == 0 and not done.stderr, (number, done.stderr)


def matmul(n, m, k, dtype="float32"):
    """Blocked, packed, cached, unrolled, vectorized and parallel."""
    A, B = te.placeholder((n, k), dtype, "A"), te.placeholder((k, m), dtype, "B")
    r = te.reduce_axis((0, k), "r")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    schedule = te.create_schedule(C.op)
    cached = schedule.cache_write(C, "global")
    io, jo, ii, ji = schedule[C].tile(C.op.axis[0], C.op.axis[1], 4, 8)
    schedule[cached].compute_at(schedule[C], jo)
    i, j = schedule[cached].op.axis
    (reduced,) = schedule[cached].op.reduce_axis
    ro, ri = schedule[cached].split(reduced, 2)
    schedule[cached].reorder(ro, i, ri, j)
    schedule[cached].unroll(ri)
    schedule[cached].vectorize(j)
    schedule[C].vectorize(ji)
    schedule[C].parallel(io)
    return tvm.build(schedule, [A, B, C], "c", name="matmul"), (n, m, k)


@pytest.mark.parametrize(("n", "m", "k", "dtype"), [(16, 16, 16, "float32"), (13, 21, 7, "float64"), (5, 9, 3, "int8"),
                                                    (6, 8, 4, "float16")])  # fmt: skip
def test_scheduled_matmul(n, m, k, dtype, rng):
    module, _ = matmul(n, m, k, dtype)
    a, b = rng.integers(-3, 4, (n, k)).astype(dtype), rng.integers(-3, 4, (k, m)).astype(dtype)
    out = tvm.nd.array(numpy.zeros((n, m), dtype))
    module(tvm.nd.array(a), tvm.nd.array(b), out)
    numpy.testing.assert_array_equal(out.numpy(), a @ b)


def test_symbolic_sizes_strides_and_bool(rng):
    n = te.size_var("n")
    A = te.placeholder((n, 8), name="A")
    B = te.compute((n, 8), lambda i, j: tvm.tir.any(A[i, j] > 0.5, A[i, 7 - j] < -0.5), name="B")
    C = te.compute((n,), lambda i: tvm.tir.if_then_else(B[i, 3], i, -i), name="C")
    module = tvm.build(te.create_schedule([B.op, C.op]), [A, B, C], "c")
    for size in (0, 1, 5):
        a = rng.standard_normal((size, 8)).astype("float32")
        outputs = [tvm.nd.array(numpy.zeros((size, 8), "bool")), tvm.nd.array(numpy.zeros(size, "int32"))]
        module(tvm.nd.array(a), *outputs)
        flags = (a > 0.5) | (a[:, ::-1] < -0.5)
        numpy.testing.assert_array_equal(outputs[0].numpy(), flags)
        numpy.testing.assert_array_equal(outputs[1].numpy(), numpy.where(flags[:, 3], 1, -1) * numpy.arange(size))


def test_bad_arguments_are_refused():
    module = vector_add()
    good = tvm.nd.array(numpy.zeros(12, "float32"))
    with pytest.raises(TVMError, match="add: expected 3 arguments, got 2"):
        module(good, good)
    with pytest.raises(TVMError, match=r"argument 1 \(B\).*expected float32, got float64"):
        module(good, tvm.nd.array(numpy.zeros(12)), good)
    with pytest.raises(TVMError, match=r"expected shape\[0\] == 12, got 11"):
        module(good, good, tvm.nd.array(numpy.zeros(11, "float32")))


def test_files_and_libraries(tmp_path):
    module = vector_add()
    assert module.type_key == "c" and module.format == "c"
    module.save(str(tmp_path / "m.c"))
    assert (tmp_path / "m.c").read_text() == module.get_source()
    module.save(str(tmp_path / "alone.o"))
    for name in ("lib.so", "lib.tar", "lib.o"):
        module.export_library(str(tmp_path / name))
    with tarfile.open(tmp_path / "lib.tar") as archive:
        assert archive.getnames() == ["lib0.c"]
    for name in ("lib.so", "lib.tar", "lib.o", "alone.o", "m.c"):
        loaded = tvm.runtime.load_module(str(tmp_path / name))
        check_add(loaded)
        check_add(loaded, name="__tvm_main__")
    assert "add_compute_" in module.get_source("asm")
    with pytest.raises(TVMError, match="a c module has no source in format 'll'; use c or asm"):
        module.get_source("ll")
    with pytest.raises(TVMError, match="a c module cannot be saved as 'zip'"):
        module.save(str(tmp_path / "m.zip"))


def test_library_of_c_and_llvm_modules(tmp_path):
    whole = vector_add()
    other = tvm.build(te_double(), target="llvm")
    whole.import_module(other)
    whole.export_library(str(tmp_path / "both.so"))
    loaded = tvm.runtime.load_module(str(tmp_path / "both.so"))
    check_add(loaded)
    array = tvm.nd.array(numpy.array([4.0], "float32"))
    loaded["double_it"](array)
    assert array.numpy()[0] == 8.0


def te_double():
    x = buffer("x", "float32", 1)
    zero = [const(0, "int32")]
    body = BufferStore(x, BufferLoad(x, zero) + BufferLoad(x, zero), zero)
    return tvm.tir.PrimFunc([x], body, attrs={"global_symbol": "double_it"})


def test_nothing_is_compiled_before_the_first_call(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("CXX", raising=False)
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name, package=None: None)
    module = vector_add()
    assert "add_compute_" in module.get_source()
    with pytest.raises(TVMError, match="linking needs a C compiler, but none of gcc, clang"):
        check_add(module)
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(TVMError, match="the compiler 'no-such-compiler' was not found"):
        check_add(module)


def test_text_the_compiler_refuses_is_shown():
    out = buffer("out", "int32", 1)
    store = BufferStore(out, const(1, "int32"), [const(0, "int32")])
    body = AttrStmt(out.data, "pragma_import_c", StringImm("this is no C;\n"), store)
    function = tvm.tir.PrimFunc([out], body, attrs={"global_symbol": "f"})
    with pytest.raises(TVMError, match="(?s)compiling the C source of a module failed.*this is no C"):
        tvm.build(function, target="c")["f"](tvm.nd.array(numpy.zeros(1, "int32")))


def test_machine_options_reach_the_compiler(monkeypatch):
    seen = []
    monkeypatch.setattr(c.link, "run_compiler", lambda command, what: seen.append(command))
    with pytest.raises((TVMError, ValueError, OSError), match="the file .* does not exist"):
        check_add(vector_add(target="c -march=native"))
    assert "-march=native" in seen[0]


def corpus():
    """A function with everything a compiler might want to call a library for."""
    names = "exp log tanh erf sin sqrt floor ceil round nearbyint trunc fabs pow fmod clz popcount".split()
    types = {"clz": "int64", "popcount": "uint64"}
    buffers, parts = [], []
    for name in names:
        for dtype in [types[name]] if name in types else ["float16", "bfloat16", "float32", "float64"]:
            x, y = buffer(f"x_{name}_{dtype}", dtype, 16), buffer(f"y_{name}_{dtype}", dtype, 16)
            at = [Ramp(const(0, "int32"), const(1, "int32"), 16)]
            args = (BufferLoad(x, at),) * (2 if name in ("pow", "fmod") else 1)
            parts.append(BufferStore(y, Call(args[0].dtype, Op.get("tir." + name), args), at))
            buffers += [x, y]
    return prim_func(buffers, SeqStmt(tuple(parts)))


def test_undefined_symbols_are_in_the_list(tmp_path):
    module = c.build(tvm.IRModule({"f": corpus()}), Target("c"))
    module.save(str(tmp_path / "corpus.o"))
    plain = tmp_path / "plain.o"
    module.export_library(str(plain))
    for path in (tmp_path / "corpus.o", plain):
        out = subprocess.run(["nm", "-u", str(path)], check=True, capture_output=True, text=True).stdout
        left = {line.split()[-1] for line in out.splitlines()} - {"_GLOBAL_OFFSET_TABLE_"}
        assert left <= symbols.ALLOWED_UNDEFINED, left - symbols.ALLOWED_UNDEFINED


def test_two_functions_of_one_symbol_are_refused():
    out = buffer("out", "float32", 1)
    function = prim_func([out], BufferStore(out, const(1.0, "float32"), [const(0, "int32")]), "same")
    with pytest.raises(TVMError, match="two functions of the module have the symbol 'same'"):
        c.emit_source([("a", function), ("b", function)])


class Kernels(CLike):
    """A made-up language of the family, all of it tables."""

    language = "kernels"
    scalar_types = {**CLike.scalar_types, "float32": "real", "float16": "small", "int32": "int"}
    native_16_bit_floats = frozenset(("float16",))
    suffixes = {**CLike.suffixes, "float16": "h"}
    vector_types = {"float32x4": "real4"}
    function_qualifier = "kernel "
    restrict = "restrict"
    scopes = {"shared": "group "}
    alignment = ""
    thread_axes = {"threadIdx.x": "thread(0)"}
    barriers = {"shared": "barrier();"}
    unroll_line = "#unroll"
    math_functions = {**CLike.math_functions, "exp": "native_exp", "floor": "floor"}
    single_suffix = ""


def test_a_language_is_a_table():
    x, out = buffer("x", "float32", 64), buffer("out", "float32", 64)
    near = buffer("near", "float32", 64, scope="shared")
    h = buffer("h", "float16", 4)
    axis = te.thread_axis((0, 16), "threadIdx.x")
    at = Ramp(axis.var * 4, const(1, "int32"), 4)
    value = Call("float32x4", Op.get("tir.exp"), (BufferLoad(x, [at]),))
    sync = Evaluate(Call("int32", Op.get("tir.tvm_storage_sync"), (StringImm("shared"),)))
    i = Var("i", "int32")
    body = AttrStmt(axis, "thread_extent", const(16, "int32"), SeqStmt((
        BufferStore(near, value, [at]), sync,
        tvm.tir.For(i, 0, 4, tvm.tir.ForKind.UNROLLED,
                    BufferStore(h, BufferLoad(h, [i]) * const(0.5, "float16"), [i])),
        BufferStore(out, Call("float32", Op.get("tir.floor"), (BufferLoad(near, [axis.var]),)), [axis.var]),
    )))  # fmt: skip
    body = tvm.tir.Allocate(near.data, "float32", [64], True, body)
    source = c.emit_source([("k", prim_func([x, out, h], body, "k"))], Kernels)
    assert source.functions == [
        """\
kernel int k(real* restrict x, real* restrict out, small* restrict h) {
  group real near[64];
  const int threadIdx_x = thread(0); /* threadIdx.x */
  real v[4];
  real v1[4];
  *(real4*)v1 = *(real4*)(x + threadIdx_x * 4);
  for (int lane = 0; lane < 4; ++lane) {
    v[lane] = native_exp(v1[lane]);
  }
  *(real4*)(near + threadIdx_x * 4) = *(real4*)v;
  barrier();
  #unroll
  for (int i = 0; i < 4; ++i) {
    h[i] = h[i] * 0.5h;
  }
  out[threadIdx_x] = floor(near[threadIdx_x]);
  return 0;
}
"""
    ]

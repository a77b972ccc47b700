"""Whole modules: symbols, determinism, other machines, files, very large arrays."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import numpy
import pytest

import tvm
import tvm.tir.op
from tests.codegen.raw import buffer, compile_raw, elementwise, emit, prim_func
from tests.codegen.test_llvm_conv import convolution
from tests.cpus import FOREIGN_TRIPLE
from tvm.codegen import symbols
from tvm.codegen.llvm import build as llvm
from tvm.codegen.llvm import jit as llvm_jit
from tvm.error import TVMError
from tvm.ir.module import IRModule
from tvm.ir.op import Op
from tvm.ir.prim import BufferLoad, Call, Cast, Ramp, StringImm, Var, const
from tvm.ir.transform import PassContext
from tvm.target import Target
from tvm.target.backend import backend_of
from tvm.tir import pipeline
from tvm.tir.function import PrimFunc
from tvm.tir.stmt import BufferStore, For, ForKind, SeqStmt

TARGETS = [
    "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64",
    "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell",
    "llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids",
    "llvm -mtriple=aarch64-linux-gnu -mcpu=generic",
    "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1",
]


def corpus():
    """Functions that make LLVM want help: half types, rounding, transcendental functions, copies, fills."""

    def unary(name, dtype, lanes):
        return elementwise(lambda a: Call(a.dtype, Op.get("tir." + name), (a,)), [dtype], dtype, 37, lanes)

    def cast(source, result, lanes):
        def make(a):
            return Cast(result if "x" not in a.dtype else f"{result}x{lanes}", a)

        return elementwise(make, [source], result, 37, lanes)

    names = "exp log tanh erf sigmoid sin sqrt floor round nearbyint trunc rsqrt exp10 atan asin asinh".split()
    types = (("float32", 16), ("float64", 2), ("float16", 8), ("bfloat16", 8))
    rows = [unary(name, dtype, lanes) for name in names for dtype, lanes in types]
    kinds = ("float16", "bfloat16", "float32", "float64", "int8", "uint8", "int64", "uint64", "bool")
    rows += [cast(a, b, 8) for a in kinds for b in kinds if a != b]
    rows += [elementwise(lambda a, b: a * b + a / b, [d, d], d, 37, 8) for d in ("float16", "bfloat16", "float32")]
    rows += [
        elementwise(lambda a, b: Call(a.dtype, Op.get("tir.pow"), (a, b)), ["float32", "float32"], "float32", 37, 8)
    ]
    rows += [convolution(16, 32, 2, 14, 3, 14, 2)]
    x, out = buffer("x", "float32", 4096), buffer("out", "float32", 4096)
    i = Var("i", "int32")
    rows += [prim_func([x, out], For(i, 0, 4096, ForKind.SERIAL, BufferStore(out, BufferLoad(x, [i]), [i])))]
    rows += [prim_func([out], For(i, 0, 4096, ForKind.SERIAL, BufferStore(out, const(0.0, "float32"), [i])))]
    return {f"f{k}": f.with_attr("global_symbol", f"f{k}") for k, f in enumerate(rows)}


def undefined_symbols(data: bytes, path) -> set[str]:
    path.write_bytes(data)
    out = subprocess.run(["nm", "-u", str(path)], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1] for line in out.splitlines()}


@pytest.mark.slow("starts interpreters or compiles for several machines")
@pytest.mark.parametrize("target", TARGETS)
def test_undefined_symbols_are_in_the_list(target, tmp_path):
    code = llvm.compile_module(IRModule(corpus()), Target(target))
    left = undefined_symbols(next(code.objects()), tmp_path / "corpus.o") - {"_GLOBAL_OFFSET_TABLE_"}
    assert left <= symbols.ALLOWED_UNDEFINED, left - symbols.ALLOWED_UNDEFINED


_DIGEST = """
import hashlib
from tests.codegen.test_llvm_module import corpus
from tvm.codegen.llvm import build as llvm
from tvm.ir.module import IRModule
from tvm.ir.transform import PassContext
from tvm.target import Target
from tvm.tir import pipeline
functions = dict(list(corpus().items())[::5])
code = llvm.compile_module(IRModule(functions), Target("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell"))
print(hashlib.sha256(next(code.objects())).hexdigest(), hashlib.sha256(code.source().encode()).hexdigest())
"""


@pytest.mark.slow("starts interpreters or compiles for several machines")
def test_objects_do_not_depend_on_the_hash_seed(root):
    seen = set()
    for hash_seed in ("0", "12345"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", _DIGEST]
        seen.add(subprocess.run(command, cwd=root, env=environment, check=True, capture_output=True, text=True).stdout)
    assert len(seen) == 1


def test_text_is_the_same_for_the_same_program():
    digests = {hashlib.sha256(emit(convolution(16, 32, 2, 14, 3, 14, 2))[0].encode()).hexdigest() for _ in range(2)}
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("triple", "magic", "machine"),
    [("aarch64-linux-gnu", b"\x7fELF", 183), ("x86_64-linux-gnu", b"\x7fELF", 62),
     ("armv7a-linux-gnueabihf", b"\x7fELF", 40),
     ("riscv64-linux-gnu", b"\x7fELF", 243), ("arm64-apple-darwin", b"\xcf\xfa\xed\xfe", None),
     ("x86_64-pc-windows-msvc", b"\x64\x86", None), ("wasm32-unknown-unknown", b"\x00asm", None)],
)  # fmt: skip
def test_objects_for_other_machines(triple, magic, machine):
    code = llvm.compile_module(IRModule({"f": convolution(16, 32, 2, 14, 3, 14, 2)}), Target(f"llvm -mtriple={triple}"))
    assert next(code.objects()).startswith(magic)
    if machine is not None:
        assert int.from_bytes(next(code.objects())[18:20], "little") == machine


def test_code_for_another_machine_is_not_run():
    out = buffer("out", "float32", 1)
    function = PrimFunc(
        [out], BufferStore(out, const(1.0, "float32"), [const(0, "int32")]), attrs={"global_symbol": "f"}
    )
    module = tvm.build(function, target=f"llvm -mtriple={FOREIGN_TRIPLE}")
    assert FOREIGN_TRIPLE.split("-")[0] in module.get_source("ll")
    with pytest.raises((TVMError, AttributeError), match="is code for linking only"):
        module["f"](tvm.nd.array(numpy.zeros(1, "float32")))


def simple_module(**options):
    x, out = buffer("x", "float32", 64), buffer("out", "float32", 64)
    i = Var("i", "int32")
    at = [Ramp(i * const(16, "int32"), const(1, "int32"), 16)]
    body = For(i, 0, 4, ForKind.SERIAL, BufferStore(out, BufferLoad(x, at) + BufferLoad(x, at), at))
    return tvm.build(PrimFunc([x, out], body, attrs={"global_symbol": "twice", "tir.noalias": True}), **options)


def test_sources_and_files(tmp_path):
    module = simple_module(target="llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512")
    assert "define" in module.get_source("ll") and "zmm" in module.get_source("asm")
    with pytest.raises(TVMError, match="no source in format 'c'"):
        module.get_source("c")
    for fmt, start in (("o", b"\x7fELF"), ("ll", b"; ModuleID"), ("bc", b"BC\xc0\xde")):
        module.save(str(tmp_path / f"m.{fmt}"), fmt)
        assert (tmp_path / f"m.{fmt}").read_bytes().startswith(start)
    module.save(str(tmp_path / "m.s"), "s")
    assert "twice" in (tmp_path / "m.s").read_text()
    with pytest.raises(TVMError, match="cannot be saved as 'zip'"):
        module.save(str(tmp_path / "m.zip"), "zip")


def test_narrow_target_has_no_wide_registers():
    text = simple_module(target="llvm -mtriple=x86_64-linux-gnu -mcpu=haswell").get_source("asm")
    assert "zmm" not in text and "ymm" in text


def test_opt_level_is_obeyed():
    plain, tuned = (simple_module(target=f"llvm -opt-level={level}").get_source("asm") for level in (0, 3))
    assert len(plain.splitlines()) > len(tuned.splitlines())


def test_exported_names():
    out = buffer("out", "float32", 1)
    function = PrimFunc(
        [out], BufferStore(out, const(1.0, "float32"), [const(0, "int32")]), attrs={"global_symbol": "f"}
    )
    target = Target("llvm")
    host, _ = pipeline.split_host_device(tvm.lower(function), target, target, PassContext.current())
    code = llvm.compile_module(host, target)
    assert set(code.names) == {"f", "f_compute_"}
    addresses, _keep = llvm_jit.load_objects(code.objects(), [*code.names, "__tvm_runtime_table", "__tvm_module_ctx"])
    assert all(addresses.values())


def test_unknown_kind_is_refused():
    with pytest.raises(TVMError, match="no back end generates code for target kind 'hexagon'"):
        backend_of(Target("hexagon"))


def test_two_functions_of_one_symbol_are_refused():
    out = buffer("out", "float32", 1)
    function = prim_func([out], BufferStore(out, const(1.0, "float32"), [const(0, "int32")]), "same")
    with pytest.raises(TVMError, match="two functions of the module have the symbol 'same'"):
        llvm.emit_module([("a", function), ("b", function)], emit(function)[1])


def test_arrays_over_two_to_the_31(rng):
    """int64 indices beyond int32: write and read near the end of a 2 GiB array of bytes."""
    size = (1 << 31) + 4096
    data, out = buffer("data", "int8", size), buffer("out", "int8", 16)
    i = Var("i", "int64")
    start = const(size - 16, "int64")
    write = For(i, 0, 16, ForKind.SERIAL, BufferStore(data, Cast("int8", i) + const(1, "int8"), [start + i]))
    j = Var("j", "int64")
    read = For(j, 0, 16, ForKind.SERIAL, BufferStore(out, BufferLoad(data, [const(size - 1, "int64") - j]), [j]))
    memory = numpy.zeros(size, "int8")
    got = numpy.zeros(16, "int8")
    compile_raw(prim_func([data, out], SeqStmt([write, read])))(memory, got)
    assert got.tolist() == list(range(16, 0, -1))
    assert memory[-16:].tolist() == list(range(1, 17))
    assert not memory[:64].any()


def test_fast_math_options():
    function = elementwise(lambda a, b: a * b + a, ["float32", "float32"], "float32", 8)
    for options, flags in (("", ""), ("-fast-math", "fast "), ("-fast-math-nnan -fast-math-arcp", "nnan arcp ")):
        module, _ = llvm.module_text(IRModule({"f": function}), Target(f"llvm {options}"))
        assert f"fmul {flags}float" in llvm.part_of(module).text


def test_statically_linked_code_registers_itself(tmp_path):
    function = elementwise(lambda a: a + a, ["float32"], "float32", 8)
    mod = IRModule({"f": function}, attrs={"system_lib_prefix": ""})
    code = llvm.compile_module(mod, Target("llvm -mtriple=x86_64-linux-gnu"))
    left = undefined_symbols(next(code.objects()), tmp_path / "static.o") - {"_GLOBAL_OFFSET_TABLE_"}
    assert left == {"TVMBackendRegisterSystemLibSymbol"}
    assert b".init_array" in next(code.objects()) or b".ctors" in next(code.objects())


def _dot(name):
    a, b, out = buffer("a", "uint8", 64), buffer("b", "int8", 64), buffer("out", "int32", 16)
    zero, one = const(0, "int32"), const(1, "int32")

    def packed(source):
        value = BufferLoad(source, [Ramp(zero, one, 64)])
        return Call("int32x16", Op.get("tir.reinterpret"), (value,))

    at = [Ramp(zero, one, 16)]
    args = (StringImm(name), BufferLoad(out, at), packed(a), packed(b))
    value = Call("int32x16", Op.get("tir.call_llvm_pure_intrin"), args)
    return prim_func([a, b, out], BufferStore(out, value, at))


def test_missing_instruction_is_refused():
    function = _dot("llvm.x86.avx512.vpdpbusd.512")
    with pytest.raises(TVMError, match=r"vpdpbusd.512 is .* of x86; the target \(-mcpu=haswell\) lacks avx512vnni"):
        emit(function, "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell")
    with pytest.raises(TVMError, match="the target .* is aarch64"):
        emit(function, "llvm -mtriple=aarch64-linux-gnu")
    text, cpu = emit(function, "llvm -mtriple=x86_64-linux-gnu -mcpu=cascadelake")
    assert "vpdpbusd" in llvm_jit.machine_for(cpu).emit_assembly(llvm_jit.optimized(text, cpu))


def test_dot_product_instruction_of_aarch64():
    a, b, out = buffer("a", "int8", 16), buffer("b", "int8", 16), buffer("out", "int32", 4)
    zero, one = const(0, "int32"), const(1, "int32")
    at = [Ramp(zero, one, 4)]
    whole = [Ramp(zero, one, 16)]
    args = (StringImm("llvm.aarch64.neon.sdot"), BufferLoad(out, at), BufferLoad(a, whole), BufferLoad(b, whole))
    value = Call("int32x4", Op.get("tir.call_llvm_pure_intrin"), args)
    function = prim_func([a, b, out], BufferStore(out, value, at))
    text, cpu = emit(function, "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1")
    assert "sdot" in llvm_jit.machine_for(cpu).emit_assembly(llvm_jit.optimized(text, cpu))

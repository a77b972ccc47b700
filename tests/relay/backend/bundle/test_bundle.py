"""Bundles from C: outputs, errors, threads, opened files, sizes."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tvm
from tests.relay.backend.bundle import cases
from tools.run_bundle import Info, run_bundle
from tvm import relay
from tvm.error import TVMError
from tvm.relay.backend.bundle import export_bundle, runtime_source

ENGINES = ("static", "dynamic")
FUNCTIONS = {"create", "set_input", "run", "get_output", "error", "destroy"}


def linked(bundle: Path, out: Path, *flags: str) -> Path:
    """Compile the C program with a linked bundle."""
    return cases.build_program(
        "check.c", out, "-DLINKED", "-DPREFIX=tvm_bundle", "-include", bundle.with_suffix(".h"), *flags, bundle
    )


@pytest.mark.slow("compiles the runtime")
@pytest.mark.parametrize(("engine", "threads"), (("static", True), ("static", False), ("dynamic", True)))
def test_shared_bundle(small, exported, check_program, engine: str, threads: bool, tmp_path: Path):
    model, bundle = small(engine), exported(engine, "shared", threads)
    model.save(tmp_path)
    assert cases.run(check_program(), bundle, "run", tmp_path, cases.ROWS) == "ok\n"
    model.check(tmp_path)
    assert cases.run(check_program(), bundle, "threads", tmp_path, cases.ROWS) == "ok\n"
    model.check(tmp_path)


@pytest.mark.slow("compiles the runtime")
@pytest.mark.parametrize(("engine", "kind", "threads"), [
    ("static", "static", True), ("dynamic", "static", False), ("static", "c", False), ("dynamic", "c", True),
])  # fmt: skip
def test_linked_bundle(small, exported, engine: str, kind: str, threads: bool, tmp_path: Path):
    model, bundle = small(engine, "c" if kind == "c" else "llvm"), exported(engine, kind, threads)
    model.save(tmp_path)
    # The generated code of a C bundle is not free of warnings of -Wpedantic.
    source = ["-w"] if kind == "c" else []
    program = linked(bundle, tmp_path / "check", *source, *(cases.SANITIZE if kind == "c" else ()))
    assert cases.run(program, "threads", tmp_path, cases.ROWS) == "ok\n"
    model.check(tmp_path)
    assert cases.run(program, "wrong", 500, 1) == "ok\n"


@pytest.mark.slow("compiles the runtime")
@pytest.mark.parametrize("engine", ENGINES)
def test_wrong_calls(exported, check_program, engine: str, seed: int):
    print("seed", seed)
    assert cases.run(check_program(), exported(engine), "wrong", 2000, seed) == "ok\n"


def check_outputs(model: cases.Compiled, path: Path) -> None:
    """Run a shared bundle in this process and compare its outputs bit for bit."""
    found = run_bundle(path, model.inputs)
    assert [(a.shape, a.tobytes()) for a in found] == [(a.shape, a.tobytes()) for a in model.outputs]


def random_module(rng: np.random.Generator, dtype: str) -> tuple[tvm.IRModule, list[np.ndarray]]:
    """A random chain of operators on two inputs of odd sizes, with three outputs."""
    shape = tuple(int(d) for d in rng.integers(1, 7, rng.integers(1, 4)))
    x, y = relay.var("x", shape=shape, dtype=dtype), relay.var("y", shape=shape, dtype=dtype)
    unary = [relay.nn.relu, relay.negative, relay.abs, lambda v: relay.sum(v, axis=[0], keepdims=True)]
    binary = [relay.add, relay.multiply, relay.maximum, relay.subtract]
    values = [x, y, relay.const(rng.integers(-3, 4, shape).astype(dtype), dtype)]
    for _ in range(int(rng.integers(3, 12))):
        left, right = (values[int(i)] for i in rng.integers(0, len(values), 2))
        value = unary[int(rng.integers(4))](left) if rng.random() < 0.4 else binary[int(rng.integers(4))](left, right)
        values.append(value)
    outputs = [values[-1], relay.reshape(values[-2], (-1,)), x]
    inputs = [rng.integers(-9, 10, shape).astype(dtype) for _ in range(2)]
    return tvm.IRModule.from_expr(relay.Function([x, y], relay.Tuple(outputs))), inputs


@pytest.mark.slow("compiles the runtime")
@pytest.mark.parametrize("dtype", ("float32", "int8", "int64"))
def test_random_graphs(dtype: str, rng: np.random.Generator, seed: int, tmp_path: Path):
    print("seed", seed)
    mod, inputs = random_module(rng, dtype)
    model = cases.compile_static(mod, inputs)
    model.export(tmp_path / "random.so", threads=False)
    check_outputs(model, tmp_path / "random.so")


@pytest.mark.slow("compiles the runtime")
def test_a_model_without_inputs_and_one_without_elements(tmp_path: Path):
    constant = tvm.IRModule.from_expr(relay.Function([], relay.const(np.arange(3, dtype="int16"))))
    x = relay.var("x", shape=(0, 4))
    empty = tvm.IRModule.from_expr(
        relay.Function([x], relay.concatenate([x, relay.const(np.ones((2, 4), "float32"))], 0))
    )
    for name, mod, inputs in (("constant", constant, []), ("empty", empty, [np.zeros((0, 4), "float32")])):
        model = cases.compile_static(mod, inputs)
        model.export(tmp_path / f"{name}.so", threads=False)
        check_outputs(model, tmp_path / f"{name}.so")


@pytest.mark.slow("compiles the runtime")
def test_two_static_bundles_in_one_program(tmp_path: Path):
    x = relay.var("x", shape=(4,))
    for name, factor in (("first", 2.0), ("second", 3.0)):
        mod = tvm.IRModule.from_expr(relay.Function([x], x * relay.const(factor)))
        model = relay.build(mod, "llvm", executor=relay.backend.Executor("aot"), mod_name=name)
        export_bundle(model, tmp_path / f"{name}.a", "static", name == "first")
    program = tmp_path / "main.c"
    program.write_text("""
#include <stdio.h>
#include "first.h"
#include "second.h"
int main(void) {
  float x[4] = {1, 2, 3, 4};
  const void *data;
  tvm_bundle *a, *b;
  if (tvm_bundle_first_create(&a) || tvm_bundle_second_create(&b)) return 1;
  if (tvm_bundle_first_set_input(a, TVM_BUNDLE_FIRST_INPUT_X, x, TVM_BUNDLE_FIRST_SIZE_OF_INPUT_X, NULL)) return 2;
  if (tvm_bundle_second_set_input(b, 0, x, sizeof x, NULL)) return 3;
  if (tvm_bundle_first_run(a) || tvm_bundle_second_run(b)) return 4;
  if (tvm_bundle_second_run(a) != TVM_BUNDLE_BAD_HANDLE) return 5;
  if (tvm_bundle_first_get_output(a, 0, &data, NULL, NULL)) return 6;
  printf("%g ", ((const float *)data)[3]);
  if (tvm_bundle_second_get_output(b, 0, &data, NULL, NULL)) return 7;
  printf("%g\\n", ((const float *)data)[3]);
  tvm_bundle_first_destroy(a);
  tvm_bundle_second_destroy(b);
  return 0;
}
""")
    for name in ("gcc", "g++"):
        language = ["-x", "c++"] if name == "g++" else ["-std=c99"]
        command = [cases.compiler(name), *language, *cases.WARNINGS, str(program), "-x", "none"]
        files = [str(tmp_path / f"{stem}.a") for stem in ("first", "second")]
        subprocess.run([*command, *files, "-lm", "-pthread", "-o", str(tmp_path / "main")], check=True)
        assert cases.run(tmp_path / "main") == "8 12\n"


# ---- what a bundle contains ----


@pytest.mark.slow("compiles the runtime")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_bundle_needs_only_the_c_library(exported, engine: str):
    if shutil.which("nm") is None:
        pytest.skip("nm is not installed")
    for threads in (True, False) if engine == "static" else (True,):
        lines = cases.run("nm", "-D", exported(engine, "shared", threads)).splitlines()
        needed = {line.split()[-1].split("@")[0] for line in lines if " U " in line}
        public = {line.split()[-1] for line in lines if re.search(" [TDRB] ", line)}
        assert public == {f"tvm_bundle_{name}" for name in (*FUNCTIONS, "description")}
        assert not needed & {"getenv", "secure_getenv", "open", "fopen", "dlopen", "printf", "abort", "exit"}
        assert ("pthread_create" in needed) == threads


@pytest.mark.slow("compiles the runtime")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_bundle_opens_no_other_file(small, exported, engine: str, tmp_path: Path):
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    small(engine).save(tmp_path)
    program, bundle, log = cases.build_program("check.c", tmp_path / "plain"), exported(engine), tmp_path / "log"
    cases.run(
        "strace", "-f", "-e", "trace=openat,open,creat", "-o", log, program, bundle, "threads", tmp_path, cases.ROWS
    )
    opened = {Path(name) for name in re.findall(r'open(?:at)?\((?:AT_FDCWD, )?"([^"]*)"', log.read_text())}
    system = {path for path in opened if path.name.startswith(("ld.so", "libc.", "libm.", "libpthread.", "libdl."))}
    own = {path for path in opened if path.parent == tmp_path}
    assert opened - system - own == {bundle}


@pytest.mark.slow("compiles the runtime")
def test_weights_are_mapped_from_the_file(tmp_path: Path):
    weight = np.random.default_rng(2).standard_normal((256, 1024)).astype("float32")
    x = relay.var("x", shape=(1, 1024))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.dense(x, relay.const(weight))))
    model = cases.compile_static(mod, [np.ones((1, 1024), "float32")])
    sizes = model.export(tmp_path / "dense.so")
    assert sizes.weights == weight.nbytes <= sizes.total <= weight.nbytes + 100_000
    check_outputs(model, tmp_path / "dense.so")
    mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith("dense.so")]
    total = sum(
        int(b, 16) - int(a, 16) for a, b in (line.split()[0].split("-") for line in mapped if " rw" not in line)
    )
    assert total >= weight.nbytes


@pytest.mark.slow("compiles the runtime")
@pytest.mark.parametrize("threads", (True, False))
@pytest.mark.parametrize("is_static", (True, False))
def test_the_runtime_is_one_file_without_warnings(is_static: bool, threads: bool, tmp_path: Path):
    source = tmp_path / "runtime.c"
    source.write_text(runtime_source.runtime_text("prefix", is_static, threads))
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-Wno-unused-function", "-c"]
    subprocess.run([cases.compiler("gcc"), *flags, str(source), "-o", str(tmp_path / "runtime.o")], check=True)
    if shutil.which("nm"):
        lines = cases.run("nm", tmp_path / "runtime.o").splitlines()
        assert not [line for line in lines if re.search(" [TDBRC] ", line) and " prefix__" not in line]


@pytest.mark.slow("compiles a network")
def test_size_of_mobilenet(tmp_path: Path):
    """With a dynamic batch, the bundle also contains the virtual machine."""
    from tvm.driver.tvmc.main import _main

    path, model = tmp_path / "net.so", str(cases.ROOT / "demo" / "mobilenet_v2.onnx")
    assert not _main(["compile", "--target", "llvm", "--output-format", "bundle", "--output", str(path), model])
    info = Info.in_dll(ctypes.CDLL(str(path)), "tvm_bundle_description")
    assert path.stat().st_size <= info.weight_bytes + 300_000


# ---- errors in Python ----


def _model(**options) -> tvm.IRModule:
    x = relay.var("x", shape=(2,))
    return tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(x)))


def test_errors_of_export_bundle(tmp_path: Path):
    model = relay.build(_model(), "llvm", executor=relay.backend.Executor("aot"))
    with pytest.raises(TVMError, match="unknown kind of bundle 'tar'; expected shared, static, c"):
        export_bundle(model, tmp_path / "a.so", "tar")
    with pytest.raises(TVMError, match="the file of a static bundle ends with .a"):
        export_bundle(model, tmp_path / "a.so", "static")
    with pytest.raises(TVMError, match="a C bundle needs a model compiled for target c"):
        export_bundle(model, tmp_path / "a.c", "c")
    with pytest.raises(TVMError, match="a C bundle is not compiled; leave the compiler out"):
        export_bundle(model, tmp_path / "a.c", "c", cc="gcc")
    with pytest.raises(TVMError, match="the folder .* does not exist"):
        export_bundle(model, tmp_path / "none" / "a.so")
    with pytest.raises(TVMError, match="the compiler 'no-such-gcc' was not found"):
        export_bundle(model, tmp_path / "a.so", cc="no-such-gcc")
    assert not list(tmp_path.iterdir())


def test_models_that_a_bundle_does_not_support(tmp_path: Path):
    with pytest.raises(TVMError, match="got GraphExecutorFactoryModule"):
        export_bundle(relay.build(_model(), "llvm"), tmp_path / "a.so")
    plain = relay.build(_model(), "c", executor=relay.backend.Executor("aot"), runtime=relay.backend.Runtime("crt"))
    with pytest.raises(TVMError, match="a bundle needs a model compiled for runtime cpp, not for runtime crt"):
        export_bundle(plain, tmp_path / "a.c", "c")
    executable = relay.vm.compile(_model(), "llvm")
    with pytest.raises(TVMError, match="needs ir_mod, the module that it was compiled from"):
        export_bundle(executable, tmp_path / "a.so")
    x = relay.var("x", shape=(2,))
    of_function = tvm.IRModule.from_expr(relay.Function([x], relay.Tuple([x, relay.Function([relay.var("y")], x)])))
    with pytest.raises(TVMError, match="a bundle supports only tensors, but output 'output1' has type"):
        export_bundle(relay.vm.compile(of_function, "llvm"), tmp_path / "a.so", ir_mod=of_function)


def test_header(tmp_path: Path):
    names = ["in/put", "in_put", "IN_PUT", "*/ int x"]
    params = [relay.var(name, shape=(2, 3)) for name in names]
    total = params[0] + params[1] + params[2] + params[3]
    mod = tvm.IRModule.from_expr(relay.Function(params, total))
    model = relay.build(mod, "c", executor=relay.backend.Executor("aot"))
    export_bundle(model, tmp_path / "net.c", "c", False)
    text = (tmp_path / "net.h").read_text()
    assert (
        "#define TVM_BUNDLE_INPUTS 4\n/* Input in/put: float32, shape (2, 3). */\n#define TVM_BUNDLE_INPUT_IN_PUT 0"
        in text
    )
    assert re.findall(r"#define TVM_BUNDLE_INPUT_(\w+) ", text)[:3] == ["IN_PUT", "IN_PUT_1", "IN_PUT_2"]
    assert len(re.findall(r"^int \w+\(|^const char \*\w+\(|^void \w+\(", text, re.MULTILINE)) == len(FUNCTIONS) == 6
    for command in (["gcc", "-std=c99"], ["g++", "-std=c++17", "-x", "c++"]):
        flags = [*cases.WARNINGS, "-fsyntax-only", str(tmp_path / "net.h")]
        subprocess.run([cases.compiler(command[0]), *command[1:], *flags], check=True)

"""Functions and variables of a CUDA text that say nothing of where they live are put on the device."""

from __future__ import annotations

import shutil

import pytest

from tests.codegen import gpu_programs as programs
from tvm import tir
from tvm.codegen.cuda import build as cuda
from tvm.codegen.cuda import nvrtc
from tvm.codegen.cuda.space import on_device
from tvm.target import Target

# Lines as they are given, and as they become; None: as they are.
LINES = [
    ("#include <cuda_fp16.h>", None),
    ("#define MORE(x) \\\n  ((x) + 1)", None),
    ("// int told(int x) {}", None),
    ("/* int told(int x) {\n} */", None),
    ("struct Pair { int a; };", None),
    ("struct Later;", None),
    ("struct __align__(8) Wide { int a, b; __device__ int sum() const { return a + b; } };", None),
    ("typedef struct { int b; } Other;", None),
    ("typedef int (*Function)(int);", None),
    ("enum { ONE = 1 };", None),
    ("using Number = int;", None),
    ("__device__ int already(int x) { return x; }", None),
    ("__constant__ float values[4];", None),
    (";", None),
    ("static const int table[3] = {1, 2, 3};", "__device__ static const int table[3] = {1, 2, 3};"),
    ("int counter;", "__device__ int counter;"),
    ("struct Pair start = {1};", "__device__ struct Pair start = {1};"),
    ("struct Pair make(int x);", "__device__ struct Pair make(int x);"),
    (
        "struct Pair make(int x) { struct Pair p = {x}; return p; } // {",
        "__device__ struct Pair make(int x) { struct Pair p = {x}; return p; } // {",
    ),
    (
        "static int twice(int x) { const char *s = \"}{\"; if (s[0] == '}') { return 2 * x + table[0]; } return 0; }",
        "__device__ static int twice(int x) "
        "{ const char *s = \"}{\"; if (s[0] == '}') { return 2 * x + table[0]; } return 0; }",
    ),
    ("template <typename T> T plus(T a) { return a; }", "template <typename T> __device__ T plus(T a) { return a; }"),
    ('extern "C" int other(int x) { return x; }', 'extern "C" __device__ int other(int x) { return x; }'),
    ('extern "C" {\nint inner(int x) { return 1; }\n}', 'extern "C" {\n__device__ int inner(int x) { return 1; }\n}'),
    ("namespace n { int deep() { return 1; } }", "namespace n { __device__ int deep() { return 1; } }"),
]
KERNEL = """extern "C" __global__ void __launch_bounds__(32) k(int* o) {
  o[0] = twice(o[1]) + inner(2) + other(1) + plus(3) + make(3).a + n::deep() + counter + already(ONE) + start.a;
}"""


def test_what_says_nothing_is_on_the_device():
    for given, wanted in LINES:
        assert on_device(given) == (given if wanted is None else wanted)
    text = "\n".join(given for given, _ in LINES) + "\n" + KERNEL
    assert on_device(text) == "\n".join(given if wanted is None else wanted for given, wanted in LINES) + "\n" + KERNEL
    assert on_device(on_device(text)) == on_device(text)


def test_text_that_is_made_here_says_where_everything_is():
    for target in ("cuda -arch=sm_75", "cuda -arch=sm_90"):
        for dtype in ("float16", "float32"):
            kernels = programs.kernels_of(*programs.matmul(dtype=dtype), target)
            text, _ = cuda.emit(kernels, Target(target))
            assert on_device(text) == text


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
def test_nvcc_takes_it(monkeypatch):
    monkeypatch.setattr(nvrtc, "library", lambda: None)
    text = "\n".join(given for given, _ in LINES) + "\n" + KERNEL
    assert b".entry k(" in nvrtc.compile_cuda(text, "sm_90", "ptx")

    def body(b, buffers, thread):
        b.scope_attr(thread, "pragma_import_c", tir.StringImm("int more(int x) { return x + 1; }\n"))
        buffers["x"][thread] = tir.call_pure_extern("int32", "more", buffers["x"][thread])

    made, _ = cuda.emit(programs.written_by_hand({"x": ((32,), "int32")}, body), Target("cuda -arch=sm_90"))
    assert nvrtc.compile_all(made, "sm_90")["cubin"][:4] == b"\x7fELF"

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import numpy as np
import pytest

from tvm import runtime
from tvm.error import TVMError
from tvm.runtime import module as module_api
from tvm.runtime import ndarray as nd


def arrays(n: int = 8):
    a = np.arange(n, dtype="float32")
    return nd.array(a), nd.array(a * 2), nd.empty((n,))


def test_library_function_computes(kernels):
    a, b, c = arrays()
    kernels["add"](a, b, c)
    np.testing.assert_array_equal(c.numpy(), np.arange(8) * 3)


def test_entry_is_the_one_the_library_names(kernels):
    a, b, c = arrays()
    kernels(a, b, c)
    np.testing.assert_array_equal(c.numpy(), np.arange(8) * 3)
    assert kernels.entry_name == "__tvm_main__"


def test_unknown_function_is_refused(kernels):
    with pytest.raises(AttributeError, match="has no function 'nobody'"):
        kernels["nobody"]
    assert not kernels.implements_function("nobody")
    assert kernels.implements_function("add")


def test_raw_entry_and_data_are_no_packed_functions(kernels):
    for name in ("add_compute_", "__tvm_runtime_table", "printf"):
        assert not kernels.implements_function(name)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda a, b, c: (a, b), "add: expected 3 arguments, got 2"),
        (lambda a, b, c: (a, nd.array(np.zeros(8)), c), r"add: argument 1 \(B\): expected float32, got float64"),
        (
            lambda a, b, c: (a, nd.array(np.zeros(7, "float32")), c),
            r"add: argument 1 \(B\): expected shape\[0\] == 8, got 7",
        ),
        (lambda a, b, c: (a, nd.array(np.zeros((8, 1), "float32")), c), "expected 1 dimensions, got 2"),
        (lambda a, b, c: (a, 3, c), r"add: argument 1 \(B\): expected an array"),
        (lambda a, b, c: (a, nd.from_dlpack(np.zeros(16, "float32")[::2]), c), "expected a compact row-major array"),
    ],
)
def test_wrong_arguments_are_refused(kernels, change, message):
    with pytest.raises(TVMError, match=message):
        kernels["add"](*change(*arrays()))


def test_object_without_a_form_is_a_type_error(kernels):
    with pytest.raises(TypeError, match="cannot take an argument of type"):
        kernels["add"](type("Odd", (), {})())


def test_numpy_arrays_are_used_in_place(kernels):
    a, c = np.ones(4, "float32"), np.zeros(4, "float32")
    kernels["add"](a, a, c)
    np.testing.assert_array_equal(c, 2 * a)


def test_rebuilt_file_is_never_stale(compiler, tmp_path):
    path = str(tmp_path / "answer.so")
    code = (
        '#include "tvm_runtime.h"\nint f(TVMValue*a,int*c,int n,TVMValue*r,int*k,void*h){r->v_int64=%d;*k=0;return 0;}'
    )
    loaded = []
    for answer in (1, 2):
        subprocess.run(
            [compiler, "-shared", "-fPIC", f"-I{runtime.include_path()}", "-xc", "-", "-o", path],
            input=(code % answer).encode(),
            check=True,
        )
        loaded.append(runtime.load_module(path))
    assert [mod["f"]() for mod in loaded] == [1, 2]


def test_function_keeps_its_library_loaded(kernel_path):
    function = runtime.load_module(kernel_path)["return_value"]
    assert function() == 42


@pytest.mark.parametrize("keep", [0, 3, 64, 600, 5000])
def test_truncated_library_is_refused(kernel_path, tmp_path, keep):
    path = tmp_path / "cut.so"
    path.write_bytes(open(kernel_path, "rb").read()[:keep])
    with pytest.raises(TVMError, match="cannot load library '.*cut.so': "):
        runtime.load_module(str(path))


def test_text_is_no_library(tmp_path):
    path = tmp_path / "text.so"
    path.write_text("not a library\n" * 100)
    with pytest.raises(TVMError, match="not an ELF file"):
        runtime.load_module(str(path))


def test_missing_file_and_unknown_format_are_refused(tmp_path):
    with pytest.raises(ValueError, match="the file .* does not exist"):
        runtime.load_module(str(tmp_path / "absent.so"))
    (tmp_path / "x.strange").write_text("")
    with pytest.raises(TVMError, match="no loader for files of format 'strange'"):
        runtime.load_module(str(tmp_path / "x.strange"))


def test_python_functions_make_a_module():
    mod = module_api.from_functions({"double": lambda x: 2 * x}, entry_name="double")
    assert mod["double"](4) == 8
    assert mod(5) == 10


def test_imported_functions_are_found_only_when_asked(kernel_path):
    outer, inner = runtime.load_module(kernel_path), module_api.from_functions({"inner": lambda: 7})
    outer.import_module(inner)
    assert outer.imported_modules == [inner]
    with pytest.raises(AttributeError, match="has no function 'inner'"):
        outer.get_function("inner")
    assert outer.get_function("inner", query_imports=True)() == 7


def test_generated_code_finds_functions_of_imports(kernel_path):
    outer = runtime.load_module(kernel_path)
    outer.import_module(module_api.from_functions({"test.callback": lambda x: x + 100}))
    assert outer["call_back"](1) == 101


def test_module_cannot_import_itself(kernel_path):
    a, b = (runtime.load_module(kernel_path) for _ in range(2))
    a.import_module(b)
    with pytest.raises(TVMError, match="would import itself"):
        b.import_module(a)


def test_unregistered_callee_is_named(kernels):
    with pytest.raises(TVMError, match="function 'test.nobody.registered.this' is called by generated code"):
        kernels["call_unknown"]()


def test_jit_code_loads_at_first_call_only():
    calls = []
    native = ctypes.CDLL(None)
    address = ctypes.cast(native.getpid, ctypes.c_void_p).value

    def load():
        calls.append(1)
        return module_api.JitCode({"process": address}, keepalive=native)

    mod = module_api.from_code(load, ["process"], source=lambda fmt: f"source as {fmt}")
    assert mod.implements_function("process") and not calls
    assert mod.get_source("ll") == "source as ll" and not calls
    assert mod.is_dso_exportable and mod.type_key == "llvm" and mod.format == "o"
    mod.get_function("process")
    mod.get_function("process")
    assert calls == [1]


def test_time_evaluator_counts_and_statistics(kernels):
    result = kernels.time_evaluator("sleep_ms", runtime.cpu(0), number=2, repeat=3)(2)
    assert len(result.results) == 3
    assert result.min >= 0.002
    assert result.min <= result.median <= result.max
    np.testing.assert_allclose([result.mean, result.std], [np.mean(result.results), np.std(result.results)])
    np.testing.assert_allclose(result.percentile(90), np.percentile(result.results, 90))
    assert "mean (ms)" in str(result)


def test_time_evaluator_reaches_min_repeat_ms(kernels):
    calls = []
    runtime.register_func("test.callback", lambda: calls.append(1), override=True)
    try:
        result = kernels.time_evaluator("call_back", runtime.cpu(0), number=1, repeat=1, min_repeat_ms=20)()
    finally:
        runtime.remove_global_func("test.callback")
    # The calls that were timed are some of all.
    assert result.mean > 0 and result.mean * len(calls) >= 0.02


def test_time_evaluator_runs_preprocess_before_each_repeat(kernels):
    seen = []
    runtime.register_func("test.preprocess", lambda *args: seen.append(args), override=True)
    kernels.time_evaluator("sleep_ms", runtime.cpu(0), number=1, repeat=4, f_preproc="test.preprocess")(0)
    assert seen == [(0,)] * 4


def test_time_evaluator_refuses_bad_counts(kernels):
    with pytest.raises(TVMError, match="number and repeat must be positive"):
        kernels.time_evaluator("sleep_ms", runtime.cpu(0), number=0)(1)


def test_time_evaluator_flushes_caches(kernels):
    a, b, c = arrays()
    result = kernels.time_evaluator(
        "add", runtime.cpu(0), number=1, repeat=2, cache_flush_bytes=1 << 16, f_preproc="cache_flush_cpu_non_first_arg"
    )(a, b, c)
    assert len(result.results) == 2
    np.testing.assert_array_equal(c.numpy(), np.arange(8) * 3)


def test_enabled_targets():
    assert runtime.enabled("c") and runtime.enabled("cpu")
    assert not runtime.enabled("no_such_target")
    assert runtime.enabled("cuda") == runtime.cuda(0).exist
    assert runtime.enabled("cuda -arch=sm_80") == runtime.cuda(0).exist


def test_a_target_whose_driver_is_missing_is_not_enabled():
    env = {**os.environ, "TVM_CUDA_LIBRARY": "/nowhere/libcuda.so"}
    subprocess.run([sys.executable, "-c", "import tvm; assert not tvm.runtime.enabled('cuda')"], env=env, check=True)


def test_missing_runtime_library_says_how_to_build(tmp_path):
    env = {**os.environ, "TVM_LIBRARY_PATH": str(tmp_path)}
    code = "from tvm.runtime import ndarray as nd; nd.empty((1,))"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode != 0
    assert "make -C csrc" in done.stderr and "TVM_LIBRARY_PATH" in done.stderr


def test_lookup_through_shared_imports_visits_each_module_once():
    def empty() -> module_api.Module:
        return module_api.from_functions({})

    top = empty()
    for _ in range(60):
        over = empty()
        over.import_module(top)
        over.import_module(top)
        top = over
    assert len(list(top.with_imports())) == 61
    assert not top.implements_function("nope", query_imports=True)

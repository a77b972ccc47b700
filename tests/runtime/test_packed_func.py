from __future__ import annotations

import ctypes
import threading
import traceback

import ml_dtypes
import numpy as np
import pytest

from tvm import runtime
from tvm._ffi.registry import extract_ext_funcs
from tvm.error import TVMError
from tvm.runtime import ndarray as nd
from tvm.runtime.packed_func import PythonFunction


@pytest.fixture
def callback():
    """Registers what generated code reaches as test.callback, in a library of its own so that nothing is cached."""

    def register(function):
        runtime.register_func("test.callback", function, override=True)

    yield register
    runtime.remove_global_func("test.callback")


@pytest.fixture
def fresh(kernel_path):
    return runtime.load_module(kernel_path)


VALUES = [
    0,
    -5,
    2**62,
    1.5,
    float("inf"),
    "text",
    "gr\u00fc\u00df",
    "",
    b"\0bytes",
    b"",
    None,
    [1, [2, "x"]],
    {"a": [1]},
    runtime.cuda(2),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_cross_c_and_come_back(fresh, callback, value):
    seen = []
    callback(lambda x: seen.append(x) or x)
    result = fresh["call_back"](value)
    assert result == value and seen == [value]


def test_arrays_functions_and_modules_cross_c(fresh, callback):
    callback(lambda x: x)
    array = nd.array(np.arange(4))
    assert fresh["call_back"](array).same_as(array)
    assert fresh["call_back"](fresh) is fresh
    function = fresh["call_back"](lambda x: x + 1)
    assert isinstance(function, runtime.PackedFunc) and function(4) == 5
    assert fresh["call_back"](fresh["return_value"])() == 42


def test_python_results_of_kernels_are_owned(fresh, callback):
    kept = nd.array(np.arange(3))
    callback(lambda: kept)
    results = [fresh["call_back"]() for _ in range(3)]
    assert runtime._lib.lib.TVMArrayUseCount(kept._tensor) == 4
    del results
    assert runtime._lib.lib.TVMArrayUseCount(kept._tensor) == 1


def test_foreign_class_with_a_handle_of_ours_is_passed_by_it(fresh, callback):
    from tvm._ffi.runtime_ctypes import ArgTypeCode

    class View:
        _tvm_tcode = ArgTypeCode.DLTENSOR_HANDLE

        def __init__(self, array):
            self.array = array

        @property
        def _tvm_handle(self):
            return self.array._tvm_handle

    callback(lambda array: int(array.numpy().sum()))
    assert fresh["call_back"](View(nd.array(np.arange(5)))) == 10


@pytest.mark.parametrize("name, kind", [("ValueError", ValueError), ("OpNotImplemented", NotImplementedError)])
def test_error_text_that_names_a_class_is_raised_as_it(kernels, name, kind):
    with pytest.raises(kind, match="^what happened$"):
        kernels["fail_with"](f"{name}: what happened")


def test_registered_error_keeps_its_class(kernels):
    from tvm.error import register_error

    @register_error
    class OddTestError(TVMError):
        pass

    with pytest.raises(OddTestError, match="^odd$"):
        kernels["fail_with"]("OddTestError: odd")
    with pytest.raises(TVMError, match="^NobodysError: odd$"):
        kernels["fail_with"]("NobodysError: odd")


@pytest.mark.parametrize("value", [np.int8(-3), np.uint32(7), np.float16(1.5), np.bool_(True), ml_dtypes.bfloat16(2.5)])
def test_numpy_scalars_are_numbers(fresh, callback, value):
    callback(lambda x: x)
    assert fresh["call_back"](value) == float(value)


def test_opaque_handle_crosses_c(fresh, callback):
    seen = []
    callback(lambda handle: seen.append(handle.value) or handle)
    result = fresh["call_back"](ctypes.c_void_p(4711))
    assert seen == [4711] and result.value == 4711


def test_many_arguments(fresh, callback):
    callback(lambda *args: sum(args))
    assert fresh["call_back"](*range(100)) == 4950


def test_arguments_that_do_not_fit_are_refused(fresh):
    with pytest.raises(OverflowError, match="does not fit in a 64-bit integer"):
        fresh["call_back"](2**63)
    with pytest.raises(ValueError, match="null character"):
        fresh["call_back"]("a\0b")


def test_exception_comes_back_whole(fresh, callback):
    class Special(Exception):
        pass

    raised = Special("from the callback", 7)

    def inner():
        raise raised

    callback(lambda: inner())
    with pytest.raises(Special) as caught:
        fresh["call_back"]()
    assert caught.value is raised
    assert "in inner" in "".join(traceback.format_exception(caught.value))


def test_exception_comes_back_from_pool_threads(fresh, callback):
    def fail(task):
        if task == 1:
            raise KeyError(task)

    callback(fail)
    with pytest.raises(KeyError) as caught:
        fresh["call_back_parallel"](2)
    assert caught.value.args == (1,)


def test_plain_error_after_an_exception_is_plain(fresh, callback):
    def fail():
        raise KeyError("x")

    callback(fail)
    with pytest.raises(KeyError):
        fresh["call_back"]()
    with pytest.raises(TVMError, match="expected 3 arguments, got 0"):
        fresh["add"]()


def test_lent_array_ends_with_the_callback(fresh, callback):
    kept = []

    def keep(array):
        assert array.is_view
        kept.append(array)
        return float(array.numpy().sum())

    callback(keep)
    assert fresh["lend_tensor"]() == 10.0
    with pytest.raises(TVMError, match="valid only during a callback"):
        kept[0].numpy()
    with pytest.raises(TVMError, match="valid only during a callback"):
        fresh["add"](kept[0], kept[0], kept[0])


def test_calls_nest_on_one_thread(fresh, callback):
    def deeper(depth):
        return 0 if depth == 0 else 1 + fresh["call_back"](depth - 1)

    callback(deeper)
    assert fresh["call_back"](50) == 50


def test_callbacks_from_several_threads(kernel_path, callback):
    callback(lambda x: x * 2)
    failures = []

    def work(base):
        module = runtime.load_module(kernel_path)
        for i in range(300):
            if module["call_back"](base + i) != 2 * (base + i):
                failures.append(i)

    threads = [threading.Thread(target=work, args=(1000 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


# ---- the global table ----


def test_register_get_and_override():
    @runtime.register_func("test.registered")
    def first(x):
        return x + 1

    assert runtime.get_global_func("test.registered")(1) == 2
    assert runtime.get_global_func("test.registered").is_global
    with pytest.raises(TVMError, match="'test.registered' is already registered"):
        runtime.register_func("test.registered", first)
    runtime.register_func("test.registered", lambda x: x + 10, override=True)
    assert runtime.get_global_func("test.registered")(1) == 11
    assert "test.registered" in runtime.list_global_func_names()
    runtime.remove_global_func("test.registered")
    assert runtime.get_global_func("test.registered", allow_missing=True) is None
    with pytest.raises(ValueError, match="no global function named 'test.registered'"):
        runtime.get_global_func("test.registered")


def test_bare_decorator_takes_the_function_name():
    @runtime.register_func
    def test_bare_name():
        return 3

    assert runtime.get_global_func("test_bare_name")() == 3
    runtime.remove_global_func("test_bare_name")


def test_functions_of_c_are_callable():
    assert runtime.get_global_func("runtime.NumThreads")() == runtime.num_threads()


def test_python_function_keeps_python_values():
    marker = object()
    function = runtime.convert(lambda x: x)
    assert isinstance(function, PythonFunction)
    assert function(marker) is marker
    nested = function([1, [2]])
    assert isinstance(nested, runtime.Array) and nested == [1, [2]]
    assert isinstance(function(lambda: 1), runtime.PackedFunc)
    assert function(bytearray(b"ab")) == b"ab"


def test_extract_ext_funcs_collects():
    def init(register):
        register("double", lambda x: 2 * x)
        return 0

    assert extract_ext_funcs(init)["double"](4) == 8


# ---- containers ----


def test_containers_behave_as_their_python_kin():
    array = runtime.convert([1, 2, 3])
    assert isinstance(array, runtime.Object) and array[-1] == 3 and array[1:] == [2, 3] and array + [4] == [1, 2, 3, 4]
    mapping = runtime.convert({"a": 1})
    assert mapping["a"] == 1 and mapping.items() == [("a", 1)]
    assert runtime.convert("x") == "x" and isinstance(runtime.convert("x"), runtime.String)
    shape = runtime.ShapeTuple([1, np.int64(2)])
    assert shape == (1, 2) and len(shape) == 2
    with pytest.raises(TypeError, match="expected integers"):
        runtime.ShapeTuple([1.5])
    data = runtime.container.ADT(3, [1, 2])
    assert data.tag == 3 and data[1] == 2 and len(data) == 2
    assert runtime.container.tuple_object([1]).tag == 0


def test_number_converter_of_the_compiler_is_used():
    from tvm.runtime import object_generic

    before = object_generic.CONVERT_NUMBER.give(lambda value: ("number", value))
    try:
        assert runtime.convert([1])[0] == ("number", 1)
    finally:
        object_generic.CONVERT_NUMBER.give(before)


def test_nothing_is_freed_once_the_interpreter_ends():
    """Freeing may run callbacks into Python, which are gone by then."""
    freed = []

    class Library:
        def __getattr__(self, name):
            return lambda handle: freed.append(name)

    function = runtime.convert(lambda: 0)
    assert function.handle
    for ending in (True, False):
        type(function).__del__(function, lib=Library(), ending=lambda end=ending: end)
        assert len(freed) == (0 if ending else 1)


def test_numbers_of_numpy_keep_their_type():
    for value in (np.bool_(True), np.uint8(1), np.int64(1), np.float16(1)):
        assert runtime.convert(value).dtype == str(value.dtype)

"""Generic functions choose by the keys of the current target."""

from __future__ import annotations

import pytest

import tvm.target
from tvm.target import Target, generic_func, get_native_generic_func, override_native_generic_func


def make():
    @generic_func
    def add(data):
        """adds"""
        return data + 1

    @add.register(["cuda", "gpu"])
    def add_gpu(data):
        return data + 2

    @add.register("rocm")
    def add_rocm(data):
        return data + 3

    add.register("cpu", lambda data: data + 10)
    return add


@pytest.mark.parametrize(
    "target, expected",
    [("cuda", 3), ("rocm", 4), ("metal", 3), ("llvm -device=arm_cpu", 11), ("ext_dev", 2)],
)
def test_dispatch_takes_the_first_key_that_has_a_function(target, expected):
    add = make()
    with Target(target):
        assert add(1) == expected
        assert add.get_packed_func()(1) == expected


def test_no_target_means_the_default():
    add = make()
    assert add(1) == 2
    assert add.fdefault(1) == 2
    assert add.__doc__ == "adds"
    assert set(add.dispatch_dict) == {"cuda", "gpu", "rocm", "cpu"}


def test_registering_a_key_twice_is_refused_and_changes_nothing():
    add = make()
    with pytest.raises(ValueError, match="'add' already has a function for 'rocm'"):
        add.register(["vulkan", "rocm"], lambda data: 0)
    assert "vulkan" not in add.dispatch_dict
    add.register("rocm", lambda data: 0, override=True)
    with tvm.target.rocm():
        assert add(1) == 0


def test_native_functions_are_shared_by_name():
    @override_native_generic_func("test_target.shared")
    def first(data):
        return data

    first.register("cpu", lambda data: data * 2)
    shared = get_native_generic_func("test_target.shared")
    with Target("llvm"):
        assert shared(4) == 8
    assert shared(4) == 4

    @override_native_generic_func("test_target.shared")
    def second(data):
        return -data

    assert first(4) == -4
    with pytest.raises(ValueError, match="already has a default"):
        shared.set_default(first.fdefault)


def test_a_function_with_nothing_for_the_target_says_so():
    lonely = tvm.target.GenericFunc("lonely")
    lonely.register(abs, "cuda")
    with Target("llvm"), pytest.raises(KeyError, match="'lonely' has no default and no function for target 'llvm"):
        lonely(1)


def test_the_packed_function_is_the_implementation_so_a_dispatcher_may_be_a_default():
    @tvm.target.generic_func
    def twice(x):
        return 2 * x

    native = tvm.target.get_native_generic_func("test.packed_of_generic")
    native.set_default(twice, allow_override=True)
    assert native.get_packed_func()(4) == 8
    twice.generic_func_node.set_default(native.get_packed_func().fdefault, allow_override=True)
    assert twice(3) == 6

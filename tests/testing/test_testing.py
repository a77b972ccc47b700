"""The helpers of tests, and the plugin that runs tests on targets."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import tvm
import tvm.testing
from tvm import te, tir

PLUGIN_TESTS = """
import pytest
import tvm, tvm.testing
size, name = tvm.testing.parameters((1, "one"), (2, "two"))
shape = tvm.testing.parameter((2, 3), (4,))

@tvm.testing.fixture
def area(shape):
    total = 1
    for s in shape:
        total *= s
    return total

def test_on_targets(target, dev):
    assert dev.exist and dev == tvm.device(target.split()[0], 0)

def test_together(size, name):
    assert {1: "one", 2: "two"}[size] == name

def test_area(shape, area):
    assert area in (6, 4)

class TestAttributes:
    rank = tvm.testing.parameter(1, 2)
    low, high = tvm.testing.parameters((0, 1), (2, 3))
    kind = tvm.testing.parameter(by_dict={"small": 4, "large": 8})

    @tvm.testing.fixture
    def both(self, rank, kind):
        return rank * kind

    @tvm.testing.fixture(cache_return_value=True)
    def values(self, rank):
        return [0] * rank

    def test_rank(self, rank, both, values):
        assert both in (4, 8, 16, 32) and len(values) == rank

    def test_set(self, low, high):
        assert high == low + 1

class TestInherits(TestAttributes):
    rank = tvm.testing.parameter(4)

    def test_other(self, rank):
        assert rank == 4

class TestOwnTargets:
    target = tvm.testing.parameter("llvm -mcpu=x86-64")

    def test_own(self, target, dev):
        assert target == "llvm -mcpu=x86-64" and dev == tvm.cpu(0)

@tvm.testing.parametrize_targets("vulkan -from_device=0", "cuda -libs=cudnn")
def test_absent_device(target, dev):
    raise AssertionError("it cannot run")

@pytest.mark.parametrize("target,n", [("llvm", 1), ("cuda -libs=cudnn", 2), ("rocm", 3)])
def test_explicit(target, n):
    assert n == 1

@tvm.testing.known_failing_targets("llvm")
def test_fails(target):
    assert "llvm" not in target

@tvm.testing.xfail_parameterizations("3-4", reason="known")
@pytest.mark.parametrize("n, m", [(1, 2), (3, 4)])
def test_some_fail(n, m):
    assert n == 1

class TestNamed:
    config = {"plus": (1, 2), "times": (3, 4)}
    first, second = tvm.testing.parameters(*config.values(), ids=config.keys())

    def test_named(self, first, second):
        assert (first, second) in self.config.values()

class TestTwice(tvm.testing.CompareBeforeAfter):
    size = tvm.testing.parameter(4, 8)

    def transform(self):
        return tvm.tir.transform.Simplify()

    def before(self, size):
        return tvm.tir.PrimFunc([], tvm.tir.Evaluate(tvm.tir.Var("x", "int32") * 0 + size))

    def expected(self, size):
        return tvm.tir.PrimFunc([], tvm.tir.Evaluate(tvm.tir.const(size, "int32")))

@tvm.testing.requires_cuda
def test_cuda():
    assert tvm.cuda(0).exist

@tvm.testing.parametrize_targets("llvm", "llvm -num-cores=1")
def test_two(target):
    assert "llvm" in target

@tvm.testing.exclude_targets("llvm")
def test_excluded(target):
    assert not target.startswith("llvm")
"""


@pytest.mark.slow("starts a run of tests")
def test_plugin_runs_tests_on_the_targets_of_this_machine(tmp_path):
    (tmp_path / "test_plugin.py").write_text(PLUGIN_TESTS)
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "tvm.testing.plugin",
            "-rA",
            str(tmp_path / "test_plugin.py"),
            "-p",
            "no:cacheprovider",
            "-c",
            "/dev/null",
        ],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert any(line.startswith("PASSED") and line.endswith("test_on_targets[llvm]") for line in run.stdout.splitlines())
    for words in (
        "test_together[1-one]",
        "test_together[2-two]",
        "test_area[shape0]",
        "test_two[llvm",
        "TestAttributes::test_rank[1-small]",
        "TestAttributes::test_set[2-3]",
        "TestInherits::test_other[4]",
        "TestOwnTargets::test_own[llvm -mcpu=x86-64]",
        "TestTwice::test_compare[8]",
        "test_explicit[llvm-1]",
        "TestNamed::test_named[times]",
    ):
        assert words in run.stdout, words
    assert "target vulkan -from_device=0 cannot run here" in run.stdout and "it cannot run" not in run.stdout
    assert any(line.startswith("XFAIL") and "test_fails[llvm]" in line for line in run.stdout.splitlines())
    assert any(line.startswith("XFAIL") and "test_some_fail[3-4]" in line for line in run.stdout.splitlines())
    if not tvm.cuda(0).exist:
        assert "CUDA cannot run here" in run.stdout or "a GPU is not here" in run.stdout


def test_assert_allclose_shows_a_difference():
    tvm.testing.assert_allclose(np.ones(3), np.ones(3))
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        tvm.testing.assert_allclose(np.ones(3), np.ones(3) + 1e-3)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        tvm.testing.assert_allclose(np.ones(3), np.ones(4))


def test_equal_expressions():
    x = te.var("x")
    tvm.testing.assert_prim_expr_equal(x + x, 2 * x)
    with pytest.raises(ValueError, match="not equal"):
        tvm.testing.assert_prim_expr_equal(x + 1, x)
    tvm.testing.check_bool_expr_is_true(tir.all(x // 2 * 2 + x % 2 >= 0), {x: tvm.ir.Range(0, 9)})
    with pytest.raises(AssertionError, match="is false at"):
        tvm.testing.check_bool_expr_is_true(x < 8, {x: tvm.ir.Range(0, 9)})


def test_numerical_gradients():
    x = np.random.default_rng(0).random((3, 2))
    tvm.testing.check_numerical_grads(lambda a: (a**2).sum(), [x], [2 * x])
    with pytest.raises(AssertionError, match="differs from finite differences"):
        tvm.testing.check_numerical_grads(lambda a: (a**2).sum(), [x], [3 * x])


def test_echo_and_enabled_targets():
    assert tvm.testing.echo(3) == 3 and tvm.testing.echo("x") == "x"
    assert ("llvm", tvm.cpu(0)) in tvm.testing.enabled_targets()
    assert tvm.testing.device_enabled("llvm") and not tvm.testing.device_enabled("hexagon")
    with pytest.raises(TypeError, match="the target must be a string"):
        tvm.testing.device_enabled(tvm.cpu(0))


class TestComparePass(tvm.testing.CompareBeforeAfter):
    transform = tvm.tir.transform.Simplify()

    def before(self):
        a = tir.decl_buffer((8,), "int32", name="a")
        i = te.var("i")
        return tir.PrimFunc([a], tir.For(i, 0, 8, 0, tir.BufferStore(a, i * 2 // 2, [i])))

    def expected(self):
        a = tir.decl_buffer((8,), "int32", name="a")
        i = te.var("i")
        return tir.PrimFunc([a], tir.For(i, 0, 8, 0, tir.BufferStore(a, i, [i])))


def test_functions_on_the_other_side_of_c():
    with pytest.raises(tvm.error.OpNotImplemented, match="myop"):
        tvm.testing.test_raise_error_callback("OpNotImplemented: myop")()
    check = tvm.testing.test_check_eq_callback("InternalError: myop")
    check(1, 1)
    with pytest.raises(tvm.error.InternalError, match="1 and 2 are not equal"):
        check(1, 2)
    with pytest.raises(ValueError, match="0 and 1 are not equal"):
        tvm.testing.ErrorTest(0, 1)
    assert tvm.testing.test_wrap_callback(lambda x: x + 1)(3) == 4
    assert tvm.testing.nop(1) is None


def test_what_a_test_may_require():
    @tvm.testing.requires_llvm_minimum_version(3)
    def present():
        pass

    @tvm.testing.requires_llvm_minimum_version(999)
    def absent():
        pass

    @tvm.testing.requires_nvcc_version(999)
    def newer():
        pass

    skipped = [any(m.name == "skipif" and m.args[0] for m in f.pytestmark) for f in (present, absent, newer)]
    assert skipped == [False, True, True]


@pytest.mark.parametrize("dtype, limits", [("int8", (-128, 127)), ("uint16", (0, 65535)), ("float32", (-1, 1))])
def test_ranges_of_element_types(dtype, limits):
    from tvm.testing.aot import get_dtype_range

    assert get_dtype_range(dtype) == limits


def test_methods_become_fixtures_before_fixtures_had_a_class_of_their_own(monkeypatch):
    """pytest below 8.4 marks the function of a fixture; a plain method is a function too."""
    from _pytest import fixtures

    def fixture(function):
        function._pytestfixturefunction = True
        return function

    monkeypatch.delattr(fixtures, "FixtureFunctionDefinition", raising=False)
    monkeypatch.setattr(pytest, "fixture", fixture)

    class Case(tvm.testing.CompareBeforeAfter):
        def before(self):
            return None

        @fixture
        def expected(self):
            return None

    assert vars(Case)["before"]._pytestfixturefunction and vars(Case)["expected"]._pytestfixturefunction


def reasons(decorate) -> list[str]:
    def test():
        pass

    return [m.kwargs["reason"] for m in decorate(test).pytestmark if m.name == "skipif" and m.args[0]]


def test_gpus_and_toolkits_of_other_versions_are_skipped(monkeypatch):
    from tvm.contrib import nvcc

    class GPU:
        exist, compute_version = True, "8.6"

    monkeypatch.setattr(tvm, "cuda", lambda index: GPU)
    assert "needs compute capability 9.0, found 8.6" in reasons(tvm.testing.requires_cuda_compute_version(9))
    assert not any("compute" in r for r in reasons(tvm.testing.requires_cuda_compute_version(8, 6)))
    GPU.exist = False
    assert "needs compute capability 7.5, found 0.0" in reasons(tvm.testing.requires_cuda_compute_version(7, 5))
    monkeypatch.setattr(nvcc, "get_cuda_version", lambda: (12, 4))
    assert not any("toolkit" in r for r in reasons(tvm.testing.requires_nvcc_version(12, 4)))
    assert "needs the CUDA toolkit 12.4.1, found 12.4" in reasons(tvm.testing.requires_nvcc_version(12, 4, 1))
    monkeypatch.setenv("SKIP_SLOW_TESTS", "true")
    assert reasons(tvm.testing.slow) == ["slow, and SKIP_SLOW_TESTS is set"]

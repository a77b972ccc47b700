"""The helpers of tests, and the plugin that runs tests on targets."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import tvm
import tvm.testing
from tvm import te, tir

PLUGIN_TESTS = '''
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

@tvm.testing.requires_cuda
def test_cuda():
    assert tvm.cuda(0).exist

@tvm.testing.parametrize_targets("llvm", "llvm -num-cores=1")
def test_two(target):
    assert "llvm" in target

@tvm.testing.exclude_targets("llvm")
def test_excluded(target):
    assert not target.startswith("llvm")
'''


def test_plugin_runs_tests_on_the_targets_of_this_machine(tmp_path):
    (tmp_path / "test_plugin.py").write_text(PLUGIN_TESTS)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tvm.testing.plugin", "-rA", str(tmp_path / "test_plugin.py"),
         "-p", "no:cacheprovider", "-c", "/dev/null"],
        capture_output=True, text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert any(line.startswith("PASSED") and line.endswith("test_on_targets[llvm]") for line in run.stdout.splitlines())
    for words in ("test_together[1-one]", "test_together[2-two]", "test_area[shape0]", "test_two[llvm"):
        assert words in run.stdout, words
    if not tvm.cuda(0).exist:
        assert "CUDA cannot run here" in run.stdout or "a GPU is not here" in run.stdout


def test_assert_allclose_shows_a_difference():
    tvm.testing.assert_allclose(np.ones(3), np.ones(3))
    with pytest.raises(AssertionError):
        tvm.testing.assert_allclose(np.ones(3), np.ones(3) + 1e-3)
    with pytest.raises(AssertionError):
        tvm.testing.assert_allclose(np.ones(3), np.ones(4))


def test_equal_expressions():
    x = te.var("x")
    tvm.testing.assert_prim_expr_equal(x + x, 2 * x)
    with pytest.raises(ValueError, match="not equal"):
        tvm.testing.assert_prim_expr_equal(x + 1, x)
    tvm.testing.check_bool_expr_is_true(tir.all(x // 2 * 2 + x % 2 >= 0), {x: tvm.ir.Range(0, 9)})
    with pytest.raises(AssertionError, match="does not hold at"):
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
    with pytest.raises(TypeError):
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

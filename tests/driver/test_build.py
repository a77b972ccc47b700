"""tvm.build: what it takes and what it refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import tvm
from tvm import te, tir
from tvm.driver.build_module import build_kernels
from tvm.error import TVMError

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("kind", ["hexagon", "webgpu"])
def test_a_target_without_back_end_is_refused_by_name(kind):
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] + 1, name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    assert 'T.launch_thread("threadIdx.x", 64)' in str(tvm.lower(s, [a, b]))
    with pytest.raises(
        TVMError, match=f"no back end generates code for target kind '{kind}'; target kinds with a back end: .*llvm"
    ):
        tvm.build(s, [a, b], kind)


IMPORTED = "define float @triple(float %x) {\n  %y = fmul float %x, 3.0\n  ret float %y\n}\n"


def adding(number: int):
    """A lowered kernel ``add_NUMBER``; every tenth one brings LLVM text of its own and triples with it first."""
    a = te.placeholder((32,), name="A")
    triples = number % 10 == 0
    b = te.compute((32,), lambda i: (tvm.tir.call_extern("float32", "triple", a[i]) if triples else a[i]) + number)
    s = te.create_schedule(b.op)
    if triples:
        s[b].pragma(b.op.axis[0], "import_llvm", IMPORTED)
    s[b].parallel(b.op.axis[0])
    return tvm.lower(s, [a, b], name=f"add_{number}")


def kernels(count: int, begin: int = 0):
    target = tvm.target.Target("llvm")
    return ((target, adding(number)) for number in range(begin, begin + count))


@pytest.mark.parametrize("count", [1, 8, 9, 27])
def test_kernels_that_come_one_by_one_are_one_module(count):
    """However many LLVM sees together: they have symbols, tasks and imported text of one module."""
    built = build_kernels(kernels(count), tvm.target.Target("llvm"))
    x = np.arange(32, dtype="float32")
    for number in range(count):
        out = tvm.nd.array(np.zeros(32, "float32"))
        built[f"add_{number}"](tvm.nd.array(x), out)
        np.testing.assert_array_equal(out.numpy(), (x if number % 10 else 3 * x) + number)
    assert all(f"add_{number}" in built.get_source("ll") for number in range(count))


def test_kernels_that_come_one_by_one_are_compiled_alike_every_time(tmp_path):
    code = []
    for number in range(2):
        path = tmp_path / f"{number}.o"
        build_kernels(kernels(20), tvm.target.Target("llvm")).save(str(path))
        code.append(path.read_bytes())
    assert code[0] == code[1]


def test_a_function_that_comes_again_is_one():
    """Kernels bring the functions that they call."""

    def again():
        yield from kernels(20)
        yield from kernels(1, begin=3)

    built = build_kernels(again(), tvm.target.Target("llvm"))
    out = tvm.nd.array(np.zeros(32, "float32"))
    built["add_3"](tvm.nd.array(np.ones(32, "float32")), out)
    assert set(out.numpy().tolist()) == {4.0}


def test_another_function_with_the_symbol_of_one_is_refused_wherever_it_comes():
    def another():
        yield from kernels(20)
        (function,) = adding(3).functions.values()
        yield tvm.target.Target("llvm"), tvm.IRModule({"another": function})

    with pytest.raises(TVMError, match="two functions of the module have the symbol 'add_3'"):
        build_kernels(another(), tvm.target.Target("llvm"))


# Two threads compile, and nothing is compiled before the fork begins.
WAITING = """
import os, threading
import numpy as np
import tvm
from tvm.codegen.llvm import build, jit
from tvm.driver.build_module import build_kernels
from tests.driver.test_build import kernels

compiled, begins = jit.compiled, threading.Event()
jit.compiled = lambda *args: (begins.wait(), compiled(*args))[1]
build.host_cpu.usable_cores = lambda: 2
os.register_at_fork(before=begins.set)
"""

FORKED = (
    WAITING
    + """
built = build_kernels(kernels(9, begin=1), tvm.target.Target("llvm"))
assert not all(part.done() for part in build._PARTS)
child = os.fork()
out = tvm.nd.array(np.zeros(32, "float32"))
built["add_3"](tvm.nd.array(np.ones(32, "float32")), out)
assert set(out.numpy().tolist()) == {4.0}
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
)


FORKED_AFTER_AN_ERROR = (
    WAITING
    + """
kept = []

def failing():
    for number in range(1, 60):
        if number % 10:
            yield from kernels(1, begin=number)
    kept.extend(build._PARTS)
    raise tvm.TVMError("there is no schedule")

try:
    build_kernels(failing(), tvm.target.Target("llvm"))
except tvm.TVMError:
    pass
assert any(part.cancelled() for part in kept)
child = os.fork()
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
)


@pytest.mark.slow("starts a process that forks while LLVM compiles")
@pytest.mark.parametrize("script", [FORKED, FORKED_AFTER_AN_ERROR], ids=["compiling", "cancelled"])
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_process_that_is_forked_while_llvm_compiles_has_the_code(script):
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]


def test_an_error_while_kernels_are_lowered_is_that_of_the_build(monkeypatch):
    def failing():
        yield from kernels(20)
        raise TVMError("there is no schedule")

    shutdown, ended = ThreadPoolExecutor.shutdown, []
    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", lambda *a, **k: (ended.append(k), shutdown(*a, **k)))
    with pytest.raises(TVMError, match="there is no schedule"):
        build_kernels(failing(), tvm.target.Target("llvm"))
    # Nobody waits for code that has not been begun with.
    assert ended == [{"wait": False, "cancel_futures": True}]


def test_text_that_llvm_refuses_is_told_whichever_kernels_bring_it(monkeypatch):
    monkeypatch.setitem(globals(), "IMPORTED", "define float @triple( {\n")
    with pytest.raises(TVMError, match="LLVM rejected the module"):
        build_kernels(kernels(20), tvm.target.Target("llvm"))


def plus_one() -> tir.PrimFunc:
    """b[i] = a[i] + 1, without a global symbol."""
    a = te.placeholder((4,), name="a")
    return te.create_prim_func([a, te.compute((4,), lambda i: a[i] + 1.0)]).without_attr("global_symbol")


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("lowered", [False, True])
def test_a_function_without_a_symbol_is_called_by_its_name_in_the_module(target, lowered):
    mod = tvm.IRModule({"plus_one": plus_one()})
    built = tvm.build(tvm.lower(mod) if lowered else mod, target=target)
    for call in (built["plus_one"], built):
        out = tvm.nd.array(np.zeros(4, "float32"))
        call(tvm.nd.array(np.arange(4, dtype="float32")), out)
        np.testing.assert_array_equal(out.numpy(), [1, 2, 3, 4])


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_a_function_without_a_symbol_that_another_calls_is_not_found(target):
    a, b = tir.Var("a", "handle"), tir.Var("b", "handle")
    from_, to = tir.decl_buffer((4,), name="from"), tir.decl_buffer((4,), name="to")
    call = tir.Evaluate(tir.Call("int32", tvm.ir.GlobalVar("inner"), [from_.data, to.data]))
    outer = tir.PrimFunc([a, b], call, None, {a: from_, b: to}, {"global_symbol": "outer"})
    built = tvm.build(tvm.IRModule({"inner": plus_one(), "outer": outer}), target=target)
    out = tvm.nd.array(np.zeros(4, "float32"))
    built(tvm.nd.array(np.arange(4, dtype="float32")), out)
    np.testing.assert_array_equal(out.numpy(), [1, 2, 3, 4])
    with pytest.raises(AttributeError, match="has no function 'inner'"):
        built["inner"]

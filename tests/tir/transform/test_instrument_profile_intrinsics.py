"""Light-weight profiling: which loops count, and under which numbers."""

from __future__ import annotations

import numpy as np
import pytest
from lowered import of, var

import tvm
from tvm.ir.module import IRModule
from tvm.tir.buffer import decl_buffer
from tvm.tir.function import PrimFunc
from tvm.tir.stmt import BufferStore, Evaluate, For, ForKind, SeqStmt, seq

OPTIONS = {"tir.lwp_disable_func_prof": True, "tir.reset_start_id": True}


def loop(name, body, kind=ForKind.SERIAL):
    v = var(name)
    return For(v, 0, 2, kind, body(v))


def program(parallel=ForKind.SERIAL):
    """for i: for j: (for k: for l); (for m: for n)"""
    b = decl_buffer((16,), "int32", "B")

    def pair(i, j, names):
        outer, inner = names
        return loop(
            outer,
            lambda k: loop(
                inner, lambda l: BufferStore(b, b[i * 8 + j * 4 + k * 2 + l] + 1, [i * 8 + j * 4 + k * 2 + l])
            ),
        )

    body = loop("i", lambda i: loop("j", lambda j: seq(pair(i, j, "kl"), pair(i, j, "mn")), parallel))
    return IRModule({"main": PrimFunc([b], body).with_attr("global_symbol", "main")})


def counted(mod):
    """By the name of the loop variable the number it counts under."""
    found = {}
    for body in of(SeqStmt, mod["main"]):
        for first, middle, last in zip(body.seq, body.seq[1:], body.seq[2:]):
            names = [getattr(getattr(s, "value", None), "op", None) for s in (first, last)]
            if isinstance(first, Evaluate) and names[0] is not None and names[0].name == "tir.start_profile_intrinsic":
                if names[1] is not None and first.value.args == last.value.args:
                    found[middle.loop_var.name] = int(first.value.args[0])
    return found


@pytest.mark.parametrize(
    "options, want",
    [
        ({}, {"k": 3, "m": 5}),
        ({"tir.lwp_max_depth": 3}, {"k": 3, "m": 5}),
        ({"tir.instr_siblings": False}, {"i": 1}),
        ({"tir.instr_siblings": False, "tir.lwp_max_depth": 3}, {"i": 1, "j": 2, "k": 3, "m": 5}),
        ({"tir.instr_siblings": False, "tir.lwp_max_depth": 3, "tir.lwp_min_height": 2}, {"i": 1, "j": 2}),
        (
            {"tir.instr_siblings": False, "tir.lwp_max_depth": 3, "tir.lwp_min_height": 0},
            {"i": 1, "j": 2, "k": 3, "l": 4, "m": 5, "n": 6},
        ),
    ],
)
def test_loops_that_count(options, want):
    with tvm.transform.PassContext(config={**OPTIONS, **options}):
        assert counted(tvm.tir.transform.InstrumentProfileIntrinsics()(program())) == want


def test_threads_of_a_parallel_loop_count_nothing():
    options = {**OPTIONS, "tir.instr_siblings": False, "tir.lwp_max_depth": 3}
    with tvm.transform.PassContext(config=options):
        assert counted(tvm.tir.transform.InstrumentProfileIntrinsics()(program(ForKind.PARALLEL))) == {"i": 1, "j": 2}


def test_numbers_go_on_unless_they_are_reset():
    instrument = tvm.tir.transform.InstrumentProfileIntrinsics()
    with tvm.transform.PassContext(config={"tir.reset_start_id": True}):
        assert counted(instrument(program()))["k"] == 3
    with tvm.transform.PassContext(config={"tir.lwp_disable_func_prof": False}):
        assert counted(instrument(program())) == {"i": 7, "k": 10, "m": 12}
    assert counted(instrument(program())) == {"i": 14, "k": 17, "m": 19}


def test_the_option_is_one_of_lower_and_host_code_ignores_the_counts():
    with tvm.transform.PassContext(config={"tir.instrument_lwp": True, "tir.reset_start_id": True}):
        mod = tvm.lower(program())
        assert "T.start_profile_intrinsic(3)" in str(mod)
        func = tvm.build(program(), target="llvm")
    out = tvm.nd.array(np.zeros(16, "int32"))
    func(out)
    np.testing.assert_array_equal(out.numpy(), np.full(16, 2))

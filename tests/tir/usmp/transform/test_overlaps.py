"""Functions lose the promise of separate pointers where a plan gives them overlapping memory."""

from __future__ import annotations

import tvm
from tests.tir.usmp.programs import allocate, buffer, call, copy, direct, function, pool, with_pools
from tvm.ir.module import GlobalVar
from tvm.tir.stmt import seq
from tvm.tir.usmp import PoolAllocation
from tvm.tir.usmp.analysis import extract_buffer_info
from tvm.tir.usmp.transform.transform import place_in_pools


def planned(functions, offsets, ram):
    mod = with_pools(tvm.IRModule(functions), [ram])
    stmts = extract_buffer_info(mod["main"], mod).buffer_info_stmts
    places = {stmt: PoolAllocation(ram, offsets[b.name_hint]) for b, stmt in stmts.items()}
    return place_in_pools(mod, places, "main")[0]


def test_workspace_in_the_memory_of_an_argument():
    """The kernel writes ``late`` after its last access to the argument: both may have the same place."""
    a, out, early, late, s = (buffer(n, 64) for n in ("a", "out", "early", "late", "s"))
    body = allocate(early, allocate(late, seq(copy(early, a), copy(late, early), copy(out, late))))
    functions = {
        "k": function("k", [a, out], body),
        "other": function("other", [a], copy(a, a)),
        "main": function("main", [out], allocate(s, seq(call("other", s), call("k", s, out)))),
    }
    separate = planned(functions, {"s": 0, "early": 64, "late": 128}, pool())
    assert separate["k"].attrs["tir.noalias"] and separate["other"].attrs["tir.noalias"]
    shared = planned(functions, {"s": 0, "early": 64, "late": 0}, pool())
    assert not shared["k"].attrs["tir.noalias"] and shared["other"].attrs["tir.noalias"]
    assert not planned(functions, {"s": 16, "early": 80, "late": 0}, pool())["k"].attrs["tir.noalias"]


def test_two_arguments_in_the_same_memory():
    a, b, mid, s, t = (buffer(n, 64) for n in ("a", "b", "mid", "s", "t"))
    kernel = function("k", [a, b], allocate(mid, seq(copy(mid, a), copy(b, mid))))
    in_place = function("in_place", [a, b], copy(b, a))
    body = allocate(s, allocate(t, seq(copy(s), call("k", s, t), call("in_place", t, t))))
    functions = {"k": kernel, "in_place": in_place, "main": function("main", [], body)}
    made = planned(functions, {"s": 0, "t": 0, "mid": 64}, pool())
    # A function that is called with one pointer twice works in place: its author has taken care of that.
    assert not made["k"].attrs["tir.noalias"] and made["in_place"].attrs["tir.noalias"]


def test_arguments_of_arguments():
    a, b, mid, s = (buffer(n, 64) for n in ("a", "b", "mid", "s"))
    low = GlobalVar("low")
    kernel = function("low", [a], allocate(mid, seq(copy(mid, a), copy(a, mid))))
    functions = {low: kernel, "k": function("k", [b], direct(low, b)),
                 "main": function("main", [], allocate(s, seq(copy(s), call("k", s))))}  # fmt: skip
    made = planned(functions, {"s": 0, "mid": 64}, pool())
    assert not made["low"].attrs["tir.noalias"] and made["k"].attrs["tir.noalias"]

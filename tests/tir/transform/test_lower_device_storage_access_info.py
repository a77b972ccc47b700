"""LowerDeviceStorageAccessInfo: addresses in a described memory are numbers of access units."""

from __future__ import annotations

import pytest

import tvm
from tvm import tir
from tvm.ir.memory_pools import MemoryInfo
from tvm.ir.prim import const
from tvm.ir.visit import post_order
from tvm.tir.stmt import Allocate, BufferStore, Evaluate, seq

SCOPE = "local.units"


@pytest.fixture(autouse=True)
def units():
    """A memory of 8 units of 64 bits."""
    tvm.register_func(f"tvm.info.mem.{SCOPE}", lambda: MemoryInfo(64, 64, 512, None), override=True)
    yield
    tvm._ffi.registry.remove_global_func(f"tvm.info.mem.{SCOPE}")


def allocate(buffer, body):
    return Allocate(buffer.data, buffer.dtype, buffer.shape, const(True, "bool"), body)


def memory(size, dtype="int16", name="m"):
    return tir.decl_buffer((size,), dtype, name, scope=SCOPE)


def use(buffer, offset):
    return Evaluate(tir.call_extern("int32", "use", buffer.access_ptr("rw", "int32", offset=offset)))


def lowered(body):
    mod = tvm.IRModule.from_expr(tir.PrimFunc([], body))
    return tvm.tir.transform.LowerDeviceStorageAccessInfo()(mod)["main"].body


def test_allocations_follow_each_other_and_addresses_are_units():
    one, two = memory(10, name="one"), memory(8, name="two")
    new = lowered(allocate(one, allocate(two, seq(use(one, 4), use(two, 0), use(two, 4)))))
    assert not any(isinstance(n, Allocate) for n in post_order(new))
    assert [int(s.value.args[1]) for s in new.seq] == [1, 3, 4]


@pytest.mark.parametrize(
    "body,words",
    [
        (lambda m: allocate(m, use(m, 2)), "not provably the first of a unit of 4 elements"),
        (lambda m: use(m, 0), "used outside its allocation"),
        (lambda m: allocate(m, BufferStore(m, const(1, "int16"), [0])), "host code cannot access memory"),
        (lambda m: allocate(memory(36), use(m, 0)), "need 9 units of 64 bits; the memory has 8"),
    ],
)
def test_accesses_that_are_no_units_are_rejected(body, words):
    with pytest.raises(tvm.TVMError, match=words):
        lowered(body(memory(8)))

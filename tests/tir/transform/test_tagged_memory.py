"""Memory with a tag has a size of its own."""

from __future__ import annotations

import pytest

import tvm
from tvm import tir


def tagged(sizes, dtype="float32", shared=False):
    """A function with an allocation of ``local.scratch`` for each size, one after the other or all at once."""
    ib = tir.ir_builder.create()
    out = ib.pointer("float32", name="out")
    kept = []
    for number, size in enumerate(sizes):
        part = ib.allocate(dtype, size, name=f"part{number}", scope="local.scratch")
        with ib.for_range(0, size, name=f"i{number}") as i:
            part[i] = tir.const(1, dtype)
        if shared:
            with ib.for_range(0, size, name=f"j{number}") as i:
                out[i] = part[i].astype("float32") + 1.0
        kept.append(part)
    if not shared:
        out[0] = sum((part[0].astype("float32") for part in kept[1:]), kept[0][0].astype("float32"))
    function = tir.PrimFunc([out._buffer.data], ib.get())
    return tvm.IRModule.from_expr(function)


@pytest.fixture
def scratch():
    """Says how many bits the memory ``local.scratch`` has."""
    name = "tvm.info.mem.local.scratch"

    def bits(number):
        tell = lambda: tvm.ir.make_node(
            "MemoryInfo", unit_bits=16, max_simd_bits=32, max_num_bits=number, head_address=None
        )
        tvm.register_func(name, tell, override=True)

    yield bits
    bits(1 << 62)


@pytest.mark.parametrize(
    "sizes, dtype, need", [((20,), "float32", 640), ((10, 5), "float32", 480), ((3, 3), "int8", 64)]
)
def test_more_than_a_tagged_memory_has_is_refused(scratch, sizes, dtype, need):
    scratch(need)
    tir.transform.StorageRewrite()(tagged(sizes, dtype))
    scratch(need - 1)
    with pytest.raises(tvm.TVMError, match="Allocation exceed bound of memory tag local.scratch: "):
        tir.transform.StorageRewrite()(tagged(sizes, dtype))


def test_allocations_that_share_tagged_memory_count_once(scratch):
    scratch(640)
    tir.transform.StorageRewrite()(tagged((20, 20, 10), shared=True))
    with pytest.raises(tvm.TVMError, match="local.scratch"):
        tir.transform.StorageRewrite()(tagged((20, 20, 10)))

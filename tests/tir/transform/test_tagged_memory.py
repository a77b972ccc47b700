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


def nodes(mod, kind):
    found = []
    tir.stmt_functor.post_order_visit(mod["main"].body, lambda n: found.append(n) if isinstance(n, kind) else None)
    return found


@pytest.mark.parametrize("dtypes, count", [
    (("float16", "int32", "uint16", "int8"), 4608), (("float32", "int32", "uint16", "int8"), 2816),
    (("int8", "int32", "uint16", "uint8"), 8192),
])  # fmt: skip
def test_allocations_of_a_tagged_memory_become_one_that_holds_them_side_by_side(scratch, dtypes, count):
    scratch(1 << 30)
    ib = tir.ir_builder.create()
    out = ib.pointer("int32", name="out")
    parts = []
    for number, dtype in enumerate(dtypes):
        part = ib.allocate(dtype, 1024, name=f"part{number}", scope="local.scratch")
        with ib.for_range(0, 1024, name="i") as i:
            part[i] = (i % 7 + number).astype(dtype)
        parts.append(part)
    with ib.for_range(0, 1024, name="i") as i:
        value = parts[0][i].astype("int32")
        for part in parts[1:]:
            value = value * 10 + part[i].astype("int32")
        out[i] = value
    mod = tir.transform.StorageRewrite()(tvm.IRModule.from_expr(tir.PrimFunc([out._buffer.data], ib.get())))
    (only,) = nodes(mod, tir.Allocate)
    assert only.dtype == dtypes[0] and only.extents[0].value == count
    # Where each part begins, in bytes: at what its load reads in the first iteration.
    begins = []
    for node in nodes(mod, tir.BufferLoad):
        (loop_var,) = tir.analysis.undefined_vars(tir.Evaluate(node.indices[0]), [])
        first = tir.stmt_functor.substitute(node.indices[0], {loop_var: tir.const(0, "int32")})
        size = tvm.DataType(node.dtype).bits // 8
        begins.append((int(tvm.arith.Analyzer().simplify(first)) * size, 1024 * size))
    begins.sort()
    assert len(begins) == 4 and all(a + size <= b for (a, size), (b, _) in zip(begins, begins[1:]))
    assert begins[-1][0] + begins[-1][1] == count * tvm.DataType(dtypes[0]).bits // 8


def test_the_first_of_packed_allocations_gives_the_type(scratch):
    """The last value takes the place of the int8 one, which is not the first of the memory therefore."""
    scratch(1 << 30)
    ib = tir.ir_builder.create()
    parts = []
    for dtype in ("float16", "int32", "int8"):
        with ib.for_range(0, 64, name="i") as i:
            part = ib.allocate(dtype, 64, name=dtype, scope="local.scratch")
            part[i] = tir.const(1, dtype)
        parts.append(part)
    with ib.for_range(0, 64, name="i") as i:
        out = ib.allocate("int8", 64, name="out", scope="local.scratch")
        out[i] = sum((p[i].astype("int8") for p in parts[1:]), parts[0][i].astype("int8"))
    (only,) = nodes(tir.transform.StorageRewrite()(tvm.IRModule.from_expr(tir.PrimFunc([], ib.get()))), tir.Allocate)
    assert only.dtype == "float16" and only.extents[0].value == 64 * (2 + 4 + 1) // 2


def test_one_tagged_memory_is_reused_by_values_of_several_types(scratch):
    scratch(1 << 30)
    ib = tir.ir_builder.create()
    n = tvm.te.var("n")
    with ib.for_range(0, n, name="i"), ib.for_range(0, 10, name="j") as j:
        a = ib.allocate("float32", 200, name="a", scope="local.scratch")
        b = ib.allocate("float32", 200, name="b", scope="local.scratch")
        a[j] = 1.2
        b[j] = 1.3
        c = ib.allocate("int16", 200, name="c", scope="local.scratch")
        c[j] = tir.const(1, "int16")
        d = ib.allocate("int16", 200, name="d", scope="local.scratch")
        d[j] = tir.const(1, "int16")
        e = ib.allocate("int16", 200, name="e", scope="local.scratch")
        e[j] = c[j] + d[j]
        f = ib.allocate("float32", 200, name="f", scope="local.scratch")
        f[j] = a[j]
    (only,) = nodes(tir.transform.StorageRewrite()(tvm.IRModule.from_expr(tir.PrimFunc([n], ib.get()))), tir.Allocate)
    assert only.dtype == "float32" and only.extents[0].value == 500


def test_allocations_that_share_tagged_memory_count_once(scratch):
    scratch(640)
    tir.transform.StorageRewrite()(tagged((20, 20, 10), shared=True))
    with pytest.raises(tvm.TVMError, match="local.scratch"):
        tir.transform.StorageRewrite()(tagged((20, 20, 10)))


@pytest.mark.parametrize("scope", ["global:scratch", "local_scratch"])
def test_memory_named_after_a_colon_or_known_to_its_device_is_one_piece(scope):
    if ":" not in scope:
        tell = lambda: tvm.ir.make_node(
            "MemoryInfo", unit_bits=16, max_simd_bits=32, max_num_bits=1 << 30, head_address=None
        )
        tvm.register_func(f"tvm.info.mem.{scope}", tell, override=True)
    ib = tir.ir_builder.create()
    out = ib.pointer("float32", name="out")
    parts = [ib.allocate("float32", 8, name=f"part{n}", scope=scope) for n in range(2)]
    for part in parts:
        with ib.for_range(0, 8, name="i") as i:
            part[i] = 1.0
    with ib.for_range(0, 8, name="i") as i:
        out[i] = parts[0][i] + parts[1][7 - i]
    packed = tir.transform.StorageRewrite()(tvm.IRModule.from_expr(tir.PrimFunc([out._buffer.data], ib.get())))
    assert [n.extents[0].value for n in nodes(packed, tir.Allocate)] == [16]

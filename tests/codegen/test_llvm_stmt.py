"""Statements compiled by the llvm back end: loops, branches, memory, threads, calls through the runtime table."""

from __future__ import annotations

import threading

import numpy
import pytest

import tvm
from tests.codegen.raw import buffer, compile_raw, emit, prim_func
from tvm.error import TVMError
from tvm.ir import prim
from tvm.ir.module import GlobalVar, IRModule
from tvm.ir.op import Op
from tvm.ir.prim import BufferLoad, Call, IntImm, Ramp, SizeVar, StringImm, Var, const
from tvm.tir.function import PrimFunc
from tvm.tir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    While,
    seq,
)

ZERO, ONE = const(0, "int32"), const(1, "int32")


def call(name, *args, dtype):
    return Call(dtype, Op.get("tir." + name), args)


def int_var(name):
    return Var(name, "int32")


@pytest.mark.parametrize("kind", [ForKind.SERIAL, ForKind.UNROLLED])
@pytest.mark.parametrize(("begin", "extent"), [(0, 0), (0, 1), (0, 7), (3, 5), (-4, 6), (5, 1)])
def test_loop_bounds(kind, begin, extent):
    out, count = buffer("out", "int32", 20), buffer("count", "int32", 1)
    i = int_var("i")
    tally = BufferStore(count, BufferLoad(count, [ZERO]) + ONE, [ZERO])
    body = For(
        i, begin, extent, kind, SeqStmt([BufferStore(out, i * const(3, "int32"), [i + const(8, "int32")]), tally])
    )
    got, runs = numpy.zeros(20, "int32"), numpy.zeros(1, "int32")
    compile_raw(prim_func([out, count], body))(got, runs)
    want = numpy.zeros(20, "int32")
    for k in range(begin, begin + extent):
        want[k + 8] = 3 * k
    numpy.testing.assert_array_equal(got, want)
    assert runs[0] == extent


@pytest.mark.parametrize("n", [-3, 0, 1, 2, 9])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_loop_of_symbolic_extent(n, dtype):
    out = buffer("out", "int64", 20)
    size, i = Var("n", dtype), Var("i", dtype)
    body = For(
        i,
        const(1, dtype),
        size,
        ForKind.SERIAL,
        BufferStore(out, prim.Cast("int64", i) if dtype == "int32" else i, [i]),
    )
    got = numpy.zeros(20, "int64")
    compile_raw(prim_func([out], body, scalars=[size]))(got, n)
    want = numpy.zeros(20, "int64")
    want[1 : 1 + max(n, 0)] = numpy.arange(1, 1 + max(n, 0))
    numpy.testing.assert_array_equal(got, want)


def test_triangular_loops_and_shared_variable():
    out = buffer("out", "int32", 1)
    i, j = int_var("i"), int_var("j")
    add = BufferStore(out, BufferLoad(out, [ZERO]) + i * const(10, "int32") + j, [ZERO])
    nest = For(i, 0, 5, ForKind.SERIAL, For(j, i, i + ONE, ForKind.SERIAL, add))
    # The same variable drives a second loop with other bounds.
    again = For(
        i,
        -2,
        4,
        ForKind.SERIAL,
        BufferStore(out, BufferLoad(out, [ZERO]) + prim.FloorDiv(i, const(2, "int32")), [ZERO]),
    )
    got = numpy.zeros(1, "int32")
    compile_raw(prim_func([out], SeqStmt([nest, again])))(got)
    want = sum(a * 10 + b for a in range(5) for b in range(a, a + a + 1)) + sum(k // 2 for k in range(-2, 2))
    assert got[0] == want


def test_while_and_let():
    out = buffer("out", "int32", 2)
    step = Var("step", "int32")
    body = LetStmt(
        step,
        const(3, "int32"),
        While(
            prim.LT(BufferLoad(out, [ZERO]), const(20, "int32")),
            SeqStmt([
                BufferStore(out, BufferLoad(out, [ZERO]) + step, [ZERO]),
                BufferStore(out, BufferLoad(out, [ONE]) + ONE, [ONE]),
            ]),
        ),
    )  # fmt: skip
    got = numpy.zeros(2, "int32")
    compile_raw(prim_func([out], body))(got)
    assert got.tolist() == [21, 7]


def test_branches():
    out = buffer("out", "int32", 10)
    i = int_var("i")
    inner = IfThenElse(
        prim.EQ(prim.FloorMod(i, const(2, "int32")), ZERO), BufferStore(out, ONE, [i]), BufferStore(out, i, [i])
    )
    body = For(i, 0, 10, ForKind.SERIAL, IfThenElse(call("likely", prim.LT(i, const(7, "int32")), dtype="bool"), inner))
    got = numpy.full(10, -1, "int32")
    function = prim_func([out], body)
    compile_raw(function)(got)
    assert got.tolist() == [1, 1, 1, 3, 1, 5, 1, -1, -1, -1]
    assert "branch_weights" in emit(function)[0]


def test_condition_on_an_unrolled_variable_disappears():
    out = buffer("out", "int32", 8)
    i = int_var("i")
    body = For(i, 0, 8, ForKind.UNROLLED, IfThenElse(prim.LT(i, const(3, "int32")), BufferStore(out, i + ONE, [i])))
    text, _ = emit(prim_func([out], body))
    assert text.count("store i32") == 3 and "icmp" not in text


def test_unrolled_indices_are_constant_offsets():
    """Unrolling adds numbers: one base address, however many copies."""
    x, out = buffer("x", "float32", 4096), buffer("out", "float32", 4096)
    i, j = int_var("i"), int_var("j")
    index = i * const(64, "int32") + j * const(2, "int32") + ONE
    body = For(
        i, 0, 8, ForKind.SERIAL, For(j, 0, 16, ForKind.UNROLLED, BufferStore(out, BufferLoad(x, [index]), [index]))
    )
    text, _ = emit(prim_func([x, out], body))
    assert text.count("mul nsw") == 1
    given, got = numpy.arange(4096, dtype="float32"), numpy.zeros(4096, "float32")
    compile_raw(prim_func([x, out], body))(given, got)
    picked = [k * 64 + m * 2 + 1 for k in range(8) for m in range(16)]
    want = numpy.zeros(4096, "float32")
    want[picked] = given[picked]
    numpy.testing.assert_array_equal(got, want)


def test_allocations_are_separate(rng):
    x, out = buffer("x", "float32", 16), buffer("out", "float32", 16)
    a, b = buffer("a", "float32", 16), buffer("b", "float32", 16)
    i, j, k = int_var("i"), int_var("j"), int_var("k")
    two = const(2.0, "float32")
    steps = SeqStmt([
        For(i, 0, 16, ForKind.SERIAL, BufferStore(a, BufferLoad(x, [i]) * two, [i])),
        For(j, 0, 16, ForKind.SERIAL, BufferStore(b, BufferLoad(a, [const(15, "int32") - j]), [j])),
        For(k, 0, 16, ForKind.SERIAL, BufferStore(out, BufferLoad(b, [k]) + BufferLoad(a, [k]), [k])),
    ])  # fmt: skip
    body = Allocate(a.data, "float32", [16], True, Allocate(b.data, "float32", [16], True, steps))
    given, got = rng.standard_normal(16).astype("float32"), numpy.zeros(16, "float32")
    compile_raw(prim_func([x, out], body))(given, got)
    numpy.testing.assert_array_equal(got, (given * 2)[::-1] + given * 2)


def test_huge_stack_buffer_is_refused():
    a = buffer("scratch", "float32", 1 << 22)
    with pytest.raises(TVMError, match="buffer scratch needs 16777216 bytes of stack"):
        emit(prim_func([], Allocate(a.data, "float32", [1 << 22], True, BufferStore(a, const(0.0, "float32"), [ZERO]))))


def test_allocate_const(rng):
    data = rng.standard_normal(6).astype("float32")
    table, out = buffer("table", "float32", 6), buffer("out", "float32", 6)
    i = int_var("i")
    loop = For(i, 0, 6, ForKind.SERIAL, BufferStore(out, BufferLoad(table, [i]), [i]))
    got = numpy.zeros(6, "float32")
    compile_raw(prim_func([out], AllocateConst(table.data, "float32", (const(6, "int32"),), data, loop)))(got)
    numpy.testing.assert_array_equal(got, data)


def test_return_leaves_early():
    out = buffer("out", "int32", 1)
    n = int_var("n")
    leave = Evaluate(call("ret", const(5, "int32"), dtype="int32"))
    body = SeqStmt([IfThenElse(prim.LT(n, ZERO), leave), BufferStore(out, n, [ZERO])])
    run = compile_raw(prim_func([out], body, scalars=[n]))
    got = numpy.zeros(1, "int32")
    assert run(got, 7) == 0 and got[0] == 7
    assert run(got, -1) == 5 and got[0] == 7


def test_vectorized_and_bound_loops_are_refused():
    out = buffer("out", "int32", 4)
    i = int_var("i")
    with pytest.raises(TVMError, match="loop i is still vectorized"):
        emit(prim_func([out], For(i, 0, 4, ForKind.VECTORIZED, BufferStore(out, i, [i]))))
    with pytest.raises(TVMError, match="loop i is bound to a thread"):
        emit(prim_func([out], For(i, 0, 4, ForKind.THREAD_BINDING, BufferStore(out, i, [i]))))


def test_reduction_may_be_fused_and_only_it(rng):
    x, y, out = buffer("x", "float32", 64), buffer("y", "float32", 64), buffer("out", "float32", 8)
    i, k = int_var("i"), int_var("k")
    product = BufferLoad(x, [i * const(8, "int32") + k]) * BufferLoad(y, [k])
    # The index of the load and of the store are different objects of one meaning.
    update = BufferStore(out, BufferLoad(out, [i + ZERO]) + product, [i])
    text, _ = emit(prim_func([x, y, out], For(i, 0, 8, ForKind.SERIAL, For(k, 0, 8, ForKind.SERIAL, update))))
    assert "fadd reassoc contract" in text and "fmul reassoc contract" in text
    other = BufferStore(out, BufferLoad(out, [k]) + product, [i])
    text, _ = emit(prim_func([x, y, out], For(i, 0, 8, ForKind.SERIAL, For(k, 0, 8, ForKind.SERIAL, other))))
    assert "contract" not in text


# Through the runtime


def packed(buffers, body, name="f", **attrs):
    """Build for calls on arrays; parameters are buffers."""
    return tvm.build(
        PrimFunc(buffers, body, attrs={"global_symbol": name, "tir.noalias": True, **attrs}), target="llvm"
    )


def test_assertion_message_reaches_the_caller():
    out = buffer("out", "int32", 1)
    body = AssertStmt(
        prim.LT(BufferLoad(out, [ZERO]), const(5, "int32")),
        StringImm("the value is too large"),
        BufferStore(out, ONE, [ZERO]),
    )
    module = packed([out], body)
    array = tvm.nd.array(numpy.array([3], "int32"))
    module["f"](array)
    assert array.numpy()[0] == 1
    with pytest.raises(TVMError, match="the value is too large"):
        module["f"](tvm.nd.array(numpy.array([9], "int32")))


@pytest.mark.parametrize("extent", [0, 1, 2, 3, 17, 1000])
def test_parallel_loop_runs_each_iteration_once(extent):
    out = buffer("out", "int32", max(extent, 1))
    n, i = SizeVar("n", "int32"), int_var("i")
    body = For(i, 0, extent, ForKind.PARALLEL, BufferStore(out, BufferLoad(out, [i]) + i + ONE, [i]))
    array = tvm.nd.array(numpy.zeros(max(extent, 1), "int32"))
    packed([out], body)["f"](array)
    want = numpy.arange(1, extent + 1) if extent else numpy.zeros(1)
    numpy.testing.assert_array_equal(array.numpy(), want)
    assert n.dtype == "int32"


def test_parallel_body_captures_scalars_unrolled_values_and_buffers(rng):
    x, out = buffer("x", "float32", 64), buffer("out", "float32", 128)
    i, j, u, scale = int_var("i"), int_var("j"), int_var("u"), Var("scale", "float32")
    local = buffer("local", "float32", 8)
    start = u * const(64, "int32") + i * const(8, "int32")
    inner = SeqStmt([
        For(j, 0, 8, ForKind.SERIAL, BufferStore(local, BufferLoad(x, [i * const(8, "int32") + j]) * scale, [j])),
        BufferStore(out, BufferLoad(local, [Ramp(ZERO, ONE, 8)]), [Ramp(start, ONE, 8)]),
    ])  # fmt: skip
    loop = For(i, 0, 8, ForKind.PARALLEL, Allocate(local.data, "float32", [8], True, inner))
    body = For(u, 0, 2, ForKind.UNROLLED, LetStmt(scale, prim.Cast("float32", u) + const(2.0, "float32"), loop))
    given = rng.standard_normal(64).astype("float32")
    array = tvm.nd.array(numpy.zeros(128, "float32"))
    packed([x, out], body)["f"](tvm.nd.array(given), array)
    numpy.testing.assert_array_equal(array.numpy(), numpy.concatenate([given * 2, given * 3]))


def test_parallel_pragmas():
    """One launch for two loops with a barrier between; the second walks in strides."""
    out, middle = buffer("out", "int32", 50), buffer("middle", "int32", 50)
    i, j = int_var("i"), int_var("j")
    first = For(i, 0, 50, ForKind.PARALLEL, BufferStore(middle, i * const(2, "int32"), [i]))
    second = For(j, 0, 50, ForKind.PARALLEL, BufferStore(out, BufferLoad(middle, [const(49, "int32") - j]), [j]))
    body = SeqStmt([
        AttrStmt(i, "pragma_parallel_barrier_when_finish", ONE, first),
        AttrStmt(j, "pragma_parallel_stride_pattern", ONE, second),
    ])  # fmt: skip
    module = packed([middle, out], AttrStmt(i, "pragma_parallel_launch_point", ONE, body))
    array = tvm.nd.array(numpy.zeros(50, "int32"))
    module["f"](tvm.nd.array(numpy.zeros(50, "int32")), array)
    numpy.testing.assert_array_equal(array.numpy(), numpy.arange(98, -2, -2))
    assert module.get_source("ll").count("define") <= 4 + 2


@pytest.mark.parametrize("n", [3, 40])
def test_a_parallel_loop_may_ask_for_one_task(n):
    """Below a limit the thread that calls runs all iterations in their order."""
    out, count = buffer("out", "int32", 40), buffer("count", "int32", 1)
    i, size = int_var("i"), BufferLoad(count, [ZERO])
    loop = For(i, 0, size, ForKind.PARALLEL, BufferStore(out, BufferLoad(out, [i]) + i, [i]))
    module = packed([out, count], AttrStmt(i, "pragma_parallel_if", prim.LE(const(20, "int32"), size), loop))
    launch = next(line for line in module.get_source("ll").splitlines() if "call i32" in line and "_lambda" in line)
    assert "i32 %" in launch
    arrays = [tvm.nd.array(numpy.ones(40, "int32")), tvm.nd.array(numpy.array([n], "int32"))]
    module["f"](*arrays)
    want = numpy.ones(40, "int32")
    want[:n] += numpy.arange(n, dtype="int32")
    numpy.testing.assert_array_equal(arrays[0].numpy(), want)


def test_memory_between_parallel_loops_of_one_launch_is_shared():
    out, middle = buffer("out", "int32", 50), buffer("middle", "int32", 50)
    i, j = int_var("i"), int_var("j")
    first = For(i, 0, 50, ForKind.PARALLEL, BufferStore(middle, i * const(2, "int32"), [i]))
    second = For(j, 0, 50, ForKind.PARALLEL, BufferStore(out, BufferLoad(middle, [const(49, "int32") - j]), [j]))
    steps = seq(AttrStmt(i, "pragma_parallel_barrier_when_finish", ONE, first), second)
    inside = Allocate(middle.data, "int32", [50], True, steps)
    module = packed([out], AttrStmt(i, "pragma_parallel_launch_point", ONE, inside))
    for _ in range(20):
        array = tvm.nd.array(numpy.zeros(50, "int32"))
        module["f"](array)
        numpy.testing.assert_array_equal(array.numpy(), numpy.arange(98, -2, -2))


def test_error_in_a_parallel_body_is_reported():
    out = buffer("out", "int32", 10)
    i = int_var("i")
    body = For(
        i,
        0,
        10,
        ForKind.PARALLEL,
        AssertStmt(prim.LT(i, const(8, "int32")), StringImm("i reached eight"), BufferStore(out, i, [i])),
    )
    with pytest.raises(TVMError, match="i reached eight"):
        packed([out], body)["f"](tvm.nd.array(numpy.zeros(10, "int32")))


def test_packed_call_of_a_python_function():
    calls = []

    @tvm.register_func("test.codegen.note", override=True)
    def note(a, b, text):
        calls.append((a, b, text))
        return a * 10

    out = buffer("out", "int32", 4)
    i = int_var("i")
    got = call(
        "tvm_call_packed", StringImm("test.codegen.note"), i, const(2.5, "float32"), StringImm("hello"), dtype="int32"
    )
    array = tvm.nd.array(numpy.zeros(4, "int32"))
    packed([out], For(i, 0, 4, ForKind.SERIAL, BufferStore(out, got, [i])))["f"](array)
    assert array.numpy().tolist() == [0, 10, 20, 30]
    assert calls == [(k, 2.5, "hello") for k in range(4)]


def test_exception_of_a_packed_call_comes_back():
    @tvm.register_func("test.codegen.fail", override=True)
    def fail():
        raise KeyError("lost key")

    body = Evaluate(call("tvm_call_packed", StringImm("test.codegen.fail"), dtype="int32"))
    with pytest.raises(KeyError, match="lost key"):
        packed([buffer("out", "int32", 1)], body)["f"](tvm.nd.array(numpy.zeros(1, "int32")))


def test_missing_packed_function_is_named():
    body = Evaluate(call("tvm_call_packed", StringImm("test.codegen.absent"), dtype="int32"))
    with pytest.raises(TVMError, match="test.codegen.absent"):
        packed([buffer("out", "int32", 1)], body)["f"](tvm.nd.array(numpy.zeros(1, "int32")))


def test_large_buffer_becomes_workspace(rng):
    size = 1 << 20
    x, out, scratch = buffer("x", "float32", size), buffer("out", "float32", size), buffer("scratch", "float32", size)
    i, j = int_var("i"), int_var("j")
    steps = SeqStmt([
        For(i, 0, size, ForKind.SERIAL, BufferStore(scratch, BufferLoad(x, [i]) + const(1.0, "float32"), [i])),
        For(j, 0, size, ForKind.SERIAL, BufferStore(out, BufferLoad(scratch, [const(size - 1, "int32") - j]), [j])),
    ])  # fmt: skip
    given = rng.standard_normal(size).astype("float32")
    array = tvm.nd.array(numpy.zeros(size, "float32"))
    packed([x, out], Allocate(scratch.data, "float32", [size], True, steps))["f"](tvm.nd.array(given), array)
    numpy.testing.assert_array_equal(array.numpy(), (given + 1)[::-1])


def test_functions_of_one_module_call_each_other():
    a, b = buffer("a", "int32", 1), buffer("b", "int32", 1)
    helper = PrimFunc(
        [a.data],
        BufferStore(a, BufferLoad(a, [ZERO]) + const(7, "int32"), [ZERO]),
        attrs={"global_symbol": "helper_compute_"},
    )
    main = PrimFunc(
        [b.data],
        Evaluate(Call("int32", GlobalVar("helper_compute_"), (b.data,))),
        attrs={"global_symbol": "main_compute_"},
    )
    from tvm.codegen.llvm import build as llvm
    from tvm.codegen.llvm import jit as llvm_jit
    from tvm.target import Target

    code = llvm.compile_module(IRModule({"helper_compute_": helper, "main_compute_": main}), Target("llvm"))
    import ctypes

    addresses, keep = llvm_jit.load_objects(code.objects(), code.names)
    got = numpy.array([5], "int32")
    assert ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(addresses["main_compute_"])(got.ctypes.data) == 0
    assert got[0] == 12 and keep is not None


def test_one_module_from_two_threads(rng):
    x, out = buffer("x", "float32", 1000), buffer("out", "float32", 1000)
    i = int_var("i")
    module = packed(
        [x, out], For(i, 0, 1000, ForKind.PARALLEL, BufferStore(out, BufferLoad(x, [i]) * const(2.0, "float32"), [i]))
    )
    given = [rng.standard_normal(1000).astype("float32") for _ in range(2)]
    results = [tvm.nd.array(numpy.zeros(1000, "float32")) for _ in range(2)]

    def work(k):
        for _ in range(50):
            module["f"](tvm.nd.array(given[k]), results[k])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k in range(2):
        numpy.testing.assert_array_equal(results[k].numpy(), given[k] * 2)


def test_extern_and_llvm_intrinsics(rng):
    x, out = buffer("x", "float32", 16), buffer("out", "float32", 16)
    lanes = [Ramp(ZERO, ONE, 16)]
    rounded = call(
        "call_llvm_pure_intrin", StringImm("llvm.floor"), IntImm("uint32", 1), BufferLoad(x, lanes), dtype="float32x16"
    )
    i = int_var("i")
    outside = call("call_pure_extern", StringImm("fabsf"), BufferLoad(x, [i]), dtype="float32")
    body = SeqStmt([
        BufferStore(out, rounded, lanes),
        For(i, 0, 2, ForKind.SERIAL, BufferStore(out, outside, [i])),
    ])  # fmt: skip
    given, got = (rng.standard_normal(16) * 5).astype("float32"), numpy.zeros(16, "float32")
    compile_raw(prim_func([x, out], body))(given, got)
    numpy.testing.assert_array_equal(got, [*abs(given[:2]), *numpy.floor(given[2:])])


def test_import_llvm_pragma():
    text = "define float @triple(float %x) {\n  %y = fmul float %x, 3.0\n  ret float %y\n}\n"
    out = buffer("out", "float32", 1)
    body = AttrStmt(
        out.data,
        "pragma_import_llvm",
        StringImm(text),
        BufferStore(out, call("call_extern", StringImm("triple"), BufferLoad(out, [ZERO]), dtype="float32"), [ZERO]),
    )
    array = tvm.nd.array(numpy.array([2.0], "float32"))
    packed([out], body)["f"](array)
    assert array.numpy()[0] == 6


@pytest.mark.parametrize("target", ["llvm", "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1"])
@pytest.mark.parametrize("wide", ["int16", "int32", "int64", "uint64"])
@pytest.mark.parametrize("narrow", ["int8", "uint8"])
def test_three_bytes_cut_from_wider_integers_are_stored(narrow, wide, target):
    x = tvm.te.placeholder((4, 3), wide, name="x")
    y = tvm.te.compute((4, 3), lambda i, j: (x[i, j] + x[i, j]).astype(narrow), name="y")
    s = tvm.te.create_schedule(y.op)
    s[y].vectorize(y.op.axis[1])
    built = tvm.build(s, [x, y], target)
    if target == "llvm":
        given = numpy.arange(-6, 6).reshape(4, 3).astype(wide) * 77
        got = tvm.nd.array(numpy.zeros((4, 3), narrow))
        built(tvm.nd.array(given), got)
        numpy.testing.assert_array_equal(got.numpy(), (given + given).astype(narrow))

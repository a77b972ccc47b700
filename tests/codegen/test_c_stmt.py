"""Statements compiled by the c back end, raw and through the runtime."""

from __future__ import annotations

import numpy
import pytest

import tvm
from tests.codegen.c_raw import body_of, compile_raw, text_of
from tests.codegen.raw import buffer, prim_func
from tvm import te
from tvm.error import TVMError
from tvm.ir import prim
from tvm.ir.module import GlobalVar, IRModule
from tvm.ir.op import Op
from tvm.ir.prim import BufferLoad, Call, Ramp, StringImm, Var, const
from tvm.tir.buffer import decl_buffer
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
)

ZERO, ONE = const(0, "int32"), const(1, "int32")


def call(name, *args, dtype):
    return Call(dtype, Op.get("tir." + name), args)


def int_var(name):
    return Var(name, "int32")


def packed(buffers, body, name="f"):
    """Build for calls on arrays; parameters are buffers."""
    return tvm.build(PrimFunc(buffers, body, attrs={"global_symbol": name, "tir.noalias": True}), target="c")


def test_loops_of_every_bound():
    out, count = buffer("out", "int32", 200), buffer("count", "int32", 1)
    tally = BufferStore(count, BufferLoad(count, [ZERO]) + ONE, [ZERO])
    rows = [(0, 0), (0, 1), (0, 7), (3, 5), (-4, 6), (5, 1)]
    loops, want, runs = [], numpy.zeros(200, "int32"), 0
    for kind in (ForKind.SERIAL, ForKind.UNROLLED):
        for begin, extent in rows:
            i = int_var("i")
            offset = 8 + 15 * len(loops)
            store = BufferStore(out, i * 3, [i + offset])
            loops.append(For(i, begin, extent, kind, SeqStmt((store, tally))))
            for k in range(begin, begin + extent):
                want[k + offset] = 3 * k
                runs += 1
    got, tallied = numpy.zeros(200, "int32"), numpy.zeros(1, "int32")
    function = prim_func([out, count], SeqStmt(tuple(loops)))
    assert "#pragma GCC unroll 7" in body_of(function)
    compile_raw(function)(got, tallied)
    numpy.testing.assert_array_equal(got, want)
    assert tallied[0] == runs


@pytest.mark.parametrize("n", [-3, 0, 1, 9])
def test_loop_of_symbolic_extent(n):
    out = buffer("out", "int64", 20)
    size, i = Var("n", "int64"), Var("i", "int64")
    loop = For(i, size - size + 1, size, ForKind.SERIAL, BufferStore(out, i, [i]))
    got, want = numpy.zeros(20, "int64"), numpy.zeros(20, "int64")
    compile_raw(prim_func([out], loop, scalars=[size]))(got, n)
    want[1 : 1 + max(n, 0)] = numpy.arange(1, 1 + max(n, 0))
    numpy.testing.assert_array_equal(got, want)


def test_while_let_branches_and_early_return():
    out, n, step = buffer("out", "int32", 3), int_var("n"), int_var("step")
    square = BufferLoad(out, [ZERO]) * BufferLoad(out, [ZERO])
    count = While(prim.And(square < 400, square + square < 1000),
                  SeqStmt((BufferStore(out, BufferLoad(out, [ZERO]) + step, [ZERO]),
                           BufferStore(out, BufferLoad(out, [ONE]) + ONE, [ONE]))))  # fmt: skip
    leave = Evaluate(call("ret", const(5, "int32"), dtype="int32"))
    odd = IfThenElse(prim.EQ(prim.FloorMod(n, const(2, "int32")), ONE), BufferStore(out, ONE, [const(2, "int32")]),
                     BufferStore(out, ZERO - ONE, [const(2, "int32")]))  # fmt: skip
    body = SeqStmt((IfThenElse(n < 0, leave), LetStmt(step, n + 3, count), odd))
    run = compile_raw(prim_func([out], body, scalars=[n]))
    got = numpy.zeros(3, "int32")
    assert run(got, -1) == 5 and not got.any()
    assert run(got, 1) == 0 and got.tolist() == [20, 5, 1]
    assert run(got, 2) == 0 and got[2] == -1


def test_let_is_bound_anew_in_each_statement():
    """The same let object stands in two statements, and memory changes in between."""
    out, x = buffer("out", "int32", 2), Var("x", "int32")
    shared = prim.Let(x, BufferLoad(out, [ZERO]), x * x + x)
    body = SeqStmt((BufferStore(out, shared, [ZERO]), BufferStore(out, shared, [ONE])))
    got = numpy.array([2, 0], "int32")
    compile_raw(prim_func([out], body))(got)
    assert got.tolist() == [6, 42]


def test_one_memory_seen_as_two_types():
    raw = Var("raw", "handle")
    out = buffer("out", "int32", 4)
    words, floats = decl_buffer((4,), "int32", "words", data=raw), decl_buffer((4,), "float32", "floats", data=raw)
    i, j = int_var("i"), int_var("j")
    body = Allocate(raw, "float32", [4], True, SeqStmt((
        For(i, 0, 4, ForKind.SERIAL, BufferStore(floats, prim.Cast("float32", i), [i])),
        For(j, 0, 4, ForKind.SERIAL, BufferStore(out, BufferLoad(words, [j]), [j])),
    )))  # fmt: skip
    got = numpy.zeros(4, "int32")
    compile_raw(prim_func([out], body))(got)
    numpy.testing.assert_array_equal(got, numpy.arange(4, dtype="float32").view("int32"))


def test_constant_data_of_every_kind(rng):
    rows = {"float32": rng.standard_normal(30), "int8": rng.integers(-128, 128, 5), "float16": rng.standard_normal(3),
            "uint64": numpy.array([0, 2**64 - 1], "uint64"), "bool": numpy.array([True, False])}  # fmt: skip
    outputs, parts, wanted = [], [], []
    for dtype, data in rows.items():
        data = data.astype(dtype)
        table, out = buffer(f"table_{dtype}", dtype, data.size), buffer(f"out_{dtype}", dtype, data.size)
        i = int_var("i")
        loop = For(i, 0, data.size, ForKind.SERIAL, BufferStore(out, BufferLoad(table, [i]), [i]))
        parts.append(AllocateConst(table.data, dtype, (const(data.size, "int32"),), data, loop))
        outputs.append(out)
        wanted.append(data)
    got = [numpy.zeros(w.size, w.dtype) for w in wanted]
    compile_raw(prim_func(outputs, SeqStmt(tuple(parts))))(*got)
    for value, want in zip(got, wanted):
        numpy.testing.assert_array_equal(value, want)


def test_names_that_c_does_not_take():
    names = ["int", "exp", "1st", "a.b", "a_b", "_x", "tvm_y", "lane", "t", "linux", "new", "ünder", ""]
    outputs = [buffer(name or "empty", "float32", 4) for name in names]
    loops = []
    for out in outputs:
        i = Var(out.name, "int32")
        value = call("exp", prim.Cast("float32", i), dtype="float32")
        loops.append(For(i, 0, 4, ForKind.SERIAL, BufferStore(out, value, [i])))
    got = [numpy.zeros(4, "float32") for _ in outputs]
    function = prim_func(outputs, SeqStmt(tuple(loops)), name="my.func-1")
    assert "/* a.b */" in body_of(function)
    compile_raw(function)(*got)
    for value in got:
        numpy.testing.assert_allclose(value, numpy.exp(numpy.arange(4, dtype="float32")), rtol=1e-6, atol=1e-6)


def test_function_named_like_one_of_the_library():
    out = buffer("out", "float32", 2)
    for name in ("main", "memcpy", "sqrt", "double"):
        module = packed([out], BufferStore(out, const(3.0, "float32"), [ZERO]), name=name)
        array = tvm.nd.array(numpy.zeros(2, "float32"))
        module[name](array)
        assert array.numpy()[0] == 3.0


def test_huge_or_dynamic_stack_buffer_is_refused():
    scratch, n = buffer("scratch", "float32", 1 << 22), int_var("n")
    store = BufferStore(scratch, const(0.0, "float32"), [ZERO])
    with pytest.raises(TVMError, match="buffer scratch needs 16777216 bytes of stack"):
        body_of(prim_func([], Allocate(scratch.data, "float32", [1 << 22], True, store)))
    with pytest.raises(TVMError, match="scratch on the stack has a dynamic size"):
        body_of(prim_func([], Allocate(scratch.data, "float32", [n], True, store), scalars=[n]))


def test_thread_axis_and_llvm_text_are_refused():
    out, axis = buffer("out", "int32", 4), te.thread_axis((0, 4), "threadIdx.x")
    with pytest.raises(TVMError, match="thread axis threadIdx.x is not supported on the host"):
        body_of(prim_func([out], AttrStmt(axis, "thread_extent", const(4, "int32"), Evaluate(ZERO))))
    with pytest.raises(TVMError, match="import_llvm needs target llvm"):
        body_of(prim_func([out], AttrStmt(axis, "pragma_import_llvm", StringImm("define ..."), Evaluate(ZERO))))
    with pytest.raises(TVMError, match="parallel_barrier_when_finish needs an enclosing parallel_launch_point"):
        text_of(prim_func([out], AttrStmt(axis, "pragma_parallel_barrier_when_finish", ONE, Evaluate(ZERO))))


def test_imported_text_and_extern_functions(rng):
    text = "static float scale(const float* x, int k) { return x[k] * 3.0f; }\n"
    x, out = buffer("x", "float32", 8), buffer("out", "float32", 8)
    i = int_var("i")
    own = call("call_extern", StringImm("scale"), x.access_ptr("r"), i, dtype="float32")
    library = call("call_pure_extern", StringImm("fabsf"), own, dtype="float32")
    loop = For(i, 0, 8, ForKind.SERIAL, BufferStore(out, library, [i]))
    given, got = rng.standard_normal(8).astype("float32"), numpy.zeros(8, "float32")
    function = prim_func([x, out], AttrStmt(i, "pragma_import_c", StringImm(text), loop))
    assert text_of(function).count("static float scale") == 1
    compile_raw(function)(given, got)
    numpy.testing.assert_array_equal(got, abs(given * numpy.float32(3)))


def test_calls_happen_in_order_and_once():
    """A counter of ours: every call adds one, also inside vectors and before a load that follows it."""
    text = "static int32_t bump(void* p) { return ++*(int32_t*)p; }\n"
    n, out = buffer("n", "int32", 1), buffer("out", "int32", 8)
    bump = [call("call_extern", StringImm("bump"), n.data, dtype="int32") for _ in range(4)]
    eight = [Ramp(ZERO, ONE, 4)]
    body = SeqStmt((
        BufferStore(out, BufferLoad(n, [ZERO]) * 100 + bump[0] * 10 + bump[1], [const(7, "int32")]),
        BufferStore(out, prim.Broadcast(bump[2], 4) + prim.Broadcast(bump[2], 4), eight),
        BufferStore(out, call("if_then_else", BufferLoad(n, [ZERO]) > 3, bump[3], ZERO, dtype="int32"), [ONE + 5]),
    ))  # fmt: skip
    counter, got = numpy.zeros(1, "int32"), numpy.zeros(8, "int32")
    compile_raw(prim_func([n, out], AttrStmt(n.data, "pragma_import_c", StringImm(text), body)))(counter, got)
    assert got.tolist() == [6, 6, 6, 6, 0, 0, 0, 12] and counter[0] == 3


def test_atomic_sum_of_parallel_iterations():
    out, whole = buffer("out", "float32", 1), buffer("whole", "int32", 1)
    i = int_var("i")
    add = SeqStmt((
        Evaluate(call("atomic_add", call("address_of", BufferLoad(out, [ZERO]), dtype="handle"),
                      const(0.5, "float32"), dtype="float32")),
        Evaluate(call("atomic_add", call("address_of", BufferLoad(whole, [ZERO]), dtype="handle"), i, dtype="int32")),
    ))  # fmt: skip
    arrays = [tvm.nd.array(numpy.zeros(1, "float32")), tvm.nd.array(numpy.zeros(1, "int32"))]
    packed([out, whole], For(i, 0, 1000, ForKind.PARALLEL, add))["f"](*arrays)
    assert arrays[0].numpy()[0] == 500.0 and arrays[1].numpy()[0] == 499500


# Through the runtime


@pytest.mark.parametrize("extent", [0, 1, 3, 1000])
def test_parallel_loop_runs_each_iteration_once(extent):
    out = buffer("out", "int32", max(extent, 1))
    i = int_var("i")
    body = For(i, 0, extent, ForKind.PARALLEL, BufferStore(out, BufferLoad(out, [i]) + i + ONE, [i]))
    array = tvm.nd.array(numpy.zeros(max(extent, 1), "int32"))
    packed([out], body)["f"](array)
    numpy.testing.assert_array_equal(array.numpy(), numpy.arange(1, extent + 1) if extent else numpy.zeros(1))


def test_parallel_body_captures_what_it_uses(rng):
    x, out, local = buffer("x", "float32", 64), buffer("out", "float32", 128), buffer("local", "float32", 8)
    i, j, u, scale = int_var("i"), int_var("j"), int_var("u"), Var("scale", "float32x8")
    at = Ramp(ZERO, ONE, 8)
    inner = SeqStmt((
        For(j, 0, 8, ForKind.SERIAL, BufferStore(local, BufferLoad(x, [i * 8 + j]), [j])),
        BufferStore(out, BufferLoad(local, [at]) * scale, [Ramp(u * 64 + i * 8, ONE, 8)]),
    ))  # fmt: skip
    loop = For(i, 0, 8, ForKind.PARALLEL, Allocate(local.data, "float32", [8], True, inner))
    factor = prim.Broadcast(prim.Cast("float32", u) + const(2.0, "float32"), 8)
    body = For(u, 0, 2, ForKind.SERIAL, LetStmt(scale, factor, loop))
    given = rng.standard_normal(64).astype("float32")
    array = tvm.nd.array(numpy.zeros(128, "float32"))
    packed([x, out], body)["f"](tvm.nd.array(given), array)
    numpy.testing.assert_array_equal(array.numpy(), numpy.concatenate([given * 2, given * 3]))


def test_one_launch_for_two_loops_with_shared_memory():
    out, middle = buffer("out", "int32", 50), buffer("middle", "int32", 50)
    i, j = int_var("i"), int_var("j")
    first = For(i, 0, 50, ForKind.PARALLEL, BufferStore(middle, i * 2, [i]))
    second = For(j, 0, 50, ForKind.PARALLEL, BufferStore(out, BufferLoad(middle, [const(49, "int32") - j]), [j]))
    steps = SeqStmt((
        AttrStmt(i, "pragma_parallel_barrier_when_finish", ONE, first),
        AttrStmt(j, "pragma_parallel_stride_pattern", ONE, second),
    ))  # fmt: skip
    inside = Allocate(middle.data, "int32", [50], True, steps)
    module = packed([out], AttrStmt(i, "pragma_parallel_launch_point", ONE, inside))
    assert module.get_source().count("->parallel_launch(") == 1
    for _ in range(20):
        array = tvm.nd.array(numpy.zeros(50, "int32"))
        module["f"](array)
        numpy.testing.assert_array_equal(array.numpy(), numpy.arange(98, -2, -2))


@pytest.mark.parametrize("n", [3, 40])
def test_a_parallel_loop_may_ask_for_one_task(n):
    """Below a limit the thread that calls runs all iterations in their order."""
    out, count = buffer("out", "int32", 40), buffer("count", "int32", 1)
    i, size = int_var("i"), BufferLoad(count, [ZERO])
    loop = For(i, 0, size, ForKind.PARALLEL, BufferStore(out, BufferLoad(out, [i]) + i, [i]))
    module = packed([out, count], AttrStmt(i, "pragma_parallel_if", prim.LE(const(20, "int32"), size), loop))
    launch = next(line for line in module.get_source().splitlines() if "->parallel_launch(" in line)
    assert "!(" in launch
    arrays = [tvm.nd.array(numpy.ones(40, "int32")), tvm.nd.array(numpy.array([n], "int32"))]
    module["f"](*arrays)
    want = numpy.ones(40, "int32")
    want[:n] += numpy.arange(n, dtype="int32")
    numpy.testing.assert_array_equal(arrays[0].numpy(), want)


def test_errors_reach_the_caller():
    out = buffer("out", "int32", 10)
    i = int_var("i")
    check = AssertStmt(i < 8, StringImm('i reached "eight"?\n'), BufferStore(out, i, [i]))
    for kind in (ForKind.SERIAL, ForKind.PARALLEL):
        with pytest.raises(TVMError, match='i reached "eight"'):
            packed([out], For(i, 0, 10, kind, check))["f"](tvm.nd.array(numpy.zeros(10, "int32")))


def test_packed_calls():
    calls = []

    @tvm.register_func("test.codegen_c.note", override=True)
    def note(a, b, text):
        calls.append((a, b, text))
        if a == 3:
            raise KeyError("lost key")
        return a * 10

    out = buffer("out", "int32", 4)
    i = int_var("i")
    arguments = (StringImm("test.codegen_c.note"), i, const(2.5, "float32"), StringImm('a "b"'))
    got = call("tvm_call_packed", *arguments, dtype="int32")
    array = tvm.nd.array(numpy.zeros(4, "int32"))
    module = packed([out], For(i, 0, 4, ForKind.SERIAL, BufferStore(out, got, [i])))
    assert module.get_source().count("get_func_from_env(__tvm_module_ctx") == 1
    with pytest.raises(KeyError, match="lost key"):
        module["f"](array)
    assert array.numpy().tolist() == [0, 10, 20, 0]
    assert calls == [(k, 2.5, 'a "b"') for k in range(4)]
    absent = Evaluate(call("tvm_call_packed", StringImm("test.codegen_c.absent"), dtype="int32"))
    with pytest.raises(TVMError, match="test.codegen_c.absent"):
        packed([out], absent)["f"](array)


def test_extern_operation_hands_tensors_to_a_packed_function(rng):
    @tvm.register_func("test.codegen_c.add_one", override=True)
    def add_one(x, y):
        tvm.nd.array(x.numpy() + 1).copyto(y)

    A = te.placeholder((5, 6), name="A")
    B = te.compute((5, 6), lambda i, j: A[i, j] * 2, name="B")
    C = te.extern((5, 6), [B], lambda ins, outs: tvm.tir.call_packed("test.codegen_c.add_one", *ins, *outs), name="C")
    module = tvm.build(te.create_schedule(C.op), [A, C], "c")
    given = rng.standard_normal((5, 6)).astype("float32")
    array = tvm.nd.array(numpy.zeros((5, 6), "float32"))
    module(tvm.nd.array(given), array)
    numpy.testing.assert_array_equal(array.numpy(), given * 2 + 1)


def test_large_buffer_becomes_workspace(rng):
    size = 1 << 16
    x, out, scratch = (buffer(name, "float32", size) for name in ("x", "out", "scratch"))
    i, j = int_var("i"), int_var("j")
    steps = SeqStmt((
        For(i, 0, size, ForKind.SERIAL, BufferStore(scratch, BufferLoad(x, [i]) + const(1.0, "float32"), [i])),
        For(j, 0, size, ForKind.SERIAL, BufferStore(out, BufferLoad(scratch, [const(size - 1, "int32") - j]), [j])),
    ))  # fmt: skip
    given = rng.standard_normal(size).astype("float32")
    array = tvm.nd.array(numpy.zeros(size, "float32"))
    module = packed([x, out], Allocate(scratch.data, "float32", [size], True, steps))
    module["f"](tvm.nd.array(given), array)
    assert "->alloc_workspace(" in module.get_source() and "->free_workspace(" in module.get_source()
    numpy.testing.assert_array_equal(array.numpy(), (given + 1)[::-1])


def test_functions_of_one_module_call_each_other():
    a, b = buffer("a", "int32", 1), buffer("b", "int32", 1)
    helper = PrimFunc([a.data], BufferStore(a, BufferLoad(a, [ZERO]) + 7, [ZERO]), attrs={"global_symbol": "helper"})
    main = PrimFunc([b.data], Evaluate(Call("int32", GlobalVar("helper"), (b.data,))), attrs={"global_symbol": "main"})
    from tvm.codegen.c import build as c
    from tvm.target import Target

    text = c.build(IRModule({"helper": helper, "main": main}), Target("c")).get_source()
    assert "helper(b);" in text and 'main_(int32_t*) __asm__("main")' in text


def test_variables_do_not_hide_functions_and_constants():
    """Parameters are called like the function from outside, the constants of the checks, and the parallel body."""
    text = "static float scale(float x) { return x * 3.0f; }\n"
    names = ["scale", "f_parallel", "f_parallel_task", "scale_spec", "packed_test_codegen_c_tick"]
    outputs = [buffer(name, "float32", 4) for name in names]
    i = int_var("closure")
    tripled = call("call_pure_extern", StringImm("scale"), prim.Cast("float32", i), dtype="float32")
    loops = [For(i, 0, 4, ForKind.PARALLEL, BufferStore(out, tripled, [i])) for out in outputs]
    ticks = []
    tvm.register_func("test.codegen_c.tick", lambda: ticks.append(1), override=True)
    tick = Evaluate(call("tvm_call_packed", StringImm("test.codegen_c.tick"), dtype="int32"))
    body = AttrStmt(i, "pragma_import_c", StringImm(text), SeqStmt((*loops, tick)))
    arrays = [tvm.nd.array(numpy.zeros(4, "float32")) for _ in outputs]
    packed(outputs, body)["f"](*arrays)
    assert ticks == [1]
    for array in arrays:
        numpy.testing.assert_array_equal(array.numpy(), [0, 3, 6, 9])

"""Unsafe selects, narrow indices, hoisted conditions, bound checks, dropped assertions."""

from __future__ import annotations

import numpy as np
import pytest
from interpreter import AssertionFailed, run
from lowered import of, same_result, var

import tvm
from tvm.ir.module import IRModule
from tvm.ir.prim import BufferLoad, Call, IterVar, Let, Max, Min, Select, SizeVar, StringImm, Var, const
from tvm.tir.buffer import decl_buffer
from tvm.tir.function import PrimFunc
from tvm.tir.op import all as all_of
from tvm.tir.op import if_then_else
from tvm.tir.stmt import AssertStmt, AttrStmt, BufferStore, Evaluate, For, ForKind, IfThenElse, SeqStmt
from tvm.tir.transform.convert_for_loops_to_serial import convert_for_loops_to_serial
from tvm.tir.transform.hoist_if_then_else import hoist_if_then_else
from tvm.tir.transform.instrument_bound_checkers import instrument_bound_checkers
from tvm.tir.transform.narrow_data_type import narrow_data_type
from tvm.tir.transform.rewrite_unsafe_select import rewrite_unsafe_select
from tvm.tir.transform.skip_assert import skip_assert
from tvm.tir.transform.unswitch_loops import unswitch_loops


def buffers():
    return decl_buffer((8,), "float32", "A"), decl_buffer((16,), "float32", "B")


def arrays():
    return np.arange(8, dtype="float32"), np.zeros(16, "float32")


def test_select_with_a_load_that_may_miss_becomes_a_branch():
    a, b = buffers()
    i = var("i")
    func = PrimFunc([a, b], For(i, 0, 16, 0, BufferStore(b, Select(i < 8, a[i], const(0.0, "float32")), [i])))
    new = same_result(rewrite_unsafe_select, func, *arrays())
    assert not of(Select, new) and of(Call, new)[0].op.name == "tir.if_then_else"


def test_select_between_what_its_condition_computes_anyway_stays():
    a, b = buffers()
    i = var("i")
    value = if_then_else(i < 8, a[i], const(-1.0, "float32")) + 1.0
    store = BufferStore(b, Select(value < 3.0, const(0.0, "float32"), value * 2.0), [i])
    new = same_result(rewrite_unsafe_select, PrimFunc([a, b], For(i, 0, 16, 0, store)), *arrays())
    assert len(of(Select, new)) == 1


def test_select_inside_its_memory_stays():
    a, b = buffers()
    i = var("i")
    func = PrimFunc([a, b], For(i, 0, 8, 0, BufferStore(b, Select(a[i] > 3.0, a[i], a[7 - i]), [i])))
    assert rewrite_unsafe_select(func).body is func.body


def test_select_by_a_guarded_division_becomes_a_branch():
    n = var("n")
    b = decl_buffer((4,), "int32", "B")
    func = PrimFunc([b, n], BufferStore(b, Select(n > 0, const(12) // n, const(0)), [0]))
    assert not of(Select, rewrite_unsafe_select(func))


def test_wide_loops_and_indices_become_narrow():
    a, b = decl_buffer((64,), "float32", "A"), decl_buffer((64,), "float32", "B")
    i, j = var("i", "int64"), var("j", "int64")
    at = i * 8 + j
    body = IfThenElse(at < const(60, "int64"), BufferStore(b, a[at] + i.astype("float32"), [at]))
    func = PrimFunc([a, b], For(i, 0, 8, 0, For(j, 0, 8, 0, body)))
    new = same_result(narrow_data_type, func, np.arange(64, dtype="float32"), np.zeros(64, "float32"))
    assert {f.loop_var.dtype for f in of(For, new)} == {"int32"}
    assert of(BufferStore, new)[0].indices[0].dtype == "int32" and of(IfThenElse, new)[0].condition.a.dtype == "int32"


def test_index_that_may_not_fit_stays_wide():
    a = decl_buffer((1 << 33,), "int8", "A")
    i, j = var("i", "int64"), var("j", "int64")
    store = BufferStore(a, const(1, "int8"), [i * (1 << 31) + j])
    new = narrow_data_type(PrimFunc([a], For(i, 0, 4, 0, For(j, 0, 1 << 31, 0, store))))
    assert of(BufferStore, new)[0].indices[0].dtype == "int64"
    # A narrow variable would have to be widened for each use.
    assert {f.loop_var.dtype for f in of(For, new)} == {"int64"}


def test_index_that_is_narrow_once_its_numbers_are_put_together():
    a, b = decl_buffer((const(1 << 32, "int64"),), "float32", "A"), decl_buffer((1,), "float32", "B")
    for at, dtype in ((5, "int32"), (1 << 31, "int64")):
        clipped = Max(Min(const(at, "int64"), const((1 << 32) - 1, "int64")), const(0, "int64"))
        new = narrow_data_type(PrimFunc([a, b], BufferStore(b, BufferLoad(a, [clipped]), [0])))
        (load,) = of(BufferLoad, new)
        assert load.indices[0].dtype == dtype


def test_index_over_unknown_sizes_is_narrow_where_the_function_says_that_elements_can_be_counted():
    n = var("n")
    a = decl_buffer((n, n), "int8", "A")
    i, wide = var("i"), var("n").astype("int64")
    store = BufferStore(a, const(1, "int8"), [i.astype("int64") * wide + const(1, "int64")])
    count = AssertStmt(wide * wide < const(100, "int64"), StringImm("small"), store)
    func = PrimFunc([a], For(i, 0, n, 0, count))
    assert of(BufferStore, narrow_data_type(func))[0].indices[0].dtype == "int64"
    new = narrow_data_type(func.with_attr("tir.narrow_indices", True))
    assert of(BufferStore, new)[0].indices[0].dtype == "int32"
    # What is compared is no index.
    assert of(AssertStmt, new)[0].condition.a.dtype == "int64"


def test_condition_leaves_the_loops_it_does_not_depend_on():
    a, b = buffers()
    i, j, n = var("i"), var("j"), var("n")
    nest = For(i, 0, 4, 0, For(j, 0, 4, 0, IfThenElse(n < 3, BufferStore(b, a[j], [i * 4 + j]))))
    new = same_result(hoist_if_then_else, PrimFunc([a, b, n], nest), *arrays(), np.int32(2))
    assert isinstance(new.body, IfThenElse)
    nest = For(i, 0, 4, 0, For(j, 0, 4, 0, IfThenElse(i < 3, BufferStore(b, a[j], [i * 4 + j]))))
    new = same_result(hoist_if_then_else, PrimFunc([a, b, n], nest), *arrays(), np.int32(2))
    assert isinstance(new.body, For) and isinstance(new.body.body, IfThenElse)


def test_a_condition_inside_one_that_leaves_a_loop_follows_it():
    a, b = buffers()
    i, j, n, m = var("i"), var("j"), var("n"), var("m")
    inner = IfThenElse(i < m, BufferStore(b, a[j], [i * 4 + j]))
    nest = For(i, 0, 4, 0, For(j, 0, 4, 0, IfThenElse(n < 3, inner)))
    new = same_result(hoist_if_then_else, PrimFunc([a, b, n, m], nest), *arrays(), np.int32(2), np.int32(3))
    assert isinstance(new.body, IfThenElse) and isinstance(new.body.then_case.body, IfThenElse)
    assert isinstance(new.body.then_case.body.then_case, For)


def test_condition_that_fails_where_the_loop_does_not_run_stays():
    a, b = buffers()
    i, n = var("i"), var("n")
    nest = For(i, 0, n, 0, IfThenElse(12 // n > 2, BufferStore(b, a[i], [i])))
    new = same_result(hoist_if_then_else, PrimFunc([a, b, n], nest), *arrays(), np.int32(3))
    assert isinstance(new.body, For)


def test_condition_on_memory_stays():
    a, b = buffers()
    i = var("i")
    nest = For(i, 0, 4, 0, IfThenElse(b[0] < 3.0, BufferStore(b, b[0] + 1.0, [0])))
    new = same_result(hoist_if_then_else, PrimFunc([a, b], nest), *arrays())
    assert isinstance(new.body, For)


def test_choice_that_a_loop_does_not_change_is_made_before_it():
    a, b = buffers()
    i, j, n = var("i"), var("j"), var("n")
    value = if_then_else(all_of(i < 2, j < n), a[i * 2 + j], const(7.0, "float32"))
    nest = For(i, 0, 4, 0, For(j, 0, 4, 0, BufferStore(b, value * 2.0, [i * 4 + j])))
    new = same_result(unswitch_loops, PrimFunc([a, b, n], nest), *arrays(), np.int32(3))
    outer = new.body.body
    assert isinstance(outer, IfThenElse) and isinstance(outer.then_case, For) and isinstance(outer.else_case, For)
    # What the inner loop decides stays inside.
    assert "if_then_else" in str(outer.then_case) and "if_then_else" not in str(outer.else_case)


def test_choice_in_a_guarded_loop_is_made_before_it():
    a, b = buffers()
    i, j, n = var("i"), var("j"), var("n")
    store = BufferStore(b, if_then_else(i < 2, a[i * 2 + j], const(7.0, "float32")), [i * 4 + j])
    nest = For(i, 0, 4, 0, For(j, 0, 4, 0, IfThenElse(i < n, store)))
    guard = same_result(unswitch_loops, PrimFunc([a, b, n], nest), *arrays(), np.int32(3)).body.body
    assert isinstance(guard, IfThenElse) and guard.else_case is None
    assert isinstance(guard.then_case, IfThenElse) and "if_then_else" not in str(guard.then_case)


def test_choice_by_a_value_that_the_expression_defines_stays():
    a, b = buffers()
    i, x = var("i"), Var("x", "float32")
    value = Let(x, a[i], if_then_else(x > 1.0, x, const(2.0, "float32")))
    new = same_result(unswitch_loops, PrimFunc([a, b], For(i, 0, 4, 0, BufferStore(b, value, [i]))), *arrays())
    assert isinstance(new.body, For)


def test_choices_on_memory_and_copies_without_end_are_left():
    a, b = buffers()
    i, j = var("i"), var("j")
    nest = For(i, 0, 4, 0, For(j, 0, 4, 0, BufferStore(b, if_then_else(a[i] < 0.0, a[j], a[i]), [i * 4 + j])))
    assert isinstance(same_result(unswitch_loops, PrimFunc([a, b], nest), *arrays()).body.body, For)
    value = const(0.0, "float32")
    for k in range(100):
        value = value + if_then_else(i < k, a[j], const(1.0, "float32"))
    nest = For(i, 0, 4, 0, For(j, 0, 4, 0, BufferStore(b, value, [i * 4 + j])))
    assert len(of(BufferStore, same_result(unswitch_loops, PrimFunc([a, b], nest), *arrays()))) <= 64


def test_access_outside_is_reported():
    a, b = buffers()
    i, n = var("i"), var("n")
    func = instrument_bound_checkers(PrimFunc([a, b, n], For(i, 0, n, 0, BufferStore(b, a[i], [i]))))
    run(func, *arrays(), np.int32(8))
    with pytest.raises(AssertionFailed, match="OUT OF BOUNDS: load from A"):
        run(func, *arrays(), np.int32(9))
    store = instrument_bound_checkers(PrimFunc([b, n], BufferStore(b, const(0.0, "float32"), [n])))
    with pytest.raises(AssertionFailed, match="OUT OF BOUNDS: store to B"):
        run(store, np.zeros(16, "float32"), np.int32(-1))


def test_guarded_load_is_checked_where_it_happens():
    a, b = buffers()
    i = var("i")
    value = if_then_else(i < 8, a[i], const(0.0, "float32"))
    func = instrument_bound_checkers(PrimFunc([a, b], For(i, 0, 16, 0, BufferStore(b, value, [i]))))
    x, y = arrays()
    run(func, x, y)
    np.testing.assert_array_equal(y[:8], x)


def test_assertions_are_dropped_and_parallel_loops_made_serial():
    a, b = buffers()
    i = var("i")
    body = AssertStmt(i < 0, "never", For(i, 0, 8, ForKind.PARALLEL, BufferStore(b, a[i], [i])))
    new = convert_for_loops_to_serial(skip_assert(PrimFunc([a, b], body)))
    assert new.body.kind is ForKind.SERIAL and not of(AssertStmt, new)
    assert len(of(BufferLoad, new)) == 1


def launch(n):
    """Threads that all test the same condition."""
    a, b = buffers()
    thread, block = (IterVar((0, 4), var(name), IterVar.ThreadIndex, name) for name in ("threadIdx.x", "blockIdx.x"))
    body = IfThenElse(n < 3, BufferStore(b, a[thread.var], [block.var * 4 + thread.var]))
    for axis in (thread, block):
        body = AttrStmt(axis, "thread_extent", const(4), body)
    return IRModule({"main": PrimFunc([a, b, n], body)})


@pytest.mark.parametrize("variant, config, is_moved", [
    (None, {}, False), (None, {"support_block_scope_hosting": True}, True),
    ("basic", {"support_block_scope_hosting": True}, False)])  # fmt: skip
def test_condition_leaves_the_launch_of_threads_where_it_is_asked_to(variant, config, is_moved):
    with tvm.transform.PassContext(config={"tir.HoistIfThenElse": config}):
        body = tvm.tir.transform.HoistIfThenElse(variant)(launch(var("n")))["main"].body
    assert isinstance(body, IfThenElse) == is_moved


def test_an_unknown_variant_of_hoisting_is_refused():
    with pytest.raises(ValueError, match="the variant must be 'basic' or None, got 'advanced'"):
        tvm.tir.transform.HoistIfThenElse("advanced")


def guarded_tiles(n, divisor):
    """Rows of ``n`` in blocks of four, each statement of a tile with the guards of its row and of its column."""
    a, b = buffers()
    i, j = var("i"), var("j")
    x, y, z = (var(name) for name in "xyz")
    row = i % divisor * 4 + j < n
    zero = For(x, 0, 2, ForKind.UNROLLED, IfThenElse(row, BufferStore(b, const(0.0, "float32"), [j * 2 + x])))
    add = For(y, 0, 2, ForKind.UNROLLED, IfThenElse(row, BufferStore(b, b[j * 2 + y] + a[y], [j * 2 + y])))
    last = For(z, 0, 2, ForKind.UNROLLED, IfThenElse(all_of(row, z < n - 4), BufferStore(b, a[z] * 2.0, [j * 2 + z])))
    return PrimFunc([a, b, n], For(i, 0, divisor * 2, 0, For(j, 0, 4, 0, SeqStmt([zero, add, last]))))


@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 6])
def test_guards_of_unknown_sizes_are_tested_once_for_the_statements_of_a_tile(n):
    """The divisor is a factor of the steps of a loop around, so it is not zero there."""
    size = SizeVar("n", "int32")
    new = same_result(hoist_if_then_else, guarded_tiles(size, (size + 3) // 4), *arrays(), np.int32(n))
    guards = of(IfThenElse, new)
    assert len(guards) == 2 and isinstance(new.body.body.body, IfThenElse)
    assert isinstance(new.body.body.body.then_case, SeqStmt)


def test_a_guard_with_a_division_that_may_fail_leaves_only_loops_that_begin_with_it():
    a, b = buffers()
    i, k, size, other = var("i"), var("k"), SizeVar("n", "int32"), SizeVar("m", "int32")

    def guarded(steps, *conditions):
        body = IfThenElse(all_of(*conditions), BufferStore(b, a[i], [i * 2 + k]))
        return PrimFunc([a, b, size, other], For(i, 0, 4, 0, For(k, 0, steps, ForKind.SERIAL, body)))

    def inner(func):
        return hoist_if_then_else(func).body.body

    row, column = (i + 3) % other < size, k < size
    assert isinstance(inner(guarded(const(2), row)), IfThenElse)
    assert isinstance(inner(guarded(const(2), i < size, row, column)), IfThenElse)
    # There may be no step, or none that comes to the division.
    assert isinstance(inner(guarded(other + 1, row)), For)
    assert isinstance(inner(guarded(const(2), column, row)), For)


def test_guards_of_known_sizes_stay_with_their_statements():
    new = same_result(hoist_if_then_else, guarded_tiles(var("n"), const(2)), *arrays(), np.int32(5))
    assert len(of(IfThenElse, new)) == 3


@pytest.mark.parametrize("n", [0, 2, 4])
def test_a_guard_inside_another_leaves_a_loop_that_the_other_stays_in(n):
    a, b = buffers()
    i, k, size = var("i"), var("k"), SizeVar("n", "int32")
    store = BufferStore(b, a[i] + 1.0, [i * 2 + k])
    body = For(k, 0, 2, ForKind.UNROLLED, IfThenElse(k + i < size + 1, IfThenElse(i < size, store)))
    func = PrimFunc([a, b, size], For(i, 0, 4, 0, body))
    new = same_result(hoist_if_then_else, func, *arrays(), np.int32(n))
    assert isinstance(new.body.body, IfThenElse) and isinstance(new.body.body.then_case, For)


def test_prefetches_between_guarded_statements_are_guarded_with_them():
    a, b = buffers()
    i, size = var("i"), SizeVar("n", "int32")
    ask = Evaluate(tvm.tir.call_intrin("void", "tir.prefetch", tvm.tir.address_of(b[i]), 0, 3, 1))
    first, second = (IfThenElse(i < size, BufferStore(b, a[i], [i + at])) for at in (0, 8))
    new = hoist_if_then_else(PrimFunc([a, b, size], For(i, 0, 4, 0, SeqStmt([first, ask, second]))))
    assert isinstance(new.body.body, IfThenElse) and len(new.body.body.then_case.seq) == 3
    new = hoist_if_then_else(PrimFunc([a, b, size], For(i, 0, 4, 0, SeqStmt([ask, first]))))
    assert isinstance(new.body.body, IfThenElse) and len(new.body.body.then_case.seq) == 2
    apart = hoist_if_then_else(PrimFunc([a, b, size], For(i, 0, 4, 0, SeqStmt([first, ask, ask]))))
    assert len(apart.body.body.seq) == 3

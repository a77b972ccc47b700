"""relay.vm: programs whose sizes are known only when they run, compiled once and run at several sizes."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.relay.random_programs import plain, shapes
from tvm import relay
from tvm.ir.prim import Any_
from tvm.relay.backend.vm.caller_sizes import with_sizes_of_callers
from tvm.relay.backend.vm.compiler import prepared
from tvm.relay.prelude import Prelude

VECTOR = relay.TensorType((relay.Any(),), "int32")


def unknown(name, *shape, dtype="int32"):
    return relay.var(name, shape=[relay.Any() if d is None else d for d in shape], dtype=dtype)


def numbers(*shape, dtype="int32"):
    return (np.arange(np.prod(shape, dtype=int)).reshape(shape) * 7 % 11 - 4).astype(dtype)


def check(program, *cases):
    """The machine computes what the interpreter does; shapes count, also those of empty tensors."""
    mod = program if isinstance(program, tvm.IRModule) else tvm.IRModule.from_expr(program)
    run = relay.create_executor("vm", mod).evaluate()
    debug = relay.create_executor("debug", mod).evaluate()
    for case in cases:
        got, want = run(*case), debug(*case)
        assert shapes(got) == shapes(want) and plain(got) == plain(want)


def test_kernels_are_compiled_once_for_all_sizes():
    x, y = unknown("x", None, 3), unknown("y", None, 3)
    z = relay.concatenate([x, y], 0)
    body = relay.Tuple([relay.sum(z, 0), relay.reshape(z, (-1,)), relay.reshape(z * z, (3, -1)), x, relay.sum(z)])
    check(relay.Function([x, y], body), *[(numbers(a, 3), numbers(b, 3)) for a, b in ((2, 3), (1, 1), (0, 1), (0, 0))])


def test_operators_with_unknown_sizes_broadcast():
    x, y = unknown("x", None, None), unknown("y", None, None)
    cases = [((3, 4), (3, 4)), ((1, 4), (3, 1)), ((3, 4), (1, 1)), ((1, 1), (0, 5))]
    check(relay.Function([x, y], x + y * x), *[(numbers(*a), numbers(*b)) for a, b in cases])


@pytest.mark.parametrize("is_first", [True, False])
def test_a_mask_whose_sizes_have_names_broadcasts_to_sizes_that_data_decide(is_first):
    mask, x = unknown("mask", None, None, None), unknown("x", None)
    shape = relay.var("shape", shape=(3,), dtype="int64")
    made = relay.reshape(x, shape)
    total = mask + made if is_first else made + mask
    cases = [((b, 1, n), b * 4 * n, (b, 4, n)) for b, n in ((1, 2), (3, 5))]
    check(
        relay.Function([mask, x, shape], relay.cumsum(total, 2)),
        *[(numbers(*m), numbers(count), np.array(new)) for m, count, new in cases],
        (numbers(2, 1, 3), numbers(4), np.array([1, 4, 1])),
    )


def test_a_convolution_may_be_broadcast_to_the_size_of_another_operand():
    """Sizes that slices take from data are not known to be equal: each of the two may be 1."""
    x, ends = unknown("x", 1, 16, 8, None, dtype="float32"), [unknown(n, 1, dtype="int64") for n in "ab"]
    first = [relay.const(np.array([v])) for v in (0, 1)]
    kernel = numbers(16, 16, 7, 3, dtype="float32")
    a, b = (relay.strided_slice(x, first[0], end, first[1], axes=[3]) for end in ends)
    body = relay.nn.relu(relay.nn.conv2d(a, relay.const(kernel), padding=(3, 1)) + b)
    data = numbers(1, 16, 8, 5, dtype="float32")
    with tvm.transform.PassContext(opt_level=3):
        run = relay.create_executor("vm", tvm.IRModule.from_expr(relay.Function([x, *ends], body))).evaluate()
    for n, m in ((5, 5), (1, 4), (3, 1)):
        padded = np.pad(data[..., :n], ((0, 0), (0, 0), (3, 3), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (7, 3), (2, 3))
        want = np.maximum(np.einsum("nchwij,ocij->nohw", windows, kernel) + data[..., :m], 0)
        np.testing.assert_array_equal(run(data, np.array([n]), np.array([m])).numpy(), want)


def test_a_slice_of_an_unknown_axis_may_be_shorter_than_a_vector():
    x = unknown("x", None, None)
    body = relay.strided_slice(x, [0], [2], [1], [1]) + relay.const(1)
    check(relay.Function([x], body), *[(numbers(*s),) for s in ((3, 5), (3, 1), (2, 0), (4, 2))])


def test_branches_may_differ_in_size():
    c, x = relay.var("c", shape=(), dtype="bool"), unknown("x", None)
    body = relay.If(c, x, relay.concatenate([x, x], 0)) * relay.const(2)
    check(relay.Function([c, x], body), *[(np.bool_(c), numbers(n)) for c in (True, False) for n in (3, 1, 0)])


def test_clauses_of_a_match_may_differ_in_size():
    prelude = Prelude(tvm.IRModule())
    make, cons, nil = prelude.get_type("List")
    x, head, xs = unknown("x", 3), relay.Var("head", VECTOR), relay.Var("xs", make(VECTOR))
    full = relay.PatternConstructor(cons, [relay.PatternVar(head), relay.PatternWildcard()])
    first = relay.Match(xs, [relay.Clause(relay.PatternConstructor(nil, []), x), relay.Clause(full, head)])
    prelude.mod["main"] = relay.Function([x, xs], first * relay.const(2))
    empty = tvm.runtime.container.ADT(1)
    run = relay.create_executor("vm", prelude.mod).evaluate()
    assert run(numbers(3), empty).shape == (3,)
    assert run(numbers(3), tvm.runtime.container.ADT(0, [numbers(5), empty])).numpy().tolist() == [
        2 * v for v in numbers(5)
    ]


def test_operators_that_do_not_run_say_nothing_of_sizes():
    c, x, y = relay.var("c", shape=(), dtype="bool"), unknown("x", None, None), unknown("y", None, None)
    body = relay.If(c, relay.concatenate([x, y], 0), x)
    check(
        relay.Function([c, x, y], body),
        (np.bool_(True), numbers(3, 4), numbers(2, 4)),
        (np.bool_(False), numbers(3, 4), numbers(2, 5)),
    )


def test_a_function_calls_itself_with_other_sizes():
    mod, grow = tvm.IRModule(), relay.GlobalVar("grow")
    n, x = relay.var("n", shape=(), dtype="int32"), unknown("x", None)
    more = grow(n - relay.const(1), relay.concatenate([x, x + n], 0))
    mod[grow] = relay.Function([n, x], relay.If(relay.equal(n, relay.const(0)), x, more), VECTOR)
    n, x = relay.var("n", shape=(), dtype="int32"), unknown("x", None)
    mod["main"] = relay.Function([n, x], grow(n, x) + relay.const(1))
    check(mod, *[(np.int32(n), numbers(m)) for n, m in ((0, 3), (3, 1), (2, 0), (5, 2))])


def test_lists_hold_tensors_of_different_sizes():
    prelude = Prelude(tvm.IRModule())
    mod, (make, cons, nil) = prelude.mod, prelude.get_type("List")
    parts = relay.GlobalVar("parts")
    n, x = relay.var("n", shape=(), dtype="int32"), unknown("x", None)
    rest = parts(n - relay.const(1), relay.concatenate([x, x], 0))
    mod[parts] = relay.Function([n, x], relay.If(relay.equal(n, relay.const(0)), nil(), cons(x, rest)), make(VECTOR))
    n, x, a, y, z = relay.var("n", shape=(), dtype="int32"), *(unknown(name, None) for name in "xayz")
    made = parts(n, x)
    joined = prelude.foldl(relay.Function([a, y], relay.concatenate([a, y], 0), VECTOR), x, made)
    mod["main"] = relay.Function([n, x], relay.Tuple([
        prelude.map(relay.Function([z], z * z, VECTOR), made), joined - relay.const(1)]))  # fmt: skip
    check(mod, *[(np.int32(n), numbers(m)) for n, m in ((3, 2), (0, 2), (2, 0), (1, 1))])


def test_a_fold_that_begins_with_a_known_size_ends_with_another():
    prelude = Prelude(tvm.IRModule())
    _, cons, nil = prelude.get_type("List")
    x, a, y = unknown("x", 3), unknown("a", None), unknown("y", 3)
    joined = prelude.foldl(relay.Function([a, y], relay.concatenate([a, y], 0), VECTOR), x, cons(x, cons(x, nil())))
    prelude.mod["main"] = relay.Function([x], joined * relay.const(2))
    check(prelude.mod, (numbers(3),))


def test_closures_are_called_with_any_size():
    c, x, y = relay.var("c", shape=(), dtype="bool"), unknown("x", None), unknown("y", None)
    name = relay.Var("f")
    join, same = relay.Function([y], relay.concatenate([x, y], 0), VECTOR), unknown("z", None)
    body = relay.Let(name, relay.If(c, join, relay.Function([same], same, VECTOR)), name(name(x)))
    check(relay.Function([c, x], body), *[(np.bool_(c), numbers(n)) for c, n in ((True, 2), (False, 1), (True, 0))])


def test_what_a_reference_holds_may_change_its_size():
    c, x, held, done = relay.var("c", shape=(), dtype="bool"), unknown("x", None), relay.Var("held"), relay.Var("done")
    write = relay.RefWrite(held, relay.concatenate([relay.RefRead(held), x], 0))
    read = relay.Let(done, relay.If(c, write, relay.Tuple([])), relay.RefRead(held) * relay.const(2))
    body = relay.Let(held, relay.RefCreate(x), read)
    check(relay.Function([c, x], body), *[(np.bool_(c), numbers(n)) for c, n in ((True, 2), (False, 2), (True, 0))])


@pytest.mark.slow("compiles kernels with dynamic shapes for many sizes")
def test_data_decide_on_sizes():
    x, s, k = unknown("x", None, 4), relay.var("s", shape=(2,), dtype="int64"), relay.var("k", shape=(), dtype="int32")
    found = relay.argwhere(relay.greater(x, relay.const(0)))
    rows = relay.take(x, relay.squeeze(relay.split(found, 2, 1)[0], [1]), 0)
    body = relay.Tuple([
        found, rows + relay.const(1), relay.reshape(x, s) * relay.const(3), relay.tile(x, s), relay.broadcast_to(k, s),
        relay.topk(x, k, ret_type="values"), relay.arange(relay.const(0), k, relay.const(1), dtype="int32"),
        relay.strided_slice(x, relay.const(np.array([0, 0])), s, relay.const(np.array([1, 1]))),
    ])  # fmt: skip
    check(
        relay.Function([x, s, k], body),
        (numbers(3, 4), np.array([4, 3]), np.int32(2)),
        (numbers(1, 4), np.array([2, 2]), np.int32(4)),
        (numbers(0, 4), np.array([0, 3]), np.int32(0)),
    )


def test_a_loop_makes_a_tensor_of_another_size_in_each_step():
    i, x = relay.var("i", shape=(), dtype="int32"), unknown("x", None)
    loop = relay.loops.while_loop(
        lambda i, x: relay.less(i, relay.const(5)), [i, x],
        lambda i, x: (i + relay.const(1), relay.concatenate(
            [x, relay.arange(relay.const(0), i, relay.const(1), dtype="int32"),
             relay.reshape(relay.argwhere(relay.greater(x, i)), (-1,))], 0)),
    )  # fmt: skip
    start = unknown("start", None)
    result = relay.TupleGetItem(loop(relay.const(0), start), 1)
    check(relay.Function([start], result), (numbers(4),), (numbers(1),), (numbers(0),))


def test_boxes_that_survive_are_as_many_as_the_data_say(rng):
    boxes = relay.var("boxes", shape=(1, relay.Any(), 6))
    count, data, indices = relay.vision.get_valid_counts(boxes, 0.3)
    kept = relay.vision.non_max_suppression(data, count, indices, relay.const(-1), 0.5, return_indices=False)
    mod = tvm.IRModule.from_expr(relay.Function([boxes], kept))
    run, debug = (relay.create_executor(kind, mod).evaluate() for kind in ("vm", "debug"))
    for n in (5, 1):
        value = rng.random((1, n, 6), dtype="float32")
        np.testing.assert_array_equal(run(value).numpy(), debug(value).numpy())


@pytest.mark.parametrize("level", [2, 3])
def test_a_layer_with_weights_takes_any_number_of_rows(level, rng):
    x, w = unknown("x", None, None, 8, dtype="float32"), rng.random((16, 8), dtype="float32")
    rows = relay.nn.relu(relay.nn.dense(relay.reshape(x, (-1, 8)), relay.const(w)))
    body = relay.nn.softmax(relay.reshape_like(rows, x, 0, 1, 0, 2))
    with tvm.transform.PassContext(opt_level=level):
        run = relay.create_executor("vm", tvm.IRModule.from_expr(relay.Function([x], body))).evaluate()
    for shape in ((2, 5, 8), (1, 1, 8), (3, 0, 8), (1, 33, 8)):
        value = rng.random(shape, dtype="float32")
        want = np.exp(np.maximum(value @ w.T, 0))
        np.testing.assert_allclose(run(value).numpy(), want / want.sum(-1, keepdims=True), rtol=1e-4)


def test_a_known_size_beside_unknown_ones_is_sliced():
    """Sizes that attributes say are narrower than those that are variables."""
    x = unknown("x", None, 4, None)
    wide = relay.nn.pad(x * x, [(0, 0), (1, 1), (0, 0)], 0)
    parts = [relay.strided_slice(wide, [i], [i + 4], [1], [1]) for i in range(3)]
    check(relay.Function([x], parts[0] + parts[1] + parts[2]), (numbers(2, 4, 3),), (numbers(0, 4, 1),))


def sums_of_rows(*initial):
    """Loops over the rows of x, which add to a state each, from the states that ``initial`` makes of x."""
    f = relay.GlobalVar("f")
    step, state, x = relay.var("step", shape=(), dtype="int32"), unknown("state", None), unknown("x", None, None)
    count = relay.cast(relay.take(relay.shape_of(x, "int64"), relay.const(0), 0), "int32")
    repeat = f(step + relay.const(1), state * relay.const(2) + relay.take(x, step, axis=0), x)
    mod = tvm.IRModule({f: relay.Function([step, state, x], relay.If(relay.less(step, count), repeat, state), VECTOR)})
    x = unknown("x", None, None)
    mod["main"] = relay.Function([x], relay.Tuple([f(relay.const(0), made(x), x) for made in initial]))
    return mod


def first_row(x):
    return relay.sum(x, 0)


def types_from_callers(mod, name):
    """The types of a function's parameters as the machine compiles it."""
    return [p.type_annotation for p in with_sizes_of_callers(prepared(mod), ["main"])[name].params]


def test_sizes_that_are_equal_in_all_calls_are_one_size_of_the_function():
    mod = sums_of_rows(first_row, lambda x: relay.max(x, 0))
    check(mod, *[(numbers(*s),) for s in ((3, 4), (1, 1), (2, 1), (5, 3))])
    state, x = types_from_callers(mod, "f")[1:]
    assert state.shape[0] is x.shape[1] and x.shape[0] is not x.shape[1]


def test_sizes_that_differ_in_one_call_are_two_sizes_of_the_function():
    mod = sums_of_rows(first_row, lambda x: relay.const(np.array([3], "int32")))
    check(mod, *[(numbers(*s),) for s in ((3, 4), (1, 1), (2, 1), (5, 3))])
    state, x = types_from_callers(mod, "f")[1:]
    assert isinstance(state.shape[0], Any_) and isinstance(x.shape[1], Any_)


def test_a_size_that_is_one_number_in_all_calls_is_known():
    mod = sums_of_rows(lambda x: relay.const(np.array([3], "int32")), lambda x: relay.const(np.array([5], "int32")))
    check(mod, *[(numbers(*s),) for s in ((3, 1), (1, 1), (0, 1))])
    assert isinstance(types_from_callers(mod, "f")[1].shape[0], Any_)  # a row of x may make it longer
    mod, count = tvm.IRModule(), relay.GlobalVar("count")
    n, x = relay.var("n", shape=(), dtype="int32"), unknown("x", None)
    mod[count] = relay.Function([n, x], relay.If(relay.less(n, relay.const(3)), count(n + relay.const(1), x + n), x),
                                VECTOR)  # fmt: skip
    n, x = relay.var("n", shape=(), dtype="int32"), unknown("x", 4)
    mod["main"] = relay.Function([n, x], count(n, x))
    check(mod, (np.int32(0), numbers(4)))
    assert int(types_from_callers(mod, "count")[1].shape[0]) == 4


def test_sizes_that_a_function_changes_in_its_own_calls_are_two_sizes():
    mod, grow = tvm.IRModule(), relay.GlobalVar("grow")
    n, x, y = relay.var("n", shape=(), dtype="int32"), unknown("x", None), unknown("y", None)
    more = grow(n - relay.const(1), relay.concatenate([x, y * n], 0), y)
    end = relay.concatenate([x, y], 0)
    mod[grow] = relay.Function([n, x, y], relay.If(relay.equal(n, relay.const(0)), end, more), VECTOR)
    n, x = relay.var("n", shape=(), dtype="int32"), unknown("x", None)
    mod["main"] = relay.Function([n, x], grow(n, x, x + x))
    check(mod, *[(np.int32(n), numbers(m)) for n, m in ((0, 3), (3, 1), (2, 0), (4, 2))])


def test_a_function_that_is_also_a_value_takes_sizes_that_no_call_has():
    mod, add = tvm.IRModule(), relay.GlobalVar("add")
    n, x, y = relay.var("n", shape=(), dtype="int32"), unknown("x", None), unknown("y", None)
    again = add(n - relay.const(1), x + y, y)
    mod[add] = relay.Function([n, x, y], relay.If(relay.less(relay.const(0), n), again, x * y), VECTOR)
    n, x, y = relay.var("n", shape=(), dtype="int32"), unknown("x", None), unknown("y", None)
    g = relay.var("g", relay.FuncType([relay.scalar_type("int32"), VECTOR, VECTOR], VECTOR))
    apply = relay.GlobalVar("apply")
    m, a, b = relay.var("m", shape=(), dtype="int32"), unknown("a", None), unknown("b", None)
    mod[apply] = relay.Function([g, m, a, b], relay.If(relay.less(relay.const(5), m), a, g(m, a, b)), VECTOR)
    mod["main"] = relay.Function([n, x, y], relay.Tuple([add(n, x, x), apply(add, n, x, y)]))
    check(mod, *[(np.int32(n), numbers(a), numbers(b)) for n, a, b in ((0, 3, 3), (2, 4, 1), (1, 1, 4))])


def test_a_shape_is_computed_once_for_all_values_that_have_it():
    x = unknown("x", None, None)
    y = relay.reshape(x, (-1,))
    body = relay.Tuple([relay.cumsum(relay.cumsum(y, 0), 0), y, relay.cumsum(y, 0)])
    exe = relay.vm.compile(tvm.IRModule.from_expr(relay.Function([x], body)), "llvm")
    assert sum("shape_func" in name for name in exe.primitive_ops) == 1


def test_a_tensor_in_the_shape_of_another_is_no_copy():
    x, y = unknown("x", None, 3), unknown("y", None, None, 5)
    mod = tvm.IRModule.from_expr(relay.Function([x, y], relay.reshape_like(x, y, 0, 1, 0, 2)))
    check(mod, *[(numbers(a * b, 3), numbers(a, b, 5)) for a, b in ((2, 3), (1, 1), (0, 2), (3, 0))])
    code = relay.vm.compile(mod, "llvm").bytecode
    assert "reshape_tensor" in code and "fused" not in code


def test_memory_of_runs_with_random_sizes_stays_flat(rng):
    x = unknown("x", None, None, dtype="float32")
    y = relay.cumsum(relay.cumsum(relay.concatenate([x, x], 0), 0), 1)
    exe = relay.vm.compile(tvm.IRModule.from_expr(relay.Function([x], relay.sum(y * y, 0))), "llvm")
    machine = tvm.runtime.vm.VirtualMachine(exe, tvm.cpu())
    # The largest run has two tensors of 128 x 64 at once.
    largest = 2 * 128 * 64 * 4
    for _ in range(1000):
        machine.run(np.zeros(rng.integers(0, 65, 2), "float32"))
        assert machine.module["get_memory"]() <= 1.3 * largest


def test_inputs_that_contradict_their_types_are_refused_by_name():
    n = tvm.te.size_var("n")
    x, y = relay.var("x", shape=(n, 3)), relay.var("y", shape=(relay.Any(), n))
    body = relay.Tuple([relay.sum(x, 0), relay.nn.relu(y)])
    mod = tvm.IRModule.from_expr(relay.Function([x, y], body))
    machine = tvm.runtime.vm.VirtualMachine(relay.vm.compile(mod, "llvm"), tvm.cpu())

    def zeros(*shape, dtype="float32"):
        return np.zeros(shape, dtype)

    assert machine.run(zeros(2, 3), zeros(5, 2))[1].shape == (5, 2)
    refused = {
        "input 'x' of function 'main': dimension 1 is 4, but the model expects 3": (zeros(2, 4), zeros(5, 2)),
        "input 'y' of function 'main': dimension 1 is 3, but the same dynamic dimension of input 'x' is 2":
            (zeros(2, 3), zeros(5, 3)),
        "input 'y' of function 'main' has 1 dimensions, but the model expects 2": (zeros(2, 3), zeros(2)),
        "input 'x' of function 'main' has elements of type float64, but the model expects float32":
            (zeros(2, 3, dtype="float64"), zeros(5, 2)),
        "input 'x' of function 'main' must be a tensor": ((zeros(2, 3),), zeros(5, 2)),
    }  # fmt: skip
    for message, values in refused.items():
        with pytest.raises(tvm.TVMError, match=message):
            machine.run(*values)
    assert machine.run(zeros(0, 3), zeros(1, 0))[0].shape == (3,)


def test_unknown_sizes_of_one_name_are_one_size():
    """Two sizes that may differ are compared for every element that is broadcast."""
    types = [relay.TensorType([Any_("batch"), 3]), relay.TensorType([Any_("batch"), 3])]
    x, y = relay.Var("x", types[0]), relay.Var("y", types[1])
    exe = relay.vm.compile(tvm.IRModule.from_expr(relay.Function([x, y], x + y)), "llvm")
    assert [p.type[1:] for p in exe.code.functions[0].params] == [(-2, 3), (-2, 3)]
    machine = tvm.runtime.vm.VirtualMachine(exe, tvm.cpu())
    assert machine.run(np.ones((4, 3), "float32"), np.ones((4, 3), "float32")).numpy().tolist() == [[2] * 3] * 4
    with pytest.raises(tvm.TVMError, match="input 'y' of function 'main': dimension 0 is 1"):
        machine.run(np.ones((4, 3), "float32"), np.ones((1, 3), "float32"))


def test_sizes_that_operators_cannot_take_are_refused():
    x, y, c = unknown("x", None, None), unknown("y", None, None), relay.var("c", shape=(), dtype="bool")
    straight = tvm.IRModule.from_expr(relay.Function([x, y], relay.concatenate([x, y], 0) * relay.const(2)))
    run = relay.create_executor("vm", straight).evaluate()
    with pytest.raises(tvm.TVMError, match="input 'y' of function 'main': dimension 1 is 5, but the same dynamic "
                                           "dimension of "
                                           "input 'x' is 4"):  # fmt: skip
        run(numbers(3, 4), numbers(2, 5))
    branches = relay.Function([c, x, y], relay.If(c, relay.concatenate([x, y], 0) * relay.const(2), x))
    run = relay.create_executor("vm", tvm.IRModule.from_expr(branches)).evaluate()
    with pytest.raises(tvm.TVMError, match="operator concatenate: .* does not hold for the sizes given"):
        run(np.bool_(True), numbers(3, 4), numbers(2, 5))
    assert run(np.bool_(False), numbers(3, 4), numbers(2, 5)).shape == (3, 4)


@pytest.mark.parametrize("operator", [relay.argmax, relay.argmin])
def test_places_in_an_axis_of_length_0_are_refused(operator):
    x = unknown("x", None, None)
    run = relay.create_executor("vm", tvm.IRModule.from_expr(relay.Function([x], operator(x, 1)))).evaluate()
    assert run(numbers(0, 2)).shape == run(numbers(0, 0)).shape == (0,)
    with pytest.raises(tvm.TVMError, match=f"operator {operator.__name__}: .* does not hold for the sizes given"):
        run(numbers(2, 0))


NOTHING = np.zeros((0, 3), "float32")
TAKING = {
    "take": (lambda x, i: relay.take(x, i, 0), NOTHING, lambda n: np.zeros(n, "int64")),
    "take wrap": (lambda x, i: relay.take(x, i, 0, mode="wrap"), NOTHING, lambda n: np.zeros(n, "int64")),
    "take flat": (relay.take, NOTHING, lambda n: np.zeros(n, "int64")),
    "take flat wrap": (lambda x, i: relay.take(x, i, mode="wrap"), NOTHING.T, lambda n: np.zeros(n, "int64")),
    "gather": (lambda x, i: relay.gather(x, 1, i), NOTHING.T, lambda n: np.zeros((3, n), "int64")),
    "gather_nd": (relay.gather_nd, NOTHING, lambda n: np.zeros((1, n), "int64")),
    "adv_index": (lambda x, i: relay.adv_index([x, i]), NOTHING, lambda n: np.zeros(n, "int64")),
    "vision.roi_align": (
        lambda x, r: relay.vision.roi_align(x, r, (2, 2), 1.0),
        np.zeros((1, 3, 0, 4), "float32"), lambda n: np.zeros((n, 5), "float32"),
    ),
    "vision.roi_pool": (
        lambda x, r: relay.vision.roi_pool(x, r, (2, 2), 1.0),
        np.zeros((0, 3, 4, 4), "float32"), lambda n: np.zeros((n, 5), "float32"),
    ),
    "image.crop_and_resize": (
        lambda x, b: relay.image.crop_and_resize(x, b, relay.cast(relay.sum(b, 1), "int32"), (2, 2), "NCHW"),
        np.zeros((0, 3, 4, 4), "float32"), lambda n: np.zeros((n, 4), "float32"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("all_open", [False, True])
@pytest.mark.parametrize("name", TAKING)
def test_no_elements_can_be_taken_from_an_empty_axis_and_others_are_refused(name, all_open):
    build, data, places = TAKING[name]
    x = unknown("x", *([None] * data.ndim if all_open else data.shape), dtype="float32")
    i = unknown("i", *[None if d == 7 else d for d in places(7).shape], dtype=str(places(0).dtype))
    run = relay.create_executor("vm", tvm.IRModule.from_expr(relay.Function([x, i], build(x, i)))).evaluate()
    assert 0 in run(data, places(0)).shape
    words = f"operator {name.partition(' ')[0]}: a dimension with at least one element: .* does not hold"
    with pytest.raises(tvm.TVMError, match=words):
        run(data, places(2))


def test_operators_that_divide_by_a_size_take_0_for_it():
    image, row = unknown("x", None, 0, 4, None, dtype="float32"), unknown("x", None, 0, dtype="float32")
    blocks = relay.Function([image], relay.nn.space_to_depth(image, 2))
    blocks = relay.create_executor("vm", tvm.IRModule.from_expr(blocks))
    assert blocks.evaluate()(np.zeros((3, 0, 4, 6), "float32")).shape == (3, 0, 2, 3)
    waves = relay.Function([row], relay.op.signal.dft(row, row)[0])
    waves = relay.create_executor("vm", tvm.IRModule.from_expr(waves))
    assert waves.evaluate()(NOTHING.T).shape == (3, 0)


def test_a_known_size_may_be_that_of_a_sum_over_other_axes_of_unknown_sizes():
    x = unknown("x", None, None, dtype="float32")
    run = relay.create_executor("vm", tvm.IRModule.from_expr(relay.Function([x], relay.collapse_sum_to(x, (2,)))))
    np.testing.assert_array_equal(run.evaluate()(numbers(3, 2, dtype="float32")).numpy(), numbers(3, 2).sum(0))
    with pytest.raises(tvm.TVMError, match="dimension 1 is 3, but the model expects 2"):
        run.evaluate()(numbers(2, 3, dtype="float32"))

"""The executors of relay.create_executor."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay

CONTROL = pytest.mark.parametrize("kind", ["debug", "vm"])


def test_executors_agree(rng):
    x, y = relay.var("x", shape=(3, 5)), relay.var("y", shape=(5,))
    f = relay.Function([x, y], relay.Tuple([relay.nn.softmax(x + y), relay.sum(x * y, axis=1)]))
    a, b = rng.random((3, 5), dtype="float32"), rng.random(5, dtype="float32")
    mod = tvm.IRModule.from_expr(f)
    debug = relay.create_executor("debug", mod).evaluate()(a, b)
    graph = relay.create_executor("graph", mod).evaluate()(x=a, y=b)
    e = np.exp(a + b - (a + b).max(1, keepdims=True))
    machine = relay.create_executor("vm", mod).evaluate()(x=a, y=b)
    for got in (debug, graph, machine):
        np.testing.assert_allclose(got[0].numpy(), e / e.sum(1, keepdims=True), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(got[1].numpy(), (a * b).sum(1), rtol=1e-5, atol=1e-5)


@CONTROL
def test_expressions_and_bound_variables_are_evaluated_at_once(kind):
    x = relay.var("x", shape=(2,))
    executor = relay.create_executor(kind)
    got = executor.evaluate(x + x, {x: relay.const(np.array([1, 2], "float32"))})
    np.testing.assert_array_equal(got.numpy(), [2, 4])


@CONTROL
def test_a_function_that_calls_itself_ten_thousand_times(kind):
    text = """
    def @count(%n: int32, %total: int32) -> int32 {
      if (equal(%n, 0)) { %total } else { @count(subtract(%n, 1), add(%total, %n)) }
    }
    def @main(%n: int32) { @count(%n, 0) }
    """
    got = relay.create_executor(kind, relay.parse(text)).evaluate()(10000)
    assert got.numpy() == 50005000


@CONTROL
def test_only_the_chosen_branch_is_computed_and_closures_see_their_variables(kind):
    text = """
    def @main(%c: bool, %x: float32) {
      let %f = fn (%y: float32) -> float32 { add(%x, %y) };
      if (%c) { %f(1f) } else { %f(%f(2f)) }
    }
    """
    run = relay.create_executor(kind, relay.parse(text)).evaluate()
    assert run(True, np.float32(10)).numpy() == 11
    assert run(False, np.float32(10)).numpy() == 22


@CONTROL
def test_references_are_written_in_order(kind):
    text = """
    def @main() {
      let %r = ref(1f);
      let %a = ref_write(%r, 5f);
      ref_read(%r)
    }
    """
    assert relay.create_executor(kind, relay.parse(text)).evaluate()().numpy() == 5


@pytest.mark.parametrize("kind", ["graph", "aot"])
def test_compiled_graphs(kind):
    x, y = relay.var("x", shape=(3,)), relay.var("y", shape=(3,))
    body = relay.Tuple([x + y, relay.Tuple([x * relay.const(2.0)])])
    mod = tvm.IRModule.from_expr(relay.Function([x, y], body))
    a, b = np.arange(3, dtype="float32"), np.ones(3, "float32")
    for target in ("llvm", "c"):
        total, (double,) = relay.create_executor(kind, mod, target=target).evaluate()(a, y=b)
        assert total.numpy().tolist() == [1, 2, 3] and double.numpy().tolist() == [0, 2, 4]


def test_what_cannot_run_is_refused_in_words():
    x = relay.var("x", shape=(2,))
    run = relay.create_executor().evaluate(relay.Function([x], x))
    with pytest.raises(ValueError, match="there is no parameter 'y'; the parameters are x"):
        run(y=1)
    with pytest.raises(ValueError, match="'x' is missing: 1 arguments are expected"):
        run()
    with pytest.raises(ValueError, match=r"expected 1 arguments \(x\), got 2"):
        run(1, 2)
    with pytest.raises(ValueError, match="'x' is passed by position and by name"):
        run(np.zeros(2, "float32"), x=np.zeros(2, "float32"))
    with pytest.raises(ValueError, match="%x of the function is not bound"):
        relay.create_executor().evaluate(relay.Function([], x))


@pytest.mark.parametrize("kind", ["debug", "graph", "vm"])
def test_parameters_of_one_name_are_two_parameters(kind):
    a, b = relay.var("x", shape=(3,)), relay.var("x", shape=(3,))
    run = relay.create_executor(kind).evaluate(relay.Function([a, b], a - b))
    first, second = np.array([5, 6, 7], "float32"), np.array([1, 1, 1], "float32")
    np.testing.assert_array_equal(run(first, second).numpy(), [4, 5, 6])
    np.testing.assert_array_equal(run(first, x=second).numpy(), [4, 5, 6])
    with pytest.raises(ValueError, match="2 parameters named 'x'"):
        run(x=first)


@pytest.mark.parametrize("kind", ["debug", "graph", "vm"])
def test_arguments_by_position_come_first_then_those_by_name(kind):
    x, w, b = (relay.var(n, shape=(2,)) for n in "xwb")
    mod = tvm.IRModule.from_expr(relay.Function([x, w, b], x * w - b))
    params = {"b": np.array([1, 2], "float32"), "w": np.array([10, 100], "float32")}
    data = np.array([3, 4], "float32")
    np.testing.assert_array_equal(relay.create_executor(kind, mod).evaluate()(data, **params).numpy(), [29, 398])
    bound = relay.create_executor(kind, mod, params=params).evaluate()
    np.testing.assert_array_equal(bound(data).numpy(), [29, 398])
    np.testing.assert_array_equal(bound(data, **params).numpy(), [29, 398])
    with pytest.raises(ValueError, match="'w' is already bound by the params of the executor"):
        bound(data, w=data)


@pytest.mark.parametrize("kind", ["debug", "graph", "vm"])
@pytest.mark.parametrize("given", ["float64", "int32", "float16"])
def test_arguments_are_converted_to_the_type_of_their_parameter(kind, given):
    x = relay.var("x", shape=(3,), dtype="float32")
    run = relay.create_executor(kind).evaluate(relay.Function([x], x + relay.const(0.5)))
    for value in (np.array([1, 2, 3], given), tvm.nd.array(np.array([1, 2, 3], given))):
        got = run(value)
        assert got.dtype == "float32"
        np.testing.assert_array_equal(got.numpy(), [1.5, 2.5, 3.5])


@pytest.mark.parametrize("kind", ["debug", "graph", "vm"])
def test_tuples_of_results_are_nested_as_their_type_is(kind):
    x = relay.var("x", shape=(2,))
    pair = relay.Tuple([x + relay.const(1.0), x + relay.const(2.0)])
    nested = relay.Tuple([pair, relay.Tuple([relay.Tuple([x * x]), x - x])])
    got = relay.create_executor(kind).evaluate(relay.Function([x], nested))(np.array([3, 4], "float32"))
    assert isinstance(got, list if kind == "graph" else tvm.runtime.container.ADT)
    (one, two), ((square,), nothing) = got
    for got, want in ((one, [4, 5]), (two, [5, 6]), (square, [9, 16]), (nothing, [0, 0])):
        np.testing.assert_array_equal(got.numpy(), want)


def test_a_loop_may_grow_a_tensor_whose_size_is_open():
    i, grown = relay.var("i", shape=(), dtype="int32"), relay.var("grown", shape=(relay.Any(), 2), dtype="int32")

    def body(i, grown):
        row = relay.broadcast_to(relay.reshape(i, (1, 1)), (1, 2))
        return i + relay.const(1), relay.concatenate([grown, row], axis=0)

    loop = relay.loops.while_loop(lambda i, grown: relay.min(relay.less(i, relay.const(5))), [i, grown], body)
    start = relay.var("start", shape=(), dtype="int32")
    result = relay.TupleGetItem(loop(start, relay.zeros((1, 2), "int32")), 1)
    got = relay.create_executor("debug").evaluate(relay.Function([start], result))(np.int32(2)).numpy()
    np.testing.assert_array_equal(got, np.array([[0, 0], [2, 2], [3, 3], [4, 4]], "int32"))


@pytest.mark.parametrize("kind", ["debug", "graph", "vm"])
def test_numbers_have_the_type_of_their_parameter(kind):
    for dtype, value in (("float64", 1 / 3), ("int64", 2**40 + 1)):
        x = relay.var("x", shape=(), dtype=dtype)
        run = relay.create_executor(kind, tvm.IRModule.from_expr(relay.Function([x], x + x))).evaluate()
        for given in (value, np.dtype(dtype).type(value), np.asarray(value, dtype)):
            assert run(given).numpy() == 2 * value

"""Branches, loops and the state that a model keeps from run to run."""

from __future__ import annotations

import numpy as np
import pytest
from tflite_cases import CASES
from tflite_writer import GraphSpec, NodeSpec, Spec, constant, one_node, write_graphs

from tvm import relay
from tvm.driver.tvmc.main import _main
from tvm.error import TVMError
from tvm.relay.frontend import from_tflite

X = Spec((2, 3))
FLAG = Spec((), "bool")
HANDLE = Spec((), "resource")


def test_the_state_of_a_model_is_an_input_and_its_last_result():
    mod, state = from_tflite(CASES["lstm"].model)
    main = mod["main"]
    assert [p.name_hint for p in main.params[1:]] == list(state)
    assert len(main.body.fields) == 1 + len(state) == 3
    for name, field in zip(state, main.body.fields[1:]):
        assert field.checked_type.concrete_shape == state[name].shape
        assert not state[name].numpy().any()


def test_a_variable_begins_with_the_value_of_the_first_run():
    mod, state = from_tflite(CASES["read_variable"].model)
    np.testing.assert_array_equal(state["total"].numpy(), np.arange(6, dtype="float32").reshape(2, 3))
    run = relay.create_executor("debug", mod=mod, target="llvm").evaluate()
    x = CASES["read_variable"].feeds["t0"]
    for i in range(1, 4):
        total, kept = run(x, **state)
        np.testing.assert_allclose(total.numpy(), np.arange(6).reshape(2, 3) + i * x, rtol=1e-6)
        state = {"total": kept}


def test_on_the_command_line_a_run_begins_with_the_first_state(tmp_path):
    case = CASES["read_variable"]
    (tmp_path / "model.tflite").write_bytes(case.model)
    np.savez(tmp_path / "in.npz", **case.feeds)
    package = str(tmp_path / "model.tar")
    assert not _main(["compile", "--target", "llvm", "--output", package, str(tmp_path / "model.tflite")])
    for _ in range(2):
        assert not _main(["run", "-i", str(tmp_path / "in.npz"), "-o", str(tmp_path / "out.npz"), package])
        with np.load(tmp_path / "out.npz") as got:
            np.testing.assert_allclose(got["output_0"], case.feeds["t0"] + np.arange(6).reshape(2, 3), rtol=1e-6)
            np.testing.assert_array_equal(got["output_1"], got["output_0"])


def test_a_loop_of_known_steps_is_written_out():
    assert [v.name_hint for v in from_tflite(CASES["while_known"].model)[0].functions] == ["main"]
    assert len(from_tflite(CASES["while"].model)[0].functions) == 2


def test_a_loop_of_many_known_steps_is_a_function():
    """A million steps are not written out."""
    count = Spec((), "int32")
    loop = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    below = GraphSpec([count, constant(1_000_000, "int32"), FLAG], [NodeSpec("LESS", [0, 1], [2])], [0], [2])
    body = GraphSpec([count, constant(1, "int32"), count], [NodeSpec("ADD", [0, 1], [2], {})], [0], [2])
    main = GraphSpec([X, constant(0, "int32"), count], [NodeSpec("WHILE", [1], [2], loop)], [0], [2])
    assert len(from_tflite(write_graphs([main, below, body]))[0].functions) == 2


def test_sizes_that_a_loop_changes_are_left_open():
    """Every step doubles the rows; how many steps there are is an input."""
    count, rows = Spec((), "int32"), Spec((1, 3))
    loop = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    below = GraphSpec([count, rows, constant(0, "int32"), FLAG], [NodeSpec("GREATER", [0, 2], [3])], [0, 1], [3])
    body = GraphSpec([count, rows, constant(1, "int32"), count, Spec((2, 3))],
                     [NodeSpec("SUB", [0, 2], [3], {}), NodeSpec("CONCATENATION", [1, 1], [4], {"axis": 0})],
                     [0, 1], [3, 4])  # fmt: skip
    main = GraphSpec([count, rows, count, rows], [NodeSpec("WHILE", [0, 1], [2, 3], loop)], [0, 1], [3])
    mod, state = from_tflite(write_graphs([main, below, body]))
    assert not state
    run = relay.create_executor("vm", mod=mod, target="llvm").evaluate()
    x = np.array([[1.0, 2.0, 3.0]], "float32")
    for steps in (0, 1, 3):
        got = run(np.array(steps, "int32"), x).numpy()
        np.testing.assert_array_equal(got, np.tile(x, (2**steps, 1)))


BRANCH = {"then_subgraph_index": 1, "else_subgraph_index": 2}
NEGATE = GraphSpec([X, X], [NodeSpec("NEG", [0], [1])], [0], [1])


@pytest.mark.parametrize(("graphs", "words"), [
    ([GraphSpec([FLAG, X, X], [NodeSpec("IF", [0, 1], [2], BRANCH)], [0, 1], [2])], "cannot call graph 1"),
    ([GraphSpec([FLAG, X, X], [NodeSpec("IF", [0, 1], [2], BRANCH)], [0, 1], [2]), NEGATE,
      GraphSpec([X, X, X], [NodeSpec("ADD", [0, 1], [2], {})], [0, 1], [2])], "has 2 inputs, but is called with 1"),
    ([GraphSpec([FLAG, X, X], [NodeSpec("IF", [0, 1], [2], BRANCH)], [0, 1], [2]), NEGATE,
      GraphSpec([X, FLAG, X], [NodeSpec("IF", [1, 0], [2], {**BRANCH, "then_subgraph_index": 2})], [0], [2])],
     "uses 'g2_t1'"),
    ([GraphSpec([HANDLE, X], [NodeSpec("VAR_HANDLE", [], [0], {"shared_name": "v"}),
                              NodeSpec("READ_VARIABLE", [0], [1])], [], [1])], "'v' is read before it is initialized"),
    ([GraphSpec([X, X], [NodeSpec("READ_VARIABLE", [0], [1])], [0], [1])], "input 0 is not a variable"),
])  # fmt: skip
def test_what_cannot_be_called_or_read_is_refused(graphs, words):
    with pytest.raises(TVMError, match=words):
        from_tflite(write_graphs(graphs))


def test_a_graph_that_calls_itself_is_refused():
    again = GraphSpec([FLAG, X, X], [NodeSpec("IF", [0, 1], [2], BRANCH)], [0, 1], [2])
    main = GraphSpec([FLAG, X, X], [NodeSpec("IF", [0, 0, 1], [2], BRANCH)], [0, 1], [2])
    with pytest.raises(TVMError, match="cannot call graph"):
        from_tflite(write_graphs([main, again, again]))


@pytest.mark.slow("writes out nested branches up to the limit")
def test_branches_that_are_written_out_without_end_are_refused():
    """Each graph calls the next one twice."""
    depth = 20
    graphs = [GraphSpec([FLAG, X, X], [NodeSpec("IF", [0, 0, 1], [2], {"then_subgraph_index": k + 1,
                                                                        "else_subgraph_index": k + 1})], [0, 1], [2])
              for k in range(depth)]  # fmt: skip
    graphs.append(GraphSpec([FLAG, X, X], [NodeSpec("NEG", [1], [2])], [0, 1], [2]))
    with pytest.raises(TVMError, match="branches and loops have more than"):
        from_tflite(write_graphs(graphs))


def test_a_variable_that_changes_its_shape_is_refused():
    named = {"shared_name": "v"}
    once = GraphSpec(
        [HANDLE, constant(np.zeros((1, 3)), "float32")],
        [NodeSpec("VAR_HANDLE", [], [0], named), NodeSpec("ASSIGN_VARIABLE", [0, 1], [])],
        [],
        [],
    )
    main = GraphSpec([X, HANDLE], [NodeSpec("CALL_ONCE", [], [], {"init_subgraph_index": 1}),
                                   NodeSpec("VAR_HANDLE", [], [1], named), NodeSpec("ASSIGN_VARIABLE", [1, 0], [])],
                     [0], [0])  # fmt: skip
    with pytest.raises(TVMError, match="the state 'v' has type .* the types must be equal"):
        from_tflite(write_graphs([main, once]))


def test_layers_of_integers_that_no_kernel_computes_are_refused():
    def lstm(cell_scale: float, norm, between):
        gates = [constant(np.ones((2, 2), "int8"), scale=0.01)] * 8
        bias = [constant(np.ones(2, "int32"), scale=1e-4)] * 4
        states = [Spec((1, 2), "int8", None, 0.01, 0, 0, True), Spec((1, 2), "int16", None, cell_scale, 0, 0, True)]
        data, out = Spec((1, 3, 2), "int8", None, 0.05, 0), Spec((1, 3, 2), "int8", None, 0.01, 0)
        inputs = [data, *gates, *[None] * 3, *bias, None, None, *states, *[norm] * 4]
        return one_node("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [out], {"fused_activation": 4}, None, between)

    hidden = [*[Spec((0,))] * 4, Spec((0,), "int8", None, 0.01, 0)]
    from_tflite(lstm(2.0**-11, None, hidden))
    norm = constant(np.ones(2, "int16"), scale=0.001)
    for words, given in (("power of two", (0.001, None, hidden)), ("layer normalization", (2.0**-11, norm, hidden)),
                         ("scale of the intermediate tensor 4", (2.0**-11, None, []))):  # fmt: skip
        with pytest.raises(TVMError, match=words):
            from_tflite(lstm(*given))

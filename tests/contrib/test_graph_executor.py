"""The Python face of the graph executor."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.runtime.container import Map

SHAPE = (4, 16)


@pytest.fixture(scope="module")
def lib():
    """x * w + b, with b (and w) parameters of the graph, and its negative as second output."""
    x, w, b = (relay.var(n, shape=SHAPE) for n in ("x", "w", "b"))
    value = relay.add(relay.multiply(x, w), b)
    mod = tvm.IRModule.from_expr(relay.Function([x, w, b], relay.Tuple([value, relay.negative(value)])))
    return relay.build(mod, "llvm")


@pytest.fixture
def arrays(rng) -> dict[str, np.ndarray]:
    return {name: rng.standard_normal(SHAPE).astype("float32") for name in ("x", "w", "b")}


def expected(arrays) -> np.ndarray:
    return arrays["x"] * arrays["w"] + arrays["b"]


def test_inputs_by_name_number_and_keyword(lib, arrays):
    executor = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    assert executor.get_num_inputs() == 3 and executor.get_num_outputs() == 2
    executor.set_input("x", arrays["x"])
    executor.set_input(executor.get_input_index("w"), tvm.nd.array(arrays["w"]))
    executor.run(b=arrays["b"])
    np.testing.assert_allclose(executor.get_output(0).numpy(), expected(arrays), rtol=1e-5, atol=1e-5)
    out = tvm.nd.empty(SHAPE)
    np.testing.assert_allclose(executor.get_output(1, out).numpy(), -expected(arrays), rtol=1e-5, atol=1e-5)
    shapes, dtypes = executor.get_input_info()
    assert all(isinstance(t, tvm.runtime.container.String) for t in dtypes.values())
    assert isinstance(shapes, Map) and isinstance(dtypes, Map)
    assert shapes["x"] == SHAPE and dtypes["x"] == "float32"
    np.testing.assert_array_equal(executor.get_input("w").numpy(), arrays["w"])


def test_the_executor_comes_with_its_package():
    found = subprocess.run(
        [sys.executable, "-c", "import tvm.contrib; print(tvm.contrib.graph_executor.GraphModule.__name__)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.strip() == "GraphModule"


def test_arrays_are_read_and_written_in_place(lib, arrays):
    executor = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    executor.set_input(w=arrays["w"], b=arrays["b"])
    x, out = tvm.nd.array(arrays["x"]), tvm.nd.empty(SHAPE)
    executor.set_input_zero_copy("x", x)
    executor.set_output_zero_copy(0, out)
    executor.run()
    np.testing.assert_allclose(out.numpy(), expected(arrays), rtol=1e-5, atol=1e-5)
    x.copyfrom(arrays["x"] * 2)
    executor.run()
    np.testing.assert_allclose(out.numpy(), expected({**arrays, "x": arrays["x"] * 2}), rtol=1e-5, atol=1e-5)


def test_parameters_are_loaded_and_shared(lib, arrays):
    blob = tvm.runtime.save_param_dict({k: tvm.nd.array(arrays[k]) for k in ("w", "b")})
    first, second = (graph_executor.GraphModule(lib["default"](tvm.cpu())) for _ in range(2))
    first.load_params(blob)
    second.share_params(first, blob)
    second.run(x=arrays["x"])
    np.testing.assert_allclose(second.get_output(0).numpy(), expected(arrays), rtol=1e-5, atol=1e-5)
    # One memory: what the first changes, the second reads.
    first.set_input("b", arrays["b"] + 1)
    second.run()
    np.testing.assert_allclose(second.get_output(0).numpy(), expected(arrays) + 1, rtol=1e-5, atol=1e-5)


def test_benchmark_gives_times(lib, arrays):
    executor = graph_executor.create(lib.get_graph_json(), lib.get_lib(), tvm.cpu())
    plain = executor.benchmark(tvm.cpu(), repeat=3, number=2, **arrays)
    whole = executor.benchmark(tvm.cpu(), repeat=2, number=2, end_to_end=True, **arrays)
    assert len(plain.results) == 3 and len(whole.results) == 2
    assert plain.min > 0 and whole.mean > 0


def test_a_picture_stands_for_a_batch_of_one():
    x = relay.var("x", shape=(1, 1, 3, 2))
    built = relay.build(tvm.IRModule.from_expr(relay.Function([x], relay.negative(x))), "llvm")
    executor = graph_executor.GraphModule(built["default"](tvm.cpu()))
    values = np.arange(6, dtype="float32").reshape(3, 2)
    for given in (values, values[None], tvm.nd.array(values[None])):
        executor.set_input("x", given)
        executor.run()
        np.testing.assert_array_equal(executor.get_output(0).numpy()[0, 0], -values)
    for wrong in (values.reshape(6), values.T, values[None, None, None]):
        with pytest.raises(ValueError, match="input 'x' has shape"):
            executor.set_input("x", wrong)


def test_wrong_inputs_are_refused_with_words(lib, arrays):
    executor = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    with pytest.raises(RuntimeError, match="unknown input 'y'; the inputs are x, w, b"):
        executor.set_input("y", arrays["x"])
    with pytest.raises(ValueError, match=r"input 'x' has shape \(4, 16\), got \(2, 16\)"):
        executor.set_input("x", arrays["x"][:2])
    with pytest.raises(tvm.error.TVMError, match="output index out of range; the graph has 2 outputs"):
        executor.get_output(2)
    with pytest.raises(ValueError, match="the graph must be JSON text"):
        graph_executor.create(b"{}", lib.get_lib(), tvm.cpu())
    with pytest.raises(tvm.error.TVMError, match="graph: "):
        graph_executor.create("{}", lib.get_lib(), tvm.cpu())


def test_parameters_come_from_a_file_or_not_at_all(lib, arrays, tmp_path):
    path = tmp_path / "mod.params"
    tvm.runtime.save_param_dict_to_file({k: arrays[k] for k in ("w", "b")} | {"unknown": arrays["x"]}, path)
    executor = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    executor.load_params_from_file(path)
    executor.run(x=arrays["x"])
    np.testing.assert_allclose(executor.get_output(0).numpy(), expected(arrays), rtol=1e-5, atol=1e-5)
    assert tvm.runtime.params.param_names(path) == ["w", "b", "unknown"]
    with pytest.raises(tvm.error.TVMError, match="cannot open .*none.params.*No such file"):
        executor.load_params_from_file(tmp_path / "none.params")
    with pytest.raises(tvm.error.TVMError, match="params: "):
        executor.load_params_from_file(tmp_path)
    # A damaged file is refused before any of its arrays is used.
    zeros = {k: np.zeros(SHAPE, "float32") for k in ("w", "b")}
    data = tvm.runtime.save_param_dict(zeros)
    for cut in range(0, len(data), 7):
        path.write_bytes(data[:cut])
        with pytest.raises(tvm.error.TVMError, match="corrupt, truncated"):
            executor.load_params_from_file(path)
        with pytest.raises(tvm.error.TVMError, match="corrupt, truncated"):
            executor.load_params(bytes(data[:cut]))
    executor.run()
    np.testing.assert_allclose(executor.get_output(0).numpy(), expected(arrays), rtol=1e-5, atol=1e-5)
    tvm.runtime.save_param_dict_to_file({"w": np.zeros((2, 2), "float32")}, path)
    with pytest.raises(tvm.error.TVMError, match="'w' has shape"):
        executor.load_params_from_file(path)


@pytest.mark.parametrize("declared, given", [((), (1,)), ((), (1, 1)), ((1,), ()), ((), ())])
def test_a_number_may_be_given_as_an_array_of_one(declared, given):
    x, s = relay.var("x", shape=(3,)), relay.var("s", shape=declared)
    lib = relay.build(tvm.IRModule.from_expr(relay.Function([x, s], x * s)), "llvm")
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    module.set_input("x", np.arange(3, dtype="float32"))
    for value in (np.full(given, 2.5, "float32"), tvm.nd.array(np.full(given, 2.5, "float32"))):
        module.set_input("s", value)
        module.run()
        np.testing.assert_array_equal(module.get_output(0).numpy(), [0, 2.5, 5])
    with pytest.raises(ValueError, match="input 's' has shape"):
        module.set_input("s", np.zeros(2, "float32"))

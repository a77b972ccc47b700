"""Quantized ONNX graphs run with integers from their first layer to their last: no float tensor is stored in between
but those of operators that have no integers, and results are onnxruntime's."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.ir.transform import PassContext, Sequential
from tvm.relay.build_module import bind_params_by_name
from tvm.relay.expr import Call, Function
from tvm.relay.frontend.onnx.quantize import _float32_factors
from tvm.relay.pipeline import fusion, optimize
from tvm.relay.transform.fuse_ops import own_nodes
from tvm.target import Target

# A target with dot products of bytes, for which graphs are made and not run.
TARGET = "llvm -mtriple=aarch64-linux-gnu -mattr=+neon,+dotprod"
PRODUCTS = ("conv2d", "dense", "batch_matmul")
MODELS = Path(os.environ.get("TVM_TEST_MODELS") or Path(__file__).resolve().parents[4] / "shared" / "models")


def kernels(mod, params) -> list[tuple[Call, tuple[str, ...]]]:
    """The kernels of a model for ``TARGET``, in order, and the operators of each."""
    target = Target(TARGET)
    mod["main"] = bind_params_by_name(mod["main"], params)
    with PassContext(3), target:
        body = Sequential([*optimize(target), *fusion(target)])(mod)["main"].body
    found = []
    for e in own_nodes(body):
        if isinstance(e, Call) and isinstance(e.op, Function):
            found.append((e, tuple(o.op.name for o in own_nodes(e.op.body) if isinstance(o, Call))))
    return found


def is_product(names) -> bool:
    return any(p in n for n in names for p in PRODUCTS)


def float_products(made) -> list[tuple[str, ...]]:
    """Kernels with a product whose data is float."""
    out = []
    for call, names in made:
        for e in own_nodes(call.op.body):
            if isinstance(e, Call) and is_product([e.op.name]) and e.args[0].checked_type_.dtype.startswith("float"):
                out.append(names)
    return out


def float_islands(made) -> list[str]:
    """The last operators of kernels that store floats after one product and before another."""
    after: set[int] = set()
    for call, names in made:
        if is_product(names) or any(id(a) in after for a in call.args):
            after.add(id(call))
    before: set[int] = set()
    for call, names in reversed(made):
        if is_product(names) or id(call) in before:
            before.update(id(a) for a in call.args)
    stored = [(c, n) for c, n in made if id(c) in after and id(c) in before]
    return [n[-1] for c, n in stored if c.checked_type_.dtype.startswith("float")]


def quantized_model(folder, nodes, weights, shape, samples, **options):
    """A float graph quantized by onnxruntime."""
    quantization = pytest.importorskip("onnxruntime.quantization")
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()],
    )  # fmt: skip
    plain, made = str(folder / "float.onnx"), str(folder / "int8.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), plain)

    class Reader(quantization.CalibrationDataReader):
        def __init__(self):
            self.left = iter(samples)

        def get_next(self):
            sample = next(self.left, None)
            return None if sample is None else {"x": sample}

    quantization.quantize_static(plain, made, Reader(), per_channel=True, **options)
    return made


class Builder:
    """Nodes and weights of a graph."""

    def __init__(self, rng):
        self.rng, self.nodes, self.weights = rng, [], {}

    def weight(self, *shape):
        name = f"w{len(self.weights)}"
        self.weights[name] = (self.rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]) or 1)).astype("float32")
        return name

    def constant(self, value):
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(value)
        return name

    def __call__(self, op, *inputs, **attrs):
        self.nodes.append(helper.make_node(op, inputs, [f"t{len(self.nodes)}"], f"{op}{len(self.nodes)}", **attrs))
        return self.nodes[-1].output[0]


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """Convolutions with a shortcut of another scale, pooling, and a dense layer."""
    rng = np.random.default_rng(3)
    b = Builder(rng)
    x = b("Relu", b("Conv", "x", b.weight(16, 3, 3, 3), b.weight(16), pads=[1, 1, 1, 1]))
    x = b("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    y = b("Relu", b("Conv", x, b.weight(16, 16, 3, 3), b.weight(16), pads=[1, 1, 1, 1]))
    y = b("Conv", y, b.weight(32, 16, 1, 1), b.weight(32))
    x = b("Relu", b("Add", y, b("Conv", x, b.weight(32, 16, 1, 1), b.weight(32))))
    b("Gemm", b("Flatten", b("GlobalAveragePool", x)), b.weight(32, 10), b.weight(10))
    samples = [rng.normal(size=(1, 3, 16, 16)).astype("float32") for _ in range(4)]
    folder = tmp_path_factory.mktemp("network")
    return quantized_model(folder, b.nodes, b.weights, [1, 3, 16, 16], samples), samples[0]


@pytest.fixture(scope="module")
def transformer(tmp_path_factory):
    """A layer of attention and one of feed-forward."""
    rng = np.random.default_rng(4)
    b, x, width, heads, length = Builder(rng), "x", 32, 2, 16
    parted, whole = (b.constant(np.array(s)) for s in ([1, length, heads, width // heads], [1, length, width]))
    ones, zeros = b.constant(np.ones(width, "float32")), b.constant(np.zeros(width, "float32"))

    def linear(x, units):
        last = b.weights[x].shape[-1] if x in b.weights else width if units != width else None
        return b("Add", b("MatMul", x, b.weight(last or width, units)), b.weight(units))

    q, k, v = (b("Transpose", b("Reshape", linear(x, width), parted), perm=p)
               for p in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))  # fmt: skip
    mixed = b("MatMul", b("Softmax", b("MatMul", q, k), axis=-1), v)
    mixed = linear(b("Reshape", b("Transpose", mixed, perm=[0, 2, 1, 3]), whole), width)
    x = b("LayerNormalization", b("Add", x, mixed), ones, zeros, axis=-1)
    inner = b("Relu", linear(x, 2 * width))
    inner = b("Add", b("MatMul", inner, b.weight(2 * width, width)), b.weight(width))
    x = b("LayerNormalization", b("Add", x, inner), ones, zeros, axis=-1)
    samples = [rng.normal(size=(1, length, width)).astype("float32") for _ in range(4)]
    folder = tmp_path_factory.mktemp("transformer")
    return quantized_model(folder, b.nodes, b.weights, [1, length, width], samples), samples[0]


def beside_onnxruntime(path, x) -> np.ndarray:
    """Our results less onnxruntime's, in steps of the last integers."""
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (want,) = onnxruntime.InferenceSession(path, options).run(None, {"x": x})
    mod, params = relay.frontend.from_onnx(onnx.load(path), {"x": x.shape})
    with PassContext(3):
        built = relay.build(mod, "llvm", params=params)
    executor = graph_executor.GraphModule(built["default"](tvm.cpu()))
    executor.run(x=x)
    step = np.diff(np.unique(want)).min()
    return np.abs(executor.get_output(0).numpy() - want) / step


def test_a_network_with_shortcuts_and_pools_stores_bytes_alone(network):
    path, x = network
    made = kernels(*relay.frontend.from_onnx(onnx.load(path), {"x": x.shape}))
    assert not float_products(made)
    # The sums of an average are whole numbers.
    assert float_islands(made) == ["sum"]
    assert beside_onnxruntime(path, x).max() < 2.5


@pytest.mark.slow("imports, compiles and runs a whole network")
def test_a_transformer_stores_floats_for_softmax_and_normalization_alone(transformer):
    path, x = transformer
    made = kernels(*relay.frontend.from_onnx(onnx.load(path), {"x": x.shape}))
    assert not float_products(made)
    calls = {id(call) for call, names in made if {"nn.softmax", "nn.layer_norm"} & set(names)}
    feeding = {id(a) for call, _ in made if id(call) in calls for a in call.args}
    feeding |= {id(a) for call, names in made if id(call) in feeding and names == ("reshape",) for a in call.args}
    islands = [c for c, _ in made if c.checked_type_.dtype.startswith("float") and id(c) not in calls | feeding]
    # The last is the result of the model.
    assert islands in ([], [made[-1][0]])
    assert beside_onnxruntime(path, x).max() < 2.5


def test_the_mobilenet_of_onnxruntime_stores_bytes_alone():
    path = MODELS / "onnx" / "mobilenet_v2_int8_qdq.onnx"
    if not path.exists():
        pytest.skip("the models are not beside the tree")
    made = kernels(*relay.frontend.from_onnx(onnx.load(str(path)), {"image": (1, 3, 244, 244)}))
    assert not float_products(made) and float_islands(made) == ["sum"]


@pytest.mark.parametrize("name, attrs, sizes", [
    ("Reshape", {}, [2, -1]), ("Transpose", {"perm": [0, 2, 3, 1]}, None), ("Flatten", {}, None),
    ("MaxPool", {"kernel_shape": [2, 2], "pads": [1, 0, 1, 0]}, None), ("Unsqueeze", {}, [0]),
])  # fmt: skip
def test_what_moves_a_dequantized_value_moves_its_bytes(name, attrs, sizes):
    """Quantized again as it was, it is the same bytes: nothing is computed."""
    b = Builder(np.random.default_rng(1))
    scale, zero = b.constant(np.float32(0.25)), b.constant(np.uint8(3))
    x = b("DequantizeLinear", b("QuantizeLinear", "x", scale, zero), scale, zero)
    moved = b(name, x, *([b.constant(np.array(sizes, "int64"))] if sizes else []), **attrs)
    b("QuantizeLinear", moved, scale, zero)
    graph = helper.make_graph(
        b.nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 4, 4])],
        [helper.make_tensor_value_info(b.nodes[-1].output[0], TensorProto.UINT8, None)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in b.weights.items()],
    )  # fmt: skip
    mod, _ = relay.frontend.from_onnx(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), {"x": (2, 3, 4, 4)}
    )
    names = [e.op.name for e in own_nodes(mod["main"].body) if isinstance(e, Call)]
    assert names.count("round") == 1 and "multiply" not in names


def sum_of_two(types: list[str], scales: np.ndarray, zeros: list[int]) -> onnx.ModelProto:
    """DequantizeLinear of two tensors, their sum, and QuantizeLinear."""
    onnx_types = [getattr(TensorProto, t.upper()) for t in types]
    init = [numpy_helper.from_array(np.array(s, "float32"), f"s{i}") for i, s in enumerate(scales)]
    init += [numpy_helper.from_array(np.array(z, t), f"z{i}") for i, (z, t) in enumerate(zip(zeros, types))]
    nodes = [helper.make_node("DequantizeLinear", [f"x{i}", f"s{i}", f"z{i}"], [f"r{i}"]) for i in range(2)]
    nodes += [helper.make_node("Add", ["r0", "r1"], ["t"]),
              helper.make_node("QuantizeLinear", ["t", "s2", "z2"], ["y"])]  # fmt: skip
    ins = [helper.make_tensor_value_info(f"x{i}", onnx_types[i], [256, 256]) for i in range(2)]
    out = helper.make_tensor_value_info("y", onnx_types[2], [256, 256])
    graph = helper.make_graph(nodes, "sum", ins, [out], init)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize("name, moved", [("QLinearMatMul", (1, 0)), ("QLinearConv", (0, 1)), ("QGemm", (1, 0))])
def test_a_sum_is_brought_to_the_steps_of_its_result_by_one_factor(name, moved):
    """As onnxruntime does. Many products of these scales lie halfway, and two factors round 482 of them elsewhere."""
    given = np.float32(0.25), np.float32(0.01), np.float32(0.2)
    x, w = np.arange(256, dtype="uint8").reshape(256, 1), np.arange(1, 128, dtype="int8").reshape(127, 1)
    window = (1, 1) if name == "QLinearConv" else ()
    constants = {"xs": given[0], "xz": np.uint8(0), "w": w.transpose(moved).reshape(*w.transpose(moved).shape, *window),
                 "ws": given[1], "wz": np.int8(0), "ys": given[2], "yz": np.uint8(0)}  # fmt: skip
    # QGemm may have a bias before the steps of its result.
    bias, domain = ([""], "com.microsoft") if name == "QGemm" else ([], "")
    places = list(constants)
    node = helper.make_node(name, ["x", *places[:5], *bias, *places[5:]], ["y"], domain=domain)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", TensorProto.UINT8, [256, 1, *window])],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, [256, 127, *window])],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    mod, params = relay.frontend.from_onnx(helper.make_model(graph, opset_imports=opsets))
    with PassContext(opt_level=3):
        model = graph_executor.GraphModule(relay.build(mod, "llvm", params=params)["default"](tvm.cpu()))
    model.run(x=x.reshape(256, 1, *window))
    factor = np.float32(given[0] * given[1]) / given[2]
    want = np.clip(np.rint((x.astype("float32") @ w.T.astype("float32")) * factor), 0, 255)
    np.testing.assert_array_equal(model.get_output(0).numpy().reshape(256, 127), want)


def test_the_sum_of_every_pair_of_bytes_is_rounded_from_its_exact_value(rng):
    """In float32 where that gives all pairs the same steps, as with equal scales, whose sums often lie halfway."""
    for types, scales in (
        (["uint8", "uint8", "uint8"], rng.uniform(0.01, 0.1, 3)),
        (["int8", "uint8", "int8"], rng.uniform(0.01, 0.1, 3)),
        (["uint8", "uint8", "uint8"], np.array([0.05, 0.05, 0.1])),
    ):
        scales = scales.astype("float32")
        least = [-128 if t == "int8" else 0 for t in types]
        zeros = [low + int(rng.integers(0, 256)) for low in least]
        bytes_ = [(np.arange(256) + low).astype(t) for low, t in zip(least, types)]
        x = [np.ascontiguousarray(a) for a in np.broadcast_arrays(bytes_[0][:, None], bytes_[1][None, :])]
        mod, params = relay.frontend.from_onnx(sum_of_two(types, scales, zeros))
        assert scales[0] != scales[1] or "float64" not in mod.astext(show_meta_data=False)
        with PassContext(opt_level=3):
            model = graph_executor.GraphModule(relay.build(mod, "llvm", params=params)["default"](tvm.cpu()))
        model.run(x0=x[0], x1=x[1])
        ratios = [np.float64(s) / np.float64(scales[2]) for s in scales[:2]]
        steps = np.rint((x[0] - float(zeros[0])) * ratios[0] + (x[1] - float(zeros[1])) * ratios[1]) + zeros[2]
        want = np.clip(steps, least[2], least[2] + 255).astype(types[2])
        np.testing.assert_array_equal(model.get_output(0).numpy(), want, f"{types} {scales} {zeros}")


def test_a_sum_for_which_no_factors_of_float32_are_exact_is_done_in_doubles():
    """Integers so large that a float32 has no bits left for their fractions."""
    sides = [np.arange(256.0) + 2**22, np.arange(256.0)]
    assert _float32_factors(sides, [0.7, 0.3], 0, 2**23) is None

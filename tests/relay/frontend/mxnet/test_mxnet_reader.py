"""Reading symbols and parameters of MXNet: what is found in them, and what is refused."""

from __future__ import annotations

import json
import sys
import types

import numpy as np
import pytest
from mutants import MUTATIONS, damaged
from mxnet_cases import CASES
from mxnet_networks import build
from mxnet_writer import Net, params_bytes, sparse_bytes

from tests.relay.frontend.mxnet.operator_cases import fused
from tvm.error import OpNotImplemented, TVMError
from tvm.ir.prim import Any_
from tvm.relay.frontend import from_mxnet
from tvm.relay.frontend.mxnet.params import read_params
from tvm.relay.infer import infer_module


def dense(bias: bool = True):
    net = Net(1)
    return net, net.symbol(net.dense(net.var("data"), 6, 4, bias=bias))


def one(kind: str, *shapes, inputs=None, **attrs) -> None:
    """Import a symbol of one operator."""
    net = Net()
    places = [net.var(f"x{k}") for k in range(len(shapes))]
    from_mxnet(
        net.symbol(net.op(kind, *(inputs or places), name="y", **attrs)), {f"x{k}": s for k, s in enumerate(shapes)}
    )


# -- what a model may be ----------------------------------------------------------------------------------------------


def test_a_symbol_is_text_bytes_a_path_or_live(tmp_path):
    net, symbol = dense()
    (tmp_path / "n-symbol.json").write_text(symbol)
    (tmp_path / "n-0000.params").write_bytes(params_bytes(net.params))

    class Live:
        def tojson(self):
            return symbol

    arrays = {n.partition(":")[2]: a for n, a in net.params.items()}
    shape = {"data": (2, 6)}
    made = [from_mxnet(s, shape, arg_params=arrays) for s in (symbol, symbol.encode(), Live())]
    made.append(from_mxnet(tmp_path / "n-symbol.json", shape))
    made.append(from_mxnet(symbol, shape, arg_params=tmp_path / "n-0000.params"))
    assert len({str(m) for m, _ in made}) == 1
    for _, params in made:
        assert {k: v.numpy().tolist() for k, v in params.items()} == {k: v.tolist() for k, v in arrays.items()}
    with pytest.raises(TypeError, match="from_mxnet: expected a symbol, its JSON, a path or a block, got int"):
        from_mxnet(3)


def test_parameters_may_be_live_arrays_and_of_two_kinds():
    class Live:
        def __init__(self, array):
            self.array = array

        def asnumpy(self):
            return self.array

    net = Net()
    symbol = net.symbol(net.norm(net.var("data"), 3))
    kinds = {k: {n[4:]: Live(a) for n, a in net.params.items() if n.startswith(k)} for k in ("arg", "aux")}
    params = from_mxnet(symbol, {"data": (1, 3, 2)}, "float32", kinds["arg"], kinds["aux"])[1]
    assert sorted(params) == sorted(n[4:] for n in net.params)
    with pytest.raises(TypeError, match="arg_params must be a dictionary by name, got list"):
        from_mxnet(symbol, {"data": (1, 3, 2)}, arg_params=[1])


def test_a_live_block_is_called_with_variables_of_its_inputs(monkeypatch):
    """A module in MXNet's place: blocks and symbols with the methods that the importer calls."""
    net, symbol = dense()
    called = []

    class Symbol:
        def __init__(self, name=""):
            called.append(name)

        def tojson(self):
            return symbol

    class Parameter:
        def __init__(self, array):
            self.array = array

        def data(self):
            return self

        def asnumpy(self):
            return self.array

    class Block:
        def collect_params(self):
            return {n[4:]: Parameter(a) for n, a in net.params.items()}

        def __call__(self, *inputs):
            return Symbol("result")

    fake = types.ModuleType("mxnet")
    fake.sym = types.SimpleNamespace(Variable=Symbol)
    monkeypatch.setitem(sys.modules, "mxnet", fake)
    module, params = from_mxnet(Block(), {"data": (2, 6)})
    assert called == ["data", "result"] and sorted(params) == sorted(n[4:] for n in net.params)
    ran = Block()
    ran._cached_graph = ([], Symbol())
    assert str(from_mxnet(ran, {"data": (2, 6)})[0]) == str(module)


def test_shapes_of_weights_follow_from_the_operators_where_none_are_given():
    net = Net()
    x = net.op("Convolution", net.var("data"), net.var("w"), net.var("b"), kernel=(3, 3), num_filter=5)
    x = net.op("BatchNorm", x, *(net.var(n) for n in ("gamma", "beta", "mean", "var")))
    x = net.op("LeakyReLU", x, net.var("slope"), act_type="prelu")
    x = net.op("SoftmaxOutput", net.op("FullyConnected", x, net.var("v"), net.var("c"), num_hidden=7), net.var("label"))
    module, params = from_mxnet(net.symbol(x), {"data": (2, 3, 8, 6)})
    found = {p.name_hint: p.type_annotation.concrete_shape for p in module["main"].params}
    assert not params and "label" not in found
    assert list(found.items()) == [
        ("data", (2, 3, 8, 6)),
        ("w", (5, 3, 3, 3)),
        ("b", (5,)),
        ("gamma", (5,)),
        ("beta", (5,)),
        ("mean", (5,)),
        ("var", (5,)),
        ("slope", (5,)),
        ("v", (7, 120)),
        ("c", (7,)),
    ]


def test_a_weight_that_the_parameters_do_not_have_is_named():
    net, symbol = dense()
    arrays = {n.partition(":")[2]: a for n, a in net.params.items() if "bias" not in n}
    with pytest.raises(TVMError, match="there is no parameter 'dense1_bias'"):
        from_mxnet(symbol, {"data": (2, 6)}, arg_params=arrays)


def test_element_types_are_those_given_by_name_or_the_models_own():
    net = Net()
    a, b, c = net.var("a"), net.var("b", __dtype__="4", __shape__="(2, 3)"), net.var("c")
    symbol = net.symbol(net.op("Cast", a, dtype="float32"), b, c)
    module = from_mxnet(symbol, {"a": (2,), "c": (1, 4)}, {"a": "uint8"})[0]
    found = {p.name_hint: (p.type_annotation.dtype, p.type_annotation.concrete_shape) for p in module["main"].params}
    assert found == {"a": ("uint8", (2,)), "b": ("int32", (2, 3)), "c": ("float32", (1, 4))}
    module = from_mxnet(symbol, {"a": (2,), "c": (1, 4)}, "float16")[0]
    assert [p.type_annotation.dtype for p in module["main"].params] == ["float16", "int32", "float16"]


def test_a_size_may_stay_open():
    net = Net()
    (x,) = from_mxnet(net.symbol(net.op("relu", net.var("x"))), {"x": (None, 3)})[0]["main"].params
    assert isinstance(x.type_annotation.shape[0], Any_)


@pytest.mark.parametrize(("options", "words"), [
    ({"shape": {"z": (1, 6)}}, "the model has no input 'z'; its inputs are data"),
    ({"shape": {"data": (-4, 6)}}, "has a negative dimension"), ({"shape": {"data": 3}}, "expected a list of integers"),
    ({"shape": {"data": (2, 5)}}, "FullyConnected 'dense1_fwd'"),
    ({"shape": {"data": (2, 6), "dense1_bias": (7,)}}, "but its parameter has"), ({}, "give it: shape="),
])  # fmt: skip
def test_wrong_arguments_are_refused(options, words):
    net, symbol = dense()
    with pytest.raises(TVMError, match=words):
        from_mxnet(symbol, arg_params=net.params, **options)
    with pytest.raises(TypeError, match="from_mxnet: shape must be a dictionary by input name, got"):
        from_mxnet(symbol, [1])


# -- versions ---------------------------------------------------------------------------------------------------------


def test_attributes_of_all_versions_are_read_and_hidden_ones_are_left_out():
    for key, version in (("param", None), ("attr", 900), ("attrs", 10901)):
        net = Net(1)
        x = net.op(
            "Convolution",
            net.var("data", __lr_mult__="2"),
            net.weight("w", 4, 3, 3, 3),
            kernel="(3L, 3L)",
            num_filter=4,
            no_bias="True",
            weight_lr_mult=2,
            ctx_group="dev1",
            __profiler_scope__="a:",
            cudnn_tune="off",
            workspace=1024,
        )
        module, _ = from_mxnet(net.symbol(x, version=version, key=key), {"data": (1, 3, 5, 5)}, arg_params=net.params)
        assert "nn.conv2d" in str(module)


def test_files_before_version_0_9_leave_out_the_states_of_batch_norm():
    net = Net()
    rows = [net.weight(f"bn_{n}", 3) for n in ("gamma", "beta")]
    symbol = json.loads(net.symbol(net.op("BatchNorm", net.var("data"), *rows, name="bn"), version=None))
    for node in symbol["nodes"]:
        node.update(inputs=[i[:2] for i in node["inputs"]], backward_source_id=-1)
    aux = {"bn_moving_mean": np.zeros(3, "float32"), "bn_moving_var": np.ones(3, "float32")}
    module, params = from_mxnet(json.dumps(symbol), {"data": (1, 3, 2)}, "float32", net.params, aux)
    assert {"bn_moving_mean", "bn_moving_var"} <= set(params)


def test_minus_one_meant_all_elements_before_version_0_9_5():
    for version, shape in ((904, (1,)), (905, (2,))):
        net = Net()
        symbol = net.symbol(net.op("argmax", net.var("x"), axis="-1"), version=version)
        module, _ = from_mxnet(symbol, {"x": (2, 3)})
        assert infer_module(module)["main"].checked_type_.ret_type.concrete_shape == shape


def test_arrays_of_all_versions_are_read():
    arrays = {
        "arg:a": np.arange(6, dtype="float32").reshape(2, 3),
        "aux:b": np.array([1, 2], "int64"),
        "c": np.array([[1.5]], "float16"),
    }
    for version in range(4):
        found = read_params(params_bytes(arrays, version))
        assert list(found) == list(arrays)
        for name, array in arrays.items():
            assert found[name].dtype == array.dtype and (found[name] == array).all()
    found = read_params(params_bytes({"s": np.array(3.5, "float32"), "e": np.zeros((0, 2), "float32")}, 3))
    assert found["s"].shape == () and found["s"] == 3.5 and found["e"].shape == (0, 2)


def test_sparse_arrays_become_dense():
    values = np.array([[1, 2], [3, 4]], "float32")
    rows = sparse_bytes((4, 2), values, np.array([0, 3], "int64"))
    csr = sparse_bytes(
        (3, 4), np.array([5, 6, 7], "float32"), np.array([0, 1, 1, 3], "int64"), np.array([2, 0, 3], "int64")
    )
    found = read_params(params_bytes({"rows": rows, "csr": csr}))
    assert found["rows"].tolist() == [[1, 2], [0, 0], [0, 0], [3, 4]]
    assert found["csr"].tolist() == [[0, 0, 5, 0], [0, 0, 0, 0], [6, 0, 0, 7]]
    for wrong in (
        sparse_bytes((2, 2), values, np.array([0, 3], "int64")),
        sparse_bytes((3, 4), values[0], np.array([0, 1, 1, 3], "int64"), np.array([2, 0], "int64")),
    ):
        with pytest.raises(TVMError, match="indices of a sparse array are out of range"):
            read_params(params_bytes({"x": wrong}))
    with pytest.raises(TVMError, match="a dense copy of a sparse array would have"):
        read_params(params_bytes({"x": sparse_bytes((1 << 40, 2), values, np.array([0, 3], "int64"))}))


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_all_operators_without_a_converter_are_named_with_their_counts():
    net = Net()
    x = net.op("Yours", net.op("Custom", net.op("Custom", net.var("x"), name="a")), name="c")
    with pytest.raises(OpNotImplemented) as caught:
        from_mxnet(net.symbol(x), {"x": (3,)})
    assert "Custom: 2 nodes, first 'a'" in str(caught.value) and "Yours: 1 node, first 'c'" in str(caught.value)


def test_errors_and_spans_name_the_node():
    with pytest.raises(TVMError, match="^Reshape 'y': the new shape"):
        one("Reshape", (2, 3), shape=(5, 7))
    net = Net()
    module, _ = from_mxnet(net.symbol(net.op("relu", net.var("x"), name="first")), {"x": (2,)})
    assert module["main"].body.span.source_name.name == "first"


@pytest.mark.parametrize(("kind", "shapes", "attrs", "words"), [
    ("Convolution", [(1, 3, 5, 5), (4, 3, 3, 3)], {"num_filter": 4}, "the attribute kernel is missing"),
    ("Convolution", [(1, 3, 5, 5), (4, 3, 3, 3)], {"kernel": "(3, x)", "num_filter": 4}, "expected a list of numbers"),
    ("Convolution", [(1, 3, 5, 5), (4, 3, 3, 3)], {"kernel": "(3, 3)", "num_filter": 4}, "the bias is missing"),
    ("Convolution", [(1, 3, 5, 5), (4, 2, 3, 3)], {"kernel": "(3, 3)", "num_filter": 4, "no_bias": 1},
     r"the weights have shape \(4, 2, 3, 3\)"),
    ("Convolution", [(1, 3, 5, 5), (4, 3, 3, 3)], {"kernel": "(3, 3)", "num_filter": 4, "stride": "(0, 1)"},
     "the attribute stride"),
    ("Convolution", [(1, 3, 5, 5), (4, 3, 3, 3)], {"kernel": "(3, 3)", "num_filter": 4, "colour": "red"},
     r"unknown attribute colour \('red'\)"),
    ("Activation", [(3,)], {"act_type": "gelu"}, "it must be one of relu, sigmoid"),
    ("Pooling", [(1, 2, 3, 3)], {"kernel": "(5, 5)"}, "is larger than the padded data"),
    ("Pooling", [(1, 2, 3, 3)], {"kernel": "(2, 2)", "pooling_convention": "same"}, "it must be one of full, valid"),
    ("Dropout", [(3,)], {"mode": "always"}, "mode=always applies dropout at inference, which is not supported"),
    ("SliceChannel", [(2, 5)], {"num_outputs": 2}, "is not divisible into num_outputs=2 parts"),
    ("Concat", [(2, 5), (2, 3)], {"num_args": 3}, "the attribute num_args=3 does not match 2 inputs"),
    ("transpose", [(2, 5)], {"axes": "(0, 0)"}, "is not a permutation of 2 axes"),
    ("sum", [(2, 5)], {"axis": "(0, 0)"}, "an axis twice"), ("sum", [(2, 5)], {"axis": "7"}, "axis 7 is out of"),
    ("slice", [(2, 5)], {"begin": "(0,)", "end": "(1,)", "step": "(0,)"}, "contains a zero"),
    ("broadcast_to", [(2, 1)], {"shape": "(2, 999999999999999)"}, "is not a valid shape"),
    ("_arange", [], {"start": 0, "stop": 1e30}, "the maximum at compile time is"),
    ("_arange", [], {"start": 0, "infer_range": True}, "infer_range=True"),
    ("RNN", [(3, 2, 4), (10,), (1, 2, 3)], {"mode": "gru", "state_size": 3, "num_layers": 1}, "the weight vector has"),
    ("RNN", [(3, 2, 4), (10,), (1, 2, 3)], {"mode": "gru", "state_size": 3, "num_layers": 1,
                                            "lstm_state_clip_min": 1}, "are not supported"),
    ("_contrib_MultiBoxTarget", [(1, 4, 4)], {}, "MultiBoxTarget: 1 node"),
    ("_contrib_ROIAlign", [(1, 4, 8, 8), (1, 5)], {"pooled_size": "(2, 2)", "spatial_scale": 1,
                                                  "position_sensitive": True}, "position_sensitive=True"),
    ("BatchNorm", [(1, 3, 4), (3,)], {}, "with 2 inputs"), ("elemwise_add", [(3,)], {}, "with 1 inputs"),
    ("Embedding", [(3,), (4, 5)], {"input_dim": 9, "output_dim": 5}, "the table has shape"),
    ("one_hot", [(3,)], {"depth": -1}, "the attribute depth=-1"), ("topk", [(3,)], {"k": 5}, "k=5 exceeds"),
    ("_foreach", [(3, 2), (2,)], {"num_outputs": 2, "num_out_data": 1, "in_data_locs": "[0]", "in_state_locs": "[1]",
                                  "remain_locs": "[]"}, "expected 1 subgraphs, got 0"),
    ("_sg_mkldnn_conv", [(1, 3, 4, 4)], {}, "expected 1 subgraph, got 0"),
])  # fmt: skip
def test_an_operator_with_wrong_attributes_is_refused_by_name(kind, shapes, attrs, words):
    with pytest.raises(TVMError, match=words):
        one(kind, *shapes, **attrs)


@pytest.mark.parametrize(("old", "new", "words"), [
    ('"quantized": "true"', '"quantized": "true", "dedup_sum": "True"', "dedup_sum=True"),
    ('"max_calib_range": "', '"max_calib_range": "None", "__a__": "', "without a calibrated range"),
    ('"with_sum": "true"', '"with_sum": "false"', "3 values and their ranges, got"),
    ('"min_calib_range": "', '"min_calib_range": "1e999", "__a__": "', "must be finite and not zero"),
    ('"op": "BatchNorm"', '"op": "Mine"', "Mine: 1 node"),
    ('"num_filter": "', '"num_group": "2", "num_filter": "', "several filters per group"),
])  # fmt: skip
def test_operators_put_together_that_are_wrong_are_refused(old, new, words):
    case = fused()["_sg_mkldnn_conv/int8"]
    text = str(case["symbol"])
    assert old in text
    params = {k.partition(":")[2]: v for k, v in case.items() if ":" in k}
    head, symbol = text.split('"_sg_mkldnn_conv"', 1)
    changed = head + '"_sg_mkldnn_conv"' + symbol.replace(old, new)
    with pytest.raises(TVMError, match=words):
        from_mxnet(changed, {"data": case["data"].shape}, arg_params=params)


@pytest.mark.parametrize(("text", "words"), [
    ("{", "the symbol is not valid JSON:"), ("{}", "it has no list 'nodes'"), ('{"nodes": []}', "expected a list"),
    ('{"nodes": [], "heads": []}', "the symbol has no heads"), ('{"nodes": [3], "heads": []}', "has no name"),
    ('{"nodes": [{"op": "relu", "name": "a", "inputs": [[0, 0, 0]]}], "heads": [[0, 0, 0]]}', "does not exist"),
    ('{"nodes": [{"op": "null", "name": "a", "inputs": []}], "heads": [[0, 3, 0]]}', "'a' has no output 3"),
    ('{"nodes": [{"op": "null", "name": "a", "attrs": {"b": 3}}], "heads": [[0, 0, 0]]}', "a dictionary of strings"),
    ('{"nodes": [{"op": "null", "name": "a"}, {"op": "null", "name": "a"}], "heads": [[0, 0], [1, 0]]}', "two"),
    ("[" * 100_000, "the symbol is not valid JSON:"),
])  # fmt: skip
def test_a_symbol_that_is_wrong_is_refused(text, words):
    with pytest.raises(TVMError, match=words):
        from_mxnet(text.encode(), {"a": (2,)} if '"a"' in text else None)


def test_a_graph_deep_in_others_and_a_long_chain_are_no_recursion():
    inner: dict = {"nodes": [{"op": "null", "name": "x", "inputs": []}], "heads": [[0, 0, 0]]}
    for _ in range(40):
        inner = {"nodes": [{"op": "_foreach", "name": "f", "inputs": [], "subgraphs": [inner]}], "heads": [[0, 0, 0]]}
    with pytest.raises(TVMError, match="subgraphs are nested deeper than 32"):
        from_mxnet(json.dumps(inner))
    net = Net()
    x = net.var("x")
    for _ in range(3000):
        x = net.op("relu", x)
    assert from_mxnet(net.symbol(x), {"x": (2,)})[0]["main"].params


def test_parameters_that_are_wrong_are_refused():
    data = params_bytes({"a": np.zeros(3, "float32")})
    for wrong, words in (
        (b"", "they do not begin with 0x112"),
        (data[:-1], "exceed the file size"),
        (data[:40], "exceed the file"),
        (data[:16] + b"\xff" * 8 + data[24:], "arrays are declared"),
        (data[:-17] + bytes(8), "have no names: 1 arrays, 0 names"),
        (params_bytes({"a": b""}), "corrupt"),
        (data[:-1] + b"\xff", "not valid UTF-8"),
    ):
        with pytest.raises(TVMError, match=words):
            read_params(wrong)


# -- damage -----------------------------------------------------------------------------------------------------------


def test_mutated_symbols_and_parameters_are_converted_or_refused(rng):
    names = [str(n) for n in rng.choice(sorted(CASES), min(len(CASES), MUTATIONS), replace=False)]
    text, params, feeds = build("vgg")
    network = (text.encode(), params_bytes(params), {k: v.shape for k, v in feeds.items()})
    case = fused()["_sg_mkldnn_conv/int8"]
    put_together = (
        str(case["symbol"]).encode(),
        {k.partition(":")[2]: v for k, v in case.items() if ":" in k},
        {"data": case["data"].shape},
    )
    small = params_bytes({"arg:x0": np.arange(6, dtype="float32"), "aux:b": np.ones((2, 2), "int8")})
    for number in range(MUTATIONS):
        if number % 8 == 0:
            symbol, arrays, shapes = network if number % 16 else put_together
            symbol = damaged(symbol, rng)
        else:
            case = CASES[names[number % len(names)]]
            symbol, arrays = damaged(case.symbol().encode(), rng), {}
            shapes = {f"x{k}": a.shape for k, a in enumerate(case.arrays())}
        try:
            from_mxnet(symbol, shapes, arg_params=arrays)
        except TVMError:
            pass
        try:
            read_params(damaged(small, rng))
        except TVMError:
            pass

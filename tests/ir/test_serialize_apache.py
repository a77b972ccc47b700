"""Documents that Apache TVM's save_json writes, by the layout of its nodes."""

from __future__ import annotations

import base64
import json
import struct

import numpy as np
import pytest

import tvm
from tvm import relay


class Document:
    """Nodes are added one by one; a number in a field is that of a node, a text is the text."""

    def __init__(self, version="0.14.0"):
        self.nodes, self.arrays, self.version = [{"type_key": ""}], [], version

    def __call__(self, key, **attrs):
        self.nodes.append({"type_key": key, **({"attrs": {k: str(v) for k, v in attrs.items()}} if attrs else {})})
        return len(self.nodes) - 1

    def repr(self, text, key="runtime.String", field="repr_str"):
        self.nodes.append({"type_key": key, **({field: text} if text else {})})
        return len(self.nodes) - 1

    def array(self, *data):
        self.nodes.append({"type_key": "Array", **({"data": list(data)} if data else {})})
        return len(self.nodes) - 1

    def map(self, pairs=(), keys=None):
        data = list(pairs) if keys is not None else [n for pair in pairs for n in pair]
        self.nodes.append({"type_key": "Map", "data": data, **({} if keys is None else {"keys": keys})})
        return len(self.nodes) - 1

    def ints(self, *values, dtype="int32"):
        return self.array(*[self("IntImm", dtype=dtype, value=v, span=0) for v in values])

    def ndarray(self, array):
        code = {"f": 2, "i": 0, "u": 1}[array.dtype.kind]
        head = struct.pack("<QQiiiBBH", 0xDD5E40F096B4A13F, 0, 1, 0, array.ndim, code, array.itemsize * 8, 1)
        sizes = struct.pack(f"<{array.ndim + 1}q", *array.shape, array.nbytes)
        self.arrays.append(base64.b64encode(head + sizes + array.tobytes()).decode())
        return len(self.arrays) - 1

    def load(self, root):
        whole = {"root": root, "nodes": self.nodes, "b64ndarrays": self.arrays, "attrs": {"tvm_version": self.version}}
        return tvm.ir.load_json(json.dumps(whole))


def test_nodes_of_version_0_6_have_their_texts_inside():
    d = Document("0.6.0")
    for key, cls in (("relay.TypeVar", tvm.ir.TypeVar), ("relay.GlobalTypeVar", tvm.ir.GlobalTypeVar)):
        found = d.load(d(key, kind=0, span=0, var=d("Variable", dtype="int32", name="in0")))
        assert isinstance(found, cls) and found.name_hint == "in0"
    var = d.load(d("relay.Var", _checked_type_=0, span=0, type_annotation=0, vid=d("relay.Id", name_hint="a3")))
    assert isinstance(var, relay.Var) and var.name_hint == "a3"
    assert isinstance(d.load(d("relay.IncompleteType", kind=0, span=0)), tvm.ir.IncompleteType)
    unit = d("relay.TupleType", fields=d.array(), span=0)
    func = d("relay.FuncType", arg_types=d.array(), ret_type=unit, type_constraints=d.array(), type_params=d.array())
    assert isinstance(d.load(func), tvm.ir.FuncType)
    name = d.load(d("relay.GlobalVar", _checked_type_=0, name_hint="x", span=0))
    assert isinstance(name, tvm.ir.GlobalVar) and name.name_hint == "x"
    assert d.load(d.repr("nn.conv2d", "relay.Op", "global_key")) is relay.op.get("nn.conv2d")
    x, y = d.load(d("Variable", dtype="int32", name="x")), d.load(d("SizeVar", dtype="int32", name="y"))
    assert type(x) is tvm.tir.Var and x.name == "x" and type(y) is tvm.tir.SizeVar and y.name == "y"


def network(d):
    """conv2d(x, weights of ones), a bias, softmax over the channels, and the mean over the pixels"""

    def tensor(*shape):
        return d("relay.TensorType", dtype="float32", shape=d.ints(*shape), span=0)

    def call(op, *args, attrs=0):
        return d(
            "relay.Call",
            _checked_type_=kind,
            args=d.array(*args),
            attrs=attrs,
            op=d.repr(op, "Op"),
            span=0,
            type_args=d.array(),
            virtual_device_=device,
        )

    kind, device = tensor(1, 2, 4, 4), d("VirtualDevice", device_type_int=-1, virtual_device_id=-1)
    vid = d("relay.Id", name_hint=d.repr("x"))
    x = d("relay.Var", _checked_type_=kind, span=0, type_annotation=kind, vid=vid, virtual_device_=device)
    weight, bias = (
        d("relay.Constant", _checked_type_=kind, data=d.ndarray(a), span=0, virtual_device_=device)
        for a in (np.ones((3, 2, 3, 3), "float32"), np.arange(3, dtype="float32"))
    )
    empty = d.repr("")
    three = d("IntImm", dtype="int32", value=3)
    conv = d(
        "relay.attrs.Conv2DAttrs",
        auto_scheduler_rewritten_layout=empty,
        channels=three,
        data_layout=d.repr("NCHW"),
        dilation=d.ints(1, 1),
        groups=1,
        kernel_layout=d.repr("OIHW"),
        kernel_size=d.ints(3, 3),
        meta_schedule_original_shape=d.array(),
        out_dtype="float32",
        out_layout=empty,
        padding=d.ints(1, 1, 1, 1),
        strides=d.ints(1, 1),
    )
    y = call("nn.conv2d", x, weight, attrs=conv)
    y = call("nn.bias_add", y, bias, attrs=d("relay.attrs.BiasAddAttrs", axis=1))
    y = call("nn.softmax", y, attrs=d("relay.attrs.SoftmaxAttrs", axis=1))
    y = call("mean", y, attrs=d("relay.attrs.ReduceAttrs", axis=d.ints(2, 3), exclude=0, keepdims=1))
    values = d.map([d("IntImm", dtype="int32", value=1)], ["Primitive_"])
    return d(
        "relay.Function",
        _checked_type_=0,
        attrs=d("DictAttrs", __dict__=values),
        body=y,
        params=d.array(x),
        ret_type=0,
        span=0,
        type_params=d.array(),
        virtual_device_=device,
    )


def test_a_graph_computes_what_was_saved():
    d = Document()
    function = network(d)
    name = d("GlobalVar", _checked_type_=0, name_hint=d.repr("main"), span=0)
    mod = d.load(
        d(
            "IRModule",
            attrs=0,
            functions=d.map([(name, function)]),
            global_type_var_map_=d.map(),
            global_var_map_=d.map([name], ["main"]),
            source_map=0,
            type_definitions=d.map(),
        )
    )
    assert int(mod["main"].attrs["Primitive_"]) == 1
    x = np.random.default_rng(0).random((1, 2, 4, 4), dtype="float32")
    func = relay.Function(mod["main"].params, mod["main"].body)
    got = relay.create_executor("graph", tvm.IRModule.from_expr(func)).evaluate()(x).numpy()
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    sums = sum(padded[:, :, i : i + 4, j : j + 4].sum(1, keepdims=True) for i in range(3) for j in range(3))
    y = np.exp(sums + np.arange(3).reshape(1, 3, 1, 1) - sums - 2)
    np.testing.assert_allclose(got, (y / y.sum(1, keepdims=True)).mean((2, 3), keepdims=True), rtol=1e-5)


@pytest.mark.parametrize(
    "op, key, attrs, want",
    [
        (
            "take",
            "TakeAttrs",
            {"axis": "box 1", "batch_dims": "box 0", "mode": "clip"},
            {"axis": 1, "batch_dims": 0, "mode": "clip"},
        ),
        ("clip", "ClipAttrs", {"a_min": "0", "a_max": "6.5"}, {"a_min": 0.0, "a_max": 6.5}),
        ("cast", "CastAttrs", {"dtype": "int8"}, {"dtype": "int8"}),
        ("expand_dims", "ExpandDimsAttrs", {"axis": "2", "num_newaxis": "1"}, {"axis": 2, "num_newaxis": 1}),
        (
            "argmax",
            "ArgReduceAttrs",
            {"axis": "list 1", "keepdims": "0", "exclude": "0", "select_last_index": "1"},
            {"axis": (1,), "keepdims": False, "select_last_index": True},
        ),
    ],
)
def test_attributes_are_read_as_what_the_operator_takes(op, key, attrs, want):
    d = Document()
    made = {"box": lambda v: d("IntImm", dtype="int32", value=v), "list": d.ints}
    fields = {n: made[v.split()[0]](int(v.split()[1])) if " " in v else v for n, v in attrs.items()}
    var = d("relay.Var", type_annotation=0, vid=d("relay.Id", name_hint=d.repr("x")))
    args = d.array(var, var) if op == "take" else d.array(var)
    call = d.load(
        d(
            "relay.Call",
            args=args,
            op=d.repr(op, "Op"),
            attrs=d("relay.attrs." + key, **fields),
            type_args=d.array(),
            span=0,
        )
    )
    assert {n: call.attrs[n] for n in want} == want


def test_a_function_of_loops_runs():
    """for i in 8: if i < 5: B[i] = A[i] * 2.0"""
    d = Document()

    def var(name, dtype, kind=0):
        return d("tir.Var", dtype=dtype, name=d.repr(name), span=0, type_annotation=kind)

    def number(value, dtype="int32"):
        return d("IntImm" if "int" in dtype else "FloatImm", dtype=dtype, value=value, span=0)

    def buffer(name):
        pointer = d("PointerType", element_type=d("PrimType", dtype="float32"), storage_scope=d.repr("global"))
        return d(
            "tir.Buffer",
            axis_separators=d.array(),
            buffer_type=1,
            data=var(name, "handle", pointer),
            data_alignment=64,
            dtype="float32",
            elem_offset=number(0),
            name=d.repr(name),
            offset_factor=1,
            shape=d.ints(8),
            span=0,
            strides=d.array(),
        )

    a, b, i = buffer("A"), buffer("B"), var("i", "int32", d("PrimType", dtype="int32"))
    load = d("tir.BufferLoad", buffer=a, dtype="float32", indices=d.array(i), span=0)
    twice = d("tir.Mul", a=load, b=number("2.5e-01", "float32"), dtype="float32", span=0)
    store = d("tir.BufferStore", buffer=b, indices=d.array(i), span=0, value=twice)
    test = d("tir.LT", a=i, b=number(5), dtype="bool", span=0)
    body = d("tir.IfThenElse", condition=test, else_case=0, span=0, then_case=store)
    loop = d(
        "tir.For",
        annotations=d.map(),
        body=body,
        extent=number(8),
        kind=1,
        loop_var=i,
        min=number(0),
        span=0,
        thread_binding=0,
    )
    handles = [var(name, "handle") for name in ("a", "b")]
    attrs = d("DictAttrs", __dict__=d.map([d.repr("scale")], ["global_symbol"]))
    func = d.load(
        d(
            "tir.PrimFunc",
            _checked_type_=0,
            attrs=attrs,
            body=loop,
            buffer_map=d.map(zip(handles, (a, b))),
            params=d.array(*handles),
            ret_type=0,
            span=0,
        )
    )
    assert func.body.kind == tvm.tir.ForKind.PARALLEL
    x, out = np.arange(8, dtype="float32"), tvm.nd.array(np.zeros(8, "float32"))
    tvm.build(func, target="llvm")(tvm.nd.array(x), out)
    np.testing.assert_array_equal(out.numpy(), np.where(x < 5, x / 4, 0))


def test_long_chains_do_not_recurse():
    d = Document()
    e = d("tir.Var", dtype="int32", name=d.repr("x"), span=0, type_annotation=0)
    for _ in range(5000):
        e = d("tir.Add", a=e, b=e, dtype="int32", span=0)
    depth, node = 0, d.load(e)
    while isinstance(node, tvm.tir.Add):
        assert node.a is node.b
        depth, node = depth + 1, node.a
    assert depth == 5000


@pytest.mark.parametrize(
    "record, words",
    [
        (
            {"type_key": "relax.Function"},
            "node 1 of a document of Apache TVM: nodes of type relax.Function are not supported",
        ),
        ({"type_key": "Op", "repr_str": "nn.conf2d"}, "unknown operator 'nn.conf2d'"),
        ({"type_key": "Array", "data": [7]}, "refers to node 7, but there are only 2"),
        ({"type_key": "Array", "data": [1]}, "it refers to itself"),
        ({"type_key": "tir.Add", "attrs": {"a": "0"}}, "cannot create tir.Add from its fields: .*'b'"),
        ({"type_key": "IntImm", "attrs": {"dtype": "int32", "value": "x"}}, "'x' is not of type int"),
        ({"type_key": "relay.Constant", "attrs": {"data": "0"}}, "'0' is not of type array"),
        (7, "expected an object with a type_key"),
    ],
)
def test_faults_are_said(record, words):
    whole = {"root": 1, "nodes": [{"type_key": ""}, record], "attrs": {"tvm_version": "0.14.0"}, "b64ndarrays": []}
    with pytest.raises(ValueError, match=words):
        tvm.ir.load_json(json.dumps(whole))
    with pytest.raises(ValueError, match="array 0 of a document of Apache TVM"):
        tvm.ir.load_json(json.dumps({**whole, "b64ndarrays": ["AAAA"]}))

"""JSON of nodes: round trips, sharing, identity, refusals."""

from __future__ import annotations

import json
import math
import random

import pytest

import tvm
from tvm.ir import Op, structural_equal, structural_hash
from tvm.ir.attrs import DictAttrs
from tvm.ir.module import GlobalVar, IRModule
from tvm.ir.prim import Add, Call, CommReducer, FloatImm, IntImm, IterVar, Let, Range, Reduce, Select, Var, const
from tvm.ir.serialize import load_json, register_json_codec, save_json
from tvm.ir.span import SourceName, Span
from tvm.ir.tensor_type import TensorType
from tvm.ir.type import FuncType, PointerType, PrimType, TupleType, TypeVar
from tvm.tir.buffer import decl_buffer
from tvm.tir.function import PrimFunc
from tvm.tir.stmt import Allocate, AllocateConst, AttrStmt, BufferRealize, BufferStore, Evaluate, For, SeqStmt


def round_trip(node, **kw):
    text = save_json(node)
    back = load_json(text)
    assert structural_equal(node, back, map_free_vars=True)
    assert save_json(back) == text
    return back


def matmul(n=8):
    a, b = (decl_buffer((n, n), "float32", name) for name in "ab")
    i, j, k = (Var(name, "int32") for name in "ijk")
    body = BufferStore(b, b[i, j] + a[i, k] * 2.0, (i, j))
    for v in (k, j, i):
        body = For(v, 0, n, 0, body, annotations={"pragma_unroll": 1})
    return PrimFunc([a, b], body, attrs={"global_symbol": "mm", "tir.noalias": True})


def test_expressions_keep_sharing_and_identity_of_variables():
    x, y = Var("x", "int32"), Var("x", "int32")
    shared = Add(x, const(1, "int32"))
    back = round_trip(Select(x < y, shared * shared, shared))
    assert back.true_value.a is back.true_value.b is back.false_value
    assert back.condition.a is back.false_value.a and back.condition.b is not back.condition.a


def test_statements_functions_and_modules():
    func = matmul()
    back = round_trip(func)
    assert back.attrs == func.attrs and back.params[0] in back.buffer_map
    assert back.body.body.body.body.value.a.buffer is back.buffer_map[back.params[1]]
    mod = IRModule({"mm": func, GlobalVar("other"): matmul(4)}, attrs={"note": "text"})
    assert [v.name_hint for v in round_trip(mod)] == ["mm", "other"]


def test_every_kind_of_statement_keeps_its_fields():
    p, n = Var("p", PointerType(PrimType("float32"), "shared")), Var("n", "int32")
    tx = IterVar(Range(0, 32), "tx", IterVar.ThreadIndex, "threadIdx.x")
    buffer = decl_buffer((n, 4), "int8", "B", strides=[4, 1], elem_offset=n, scope="local", data_alignment=128)
    call = Evaluate(Call("int32", Op.get("tir.bitwise_and"), (n, 3)))
    inner = Allocate(p, "float32", (n, 2), True, call, {"a": [1, "b"]})
    realize = BufferRealize(buffer, (Range(1, n), Range(0, 4)), True, inner)
    body = SeqStmt((AttrStmt(tx, "thread_extent", 32, inner), realize))
    back = round_trip(body)
    assert back.seq[0].node.thread_tag == "threadIdx.x" and back.seq[1].body is back.seq[0].body
    assert back.seq[0].body.buffer_var.type_annotation.storage_scope == "shared"
    assert back.seq[1].buffer.data_alignment == 128 and back.seq[1].buffer.scope() == "local"


def test_reductions_and_lets():
    k = IterVar((0, 8), "k", IterVar.CommReduce)
    x, y = Var("x", "float32"), Var("y", "float32")
    sum_ = CommReducer((x,), (y,), (x + y,), (const(0.0, "float32"),))
    total = Reduce(sum_, (k.var.astype("float32"),), (k,), const(True, "bool"), 0, ())
    back = round_trip(Let(x, 1.0, total + x))
    assert back.body.a.combiner.lhs[0] is back.var


@pytest.mark.parametrize("value", [0.1, -0.0, 1e308, 5e-324, math.inf, -math.inf, math.nan])
def test_floats_are_exact(value):
    back = round_trip(FloatImm("float64", value))
    assert math.isnan(value) and math.isnan(back.value) or back.value == value
    assert math.copysign(1, back.value) == math.copysign(1, value)


def test_lists_dictionaries_strings_bytes_and_big_integers():
    x = Var("x", "int32")
    values = [x, {"a": x, "b": [1, 2.5, None, True]}, "t\x01\u2028ü", b"\x00\xff", IntImm("uint64", 2**64 - 1)]
    back = load_json(save_json(values))
    assert back[0] is back[1]["a"] and back[1]["b"] == (1, 2.5, None, True)
    assert back[2] == "t\x01\u2028ü" and back[3] == b"\x00\xff" and back[4].value == 2**64 - 1
    assert load_json(save_json({x: 1})).popitem()[0].name == "x"


def test_types_and_attributes():
    t = TypeVar("t")
    kind = FuncType([TensorType((1, Var("n", "int32")), "int8"), t], TupleType([t]), [t])
    back = load_json(save_json(kind))
    assert back.arg_types[1] is back.type_params[0] and back.arg_types[0].shape[0].value == 1
    assert load_json(save_json(FuncType([], None))).ret_type is None
    assert load_json(save_json(DictAttrs(a=1, b="x")))["b"] == "x"


def test_spans_are_kept():
    node = Add(Var("x", "int32"), 1, span=Span(SourceName("file"), 1, 2, 3, 4))
    assert load_json(save_json(node)).span == Span(SourceName("file"), 1, 2, 3, 4)


def test_arrays_are_kept():
    numpy = pytest.importorskip("numpy")
    data = numpy.arange(6, dtype="float32").reshape(2, 3)
    p = Var("p", PointerType(PrimType("float32")))
    node = AllocateConst(p, "float32", (2, 3), data, Evaluate(0))
    back = load_json(save_json(node)).data_or_idx
    got = back.numpy() if hasattr(back, "numpy") else back
    assert got.dtype == data.dtype and (got == data).all()
    assert structural_equal({"a": data}, {"a": back})


def test_deep_and_shared_graphs_are_fast_and_do_not_recurse():
    x = Var("x", "int32")
    e = x
    for _ in range(5000):
        e = Add(e, e)
    assert len(json.loads(save_json(e))["nodes"]) == 5002
    back = load_json(save_json(e))
    assert structural_hash(back, map_free_vars=True) == structural_hash(e, map_free_vars=True)


def test_the_text_is_the_same_for_the_same_graph():
    assert save_json(matmul()) == save_json(matmul())


def test_a_codec_lets_fields_hold_other_objects():
    class Point:
        def __init__(self, x):
            self.x = x

    with pytest.raises(TypeError, match=r"DictAttrs\.entries contains a Point, which cannot be serialized as JSON"):
        save_json(DictAttrs(p=Point(3)))
    register_json_codec(Point, "test.Point", lambda p: {"x": p.x}, lambda v: Point(v["x"]))
    assert load_json(save_json(DictAttrs(p=Point(3))))["p"].x == 3
    with pytest.raises(ValueError, match="already registered"):
        register_json_codec(Point, "test.Point", lambda p: p, lambda v: v)


def document(**changes):
    whole = json.loads(save_json(Var("x", "int32") + 1))
    whole.update(changes)
    return json.dumps(whole)


def broken(number, *, key=None, **fields):
    whole = json.loads(save_json(Var("x", "int32") + 1))
    record = whole["nodes"][number]
    if key is not None:
        record[0] = key
    for name, value in fields.items():
        if value is None:
            del record[1][name]
        else:
            record[1][name] = value
    return json.dumps(whole)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json", "the text is not JSON"),
        ("[1]", "expected a document of format"),
        ('{"root": 1}', "expected a document of format"),
        (document(format="other"), "found 'other'"),
        (document(nodes={}), "the list 'nodes' is missing"),
        (document(arrays=None), "the list 'arrays' is missing"),
        (document(root={"node": 99}), "refers to node 99"),
        (document(root={"node": -1}), "refers to node -1"),
        (document(root={"node": True}), "refers to node True"),
        (document(root={"what": 1}), "unknown value"),
        (document(root={"a": 1, "b": 2}), "must have one key"),
        (document(nodes=[["tir.Var"]]), r"expected \[type key, fields\]"),
        (document(arrays=[{"dtype": "float32", "shape": [3], "data": "AAAA"}]), "array 0 does not match"),
        (document(arrays=[7]), "array 0 does not match"),
        (broken(0, key="PrimTyp"), "unknown type 'PrimTyp'; did you mean 'PrimType'"),
        (broken(3, c=1), "tir.Add has no field 'c'; its fields are: a, b"),
        (broken(3, b=None), "tir.Add: the field 'b' is missing"),
        (broken(3, b=4), "field 'b' of tir.Add must not have the type int"),
        (broken(3, b={"node": 3}), "refers to node 3, but only 3 precede it"),
        (broken(2, value="x"), "field 'value' of IntImm must not have the type str"),
        (broken(2, value=1 << 40), "cannot create IntImm from its fields: literal value"),
        (broken(2, dtype="int64"), "cannot create tir.Add from its fields: Add: operands must have the same type"),
        (broken(2, dtype="nothing"), "cannot create IntImm from its fields: unknown data type"),
    ],
)
def test_corrupt_text_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        load_json(text)


def test_unknown_operators_are_refused():
    text = save_json(Call("int32", Op.get("tir.bitwise_and"), (1, 2))).replace("tir.bitwise_and", "tir.nothing")
    with pytest.raises(ValueError, match=r"operator 'tir\.nothing' is not registered"):
        load_json(text)


def test_random_damage_gives_value_errors_only():
    seed = 20
    rng = random.Random(seed)
    text = save_json(matmul())
    for _ in range(300):
        at = rng.randrange(len(text))
        damaged = text[:at] + rng.choice(['"', "{", "]", "9", "-", "x", ""]) + text[at + rng.randint(0, 3) :]
        try:
            load_json(damaged)
        except ValueError as error:
            assert "load_json" in str(error), (seed, at)


def test_tensor_expressions_keep_one_tensor_per_output():
    from tvm import te

    a = te.placeholder((2, 10), name="a")
    k = te.reduce_axis((0, 10), "k")
    b = te.compute((2,), lambda i: te.sum(a[i, k], axis=k), name="b")
    c = te.compute((2,), lambda i: b[i] + b[i] * 2, name="c")
    back = load_json(save_json(c))
    assert back.op.output(0) is back and back.op.name == "c"
    (inner,) = back.op.input_tensors
    assert inner.op.reduce_axis[0].dom.extent.value == 10 and inner.op.input_tensors[0].op.name == "a"
    assert structural_equal(back, c) and structural_hash(back) == structural_hash(c)
    assert not structural_equal(back, b)


def test_shape_tuples_stay_shape_tuples():
    shape = tvm.runtime.ShapeTuple([3, -1, 7])
    again = tvm.ir.load_json(tvm.ir.save_json([shape]))[0]
    assert isinstance(again, tvm.runtime.ShapeTuple) and again == shape

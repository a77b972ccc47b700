"""Builders of expressions: types, folding, reductions, refusals."""

import inspect
import math

import pytest

from tvm.ir.op import Op
from tvm.ir.prim import EQ, Call, Cast, FloatImm, IntImm, IterVar, Max, Min, Range, Reduce, Select, Var, const
from tvm.tir import op
from tvm.tir.buffer import decl_buffer
from tvm.tir.intrinsics import CallEffectKind, effect_of

x = Var("x", "float32")
i = Var("i", "int32")


def reduce_axis(extent, name="k"):
    return IterVar(Range(0, extent), Var(name, "int32"), IterVar.CommReduce)


@pytest.mark.parametrize("name", ["exp", "log2", "tanh", "rsqrt", "sigmoid", "erf", "atanh", "log1p"])
def test_float_function_has_the_type_of_its_operand(name):
    for dtype in ("float32", "float64", "float16", "bfloat16", "float32x8"):
        call = getattr(op, name)(Var("v", dtype))
        assert isinstance(call, Call) and call.dtype == dtype and call.op is Op.get("tir." + name)
        assert effect_of(call) == CallEffectKind.Pure


def test_float_function_takes_whole_numbers_and_truth_values_as_float32():
    for dtype, wanted in (("int32", "float32"), ("bool", "float32"), ("uint8x4", "float32x4")):
        call = op.exp(Var("v", dtype))
        assert call.dtype == wanted and isinstance(call.args[0], Cast) and call.args[0].value.dtype == dtype
    with pytest.raises(TypeError, match="exp: the operand must be a number, got handle"):
        op.exp(Var("p", "handle"))


def test_python_integer_operand_becomes_float32():
    assert op.sqrt(2).args[0].dtype == "float32"


@pytest.mark.parametrize("value", [-2.5, -1.5, -0.5, 0.5, 1.4, 2.5, 3.5, 1e30, -0.2])
def test_rounding_of_literals_is_folded(value):
    c = FloatImm("float64", value)
    assert op.floor(c).value == math.floor(value)
    assert op.ceil(c).value == math.ceil(value)
    assert op.trunc(c).value == math.trunc(value)
    assert op.nearbyint(c).value == round(value)
    assert op.abs(c).value == abs(value)
    away = math.floor(abs(value) + 0.5) if abs(value) < 1e15 else abs(value)
    assert op.round(c).value == math.copysign(away, value)


def test_rounding_keeps_non_finite_literals_and_integers():
    assert op.floor(const(math.inf, "float32")).value == math.inf
    assert math.isnan(op.round(const(math.nan, "float32")).value)
    assert op.floor(i) is i and op.trunc(const(3, "int8")).value == 3


def test_abs_of_integers_is_a_selection():
    assert isinstance(op.abs(i), Select)
    assert op.abs(const(-7)).value == 7
    u = Var("u", "uint8")
    assert op.abs(u) is u


def test_classification():
    assert op.isnan(x).dtype == "bool" and op.isnan(Var("h", "float16")).args[0].dtype == "float32"
    assert op.isnan(i).value == 0 and op.isfinite(i).value == 1
    assert isinstance(op.isinf(x), EQ)
    assert op.isnan(const(math.nan, "float32")).value == 1 and op.isfinite(const(math.inf, "float32")).value == 0


def test_ranges_of_types():
    assert op.min_value("int8").value == -128 and op.max_value("uint64").value == 2**64 - 1
    assert op.max_value("float16").value == 65504.0 and op.min_value("bfloat16").value < -3.38e38
    assert op.infinity("float32").value == math.inf
    with pytest.raises(ValueError, match="infinity.*int32"):
        op.infinity("int32")


def test_all_and_any_fold_literals_and_need_a_condition():
    a, b = i < 3, i > 1
    assert op.all(a) is a and op.all(True, b) is b and op.any(a, True).value == 1
    assert op.all(a, b, i != 2).dtype == "bool"
    with pytest.raises(ValueError, match="at least one"):
        op.all()
    with pytest.raises(TypeError, match="bool"):
        op.all(i, a)


def test_if_then_else_matches_types_and_needs_a_scalar_condition():
    e = op.if_then_else(i < 3, x, 0)
    assert e.dtype == "float32" and e.args[2].dtype == "float32"
    assert op.if_then_else(True, x, 0) is x
    with pytest.raises(TypeError, match="scalar bool"):
        op.if_then_else(i, x, 0)


def test_power_needs_floats_and_drops_exponent_one():
    assert op.power(x, 1) is x
    assert op.pow(x, 3).args[1].dtype == "float32"
    with pytest.raises(TypeError, match="pow"):
        op.power(i, 2)


@pytest.mark.parametrize("a,b", [(7, 2), (-7, 2), (7, -2), (-7, -2), (6, 3)])
def test_divisions_of_literals(a, b):
    assert op.truncdiv(a, b).value == int(a / b)
    assert op.truncmod(a, b).value == math.fmod(a, b)
    assert op.floordiv(a, b).value == a // b and op.floormod(a, b).value == a % b
    assert op.ceildiv(a, b).value == math.ceil(a / b)


def test_division_of_floats_is_refused_where_integers_are_meant():
    with pytest.raises(TypeError, match="truncdiv.*integers"):
        op.truncdiv(x, 2.0)


def test_reductions():
    k = reduce_axis(4)
    s = op.sum(x, axis=k)
    assert isinstance(s, Reduce) and s.dtype == "float32" and s.combiner.identity_element[0].value == 0
    assert op.max(x, axis=[k]).combiner.identity_element[0].value == -math.inf
    assert op.prod(x, k, where=i < 2).condition.dtype == "bool"
    assert op.sum(x, k, init=1.0).init[0].value == 1.0


def test_reducer_of_plain_values_combines_them():
    assert isinstance(op.max(x, 0.0), Max) and isinstance(op.min(i, 3), Min)
    assert op.max(const(1), const(5), const(3)).value == 5
    assert op.sum(1, 2, 3, 4, 5).value == 15


def test_tuple_reduction_gives_one_value_per_output():
    argmax = op.comm_reducer(
        lambda p, q: (Select(p[1] >= q[1], p[0], q[0]), Select(p[1] >= q[1], p[1], q[1])),
        lambda t0, t1: (const(-1, t0), op.min_value(t1)),
        name="argmax",
    )
    k = reduce_axis(8)
    index, value = argmax((k.var, x), axis=k)
    assert (index.dtype, value.dtype) == ("int32", "float32") and (index.value_index, value.value_index) == (0, 1)
    assert [v.name for v in index.combiner.lhs] == ["p_0", "p_1"]


def test_reduction_over_a_data_axis_is_refused():
    axis = IterVar(Range(0, 4), Var("j", "int32"), IterVar.DataPar)
    with pytest.raises(ValueError, match="'j' is not a reduction axis"):
        op.sum(x, axis=axis)


def test_calls():
    buffer = decl_buffer((4, 8), "float32", "A")
    call = op.call_packed("f", buffer, 1)
    assert call.dtype == "int32" and call.args[0].value == "f"
    assert call.args[1].op.name == "tir.tvm_stack_make_array"
    assert op.call_extern("float32", "sinf", x).op.get_attr("TCallEffectKind") == CallEffectKind.Opaque
    assert op.call_pure_extern("float32", "sinf", x).args[0].value == "sinf"
    assert op.call_intrin("float32", "tir.exp", x).op is Op.get("tir.exp")
    assert op.address_of(buffer[1, 2]).dtype == "handle"
    assert Call("uint1", "tir.isnan", [x]).dtype == "bool"


def test_intrinsic_builder_keeps_its_signature():
    assert list(inspect.signature(op.ptx_cp_async).parameters)[:2] == ["dtype", "shared_ptr"]
    assert op.tvm_tuple(1, 2).op.name == "tir.tvm_tuple"
    with pytest.raises(TypeError, match="missing a required argument: 'vec'"):
        op.vectorlow("float32x4")


def test_unknown_intrinsic_is_refused():
    with pytest.raises(AttributeError, match="tir.no_such"):
        op.call_intrin("int32", "tir.no_such", 1)


def test_every_intrinsic_has_an_effect():
    names = [n for n in Op.list_op_names() if n.startswith("tir.")]
    assert len(names) > 120
    assert all(isinstance(Op.get(n).get_attr("TCallEffectKind"), CallEffectKind) for n in names)


def test_shift_and_bits():
    assert op.shift_left(const(1), 4).value == 16
    assert op.popcount(i).dtype == "int32" and op.clz(Var("w", "int64")).dtype == "int32"
    with pytest.raises(TypeError, match="popcount: expected an integer"):
        op.popcount(x)
    assert isinstance(op.reinterpret("int32", x), Call)
    with pytest.raises(TypeError, match="different sizes"):
        op.reinterpret("int64", x)
    assert isinstance(IntImm("int32", 1), IntImm)

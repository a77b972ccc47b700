"""Helpers that build graphs: scopes, loops, copies with changed fields, visitors of types, features."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.relay.analysis import Feature, detect_feature
from tvm.relay.expr import CallWithFields, IfWithFields, LetWithFields, TupleWithFields, VarWithFields
from tvm.relay.function import FunctionWithFields
from tvm.relay.testing import count, make_nat_expr, make_nat_value
from tvm.relay.ty import RefType, TypeCall, TypeData, is_dynamic

F32 = relay.TensorType((3,), "float32")


def evaluate(expr, *args, mod=None):
    return relay.create_executor("debug", mod=mod).evaluate(expr)(*args)


def test_a_scope_names_values_and_branches():
    x, c = relay.var("x", shape=(3,)), relay.var("c", shape=(), dtype="bool")
    sb = relay.ScopeBuilder()
    doubled = sb.let("doubled", x + x)
    with sb.if_scope(c):
        one = sb.let(relay.var("one", F32), doubled + relay.const(1.0))
        sb.ret(one * one)
    with sb.else_scope():
        sb.ret(doubled)
    function = relay.Function([x, c], sb.get())
    data = np.array([1, 2, 3], "float32")
    np.testing.assert_array_equal(evaluate(function, data, True).numpy(), (2 * data + 1) ** 2)
    np.testing.assert_array_equal(evaluate(function, data, False).numpy(), 2 * data)


def test_a_scope_that_is_not_finished_is_refused():
    sb = relay.ScopeBuilder()
    sb.let("y", relay.const(1.0))
    with pytest.raises(RuntimeError, match="end it with ret"):
        sb.get()
    with pytest.raises(RuntimeError, match="else_scope must follow an if_scope"), sb.else_scope():
        pass


def test_a_while_loop_runs_until_its_condition_fails():
    i, total = relay.var("i", shape=(), dtype="int32"), relay.var("total", F32)
    x = relay.var("x", F32)
    loop = relay.loops.while_loop(
        lambda i, total: relay.less(i, relay.const(5)),
        [i, total],
        lambda i, total: [i + relay.const(1), total + x],
    )
    function = relay.Function([x], relay.TupleGetItem(loop(relay.const(0), relay.zeros_like(x)), 1))
    data = np.array([1, 2, 3], "float32")
    np.testing.assert_array_equal(evaluate(function, data).numpy(), 5 * data)


def test_copies_with_changed_fields():
    x, y = relay.var("x", F32), relay.var("y", F32)
    call = relay.add(x, x)
    assert CallWithFields(call) is call and CallWithFields(call, args=[x, x]) is call
    changed = CallWithFields(call, args=[x, y])
    assert changed.args[1] is y and changed.op is call.op and call.args[1] is x
    assert TupleWithFields(relay.Tuple([x]), [x, y]).fields == (x, y)
    assert VarWithFields(x, type_annotation=relay.TensorType((4,))).type_annotation.shape[0] == 4
    assert LetWithFields(relay.Let(x, y, x), body=y).body is y
    cond = relay.var("c", shape=(), dtype="bool")
    assert IfWithFields(relay.If(cond, x, y), false_branch=x).false_branch is x
    assert FunctionWithFields(relay.Function([x], x), body=call).body is call
    device = tvm.target.VirtualDevice(tvm.cpu())
    assert CallWithFields(call, virtual_device=device).virtual_device_ is device
    with pytest.raises(TypeError, match="CallWithFields accepts op, args"):
        CallWithFields(call, arguments=[x])
    with pytest.raises(TypeError, match="expected a Call, got Var"):
        CallWithFields(x)


VARIABLE = relay.TypeVar("a")
TYPES = [
    VARIABLE, relay.ty.IncompleteType(), F32, relay.FuncType([F32], F32, [VARIABLE]), relay.TupleType([F32, VARIABLE]),
    RefType(relay.TupleType([])), relay.GlobalTypeVar("g"), TypeCall(relay.GlobalTypeVar("g"), [F32]),
    TypeData(relay.GlobalTypeVar("d"), [VARIABLE], []),
]  # fmt: skip


@pytest.mark.parametrize("typ", TYPES, ids=lambda t: type(t).__name__)
def test_types_are_visited_and_made_anew(typ):
    with pytest.raises(NotImplementedError, match="TypeFunctor does not define visit_"):
        relay.TypeFunctor().visit(typ)
    assert relay.TypeVisitor().visit(typ) is None
    assert tvm.ir.structural_equal(relay.TypeMutator().visit(typ), typ)


def test_a_mutator_of_types_changes_what_it_cares_about():
    class Wider(relay.TypeMutator):
        def visit_tensor_type(self, tt):
            return relay.TensorType(tt.shape, "float64")

    made = Wider().visit(relay.FuncType([relay.TupleType([F32])], F32))
    assert made.arg_types[0].fields[0].dtype == made.ret_type.dtype == "float64"


def test_scalar_and_dynamic_types():
    assert relay.scalar_type("int8") == relay.TensorType((), "int8")
    assert is_dynamic(relay.TupleType([F32, relay.TensorType((relay.Any(),))])) and not is_dynamic(F32)


def test_features_of_a_graph():
    x = relay.var("x", F32)
    shared = relay.exp(x)
    assert detect_feature(relay.Function([x], x)) == {Feature.fVar, Feature.fFunction}
    assert Feature.fGraph in detect_feature(shared + shared) and Feature.fGraph not in detect_feature(shared)
    assert {Feature.fLet, Feature.fLetRec} <= detect_feature(relay.Let(x, relay.Function([], x), x))
    assert Feature.fLetRec not in detect_feature(relay.Let(relay.var("y"), x, x))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.Tuple([x])))
    assert {Feature.fTuple, Feature.fConstant} <= detect_feature(relay.const(1.0), mod)


def test_natural_numbers_of_the_standard_library():
    prelude = relay.Prelude(tvm.IRModule())
    prelude.mod.import_from_std("nat.rly")
    prelude.mod.import_from_std("nat.rly")
    double, add = prelude.mod.get_global_var("nat_double"), prelude.mod.get_global_var("nat_add")
    run = relay.create_executor("debug", mod=prelude.mod)
    assert count(prelude, run.evaluate(double(make_nat_expr(prelude, 4)))) == 8
    assert count(prelude, run.evaluate(add(make_nat_expr(prelude, 3), make_nat_expr(prelude, 2)))) == 5
    assert count(prelude, make_nat_value(prelude, 7)) == 7
    with pytest.raises(ValueError, match="available: core.rly, nat.rly and prelude.rly"):
        prelude.mod.import_from_std("other.rly")


@pytest.mark.parametrize("value, dtype", [
    (1, "int32"), (1.5, "float32"), (True, "bool"), ([1, 2], "int32"), ([1.5], "float32"), (2**40, "int64"),
    ([1, -(2**40)], "int64"), (1e300, "float64"), (float("-inf"), "float32"), (float("nan"), "float32"),
    (np.float64(1.5), "float32"), (np.int64(3), "int32"), (np.int64(2**40), "int64"), (np.float32(1.5), "float32"),
    (np.float16(1.5), "float16"), (np.uint8(3), "uint8"), (np.uint64(3), "uint64"), (np.bool_(True), "bool"),
    (np.array([1.5]), "float32"), (np.array([1], "int64"), "int32"), (np.array([2**40]), "int64"),
    (np.array([[1e300]]), "float64"), (np.zeros((0,)), "float32")])  # fmt: skip
def test_constants_of_numbers_have_32_bits_where_these_hold_them(value, dtype):
    made = relay.const(value)
    assert made.data.dtype == dtype
    np.testing.assert_array_equal(made.data.numpy(), np.array(value, dtype))
    kept = relay.expr.const(value)
    assert kept.data.dtype == (str(value.dtype) if isinstance(value, np.ndarray) else dtype)


def test_an_array_of_numpy_meets_a_variable_of_float32():
    x = relay.var("x", shape=(2, 3))
    table = np.arange(6.0).reshape(2, 3)
    run = relay.create_executor("graph").evaluate(relay.Function([x], x + relay.const(table)))
    np.testing.assert_array_equal(run(np.ones((2, 3), "float32")).numpy(), table.astype("float32") + 1)


def test_integers_that_do_not_fit_their_type_are_refused():
    for value, dtype in ((300, "int8"), (-1, "uint8"), (2**31, "int32")):
        with pytest.raises(ValueError, match=f"{value} does not fit in {dtype}"):
            relay.const(value, dtype)


@pytest.mark.parametrize("number", [1.5, np.float64(1.5), np.float32(1.5), np.float16(1.5)])
def test_a_fraction_beside_integers_is_no_integer(number):
    x = relay.var("x", shape=(3,), dtype="int32")
    for body in (x + number, number * x):
        with pytest.raises(tvm.TVMError, match="both operands must have the same element type"):
            relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], body)))


def test_several_results_are_the_body_of_a_function():
    x = relay.var("x", shape=(4,))
    function = relay.Function([x], relay.split(x, 2))
    assert isinstance(function.body, relay.Call)
    halves = relay.create_executor("graph", tvm.IRModule.from_expr(function), target="llvm").evaluate()(
        np.arange(4, dtype="float32")
    )
    assert [h.numpy().tolist() for h in halves] == [[0, 1], [2, 3]]


@pytest.mark.parametrize("as_array", [np.asarray, tvm.nd.array], ids=["numpy", "ndarray"])
def test_parameters_given_as_bits_of_bfloat16(as_array):
    x, w = (relay.var(name, shape=(3,), dtype="bfloat16") for name in "xw")
    mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.multiply(x, w)))
    bits = (np.array([1.0, 2.5, -3.0], "float32").view("uint32") >> 16).astype("uint16")
    built = relay.build(mod, "llvm", params={"w": as_array(bits)})
    executor = tvm.contrib.graph_executor.GraphModule(built["default"](tvm.cpu()))
    executor.run(x=np.array([2, 2, 2]))
    got = executor.get_output(0)
    assert got.dtype == "bfloat16" and got.numpy().astype("float32").tolist() == [2.0, 5.0, -6.0]


@pytest.mark.parametrize("apply", [operator.add, operator.sub, operator.truediv, operator.lt, operator.ge])
@pytest.mark.parametrize("number", [np.float32(2), np.float64(2), np.int64(2)])
def test_numpy_scalars_on_the_left_count_as_python_numbers(apply, number):
    x = relay.var("x", shape=(3,), dtype="float32")
    assert tvm.ir.structural_equal(apply(number, x), apply(number.item(), x), map_free_vars=True)

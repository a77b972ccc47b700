"""The operators of explicit memory and of programs for the virtual machine."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.relay.op import memory, vm


def inferred(e):
    mod = tvm.IRModule.from_expr(e)
    mod.import_from_std("core.rly")
    return relay.transform.InferType()(mod)["main"].body.checked_type


def storage():
    return memory.alloc_storage(relay.const(24, "int64"), relay.const(64, "int64"), tvm.cuda(), "float16")


def test_a_tensor_in_storage_has_the_shape_that_is_given():
    made = storage()
    assert (made.op.name, made.attrs.dtype, made.attrs.device) == ("memory.alloc_storage", "float16", "cuda(0)")
    assert made.attrs.virtual_device.device_type_int == 2
    tensor = memory.alloc_tensor(made, relay.const(0), relay.const(np.array([2, 3]), "int64"), "float16")
    assert inferred(tensor) == relay.TensorType((2, 3), "float16")
    shape = relay.var("n", shape=(2,), dtype="int64")
    assert inferred(memory.alloc_tensor(made, relay.const(0), shape, assert_shape=[4, 5])) == relay.TensorType((4, 5))
    assert inferred(memory.kill(tensor)) == relay.TupleType([])


def test_wrong_operands_of_memory_are_rejected():
    x = relay.var("x", shape=(2,))
    with pytest.raises(tvm.TVMError, match="size must be an integer scalar"):
        inferred(memory.alloc_storage(x, relay.const(64, "int64"), "cpu"))
    with pytest.raises(tvm.TVMError, match="storage must be of type Storage"):
        inferred(memory.alloc_tensor(x, relay.const(0), relay.const(np.array([2]), "int64")))
    with pytest.raises(tvm.TVMError, match=r"the shape is computed at run time; give assert_shape"):
        memory.alloc_tensor(storage(), relay.const(0), relay.var("n", shape=(1,), dtype="int64"))
    with pytest.raises(tvm.TVMError, match="shape must be a tensor of integers"):
        inferred(vm.reshape_tensor(x, x, [2]))


@pytest.mark.parametrize(
    "make",
    [
        storage,
        lambda: memory.kill(relay.var("x", shape=(2,))),
        lambda: vm.invoke_tvm_op(relay.Function([], relay.const(1.0)), relay.Tuple([]), relay.Tuple([])),
        lambda: vm.shape_func(relay.Function([], relay.const(1.0)), relay.Tuple([]), relay.Tuple([]), []),
    ],
    ids=["memory.alloc_storage", "memory.kill", "vm.invoke_tvm_op", "vm.shape_func"],
)
def test_explicit_memory_is_not_compiled(make, request):
    call = make()
    name = request.node.callspec.id
    mod = tvm.IRModule.from_expr(call)
    mod.import_from_std("core.rly")
    with pytest.raises(tvm.TVMError, match=f"{name} cannot be compiled: memory is planned in the compiled program"):
        relay.vm.compile(mod, "llvm")


def test_shapes_and_reshapes_are_compiled():
    x = relay.var("x", shape=(relay.Any(), 3))
    data = np.arange(12, dtype="float32").reshape(4, 3)
    shape = relay.create_executor("vm", tvm.IRModule.from_expr(vm.shape_of(x)), target="llvm").evaluate()(data)
    assert shape.numpy().tolist() == [4, 3] and shape.dtype == "int64"
    y = relay.var("y", shape=(4, 3))
    made = vm.reshape_tensor(y, relay.const(np.array([2, 6]), "int64"), [2, 6])
    got = relay.create_executor("vm", tvm.IRModule.from_expr(made), target="llvm").evaluate()(data).numpy()
    np.testing.assert_array_equal(got, data.reshape(2, 6))


def test_tuples_are_taken_apart_in_order():
    a, b, c = (relay.TensorType((n,)) for n in (1, 2, 3))
    nested = relay.TupleType([a, relay.TupleType([b, c])])
    assert memory.flatten_tuple_type(nested) == [a, b, c] and memory.flatten_tuple_type(a) == [a]
    x = relay.var("x", nested)
    parts = memory.from_tuple_type(nested, x)
    for part, wanted in zip(parts, (x_0(x), relay.TupleGetItem(x_1(x), 0), relay.TupleGetItem(x_1(x), 1))):
        assert tvm.ir.structural_equal(part, wanted, map_free_vars=True)
    assert tvm.ir.structural_equal(memory.to_tuple_type(nested, parts),
                                   relay.Tuple([parts[0], relay.Tuple(parts[1:])]), map_free_vars=True)  # fmt: skip
    with pytest.raises(tvm.TVMError, match="requires 3 tensors, got 2"):
        memory.to_tuple_type(nested, parts[:2])
    with pytest.raises(tvm.TVMError, match="neither a tensor nor a tuple"):
        memory.flatten_tuple_type(relay.FuncType([a], b))


def x_0(x):
    return relay.TupleGetItem(x, 0)


def x_1(x):
    return relay.TupleGetItem(x, 1)

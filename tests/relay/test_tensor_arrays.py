"""Arrays of tensors in the prelude, of any rank and of one shape."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.relay.interpreter import ConstructorValue
from tvm.relay.prelude import Prelude, StaticTensorArrayOps, TensorArrayOps, get_tensor_array_shape

rng = np.random.default_rng(31)
ANY = relay.Any()


def numbers(*shape):
    return rng.uniform(0, 8, shape).astype("float32")


def tensors(value, nil: int = -1) -> list:
    """The tensors of an array, or of one; None for one that is not written."""
    if isinstance(value, tvm.nd.NDArray):
        return [value.numpy()]
    if isinstance(value, ConstructorValue):
        name = value.constructor.name_hint
        if name == "Cons":
            return tensors(value.fields[0]) + tensors(value.fields[1])
        return [] if name == "Nil" else [None] if "nil" in name else [value.fields[0].numpy()]
    if not len(value):
        return [None] if value.tag == nil else []
    return [t for part in value for t in tensors(part, nil)]


class Arrays:
    """A prelude, and its names of one kind of tensor arrays."""

    def __init__(self, shape=None, dtype="float32"):
        self.prelude = Prelude()
        self.mod = self.prelude.mod
        if shape is None:
            self.get = lambda name: self.prelude.get_global_var(name, dtype)
            self.make = lambda rank: self.prelude.get_tensor_ctor(f"tensor{rank}", dtype)
            self.nil = self.prelude.get_tensor_ctor("tensor_nil", dtype).tag
        else:
            StaticTensorArrayOps(self.prelude, dtype, shape).register()
            self.get = lambda name: self.prelude.get_global_var_static(name, dtype, shape)
            self.make = lambda rank: self.prelude.get_tensor_ctor_static("tensor_constructor", dtype, shape)
            self.nil = self.prelude.get_tensor_ctor_static("tensor_nil", dtype, shape).tag

    def filled(self, variables, rank):
        array = self.get("tensor_array")(relay.const(len(variables)))
        for i, v in enumerate(variables):
            array = self.get("tensor_array_write")(array, relay.const(i), self.make(rank)(v))
        return array

    def check(self, variables, body, wanted, *arguments, kinds=("debug",)):
        self.mod["main"] = relay.Function(variables, body)
        for kind in kinds:
            run = relay.create_executor(kind, self.mod, tvm.cpu(), "llvm").evaluate()
            got = tensors(run(*arguments), self.nil)
            assert len(got) == len(wanted)
            for one, other in zip(got, wanted):
                assert (one is None) == (other is None)
                if one is not None:
                    np.testing.assert_allclose(one, other, rtol=1e-6)


def variables(names: str):
    return [relay.var(n) for n in names.split()]


BOTH = pytest.mark.parametrize("shape", [None, (2, 3), (ANY, 3)], ids=str)
# What a test compiles for the virtual machine takes seconds.
KINDS = ("debug", "vm")


def test_a_new_array_is_empty():
    arrays = Arrays(dtype="int32")
    n, i = variables("n i")
    arrays.check([n], arrays.get("tensor_array")(n), [None] * 5, 5, kinds=KINDS)
    arrays.check([n, i], arrays.get("tensor_array_read")(arrays.get("tensor_array")(n), i), [None], 5, 1)


@BOTH
def test_what_is_written_is_read(shape):
    arrays = Arrays(shape)
    a, b, i = variables("a b i")
    data = numbers(2, 3), numbers(2, 3)
    arrays.check([a, b], arrays.filled([a, b], 2), data, *data, kinds=KINDS if shape is None else ("debug",))
    for place in (0, 1):
        read = arrays.get("tensor_array_read")(arrays.filled([a, b], 2), i)
        arrays.check([a, b, i], read, [data[place]], *data, place)


@BOTH
def test_arrays_are_stacked_joined_and_gathered(shape):
    arrays = Arrays(shape)
    a, b, i = variables("a b i")
    data = numbers(2, 3), numbers(2, 3)
    made = arrays.filled([a, b], 2)
    arrays.check([a, b], arrays.get("tensor_array_stack")(made), [np.stack(data)], *data)
    arrays.check([a, b], arrays.get("tensor_array_concat")(made), [np.concatenate(data)], *data)
    order = np.array([1, 0, 1], "int32")
    arrays.check([a, b, i], arrays.get("tensor_array_gather")(made, i), [np.stack(data)[order]], *data, order)


@BOTH
def test_tensors_are_scattered(shape):
    arrays = Arrays(shape)
    *names, i = variables("a b c d i")
    data = [numbers(2, 3) for _ in names]
    made = arrays.get("tensor_array_scatter")(arrays.filled(names[:2], 2), i, arrays.filled(names[2:], 2))
    arrays.check([*names, i], made, [data[3], data[2]], *data, np.array([1, 0], "int32"))


@pytest.mark.parametrize("shape", [None, (4, 3), (ANY, 3)], ids=str)
def test_a_tensor_is_split_into_an_array(shape):
    arrays = Arrays(shape)
    n, x, sizes = variables("n x sizes")
    data = numbers(4, 3)
    if shape is None:
        empty = arrays.get("tensor_array")(n)
    else:
        parts = StaticTensorArrayOps(arrays.prelude, "float32", [ANY, 3])
        parts.define_tensor_array()
        empty = parts.get_global_var("tensor_array")(n)
        arrays.nil = parts.get_ctor("tensor_nil").tag
    made = arrays.get("tensor_array_split")(empty, arrays.make(2)(x), sizes)
    arrays.check([n, x, sizes], made, [data[:1], data[1:], None], 3, data, np.array([1, 3], "int32"))


@pytest.mark.parametrize("shape", [None, (5, 3), (ANY, 3)], ids=str)
def test_parts_of_tensors(shape):
    arrays = Arrays(shape)
    x, y, lower, upper = variables("x y lower upper")
    data, other = numbers(5, 3), numbers(5, 3)
    make = arrays.make(2)
    arrays.check([x, lower, upper], arrays.get("tensor_take")(make(x), lower, upper), [data[1:4]], data, 1, 4)
    arrays.check([x], arrays.get("tensor_expand_dims")(make(x)), [data[None]], data)
    both = arrays.get("tensor_concatenate")(make(x), make(y))
    arrays.check([x, y], both, [np.concatenate([data, other])], data, other)
    unstack = "tensor_array_unstack_tensor2" if shape is None else "tensor_array_unstack"
    arrays.check([x], arrays.get(unstack)(x), list(data), data)
    if shape is not None:
        arrays.check([x], arrays.get("tensor_get_data")(make(x)), [data], data)


def test_scalars_have_no_rows():
    arrays = Arrays(())
    a, b = variables("a b")
    arrays.check([a, b], arrays.get("tensor_array_stack")(arrays.filled([a, b], 0)), [np.float32([3, 7])], 3.0, 7.0)
    with pytest.raises(ValueError, match="tensor_take_float32_scalar"):
        arrays.get("tensor_take")


def test_an_array_of_one_tensor_stacks_to_a_batch_of_one():
    prelude = Prelude()
    ops = StaticTensorArrayOps(prelude, "float32", [3], batch_dim=1)
    ops.register()
    assert ops.get_name("tensor_array_stack") == "tensor_array_stack_float32_batch1_3"
    stack = prelude.mod[ops.get_global_var("tensor_array_stack")]
    assert stack.ret_type == prelude.get_type_static("tensor_t", "float32", [1, 3])()


def test_shapes_of_other_operands_are_in_the_name():
    prelude = Prelude()
    ops = StaticTensorArrayOps(prelude, "float32", [4, 3])
    ops.register()
    ops.define_tensor_array_scatter([2], True)
    ops.define_tensor_array_split([4, 3], [2], True)
    scatter = prelude.mod["tensor_array_scatter_float32_4_3_indices_2"]
    split = prelude.mod["tensor_array_split_float32_4_3_value_4_3_lengths_2"]
    assert str(scatter.params[1].type_annotation) == str(split.params[2].type_annotation) == "Tensor[(2), int32]"
    ops.define_tensor_array_split([4, 3], [2], True)
    assert prelude.mod["tensor_array_split_float32_4_3_value_4_3_lengths_2"] is not split


def test_names_and_shapes():
    prelude = Prelude()
    assert not any("tensor" in v.name_hint for v in prelude.mod.functions)
    assert prelude.get_name("tensor_t", "int8") == "tensor_int8_t"
    assert prelude.get_name_static("tensor_t", "int8", [ANY, 3]) == "static_tensor_int8_any_3_t"
    TensorArrayOps(prelude, "float32").register()
    assert len(prelude.mod.get_type("tensor_float32_t")) == 9
    assert TensorArrayOps(prelude, "float32").get_type("tensor_t") == prelude.get_type("tensor_t", "float32")
    with pytest.raises(ValueError, match="tensor7_float32"):
        prelude.get_tensor_ctor("tensor7", "float32")
    one = relay.const(1)
    assert get_tensor_array_shape(prelude.get_global_var("tensor_array", "float32")(one), "float32", prelude) is None
    for shape in ([], [2, 3], [ANY, 3]):
        StaticTensorArrayOps(prelude, "float32", shape).register()
        made = prelude.get_global_var_static("tensor_array", "float32", shape)(one)
        found = get_tensor_array_shape(made, "float32", prelude)
        assert [str(n) for n in found] == [str(n) for n in shape]
    with pytest.raises(TypeError, match="expected an array of float32 tensors"):
        get_tensor_array_shape(one, "float32", prelude)


def test_values_of_data_types_have_arrays_as_results_do():
    prelude = Prelude()
    x = relay.var("x", shape=(2,))
    _, cons, nil = prelude.mod.get_type("List")
    prelude.mod["main"] = relay.Function([x], cons(x, nil()))
    value = relay.create_executor("debug", prelude.mod).evaluate()(np.ones(2, "float32"))
    assert isinstance(value.fields[0], tvm.nd.NDArray)
    xs = relay.var("xs", prelude.mod.get_global_type_var("List")(x.type_annotation))
    prelude.mod["main"] = relay.Function([xs], prelude.get_global_var("hd")(xs))
    got = relay.create_executor("debug", prelude.mod).evaluate()(value)
    np.testing.assert_array_equal(got.numpy(), np.ones(2, "float32"))

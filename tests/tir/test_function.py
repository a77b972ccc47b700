"""Specialisation of functions, tensor intrinsics and index maps."""

import numpy as np
import pytest

import tvm
from tvm import tir
from tvm.ir.prim import Range
from tvm.ir.structural import structural_equal
from tvm.tir import IndexMap

i, m, n = (tir.Var(s, "int32") for s in "imn")


def scale(shape, dtype="float32", extra=()):
    a = tir.decl_buffer(shape, dtype, "A")
    h = tir.Var("a", "handle")
    flat = a.get_flattened_buffer()
    extent = tir.const(1)
    for s in shape:
        extent = extent * s
    body = tir.For(i, 0, extent, 0, tir.BufferStore(flat, flat[i] * 2, [i]))
    return tir.PrimFunc([h, *extra], body, None, {h: a}, {"global_symbol": "scale"}), h


def test_specialize_by_buffer_fixes_its_shape():
    func, h = scale((m, n))
    out = func.specialize({h: tir.decl_buffer((4, 8), name="X")})
    assert [s.value for s in out.buffer_map[h].shape] == [4, 8] and out.body.extent.value == 32
    assert out.body.body.buffer.shape[0].value == 32 and out.params == (h,)
    assert func.body.extent is not out.body.extent


def test_specialize_by_value_removes_the_parameter():
    func, h = scale((m, 8), extra=(m,))
    out = func.specialize({m: 3})
    assert out.params == (h,) and out.buffer_map[h].shape[0].value == 3 and out.body.extent.value == 24


def test_specialize_by_expression():
    func, h = scale((m,), extra=(m,))
    k = tir.Var("k", "int32")
    assert str(func.specialize({m: k * 2}).body.extent) == "k * 2"


@pytest.mark.parametrize(
    "shape,given,message",
    [
        ((4, n), lambda: tir.decl_buffer((5, 8), name="X"), "dimension 0 of buffer 'A' is 4, but 5"),
        ((n, n), lambda: tir.decl_buffer((4, 8), name="X"), "dimension 1 of buffer 'A' is 4, but 8"),
        ((4, n), lambda: tir.decl_buffer((4,), name="X"), "2 dimensions, but X has 1"),
        ((4, n), lambda: tir.decl_buffer((4, 4), "int8", name="X"), "has type float32, but X has type int8"),
        ((4, n), lambda: 3, "'a' is a buffer"),
    ],
)
def test_specialize_refuses_what_does_not_fit(shape, given, message):
    func, h = scale(shape)
    with pytest.raises(ValueError, match=message):
        func.specialize({h: given()})


def test_specialize_refuses_a_variable_that_is_no_parameter():
    func, _ = scale((m,))
    with pytest.raises(ValueError, match="'n' is not a parameter; the parameters are a"):
        func.specialize({n: 3})


def test_buffer_parameters_make_handles():
    a = tir.decl_buffer((4,), name="A")
    func = tir.PrimFunc([a, n], tir.Evaluate(0))
    assert func.buffer_map[func.params[0]] is a and func.params[0].dtype == "handle"
    assert [t.dtype for t in func.checked_type.arg_types] == ["handle", "int32"]
    with pytest.raises(TypeError, match="Var or a Buffer"):
        tir.PrimFunc([3], tir.Evaluate(0))


def test_tensor_intrinsics_are_found_by_name():
    func, _ = scale((4,))
    tir.TensorIntrin.register("test.scale4", func, func, override=True)
    assert tir.TensorIntrin.get("test.scale4").desc is func
    assert tir.TensorIntrin.get("test.none", allow_missing=True) is None
    with pytest.raises(ValueError, match="test.none"):
        tir.TensorIntrin.get("test.none")
    with pytest.raises(ValueError, match="already registered"):
        tir.TensorIntrin.register("test.scale4", func, func)
    with pytest.raises(ValueError, match="1 parameters"):
        tir.TensorIntrin(func, scale((m,), extra=(m,))[0])


def test_index_map_of_a_function():
    index_map = IndexMap.from_func(lambda i, j: [j // 4, i, j % 4])
    assert [str(e) for e in index_map.map_indices([1, 6])] == ["T.int64(1)", "T.int64(1)", "T.int64(2)"]
    assert [int(s) for s in index_map.map_shape([3, 16])] == [4, 3, 4]
    assert [int(s) for s in index_map.map_shape([3, 3])] == [1, 3, 4]
    kinds = [e.dtype for e in index_map.map_indices([tir.const(1, "int32"), tir.const(6, "int64")])]
    assert kinds == ["int64", "int32", "int64"]
    assert str(index_map) == "index_map(lambda i, j: (j // T.int64(4), i, j % T.int64(4)))"


def test_index_map_of_variable_arguments():
    index_map = IndexMap.from_func(lambda n, *rest: [*rest, n], ndim=3, index_dtype="int32")
    assert [v.name for v in index_map.initial_indices] == ["n", "rest_0", "rest_1"]
    with pytest.raises(ValueError, match="give ndim"):
        IndexMap.from_func(lambda *rest: rest)
    with pytest.raises(ValueError, match="takes 2 indices, not 3"):
        IndexMap.from_func(lambda a, b: [b, a], ndim=3)


def test_axis_separators():
    index_map, separators = IndexMap.from_func_with_separators(
        lambda i, j, k: [i, IndexMap.AXIS_SEPARATOR, j, k], index_dtype="int32"
    )
    assert separators == [1] and len(index_map.final_indices) == 3
    with pytest.raises(ValueError, match="separators"):
        IndexMap.from_func(lambda i, j: [i, IndexMap.AXIS_SEPARATOR, j])


def test_map_ndarray_is_a_transpose():
    source = np.arange(24).reshape(4, 6)
    got = IndexMap.from_func(lambda i, j: [j // 3, i, j % 3]).map_ndarray(source)
    np.testing.assert_array_equal(got, source.reshape(4, 2, 3).transpose(1, 0, 2))


def test_equivalence():
    split = IndexMap.from_func(lambda i: [i // 4, i % 4])
    assert split.is_equivalent_to(IndexMap.from_func(lambda j: [j // 4, j - j // 4 * 4]))
    assert not split.is_equivalent_to(IndexMap.from_func(lambda j: [j % 4, j // 4]))


def all_points(shape):
    return np.stack(np.meshgrid(*(np.arange(s) for s in shape), indexing="ij"), -1).reshape(-1, len(shape))


def check_inverse(forward, inverse, shape):
    for point in all_points(shape):
        there = forward.map_indices([int(p) for p in point])
        assert [int(e) for e in inverse.map_indices(there)] == point.tolist()


@pytest.mark.parametrize(
    "function,shape",
    [
        (lambda i, j: [j, i], (3, 5)),
        (lambda i: [i // 4, i % 4], (16,)),
        (lambda i, j: [i // 2, j // 4, i % 2, j % 4], (4, 8)),
        (lambda i, j: [i * 8 + j], (3, 8)),
        (lambda i, j, k: [(i * 4 + j) // 2, k, (i * 4 + j) % 2], (2, 4, 3)),
    ],
)
def test_inverse(function, shape):
    forward = IndexMap.from_func(function)
    check_inverse(forward, forward.inverse(shape), shape)


def test_inverse_of_what_is_not_bijective_is_refused():
    with pytest.raises(ValueError, match="not bijective"):
        IndexMap.from_func(lambda i: [i // 4, i % 4]).inverse([14])


@pytest.mark.parametrize(
    "function,shape", [(lambda i: [i // 4, i % 4], (14,)), (lambda i: [(i + 1) // 4, (i + 1) % 4], (14,))]
)
def test_non_surjective_inverse_marks_padding(function, shape):
    forward = IndexMap.from_func(function)
    inverse, padding = forward.non_surjective_inverse(shape)
    check_inverse(forward, inverse, shape)
    used = {tuple(int(e) for e in forward.map_indices([int(p) for p in point])) for point in all_points(shape)}
    for point in all_points((4, 4)):
        marked = tir.stmt_functor.substitute(padding, dict(zip(inverse.initial_indices, map(int, point))))
        from tvm.arith import Analyzer

        value = Analyzer().simplify(marked)
        assert bool(value.value) == (tuple(point.tolist()) not in used)


def test_given_inverse_is_used():
    index_map = IndexMap.from_func(lambda i: [i * 3 % 7], inverse_index_map=lambda j: [j * 5 % 7])
    check_inverse(index_map, index_map.inverse([7]), (7,))
    assert structural_equal(index_map, index_map)
    assert Range(0, 3).extent.value == 3


def test_integer_attributes_are_numbers_with_a_value():
    func = tir.PrimFunc([], tir.Evaluate(0)).with_attr({"calling_conv": 1, "tir.noalias": True})
    assert func.attrs["calling_conv"].value == 1 and func.attrs["calling_conv"] == 1
    assert tvm.ir.structural_equal(tvm.ir.load_json(tvm.ir.save_json(func)), func)

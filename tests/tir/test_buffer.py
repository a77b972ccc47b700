"""Buffers: declaration, access, pointers, offsets."""

import numpy as np
import pytest

from tvm import tir
from tvm.error import TVMError
from tvm.ir.structural import structural_equal
from tvm.tir import Buffer, decl_buffer, indexdiv, indexmod

m, n, s, k0, k1 = (tir.SizeVar(x, "int32") for x in ("m", "n", "s", "k0", "k1"))
i = tir.Var("i", "int32")


def test_declaration_defaults():
    b = decl_buffer((m, n), "float32", "B")
    assert b.shape == (m, n) and b.ndim == 2 and b.scope() == "global" and b.data.dtype == "handle"
    assert (b.data_alignment, b.offset_factor, b.elem_offset.value, b.strides) == (64, 1, 0, ())
    assert decl_buffer(5).shape[0].value == 5 and decl_buffer((4,), scope="shared").scope() == "shared"
    broadcast = decl_buffer((m, n), buffer_type="auto_broadcast")
    assert len(broadcast.strides) == 2
    assert decl_buffer((4,), offset_factor=8).elem_offset.name.endswith("elem_offset")


def test_access_pointer():
    b = decl_buffer((m, n), strides=[n + 1, 1])
    p = b.access_ptr("rw")
    assert structural_equal(p.args[3], b.strides[0] * m) and p.args[0].dtype == "float32"
    assert p.args[4].value == Buffer.READ | Buffer.WRITE and b.access_ptr("w").args[4].value == Buffer.WRITE
    assert structural_equal(b.access_ptr("r", offset=100).args[3], b.strides[0] * m - 100)
    dense = decl_buffer((m, n))
    assert structural_equal(dense.access_ptr("r", offset=100).args[3], m * n - 100)
    assert structural_equal(dense.access_ptr("r", offset=i + 200).args[2], i + 200)
    assert dense.access_ptr("r", extent=7).args[3].value == 7
    with pytest.raises(ValueError, match="unknown access mode 'x'"):
        dense.access_ptr("x")


def test_flat_offset_matches_numpy_strides():
    shape, strides = (3, 4, 5), (40, 7, 1)
    b = decl_buffer(shape, strides=strides, elem_offset=11)
    dense = decl_buffer(shape)
    for index in np.ndindex(shape):
        assert b.offset_of(index)[0].value == 11 + int(np.dot(index, strides))
        assert dense.offset_of(index)[0].value == np.ravel_multi_index(index, shape)


def test_offset_of_a_split_index_put_together_is_the_index():
    strided = decl_buffer((m, n), strides=(s, 1))
    inner = indexmod(k0, k1)
    got = strided.offset_of((indexdiv(inner, s), indexmod(inner, s) + indexdiv(k0, k1) * k1))
    assert structural_equal(got, strided.offset_of((0, k0)))
    dense = decl_buffer((m, n))
    part = indexmod(k0, indexdiv(k1, s))
    got = dense.offset_of((indexdiv(part, n), indexmod(part, n) + indexmod(k0, k1)))
    assert structural_equal(got, dense.offset_of((0, indexmod(k0, k1) + part)))
    whole = indexdiv(k0, indexdiv(k1, s)) * indexdiv(k1, s)
    got = dense.offset_of((indexdiv(whole, n) + indexdiv(part, n), indexmod(whole, n) + indexmod(part, n)))
    assert structural_equal(got, dense.offset_of((0, k0)))
    other = (indexdiv(part, n), indexmod(indexmod(k0, indexdiv(k1, n)), n))
    assert structural_equal(dense.offset_of(other)[0], other[0] * n + other[1])


def test_vector_access():
    b = decl_buffer((8, 16), name="B")
    assert str(b.vload((2, 4), "float32x4")) == "B[2, 4:8]"
    assert str(b.vstore((2, 4), tir.Broadcast(1.0, 4)).indices[1]) == "T.Ramp(4, 1, 4)"
    assert b.vload((0, 0)).dtype == "float32"
    with pytest.raises(TypeError, match="B has elements of type float32 and cannot be accessed as int32x4"):
        b.vload((0, 0), "int32x4")


def test_slices_are_regions_or_vectors():
    b = decl_buffer((8, 16), name="B")
    assert str(b[i : i + 4, 3]) == "B[i:i + 4, 3]" and b[i : i + 4, 3].region[0].extent.value == 4
    assert str(b[1, :]) == "B[1, 0:16]"
    load = b[2, i * 4 : i * 4 + 4 : 1]
    assert load.dtype == "float32x4" and str(load) == "B[2, i * 4:i * 4 + 4]"
    with pytest.raises(ValueError, match="no constant length"):
        b[0, 0:i:1]


def test_flattened_buffer():
    assert decl_buffer((4, 8)).get_flattened_buffer().shape[0].value == 32
    assert decl_buffer((4, 8), strides=(16, 1)).get_flattened_buffer().shape[0].value == 3 * 16 + 8
    flat = decl_buffer((4,))
    assert flat.get_flattened_buffer() is flat
    parts = decl_buffer((2, 3, 4, 5), axis_separators=[1, 3]).get_flattened_buffer()
    assert [size.value for size in parts.shape] == [2, 12, 5] and list(parts.axis_separators) == [1, 2]


def test_offsets_are_simplified():
    assert structural_equal(decl_buffer((m, n), elem_offset=100).offset_of((2, 3)), [n * 2 + 103])


@pytest.mark.parametrize("indices", [[0], [0, 0, 0], []])
def test_a_load_has_an_index_for_each_dimension(indices):
    buffer = decl_buffer((1, 2), name="B")
    with pytest.raises(TVMError, match=f"Buffer B is 2-dimensional, cannot be indexed with {len(indices)} indices"):
        tir.BufferLoad(buffer, indices)

from __future__ import annotations

import gc

import ml_dtypes
import numpy as np
import pytest

from tvm import runtime
from tvm.error import TVMError
from tvm.runtime import ndarray as nd

NUMPY_TYPES = [
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "bool",
]
EXTENSION_TYPES = [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]


@pytest.mark.parametrize("dtype", [*NUMPY_TYPES, *EXTENSION_TYPES])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 0, 3), (2, 3, 4)])
def test_numpy_round_trip(dtype, shape):
    data = (np.arange(np.prod(shape, dtype=int)) % 2).reshape(shape).astype(dtype)
    array = nd.array(data)
    assert array.shape == shape
    back = array.numpy()
    assert back.dtype == data.dtype and back.shape == shape
    np.testing.assert_array_equal(back.astype("float64"), data.astype("float64"))


def test_dtype_names():
    names = {"bool": "bool", "float16": "float16", "int64": "int64"}
    assert {name: nd.empty((1,), name).dtype for name in names} == names
    assert nd.array(np.zeros(1, ml_dtypes.bfloat16)).dtype == "bfloat16"
    assert nd.array(np.zeros(1, ml_dtypes.float8_e4m3fn)).dtype == "e4m3_float8"
    assert nd.empty((1,), np.float32).dtype == nd.empty((1,), np.dtype("float32")).dtype == "float32"
    assert nd.empty((1,), "uint1").dtype == "bool"


def test_lists_and_numbers_become_arrays():
    assert nd.array([1, 2, 3]).dtype == "int64"
    assert nd.array([1.0]).dtype == "float64"
    assert nd.array(3.5).shape == ()
    with pytest.raises(TypeError, match="to an NDArray"):
        nd.array("text")


@pytest.mark.parametrize(
    "view", [lambda x: x[::2], lambda x: x.T, lambda x: x[::-1, 1:], lambda x: np.broadcast_to(x[0], (3, 6))]
)
def test_any_numpy_layout_is_copied_right(view):
    data = view(np.arange(24, dtype="float32").reshape(4, 6))
    np.testing.assert_array_equal(nd.array(data).numpy(), data)


def test_vector_lanes_are_a_last_dimension():
    array = nd.empty((3,), "float32x4")
    data = np.arange(12, dtype="float32").reshape(3, 4)
    array.copyfrom(data)
    assert array.shape == (3,)
    np.testing.assert_array_equal(array.numpy(), data)


@pytest.mark.parametrize("shape", [(), (1,), (3, 5)])
def test_copyfrom_takes_uint16_as_the_bits_of_bfloat16(shape):
    values = np.random.default_rng(0).normal(size=shape).astype(ml_dtypes.bfloat16)
    bits = np.asarray(values).view("uint16")
    assert np.array_equal(nd.empty(shape, "bfloat16").copyfrom(bits).numpy(), values)
    # Integers of other widths are numbers.
    assert float(nd.empty((), "bfloat16").copyfrom(np.int32(3)).numpy()) == 3.0


def test_copyfrom_converts_and_checks():
    array = nd.empty((2, 2), "float32")
    array.copyfrom(np.ones((2, 2), "float64"))
    array[:] = [[1, 2], [3, 4]]
    np.testing.assert_array_equal(array.numpy(), [[1, 2], [3, 4]])
    array[:] = 7
    np.testing.assert_array_equal(array.numpy(), np.full((2, 2), 7))
    with pytest.raises(ValueError, match=r"the array has shape \(2, 2\), but the source has shape \(4,\)"):
        array.copyfrom(np.zeros(4))
    with pytest.raises(ValueError, match="assigned as a whole"):
        array[0] = 1
    with pytest.raises(TypeError, match="to an array of float32"):
        array.copyfrom("text")


def test_copyto_array_and_device():
    a = nd.array(np.arange(6).reshape(2, 3))
    b = a.copyto(runtime.cpu(0))
    assert not b.same_as(a) and b.device == runtime.cpu(0)
    c = nd.empty((2, 3), "int64")
    assert a.copyto(c) is c
    np.testing.assert_array_equal(c.numpy(), a.numpy())
    with pytest.raises(TVMError, match="the source has type int64, but the destination has type int32"):
        a.copyto(nd.empty((2, 3), "int32"))
    with pytest.raises(TVMError, match="48 bytes, but the destination has 16"):
        a.copyto(nd.empty((2,), "int64"))
    with pytest.raises(ValueError, match="expected an NDArray or a Device"):
        a.copyto(3)


def test_views_share_memory():
    a = nd.array(np.arange(6, dtype="float32"))
    view = a.reshape(2, -1)
    a[:] = np.zeros(6)
    np.testing.assert_array_equal(view.numpy(), np.zeros((2, 3)))
    with pytest.raises((ValueError, TVMError), match="do not fit in an array of 24 bytes"):
        a.reshape(4, 2)


def test_impossible_arrays_are_refused():
    with pytest.raises(TVMError, match=r"shape\[0\] is negative"):
        nd.empty((-1,))
    with pytest.raises(TVMError, match="does not fit in memory"):
        nd.empty((1 << 40, 1 << 40))
    with pytest.raises(ValueError, match="unknown data type"):
        nd.empty((1,), "floaty")
    with pytest.raises(TVMError, match="memory scope"):
        nd.empty((1,), mem_scope="texture")


def test_device_without_driver_is_an_error_text():
    with pytest.raises(TVMError, match=r"rocm\(1\): this runtime has no driver"):
        nd.empty((1,), device=runtime.rocm(1))
    assert not runtime.rocm(0).exist and runtime.cpu(0).exist
    with pytest.raises(TVMError, match=r"metal\(0\): this runtime has no driver"):
        runtime.metal(0).sync()


def test_device_text_forms():
    assert runtime.device("llvm -mcpu=x", 0) == runtime.cpu(0)
    assert runtime.device("cuda:3") == runtime.cuda(3)
    assert runtime.device("cl", 1) == runtime.opencl(1) == runtime.device(4, 1)
    assert repr(runtime.cpu(2)) == "cpu(2)"
    assert repr(runtime.Device(2 + 128, 1)) == "remote[0]:cuda(1)"
    with pytest.raises(ValueError, match="unknown device type 'tpu'"):
        runtime.device("tpu")
    with pytest.raises(ValueError, match="not a device index"):
        runtime.device("cuda:x")


def test_text_and_indexing():
    a = nd.array(np.arange(3, dtype="int32"))
    assert str(a) == "[0 1 2]"
    assert repr(a).startswith("<tvm.nd.NDArray shape=(3,), cpu(0)>")
    assert a[1] == 1 and len(a) == 3
    assert np.asarray(a).tolist() == [0, 1, 2]
    assert a.handle.contents.ndim == 1


# ---- DLPack ----


@pytest.mark.parametrize("dtype", NUMPY_TYPES)
def test_numpy_memory_is_shared_both_ways(dtype):
    data = np.arange(6).reshape(2, 3).astype(dtype)
    array = nd.from_dlpack(data)
    data[:] = 1
    np.testing.assert_array_equal(array.numpy(), data)
    back = np.from_dlpack(array)
    assert back.dtype == data.dtype
    array[:] = np.zeros((2, 3))
    np.testing.assert_array_equal(back, np.zeros((2, 3)))
    np.testing.assert_array_equal(data, np.zeros((2, 3)))


def test_shared_memory_outlives_its_maker():
    array = nd.from_dlpack(np.arange(1000))
    gc.collect()
    assert array.numpy().sum() == 499500
    view = np.from_dlpack(nd.array(np.arange(1000)))
    gc.collect()
    assert view.sum() == 499500


def test_strided_numpy_is_shared_with_its_strides():
    data = np.arange(12, dtype="float32").reshape(3, 4)[:, ::2]
    array = nd.from_dlpack(data)
    assert array.strides == (4, 2)
    np.testing.assert_array_equal(array.numpy(), data)
    array[:] = np.zeros((3, 2))
    assert data.sum() == 0
    assert nd.array(array).strides is None


def test_capsules_are_taken_once():
    capsule = nd.array([1, 2]).to_dlpack()
    assert nd.from_dlpack(capsule).numpy().tolist() == [1, 2]
    with pytest.raises(ValueError, match="has not been consumed"):
        nd.from_dlpack(capsule)
    with pytest.raises(TypeError, match="is not a DLPack capsule"):
        nd.from_dlpack(3)


def test_untaken_capsule_frees_its_array():
    array = nd.array([1, 2])
    capsules = [array.to_dlpack(), array.__dlpack__(max_version=(1, 0))]
    count = runtime._lib.lib.TVMArrayUseCount
    assert count(array._tensor) == 3
    del capsules
    assert count(array._tensor) == 1


def test_torch_memory_is_shared_both_ways():
    torch = pytest.importorskip("torch")
    tensor = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    array = nd.from_dlpack(tensor)
    tensor[0, 0] = 9
    assert array.numpy()[0, 0] == 9
    back = torch.from_dlpack(array)
    array[:] = np.zeros((2, 3))
    assert back.sum() == 0


@pytest.mark.parametrize("dtype", [*NUMPY_TYPES, *EXTENSION_TYPES])
@pytest.mark.parametrize("shape, axes", [((1, 1), (1, 0)), ((63, 130), (1, 0)), ((129, 65), (1, 0)), ((70, 0), (1, 0)),
                                         ((130, 5, 3, 2), (2, 3, 1, 0)), ((3, 66, 7), (0, 2, 1)),
                                         ((2, 3, 129), (2, 0, 1)), ((), ())])  # fmt: skip
def test_arrays_are_made_of_elements_in_any_order(dtype, shape, axes):
    data = (np.arange(np.prod(shape, dtype=int)) % 101).reshape(shape).astype(dtype).transpose(axes)
    for given in (data, data[..., ::-1] if shape else data, np.broadcast_to(data, (2, *data.shape))):
        array = nd.array(given)
        assert array.shape == given.shape and array.strides is None
        np.testing.assert_array_equal(array.numpy(), given)


@pytest.mark.parametrize("axes", [(1, 0, 2), (2, 1, 0), (1, 2, 0)])
def test_large_arrays_are_made_of_elements_in_any_order(axes):
    """So large that threads share the work."""
    data = (np.arange(130 * 3 * 5500) % 2039).astype("float16").reshape(130, 3, 5500)
    assert data.nbytes > nd._MANY
    np.testing.assert_array_equal(nd.array(data.transpose(axes)).numpy(), data.transpose(axes))


def test_elements_converted_in_another_order():
    data = np.arange(70.0 * 3).reshape(70, 3)
    np.testing.assert_array_equal(nd.empty((3, 70), "float16").copyfrom(data.T).numpy(), data.T.astype("float16"))


@pytest.mark.parametrize("dtype", [*NUMPY_TYPES, *EXTENSION_TYPES, "float32x4"])
@pytest.mark.parametrize("shape", [(), (0, 2), (5,), (2, 3)])
def test_elements_are_read_where_they_lie(dtype, shape):
    array = nd.empty(shape, dtype)
    count = np.prod(array.numpy().shape, dtype=int)
    array.copyfrom((np.arange(count) % 2).reshape(array.numpy().shape).astype(array.numpy().dtype))
    seen = nd.elements(array)
    np.testing.assert_array_equal(seen, array.numpy())
    if count:
        with pytest.raises(ValueError, match="read-only"):
            seen[...] = 0
        assert seen.ctypes.data == array._read()[4]


def test_elements_keep_the_memory_of_their_array():
    seen = nd.elements(nd.array(np.arange(1000)))
    gc.collect()
    others = [nd.array(np.zeros(1000, "int64")) for _ in range(10)]
    assert seen.tolist() == list(range(1000)) and len(others) == 10


def test_elements_of_a_strided_array_are_a_copy():
    data = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(nd.elements(nd.from_dlpack(data.T)), data.T)

from __future__ import annotations

import struct
import tracemalloc

import ml_dtypes
import numpy as np
import pytest

from tvm import runtime
from tvm.error import TVMError
from tvm.runtime import ndarray as nd
from tvm.runtime import params

TYPES = ["int8", "int64", "uint16", "float16", "float32", "float64", "bool", ml_dtypes.bfloat16, ml_dtypes.float8_e5m2]


def sample() -> dict[str, np.ndarray]:
    arrays = {f"p{i}": (np.arange(6) % 2).reshape(2, 3).astype(dtype) for i, dtype in enumerate(TYPES)}
    return {**arrays, "scalar": np.array(2.5, "float32"), "empty": np.zeros((0, 3), "int32"), "\u00fc": np.ones(1)}


def test_round_trip_of_every_type(tmp_path):
    params = sample()
    path = tmp_path / "m.params"
    runtime.save_param_dict_to_file({name: nd.array(value) for name, value in params.items()}, path)
    for loaded in (runtime.load_param_dict(runtime.save_param_dict(params)), runtime.load_param_dict_from_file(path)):
        assert list(loaded) == list(params)
        for name, value in params.items():
            got = loaded[name].numpy()
            assert got.dtype == value.dtype and got.shape == value.shape
            np.testing.assert_array_equal(got.astype("float64"), value.astype("float64"))
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.params"]


def test_layout_is_the_classic_one():
    blob = runtime.save_param_dict({"w": np.array([[1.0, 2.0]], "float32")})
    expected = struct.pack("<QQQQ", 0xF7E58D4F05049CB7, 0, 1, 1) + b"w" + struct.pack("<Q", 1)
    expected += struct.pack("<QQiiiBBHqqq", 0xDD5E40F096B4A13F, 0, 1, 0, 2, 2, 32, 1, 1, 2, 8) + struct.pack(
        "<ff", 1, 2
    )
    assert bytes(blob) == expected


def test_truncated_files_are_refused(tmp_path):
    blob = bytes(runtime.save_param_dict({"w": np.arange(3.0)}))
    for size in range(len(blob)):
        with pytest.raises(TVMError, match="params: .*corrupt, truncated or not a parameter file"):
            runtime.load_param_dict(blob[:size])
    path = tmp_path / "cut.params"
    path.write_bytes(blob[:20])
    with pytest.raises(TVMError, match="cut.params: params: "):
        runtime.load_param_dict_from_file(path)


def test_impossible_sizes_allocate_nothing():
    blob = bytearray(runtime.save_param_dict({"w": np.arange(3.0)}))
    huge = 1 << 45
    struct.pack_into("<qq", blob, len(blob) - 24 - 16, huge, huge * 8)
    with pytest.raises(TVMError, match="truncated array data"):
        runtime.load_param_dict(blob)
    struct.pack_into("<Q", blob, 16, 1 << 60)
    with pytest.raises(TVMError, match="the number of names exceeds the file size"):
        runtime.load_param_dict(blob)


def test_random_damage_is_survived():
    seed = int(np.random.SeedSequence().entropy % (1 << 32))
    print("seed", seed)
    random = np.random.default_rng(seed)
    blob = bytes(runtime.save_param_dict(sample()))
    for _ in range(300):
        damaged = bytearray(blob)
        for at in random.integers(0, len(blob), 3):
            damaged[at] = random.integers(0, 256)
        try:
            runtime.load_param_dict(damaged)
        except TVMError as error:
            assert str(error)


@pytest.mark.parametrize("dtype", ["bfloat16", "float64", "float32", "bool"])
def test_packed_parameters_are_not_copies(dtype):
    arrays = {f"w{i}": nd.array(np.ones((256, 256), dtype)) for i in range(8)}
    size = sum(a.numpy().nbytes for a in arrays.values())
    list(params.pack_params(arrays, 0))  # what a first call imports
    tracemalloc.start()
    try:
        pieces = list(params.pack_params(arrays, 0))
        assert tracemalloc.get_traced_memory()[1] < size / 10
    finally:
        tracemalloc.stop()
    assert sum(map(len, pieces)) > size


def test_packed_parameters_of_numpy_keep_their_data():
    """The copy that an array of NumPy becomes lives as long as the piece on its memory."""
    pieces = list(params.pack_params({"a": np.arange(1000.0), "b": np.full(1000, 7.0)}))
    loaded = runtime.load_param_dict(b"".join(pieces))
    np.testing.assert_array_equal(loaded["a"].numpy(), np.arange(1000.0))
    np.testing.assert_array_equal(loaded["b"].numpy(), np.full(1000, 7.0))

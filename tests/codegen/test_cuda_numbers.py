"""What CUDA kernels compute, without a GPU: matrix units, copies beside the program, and lanes of a warp against NumPy,
on the emulator of ``tests/cuda_emulator``."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import tvm
from tests import cuda_emulator
from tests.codegen import gpu_programs as programs
from tests.cuda_emulator.marks import needs_emulator, undefined
from tvm import tir
from tvm.codegen.cuda import nvrtc
from tvm.error import TVMError

pytestmark = needs_emulator


def call(name: str, *args, dtype: str = "handle"):
    return tir.Call(dtype, tvm.ir.Op.get("tir." + name), args)


def run(arrays: dict[str, np.ndarray], body, threads: int = 32, arch: str = "sm_90") -> dict[str, np.ndarray]:
    """The arrays after one block has run ``body(builder, buffers by name, thread)``."""
    shapes = {name: (array.shape, str(array.dtype)) for name, array in arrays.items()}
    function = programs.by_hand(shapes, body, threads)
    return dict(zip(arrays, cuda_emulator.run(function, None, list(arrays.values()), arch)))


def numbers(rng: np.random.Generator, dtype: str, *shape: int) -> np.ndarray:
    """Small whole numbers: every sum of their products is exact in every type."""
    low = 0 if dtype.startswith("u") else -4
    return rng.integers(low, 5, shape).astype(getattr(ml_dtypes, dtype, dtype))


# Matrix units

# The manual's tables of fragments: the element (row, column) a lane of group g and number t in it holds as i-th.
TABLES = {
    ("m16n8k16", 16): (
        lambda g, t, i: (g if i < 2 or 4 <= i < 6 else g + 8, t * 2 + (i & 1) + (8 if i >= 4 else 0)),
        lambda g, t, i: (t * 2 + (i & 1) + (8 if i >= 2 else 0), g),
    ),
    ("m16n8k8", 16): (
        lambda g, t, i: (g if i < 2 else g + 8, t * 2 + (i & 1)),
        lambda g, t, i: (t * 2 + (i & 1), g),
    ),
    ("m16n8k8", 32): (
        lambda g, t, i: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4),
        lambda g, t, i: (t if i == 0 else t + 4, g),
    ),
    ("m16n8k4", 32): (lambda g, t, i: (g if i == 0 else g + 8, t), lambda g, t, i: (t, g)),
    ("m16n8k16", 8): (
        lambda g, t, i: (g if i < 4 else g + 8, t * 4 + (i & 3)),
        lambda g, t, i: (t * 4 + i, g),
    ),
    ("m16n8k32", 8): (
        lambda g, t, i: (g if i < 4 or 8 <= i < 12 else g + 8, t * 4 + (i & 3) + (16 if i >= 8 else 0)),
        lambda g, t, i: (t * 4 + (i & 3) + (16 if i >= 4 else 0), g),
    ),
    ("m8n8k16", 8): (lambda g, t, i: (g, t * 4 + i), lambda g, t, i: (t * 4 + i, g)),
    ("m8n8k4", 64): (lambda g, t, i: (g, t), lambda g, t, i: (t, g)),
}  # fmt: skip
NAMES = {"fp16": "float16", "bf16": "bfloat16", "tf32": "float32", "fp32": "float32", "fp64": "float64",
         "int8": "int8", "uint8": "uint8", "int32": "int32"}  # fmt: skip
PRODUCTS = [
    ("m16n8k16", "fp16", "fp16", "fp32"), ("m16n8k16", "bf16", "bf16", "fp32"), ("m16n8k16", "fp16", "fp16", "fp16"),
    ("m16n8k8", "fp16", "fp16", "fp32"), ("m16n8k8", "fp16", "fp16", "fp16"), ("m16n8k8", "bf16", "bf16", "fp32"),
    ("m16n8k8", "tf32", "tf32", "fp32"), ("m16n8k4", "tf32", "tf32", "fp32"), ("m16n8k16", "int8", "int8", "int32"),
    ("m16n8k32", "int8", "int8", "int32"), ("m16n8k32", "uint8", "int8", "int32"), ("m8n8k16", "int8", "int8", "int32"),
    ("m8n8k4", "fp64", "fp64", "fp64"),
]  # fmt: skip


def held(matrix: np.ndarray, place) -> np.ndarray:
    """Fragments of all lanes, one after the other."""
    count = matrix.size // 32
    spots = [place(lane >> 2, lane % 4, i) for lane in range(32) for i in range(count)]
    assert len(set(spots)) == matrix.size
    return np.array([matrix[spot] for spot in spots], matrix.dtype)


def sum_place(g: int, t: int, i: int) -> tuple[int, int]:
    return g + 8 * (i // 2), t * 2 + (i & 1)


@pytest.mark.parametrize("product", PRODUCTS, ids="-".join)
def test_matrices_multiply_as_the_manual_says(product, rng):
    shape, *kinds = product
    types = [NAMES[kind] for kind in kinds]
    m, n, k = (int(x) for x in shape[1:].replace("n", " ").replace("k", " ").split())
    a, b, c = (numbers(rng, t, *s) for t, s in zip(types, ((m, k), (k, n), (m, n))))
    places = TABLES[shape, a.dtype.itemsize * 8]
    arrays = {"a": held(a, places[0]), "b": held(b, places[1]), "c": held(c, sum_place)}

    def body(builder, buffers, thread):
        parts = {}
        for name, dtype in zip("abc", types):
            count = arrays[name].size // 32
            parts[name] = builder.allocate(dtype, (count,), f"part_{name}", scope="local")
            with builder.for_range(0, count, kind="unroll") as i:
                parts[name][i] = buffers[name][thread * count + i]
        data = [parts[name]._buffer.data for name in "abc"]
        builder.emit(tir.ptx_mma(types[2], shape, "row", "col", *kinds, data[0], 0, data[1], 0, data[2], 0, False))
        count = arrays["c"].size // 32
        with builder.for_range(0, count, kind="unroll") as i:
            buffers["c"][thread * count + i] = parts["c"][i]

    want = c.astype("float64") + a.astype("float64") @ b.astype("float64")
    np.testing.assert_array_equal(run(arrays, body)["c"].astype("float64"), held(want, sum_place))


@pytest.mark.parametrize(("count", "flip"), list(itertools.product((1, 2, 4), (False, True))))
def test_matrices_of_shared_memory_reach_the_lanes(count, flip, rng):
    x = rng.standard_normal((8 * count, 8)).astype("float16")

    def body(b, buffers, thread):
        shared = b.allocate("float16", (64 * count,), "shared", scope="shared")
        part = b.allocate("float16", (2 * count,), "part", scope="local")
        with b.for_range(0, 2 * count) as i:
            shared[thread * 2 * count + i] = buffers["x"][(thread * 2 * count + i) // 8, (thread * 2 * count + i) % 8]
        b.emit(tir.tvm_storage_sync("shared"))
        row = tir.floormod(thread, 8 * count) * 8
        b.emit(tir.ptx_ldmatrix("float16", flip, count, ".b16", part._buffer.data, 0, shared._buffer.data, row))
        with b.for_range(0, 2 * count, kind="unroll") as i:
            buffers["out"][thread, i] = part[i]

    got = run({"x": x, "out": np.zeros((32, 2 * count), "float16")}, body)["out"]
    for lane, matrix, i in itertools.product(range(32), range(count), range(2)):
        tile = x[8 * matrix : 8 * matrix + 8]
        want = (tile.T if flip else tile)[lane // 4, lane % 4 * 2 + i]
        assert got[lane, 2 * matrix + i] == want


def test_the_result_of_two_products_is_stored_as_a_tile(rng):
    x = rng.standard_normal((16, 16)).astype("float32")
    lanes = [held(x[:, j : j + 8], sum_place).reshape(32, 4) for j in (0, 8)]

    def body(b, buffers, thread):
        part = b.allocate("float32", (8,), "part", scope="local")
        with b.for_range(0, 8, kind="unroll") as i:
            part[i] = buffers["x"][thread, i]
        b.emit(tir.mma_store("float32", 16, 16, buffers["out"]._buffer.data, part._buffer.data, 0, 16))

    got = run({"x": np.concatenate(lanes, axis=1), "out": np.zeros((16, 16), "float32")}, body)
    np.testing.assert_array_equal(got["out"], x)


LAYOUTS = [("row", "row", "row"), ("row", "col", "row"), ("col", "row", "col"), ("col", "col", "row")]


@pytest.mark.parametrize(
    ("dtype", "result", "shape"),
    [("float16", "float32", (16, 16, 16)), ("float16", "float16", (32, 8, 16)), ("float16", "float32", (8, 32, 16)),
     ("int8", "int32", (16, 16, 16)), ("uint8", "int32", (16, 16, 16)), ("bfloat16", "float32", (16, 16, 16)),
     ("bfloat16", "float32", (8, 32, 16))],
)  # fmt: skip
@pytest.mark.parametrize("layouts", LAYOUTS, ids="-".join)
def test_fragments_multiply(dtype, result, shape, layouts, rng):
    m, n, k = shape
    a, b, c = (numbers(rng, t, *s) for t, s in ((dtype, (m, k)), (dtype, (k, n)), (result, (m, n))))
    memory = [x if layout == "row" else np.ascontiguousarray(x.T) for x, layout in zip((a, b, c), layouts)]
    arrays = dict(zip("abc", memory))

    def body(builder, buffers, thread):
        parts = {}
        for name, use, size in (("a", "matrix_a", m * k), ("b", "matrix_b", k * n), ("c", "accumulator", m * n)):
            kind = result if name == "c" else dtype
            parts[name] = builder.allocate(kind, (size,), f"part_{name}", scope=f"wmma.{use}")._buffer.data
        places = [call("address_of", buffers[name][0, 0]) for name in "abc"]
        for name, place, layout, x in zip("abc", places, layouts, memory):
            builder.emit(tir.tvm_load_matrix_sync(parts[name], m, n, k, 0, place, x.shape[1], f"{layout}_major"))
        builder.emit(tir.tvm_mma_sync(parts["c"], 0, parts["a"], 0, parts["b"], 0, parts["c"], 0))
        builder.emit(
            tir.tvm_store_matrix_sync(parts["c"], m, n, k, 0, places[2], memory[2].shape[1], f"{layouts[2]}_major")
        )

    got = run(arrays, body)["c"].astype("float64")
    want = c.astype("float64") + a.astype("float64") @ b.astype("float64")
    np.testing.assert_array_equal(got if layouts[2] == "row" else got.T, want)


# Copies beside the program


def copy(waits: bool, synchronizes: bool = True, shift: int = 0):
    def body(b, buffers, thread):
        shared = b.allocate("float32", (256,), "shared", scope="shared")
        data = buffers["x"]._buffer.data
        b.emit(tir.ptx_cp_async("float32", shared._buffer.data, thread * 4 + shift, data, thread * 4, 16))
        b.emit(tir.ptx_commit_group())
        if waits:
            b.emit(tir.ptx_wait_group(0))
        if synchronizes:
            b.emit(tir.tvm_storage_sync("shared"))
        with b.for_range(0, 4) as i:
            buffers["out"][thread * 4 + i] = shared[255 - (thread * 4 + i)]

    return body


@undefined
def test_copies_arrive_when_they_are_waited_for(rng):
    x = rng.standard_normal(256).astype("float32")
    arrays = {"x": x, "out": np.zeros(256, "float32")}
    np.testing.assert_array_equal(run(arrays, copy(True), 64)["out"], x[::-1])
    assert np.isnan(run(arrays, copy(False), 64)["out"]).all()
    # Without a barrier some threads look before others have waited; which ones is drawn.
    assert np.isnan(run(arrays, copy(True, synchronizes=False), 64)["out"]).any()


@undefined
def test_groups_of_copies_are_waited_for_in_order(rng):
    x = rng.standard_normal((4, 128)).astype("float32")

    def body(b, buffers, thread):
        shared = b.allocate("float32", (512,), "shared", scope="shared")
        for group in range(4):
            place = group * 128 + thread * 4
            b.emit(tir.ptx_cp_async("float32", shared._buffer.data, place, buffers["x"]._buffer.data, place, 16))
            b.emit(tir.ptx_commit_group())
        for group in range(4):
            b.emit(tir.ptx_wait_group(3 - group))
            b.emit(tir.tvm_storage_sync("shared"))
            # The group waited for is there, the next one is not.
            for row in range(4):
                buffers["out"][group, row, thread] = shared[row * 128 + thread]
            b.emit(tir.tvm_storage_sync("shared"))

    got = run({"x": x, "out": np.zeros((4, 4, 32), "float32")}, body)["out"]
    for group, row in itertools.product(range(4), range(4)):
        if row <= group:
            np.testing.assert_array_equal(got[group, row], x[row, :32])
        else:
            assert np.isnan(got[group, row]).all()


def test_copies_of_what_is_not_wanted_are_zero(rng):
    x = rng.standard_normal(128).astype("float32")

    def body(b, buffers, thread):
        shared = b.allocate("float32", (128,), "shared", scope="shared")
        data = buffers["x"]._buffer.data
        places = (shared._buffer.data, thread * 4, data, thread * 4)
        b.emit(call("ptx_cp_async", *places, tir.const(16, "int32"), thread < 20, dtype="float32"))
        b.emit(tir.ptx_commit_group())
        b.emit(tir.ptx_wait_group(0))
        with b.for_range(0, 4) as i:
            buffers["out"][thread * 4 + i] = shared[thread * 4 + i]

    got = run({"x": x, "out": np.ones(128, "float32")}, body)["out"]
    np.testing.assert_array_equal(got, np.where(np.arange(128) < 80, x, 0))


def test_copies_in_bulk_reach_a_barrier(rng):
    x = rng.standard_normal(256).astype("float32")

    def body(b, buffers, thread):
        shared = b.allocate("float32", (256,), "shared", scope="shared")
        b.emit(tir.create_barriers(1))
        with b.if_scope(thread == 0):
            b.emit(tir.ptx_init_barrier_thread_count(0, 32))
        b.emit(tir.tvm_storage_sync("shared"))
        with b.if_scope(thread == 0):
            b.emit(tir.ptx_cp_async_bulk("float32", shared._buffer.data, 0, buffers["x"]._buffer.data, 0, 1024, 0))
            b.emit(tir.ptx_arrive_barrier_expect_tx(0, 1024))
        with b.else_scope():
            b.emit(tir.ptx_arrive_barrier(0))
        b.emit(tir.ptx_wait_barrier(0))
        with b.for_range(0, 8) as i:
            buffers["out"][i * 32 + thread] = shared[i * 32 + thread]

    np.testing.assert_array_equal(run({"x": x, "out": np.zeros(256, "float32")}, body)["out"], x)


# Lanes of a warp


@pytest.mark.parametrize("dtype", ["int8", "float16", "int32", "float32", "float64", "int64"])
def test_shuffles_move_values_of_every_size(dtype, rng):
    x = numbers(rng, dtype, 32) * 3
    functions = {"at": tir.tvm_warp_shuffle, "up": tir.tvm_warp_shuffle_up, "down": tir.tvm_warp_shuffle_down}

    def body(b, buffers, thread):
        mask = tir.const(-1, "int32").astype("uint32")
        for name, function in functions.items():
            buffers[name][thread] = function(mask, buffers["x"][thread], 5, 16, 32)

    got = run({"x": x, **{name: np.zeros_like(x) for name in functions}}, body)
    lane = np.arange(32)
    np.testing.assert_array_equal(got["at"], x[lane // 16 * 16 + 5])
    np.testing.assert_array_equal(got["up"], x[np.where(lane % 16 >= 5, lane - 5, lane)])
    np.testing.assert_array_equal(got["down"], x[np.where(lane % 16 + 5 < 16, lane + 5, lane)])


# Text of the user's


def test_functions_of_imported_c_text_are_called():
    text = "int twice_plus(int x, int y) { return 2 * x + y; }\n"

    def body(b, buffers, thread):
        b.scope_attr(thread, "pragma_import_c", tir.StringImm(text))
        buffers["x"][thread] = tir.call_pure_extern("int32", "twice_plus", buffers["x"][thread], thread)

    got = run({"x": np.arange(32, dtype="int32")}, body)["x"]
    np.testing.assert_array_equal(got, 3 * np.arange(32))
    if nvrtc.library() is not None:
        built = tvm.build(programs.by_hand({"x": ((32,), "int32")}, body), target="cuda -arch=sm_80")
        assert text in built.imported_modules[0].get_source()


# What ends a kernel


@undefined
def test_an_array_that_is_too_small_is_named():
    def body(b, buffers, thread):
        shared = b.allocate("float32", (32,), "small", scope="shared")
        b.emit(tir.ptx_cp_async("float32", shared._buffer.data, thread * 4, buffers["x"]._buffer.data, thread * 4, 16))
        b.emit(tir.ptx_commit_group())
        b.emit(tir.ptx_wait_group(0))

    with pytest.raises(TVMError, match=r"16 bytes outside of shared array 'small' of 128 bytes, at byte \d+"):
        run({"x": np.zeros(128, "float32")}, body)


@undefined
def test_a_copy_that_is_not_aligned_is_refused():
    with pytest.raises(TVMError, match="which is no multiple of 16"):
        run({"x": np.zeros(256, "float32"), "out": np.zeros(256, "float32")}, copy(True, shift=1), 32)


@undefined
def test_a_barrier_some_threads_do_not_reach_is_an_error():
    def body(b, buffers, thread):
        with b.if_scope(thread < 16):
            b.emit(tir.tvm_storage_sync("shared"))
        with b.else_scope():
            mask = tir.const(-1, "int32").astype("uint32")
            buffers["x"][thread] = tir.tvm_warp_shuffle(mask, buffers["x"][thread], 0, 32, 32)

    with pytest.raises(TVMError, match="the block is stuck: .*__syncthreads.*a shuffle"):
        run({"x": np.zeros(32, "float32")}, body)


@undefined
def test_memory_beyond_an_allocation_is_not_written():
    def body(b, buffers, thread):
        data = tir.decl_buffer((1 << 20,), "float32", data=buffers["x"]._buffer.data)
        # Right behind the 512 bytes that the pool gives; further on there may be another allocation.
        b.emit(tir.BufferStore(data, tir.const(1, "float32"), [thread * 0 + 128]))

    cuda_emulator.restart()
    with pytest.raises(TVMError, match="outside of a device allocation of 512 bytes, at byte 512"):
        run({"x": np.zeros(32, "float32")}, body)

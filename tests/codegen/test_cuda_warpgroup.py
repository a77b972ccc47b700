"""``ptx_wgmma`` by hand, without a template: what one warpgroup computes on the emulator, and what is refused."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tvm
from tests import cuda_emulator
from tests.codegen import gpu_programs as programs
from tests.cuda_emulator.marks import needs_emulator
from tvm import tir
from tvm.error import TVMError

THREADS = 128


class Case:
    """A product of ``rows`` x ``columns`` x ``terms``; operands lie along the sum, or across it in blocks of a row."""

    def __init__(self, rows=64, columns=64, terms=64, dtype="float16", along=(True, True), stride=None):
        self.sizes, self.terms, self.dtype, self.along = (rows, columns), terms, dtype, along
        self.row = 128 // np.dtype(getattr(ml_dtypes, dtype, dtype)).itemsize
        self.strides = [self.row if x else self.row * 64 for x in along] if stride is None else [stride, stride]

    def length(self, side: int) -> int:
        size = self.sizes[side]
        return size * self.row if self.along[side] else -(-size // self.row) * self.row * 64

    def place(self, side: int, i: np.ndarray, k: np.ndarray) -> np.ndarray:
        if self.along[side]:
            return i * self.row + k
        return i // self.row * self.row * 64 + k * self.row + i % self.row

    def body(self, b, buffers, thread):
        def call(name, *args):
            b.emit(tir.call_intrin("handle", f"tir.{name}", *args))

        shared = [b.allocate(self.dtype, (self.length(s),), "ab"[s], scope="shared.dyn") for s in range(2)]
        (rows, columns), terms = self.sizes, self.terms
        sums = b.allocate("float32", (rows * columns,), "sums", scope="wmma.accumulator")._buffer.data
        for s in range(2):
            with b.for_range(0, -(-self.length(s) // THREADS)) as i:
                shared[s][i * THREADS + thread] = buffers["ab"[s]][i * THREADS + thread]
        call("tvm_storage_sync", "shared")

        def pointer(dtype, buffer, length, mask):
            kind = tir.type_annotation(dtype)
            return tir.call_intrin("handle", "tir.tvm_access_ptr", kind, buffer._buffer.data, 0, length, mask)

        pointers = [pointer(self.dtype, shared[s], self.length(s), 1) for s in range(2)]
        call("tvm_fill_fragment", sums, rows, columns, terms, 0, tir.const(0, "float32"))
        sides = [x for s in range(2) for x in (pointers[s], int(self.along[s]), self.strides[s])]
        call("ptx_wgmma", self.dtype, rows, columns, terms, sums, 0, *sides)
        out = pointer("float32", buffers["c"], rows * columns, 2)
        call("tvm_store_matrix_sync", sums, rows, columns, terms, 0, out, columns, "row_major")

    def function(self):
        shapes = {
            "a": ((self.length(0),), self.dtype),
            "b": ((self.length(1),), self.dtype),
            "c": ((self.sizes[0] * self.sizes[1],), "float32"),
        }
        return programs.by_hand(shapes, self.body, THREADS)


@needs_emulator
@pytest.mark.skipif(cuda_emulator.REAL, reason="the GPU is asked by the tests of the template")
@pytest.mark.parametrize("case", [
    Case(), Case(columns=8), Case(columns=24, terms=16), Case(columns=256), Case(rows=128, columns=40, terms=48),
    Case(columns=128, along=(True, False)), Case(rows=128, columns=192, along=(False, False), dtype="bfloat16"),
    Case(columns=72, along=(False, True)), Case(columns=16, dtype="float32", terms=32),
    Case(columns=24, dtype="float32", terms=8, rows=128),
])  # fmt: skip
def test_products_of_one_warpgroup(case, rng):
    kind = np.dtype(getattr(ml_dtypes, case.dtype, case.dtype))
    # Small whole numbers: every sum of their products is exact. What is no part of a matrix shows.
    memory = [np.full(case.length(s), 1000).astype(kind) for s in range(2)]
    matrices = [rng.integers(-4, 5, (case.sizes[s], case.terms)) for s in range(2)]
    for s in range(2):
        i, k = np.indices(matrices[s].shape)
        memory[s][case.place(s, i, k)] = matrices[s].astype(kind)
    out = np.zeros(case.sizes[0] * case.sizes[1], "float32")
    got = cuda_emulator.run(case.function(), None, [*memory, out], "sm_90a")[-1]
    np.testing.assert_array_equal(got.reshape(case.sizes), matrices[0] @ matrices[1].T)


@pytest.mark.parametrize("case, error", [
    (Case(rows=32), "m to be a multiple of 64"), (Case(columns=20), "n one of 8, 16, ... 256"),
    (Case(columns=264), "got 64 x 264 x 64"), (Case(terms=24), "k a multiple of 16"),
    (Case(stride=72), "must be 128 bytes, got 144"), (Case(along=(False, False), stride=64), "aligned to 1024 bytes"),
    (Case(dtype="float32", along=(True, False), terms=32, stride=32), "can only transpose 16-bit operands"),
    (Case(dtype="int8"), "supports the types float16, bfloat16, float32, got int8"),
])  # fmt: skip
def test_what_the_unit_cannot_do_is_refused(case, error):
    with pytest.raises(TVMError, match=error):
        tvm.build(case.function(), target=tvm.target.Target("cuda -arch=sm_90a", host="llvm"))


def test_it_is_an_instruction_of_one_architecture():
    for arch in ("sm_80", "sm_90", "sm_100a"):
        with pytest.raises(TVMError, match="only available on sm_90a"):
            tvm.build(Case().function(), target=tvm.target.Target(f"cuda -arch={arch}", host="llvm"))

"""Replace the inner loops of a matmul by a kernel in C with ``tensorize``: a small matrix-vector product."""

from __future__ import annotations

import numpy as np

import tvm
import tvm.testing
from tvm import te
from tvm.contrib import clang, utils

N, M, L = 1024, 512, 64
ROWS, COLUMNS = 16, 64


def gemv_source() -> str:
    """Return the LLVM IR of the kernel, compiled from C."""
    source = """
        int gemv_reset(float *out, int rows) {
          for (int i = 0; i < rows; ++i) out[i] = 0;
          return 0;
        }
        int gemv_update(float *out, const float *matrix, const float *vector, int rows, int columns, int stride) {
          for (int i = 0; i < rows; ++i)
            for (int j = 0; j < columns; ++j) out[i] += matrix[i * stride + j] * vector[j];
          return 0;
        }
    """
    return clang.create_llvm(source, output=utils.tempdir().relpath("gemv.ll"))


def intrinsic(rows: int, columns: int):
    """Return the formula of the kernel, which the loops must match, and the calls that replace them."""
    a = te.placeholder((columns,), name="a")
    b = te.placeholder((rows, columns), name="b")
    k = te.reduce_axis((0, columns), name="k")
    c = te.compute((rows,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")
    vector = tvm.tir.decl_buffer(a.shape, a.dtype, name="vector", offset_factor=1, strides=[1])
    matrix = tvm.tir.decl_buffer(b.shape, b.dtype, name="matrix", offset_factor=1, strides=[te.var("stride"), 1])
    result = tvm.tir.decl_buffer(c.shape, c.dtype, name="result", offset_factor=1, strides=[1])

    def calls(ins, outs):
        (out,) = outs
        reset = tvm.tir.call_extern("int32", "gemv_reset", out.access_ptr("w"), rows)
        update = tvm.tir.call_extern(
            "int32", "gemv_update", out.access_ptr("rw"), ins[1].access_ptr("r"), ins[0].access_ptr("r"),
            rows, columns, ins[1].strides[0],
        )  # fmt: skip

        def whole():
            builder = tvm.tir.ir_builder.create()
            builder.emit(reset)
            builder.emit(update)
            return builder.get()

        return whole(), tvm.tir.Evaluate(reset), tvm.tir.Evaluate(update)

    return te.decl_tensor_intrin(c.op, calls, binds={a: vector, b: matrix, c: result})


A = te.placeholder((N, L), name="A")
B = te.placeholder((M, L), name="B")
k = te.reduce_axis((0, L), name="k")
C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="C")
s = te.create_schedule(C.op)
x, y = C.op.axis
y_outer, y_inner = s[C].split(y, factor=ROWS)
k_outer, k_inner = s[C].split(C.op.reduce_axis[0], factor=COLUMNS // 2)
s[C].reorder(x, y_outer, k_outer, y_inner, k_inner)
s[C].tensorize(y_inner, intrinsic(ROWS, COLUMNS // 2))
print(tvm.lower(s, [A, B, C], simple_mode=True))

# A pragma of the schedule contains the kernel.
s[C].pragma(x, "import_llvm", gemv_source())
matmul = tvm.build(s, [A, B, C], target="llvm", name="matmul")
a, b = np.random.rand(N, L).astype("float32"), np.random.rand(M, L).astype("float32")
c = tvm.nd.empty((N, M))
matmul(tvm.nd.array(a), tvm.nd.array(b), c)
tvm.testing.assert_allclose(c.numpy(), a @ b.T, rtol=1e-4)
print("the tensorized matmul is correct")

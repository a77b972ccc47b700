"""Write an insertion sort of rows with ``tir.ir_builder``, where a tensor expression does not suffice."""

from __future__ import annotations

import numpy as np

import tvm
from tvm import te


def sort_rows(source, result, rows, columns):
    """Write each row of ``source``, sorted, to ``result``."""
    builder = tvm.tir.ir_builder.create()
    read, write = builder.buffer_ptr(source), builder.buffer_ptr(result)
    with builder.for_range(0, rows, "row", kind="parallel") as row:
        with builder.for_range(0, columns, "i") as i:
            hole = builder.allocate("int32", (1,), name="hole", scope="local")
            value = builder.let("value", read[row * columns + i])
            hole[0] = i
            # Larger elements move up by one until the position of the value is found.
            with builder.while_loop(
                tvm.tir.all(hole[0] > 0, write[row * columns + tvm.tir.max(hole[0] - 1, 0)] > value)
            ):
                write[row * columns + hole[0]] = write[row * columns + hole[0] - 1]
                hole[0] = hole[0] - 1
            write[row * columns + hole[0]] = value
    return builder.get()


ROWS, COLUMNS = 50, 31
A = te.placeholder((ROWS, COLUMNS), name="A")
B = te.extern(A.shape, [A], lambda ins, outs: sort_rows(ins[0], outs[0], ROWS, COLUMNS), name="sort", dtype="float32")
s = te.create_schedule(B.op)
print(tvm.lower(s, [A, B], simple_mode=True))

sort = tvm.build(s, [A, B], "llvm", name="sort")
a = np.random.rand(ROWS, COLUMNS).astype("float32")
b = tvm.nd.empty((ROWS, COLUMNS))
sort(tvm.nd.array(a), b)
np.testing.assert_array_equal(b.numpy(), np.sort(a, axis=1))
print("rows are sorted")

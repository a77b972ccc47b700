"""Arrays of more than 2**31 elements: every index reaches its element."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import te

ROWS, COLUMNS = 65_537, 32_768  # 2**31 + 2**15 elements


@pytest.fixture(autouse=True)
def memory():
    """Skips where the arrays do not fit; they are touched in few places, so little of them is ever real."""
    try:
        with open("/proc/meminfo") as file:
            fields = dict(line.split(":") for line in file)
    except OSError:
        pytest.skip("cannot tell how much memory is free")
    if int(fields["MemAvailable"].split()[0]) < 4 << 20:
        pytest.skip("needs 4 GiB of free memory")


@pytest.mark.parametrize("shape", [(ROWS, COLUMNS), (ROWS * COLUMNS,)], ids=["rows", "flat"])
def test_elements_beyond_the_reach_of_32_bits(shape):
    a = te.placeholder(shape, "int8", "A")
    # The sum of each row's (or block's) last elements: reads all over the array, writes little.
    picks = 8
    if len(shape) == 2:
        at = lambda i: a[i * (ROWS - 1) // (picks - 1), COLUMNS - 1 - i]
    else:
        at = lambda i: a[i.astype("int64") * ((ROWS * COLUMNS - 1) // (picks - 1))]
    b = te.compute((picks,), lambda i: at(i) + tvm.tir.const(1, "int8"), name="B")
    f = tvm.build(te.create_schedule(b.op), [a, b], "llvm")
    data = tvm.nd.empty(shape, "int8")
    view = np.from_dlpack(data)
    positions = []
    for i in range(picks):
        if len(shape) == 2:
            positions.append((i * (ROWS - 1) // (picks - 1), COLUMNS - 1 - i))
        else:
            positions.append((i * ((ROWS * COLUMNS - 1) // (picks - 1)),))
        view[positions[-1]] = i * 3
    out = tvm.nd.array(np.zeros(picks, "int8"))
    f(data, out)
    np.testing.assert_array_equal(out.numpy(), np.arange(picks) * 3 + 1)


def test_writing_beyond_the_reach_of_32_bits():
    buffer = tvm.tir.decl_buffer((3, 1 << 30), "int8", "A")
    ib = tvm.tir.ir_builder.create()
    pointer = ib.buffer_ptr(buffer)
    with ib.for_range(0, 3, name="i") as i, ib.for_range(0, 4, name="j", kind="vectorize") as j:
        pointer[i, (1 << 30) - 4 + j] = (i * 4 + j).astype("int8")
    f = tvm.build(tvm.tir.PrimFunc([buffer], ib.get()).with_attr("global_symbol", "f"), target="llvm")
    data = tvm.nd.empty((3, 1 << 30), "int8")
    f(data)
    np.testing.assert_array_equal(np.from_dlpack(data)[:, -4:], np.arange(12).reshape(3, 4))

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import te
from tvm.contrib import dlpack


@pytest.fixture(scope="module")
def scale():
    a, factor = te.placeholder((4,), name="a"), te.var("factor", "float32")
    b = te.compute((4,), lambda i: a[i] * factor, name="b")
    return tvm.build(te.create_schedule(b.op), [a, factor, b], "llvm")


def test_arrays_of_another_library_are_written_in_place(scale):
    function = dlpack.convert_func(scale, np.ndarray, lambda array: array.__dlpack__())
    x, y = np.arange(4, dtype="float32"), np.zeros(4, "float32")
    function(x, 2.5, y)
    np.testing.assert_array_equal(y, x * 2.5)
    out = tvm.nd.array(y)
    function(x, 3.0, out)
    np.testing.assert_array_equal(out.numpy(), x * 3)


def test_a_function_of_torch_tensors(scale):
    torch = pytest.importorskip("torch")
    x, y = torch.arange(4, dtype=torch.float32), torch.zeros(4)
    dlpack.to_pytorch_func(scale)(x, 2.5, y)
    assert torch.equal(y, x * 2.5)

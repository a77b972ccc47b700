"""Live tensors as arrays."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tvm import relay
from tvm.error import TVMError
from tvm.relay.frontend.pytorch.tensors import weight_of
from tvm.runtime.ndarray import NDArray


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "bfloat16", "int64", "bool"])
@pytest.mark.parametrize(
    "make", [lambda t: t, lambda t: t.t(), lambda t: t[:, ::2], lambda t: t[:0], lambda t: t[0, 0]]
)
def test_weights_are_what_their_tensors_hold_and_stay_it(make, dtype):
    tensor = make((torch.arange(6 * 8) % 5).reshape(6, 8).to(getattr(torch, dtype)))
    held = relay.Constant(weight_of(tensor, "w")).data
    wanted = tensor.to(torch.float64).numpy().copy()
    assert held.dtype == dtype and held.shape == tuple(tensor.shape) and held.strides is None
    tensor.zero_()
    np.testing.assert_array_equal(held.numpy().astype("float64"), wanted)


def test_elements_that_were_copied_out_of_a_tensor_are_not_copied_again():
    tensor = torch.arange(48.0).reshape(6, 8)
    assert isinstance(weight_of(tensor.t(), "w"), NDArray)
    # These are the model's, which may change them.
    assert isinstance(weight_of(tensor, "w"), np.ndarray)


def test_sparse_weights_are_refused():
    with pytest.raises(TVMError, match="w is a quantized or sparse tensor"):
        weight_of(torch.eye(3).to_sparse(), "w")

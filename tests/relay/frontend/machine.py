"""Runs small ONNX models on the virtual machine, with sequences and optionals as Python's."""

from __future__ import annotations

import numpy as np
from small_models import onnxruntime_results

import tvm
from tvm import relay
from tvm.relay.frontend import from_onnx
from tvm.runtime.vm import VirtualMachine


class Machine:
    """A model compiled once; called with arrays by name, it gives its results in order."""

    def __init__(self, model, **options):
        self.model = model
        self.module, params = from_onnx(model, **options)
        self.executable = relay.vm.compile(self.module, "llvm", params=params)
        self.machine = VirtualMachine(self.executable, tvm.cpu())

    def __call__(self, **feed) -> list:
        self.machine.set_input("main", **feed)
        result = self.machine.invoke("main")
        return [value_of(result)] if len(self.model.graph.output) == 1 else [value_of(r) for r in result]

    def check(self, rtol: float = 1e-5, atol: float = 1e-6, **feed) -> list:
        """The results, which are onnxruntime's."""
        got, want = self(**feed), onnxruntime_results(self.model, feed)
        for g, w in zip(got, want, strict=True):
            same(g, w, rtol, atol)
        return got


def value_of(result):
    return result.numpy() if isinstance(result, tvm.nd.NDArray) else [value_of(field) for field in result]


def same(got, want, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    if isinstance(want, list):
        assert len(got) == len(want)
        for g, w in zip(got, want):
            same(g, w, rtol, atol)
        return
    want = np.asarray(want)
    assert got.shape == want.shape and got.dtype == want.dtype, (got.shape, want.shape, got.dtype, want.dtype)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)

"""Runs small ONNX models on the virtual machine, with sequences and optionals as Python's."""

from __future__ import annotations

import numpy as np
from small_models import onnxruntime_results

import tvm
from tvm import relay
from tvm.contrib.onnx_values import given, taken
from tvm.relay.frontend import from_onnx
from tvm.relay.infer import infer_module
from tvm.runtime.vm import VirtualMachine


class Machine:
    """A model compiled once; called with arrays by name, it gives its results in order."""

    def __init__(self, model, **options):
        self.model = model
        self.module, params = from_onnx(model, **options)
        main = infer_module(self.module)["main"]
        self.inputs = {p.name_hint: p.checked_type_ for p in main.params}
        self.result = main.checked_type_.ret_type
        self.executable = relay.vm.compile(self.module, "llvm", params=params)
        self.machine = VirtualMachine(self.executable, tvm.cpu())

    def __call__(self, **feed) -> list:
        self.machine.set_input("main", **{name: given(value, self.inputs[name]) for name, value in feed.items()})
        result = taken(self.machine.invoke("main"), self.result)
        return [result] if len(self.model.graph.output) == 1 else result

    def check(self, rtol: float = 1e-5, atol: float = 1e-6, **feed) -> list:
        """The results, which are onnxruntime's."""
        got, want = self(**feed), onnxruntime_results(self.model, feed)
        for g, w in zip(got, want, strict=True):
            same(g, w, rtol, atol)
        return got


def same(got, want, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    if isinstance(want, list):
        assert len(got) == len(want)
        for g, w in zip(got, want):
            same(g, w, rtol, atol)
        return
    want = np.asarray(want)
    assert got.shape == want.shape and got.dtype == want.dtype, (got.shape, want.shape, got.dtype, want.dtype)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import te
from tvm.error import TVMError


@pytest.fixture(scope="module")
def module():
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 2.0 + 1.0, name="B")
    schedule = te.create_schedule(b.op)
    schedule[b].parallel(b.op.axis[0])
    return tvm.build(schedule, [a, b], "llvm", name="scale")


@pytest.mark.parametrize("suffix", ["ll", "bc"])
def test_saved_module_loads_and_runs(module, tmp_path, suffix):
    path = tmp_path / f"scale.{suffix}"
    module.save(path)
    loaded = tvm.runtime.load_module(path)
    a, b = tvm.nd.array(np.arange(9, dtype="float32")), tvm.nd.empty((9,))
    loaded(a, b)
    np.testing.assert_array_equal(b.numpy(), 2 * np.arange(9) + 1)
    loaded.export_library(tmp_path / "scale.so")
    again = tvm.runtime.load_module(tmp_path / "scale.so")
    again["scale"](b, a)
    np.testing.assert_array_equal(a.numpy(), 4 * np.arange(9) + 3)
    with pytest.raises(TVMError, match="expected 2 arguments, got 1"):
        loaded["scale"](a)


@pytest.mark.parametrize("suffix", ["ll", "bc"])
def test_text_that_is_no_llvm_is_refused(tmp_path, suffix):
    path = tmp_path / f"bad.{suffix}"
    path.write_text("this is not LLVM\n")
    with pytest.raises(TVMError, match="LLVM"):
        tvm.runtime.load_module(path)

"""The code generator of tests/codegen_package, registered in this process, and small models for it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tvm
from tvm import relay

FOLDER = Path(__file__).parent / "codegen_package"


def plainc() -> ModuleType:
    """The module of the package, with its kernels and its device; imported once in a process."""
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler")
    if "plainc" not in sys.modules:
        sys.path.insert(0, str(FOLDER))
        with tempfile.TemporaryDirectory() as folder:
            os.environ["PLAINC_FOLDER"] = folder
            try:
                import plainc  # noqa: F401
            finally:
                del os.environ["PLAINC_FOLDER"]
                sys.path.remove(str(FOLDER))
    return sys.modules["plainc"]


def network(rng: np.random.Generator, rows: int = 3, depth: int = 7, columns: int = 5):
    """A model with supported operators at both ends and an unsupported one (exp) between, and its function in NumPy."""
    w = rng.standard_normal((columns, depth)).astype("float32")
    b = rng.standard_normal(columns).astype("float32")
    x = relay.var("x", shape=(rows, depth))
    hidden = relay.nn.relu(relay.nn.dense(x, relay.const(w))) + relay.const(b)
    body = relay.clip(relay.exp(hidden * relay.const(0.125)), 0.5, 3.0)

    def function(value: np.ndarray) -> np.ndarray:
        return np.clip(np.exp((np.maximum(value @ w.T, 0) + b) * 0.125), 0.5, 3.0)

    return tvm.IRModule.from_expr(relay.Function([x], body)), function

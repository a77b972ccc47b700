"""``tvm.support``: what a script or a problem report asks about the build."""

from __future__ import annotations

import os

import pytest

import tvm


def test_libinfo_names_the_build():
    info = tvm.support.libinfo()
    assert info["TVM_VERSION"] == tvm.__version__
    assert info["USE_LLVM"] == "ON" and int(info["LLVM_VERSION"].split(".")[0]) >= 20
    assert os.path.isfile(info["RUNTIME_LIBRARY"])
    assert os.path.isfile(os.path.join(info["INCLUDE_PATH"], "tvm_runtime.h"))
    assert info.get("USE_NOTHING_LIKE_THIS") is None
    assert info["USE_PROFILER"] == info["USE_GRAPH_EXECUTOR"] == "ON" and info["USE_CUBLAS"] == "OFF"
    assert info["CUDA_VERSION"] == "NOT-FOUND"
    assert all(isinstance(value, str) for value in info.values())


def test_describe_prints_python_and_every_fact(capsys):
    tvm.support.describe()
    printed = capsys.readouterr().out
    assert printed.startswith("Python 3.")
    assert all(f"{key}: {value}" in printed for key, value in tvm.support.libinfo().items())


def test_a_module_takes_functions_one_by_one():
    module = tvm.support.FrontendTestModule("main")
    module.add_function("main", lambda x: x + 1)
    module["twice"] = tvm.runtime.convert(lambda x: 2 * x)
    assert module(4) == 5 and module["twice"](4) == 8 and isinstance(module, tvm.runtime.Module)
    other = tvm.support.FrontendTestModule()
    other["outer"] = lambda x: -x
    module.import_module(other)
    assert module.get_function("outer", query_imports=True)(3) == -3
    with pytest.raises(AttributeError, match="nothing"):
        module["nothing"]

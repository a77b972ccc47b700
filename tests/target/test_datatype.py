"""Custom data types: registered, computed with by functions of the user, and refused in words where one is missing."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import tvm
from tvm import dtype, relay, te
from tvm.error import TVMError
from tvm.relay.frontend.change_datatype import ChangeDatatype
from tvm.target import datatype

FLOAT, OWN = "float32", "custom[myfloat]32"


@pytest.fixture(scope="module", autouse=True)
def myfloat():
    datatype.register("myfloat", 150)
    yield
    for table in (dtype.CUSTOM, dtype.CUSTOM_MIN, datatype.LOWER._items):
        table.clear()
    for text in [t for t in dtype._CACHE if t.startswith("custom")]:
        del dtype._CACHE[text]


@pytest.fixture
def functions():
    """All that the library of the type has."""

    def register(name, *args, **kwargs):
        datatype.register_op(datatype.create_lower_func(name), *args, **kwargs)

    register({(32, 32): "FloatToCustom32"}, "Cast", "llvm", "float", "myfloat")
    register({(32, 32): "Custom32ToFloat"}, "Cast", "llvm", "myfloat", "float")
    register({32: "FloatToCustom32"}, "FloatImm", "llvm", "myfloat")
    for name in ("Add", "Sub", "Mul", "Div", "Max"):
        register({32: "Custom32" + name}, name, "llvm", "myfloat")
    for name in ("sqrt", "exp", "tanh"):
        register({32: "Custom32" + name.capitalize()}, "Call", "llvm", "myfloat", intrinsic_name="tir." + name)
    for function, name in ((datatype.lower_ite, "if_then_else"), (datatype.lower_call_pure_extern, "call_pure_extern")):
        datatype.register_op(function, "Call", "llvm", "myfloat", intrinsic_name="tir." + name)
    datatype.register_min_func(datatype.create_min_lower_func({32: "MinCustom32"}, "myfloat"), "myfloat")


def converted(array, dst, kind="graph"):
    x = relay.var("x", shape=array.shape, dtype=str(array.dtype))
    return relay.create_executor(kind).evaluate(relay.Function([x], x.astype(dst)))(array)


def test_names_and_codes():
    assert datatype.get_type_code("myfloat") == 150 and datatype.get_type_name(150) == "myfloat"
    assert datatype.get_type_registered(150) and not datatype.get_type_registered(151)
    assert tvm.DataType("custom_myfloat32") == OWN and tvm.DataType(OWN + "x4").lanes == 4
    assert tvm.DataType(OWN).type_code == 150 and tvm.DataType(OWN).bits == 32
    datatype.register("myfloat", 150)
    for name, code, words in (
        ("myfloat", 151, "is already registered with code 150"),
        ("other", 150, "already used by 'myfloat'"),
        ("other", 5, "between 129 and 255, got 5"),
        ("a-b", 200, "must be an identifier"),
    ):
        with pytest.raises(TVMError, match=words):
            datatype.register(name, code)
    with pytest.raises(TVMError, match="no custom data type is called 'myfloats'.*did you mean 'myfloat'"):
        datatype.get_type_code("myfloats")
    with pytest.raises(TVMError, match="no custom data type has the code 151"):
        datatype.get_type_name(151)


def test_an_unknown_type_is_refused():
    with pytest.raises(TVMError, match="no custom type 'posit' is registered"):
        relay.cast(relay.var("x", shape=(3,)), "custom[posit]16")


def test_missing_functions_are_named_one_by_one():
    x = relay.var("x", shape=(3,))
    func = relay.Function([x], (x.astype(OWN) + x.astype(OWN)).astype(FLOAT))
    run = lambda x: relay.create_executor("graph").evaluate(func)(x)
    a = np.array([1, 2, 3], FLOAT)
    register = lambda names, *args: datatype.register_op(datatype.create_lower_func(names), *args)
    for words, names, *args in (
        (
            "Cast from float32 to custom.myfloat.32: no lowering function is registered for target llvm",
            {(32, 32): "FloatToCustom32"},
            "Cast",
            "llvm",
            "float",
            "myfloat",
        ),
        ("Add of custom.myfloat.32: no lowering function", {16: "Custom16Add"}, "Add", "llvm", "myfloat"),
        ("no function for 32 bits is given, which lowering", {32: "Custom32Add"}, "Add", "llvm", "myfloat"),
        ("Cast from custom.myfloat.32 to float32", {(32, 32): "Custom32ToFloat"}, "Cast", "llvm", "myfloat", "float"),
    ):
        with pytest.raises(TVMError, match=words):
            run(a)
        register(names, *args)
    np.testing.assert_array_equal(run(a).numpy(), a + a)
    with pytest.raises(TVMError, match="dest_type_name is missing"):
        datatype.register_op(datatype.lower_ite, "Cast", "llvm", "myfloat")


def network():
    data, w, w2 = (relay.var(n, shape=s) for n, s in (("data", (1, 2, 6, 6)), ("w", (3, 2, 3, 3)), ("w2", (4, 3))))
    scale = [relay.var(n, shape=(3,)) for n in ("gamma", "beta", "mean", "variance")]
    y = relay.nn.relu(relay.nn.batch_norm(relay.nn.conv2d(data, w, padding=(1, 1)), *scale)[0])
    y = relay.tanh(relay.nn.max_pool2d(y, (2, 2), (2, 2))) * relay.const(0.5)
    y = relay.nn.dense(relay.nn.batch_flatten(relay.nn.global_avg_pool2d(relay.sigmoid(y))), w2)
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.nn.softmax(y)))


def test_a_network_of_a_custom_type(functions):
    mod = network()
    rng = np.random.default_rng(0)
    inputs = [rng.random([int(n) for n in p.checked_type.shape], dtype=FLOAT) for p in mod["main"].params]
    want = relay.create_executor("graph", mod=mod).evaluate()(*inputs).numpy()
    mod = relay.transform.InferType()(relay.transform.SimplifyInference()(mod))
    func = ChangeDatatype(FLOAT, OWN).visit(mod["main"])
    got = relay.create_executor("graph").evaluate(func)(*[converted(x, OWN) for x in inputs])
    assert got.dtype == OWN
    with pytest.raises(TVMError, match="NumPy does not define the type 'custom.myfloat.32'"):
        got.numpy()
    np.testing.assert_allclose(converted(got, FLOAT).numpy(), want, rtol=1e-5)


@pytest.mark.parametrize("kind", ["debug", "vm"])
def test_other_executors(functions, kind):
    x = relay.var("x", shape=(3,), dtype=OWN)
    func = relay.Function([x], relay.split(relay.tanh(x), 3)[1])
    a = np.array([1, 2, 3], FLOAT)
    got = relay.create_executor(kind).evaluate(func)(converted(a, OWN))
    np.testing.assert_allclose(converted(got, FLOAT).numpy(), np.tanh(a[1:2]), rtol=1e-6)


def test_kernels_of_tensor_expressions(functions):
    a = te.placeholder((5, 4), OWN, name="A")
    k = te.reduce_axis((0, 4), "k")
    b = te.compute((5,), lambda i: te.max(a[i, k] * a[i, k], axis=k), name="B")
    c = te.compute((5,), lambda i: te.if_then_else(i < 2, b[i], te.sqrt(b[i])), name="C")
    s = te.create_schedule(c.op)
    s[c].vectorize(s[c].split(c.op.axis[0], factor=4)[1])
    func = tvm.build(s, [a, c], "llvm")
    x, out = np.arange(20, dtype=FLOAT).reshape(5, 4), tvm.nd.empty((5,), OWN)
    func(converted(x, OWN), out)
    want = (x * x).max(1)
    np.testing.assert_array_equal(converted(out, FLOAT).numpy(), np.where(np.arange(5) < 2, want, np.sqrt(want)))
    with pytest.raises(Exception, match=r"expected.*custom\[150\]32|custom\[myfloat\]32"):
        func(tvm.nd.array(x), out)


def test_a_smallest_value_that_is_not_registered():
    datatype.register("tiny", 180)
    with pytest.raises(TVMError, match=r"smallest value of 'custom\[tiny\]8' is unknown"):
        te.min_value("custom[tiny]8")
    with pytest.raises(TVMError, match=r"no C function is given for the smallest value of custom\[tiny\]8"):
        datatype.create_min_lower_func({16: "f"}, "tiny")(8)


def built(functions):
    a = te.placeholder((4,), OWN, name="A")
    c = te.compute((4,), lambda i: te.sqrt(a[i] * a[i]) + a[i], name="C")
    return tvm.build(te.create_schedule(c.op), [a, c], "llvm")


@pytest.mark.parametrize("suffix", [".so", ".o", ".tar"])
def test_a_library_is_loaded_by_a_process_that_knows_no_custom_type(functions, suffix, tmp_path):
    path = tmp_path / f"lib{suffix}"
    built(functions).export_library(path)
    program = (
        "import sys, tvm;"
        "tvm.target.datatype.register('myfloat', 150);"
        "a, c = (tvm.nd.empty((4,), 'custom[myfloat]32') for _ in range(2));"
        "tvm.runtime.load_module(sys.argv[1])(a, c)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_symbols_of_the_runtime_library_are_not_seen_by_other_libraries():
    program = (
        "import ctypes, tvm;"
        "tvm.nd.array([1.0]);"
        "print(any(hasattr(ctypes.CDLL(None), name) for name in ('TVMArrayAlloc', 'FloatToCustom32')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"

"""The OpenCL driver, with kernels written by hand."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import tvm
from tests.runtime.device_bytes import SCALE, opencl_bytes
from tvm import TVMError
from tvm.runtime.module import load_device_module
from tvm.testing import requires_opencl

pytestmark = requires_opencl.marks()


@pytest.fixture(scope="module")
def scale() -> tvm.runtime.Module:
    return load_device_module(opencl_bytes())


def test_attributes_of_the_device():
    device = tvm.cl(0)
    assert device.exist and tvm.opencl(0) == device
    assert device.max_threads_per_block >= 64 and device.warp_size >= 1
    assert device.max_shared_memory_per_block >= 16 << 10 and device.multi_processor_count >= 1
    assert device.device_name and float(device.compute_version) >= 1.1
    assert len(device.max_thread_dimensions) == 3 and device.total_global_memory > 1 << 20
    assert device.driver_version and tvm.cpu(0).device_name is None


def test_arrays_go_there_and_back():
    rng = np.random.default_rng(0)
    for dtype, shape in (("float32", (3, 5)), ("int8", (7,)), ("bool", (2, 2)), ("float16", ()), ("int64", (0, 4))):
        value = rng.integers(0, 2, shape).astype(dtype)
        array = tvm.nd.array(value, tvm.cl(0))
        assert array.device == tvm.cl(0) and array.dtype == dtype
        np.testing.assert_array_equal(array.numpy(), value)
        np.testing.assert_array_equal(array.copyto(tvm.cpu()).numpy(), value)
        np.testing.assert_array_equal(array.copyto(tvm.cl(0)).numpy(), value)
    array = tvm.nd.array(np.arange(6.0), tvm.cl(0))
    np.testing.assert_array_equal(array._create_view((2,), byte_offset=24).numpy(), [3, 4])
    array[:] = 7
    np.testing.assert_array_equal(array.numpy(), np.full(6, 7.0))


def test_kernel_runs_on_arrays_and_views(scale):
    value = np.arange(300, dtype="float32")
    a, out = tvm.nd.array(value, tvm.cl(0)), tvm.nd.empty((300,), "float32", tvm.cl(0))
    scale["scale"](out, a, 2.5, 300, 10, 32)
    np.testing.assert_array_equal(out.numpy(), value * 2.5)
    view = a._create_view((44,), byte_offset=1024)
    scale["scale"](out, view, 2, 44, 2, 32)
    np.testing.assert_array_equal(out.numpy()[:44], value[256:] * 2)
    scale["scale"](out, view, 3, 44, 0, 32)  # no blocks, no work
    np.testing.assert_array_equal(out.numpy()[:44], value[256:] * 2)


def test_refusals_say_what_and_how_much(scale):
    device = tvm.cl(0)
    a, out = tvm.nd.array(np.zeros(64, "float32"), device), tvm.nd.empty((64,), "float32", device)
    run = scale["scale"]
    with pytest.raises(TVMError, match="expected 4 arguments and 2 launch extents, got 5 values"):
        run(out, a, 1.0, 64, 1)
    with pytest.raises(TVMError, match="argument 3: expected an integer"):
        run(out, a, 1.0, 6.5, 1, 32)
    with pytest.raises(TVMError, match="argument 1: expected an array on opencl, got one on cpu"):
        run(out, tvm.nd.array(np.zeros(64, "float32")), 1.0, 64, 2, 32)
    with pytest.raises(TVMError, match="starts 4 bytes into its buffer"):
        run(out, a._create_view((8,), byte_offset=4), 1.0, 8, 1, 8)
    limit = device.max_threads_per_block
    # A kernel may have a lower limit than the device.
    with pytest.raises(TVMError, match=rf"= {limit * 2} threads .* allows \d+ threads .* \({limit} at most\)"):
        run(out, a, 1.0, 64, 1, limit * 2)
    with pytest.raises(TVMError, match=r"cannot allocate \d+ bytes; the device has \d+ bytes"):
        tvm.nd.empty((1 << 42,), "float32", device)
    with pytest.raises(TVMError, match=r"opencl\(63\): the device does not exist; OpenCL has \d+ devices here"):
        tvm.cl(63).sync()
    with pytest.raises(TVMError, match="does not support streams"):
        device.create_raw_stream()
    assert not tvm.cl(63).exist


def test_source_errors_come_with_the_log():
    broken = load_device_module(opencl_bytes(SCALE.replace("a[i]", "missing[i]")))
    a = tvm.nd.empty((4,), "float32", tvm.cl(0))
    with pytest.raises(TVMError, match="(?s)compiling the kernels failed.*missing"):
        broken["scale"](a, a, 1.0, 4, 1, 4)
    renamed = load_device_module(opencl_bytes(SCALE.replace("scale", "other")))
    with pytest.raises(TVMError, match="not contain the kernel 'scale'"):
        renamed["scale"](a, a, 1.0, 4, 1, 4)


def test_scalars_of_every_type():
    types = {"int8": -5, "uint8": 250, "int16": -300, "int32": -70000, "int64": -(1 << 40), "uint64": 1 << 40}
    types |= {"float32": 0.1, "uint32": 4000000000, "bool": 1}
    names = {"int8": "char", "uint8": "uchar", "int16": "short", "int32": "int", "int64": "long", "uint64": "ulong"}
    names |= {"float32": "float", "uint32": "uint", "bool": "char"}
    parameters = ", ".join(f"{names[t]} v{i}" for i, t in enumerate(types))
    stores = " ".join(f"out[{i}] = (double)v{i};" for i in range(len(types)))
    source = f"__kernel void show(__global double* out, {parameters}) {{ {stores} }}"
    module = load_device_module(opencl_bytes(source, {"show": {"args": ["handle", *types], "launch": ["threadIdx.x"]}}))
    out = tvm.nd.empty((len(types),), "float64", tvm.cl(0))
    module["show"](out, *types.values(), 1)
    expected = np.array([np.float32(v) if t == "float32" else v for t, v in types.items()], "float64")
    np.testing.assert_array_equal(out.numpy(), expected)


def test_half_scalars_are_rounded_to_nearest():
    source = """__kernel void bits(__global ushort* out, __global const ushort* unused, ushort a, ushort b) {
      out[0] = a; out[1] = b; }"""
    kernels = {"bits": {"args": ["handle", "handle", "float16", "bfloat16"], "launch": ["threadIdx.x"]}}
    module = load_device_module(opencl_bytes(source, kernels))
    out = tvm.nd.empty((2,), "uint16", tvm.cl(0))
    import ml_dtypes

    values = [0.1, -1.5, 65504.0, 65520.0, 6e-8, 1e-9, 2.0**-14, 1.0009765, 1.00048828125, 1.00146484375, float("inf")]
    for value in values:
        module["bits"](out, out, value, value, 1)
        with np.errstate(over="ignore"):
            expected = [np.float16(np.float32(value)), ml_dtypes.bfloat16(np.float32(value))]
        assert out.numpy().tolist() == [int(e.view("uint16")) for e in expected], value


def test_threads_launch_the_same_kernel(scale):
    wrong = []

    def work(number: int) -> None:
        value = np.full(64, number, "float32")
        a, out = tvm.nd.array(value, tvm.cl(0)), tvm.nd.empty((64,), "float32", tvm.cl(0))
        for factor in range(20):
            scale["scale"](out, a, float(factor), 64, 2, 32)
            if not np.array_equal(out.numpy(), value * factor):
                wrong.append((number, factor))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def spinning() -> tvm.runtime.Module:
    """A kernel that takes as long as it is told."""
    source = """__kernel void spin(__global float* out, int n) {
      float x = 1; for (int i = 0; i < n; ++i) x = x * 1.0000001f + out[1]; out[0] = x; }"""
    kernels = {"spin": {"args": ["handle", "int32"], "launch": ["threadIdx.x"]}}
    return load_device_module(opencl_bytes(source, kernels))


def test_time_evaluator_waits_for_the_device():
    module = spinning()
    out = tvm.nd.array(np.ones(2, "float32"), tvm.cl(0))
    # One of many short ones is timed without a pause of the machine.
    short = module.time_evaluator("spin", tvm.cl(0), number=1, repeat=50)(out, 10, 1)
    long = module.time_evaluator("spin", tvm.cl(0), number=1, repeat=3)(out, 5_000_000, 1)
    assert long.min > 3 * short.min and long.min > 2e-3


def test_times_are_of_the_device_and_lie_within_the_hosts():
    module = spinning()
    out = tvm.nd.array(np.ones(2, "float32"), tvm.cl(0))
    evaluate = module.time_evaluator("spin", tvm.cl(0), number=5, repeat=4)
    begin = time.perf_counter()
    result = evaluate(out, 100_000, 1)
    wall = time.perf_counter() - begin
    assert len(result.results) == 4 and min(result.results) > 0
    # The clocks of host and device may run at slightly different speeds.
    assert 5 * sum(result.results) <= 1.1 * wall


def test_memory_of_the_host_is_the_callers_again_after_a_copy():
    module = spinning()
    busy = tvm.nd.array(np.ones(2, "float32"), tvm.cl(0))
    for size in (1, 1000, 300_000):
        array = tvm.nd.empty((size,), "float32", tvm.cl(0))
        for turn in range(4):
            value = np.full(size, turn, "float32")
            module["spin"](busy, 1_000_000, 1)
            array.copyfrom(value)
            value[:] = -1  # while the device still works on what is before the copy
            np.testing.assert_array_equal(array.numpy(), np.full(size, turn, "float32"))


def test_more_than_waits_for_the_device_is_copied_too():
    arrays = [tvm.nd.empty((200_000,), "float32", tvm.cl(0)) for _ in range(40)]
    for turn, array in enumerate(arrays):
        array.copyfrom(np.full(200_000, turn, "float32"))
    for turn, array in enumerate(arrays):
        assert (array.numpy() == turn).all()
    large = np.arange(5 << 20, dtype="float32")
    np.testing.assert_array_equal(tvm.nd.array(large, tvm.cl(0)).numpy(), large)


def test_bytes_survive_and_bad_ones_are_refused(scale):
    assert scale.type_key == "opencl" and "__kernel void scale" in scale.get_source()
    assert scale.get_source("ptx") == "" and scale.is_binary_serializable and not scale.is_dso_exportable
    data = opencl_bytes()
    for length in (0, 7, 15, 16, 40, len(data) - 1):
        with pytest.raises(TVMError, match="corrupt|json"):
            load_device_module(data[:length])
    with pytest.raises(TVMError, match="no driver for kernels of kind 'abacus'"):
        load_device_module(data.replace(b'"opencl", "images"', b'"abacus", "images"'))
    kernels = {"f": {"args": ["float128"], "launch": []}}
    with pytest.raises(TVMError, match="'float128' is not a supported type"):
        load_device_module(opencl_bytes("", kernels))


def test_function_outlives_its_module():
    run = load_device_module(opencl_bytes())["scale"]
    a = tvm.nd.array(np.ones(4, "float32"), tvm.cl(0))
    run(a, a, 3.0, 4, 1, 4)
    np.testing.assert_array_equal(a.numpy(), np.full(4, 3.0, "float32"))


def run_elsewhere(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", "import tvm\n" + code], env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_fork_is_refused_in_the_child():
    code = """
import os
tvm.nd.empty((1,), device=tvm.cl(0))
child = os.fork()
if child == 0:
    try: tvm.nd.empty((1,), device=tvm.cl(0))
    except tvm.TVMError as e: print(e, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    assert "a forked process cannot use it" in run_elsewhere(code)

"""Schedules compiled for the accelerator compute what NumPy computes, and their token programs pass the checker."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
import vta
from tests.contrib.vta import schedules
from tvm import rpc, te
from tvm.contrib.vta import device
from vta.testing import simulator


def checked(s, args, inputs):
    """The output of a schedule; the checker has no findings in its programs."""
    with device.observe() as findings:
        out = schedules.run(s, args, inputs)
    assert not findings, findings[0].text
    return out


def elementwise(compute, *shapes, blocks=6, dtype=None):
    """The schedule of one ALU operation of tensors that are loaded to the accumulators."""
    env = vta.get_env()
    whole = (blocks, env.BATCH, env.BLOCK_OUT)
    ins = [te.placeholder(shape or whole, dtype or env.acc_dtype, f"x{i}") for i, shape in enumerate(shapes)]
    bufs = [te.compute(t.shape, lambda *i, t=t: t(*i).astype(env.acc_dtype), f"{t.name}_buf") for t in ins]
    alu = te.compute(whole, lambda *i: compute(*(b(*i[: len(b.shape)]) for b in bufs)), "alu")
    out = te.compute(whole, lambda *i: alu(*i).astype(env.out_dtype), "out")
    s = te.create_schedule(out.op)
    for stage in bufs:
        s[stage].set_scope(env.acc_scope)
        s[stage].pragma(s[stage].op.axis[0], env.dma_copy)
    s[alu].set_scope(env.acc_scope)
    s[alu].pragma(s[alu].op.axis[0], env.alu)
    s[out].pragma(s[out].op.axis[0], env.dma_copy)
    return s, [*ins, out]


def test_the_first_guide_adds_vectors_through_a_file_and_a_session(tmp_path):
    env = vta.get_env()
    s, args = elementwise(lambda a, b: a + b, None, None, blocks=64)
    function = vta.build(s, args, tvm.target.Target("ext_dev", host=env.target_host), name="my_vadd")
    function.save(str(tmp_path / "vadd.o"))
    remote = rpc.LocalSession()
    remote.upload(str(tmp_path / "vadd.o"))
    loaded = remote.load_module("vadd.o")
    ctx = remote.ext_dev(0)
    a, b = (np.random.default_rng(k).integers(-128, 128, (64, 1, 16)).astype("int32") for k in (1, 2))
    c = tvm.nd.array(np.zeros(a.shape, env.inp_dtype), ctx)
    simulator.clear_stats()
    loaded(tvm.nd.array(a, ctx), tvm.nd.array(b, ctx), c)
    np.testing.assert_array_equal(c.numpy(), (a + b).astype("int8"))
    counted = simulator.stats()
    assert (counted["acc_load_nbytes"], counted["out_store_nbytes"], counted["alu_counter"]) == (8192, 1024, 64)
    assert counted["uop_load_nbytes"] == 4  # one micro-op in a loop of the instruction


OPERATIONS = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "min": lambda a, b: te.min(a, b),
    "max": lambda a, b: te.max(a, b),
    "add_constant": lambda a: a + 5,
    "subtract_constant": lambda a: a - 7,
    "constant_first": lambda a: 3 + a,
    "mul_constant": lambda a: a * -3,
    "shift_right": lambda a: a >> 3,
    "shift_left": lambda a: a << 2,
    "copy": lambda a: a,
    "twice": lambda a: a + a,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_alu_operations_are_those_of_numpy(name, rng):
    compute = OPERATIONS[name]
    count = compute.__code__.co_argcount
    s, args = elementwise(compute, *[None] * count)
    shape = tuple(int(d) for d in args[0].shape)
    inputs = [rng.integers(-1000, 1000, shape).astype("int32") for _ in range(count)]
    numpy = {"min": np.minimum, "max": np.maximum}.get(name, compute)
    np.testing.assert_array_equal(checked(s, args, inputs), numpy(*inputs).astype("int8"))


def test_an_operand_that_is_used_again_is_copied_before_the_operation(rng):
    env = vta.get_env()
    x = te.placeholder((5, env.BATCH, env.BLOCK_OUT), env.acc_dtype, "x")
    buf = te.compute(x.shape, lambda *i: x(*i), "buf")
    twice = te.compute(x.shape, lambda *i: buf(*i) * 2, "twice")
    total = te.compute(x.shape, lambda *i: twice(*i) + buf(*i), "total")
    out = te.compute(x.shape, lambda *i: total(*i).astype(env.out_dtype), "out")
    s = te.create_schedule(out.op)
    for stage, pragma in ((buf, env.dma_copy), (twice, env.alu), (total, env.alu)):
        s[stage].set_scope(env.acc_scope)
        s[stage].pragma(s[stage].op.axis[0], pragma)
    s[out].pragma(s[out].op.axis[0], env.dma_copy)
    value = rng.integers(-40, 40, (5, 1, 16)).astype("int32")
    np.testing.assert_array_equal(checked(s, [x, out], [value]), (3 * value).astype("int8"))


def test_narrow_values_are_widened_when_they_are_loaded_to_the_accumulators(rng):
    s, args = elementwise(lambda a: te.max(a, 0), None, dtype="int8")
    value = rng.integers(-128, 128, (6, 1, 16)).astype("int8")
    np.testing.assert_array_equal(checked(s, args, [value]), np.maximum(value, 0))


@pytest.mark.parametrize("threads", [1, 2])
def test_matrix_multiplication_of_random_sizes(threads, rng):
    env = vta.get_env()
    for _ in range(3):
        o, n, m, oc, ic = (int(rng.integers(1, high)) for high in (4, 4, 3, 4, 3))
        s, args = schedules.matmul(env, o, n * ic, m * oc * threads, oc, ic, threads)
        inputs = schedules.random_inputs(args, rng)
        np.testing.assert_array_equal(checked(s, args, inputs), schedules.matmul_result(*inputs))


@pytest.mark.parametrize(
    "ic,oc,size,kernel,pad,stride,oc_block,h_block,threads",
    [
        (2, 4, 7, 3, 1, 1, 2, 7, 2),
        (1, 2, 9, 3, 1, 2, 1, 5, 1),
        (1, 2, 8, 1, 0, 2, 2, 2, 1),
        (1, 2, 6, 5, 2, 1, 1, 3, 2),
    ],
)
def test_convolution_pads_while_it_loads(ic, oc, size, kernel, pad, stride, oc_block, h_block, threads, rng):
    s, args = schedules.conv2d(vta.get_env(), ic, oc, size, kernel, pad, stride, oc_block, h_block, threads)
    inputs = schedules.random_inputs(args, rng)
    simulator.clear_stats()
    np.testing.assert_array_equal(checked(s, args, inputs), schedules.conv2d_result(*inputs, pad, stride))
    out = int(args[-1].shape[2])
    assert simulator.stats()["gemm_counter"] == ic * oc * out * out * kernel * kernel


def test_virtual_threads_hide_the_latency_of_memory(rng):
    used = {}
    with vta.Environment({"TARGET": "tsim"}) as env:
        for threads in (1, 2):
            s, args = schedules.conv2d(env, 4, 8, 14, 3, 1, 1, oc_block=4, h_block=7, threads=threads)
            inputs = schedules.random_inputs(args, rng)

            def measure(env, remote, s=s, args=args, inputs=inputs, threads=threads):
                simulator.clear_stats()
                out = schedules.run(s, args, inputs)
                np.testing.assert_array_equal(out, schedules.conv2d_result(*inputs, 1, 1))
                used[threads] = simulator.utilization()

            vta.testing.run(measure)
    assert used[2] > used[1] + 0.15, used


SMALL = {"LOG_BLOCK": 3, "LOG_INP_BUFF_SIZE": 14, "LOG_WGT_BUFF_SIZE": 16, "LOG_ACC_BUFF_SIZE": 16}


@pytest.mark.parametrize("sizes", [SMALL, {"LOG_BATCH": 1}, {"LOG_BLOCK": 5, "LOG_BATCH": 2}])
def test_other_sizes_of_the_accelerator(sizes, rng):
    with vta.Environment(sizes) as env:
        s, args = schedules.matmul(env, 1, 2, 2, 2)
        inputs = schedules.random_inputs(args, rng)

        def check(env, remote):
            np.testing.assert_array_equal(checked(s, args, inputs), schedules.matmul_result(*inputs))

        vta.testing.run(check)


def test_mock_stages_have_no_instructions():
    env = vta.get_env()
    s, args = schedules.matmul(env.mock, 1, 1, 1)
    assert env.mock.mock is env.mock and env.mock.alu == "skip_alu"
    text = str(vta.lower(s, args))
    assert "VTALoad" not in text and "VTAUopPush" not in text


def test_an_error_of_the_device_is_raised_by_the_function():
    s, args = elementwise(lambda a: a + 1, None, blocks=600)
    function = schedules.build(s, args)

    def check(env, remote):
        with pytest.raises(tvm.TVMError, match="the memory has 512|outside the memory"):
            schedules.call(function, args, [np.zeros((600, 1, 16), "int32")])

    with vta.Environment({"LOG_ACC_BUFF_SIZE": 15}):  # The device has less memory than the program uses.
        vta.testing.run(check)


def test_a_program_that_needs_too_much_memory_is_rejected():
    s, args = elementwise(lambda a, b: a + b, None, None, blocks=2000)
    with pytest.raises(tvm.TVMError, match="local.acc_buffer"):
        vta.lower(s, args)


@pytest.mark.parametrize(
    "compute,words",
    [
        (lambda a: tvm.tir.floordiv(a, 3), "the ALU computes add, multiply, minimum, maximum and shifts"),
        (lambda a: a + 40000, "the constant 40000 does not fit 16 bits"),
    ],
)
def test_unsupported_alu_operations_name_the_reason(compute, words):
    s, args = elementwise(compute, None)
    with pytest.raises(tvm.TVMError, match=words):
        vta.lower(s, args)


def test_copies_that_dma_cannot_do_name_the_reason():
    env = vta.get_env()

    def load(shape, index, dtype=env.inp_dtype, scope=env.inp_scope):
        x = te.placeholder((32, 32), dtype, "x")
        buf = te.compute(shape, lambda *i: x(*index(*i)), "buf")
        s = te.create_schedule(te.compute(shape, lambda *i: buf(*i), "out").op)
        s[buf].set_scope(scope)
        s[buf].pragma(s[buf].op.axis[0], env.dma_copy)
        return vta.lower(s, [x])

    for words, arguments in {
        "the innermost 16 values must be dense": ((4, 16), lambda i, j: (j, i)),
        "24 innermost values are not a multiple": ((1, 24), lambda i, j: (i, j)),
        "values in DRAM must have type int8": ((4, 16), lambda i, j: (i, j), "int32"),
        "cannot copy to or from memory of scope local": ((4, 16), lambda i, j: (i, j), "int8", "local"),
    }.items():
        with pytest.raises(tvm.TVMError, match=words):
            load(*arguments)


def test_names_of_vta_are_those_of_the_package():
    import tvm.contrib.vta.environment
    import vta.environment

    assert vta.environment is tvm.contrib.vta.environment
    assert vta.environment.__spec__.name == "tvm.contrib.vta.environment"
    with pytest.raises(ModuleNotFoundError, match="No module named 'vta.nothing'"):
        import vta.nothing
    env = vta.get_env()
    assert env.MODEL == "sim_1x16_i8w8a32_15_15_18_17" and env.target.attrs["model"] == env.MODEL
    assert env.OUT_BUFF_SIZE == env.ACC_BUFF_SIZE // 4 and env.LOG_BLOCK_OUT == 4
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        env.nothing
    with pytest.raises(tvm.TVMError, match="cannot load the bitstream a.bit"):
        vta.program_fpga(rpc.LocalSession(), "a.bit")
    vta.program_fpga(rpc.LocalSession())


def test_forced_serial_execution_gives_the_same_result(rng):
    env = vta.get_env()
    s, args = schedules.matmul(env, 1, 2, 4, 2, threads=2)
    inputs = schedules.random_inputs(args, rng)
    with vta.build_config(debug_flag=env.DEBUG_FORCE_SERIAL):
        np.testing.assert_array_equal(schedules.run(s, args, inputs), schedules.matmul_result(*inputs))


def test_the_library_is_found(monkeypatch):
    from vta.libinfo import find_libvta

    assert find_libvta("libvta_fsim")[0].endswith((".so", ".dylib"))

    def missing():
        raise tvm.TVMError("missing")

    monkeypatch.setattr("tvm.contrib.vta._lib.find_library", missing)
    assert find_libvta("libvta_fsim", optional=True) == []
    with pytest.raises(tvm.TVMError, match="libvta_fsim: the simulator library was not found"):
        find_libvta("libvta_fsim")

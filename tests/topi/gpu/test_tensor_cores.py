"""Products on tensor cores: what is chosen, the text of the main loop, and that every configuration compiles."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import tvm
from tests import cuda_emulator as emulator
from tests.cuda_emulator.marks import needs_compiler, needs_emulator
from tests.topi.gpu.test_gemm import convolved
from tvm import te, topi
from tvm.topi.gpu import gemm, operand_layout, tensor_cores
from tvm.topi.gpu.gemm import Sizes
from tvm.topi.gpu.machine import Machine


def cuda(arch: str = "sm_90") -> tvm.target.Target:
    return tvm.target.Target(f"cuda -arch={arch}", host="llvm")


def source_of(outs, args, target) -> str:
    with target:
        schedule = topi.schedule.schedule_for(outs, target)
    return tvm.build(schedule, args, target).imported_modules[0].get_source()


def a_configuration(**given):
    config = {"tile": (32, 32), "warps": (2, 2), "block_k": 32, "stages": 3, "split_k": 1, **given}
    return lambda sizes, machine: config


@pytest.mark.parametrize("arch, dtype, out, wanted", [
    ("sm_90", "float16", "float16", True), ("sm_90", "float16", "float32", True), ("sm_75", "float16", "float16", True),
    ("sm_70", "float16", "float16", False), ("sm_80", "bfloat16", "float32", True),
    ("sm_75", "bfloat16", "float32", False), ("sm_90", "float32", "float32", False), ("sm_90", "int8", "int32", False),
    ("sm_90", "float16", "float64", False), ("sm_90a", "float16", "float16", True),
])  # fmt: skip
def test_which_products_go_to_tensor_cores(arch, dtype, out, wanted):
    assert tensor_cores.fits({dtype}, out, cuda(arch)) == wanted
    assert not tensor_cores.fits({dtype}, out, tvm.target.Target("opencl"))


def test_float32_goes_there_only_when_it_is_allowed():
    with tvm.transform.PassContext(config={"topi.allow_tf32": True}):
        assert tensor_cores.fits({"float32"}, "float32", cuda())


def sides(*args):
    with cuda():
        return operand_layout.operand(*args)


def test_operands_are_copied_along_the_way_they_lie():
    a = te.placeholder((64, 48), "float16")
    assert sides(lambda k, i: a(i, k), (), 64, 48) == (True, 8)
    assert sides(lambda k, i: a(k, i), (), 48, 64) == (False, 8)
    odd = te.placeholder((64, 20), "float16")
    assert sides(lambda k, i: odd(i, k), (), 64, 20) == (True, 4)
    prime = te.placeholder((64, 7), "float16")
    assert sides(lambda k, i: prime(i, k), (), 64, 7).vector_width == 1
    wide = te.placeholder((64, 48), "float32")
    assert sides(lambda k, i: wide(i, k), (), 64, 48) == (True, 4)


def test_padding_around_channels_leaves_copies_whole():
    data = te.placeholder((1, 14, 14, 32), "float16")
    padded = topi.nn.pad(data, (0, 1, 1, 0), (0, 1, 1, 0))

    def image(k, p):
        return padded(0, p // 14 + k // 96, p % 14 + k // 32 % 3, k % 32)

    assert sides(image, (), 196, 288) == (True, 8)
    first = topi.nn.pad(te.placeholder((1, 32, 14, 14), "float16"), (0, 0, 1, 1), (0, 0, 1, 1))
    assert sides(lambda k, p: first(0, k % 32, p // 14 + k // 96, p % 14 + k // 32 % 3), (), 196, 288).vector_width == 1


@pytest.mark.parametrize("sizes", [
    Sizes(1, 4096, 4096, 4096, 2), Sizes(1, 49, 512, 4608, 2), Sizes(1, 3136, 64, 64, 2), Sizes(12, 128, 128, 64, 2),
    Sizes(1, 1, 1000, 2048, 2), Sizes(1, 7, 5, 3, 2),
])  # fmt: skip
def test_the_pick_is_one_of_the_space(sizes):
    for arch in ("sm_75", "sm_80", "sm_90"):
        machine = Machine(cuda(arch))
        config = tensor_cores.TEMPLATE.choose(sizes, machine)
        table = tensor_cores.TEMPLATE.space(sizes, machine)
        assert tensor_cores.TEMPLATE.valid(sizes, machine, config)
        assert all(config[key] in table[key] for key in table)


def test_large_products_have_large_tiles_and_small_ones_are_divided():
    machine = Machine(cuda())
    large = tensor_cores.TEMPLATE.choose(Sizes(1, 4096, 4096, 4096, 2), machine)
    assert large["tile"] == (64, 64) and large["split_k"] == 1
    small = tensor_cores.TEMPLATE.choose(Sizes(1, 49, 512, 4608, 2), machine)
    assert small["split_k"] > 1


def test_operand_tiles_larger_than_the_shared_memory_are_not_valid():
    machine = Machine(cuda("sm_75"))
    sizes = Sizes(1, 512, 512, 512, 2)
    config = {"tile": (64, 64), "warps": (2, 2), "block_k": 64, "stages": 4, "split_k": 1}
    assert not tensor_cores.TEMPLATE.valid(sizes, machine, config)
    assert tensor_cores.TEMPLATE.valid(sizes, machine, {**config, "tile": (32, 32), "stages": 2})


@needs_compiler
def test_the_loop_over_the_sum_waits_for_what_it_needs_only(monkeypatch):
    monkeypatch.setattr(tensor_cores.TEMPLATE, "choose", a_configuration())
    target = cuda()
    with target:
        a, b = te.placeholder((64, 256), "float16", "a"), te.placeholder((256, 64), "float16", "b")
        made = topi.cuda.matmul(a, b)
    text = source_of([made], [a, b, made], target)
    kernel = text[text.index('extern "C"') :]
    loop = kernel[kernel.index("for (int k_outer") :]
    # One barrier an iteration; copies of one later iteration stay on their way.
    assert loop.index("tvm_copy_async_commit();") < loop.index("tvm_copy_async_wait_1();") < loop.index("__syncthreads")
    before = kernel[: kernel.index("for (int k_outer")]
    assert before.count("tvm_copy_async_commit();") == 2
    assert re.search(r"tvm_fragment_a_row_float16\(", loop) and re.search(r"tvm_fragment_b_row_float16\(", loop)
    assert "tvm_fragment_product_float16(" in loop


@needs_compiler
@pytest.mark.parametrize("arch, dtype", [("sm_75", "float16"), ("sm_80", "float16"), ("sm_90", "bfloat16"),
                                         ("sm_80", "float32")])  # fmt: skip
def test_products_compile_without_local_memory(arch, dtype, monkeypatch):
    monkeypatch.setattr(tensor_cores.TEMPLATE, "choose", a_configuration(stages=2 if arch == "sm_75" else 3))
    target = cuda(arch)
    with target, tvm.transform.PassContext(config={"topi.allow_tf32": True}):
        a, b = te.placeholder((70, 96), dtype, "a"), te.placeholder((72, 96), dtype, "b")
        made = topi.nn.relu(topi.cuda.dense(a, b, out_dtype=dtype))
        schedule = topi.schedule.schedule_for([made], target)
        ptx = tvm.build(schedule, [a, b, made], target).imported_modules[0].get_source("ptx")
    assert "ldmatrix.sync.aligned.m8n8.x4.shared.b16" in ptx and "mma.sync.aligned.m16n8k" in ptx
    assert ".local" not in ptx
    assert ("cp.async.cg.shared.global" in ptx) == (arch != "sm_75")


def any_configuration(rng):
    """In place of the pick: any valid configuration."""

    def choose(sizes, machine):
        table = tensor_cores.TEMPLATE.space(sizes, machine)
        while True:
            config = {name: values[rng.integers(len(values))] for name, values in table.items()}
            if tensor_cores.TEMPLATE.valid(sizes, machine, config):
                print(sizes, config)
                return config

    return choose


def run(outs, args, values, wanted, arch: str = "sm_80", **config):
    """Compare with what the emulated device computes; halves are rounded once more than double precision."""
    target = cuda(arch)
    with target, tvm.transform.PassContext(config=config):
        schedule = topi.schedule.schedule_for(outs, target)
        with emulator.building():
            built = tvm.build(schedule, args, target, name="f")
        assert "tvm_fragment_product" in built.imported_modules[0].get_source()
    kind = np.dtype(getattr(ml_dtypes, outs[0].dtype, outs[0].dtype))
    got = emulator.call(built, [*values, np.zeros(wanted.shape, kind)], "f")[-1]
    exact = 2e-3 if values[0].dtype == "float32" else 1e-5
    close = {"float16": 3e-3, "bfloat16": 2e-2, "float32": exact}[outs[0].dtype]
    limit = close * float(np.abs(wanted).max())
    np.testing.assert_allclose(got.astype("float64"), wanted, rtol=close, atol=limit)


def drawn(rng, shape, dtype="float16"):
    return rng.standard_normal(shape).astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))


@needs_compiler
@needs_emulator
@pytest.mark.parametrize("most", [0, 8, 32])
def test_numbers_that_lie_apart_are_held_and_then_stored(most, rng, monkeypatch):
    """Rows of an odd length, by threads that hold as many numbers as they bring or store them one by one."""
    monkeypatch.setattr(tensor_cores.TEMPLATE, "choose", a_configuration(tile=(32, 16), block_k=64, stages=2))
    monkeypatch.setattr(tensor_cores, "MAX_STAGED", most)
    a, b = drawn(rng, (2, 75, 197)), drawn(rng, (2, 197, 40))
    with cuda("sm_80"):
        left, right = (te.placeholder(x.shape, "float16") for x in (a, b))
        made = topi.cuda.batch_matmul(left, right, out_dtype="float32", transpose_b=False)
    assert ("left_local[32]" in source_of([made], [left, right, made], cuda("sm_80"))) == (most == 32)
    run([made], [left, right, made], [a, b], a.astype("float64") @ b.astype("float64"))


@needs_emulator
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize(
    "dtype, out, arch",
    [
        ("float16", "float16", "sm_75"),
        ("float16", "float32", "sm_80"),
        ("bfloat16", "bfloat16", "sm_90"),
        ("float32", "float32", "sm_80"),
    ],
)
def test_products(transpose_a, transpose_b, dtype, out, arch, rng, monkeypatch):
    monkeypatch.setattr(tensor_cores.TEMPLATE, "choose", any_configuration(rng))
    m, n, k = (int(x) for x in rng.integers(1, 80, 3))
    n = max(n, gemm.MIN_N)
    x, y = drawn(rng, (k, m) if transpose_a else (m, k), dtype), drawn(rng, (n, k) if transpose_b else (k, n), dtype)
    with cuda(arch), tvm.transform.PassContext(config={"topi.allow_tf32": True}):
        a, b = te.placeholder(x.shape, dtype), te.placeholder(y.shape, dtype)
        made = topi.nn.relu(topi.cuda.matmul(a, b, None, out, transpose_a, transpose_b))
    left, right = x.astype("float64"), y.astype("float64")
    wanted = (left.T if transpose_a else left) @ (right.T if transpose_b else right)
    run([made], [a, b, made], [x, y], np.maximum(wanted, 0), arch, **{"topi.allow_tf32": True})


@needs_emulator
def test_a_batch_of_products(rng, monkeypatch):
    monkeypatch.setattr(tensor_cores.TEMPLATE, "choose", any_configuration(rng))
    x, y = drawn(rng, (3, 40, 72)), drawn(rng, (3, 50, 72))
    with cuda():
        a, b = te.placeholder(x.shape, "float16"), te.placeholder(y.shape, "float16")
        made = topi.cuda.batch_matmul(a, b)
    run([made], [a, b, made], [x, y], x.astype("float64") @ y.astype("float64").transpose(0, 2, 1))


@needs_emulator
@pytest.mark.parametrize("case", [
    # images, channels, size, filters, window, stride, padding, layout
    (1, 16, 9, 24, 3, 1, 1, "NHWC"), (2, 32, 7, 40, 1, 1, 0, "NHWC"), (2, 4, 12, 17, 7, 2, 3, "NHWC"),
    (2, 5, 6, 9, 3, 2, 1, "NHWC"), (1, 16, 9, 12, 3, 1, 1, "NCHW"), (2, 8, 8, 33, 1, 1, 0, "NCHW"),
    # Fewer filters than a tile has columns, fewer rows than it has rows.
    (64, 32, 1, 8, 1, 1, 0, "NHWC"), (33, 96, 1, 4, 1, 1, 0, "NHWC"), (3, 40, 1, 3, 1, 1, 0, "NHWC"),
    (7, 16, 2, 1, 1, 1, 0, "NHWC"),
])  # fmt: skip
@pytest.mark.parametrize("free", [False, True])
def test_convolution_with_an_epilogue(case, free, rng, monkeypatch):
    if free:
        monkeypatch.setattr(tensor_cores.TEMPLATE, "choose", any_configuration(rng))
    n, channels, size, filters, window, stride, padding, layout = case
    last = layout == "NHWC"
    x, w = drawn(rng, (n, channels, size, size)), drawn(rng, (filters, channels, window, window))
    bias = drawn(rng, (filters,) if last else (filters, 1, 1))
    values = [x.transpose(0, 2, 3, 1) if last else x, w.transpose(2, 3, 1, 0), bias]
    with cuda():
        d, k, b = (te.placeholder(v.shape, "float16") for v in values)
        made = topi.cuda.conv2d(d, k, stride, padding, 1, data_layout=layout, kernel_layout="HWIO", out_dtype="float32")
        r = topi.nn.relu(topi.add(topi.cast(made, "float16"), b))
    wanted = convolved(x.astype("float64"), w.astype("float64"), stride, padding)
    wanted = np.maximum((wanted.transpose(0, 2, 3, 1) if last else wanted) + bias.astype("float64"), 0)
    run([r], [d, k, b, r], [np.ascontiguousarray(v) for v in values], wanted)


def test_the_tag_has_a_template():
    from tvm.topi.schedule.gpu import TEMPLATES

    assert TEMPLATES[tensor_cores.TAG] is tensor_cores.TEMPLATE and TEMPLATES[gemm.TAG] is gemm.TEMPLATE

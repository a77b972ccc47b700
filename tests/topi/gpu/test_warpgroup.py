"""Products by warpgroups (sm_90a): numbers of every kind of configuration, the text of the main loop, and that the
emulator sees what a device leaves undefined. With ``TVM_CUDA_REAL=1`` the numbers are those of this machine's GPU."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import subprocess

import numpy as np
import pytest

import tvm
from tests import cuda_emulator as emulator
from tests.cuda_emulator.marks import needs_compiler, needs_emulator, undefined
from tests.topi.gpu.test_gemm import convolved
from tests.topi.gpu.test_tensor_cores import cuda, drawn
from tvm import autotvm, relay, te, topi
from tvm.autotvm.record import decode, encode
from tvm.error import TVMError
from tvm.topi.gpu import tensor_cores, warpgroup
from tvm.topi.gpu.gemm import Sizes
from tvm.topi.gpu.machine import Machine

TF32 = {"topi.allow_tf32": True}
LARGE = Sizes(1, 4096, 4096, 4096, 2)


def configurations(sizes: Sizes = LARGE) -> list[dict]:
    """All valid configurations of warpgroups without split-k."""
    machine = Machine(cuda("sm_90a"))
    rows = itertools.product(warpgroup.TILES, warpgroup.COUNTS, warpgroup.STAGES)
    found = [{"warpgroup": True, "tile": t, "warps": w, "block_k": 64, "stages": s, "split_k": 1} for t, w, s in rows]
    return [c for c in found if tensor_cores.TEMPLATE.valid(sizes, machine, c)]


def a_configuration(**given) -> dict:
    return {"warpgroup": True, "tile": (64, 64), "warps": (2, 1), "block_k": 64, "stages": 4, "split_k": 1, **given}


def built(monkeypatch, config: dict, shapes, dtype: str, out: str, turned=(False, False)):
    """The tensors and the module of a product with what follows it."""
    monkeypatch.setattr(tensor_cores.TEMPLATE, "choose", lambda sizes, machine: dict(config))
    target = cuda("sm_90a")
    with target, tvm.transform.PassContext(config=TF32):
        a, b = (te.placeholder(shape, dtype) for shape in shapes)
        made = topi.nn.relu(topi.cuda.matmul(a, b, None, out, *turned))
        schedule = topi.schedule.schedule_for([made], target)
        return tvm.build(schedule, [a, b, made], target, name="f")


def building():
    return contextlib.nullcontext() if emulator.REAL else emulator.building()


def called(module, values) -> np.ndarray:
    """The last array after a call, on the emulator or on the GPU."""
    if not emulator.REAL:
        return emulator.call(module, values, "f")[-1]
    held = [tvm.nd.array(v, tvm.cuda(0)) for v in values]
    module["f"](*held)
    return held[-1].numpy()


def compare(monkeypatch, rng, config, sizes, dtype="float16", out="float32", turned=(False, False)) -> None:
    m, n, k = sizes
    print(config, sizes, dtype, out, turned)
    x, y = drawn(rng, (k, m) if turned[0] else (m, k), dtype), drawn(rng, (n, k) if turned[1] else (k, n), dtype)
    with building():
        made = built(monkeypatch, config, (x.shape, y.shape), dtype, out, turned)
    assert "wgmma.mma_async" in made.imported_modules[0].get_source()
    got = called(made, [x, y, drawn(rng, (m, n), out)]).astype("float64")
    left, right = x.astype("float64"), y.astype("float64")
    wanted = np.maximum((left.T if turned[0] else left) @ (right.T if turned[1] else right), 0)
    close = {"float16": 3e-3, "bfloat16": 2e-2, "float32": 4e-3 if dtype == "float32" else 1e-5}[out]
    # Sums of either sign cancel: what they are close to is measured by what they are made of.
    limit = close * float((np.abs(left).T if turned[0] else np.abs(left)).max() * np.abs(right).max()) * np.sqrt(k)
    np.testing.assert_allclose(got, wanted, rtol=close, atol=limit)


@needs_emulator
@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("dtype, out", [("float16", "float16"), ("bfloat16", "float32")])
def test_products(turned, dtype, out, rng, monkeypatch):
    found = configurations()
    config = found[rng.integers(len(found))]
    sizes = [int(x) for x in rng.integers(1, (200, 300, 400))]
    sizes[1] = max(sizes[1], 16)
    if rng.integers(2):
        # Copies of eight numbers at once.
        sizes = [-(-x // 8) * 8 for x in sizes]
    compare(monkeypatch, rng, config, sizes, dtype, out, turned)


@needs_emulator
@pytest.mark.parametrize("turned", [(False, False), (True, True)])
def test_split_k(turned, rng, monkeypatch):
    compare(monkeypatch, rng, a_configuration(split_k=3, stages=3), (70, 72, 400), "float16", "float32", turned)


@needs_emulator
def test_after_a_kernel_of_more_threads_that_needs_no_fence(rng, monkeypatch):
    warps = {"warpgroup": False, "tile": (32, 32), "warps": (2, 4), "block_k": 64, "stages": 3, "split_k": 1}
    x, y = drawn(rng, (64, 128), "float16"), drawn(rng, (128, 128), "float16")
    with building():
        made = built(monkeypatch, warps, (x.shape, y.shape), "float16", "float32")
    called(made, [x, y, drawn(rng, (64, 128), "float32")])
    compare(monkeypatch, rng, a_configuration(tile=(64, 128), warps=(1, 1)), (64, 128, 128))


@needs_emulator
def test_many_pipeline_stages(rng, monkeypatch):
    compare(monkeypatch, rng, a_configuration(stages=8, warps=(1, 1)), (70, 72, 700))


@needs_emulator
def test_k_smaller_than_block_k(rng, monkeypatch):
    compare(monkeypatch, rng, a_configuration(), (20, 40, 9))


@needs_emulator
def test_float32_along_the_sum_as_tf32(rng, monkeypatch):
    compare(monkeypatch, rng, a_configuration(block_k=32), (70, 100, 132), "float32", "float32", (False, True))


def scheduled(outs, args):
    """A module whose products are by warpgroups."""
    target = cuda("sm_90a")
    with target, building():
        module = tvm.build(topi.schedule.schedule_for(outs, target), args, target, name="f")
    assert "wgmma.mma_async" in module.imported_modules[0].get_source()
    return module


@needs_emulator
def test_a_batch_of_products(rng, monkeypatch):
    monkeypatch.setattr(tensor_cores.TEMPLATE, "choose", lambda sizes, machine: a_configuration())
    x, y = drawn(rng, (3, 40, 72)), drawn(rng, (3, 50, 72))
    with cuda("sm_90a"):
        a, b = te.placeholder(x.shape, "float16"), te.placeholder(y.shape, "float16")
        made = topi.cuda.batch_matmul(a, b, out_dtype="float32")
    got = called(scheduled([made], [a, b, made]), [x, y, np.zeros((3, 40, 50), "float32")])
    wanted = x.astype("float64") @ y.astype("float64").transpose(0, 2, 1)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-3)


@needs_emulator
@pytest.mark.parametrize("case", [
    # images, channels, size, filters, window, stride, padding, layout
    (1, 16, 9, 24, 3, 1, 1, "NHWC"), (2, 5, 6, 9, 3, 2, 1, "NHWC"), (2, 8, 8, 33, 1, 1, 0, "NCHW"),
])  # fmt: skip
def test_convolution_with_an_epilogue(case, rng, monkeypatch):
    monkeypatch.setattr(tensor_cores.TEMPLATE, "choose", lambda sizes, machine: a_configuration(warps=(1, 1), stages=3))
    n, channels, size, filters, window, stride, padding, layout = case
    last = layout == "NHWC"
    x, w = drawn(rng, (n, channels, size, size)), drawn(rng, (filters, channels, window, window))
    values = [x.transpose(0, 2, 3, 1) if last else x, w.transpose(2, 3, 1, 0)]
    with cuda("sm_90a"):
        d, k = (te.placeholder(v.shape, "float16") for v in values)
        made = topi.cuda.conv2d(d, k, stride, padding, 1, data_layout=layout, kernel_layout="HWIO", out_dtype="float32")
        out = topi.nn.relu(made)
    wanted = convolved(x.astype("float64"), w.astype("float64"), stride, padding)
    wanted = np.maximum(wanted.transpose(0, 2, 3, 1) if last else wanted, 0)
    module = scheduled([out], [d, k, out])
    got = called(module, [*map(np.ascontiguousarray, values), np.zeros(wanted.shape, "float32")])
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-3)


# What a device leaves undefined is an error of the emulator, or shows in the numbers.


def changed(monkeypatch, old: str, new: str):
    """One product whose text has ``new`` for ``old``: what the emulator gives, and what is right."""

    def change(text, target):
        text = str(text)
        at = text.index('extern "C"')
        assert old in text[at:] or old in text[:at]
        return text[:at] + text[at:].replace(old, new) if old in text[at:] else text.replace(old, new)

    tvm.register_func("tvm_callback_cuda_postproc", change, override=True)
    try:
        rng = np.random.default_rng(3)
        x, y = drawn(rng, (128, 512)), drawn(rng, (512, 128))
        with emulator.building():
            made = built(monkeypatch, a_configuration(tile=(64, 128)), (x.shape, y.shape), "float16", "float32")
    finally:
        from tvm.runtime.registry import remove_global_func

        remove_global_func("tvm_callback_cuda_postproc")
    got = emulator.call(made, [x, y, np.zeros((128, 128), "float32")], "f")[-1]
    return got, np.maximum(x.astype("float64") @ y.astype("float64"), 0)


@needs_emulator
@undefined
@pytest.mark.parametrize("old, new, error", [
    ("tvm_warpgroup_visible();", "", "without fence.proxy.async"),
    ("tvm_copy_async_wait_1();", "tvm_copy_async_wait_1(); tvm_warpgroup_visible();", None),
    ("  tvm_warpgroup_begin();\n", "", "without wgmma.fence"),
    ("wgmma.wait_group.sync.aligned 1;", "wgmma.wait_group.sync.aligned 2;", "written before its product was waited"),
    ("tvm_warpgroup_wait_0();", "", "ends before its wgmma products do"),
    ("(k_outer + 2) & 3", "(k_outer + 3) & 3", "written before its product was waited"),
])  # fmt: skip
def test_what_orders_products_is_needed(old, new, error, monkeypatch):
    if error is not None:
        with pytest.raises(TVMError, match=error):
            changed(monkeypatch, old, new)
        return
    got, wanted = changed(monkeypatch, old, new)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-2)


@needs_emulator
@undefined
@pytest.mark.parametrize("old, new", [
    # No change of places, another distance between blocks of columns or groups of rows, another start.
    ("0x40000040", "0x40"), ("tvm_matrix_descriptor(b, 512,", "tvm_matrix_descriptor(b, 256,"),
    ("0x40000040", "0x40000080"), ("x + 2,", "x + 4,"), ("p, 1, 1, 0, 1;", "p, 1, 1, 0, 0;"),
])  # fmt: skip
def test_each_field_of_a_descriptor_matters(old, new, monkeypatch):
    try:
        got, wanted = changed(monkeypatch, old, new)
    except TVMError as error:
        assert "outside of shared array" in str(error) or "wgmma" in str(error)
        return
    assert not np.allclose(got, wanted, rtol=1e-2, atol=1e-1)


# What is chosen


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
def test_only_one_architecture_has_them(arch):
    machine = Machine(cuda(arch))
    assert "warpgroup" not in tensor_cores.TEMPLATE.space(LARGE, machine)
    assert not tensor_cores.TEMPLATE.valid(LARGE, machine, a_configuration())


def test_spaces_of_sm_90a_have_both():
    machine = Machine(cuda("sm_90a"))
    table = tensor_cores.TEMPLATE.space(LARGE, machine)
    assert set(table["tile"]) == {*tensor_cores.TILES, *warpgroup.TILES} and table["warpgroup"] == [True, False]
    assert "warpgroup" not in tensor_cores.TEMPLATE.space(Sizes(1, 4096, 4096, 4096, 4), machine)
    usual = Machine(cuda("sm_90"))
    narrow = tensor_cores.TEMPLATE.choose(LARGE, usual)
    assert tensor_cores.TEMPLATE.valid(LARGE, machine, {"warpgroup": False, **narrow})
    # Tiles of warps are none of warpgroups.
    assert not tensor_cores.TEMPLATE.valid(LARGE, machine, {"warpgroup": True, **narrow})


@pytest.mark.parametrize("sizes", [LARGE, Sizes(1, 49, 512, 4608, 2), Sizes(12, 128, 128, 64, 2), Sizes(1, 7, 5, 3, 2)])
def test_the_pick_is_one_of_the_space(sizes):
    machine = Machine(cuda("sm_90a"))
    config, table = tensor_cores.TEMPLATE.choose(sizes, machine), tensor_cores.TEMPLATE.space(sizes, machine)
    assert tensor_cores.TEMPLATE.valid(sizes, machine, config) and all(config[key] in table[key] for key in table)


def test_large_products_are_done_by_warpgroups():
    assert tensor_cores.TEMPLATE.choose(LARGE, Machine(cuda("sm_90a")))["warpgroup"]


# The text


@needs_compiler
def test_products_of_a_step_run_while_the_next_is_asked_for(monkeypatch):
    made = built(monkeypatch, a_configuration(), ((256, 512), (512, 256)), "float16", "float16")
    text = made.imported_modules[0].get_source()
    kernel = text[text.index('extern "C"') :]
    assert "extern __shared__ __align__(1024)" in kernel
    loop = kernel[kernel.index("for (int k_outer") :]
    order = ["tvm_copy_async_commit();", "tvm_copy_async_wait_1();", "tvm_warpgroup_visible();", "__syncthreads();",
             "tvm_copy_async_16(", "tvm_warpgroup_product_f16_64x64x64_k1_n512(", "tvm_warpgroup_wait_1();",
             "tvm_warpgroup_wait_0();", "__syncthreads();", "tvm_warpgroup_store_64x64("]  # fmt: skip
    at = 0
    for word in order:
        assert word in loop[at:], f"{word} is not where it belongs"
        at = loop.index(word, at) + 1


@needs_compiler
def test_other_architectures_refuse_the_instruction(monkeypatch):
    monkeypatch.setattr(tensor_cores.TEMPLATE, "choose", lambda sizes, machine: a_configuration())
    target = cuda("sm_90")
    with target:
        a, b = te.placeholder((128, 128), "float16"), te.placeholder((128, 128), "float16")
        made = topi.cuda.matmul(a, b)
        schedule = topi.schedule.schedule_for([made], target)
        with pytest.raises(TVMError, match="only available on sm_90a"):
            tvm.build(schedule, [a, b, made], target)


@needs_compiler
@pytest.mark.parametrize("turned", [(False, False), (True, True)])
@pytest.mark.parametrize("config", [a_configuration(tile=(64, 256)), a_configuration(tile=(128, 128), warps=(1, 2))])
def test_products_compile_without_local_memory(config, turned, monkeypatch, tmp_path):
    made = built(monkeypatch, config, ((512, 512), (512, 512)), "bfloat16", "bfloat16", turned)
    ptx = made.imported_modules[0].get_source("ptx")
    assert ".target sm_90a" in ptx and "wgmma.mma_async.sync.aligned.m64n" in ptx and ".local" not in ptx
    if shutil.which("ptxas") is None:
        return
    (tmp_path / "f.ptx").write_text(ptx)
    command = ["ptxas", "-arch=sm_90a", "-v", "-o", str(tmp_path / "f.cubin"), str(tmp_path / "f.ptx")]
    said = subprocess.run(command, capture_output=True, text=True)
    # A loss of speed that the assembler warns of: products one after the other.
    assert said.returncode == 0 and "C7510" not in said.stderr and "serialize" not in said.stderr
    assert " 0 bytes spill stores" in said.stderr or "0 bytes stack frame" in said.stderr


@needs_compiler
def test_records_of_the_tuner_say_whether_warpgroups_multiply():
    x, w = (relay.var(name, shape=(256, 512), dtype="float16") for name in ("data", "weight"))
    mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w)))
    (task,) = autotvm.task.extract_from_program(mod, {}, "cuda -arch=sm_90a")
    drawn_ones = map(task.config_space.get, iter(task.config_space.get_rand_index, None))
    config = next(c for c in drawn_ones if c["warpgroup"].val)
    given = autotvm.MeasureInput(task.target, task, config), autotvm.MeasureResult((1e-6,), 0, 1.0, 1.0)
    (again, _) = decode(encode(*given))
    with task.target:
        schedule, args = task.instantiate(again.config)
        made = tvm.build(schedule, args, task.target)
    assert "wgmma.mma_async" in made.imported_modules[0].get_source()

"""CUDA C: its text, compiled for three architectures; errors of the compiler; what is refused. No GPU is needed."""

from __future__ import annotations

import os
import shutil

import pytest

import tvm
from tests.codegen import gpu_programs as programs
from tests.cuda_emulator.marks import needs_compiler
from tvm import te, tir
from tvm.codegen import device_module
from tvm.codegen.cuda import build as cuda
from tvm.codegen.cuda import half as cuda_half
from tvm.codegen.cuda import nvrtc
from tvm.contrib import nvcc
from tvm.error import TVMError
from tvm.target import Target

ARCHITECTURES = ("sm_75", "sm_80", "sm_90")

pytestmark = needs_compiler


def text_of(mod) -> str:
    return cuda.emit(mod, Target(programs.CUDA))[0]


def kernel_of(text: str) -> str:
    """The text from the first kernel on."""
    return text[text.index('extern "C"') :]


def compile_everywhere(text: str, architectures=ARCHITECTURES) -> dict[str, str]:
    """PTX by architecture; machine code is made as well."""
    out = {}
    for arch in architectures:
        code = nvrtc.compile_all(text, arch)
        assert code["cubin"][:4] == b"\x7fELF"
        out[arch] = code["ptx"].decode()
        assert f".target {arch}" in out[arch]
    return out


def call(name: str, *args, dtype: str = "handle"):
    return tir.Call(dtype, tvm.ir.Op.get("tir." + name), args)


def test_a_vector_is_one_access():
    text = text_of(programs.kernels_of(*programs.elementwise(lambda x: x * 2.0 + 1.0, lanes=4), programs.CUDA))
    assert (
        kernel_of(text)
        == """\
extern "C" __global__ void __launch_bounds__(16) f_kernel(const float* __restrict__ A, float* __restrict__ B) {
  const int blockIdx_x = (int)blockIdx.x; /* blockIdx.x */
  const int threadIdx_x = (int)threadIdx.x; /* threadIdx.x */
  float v[4] __attribute__((aligned(16)));
  float v1[4] __attribute__((aligned(16)));
  *(float4*)(v1 + 0) = *(const float4*)(A + ((blockIdx_x * 64) + (threadIdx_x * 4)));
  #pragma unroll
  for (int lane = 0; lane < 4; ++lane) {
    v[lane] = (v1[lane] * 2.0f) + 1.0f;
  }
  *(float4*)(B + ((blockIdx_x * 64) + (threadIdx_x * 4))) = *(float4*)(v + 0);
}
"""
    )
    for ptx in compile_everywhere(text).values():
        assert "ld.global.nc.v4.f32" in ptx and "st.global.v4.f32" in ptx


def test_an_access_is_as_wide_as_its_alignment_allows():
    def shifted(offset: int, dtype: str = "float32", lanes: int = 4):
        a = te.placeholder((256 + offset,), name="A", dtype=dtype)
        b = te.compute((256,), lambda i: a[i + offset] + tir.const(1, dtype), name="B")
        s = te.create_schedule(b.op)
        programs.bind(s, b, 16, lanes)
        return kernel_of(text_of(programs.kernels_of(s, [a, b], programs.CUDA)))

    assert shifted(4).count("const float4*") == 1
    assert shifted(2).count("const float2*") == 2
    assert "const float2*" not in shifted(1) and shifted(1).count("v1[3] = *(") == 1
    assert shifted(0, "int8", 16).count("const uint4*") == 1
    assert shifted(0, "float16", 8).count("const uint4*") == 1
    assert shifted(0, "float64", 4).count("const uint4*") == 2


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64", "float16",
                                   "bfloat16", "float32", "float64"])  # fmt: skip
def test_every_type_compiles(dtype: str):
    def function(x):
        y = x * tir.const(3, dtype) + tir.const(1, dtype)
        y = tir.if_then_else(y > x, tir.max(y, tir.const(2, dtype)), tir.min(x, tir.const(5, dtype)))
        if "int" in dtype:
            return te.floordiv(y, tir.const(3, dtype)) + te.truncmod(y, tir.const(5, dtype)) + tir.popcount(y)
        y = te.exp(y) / (y - tir.const(float("-inf"), dtype))
        return tir.Select(tir.isnan(y), tir.const(float("nan"), dtype), y.astype("int32").astype(dtype))

    for lanes, architectures in ((1, ("sm_75", "sm_90")), (4, ("sm_80",))):
        mod = programs.kernels_of(*programs.elementwise(function, dtype, lanes=lanes), programs.CUDA)
        compile_everywhere(text_of(mod), architectures)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_every_function_compiles(dtype: str):
    from tvm.tir import intrinsics

    def function(x):
        total = x
        for name in (*intrinsics.FLOAT_UNARY, *intrinsics.ROUNDING):
            total = total + call(name, x, dtype=dtype)
        for name in ("pow", "fmod", "hypot", "copysign", "nextafter", "atan2"):
            total = total + call(name, x, total, dtype=dtype)
        total = total + call("ldexp", total, tir.const(3, "int32"), dtype=dtype)
        return total + tir.isinf(x).astype(dtype) + tir.isfinite(x).astype(dtype)

    compile_everywhere(text_of(programs.kernels_of(*programs.elementwise(function, dtype), programs.CUDA)), ("sm_80",))


def test_tiles_live_in_shared_memory_and_registers():
    mod = programs.kernels_of(*programs.matmul(), programs.CUDA)
    text, kernels = cuda.emit(mod, Target(programs.CUDA))
    assert text.count("__syncthreads();") == 2
    assert (kernels["f_kernel"].threads, kernels["f_kernel"].shared) == (64, 2048)
    for ptx in compile_everywhere(text).values():
        # The accumulators would be in local memory if an index of theirs were left to run time.
        assert ".local" not in ptx and "fma.rn.f32" in ptx


def test_dynamic_shared_memory_is_one_array():
    mod = programs.kernels_of(*programs.matmul(dtype="float16", scope="shared.dyn"), programs.CUDA)
    text, kernels = cuda.emit(mod, Target(programs.CUDA))
    assert text.count("extern __shared__ __align__(128) unsigned char buf_dyn_shmem[];") == 1
    assert text.count("__syncthreads();") == 2
    row = kernels["f_kernel"]
    assert row.launch[-1] == "tir.use_dyn_shared_memory" and row.shared == 0
    compile_everywhere(text)


def test_threads_reduce_together():
    compile_everywhere(text_of(programs.kernels_of(*programs.row_sums(), programs.CUDA)))


def test_halves_are_computed_as_halves():
    def function(x):
        return tir.max(x * x + x, tir.const(0, "float16"))

    text = text_of(programs.kernels_of(*programs.elementwise(function, "float16", lanes=2), programs.CUDA))
    assert cuda_half.TYPES["half_t"] in text and "bfloat16_t" not in text
    ptx = compile_everywhere(text)["sm_75"]
    assert "mul.rn.f16" in ptx and "add.rn.f16" in ptx and "setp.gt.f16" in ptx


def test_a_constant_table_is_part_of_the_text():
    import numpy as np

    def body(b, buffers, thread):
        data = tvm.nd.array(np.arange(4, dtype="float32"))
        table = tir.decl_buffer((4,), "float32", "table")
        store = tir.BufferStore(buffers["out"]._buffer, tir.BufferLoad(table, [tir.floormod(thread, 4)]), [thread])
        b.emit(tir.AllocateConst(table.data, "float32", [4], data, store))

    text = text_of(programs.written_by_hand({"out": ((32,), "float32")}, body))
    assert "static __device__ const float table[4] = {\n  0.0f, 1.0f, 2.0f, 3.0f\n};" in text
    compile_everywhere(text)


def test_shuffles_move_values_of_every_size_between_threads():
    kinds = ("int8", "float16", "int32", "float32", "float64")

    def body(b, buffers, thread):
        for kind in kinds:
            buffer = buffers[kind]
            mask = tir.tvm_warp_activemask()
            for function in (tir.tvm_warp_shuffle, tir.tvm_warp_shuffle_up, tir.tvm_warp_shuffle_down):
                buffer[thread] = function(mask, buffer[thread], 1, 32, 32)

    text = text_of(programs.written_by_hand({kind: ((32,), kind) for kind in kinds}, body))
    assert "__shfl_down_sync(" in text
    for ptx in compile_everywhere(text).values():
        assert "shfl.sync.idx.b32" in ptx and "shfl.sync.up.b32" in ptx


def test_bytes_multiply_in_fours():
    def body(b, buffers, thread):
        at = [tir.Ramp(thread * 4, 1, 4)]
        vectors = [tir.BufferLoad(buffers[name]._buffer, at) for name in ("x", "y")]
        buffers["out"][thread] = tir.dp4a(*vectors, tir.const(7, "int32"))
        old = tir.call_pure_extern("int32", "__dp4a", *vectors, buffers["out"][thread])
        buffers["out"][thread] = old

    arrays = {"x": ((128,), "int8"), "y": ((128,), "int8"), "out": ((32,), "int32")}
    for ptx in compile_everywhere(text_of(programs.written_by_hand(arrays, body))).values():
        assert ptx.count("dp4a.s32.s32") == 2


def test_threads_add_to_one_place():
    kinds = ("int32", "uint32", "int64", "float32", "float64")

    def body(b, buffers, thread):
        for kind in kinds:
            place = call("address_of", buffers[kind][0])
            b.emit(call("atomic_add", place, tir.const(1, kind), dtype=kind))

    text = text_of(programs.written_by_hand({kind: ((1,), kind) for kind in kinds}, body))
    for ptx in compile_everywhere(text).values():
        assert "atom" in ptx or "red" in ptx


def test_copies_run_beside_the_program():
    def body(b, buffers, thread):
        shared = b.allocate("float16", (256,), "shared", scope="shared")
        data = buffers["x"]._buffer.data
        b.emit(tir.ptx_cp_async("float16", shared._buffer.data, thread * 8, data, thread * 8, 16))
        b.emit(tir.ptx_commit_group())
        b.emit(tir.ptx_wait_group(0))
        b.emit(tir.tvm_storage_sync("shared"))
        buffers["out"][thread] = shared[255 - thread]

    text = text_of(programs.written_by_hand({"x": ((256,), "float16"), "out": ((32,), "float16")}, body))
    ptx = compile_everywhere(text)
    assert "cp.async.cg.shared.global" in ptx["sm_80"] and "cp.async.wait_group 0" in ptx["sm_90"]
    assert "cp.async" not in ptx["sm_75"]


@pytest.mark.parametrize(
    ("shape", "kinds", "dtypes", "sizes"),
    [
        ("m16n8k16", ("fp16", "fp16", "fp32"), ("float16", "float16", "float32"), (8, 4, 4)),
        ("m16n8k16", ("bf16", "bf16", "fp32"), ("bfloat16", "bfloat16", "float32"), (8, 4, 4)),
        ("m16n8k16", ("fp16", "fp16", "fp16"), ("float16", "float16", "float16"), (8, 4, 4)),
        ("m16n8k8", ("tf32", "tf32", "fp32"), ("float32", "float32", "float32"), (4, 2, 4)),
        ("m16n8k32", ("int8", "int8", "int32"), ("int8", "int8", "int32"), (16, 8, 4)),
        ("m8n8k4", ("fp64", "fp64", "fp64"), ("float64", "float64", "float64"), (1, 1, 2)),
    ],
)
def test_matrices_multiply_in_registers(shape, kinds, dtypes, sizes):
    def body(b, buffers, thread):
        a, m, c = (b.allocate(dtype, (size,), name, scope="local") for name, dtype, size in zip("abc", dtypes, sizes))
        for register, name, size in ((a, "x", sizes[0]), (m, "y", sizes[1])):
            with b.for_range(0, size, kind="unroll") as i:
                register[i] = buffers[name][thread * size + i]
        b.emit(tir.mma_fill(dtypes[2], sizes[2], c._buffer.data, 0))
        b.emit(tir.ptx_mma(dtypes[2], shape, "row", "col", *kinds, a._buffer.data, 0, m._buffer.data, 0,
                           c._buffer.data, 0, False))  # fmt: skip
        with b.for_range(0, sizes[2], kind="unroll") as i:
            buffers["out"][thread * sizes[2] + i] = c[i]

    arrays = {name: ((32 * size,), dtype) for name, dtype, size in zip(("x", "y", "out"), dtypes, sizes)}
    for ptx in compile_everywhere(text_of(programs.written_by_hand(arrays, body)), ("sm_80", "sm_90")).values():
        assert f"mma.sync.aligned.{shape}.row.col" in ptx and ".local" not in ptx


def test_matrices_are_loaded_from_shared_memory():
    def body(b, buffers, thread):
        shared = b.allocate("float16", (256,), "shared", scope="shared")
        registers = b.allocate("float16", (8,), "registers", scope="local")
        with b.for_range(0, 8) as i:
            shared[thread * 8 + i] = buffers["x"][thread * 8 + i]
        b.emit(tir.tvm_storage_sync("shared"))
        for flip in (False, True):
            b.emit(tir.ptx_ldmatrix("float16", flip, 4, ".b16", registers._buffer.data, 0, shared._buffer.data,
                                    thread * 8))  # fmt: skip
            with b.for_range(0, 8, kind="unroll") as i:
                buffers["out"][thread * 8 + i] += registers[i]
        b.emit(tir.mma_store("float16", 16, 16, buffers["out"]._buffer.data, registers._buffer.data, 0, 16))

    arrays = {"x": ((256,), "float16"), "out": ((256,), "float16")}
    for ptx in compile_everywhere(text_of(programs.written_by_hand(arrays, body))).values():
        assert "ldmatrix.sync.aligned.m8n8.x4.shared.b16" in ptx and "x4.trans.shared.b16" in ptx


@pytest.mark.parametrize(
    ("dtype", "result", "shape", "architectures"),
    [("float16", "float32", (16, 16, 16), ARCHITECTURES), ("float16", "float16", (32, 8, 16), ARCHITECTURES),
     ("int8", "int32", (16, 16, 16), ARCHITECTURES), ("bfloat16", "float32", (16, 16, 16), ARCHITECTURES[1:])],
)  # fmt: skip
def test_fragments_multiply(dtype, result, shape, architectures):
    m, n, k = shape

    def body(b, buffers, thread):
        fragments = {
            name: b.allocate(kind, (size,), f"part_{name}", scope=f"wmma.{use}")._buffer.data
            for name, use, kind, size in (
                ("a", "matrix_a", dtype, m * k), ("b", "matrix_b", dtype, k * n), ("c", "accumulator", result, m * n)
            )
        }  # fmt: skip

        def address(name):
            return call("address_of", buffers[name][0])

        b.emit(tir.tvm_fill_fragment(fragments["c"], m, n, k, 0, tir.const(0, result)))
        b.emit(tir.tvm_load_matrix_sync(fragments["a"], m, n, k, 0, address("x"), k, "row_major"))
        b.emit(tir.tvm_load_matrix_sync(fragments["b"], m, n, k, 0, address("y"), n, "row_major"))
        b.emit(tir.tvm_mma_sync(fragments["c"], 0, fragments["a"], 0, fragments["b"], 0, fragments["c"], 0))
        b.emit(tir.tvm_store_matrix_sync(fragments["c"], m, n, k, 0, address("out"), n, "row_major"))

    arrays = {"x": ((m * k,), dtype), "y": ((k * n,), dtype), "out": ((m * n,), result)}
    text = text_of(programs.written_by_hand(arrays, body))
    for ptx in compile_everywhere(text, architectures).values():
        assert f"wmma.mma.sync.aligned.row.row.m{m}n{n}k{k}" in ptx


def test_barriers_and_copies_in_bulk_on_hopper():
    def body(b, buffers, thread):
        shared = b.allocate("float32", (256,), "shared", scope="shared")
        b.emit(tir.create_barriers(1))
        b.emit(tir.ptx_init_barrier_thread_count(0, 32))
        b.emit(tir.tvm_storage_sync("shared"))
        with b.if_scope(thread == 0):
            b.emit(tir.ptx_cp_async_bulk("float32", shared._buffer.data, 0, buffers["x"]._buffer.data, 0, 1024, 0))
            b.emit(tir.ptx_arrive_barrier_expect_tx(0, 1024))
        with b.else_scope():
            b.emit(tir.ptx_arrive_barrier(0))
        b.emit(tir.ptx_wait_barrier(0))
        buffers["out"][thread] = shared[thread]

    text = text_of(programs.written_by_hand({"x": ((256,), "float32"), "out": ((32,), "float32")}, body))
    ptx = compile_everywhere(text, ("sm_90",))["sm_90"]
    assert "cp.async.bulk.shared::cluster.global" in ptx and "mbarrier.try_wait.parity" in ptx


def test_build_holds_machine_code_ptx_and_the_text():
    built = tvm.build(*programs.elementwise(lambda x: x + 1.0), "cuda -arch=sm_80", name="plus")
    (device,) = built.imported_modules
    assert "void __launch_bounds__(16) plus_kernel(" in device.get_source()
    text, kernels = cuda.emit(programs.kernels_of(*programs.row_sums(), programs.CUDA), Target(programs.CUDA))
    images = cuda.compiled(text, Target("cuda -arch=sm_80"))
    assert [(image.format, image.arch) for image in images] == [("cubin", "sm_80"), ("ptx", "sm_80")]
    table, back = device_module.unpack(device_module.pack("cuda", images, kernels))
    assert back == images and table["images"][1]["offset"] == len(images[0].data)


WAIT = 'asm volatile("griddepcontrol.wait;" ::: "memory");'


def dependent_kernels(built) -> dict[str, bool]:
    """By kernel of a module, whether the runtime may launch it while the one before it ends."""
    (device,) = built.imported_modules
    return {name: row["dependent"] for name, row in device_module.unpack(device._info.to_bytes())[0]["kernels"].items()}


@pytest.mark.parametrize("arch, waits", [("sm_80", False), ("sm_90", True), ("sm_90a", True)])
def test_kernels_wait_for_those_before_them_where_launches_overlap(arch, waits):
    built = tvm.build(*programs.row_sums(), f"cuda -arch={arch}", name="sums")
    text = built.imported_modules[0].get_source()
    assert text.count(WAIT) == (text.count("__global__") if waits else 0)
    assert set(dependent_kernels(built).values()) == {waits}


def test_a_kernel_whose_text_a_user_has_changed_is_not_taken_to_wait():
    change = lambda code, target: code.replace(WAIT, "")
    tvm.register_func("tvm_callback_cuda_postproc", change, override=True)
    try:
        built = tvm.build(*programs.row_sums(), "cuda -arch=sm_90", name="sums")
    finally:
        tvm._ffi.registry.remove_global_func("tvm_callback_cuda_postproc")
    assert set(dependent_kernels(built).values()) == {False}


@pytest.mark.parametrize("body, first", [
    ("ld.param.u64 %rd1, [a]; griddepcontrol.wait; ld.global.nc.f32 %f1, [%rd1];", True),
    ("ld.global.nc.f32 %f1, [%rd1]; griddepcontrol.wait;", False),
    ("cp.async.ca.shared.global [%r1], [%rd1], 4; griddepcontrol.wait;", False),
    ("ld.global.f32 %f1, [%rd1];", False), ("griddepcontrol.wait; ret;", True),
])  # fmt: skip
def test_memory_that_is_used_before_the_wait_is_seen(body, first):
    ptx = f".visible .entry other() {{ griddepcontrol.wait; ret; }} .visible .entry k(.param .u64 a) {{ {body} }}"
    assert cuda.waits_first(ptx) == {"other": True, "k": first}


def test_users_may_change_and_compile_the_text_themselves():
    seen = []

    def change(code, target):
        seen.append(("change", target.kind.name))
        return code + "// changed\n"

    def compile_it(code, target):
        seen.append(("compile", code.endswith("// changed\n")))
        return nvrtc.compile_cuda(code, "sm_75", "ptx")

    tvm.register_func("tvm_callback_cuda_postproc", change, override=True)
    tvm.register_func("tvm_callback_cuda_compile", compile_it, override=True)
    try:
        built = tvm.build(*programs.elementwise(lambda x: x + 1.0), "cuda -arch=sm_80")
    finally:
        for name in ("postproc", "compile"):
            tvm._ffi.registry.remove_global_func(f"tvm_callback_cuda_{name}")
    assert seen == [("change", "cuda"), ("compile", True)]
    assert built.imported_modules[0].get_source().endswith("// changed\n")


def test_an_error_of_the_compiler_shows_the_line():
    with pytest.raises(TVMError, match=r"does not compile for sm_80\nline 2: int y = undefined_thing;(.|\n)*undefined"):
        nvrtc.compile_all('extern "C" __global__ void k() {\nint y = undefined_thing;\n}\n', "sm_80")
    with pytest.raises(TVMError, match="has the form sm_80, got 'turing'"):
        nvrtc.usable("turing")
    with pytest.raises(ValueError, match="unknown format 'exe'; use one of ptx, cubin, fatbin"):
        nvrtc.compile_cuda("", "sm_80", "exe")


def test_the_public_compile_function():
    code = 'extern "C" __global__ void k(int* x) { *x = 1; }'
    assert b".target sm_75" in nvcc.compile_cuda(code, "ptx", "sm_75")
    with Target("cuda -arch=sm_80"):
        assert nvcc.compile_cuda(code, "cubin")[:4] == b"\x7fELF"


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
def test_nvcc_takes_the_same_text(monkeypatch):
    text = text_of(programs.kernels_of(*programs.matmul(dtype="float16"), programs.CUDA))
    monkeypatch.setattr(nvrtc, "library", lambda: None)
    code = nvrtc.compile_all(text, "sm_90")
    assert code["cubin"][:4] == b"\x7fELF" and b".target sm_90" in code["ptx"]
    with pytest.raises(TVMError, match=r"does not compile for sm_90\nline 1: int x = nothing;"):
        nvrtc.compile_all("int x = nothing;\n", "sm_90")


@pytest.fixture
def only_nvcc(monkeypatch, tmp_path):
    """No NVRTC, and an nvcc that knows these architectures."""

    def make(*lines: str) -> None:
        program = tmp_path / "nvcc"
        program.write_text("#!/bin/sh\n" + "".join(f"echo {line}\n" for line in lines))
        program.chmod(0o755)
        nvrtc.supported.cache_clear()

    monkeypatch.setattr(nvrtc, "library", lambda: None)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    yield make
    nvrtc.supported.cache_clear()


def test_an_architecture_that_nvcc_no_longer_knows_becomes_its_lowest(only_nvcc):
    only_nvcc("sm_80", "sm_75", "sm_120")
    assert [nvrtc.usable(arch) for arch in ("sm_50", "sm_75", "sm_90a")] == ["sm_75", "sm_75", "sm_90a"]
    only_nvcc("nvcc fatal: unknown option")
    assert nvrtc.usable("sm_50") == "sm_50"


def test_limits_of_the_architecture():
    def shared(scope: str, count: int):
        def body(b, buffers, thread):
            memory = b.allocate("float32", (count,), "memory", scope=scope)
            memory[thread] = buffers["x"][thread]
            b.emit(tir.tvm_storage_sync("shared"))
            buffers["x"][thread] = memory[31 - thread]

        return programs.written_by_hand({"x": ((32,), "float32")}, body)

    with pytest.raises(TVMError, match=r"f_kernel needs 80000 bytes of shared memory, but the target allows 49152"):
        cuda.emit(shared("shared", 20000), Target("cuda -arch=sm_90"))
    with pytest.raises(TVMError, match=r"f_kernel needs 80000 bytes of shared memory, but the target allows 65536"):
        cuda.emit(shared("shared.dyn", 20000), Target("cuda -arch=sm_75"))
    assert cuda.emit(shared("shared.dyn", 20000), Target("cuda -arch=sm_90"))
    with pytest.raises(TVMError, match=r"f_kernel needs 2048 threads in a block, but the target allows 1024"):
        text_of(programs.kernels_of(*programs.elementwise(lambda x: x, size=4096, threads=2048), programs.CUDA))


def test_types_without_values_are_named():
    with pytest.raises(TVMError, match="the cuda back end does not support values of type float8_e4m3fn"):
        cuda.Cuda.scalar_type("float8_e4m3fn")

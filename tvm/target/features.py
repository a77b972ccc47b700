"""``Features``: the capabilities of a target, which schedules and passes test instead of its name."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from tvm.target import arm, mobile_gpu, nvidia
from tvm.target.cpu import resolve_cpu
from tvm.target.gpu_cost import GPUCost

if TYPE_CHECKING:
    from tvm.target.record import Target


@dataclass(frozen=True)
class Features:
    """The capabilities of a target. Numbers are 0 if they do not apply; undeclared capabilities (``has_x``, ``is_x``)
    are False.

    Parameters
    ----------
    is_cpu : bool, optional
        Whether it is a CPU.
    is_gpu : bool, optional
        Whether it is a GPU.
    vector_bits : int, optional
        The width of a vector register.
    vector_registers : int, optional
        The number of vector registers.
    threads : int, optional
        The number of parallel threads.
    l1_bytes : int, optional
        The size of the L1 data cache of a core.
    l2_bytes : int, optional
        The size of the L2 cache of a core.
    l3_bytes : int, optional
        The size of the last-level cache, which cores share.
    warp_size : int, optional
        The number of threads that execute in lockstep.
    max_threads : int, optional
        The maximum number of threads per block.
    shared_bytes : int, optional
        The static shared memory available to a kernel.
    dynamic_shared_bytes : int, optional
        The dynamic shared memory that a launch may request.
    max_function_args : int, optional
        The maximum number of kernel arguments.
    block_threads : int, optional
        The preferred number of threads per block, if it is below the maximum.
    thread_registers : int, optional
        The maximum number of registers per thread.
    multiprocessors : int, optional
        The number of multiprocessors.
    multiprocessor_threads : int, optional
        The maximum number of resident threads per multiprocessor.
    multiprocessor_shared_bytes : int, optional
        The shared memory of a multiprocessor.
    cost : GPUCost, optional
        The constants of the cost models.
    has_near_shared : bool, optional
        Whether shared memory is faster than the cache.
    has_texture : bool, optional
        Whether the device has textures.
    is_nvidia : bool, optional
        Whether it is an NVIDIA GPU.
    mma_dtypes : frozenset[str], optional
        The operand types of warp-level matrix instructions.
    has_warpgroups : bool, optional
        Whether warpgroups can multiply operands in shared memory.
    has_async_copy : bool, optional
        Whether copies to shared memory can be asynchronous.
    has_warp_shuffle : bool, optional
        Whether threads of a warp can exchange values.
    has_half : bool, optional
        Whether it has float16 arithmetic.
    has_bfloat : bool, optional
        Whether it has bfloat16 arithmetic.
    has_double : bool, optional
        Whether it has float64 arithmetic.
    has_fma : bool, optional
        Whether it has fused multiply-add instructions.
    has_avx2 : bool, optional
        Whether it has AVX2.
    has_avx512 : bool, optional
        Whether it has AVX-512.
    has_vnni : bool, optional
        Whether it has int8 dot products on x86 (VNNI).
    has_amx_int8 : bool, optional
        Whether it has int8 tile instructions (AMX).
    has_amx_bf16 : bool, optional
        Whether it has bfloat16 tile instructions (AMX).
    has_asimd : bool, optional
        Whether it has NEON.
    has_fp16_simd : bool, optional
        Whether it has float16 vector arithmetic on Arm.
    has_dotprod : bool, optional
        Whether it has int8 dot products on Arm.
    has_matmul_i8 : bool, optional
        Whether it has int8 matrix multiplication instructions on Arm (I8MM).
    has_sve : bool, optional
        Whether it has scalable vectors (SVE).
    has_dsp : bool, optional
        Whether it has DSP instructions on Arm.
    has_mve : bool, optional
        Whether it has vector instructions on a microcontroller (MVE).
    has_integer_dot_product : bool, optional
        Whether OpenCL has int8 dot products.
    declared : frozenset[str], optional
        Further capabilities.
    """

    is_cpu: bool = False
    is_gpu: bool = False
    # CPU
    vector_bits: int = 0
    vector_registers: int = 0
    threads: int = 0
    l1_bytes: int = 0
    l2_bytes: int = 0
    l3_bytes: int = 0
    # GPU
    warp_size: int = 0
    max_threads: int = 0
    # Shared memory per block: static, and dynamic as requested at launch.
    shared_bytes: int = 0
    dynamic_shared_bytes: int = 0
    max_function_args: int = 0
    # The preferred number of threads per block, if it is below the maximum.
    block_threads: int = 0
    thread_registers: int = 0
    multiprocessors: int = 0
    multiprocessor_threads: int = 0
    multiprocessor_shared_bytes: int = 0
    cost: GPUCost = GPUCost()
    has_near_shared: bool = False
    has_texture: bool = False
    is_nvidia: bool = False
    # Element types of operands of warp-level matrix instructions (mma).
    mma_dtypes: frozenset[str] = frozenset()
    has_warpgroups: bool = False
    has_async_copy: bool = False
    has_warp_shuffle: bool = False
    # arithmetic and instructions
    has_half: bool = False
    has_bfloat: bool = False
    has_double: bool = False
    has_fma: bool = False
    has_avx2: bool = False
    has_avx512: bool = False
    has_vnni: bool = False
    has_amx_int8: bool = False
    has_amx_bf16: bool = False
    has_asimd: bool = False
    has_fp16_simd: bool = False
    has_dotprod: bool = False
    has_matmul_i8: bool = False
    has_sve: bool = False
    has_dsp: bool = False
    has_mve: bool = False
    has_integer_dot_product: bool = False
    # Further capabilities, declared by the facts of a kind.
    declared: frozenset[str] = frozenset()

    def __getattr__(self, name: str) -> bool:
        if name.startswith(("has_", "is_")):
            return name in self.declared
        raise AttributeError(
            f"unknown target feature '{name}'; the features are {', '.join(f.name for f in fields(self))}"
        )

    def lanes(self, bits: int) -> int:
        """The number of elements of ``bits`` width in a vector register; at least 1.

        Parameters
        ----------
        bits : int
            The width of an element.

        Returns
        -------
        int
        """
        return max(1, self.vector_bits // bits)


def features_of(target: Target) -> Features:
    of_family = {"cpu": _cpu_features, "gpu": _gpu_features}.get(target.kind.family, lambda target: Features())
    declared = {name for name, value in target.kind.facts.items() if name.startswith(("has_", "is_")) and value}
    return replace(of_family(target), declared=frozenset(declared))


def _cpu_features(target: Target) -> Features:
    cpu = resolve_cpu(target)
    core = arm.microcontroller(target.attrs)
    return Features(
        is_cpu=True,
        vector_bits=cpu.vector_bits,
        vector_registers=cpu.num_vector_registers,
        threads=cpu.cores,
        l1_bytes=cpu.l1_bytes,
        l2_bytes=cpu.l2_bytes,
        l3_bytes=cpu.l3_bytes,
        has_half=cpu.has_half,
        has_bfloat=cpu.has_bfloat,
        has_double=core is None,
        has_fma=cpu.has_fma,
        has_avx2=cpu.has_avx2,
        has_avx512=cpu.has_avx512,
        has_vnni=cpu.has_vnni,
        has_amx_int8=cpu.has_amx_int8,
        has_amx_bf16=cpu.has_amx_bf16,
        has_asimd=cpu.has_asimd,
        has_fp16_simd=cpu.has_fp16_simd,
        has_dotprod=cpu.has_dotprod,
        has_matmul_i8=cpu.has_matmul_i8,
        has_sve=cpu.has_sve,
        has_dsp=core is not None and core.has_dsp,
        has_mve=core is not None and core.has_mve,
        has_integer_dot_product=cpu.has_vnni or cpu.has_dotprod,
    )


# A GPU without further information.
_USUAL_MULTIPROCESSORS, _USUAL_MULTIPROCESSOR_THREADS, _USUAL_MULTIPROCESSOR_SHARED = 16, 2048, 96 << 10
_THREAD_REGISTERS = 255


def _gpu_features(target: Target) -> Features:
    attrs = {**target.kind.facts, **target.attrs}
    shared = int(attrs.get("max_shared_memory_per_block", 16384))
    features = Features(
        is_gpu=True,
        warp_size=attrs.get("thread_warp_size", 1),
        max_threads=attrs.get("max_threads_per_block") or attrs.get("max_num_threads", 256),
        shared_bytes=shared,
        dynamic_shared_bytes=shared,
        max_function_args=attrs.get("max_function_args", 0),
        thread_registers=_THREAD_REGISTERS,
        multiprocessors=_USUAL_MULTIPROCESSORS,
        multiprocessor_threads=_USUAL_MULTIPROCESSOR_THREADS,
        multiprocessor_shared_bytes=max(shared, _USUAL_MULTIPROCESSOR_SHARED),
        has_near_shared=True,
        has_texture="texture_spatial_limit" in attrs,
        vector_bits=128,
        has_half=bool(attrs.get("supports_float16", attrs.get("has_half", False))),
        has_double=bool(attrs.get("supports_float64", attrs.get("has_double", False))),
        has_fma=True,
        has_integer_dot_product=bool(attrs.get("supports_integer_dot_product", False)),
    )
    architecture = nvidia.architecture_of(target)
    if architecture is not None:
        return _nvidia_features(features, target, architecture)
    family = mobile_gpu.FAMILIES.get(str(attrs.get("device") or ""))
    return features if family is None else replace(features, **family._asdict())


def _nvidia_features(features: Features, target: Target, architecture: nvidia.Architecture) -> Features:
    """Add the capabilities of the architecture; tensor cores, copies and shuffles only if the kind's code can use
    PTX."""
    has_ptx = bool(target.kind.facts.get("has_inline_ptx"))
    asked = target.attrs.get("max_shared_memory_per_block")
    return replace(
        features,
        is_nvidia=True,
        # More than 48 KiB of shared memory must be dynamic on every device.
        shared_bytes=min(features.shared_bytes, nvidia.STATIC_SHARED),
        dynamic_shared_bytes=int(asked or architecture.block_shared) if has_ptx else features.shared_bytes,
        multiprocessors=architecture.multiprocessors,
        multiprocessor_threads=architecture.multiprocessor_threads,
        multiprocessor_shared_bytes=architecture.multiprocessor_shared,
        cost=architecture.cost,
        has_bfloat=architecture.has_bfloat,
        has_integer_dot_product=architecture.has_dp4a,
        mma_dtypes=frozenset(architecture.mma_k) if has_ptx else frozenset(),
        has_warpgroups=has_ptx and architecture.has_warpgroups,
        has_async_copy=has_ptx and architecture.has_async_copy,
        has_warp_shuffle=has_ptx,
    )

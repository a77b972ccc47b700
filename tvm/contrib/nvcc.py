"""What NVIDIA devices can do, by compute version; compiling CUDA sources with nvcc."""

from __future__ import annotations

import os
import shutil
import tempfile

from ..error import TVMError
from ..runtime import link
from ..target import Target


def parse_compute_version(compute_version: str) -> tuple[int, int]:
    """(major, minor) of "8.0"."""
    major, _, minor = compute_version.partition(".")
    try:
        return int(major), int(minor or 0)
    except ValueError as error:
        raise TVMError(f"the compute version is written like 8.0, got '{compute_version}'") from error


def get_target_compute_version(target: Target | None = None) -> str:
    """The compute version of the target (its -arch), as text."""
    target = target or Target.current(allow_none=True)
    arch = target.arch if target is not None and target.arch else ""
    digits = "".join(c for c in arch.partition("_")[2] if c.isdigit())
    if len(digits) < 2:
        raise TVMError("no CUDA architecture is known here; give one, as in Target('cuda -arch=sm_80')")
    return f"{digits[:-1]}.{digits[-1]}"


def have_fp16(compute_version: str) -> bool:
    return parse_compute_version(compute_version) in ((5, 3),) or parse_compute_version(compute_version)[0] >= 6


def have_int8(compute_version: str) -> bool:
    return parse_compute_version(compute_version) >= (6, 1)


def have_tensorcore(compute_version: str | None = None, target: Target | None = None) -> bool:
    return parse_compute_version(compute_version or get_target_compute_version(target))[0] >= 7


def have_cudagraph() -> bool:
    return shutil.which("nvcc") is not None


def have_bf16(compute_version: str) -> bool:
    return parse_compute_version(compute_version)[0] >= 8


def compile_cuda(code: str, target_format: str = "ptx", arch=None, options=None, path_target: str | None = None):
    """Compile CUDA C with nvcc to "ptx", "cubin" or "fatbin"; the bytes."""
    if target_format not in ("ptx", "cubin", "fatbin"):
        raise ValueError(f"compile_cuda makes ptx, cubin or fatbin, not '{target_format}'")
    if shutil.which("nvcc") is None:
        raise TVMError("compiling CUDA needs nvcc, which is not on PATH; install the CUDA toolkit")
    if arch is None:
        major, minor = parse_compute_version(get_target_compute_version())
        arch = ["-gencode", f"arch=compute_{major}{minor},code=sm_{major}{minor}"]
    flags = [f"-arch={arch}"] if isinstance(arch, str) else list(arch)
    with tempfile.TemporaryDirectory(prefix="tvm-") as folder:
        source = os.path.join(folder, "kernel.cu")
        result = path_target or os.path.join(folder, f"kernel.{target_format}")
        with open(source, "w", encoding="utf-8") as f:
            f.write(code)
        extra = [options] if isinstance(options, str) else list(options or ())
        link.run_compiler(["nvcc", f"--{target_format}", "-O3", *flags, *extra, "-o", result, source], "nvcc")
        with open(result, "rb") as f:
            return bytearray(f.read())

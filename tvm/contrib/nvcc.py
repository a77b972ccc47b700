"""Capabilities of NVIDIA GPUs by compute version, and compilation of CUDA sources."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from ..codegen.cuda import nvrtc
from ..error import TVMError
from ..target import Target, nvidia


def parse_compute_version(compute_version: str) -> tuple[int, int]:
    """The (major, minor) numbers of a version such as "8.0".

    Parameters
    ----------
    compute_version : str
        The compute capability of the GPU, such as "8.0".

    Returns
    -------
    tuple[int, int]

    Raises
    ------
    TVMError
        The version does not have the form 8.0.
    """
    major, _, minor = compute_version.partition(".")
    try:
        return int(major), int(minor or 0)
    except ValueError as error:
        raise TVMError(f"the compute version must have the form 8.0, got '{compute_version}'") from error


def get_target_compute_version(target: Target | None = None) -> str:
    """The compute version of the target (its -arch), as text.

    Parameters
    ----------
    target : Target, optional
        The target; by default the current one.

    Returns
    -------
    str

    Raises
    ------
    TVMError
        The architecture is unknown.
    """
    target = target or Target.current(allow_none=True)
    arch = target.arch if target is not None and target.arch else ""
    if not arch:
        raise TVMError("the CUDA architecture is unknown; specify one, as in Target('cuda -arch=sm_80')")
    major, minor = divmod(nvidia.number_of(arch), 10)
    return f"{major}.{minor}"


def have_fp16(compute_version: str) -> bool:
    """Whether a GPU has float16 arithmetic.

    Parameters
    ----------
    compute_version : str
        The compute capability of the GPU, such as "8.0".

    Returns
    -------
    bool
    """
    return parse_compute_version(compute_version) in ((5, 3),) or parse_compute_version(compute_version)[0] >= 6


def have_int8(compute_version: str) -> bool:
    """Whether a GPU has int8 dot products.

    Parameters
    ----------
    compute_version : str
        The compute capability of the GPU, such as "8.0".

    Returns
    -------
    bool
    """
    return parse_compute_version(compute_version) >= (6, 1)


def have_tensorcore(compute_version: str | None = None, target: Target | None = None) -> bool:
    """Whether a GPU has tensor cores.

    Parameters
    ----------
    compute_version : str, optional
        The compute capability of the GPU, such as "8.0".
    target : Target, optional
        The target; by default the current one.

    Returns
    -------
    bool
    """
    return parse_compute_version(compute_version or get_target_compute_version(target))[0] >= 7


def have_cudagraph() -> bool:
    """Whether the toolkit supports CUDA graphs.

    Returns
    -------
    bool
    """
    return shutil.which("nvcc") is not None


def have_fp8(compute_version: str) -> bool:
    """Whether a GPU supports 8-bit floats.

    Parameters
    ----------
    compute_version : str
        The compute capability of the GPU, such as "8.0".

    Returns
    -------
    bool
    """
    return parse_compute_version(compute_version) >= (8, 9)


def find_cuda_path() -> str:
    """The folder of the CUDA toolkit that contains nvcc.

    Returns
    -------
    str
        The folder of the toolkit.

    Raises
    ------
    RuntimeError
        No toolkit is installed.
    """
    found = shutil.which("nvcc")
    if found is not None:
        return os.path.dirname(os.path.dirname(os.path.realpath(found)))
    if os.path.exists("/usr/local/cuda/bin/nvcc"):
        return "/usr/local/cuda"
    raise RuntimeError("no CUDA toolkit was found: nvcc is not on the PATH")


def get_cuda_version(cuda_path: str | None = None) -> tuple[int, int]:
    """The (major, minor) version of the toolkit.

    Parameters
    ----------
    cuda_path : str, optional
        The folder of the toolkit.

    Returns
    -------
    tuple[int, int]

    Raises
    ------
    RuntimeError
        No toolkit is installed, or it does not report its version.
    """
    nvcc = os.path.join(cuda_path or find_cuda_path(), "bin", "nvcc")
    said = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"release (\d+)\.(\d+)", said)
    if found is None:
        raise RuntimeError(f"{nvcc} does not report its version")
    return int(found.group(1)), int(found.group(2))


def have_bf16(compute_version: str) -> bool:
    """Whether a GPU has bfloat16 arithmetic.

    Parameters
    ----------
    compute_version : str
        The compute capability of the GPU, such as "8.0".

    Returns
    -------
    bool
    """
    return parse_compute_version(compute_version)[0] >= 8


def compile_cuda(code: str, target_format: str = "ptx", arch=None, options=None, path_target: str | None = None):
    """Compile CUDA C to "ptx", "cubin" or "fatbin" with NVRTC or nvcc; also write it to ``path_target``, if given.

    Parameters
    ----------
    code : str
        The source.
    target_format : str, optional
        "ptx", "cubin" or "fatbin".
    arch : str, optional
        The architecture, such as "sm_80".
    options : list of str, optional
        Additional options.
    path_target : str, optional
        The output file.

    Returns
    -------
    bytes
        The compiled code.

    Raises
    ------
    TVMError
        ``arch`` is not an architecture, or the compilation failed.
    """
    if arch is None:
        major, minor = parse_compute_version(get_target_compute_version())
        arch = f"sm_{major}{minor}"
    elif not isinstance(arch, str):
        # Flags of nvcc, such as ["-gencode", "arch=compute_80,code=sm_80"].
        found = re.search(r"sm_\d+[af]?", " ".join(arch))
        if found is None:
            raise TVMError(f"{arch} does not contain an architecture such as sm_80")
        arch = found.group()
    extra = [options] if isinstance(options, str) else list(options or ())
    made = bytearray(nvrtc.compile_cuda(code, arch, target_format, extra))
    if path_target:
        with open(path_target, "wb") as file:
            file.write(made)
    return made

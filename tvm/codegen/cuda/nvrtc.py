"""Compile CUDA C with NVRTC, the compiler library (installed by tvm-classic[cuda]), or with nvcc on PATH."""

from __future__ import annotations

import ctypes
import glob
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache

from ...error import TVMError
from ...runtime import link
from ...target import nvidia
from . import space as cuda_space

FORMATS = ("ptx", "cubin", "fatbin")
_ERROR_LINE = re.compile(r"^[^\n(]*\((\d+)\): (?:catastrophic )?error", re.MULTILINE)
# The default language standard.
_FLAGS = ("--std=c++17",)


def _candidates() -> Iterator[str]:
    """Return the paths and names under which libnvrtc may be found."""
    package = importlib.util.find_spec("nvidia")
    for root in (package.submodule_search_locations or ()) if package is not None else ():
        for pattern in ("cuda_nvrtc/lib", "cu*/lib"):
            yield from sorted(glob.glob(os.path.join(root, pattern, "libnvrtc.so.*")))
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        home = os.environ.get(variable)
        if home:
            yield from sorted(glob.glob(os.path.join(home, "lib64", "libnvrtc.so.*")), reverse=True)
    yield from ("libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12")


@cache
def library() -> ctypes.CDLL | None:
    """Return NVRTC, or None if it is not installed."""
    for path in _candidates():
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    return None


def have_compiler() -> bool:
    return library() is not None or shutil.which("nvcc") is not None


@cache
def version() -> tuple[int, int]:
    """Return the version of NVRTC."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(library(), library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "nvrtcVersion")
    return major.value, minor.value


@cache
def supported() -> tuple[int, ...]:
    """Return the architectures that the compiler supports, such as 75 and 80; empty if the compiler does not report
    them."""
    nvrtc, count = library(), ctypes.c_int()
    if nvrtc is None:
        return _supported_by_nvcc()
    _check(nvrtc, nvrtc.nvrtcGetNumSupportedArchs(ctypes.byref(count)), "nvrtcGetNumSupportedArchs")
    numbers = (ctypes.c_int * count.value)()
    _check(nvrtc, nvrtc.nvrtcGetSupportedArchs(numbers), "nvrtcGetSupportedArchs")
    return tuple(numbers)


def _supported_by_nvcc() -> tuple[int, ...]:
    try:
        done = subprocess.run(["nvcc", "--list-gpu-code"], capture_output=True, text=True)
    except OSError:
        return ()
    return tuple(int(found) for found in re.findall(r"^sm_(\d+)$", done.stdout, re.MULTILINE))


def _check(nvrtc: ctypes.CDLL, status: int, what: str) -> None:
    if status:
        nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise TVMError(f"{what}: {nvrtc.nvrtcGetErrorString(status).decode()}")


def usable(arch: str) -> str:
    """Return ``arch``, or the lowest supported architecture if the compiler no longer supports ``arch``."""
    lowest = min(supported(), default=0)
    return f"sm_{lowest}" if nvidia.number_of(arch) < lowest else arch


def compile_all(text: str, arch: str, options: Sequence[str] = ()) -> dict[str, bytes]:
    """Compile source to machine code ("cubin") and to "ptx" for one architecture."""
    if library() is not None:
        return _by_library(text, arch, options)
    return {name: _by_nvcc(text, arch, name, options) for name in ("cubin", "ptx")}


def compile_cuda(text: str, arch: str, target_format: str = "ptx", options: Sequence[str] = ()) -> bytes:
    """Compile source to one format."""
    if target_format not in FORMATS:
        raise ValueError(f"compile_cuda: unknown format '{target_format}'; use one of {', '.join(FORMATS)}")
    if target_format == "fatbin" or library() is None:
        return _by_nvcc(text, arch, target_format, options)
    return _by_library(text, arch, options)[target_format]


def _by_library(text: str, arch: str, options: Sequence[str]) -> dict[str, bytes]:
    nvrtc = library()
    program = ctypes.c_void_p()
    status = nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernels.cu", 0, None, None)
    _check(nvrtc, status, "nvrtcCreateProgram")
    try:
        # Compile the kernels of a module in parallel.
        parallel = ("--split-compile=0",) if version() >= (12, 9) else ()
        # Functions of imported C source (pragma import_c) have no execution space; the option makes them device
        # functions.
        fixed = ("--device-as-default-execution-space", *_FLAGS, *parallel)
        flags = [f"--gpu-architecture={arch}".encode(), *(x.encode() for x in (*fixed, *options))]
        status = nvrtc.nvrtcCompileProgram(program, len(flags), (ctypes.c_char_p * len(flags))(*flags))
        if status:
            log = _read(nvrtc, program, "ProgramLog").rstrip(b"\0").decode("utf-8", "replace")
            raise TVMError(_explain(text, arch, log))
        return {"cubin": _read(nvrtc, program, "CUBIN"), "ptx": _read(nvrtc, program, "PTX").rstrip(b"\0")}
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _read(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), f"nvrtcGet{what}Size")
    data = ctypes.create_string_buffer(size.value)
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}")(program, data), f"nvrtcGet{what}")
    return data.raw


def _explain(text: str, arch: str, log: str) -> str:
    """Return the error message for a compiler log, with the source line of the first error."""
    found = _ERROR_LINE.search(log)
    lines = text.splitlines()
    number = int(found.group(1)) if found else 0
    place = f"\nline {number}: {lines[number - 1].strip()}" if 0 < number <= len(lines) else ""
    return f"the CUDA text does not compile for {arch}{place}\n{log.strip()}"


def _by_nvcc(text: str, arch: str, target_format: str, options: Sequence[str]) -> bytes:
    if shutil.which("nvcc") is None:
        raise TVMError(
            "compiling for CUDA needs NVRTC or nvcc, but neither was found; "
            "install NVRTC with 'pip install nvidia-cuda-nvrtc-cu12' or the extra tvm-classic[cuda]"
        )
    with tempfile.TemporaryDirectory(prefix="tvm-cuda-") as folder:
        source, result = os.path.join(folder, "kernels.cu"), os.path.join(folder, f"kernels.{target_format}")
        with open(source, "w", encoding="utf-8") as file:
            file.write(cuda_space.on_device(text))
        command = ["nvcc", f"--{target_format}", f"-arch={arch}", *_FLAGS, *options, "-o", result, source]
        try:
            link.run_compiler(command, "nvcc")
        except TVMError as error:
            raise TVMError(_explain(text, arch, str(error))) from None
        with open(result, "rb") as file:
            return file.read()

"""Detection of the targets of this machine's devices.

A device is any object with the attributes of ``tvm.runtime.Device``; the runtime is imported only when a device has
to be opened from its name or number.
"""

from __future__ import annotations

import functools

from tvm.error import TargetError
from tvm.runtime.host_cpu import usable_cores
from tvm.target import llvm_facts, nvidia
from tvm.target.kinds import CPU, CUDA, HEXAGON, KINDS, METAL, OPENCL, ROCM, VULKAN, WEBGPU, TargetKind

_KIND_OF_DEVICE = {
    CPU: "llvm",
    CUDA: "cuda",
    OPENCL: "opencl",
    VULKAN: "vulkan",
    METAL: "metal",
    ROCM: "rocm",
    HEXAGON: "hexagon",
    WEBGPU: "webgpu",
}

# Target option -> attribute of the device object.
_QUERIES = {
    "max_num_threads": "max_threads_per_block",
    "max_threads_per_block": "max_threads_per_block",
    "max_shared_memory_per_block": "max_shared_memory_per_block",
    "thread_warp_size": "warp_size",
    "l2_cache_size_bytes": "l2_cache_size_bytes",
}


def open_device(device_type: int | str, index: int = 0) -> object:
    from tvm.runtime import device

    return device(device_type, index)


def attrs_of_device(kind: TargetKind, device: object) -> dict[str, object]:
    """Return the options of ``kind`` whose values the device reports."""
    if kind.default_device_type == CPU:
        machine = llvm_facts.host()
        found = {"mcpu": machine.name, "mtriple": machine.triple, "num-cores": usable_cores()}
        return {name: value for name, value in found.items() if name in kind.schema}
    if not getattr(device, "exist", True):
        raise TargetError(f"the device {device} does not exist on this machine, so its target cannot be detected")
    attrs: dict[str, object] = {}
    for option, attribute in _QUERIES.items():
        value = getattr(device, attribute, None)
        if option in kind.schema and value:
            attrs[option] = int(value)
    version = getattr(device, "compute_version", None)
    if "arch" in kind.schema and version:
        arch = f"sm_{str(version).replace('.', '')}"
        attrs["arch"] = nvidia.own_architecture(arch)
    return attrs


@functools.cache
def local_arch() -> str | None:
    """Return the architecture of the first CUDA device, such as sm_90a, or None if there is none."""
    device = open_device(CUDA, 0)
    if not getattr(device, "exist", False):
        return None
    return str(attrs_of_device(KINDS["cuda"], device).get("arch") or "") or None


def config_of_device(device: object) -> dict[str, object]:
    if isinstance(device, str):
        name, _, index = device.partition(":")
        kind = KINDS.get("llvm" if name == "cpu" else name)
        if kind is None:
            raise TargetError(f"'{device}' is not a device; known kinds: {', '.join(KINDS.names())}")
        if kind.default_device_type != CPU:
            device = open_device(kind.default_device_type, int(index or 0))
    else:
        device_type = int(device.device_type)
        if device_type not in _KIND_OF_DEVICE:
            raise TargetError(f"no target kind exists for devices of type {device_type}")
        kind = KINDS[_KIND_OF_DEVICE[device_type]]
    return {"kind": kind.name, **attrs_of_device(kind, device)}

"""Devices: a type and an index. Making one never touches a driver; using one that is not there says so."""

from __future__ import annotations

from . import _lib

RPC_SESS_MASK = 128


class Device:
    """``tvm.cpu(0)``, ``tvm.device("cuda", 1)``."""

    __slots__ = ("device_type", "device_id", "_rpc_sess")

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLAOCL = 32
    kDLSDAccel = 33
    kOpenGL = 34
    kDLMicroDev = 35

    MASK2STR = {
        kDLCPU: "cpu",
        kDLCUDA: "cuda",
        kDLCUDAHost: "cuda_host",
        kDLCUDAManaged: "cuda_managed",
        kDLOpenCL: "opencl",
        kDLVulkan: "vulkan",
        kDLMetal: "metal",
        kDLVPI: "vpi",
        kDLROCM: "rocm",
        kDLROCMHost: "rocm_host",
        kDLExtDev: "ext_dev",
        kDLOneAPI: "oneapi",
        kDLWebGPU: "webgpu",
        kDLHexagon: "hexagon",
        kDLAOCL: "aocl",
        kDLSDAccel: "sdaccel",
        kOpenGL: "opengl",
        kDLMicroDev: "microdev",
    }
    STR2MASK = {
        "llvm": kDLCPU,
        "stackvm": kDLCPU,
        "cpu": kDLCPU,
        "c": kDLCPU,
        "test": kDLCPU,
        "hybrid": kDLCPU,
        "composite": kDLCPU,
        "cuda": kDLCUDA,
        "gpu": kDLCUDA,
        "nvptx": kDLCUDA,
        "cl": kDLOpenCL,
        "opencl": kDLOpenCL,
        "sdaccel": kDLOpenCL,
        "aocl": kDLAOCL,
        "aocl_sw_emu": kDLAOCL,
        "vulkan": kDLVulkan,
        "metal": kDLMetal,
        "vpi": kDLVPI,
        "rocm": kDLROCM,
        "ext_dev": kDLExtDev,
        "hexagon": kDLHexagon,
        "webgpu": kDLWebGPU,
    }

    def __init__(self, device_type: int, device_id: int):
        self.device_type = int(device_type)
        self.device_id = int(device_id)
        self._rpc_sess = None

    @property
    def exist(self) -> bool:
        """True when a driver for the device is loaded and the device is there."""
        return _lib.device_exists((self.device_type, self.device_id))

    def _attribute(self):
        """Attributes that only accelerators have: None on a CPU, an error for a device without a driver."""
        _lib.check(_lib.lib.TVMSynchronize(self.device_type, self.device_id, None))
        return None

    max_threads_per_block = property(_attribute)
    warp_size = property(_attribute)
    max_shared_memory_per_block = property(_attribute)
    compute_version = property(_attribute)
    device_name = property(_attribute)
    max_clock_rate = property(_attribute)
    multi_processor_count = property(_attribute)
    max_thread_dimensions = property(_attribute)
    api_version = property(_attribute)
    driver_version = property(_attribute)
    l2_cache_size_bytes = property(_attribute)

    def texture_spatial_limit(self):
        return self._attribute()

    def create_raw_stream(self):
        return self._attribute()

    def free_raw_stream(self, stream) -> None:
        self._attribute()

    def set_raw_stream(self, stream) -> None:
        self._attribute()

    def sync(self, stream=None) -> None:
        """Wait until all work given to the device is done."""
        _lib.check(_lib.lib.TVMSynchronize(self.device_type, self.device_id, stream))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Device):
            return NotImplemented
        return self.device_type == other.device_type and self.device_id == other.device_id

    def __hash__(self) -> int:
        return hash((self.device_type, self.device_id))

    def __repr__(self) -> str:
        kind, session = self.device_type % RPC_SESS_MASK, self.device_type // RPC_SESS_MASK
        text = f"{self.MASK2STR.get(kind, f'device type {kind}')}({self.device_id})"
        return f"remote[{session - 1}]:{text}" if session else text


def device(dev_type: int | str, dev_id: int = 0) -> Device:
    """``device("cuda", 1)``, ``device("cuda:1")``, ``device("llvm -mcpu=x")``: a target's first word counts."""
    if not isinstance(dev_type, str):
        return Device(dev_type, dev_id)
    words = dev_type.split()
    name, _, index = (words[0] if words else "").partition(":")
    if name not in Device.STR2MASK:
        raise ValueError(f"unknown device type '{dev_type}'; known: {', '.join(sorted(Device.STR2MASK))}")
    if index:
        if not index.isdigit():
            raise ValueError(f"device '{dev_type}': '{index}' is not a device index")
        dev_id = int(index)
    return Device(Device.STR2MASK[name], dev_id)


def cpu(dev_id: int = 0) -> Device:
    return Device(Device.kDLCPU, dev_id)


def cuda(dev_id: int = 0) -> Device:
    return Device(Device.kDLCUDA, dev_id)


def gpu(dev_id: int = 0) -> Device:
    """The old name of ``cuda``."""
    return Device(Device.kDLCUDA, dev_id)


def rocm(dev_id: int = 0) -> Device:
    return Device(Device.kDLROCM, dev_id)


def opencl(dev_id: int = 0) -> Device:
    return Device(Device.kDLOpenCL, dev_id)


cl = opencl


def metal(dev_id: int = 0) -> Device:
    return Device(Device.kDLMetal, dev_id)


mtl = metal


def vpi(dev_id: int = 0) -> Device:
    return Device(Device.kDLVPI, dev_id)


def vulkan(dev_id: int = 0) -> Device:
    return Device(Device.kDLVulkan, dev_id)


def ext_dev(dev_id: int = 0) -> Device:
    return Device(Device.kDLExtDev, dev_id)


def hexagon(dev_id: int = 0) -> Device:
    return Device(Device.kDLHexagon, dev_id)


def webgpu(dev_id: int = 0) -> Device:
    return Device(Device.kDLWebGPU, dev_id)

"""Devices: a device type and an index. Creating one does not open a driver; using a missing device raises an error."""

from __future__ import annotations

import json
import os

from . import _lib

RPC_SESS_MASK = 128


class Device:
    """A device, such as ``tvm.cpu(0)`` or ``tvm.device("cuda", 1)``.

    Parameters
    ----------
    device_type : int
        The kind, a number of DLPack.
    device_id : int
        Which of its kind.
    """

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
        """Whether a driver for the device is loaded and the device exists."""
        return _lib.device_exists((self.device_type, self.device_id))

    def _attribute(self, which: int):
        """Return an attribute, or None if the device does not have it (CPUs have none); raise an error if the device is
        missing."""
        return _lib.device_attribute((self.device_type, self.device_id), which)

    @property
    def max_threads_per_block(self) -> int | None:
        return self._attribute(1)

    @property
    def warp_size(self) -> int | None:
        return self._attribute(2)

    @property
    def max_shared_memory_per_block(self) -> int | None:
        return self._attribute(3)

    @property
    def compute_version(self) -> str | None:
        """The compute capability on CUDA, such as ``"9.0"``; the OpenCL version on OpenCL devices."""
        return self._attribute(4)

    @property
    def device_name(self) -> str | None:
        return self._attribute(5)

    @property
    def max_clock_rate(self) -> int | None:
        """The maximum clock rate in kHz."""
        return self._attribute(6)

    @property
    def multi_processor_count(self) -> int | None:
        return self._attribute(7)

    @property
    def max_thread_dimensions(self) -> list[int] | None:
        text = self._attribute(8)
        return None if text is None else json.loads(text)

    @property
    def api_version(self) -> int | None:
        return self._attribute(11)

    @property
    def driver_version(self) -> str | None:
        return self._attribute(12)

    @property
    def l2_cache_size_bytes(self) -> int | None:
        return self._attribute(13)

    @property
    def total_global_memory(self) -> int | None:
        """The size of the device's memory in bytes."""
        return self._attribute(14)

    @property
    def available_global_memory(self) -> int | None:
        """The amount of free device memory in bytes."""
        return self._attribute(15)

    def texture_spatial_limit(self) -> None:
        """None, because no driver of this runtime supports textures."""
        return None

    def create_raw_stream(self) -> int:
        """A new stream; operations on different streams may overlap.

        Returns
        -------
        int
            The stream.
        """
        return _lib.stream_create((self.device_type, self.device_id))

    def free_raw_stream(self, stream: int) -> None:
        """Free a stream that ``create_raw_stream`` created.

        Parameters
        ----------
        stream : int
            The stream.
        """
        _lib.check(_lib.lib.TVMStreamFree(self.device_type, self.device_id, stream))

    def set_raw_stream(self, stream: int | None) -> None:
        """Set the stream on which this thread enqueues work; None selects the default stream.

        Parameters
        ----------
        stream : int, optional
            The stream.
        """
        _lib.check(_lib.lib.TVMSetStream(self.device_type, self.device_id, stream))

    def sync(self, stream=None) -> None:
        """Wait until the device has finished all enqueued work.

        Parameters
        ----------
        stream : int, optional
            The stream to wait for; by default the current stream.
        """
        _lib.check(_lib.lib.TVMSynchronize(self.device_type, self.device_id, stream))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Device):
            return NotImplemented
        return self.device_type == other.device_type and self.device_id == other.device_id

    def __hash__(self) -> int:
        return hash((self.device_type, self.device_id))

    def __repr__(self) -> str:
        kind, session = self.device_type % RPC_SESS_MASK, self.device_type // RPC_SESS_MASK
        text = f"{self.MASK2STR.get(kind) or _lib.device_type_name(kind) or f'device type {kind}'}({self.device_id})"
        return f"remote[{session - 1}]:{text}" if session else text


def device(dev_type: int | str, dev_id: int = 0) -> Device:
    """A device by name or type: ``device("cuda", 1)``, ``device("cuda:1")``; of a target, only the first word is used.

    Parameters
    ----------
    dev_type : int | str
        The kind, as a name or a number of DLPack.
    dev_id : int, optional
        Which device of its kind.

    Returns
    -------
    Device

    Raises
    ------
    ValueError
        The device type is unknown.
    """
    if not isinstance(dev_type, str):
        return Device(dev_type, dev_id)
    words = dev_type.split()
    name, _, index = (words[0] if words else "").partition(":")
    kind = Device.STR2MASK.get(name) or _lib.device_type_of_name(name)
    if kind is None:
        raise ValueError(f"unknown device type '{dev_type}'; known: {', '.join(sorted(Device.STR2MASK))}")
    if index:
        if not index.isdigit():
            raise ValueError(f"device '{dev_type}': '{index}' is not a device index")
        dev_id = int(index)
    return Device(kind, dev_id)


def load_device_library(path: str | os.PathLike[str]) -> None:
    """Load a shared library that implements custom devices (``TVMDeviceLibraryInit`` in ``tvm_runtime.h``).

    The devices are then available by name: ``tvm.device("abacus")``.

    Parameters
    ----------
    path : str | os.PathLike[str]
        The file.
    """
    _lib.check(_lib.lib.TVMDeviceLibraryLoad(os.fsencode(os.path.abspath(path))))


def cpu(dev_id: int = 0) -> Device:
    """A CPU device, which represents all processors of the machine.

    Parameters
    ----------
    dev_id : int, optional
        Which device of its kind.

    Returns
    -------
    Device
    """
    return Device(Device.kDLCPU, dev_id)


def cuda(dev_id: int = 0) -> Device:
    """An NVIDIA GPU.

    Parameters
    ----------
    dev_id : int, optional
        Which device of its kind.

    Returns
    -------
    Device
    """
    return Device(Device.kDLCUDA, dev_id)


def gpu(dev_id: int = 0) -> Device:
    """The old name of ``cuda``, kept for compatibility.

    Parameters
    ----------
    dev_id : int, optional
        Which device of its kind.

    Returns
    -------
    Device
    """
    return Device(Device.kDLCUDA, dev_id)


def rocm(dev_id: int = 0) -> Device:
    """An AMD GPU.

    Parameters
    ----------
    dev_id : int, optional
        Which device of its kind.

    Returns
    -------
    Device
    """
    return Device(Device.kDLROCM, dev_id)


def opencl(dev_id: int = 0) -> Device:
    """An OpenCL device.

    Parameters
    ----------
    dev_id : int, optional
        Which device of its kind.

    Returns
    -------
    Device
    """
    return Device(Device.kDLOpenCL, dev_id)


cl = opencl


def metal(dev_id: int = 0) -> Device:
    """A GPU used through Metal; this runtime has no driver for it.

    Parameters
    ----------
    dev_id : int, optional
        Which device of its kind.

    Returns
    -------
    Device
    """
    return Device(Device.kDLMetal, dev_id)


mtl = metal


def vpi(dev_id: int = 0) -> Device:
    """A simulated device; this runtime has no driver for it.

    Parameters
    ----------
    dev_id : int, optional
        Which device of its kind.

    Returns
    -------
    Device
    """
    return Device(Device.kDLVPI, dev_id)


def vulkan(dev_id: int = 0) -> Device:
    """A GPU used through Vulkan; this runtime has no driver for it.

    Parameters
    ----------
    dev_id : int, optional
        Which device of its kind.

    Returns
    -------
    Device
    """
    return Device(Device.kDLVulkan, dev_id)


def ext_dev(dev_id: int = 0) -> Device:
    """A custom device that a library implements.

    Parameters
    ----------
    dev_id : int, optional
        Which device of its kind.

    Returns
    -------
    Device
    """
    return Device(Device.kDLExtDev, dev_id)


def hexagon(dev_id: int = 0) -> Device:
    """A Hexagon DSP.

    Parameters
    ----------
    dev_id : int, optional
        Which device of its kind.

    Returns
    -------
    Device
    """
    return Device(Device.kDLHexagon, dev_id)


def webgpu(dev_id: int = 0) -> Device:
    """A GPU used through WebGPU; this runtime has no driver for it.

    Parameters
    ----------
    dev_id : int, optional
        Which device of its kind.

    Returns
    -------
    Device
    """
    return Device(Device.kDLWebGPU, dev_id)

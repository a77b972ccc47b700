"""Compiled modules as functions of PyTorch tensors.

On the CPU, inputs and outputs use PyTorch's memory. On a GPU there are two modes. A model with fixed shapes is captured
as a CUDA graph, which uses fixed addresses: inputs and outputs are copied to and from them on the GPU, as in inductor's
CUDA graphs. CUDA synchronizes the runtime's stream with the default stream, which PyTorch uses by default. If PyTorch
uses another stream, or without CUDA graphs, kernels are launched one by one on PyTorch's stream; without CUDA graphs,
inputs and outputs use PyTorch's memory.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any, NamedTuple

from ...ir.module import IRModule
from ...relay.backend.vm import needs_vm
from ...runtime import ndarray
from ...runtime.devices import Device, cpu, cuda
from ...runtime.module import load_module
from ..graph_executor import GraphModule
from .options import Options

Run = Callable[[list], list]


class Library(NamedTuple):
    """A compiled module: its code, the input names of a graph with fixed shapes (None for a program of the virtual
    machine), whether a GPU replays captured graphs, and the bytes of the shared object from which the code was loaded.
    """

    code: Any
    inputs: tuple[str, ...] | None
    cuda_graphs: bool
    saved: bytes | None = None

    def on(self, device) -> Run:
        """Return the function of tensors on a PyTorch device."""
        if self.inputs is None:
            return _machine_run(self.code, device)
        executor = GraphModule(self.code["default"](_device(device)))
        kept = set(executor.get_input_info()[0].keys())
        used = {i: name for i, name in enumerate(self.inputs) if name in kept}
        if device.type == "cpu":
            return _in_place(executor, used, device)
        return _on_gpu(executor, used, device, self.cuda_graphs)

    def packed(self) -> Library:
        """Return the library with its code replaced by the bytes of a shared object."""
        if self.saved is not None:
            return self._replace(code=None)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.so")
            self.code.export_library(path)
            with open(path, "rb") as file:
                return self._replace(code=None, saved=file.read())

    def unpacked(self) -> Library:
        """Return the library from which ``packed`` was created."""
        assert self.saved is not None
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.so")
            with open(path, "wb") as file:
                file.write(self.saved)
            return self._replace(code=load_module(path))


def library_of(mod: IRModule, options: Options, device) -> Library:
    """Compile a module for a PyTorch device: as a graph if its shapes are fixed, else as a program with dynamic shapes
    or control flow."""
    from ... import relay

    with options.in_force():
        converted, target = options.converted(mod, device.type), options.target_on(device.type)
        if needs_vm(mod):
            return Library(relay.vm.compile(converted, target=target), None, options.cuda_graphs)
        names = tuple(p.name_hint for p in mod["main"].params)
        return Library(relay.build(converted, target), names, options.cuda_graphs)


def _machine_run(code, device) -> Run:
    from ...runtime.vm import VirtualMachine

    where = _device(device)
    machine = VirtualMachine(code, where if device.type == "cpu" else [where, cpu(0)])

    def run(values: list) -> list:
        result = machine.run(*[array_of_tensor(v) for v in values])
        parts = [result] if isinstance(result, ndarray.NDArray) else list(result)
        return [_tensor(p).to(device) for p in parts]

    return _on_stream(run, device)


def _device(device) -> Device:
    return cpu(0) if device.type == "cpu" else cuda(device.index or 0)


# -- tensor conversion --------------------------------------------------------------------------------------------


def array_of_tensor(value) -> ndarray.NDArray:
    """Convert a tensor to an array on the same memory; it is copied only if kernels cannot use it in place. A number
    becomes a tensor without dimensions."""
    import torch  # pyright: ignore[reportMissingImports]

    value = torch.as_tensor(value).detach().contiguous()
    return ndarray.from_dlpack(value.clone() if value.data_ptr() % 64 else value)


def _tensor(array: ndarray.NDArray):
    import torch  # pyright: ignore[reportMissingImports]

    return torch.utils.dlpack.from_dlpack(array.to_dlpack())


# -- execution ------------------------------------------------------------------------------------------------------


def _in_place(executor, used: dict[int, str], device) -> Run:
    """Write outputs into new tensors of PyTorch and read inputs without a copy."""
    import torch  # pyright: ignore[reportMissingImports]

    found = [executor.get_output(i) for i in range(executor.get_num_outputs())]
    kinds = [(tuple(array.shape), getattr(torch, array.dtype)) for array in found]

    def run(values: list) -> list:
        for i, name in used.items():
            executor.set_input_zero_copy(name, array_of_tensor(values[i]))
        results = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype in kinds]
        for i, made in enumerate(results):
            executor.set_output_zero_copy(i, ndarray.from_dlpack(made))
        executor.run()
        return results

    return run


def on_stream_of(device, act: Callable[[], Any]) -> Any:
    """Execute an action whose kernels are launched on PyTorch's current stream."""
    return _on_stream(lambda _: act(), device)([])


def _raw_stream_of(device) -> Callable[[], int]:
    """Return a function that returns PyTorch's current stream; 0 is the default stream, which CUDA synchronizes with
    the runtime's stream. It avoids creating a stream object, which takes as long as a launch."""
    import torch  # pyright: ignore[reportMissingImports]

    index = _device(device).device_id
    find = torch._C._cuda_getCurrentRawStream
    return lambda: find(index)


def _on_raw_stream(where: Device, stream: int, act: Callable[[], Any]) -> Any:
    where.set_raw_stream(stream)
    try:
        return act()
    finally:
        where.set_raw_stream(None)


def _on_stream(run: Run, device) -> Run:
    if device.type == "cpu":
        return run
    where, raw_stream = _device(device), _raw_stream_of(device)

    def on_stream(values: list) -> list:
        stream = raw_stream()
        return _on_raw_stream(where, stream, lambda: run(values)) if stream else run(values)

    return on_stream


def _on_gpu(executor, used: dict[int, str], device, cuda_graphs: bool) -> Run:
    """Replay a captured graph if PyTorch uses its default stream; otherwise launch single kernels."""
    import torch  # pyright: ignore[reportMissingImports]

    inputs = [(_tensor(executor.get_input(name)).copy_, i) for i, name in used.items()]
    outputs = [_tensor(executor.get_output(i)).clone for i in range(executor.get_num_outputs())]

    def run(values: list) -> list:
        for copy, i in inputs:
            value = values[i]
            copy(value if isinstance(value, torch.Tensor) else torch.as_tensor(value))
        executor.run()
        return [clone() for clone in outputs]

    if not cuda_graphs:
        executor.module["graph_capture"](False)
        return _on_stream(_in_place(executor, used, device), device)
    return _on_stream(run, device)


__all__ = ["Library", "Run", "array_of_tensor", "library_of", "on_stream_of"]

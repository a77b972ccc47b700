"""Compiled code as PyTorch modules: traced models, and functions written as tensor programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...driver.build_module import build
from ...error import TVMError
from ...ir.module import IRModule
from ...relay.build_module import bind_params_by_name
from ...relay.frontend.pytorch import from_pytorch
from ...runtime import ndarray
from ...tir.function import PrimFunc
from .options import TARGETS, Options, options_of
from .programs import library_of, on_stream_of


def optimize_torch(func, example_inputs, tuning_config: Mapping[str, Any] | None = None, target=None, work_dir=None):
    """A model compiled for the device of its inputs, as a PyTorch module.

    Parameters
    ----------
    func : torch.nn.Module or callable
        The model: TorchScript, or an argument for ``torch.jit.trace``.
    example_inputs : torch.Tensor or tuple of torch.Tensor
        Inputs with the shapes and types of later inputs.
    tuning_config : dict, optional
        Options of ``tvm_classic``: ``precision``, ``tuning_records``, ``opt_level``, ``cuda_graphs``.
    target : str or Target, optional
        The target; by default that of the device of the inputs.
    work_dir : str, optional
        Ignored; nothing is written.

    Returns
    -------
    torch.nn.Module
        A module with the same inputs that returns a tensor or a tuple of tensors. ``torch.save`` stores its compiled
        code, and ``torch.load(file, weights_only=False)`` loads it.

    Raises
    ------
    TVMError
        An option is unknown, or the model cannot be compiled.
    """
    import torch  # pyright: ignore[reportMissingImports]

    inputs = example_inputs if isinstance(example_inputs, (list, tuple)) else (example_inputs,)
    script = func
    if not hasattr(func, "inlined_graph"):
        with torch.no_grad():
            script = torch.jit.trace(func, tuple(inputs), strict=False, check_trace=False)
    infos = [(f"input{i}", (tuple(v.shape), str(v.dtype).removeprefix("torch."))) for i, v in enumerate(inputs)]
    options = options_of({**dict(tuning_config or {}), **({} if target is None else {"target": target})})
    return _model(*from_pytorch(script, infos), options, inputs[0].device if inputs else torch.device("cpu"))


def compile(script_module, option: Mapping[str, Any]):
    """A TorchScript module compiled for a target, as a PyTorch module.

    Parameters
    ----------
    script_module : torch.jit.ScriptModule
        The model.
    option : dict
        ``input_infos``, as for ``from_pytorch``; optionally ``default_dtype``, ``target`` (default ``llvm``) and
        ``tuning_log_file``, a file of tuning records.

    Returns
    -------
    torch.nn.Module
        The compiled model.

    Raises
    ------
    TVMError
        ``input_infos`` is missing, or an option is not supported.
    """
    import torch  # pyright: ignore[reportMissingImports]

    given = dict(option)
    if "input_infos" not in given:
        raise TVMError("tvm.contrib.torch.compile: the option input_infos is missing")
    unknown = sorted(set(given) - {"input_infos", "default_dtype", "target", "tuning_log_file"})
    if unknown:
        raise TVMError(
            f"tvm.contrib.torch.compile: the option '{unknown[0]}' is not supported; tune with tvmc tune, "
            "and pass the records as tuning_log_file"
        )
    target = given.get("target", "llvm")
    options = options_of({"target": target, "tuning_records": given.get("tuning_log_file")})
    device = next((d for d in TARGETS if _fits(options, d)), None)
    if device is None:
        raise TVMError(f"tvm.contrib.torch.compile: PyTorch has no tensors for the target '{target}'")
    imported = from_pytorch(script_module, given["input_infos"], default_dtype=given.get("default_dtype", "float32"))
    return _model(*imported, options, torch.device(device))


def _fits(options: Options, device: str) -> bool:
    try:
        return options.target_on(device) is not None
    except TVMError:
        return False


def _model(mod: IRModule, params: Mapping[str, Any], options: Options, device):
    """Return a PyTorch module that runs a Relay module on tensors of a device."""
    from .compiled import CompiledModule

    mod["main"] = bind_params_by_name(mod["main"], dict(params))
    return CompiledModule(library_of(mod, options, device), device)


def as_torch(func):
    """A function written as a tensor program, as a PyTorch module.

    It is compiled for the device of its first arguments, and writes its outputs to those of its arguments that are
    outputs.

    Parameters
    ----------
    func : PrimFunc or IRModule
        The function.

    Returns
    -------
    torch.nn.Module
        A module whose arguments are contiguous tensors.

    Raises
    ------
    TypeError
        ``func`` is neither a PrimFunc nor an IRModule.
    """
    import torch  # pyright: ignore[reportMissingImports]

    if not isinstance(func, (PrimFunc, IRModule)):
        raise TypeError(f"as_torch: expected a PrimFunc or an IRModule, got {type(func).__name__}")

    class Function(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.built: dict[str, Any] = {}

        def forward(self, *tensors):
            device = tensors[0].device if tensors else torch.device("cpu")
            if device.type not in TARGETS or any(t.device != device or not t.is_contiguous() for t in tensors):
                raise TVMError(
                    f"as_torch: expected contiguous tensors on one device, which must be {' or '.join(TARGETS)}"
                )
            if device.type not in self.built:
                self.built[device.type] = build(func, target=TARGETS[device.type])
            arrays = [ndarray.from_dlpack(t.detach()) for t in tensors]
            on_stream_of(device, lambda: self.built[device.type](*arrays))

    return Function()


__all__ = ["as_torch", "compile", "optimize_torch"]

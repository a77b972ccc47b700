"""ONNX's own backend interface: ``prepare``, ``run_model``, ``run_node``, ``supports_device``."""

from ..relay.frontend.onnx.backend import (
    CompiledModel,
    TVMBackend,
    is_compatible,
    prepare,
    run_model,
    run_node,
    supports_device,
)

__all__ = ["CompiledModel", "TVMBackend", "is_compatible", "prepare", "run_model", "run_node", "supports_device"]

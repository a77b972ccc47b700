"""What ``relay.build`` returns: graph, library and parameters together."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from ...runtime.registry import get_global_func


class GraphExecutorFactoryModule:
    """A compiled model. ``lib["default"](device)`` gives an executor module; it unpacks as graph, lib, params."""

    def __init__(
        self, ir_mod, target, graph_json_str: str, libmod, libmod_name: str, params: dict[str, Any], plan=None, kernels=()
    ):
        self.ir_mod = ir_mod
        self.target = target
        self.graph_json_str = graph_json_str
        self.lib = libmod
        self.libmod_name = libmod_name
        self.params = dict(params)
        self.memory_plan = plan
        self.kernels = list(kernels)

    def get_graph_json(self) -> str:
        return self.graph_json_str

    get_executor_config = get_graph_json

    def get_params(self) -> dict[str, Any]:
        return self.params

    def get_lib(self):
        return self.lib

    def __getitem__(self, item: str):
        if item == self.libmod_name:
            return self._create
        if item == "debug_create":
            return lambda name, *devices: self._create(*devices)
        return self.lib[item]

    def _create(self, *devices):
        """An executor module on the device, with its parameters set."""
        from ...runtime.params import save_param_dict

        (device,) = devices[:1] or (None,)
        if device is None:
            raise ValueError("an executor needs a device, as in lib['default'](tvm.cpu())")
        self.lib._load()
        made = get_global_func("tvm.graph_executor.create")(
            self.graph_json_str, self.lib, device.device_type, device.device_id)
        if self.params:
            made["load_params"](bytearray(save_param_dict(self.params)))
        return made

    def export_library(self, file_name, fcompile=None, addons=None, **kwargs):
        """Write the library with the graph and the parameters inside."""
        return self.lib.export_library(file_name, fcompile, addons, **kwargs)

    def __iter__(self) -> Iterator:
        warnings.warn(
            "unpacking the result of relay.build as graph, lib, params is deprecated; use lib['default'](device)",
            DeprecationWarning, stacklevel=2,
        )
        return iter((self.graph_json_str, self.lib, self.params))

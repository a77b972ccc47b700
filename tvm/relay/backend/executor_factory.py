"""What ``relay.build`` returns: graph, library and parameters together."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from ...runtime import ndarray
from ...runtime.export import export_library
from ...runtime.graph_factory import TYPE_KEY, PackedFactory
from ...runtime.registry import get_global_func


class GraphExecutorFactoryModule:
    """A compiled model. ``lib["default"](device)`` gives an executor module; it unpacks as graph, lib, params."""

    def __init__(
        self,
        ir_mod,
        target,
        graph_json_str: str,
        libmod,
        libmod_name: str,
        params: dict[str, Any],
        plan=None,
        kernels=(),
    ):
        self.ir_mod = ir_mod
        self.target = target
        self.graph_json_str = graph_json_str
        self.lib = libmod
        self.libmod_name = libmod_name
        self.params = dict(params)
        self.memory_plan = plan
        self.kernels = list(kernels)
        self._module = None

    def get_graph_json(self) -> str:
        return self.graph_json_str

    get_executor_config = get_graph_json

    def get_devices(self) -> list[str]:
        """The devices whose contexts a caller hands to the model: none, for the graph says where each node runs."""
        return []

    def get_params(self) -> dict[str, Any]:
        return self.params

    def get_lib(self):
        return self.lib

    @property
    def module(self):
        """The factory as a module of the runtime: what loading an exported library gives."""
        if self._module is None:
            self.lib._load()
            arrays = [ndarray.array(a) if not isinstance(a, ndarray.NDArray) else a for a in self.params.values()]
            pairs = [part for pair in zip(self.params, arrays) for part in pair]
            create = get_global_func("tvm.graph_executor_factory.create")
            self._module = create(bytearray(self._packed.head()), self.lib, *pairs)
        return self._module

    @property
    def _packed(self) -> PackedFactory:
        return PackedFactory(self.libmod_name, self.graph_json_str, self.params)

    def _repr_html_(self) -> str:
        """What notebooks show: the kernels, and the memory that the values between them take."""
        from ...drawing.memory import memory_body, memory_of
        from ...drawing.page import escape, fragment

        words = f"A model of {len(self.kernels)} kernels for {self.target}, {len(self.params)} parameters."
        return fragment(f"<p>{escape(words)}</p>{memory_body(memory_of(self.graph_json_str))}")

    def __getitem__(self, item: str):
        return self.module[item] if self.module.implements_function(item) else self.lib[item]

    def export_library(self, file_name, fcompile=None, addons=None, workspace_dir=None, fpack_imports=None, **kwargs):
        """Write the library with the graph and the parameters inside; loading it gives a factory."""
        root = (TYPE_KEY, self._packed.at)
        return export_library(self.lib, file_name, fcompile, fpack_imports, addons, workspace_dir, root=root, **kwargs)

    def __iter__(self) -> Iterator:
        warnings.warn(
            "unpacking the result of relay.build as graph, lib, params is deprecated; use lib['default'](device)",
            DeprecationWarning,
            stacklevel=2,
        )
        return iter((self.graph_json_str, self.lib, self.params))

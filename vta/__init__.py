"""The import name ``vta`` of the accelerator: its modules are those of ``tvm.contrib.vta``.

``vta.NAME`` and ``tvm.contrib.vta.NAME`` are the same module, so state such as the current environment exists once.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from types import ModuleType

_HOME = "tvm.contrib.vta"


class _Alias(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds ``vta.NAME`` as the module ``tvm.contrib.vta.NAME``."""

    def __init__(self) -> None:
        self.specs: dict[str, importlib.machinery.ModuleSpec | None] = {}

    def find_spec(self, fullname, path=None, target=None):
        if not fullname.startswith(__name__ + "."):
            return None
        return importlib.machinery.ModuleSpec(fullname, self)

    def create_module(self, spec) -> ModuleType:
        name = _HOME + spec.name.removeprefix(__name__)
        try:
            found = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            raise ModuleNotFoundError(f"No module named '{spec.name}'", name=spec.name) from None
        self.specs[found.__name__] = found.__spec__
        return found

    def exec_module(self, module: ModuleType) -> None:
        # The import system has replaced the specification of the module by that of its alias.
        module.__spec__ = self.specs.pop(module.__name__)


sys.meta_path.insert(0, _Alias())

from tvm.contrib.vta import device  # noqa: E402
from tvm.contrib.vta.build_module import build, build_config, lower  # noqa: E402
from tvm.contrib.vta.environment import Environment, get_env  # noqa: E402
from tvm.contrib.vta.rpc_client import program_fpga, reconfig_runtime  # noqa: E402
from tvm.contrib.vta.testing import simulator  # noqa: E402

if simulator.enabled():
    # Registers ext_dev, and makes the C interface visible to compiled code.
    device.load()

__all__ = ["Environment", "build", "build_config", "get_env", "lower", "program_fpga", "reconfig_runtime"]

"""The command line of the compiler, and its functions for Python: ``load``, ``compile``, ``run``, ``tune``.

Each module is loaded at its first use, because the runtime-only package has only the modules that run a package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .autotuner import tune_model as tune
    from .compiler import compile_model as compile
    from .errors import TVMCException, TVMCImportError
    from .frontends import load_model as load
    from .model import TVMCModel, TVMCPackage, TVMCResult
    from .runner import run_module as run

_MODULES = frozenset(
    """
    arguments autotuner bench cache commands compiler completion composite_target config_options devices frontends info
    main micro model parser pass_config pass_list registry result_utils runner shape_parser target targets terminal
    tracker transform workspace_pools
    """.split()
)
# Public name: module and the name there.
_NAMES = {
    "TVMCException": ("errors", "TVMCException"),
    "TVMCImportError": ("errors", "TVMCImportError"),
    "TVMCModel": ("model", "TVMCModel"),
    "TVMCPackage": ("model", "TVMCPackage"),
    "TVMCResult": ("model", "TVMCResult"),
    "compile": ("compiler", "compile_model"),
    "load": ("frontends", "load_model"),
    "run": ("runner", "run_module"),
    "tune": ("autotuner", "tune_model"),
}


def __getattr__(name: str):
    if name in _MODULES:
        return importlib.import_module("." + name, __name__)
    if name not in _NAMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    module, there = _NAMES[name]
    value = globals()[name] = getattr(importlib.import_module("." + module, __name__), there)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_NAMES})

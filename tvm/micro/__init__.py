"""Models for microcontrollers: archives in Model Library Format, template projects, and transports to boards.

The modules are imported on first access, because the server of a project needs only ``tvm.micro.project_api``.
"""

from __future__ import annotations

import importlib
from typing import Any

from ..not_built import name_of as _name_of

_MODULES = {
    "build": "CrtNotFoundError MicroTVMTemplateProject MicroTVMTemplateProjectNotFoundError copy_crt_config_header"
    " get_microtvm_template_projects get_standalone_crt_dir",
    "class_factory": "ClassFactory SerializedFactoryError",
    "model_library_format": "NonStaticShapeError UnsupportedInModelLibraryFormatError export_model_library_format",
    "project": "GeneratedProject NotATemplateProjectError ProjectTransport TemplateProject TemplateProjectError"
    " generate_project generate_project_from_mlf",
    "run": "run_project",
    "session": "Session SessionTerminatedError create_local_aot_executor create_local_debug_executor"
    " create_local_graph_executor compile_and_create_micro_session",
    "transport": "Transport TransportLogger",
    "tune": "AutoTvmModuleLoader autotvm_build_func",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _MODULES or name in ("project_api", "testing"):
        return importlib.import_module(f"{__name__}.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    return _name_of(__name__, name)

"""The folders of the C runtime for microcontrollers and of the template projects."""

from __future__ import annotations

import enum
import importlib
import shutil
from pathlib import Path
from typing import Any

from ..error import TVMError

# The package folder comes first, because an installed package has no source tree.
_PACKAGE = Path(__file__).resolve().parents[1]
_CRT_FOLDERS = (_PACKAGE / "standalone_crt", _PACKAGE.parent / "csrc" / "crt")
_TEMPLATES = Path(__file__).resolve().parent / "templates"
_CONFIG_HEADER = "tvm_crt_config.h"


def __getattr__(name: str) -> Any:
    if name in ("AutoTvmModuleLoader", "autotvm_build_func"):
        return getattr(importlib.import_module(".tune", __package__), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


class MicroTVMTemplateProject(enum.Enum):
    """The template projects."""

    ARDUINO = "arduino"
    HOST = "host"
    QEMU_CORTEX_M = "qemu_cortex_m"
    QEMU_RISCV = "qemu_riscv"
    ZEPHYR = "zephyr"

    @classmethod
    def list(cls) -> list[str]:
        """Return the names of all templates.

        Returns
        -------
        list of str
            The names.
        """
        return [template.value for template in cls]


class CrtNotFoundError(TVMError):
    """The C runtime for microcontrollers is not installed."""


class MicroTVMTemplateProjectNotFoundError(TVMError):
    """There is no template project with the given name."""


def get_standalone_crt_dir() -> str:
    """Return the folder of the C runtime for microcontrollers.

    Returns
    -------
    str
        The folder, with ``include`` and ``src``.

    Raises
    ------
    CrtNotFoundError
        The folder does not exist.
    """
    for folder in _CRT_FOLDERS:
        if (folder / "include" / "tvm_crt.h").is_file():
            return str(folder)
    raise CrtNotFoundError("the C runtime for microcontrollers was not found in " + ", ".join(map(str, _CRT_FOLDERS)))


def get_microtvm_template_projects(platform: str) -> str:
    """Return the folder of a template project.

    Parameters
    ----------
    platform : str
        The name of the template, such as "host". "crt", the name in Apache TVM, is also the template "host".

    Returns
    -------
    str
        The folder.

    Raises
    ------
    MicroTVMTemplateProjectNotFoundError
        There is no template of this name.
    """
    platform = "host" if platform == "crt" else platform
    known = MicroTVMTemplateProject.list()
    if platform not in known:
        raise MicroTVMTemplateProjectNotFoundError(
            f"unknown template project '{platform}'; available: {', '.join(known)}"
        )
    return str(_TEMPLATES / platform)


def copy_crt_config_header(platform: str, output_path: str | Path) -> None:
    """Copy the configuration header of the C runtime into a folder.

    Parameters
    ----------
    platform : str
        The name of the template project whose platform uses the header.
    output_path : str or Path
        The folder.
    """
    get_microtvm_template_projects(platform)
    shutil.copyfile(Path(get_standalone_crt_dir(), "include", _CONFIG_HEADER), Path(output_path, _CONFIG_HEADER))

"""The project of a program on this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tvm.micro.project_api import server
from tvm.micro.project_api.c_project import CProject


class HostProject(CProject):
    """A program for this machine, compiled by its C compiler."""

    platform = "host"

    def toolchain(self, options: dict[str, Any]) -> list[str]:
        from tvm.runtime import link

        return list(link.find_compiler())

    def program_flags(self, options: dict[str, Any]) -> list[str]:
        return ["-O2"]

    def run_command(self, program: Path, options: dict[str, Any]) -> list[str]:
        return [str(program)]


if __name__ == "__main__":
    sys.exit(server.main(HostProject(Path(__file__).resolve().parent)))

"""The project of an Arduino sketch, which arduino-cli builds and uploads. The folder also opens in the Arduino IDE."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tvm.micro.project_api import server
from tvm.micro.project_api.tool_project import HOST_DRIVEN, ToolProject

_ADVICE = "install the Arduino command line tool and the core of the board"


class ArduinoProject(ToolProject):
    """A sketch whose folder ``src`` contains the model and the C runtime."""

    platform = "arduino"

    def tool_options(self) -> Mapping[str, dict[str, Any]]:
        help = "the path of the Arduino command line tool"
        command = {"default": "arduino-cli", "optional": ("build", "flash", "open_transport"), "help": help}
        number = {
            "optional": ("flash", "open_transport"),
            "help": "the serial number of the board, if there are several",
        }
        return {"arduino_cli_cmd": command, "serial_number": number}

    def write_main(self, project: Path, options: dict[str, Any]) -> None:
        template = self.folder / options["project_type"]
        # The tool requires that the sketch has the name of its folder.
        shutil.copyfile(template / "project.ino", project / f"{project.name}.ino")
        if options["project_type"] == HOST_DRIVEN:
            shutil.copyfile(template / "platform.cpp", project / "src" / "platform.cpp")

    def _cli(self, options: dict[str, Any], *words: str) -> list[str]:
        return [self.tool(options.get("arduino_cli_cmd") or "arduino-cli", "arduino_cli_cmd", _ADVICE), *words]

    def _fqbn(self, options: dict[str, Any]) -> str:
        return self.boards[options["board"]]["fqbn"]

    def build_command(self, options: dict[str, Any]) -> list[str]:
        words = ["compile", "--fqbn", self._fqbn(options), "--build-path", "build"]
        words += ["--verbose"] if options.get("verbose") else []
        flags = " ".join(self.compiler_options(options))
        for language in ("c", "cpp") if flags else ():
            words += ["--build-property", f"compiler.{language}.extra_flags={flags}"]
        return self._cli(options, *words, ".")

    def flash_command(self, options: dict[str, Any]) -> list[str]:
        words = ["upload", "--fqbn", self._fqbn(options), "--input-dir", "build", "--port", self.find_port(options)]
        return self._cli(options, *words, ".")

    def find_port(self, options: dict[str, Any]) -> str:
        """Return the serial port of the board; without the option ``port``, ask the tool for connected boards."""
        if options.get("port"):
            return options["port"]
        command = self._cli(options, "board", "list", "--format", "json")
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise server.ServerError(f"listing the connected boards failed:\n{done.stderr.strip()}")
        found = _ports(json.loads(done.stdout or "[]"), self._fqbn(options), options.get("serial_number"))
        if len(found) != 1:
            shown = f"{len(found)} connected boards: {', '.join(found)}" if found else "no connected board"
            raise server.ServerError(
                f"the tool reports {shown} of the type {options['board']}; set the project option port"
            )
        return found[0]


def _ports(listing: Any, fqbn: str, number: str | None) -> list[str]:
    """Return the ports of boards of a type from the output of the tool, whose form depends on its version."""
    rows = listing.get("detected_ports", []) if isinstance(listing, dict) else listing
    ports = []
    for row in rows:
        port = row.get("port", row)
        boards = [
            board.get("fqbn", board.get("FQBN", "")) for board in row.get("matching_boards", row.get("boards", []))
        ]
        serial = port.get("properties", {}).get("serialNumber", "")
        if fqbn in boards and number in (None, "", serial):
            ports.append(port["address"])
    return ports


if __name__ == "__main__":
    sys.exit(server.main(ArduinoProject(Path(__file__).resolve().parent)))

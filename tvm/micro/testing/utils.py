"""Boards and targets of template projects, and checks of tuning logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ...error import TVMError, did_you_mean
from ...target.target import micro
from ..build import MicroTVMTemplateProject, get_microtvm_template_projects


def get_supported_platforms() -> list[str]:
    """Return the names of the template projects.

    Returns
    -------
    list of str
        The names.
    """
    return MicroTVMTemplateProject.list()


def get_supported_boards(platform: str) -> dict[str, dict[str, Any]]:
    """Return the boards of a template project.

    Parameters
    ----------
    platform : str
        The name of the template.

    Returns
    -------
    dict of str to dict
        The properties of each board; ``model`` is the name for ``tvm.target.target.micro``.
    """
    path = Path(get_microtvm_template_projects(platform), "boards.json")
    return json.loads(path.read_text(encoding="utf-8"))


def get_target(platform: str, board: str | None = None) -> str:
    """Return the target for a board.

    Parameters
    ----------
    platform : str
        The name of the template.
    board : str, optional
        The board; not required if the template has one board.

    Returns
    -------
    str
        The target.

    Raises
    ------
    TVMError
        The board is missing or unknown.
    """
    boards = get_supported_boards(platform)
    if board is None and len(boards) == 1:
        (board,) = boards
    if board is None:
        raise TVMError(f"get_target: the platform {platform} requires a board: {', '.join(boards)}")
    if board not in boards:
        near = did_you_mean(board, boards, "; ")
        raise TVMError(
            f"get_target: the platform {platform} has no board '{board}'{near}; its boards are {', '.join(boards)}"
        )
    return str(micro(boards[board]["model"]))


def check_tune_log(log_path: str | Path) -> None:
    """Check that all records of a tuning log are successful measurements.

    Parameters
    ----------
    log_path : str or Path
        The log.

    Raises
    ------
    TVMError
        A measurement failed.
    """
    for number, line in enumerate(Path(log_path).read_text(encoding="utf-8").splitlines(), 1):
        if line and json.loads(line)["result"][1]:
            raise TVMError(f"{log_path}:{number}: the measurement failed: {json.loads(line)['result']}")


__all__ = ["check_tune_log", "get_supported_boards", "get_supported_platforms", "get_target"]

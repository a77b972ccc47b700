"""Helpers for tests of models on microcontrollers."""

from __future__ import annotations

from typing import Any

from ...not_built import name_of as _name_of
from .utils import create_header_file, get_supported_boards, get_target, mlf_extract_workspace_size_bytes


def __getattr__(name: str) -> Any:
    return _name_of(__name__, name)


__all__ = ["create_header_file", "get_supported_boards", "get_target", "mlf_extract_workspace_size_bytes"]

"""Helpers for tests of models on microcontrollers."""

from __future__ import annotations

from .utils import create_header_file, get_supported_boards, get_target, mlf_extract_workspace_size_bytes


__all__ = ["create_header_file", "get_supported_boards", "get_target", "mlf_extract_workspace_size_bytes"]

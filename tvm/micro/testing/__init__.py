"""Helpers for tests of models on microcontrollers: boards and targets of template projects, and sessions."""

from __future__ import annotations

from .evaluation import create_aot_session, evaluate_model_accuracy, predict_labels_aot, tune_model
from .headers import create_header_file, mlf_extract_workspace_size_bytes
from .utils import check_tune_log, get_supported_boards, get_supported_platforms, get_target

__all__ = [
    "check_tune_log",
    "create_aot_session",
    "create_header_file",
    "evaluate_model_accuracy",
    "get_supported_boards",
    "get_supported_platforms",
    "get_target",
    "mlf_extract_workspace_size_bytes",
    "predict_labels_aot",
    "tune_model",
]

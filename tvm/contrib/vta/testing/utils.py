"""Run tests on the accelerator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....rpc import LocalSession
from .. import device
from ..environment import get_env


def run(run_func: Callable[[Any, Any], Any]) -> None:
    """Call ``run_func(env, remote)`` with the current environment and a session whose device it configures.

    Parameters
    ----------
    run_func : callable
        The function.
    """
    env = get_env()
    before = device.current_config()
    device.configure(env.config)
    try:
        run_func(env, LocalSession())
    finally:
        device.configure(before)

"""Ctrl-C during long work: the first one stops it cleanly, the second one exits immediately."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

from .errors import ExitCode

# The conventional exit status of a program that was ended by Ctrl-C.
EXIT_CODE = ExitCode.INTERRUPTED


class Interrupts:
    """A scope in which Ctrl-C raises KeyboardInterrupt, except within blocks that are ``held``."""

    def __init__(self):
        self.count = 0
        self._held = False
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        # Only the main thread may set a signal handler. A signal that is ignored (nohup) stays ignored.
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._interrupted)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _interrupted(self, number: int, frame: Any) -> None:
        self.count += 1
        if self.count > 1:
            # Exit without waiting for anything: worker processes end by themselves when this process has ended.
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write("\nexited immediately\n")
                sys.stderr.flush()
            os._exit(EXIT_CODE)
        if not self._held:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Delay Ctrl-C until the end of this block, so that the block runs completely."""
        before, self._held = self.count, True
        try:
            yield
        finally:
            self._held = False
        if self.count > before:
            raise KeyboardInterrupt


__all__ = ["EXIT_CODE", "Interrupts"]

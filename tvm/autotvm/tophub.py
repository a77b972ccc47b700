"""Records by target: those of the package, and those of the user in ``~/.tvm/tophub``.

Nothing is downloaded. ``TOPHUB_LOCATION=NONE`` disables these records; ``AUTOTVM_TOPHUB_ROOT_PATH`` sets another
folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..target import Target
from .task.dispatcher import ApplyHistoryBest
from .utils import logger

_SHIPPED = Path(__file__).resolve().parent / "records"


def _folders() -> list[Path]:
    root = os.environ.get("AUTOTVM_TOPHUB_ROOT_PATH")
    try:
        own = Path(root) if root else Path.home() / ".tvm" / "tophub"
    except RuntimeError:
        return [_SHIPPED]
    return [_SHIPPED, own]


def record_files(target: Any) -> list[Path]:
    """Return the record files for a target, those of the user last; of several versions of a file, only the newest."""
    if os.environ.get("TOPHUB_LOCATION") == "NONE":
        return []
    target = Target(target)
    device = target.attrs.get("device")
    names = [str(target.kind.name), *([str(device)] if device else [])]
    found = []
    for folder in _folders():
        for name in names:
            found += sorted(folder.glob(f"{name}_v*.log"))[-1:]
    return found


def context(target: Any, extra_files: Iterable[str | os.PathLike] | None = None) -> ApplyHistoryBest:
    """Return a dispatch context with the records for a target (or several)."""
    targets = target if isinstance(target, (list, tuple)) else [target]
    best = ApplyHistoryBest([])
    best.quiet = True
    files = [f for t in targets for f in record_files(t)]
    for path in [*dict.fromkeys(files), *(extra_files or ())]:
        try:
            best.load(os.fspath(path))
        except OSError as error:
            logger.warning("tuning records of '%s' cannot be read: %s", path, error.strerror)
    if not files:
        logger.info("no tuning records found for %s", ", ".join(str(t) for t in targets))
    return best

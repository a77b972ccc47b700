"""Memory pools of microcontrollers. The options are known, so that asking for them is answered in words."""

from __future__ import annotations

from ...not_built import name_of
from .errors import TVMCException

_OPTIONS = (
    "",
    "-targets",
    "-size-hint-bytes",
    "-clock-frequency-hz",
    "-read-bandwidth-bytes-per-cycle",
    "-write-bandwidth-bytes-per-cycle",
    "-read-latency-cycles",
    "-write-latency-cycles",
    "-target-burst-bytes",
)


def generate_workspace_pools_args(parser) -> None:
    """--workspace-pools and what is said about each pool."""
    group = parser.add_argument_group("memory pools (microcontrollers only)")
    for ending in _OPTIONS:
        group.add_argument(f"--workspace-pools{ending}", action="append" if ending else "store", metavar="POOL",
                           help="only for microcontrollers, which are not supported")


def refuse_workspace_pools(args) -> None:
    """No target we compile for has pools."""
    for ending in _OPTIONS:
        if getattr(args, f"workspace_pools{ending}".replace("-", "_"), None):
            raise TVMCException(f"--workspace-pools{ending} is for microcontrollers, which are not supported")


def __getattr__(name: str):
    return name_of(__name__, name)


__all__ = ["generate_workspace_pools_args", "refuse_workspace_pools"]

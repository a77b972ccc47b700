"""Memory pools for microcontrollers. The options are accepted, and report that microcontrollers are not supported."""

from __future__ import annotations

from typing import Any

from ...ir.memory_pools import PoolInfoProperties, WorkspaceMemoryPools, WorkspacePoolInfo
from ...target import Target
from .errors import TVMCException
from .parser import detail_group

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
    """Add --workspace-pools and the options of each pool."""
    group = detail_group(parser, "memory pools (microcontrollers only)")
    for ending in _OPTIONS:
        group.add_argument(
            f"--workspace-pools{ending}",
            action="append" if ending else "store",
            metavar="POOL",
            help="only for microcontrollers, which are not supported",
        )


def refuse_workspace_pools(args) -> None:
    """Raise an error if a pool is given, because no supported target has pools."""
    for ending in _OPTIONS:
        if getattr(args, f"workspace_pools{ending}".replace("-", "_"), None):
            raise TVMCException(f"--workspace-pools{ending} is for microcontrollers, which are not supported")


def _by_pool(args: Any, option: str) -> dict[str, str]:
    """Return the value of an option for each pool; if a pool occurs twice, its last value is used."""
    said = {}
    for text in getattr(args, f"workspace_pools_{option}") or ():
        name, colon, value = text.partition(":")
        if not colon:
            raise TVMCException(
                f"--workspace-pools-{option.replace('_', '-')} must have the form POOL:VALUE, got '{text}'"
            )
        said[name] = value
    return said


def _number(option: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise TVMCException(f"--workspace-pools-{option.replace('_', '-')}: '{text}' is not a number") from None


def _bursts(args: Any, pool: str, targets: list[Target]) -> dict[Target, int]:
    """Return the burst size in bytes for each target that has one, given as POOL:TARGET:BYTES."""
    kinds = {target.kind.name: target for target in targets}
    bursts = {}
    for text in args.workspace_pools_target_burst_bytes or ():
        name, _, rest = text.partition(":")
        kind, _, size = rest.partition(":")
        if name == pool and kind in kinds:
            bursts[kinds[kind]] = _number("target_burst_bytes", size)
    return bursts


def workspace_pools_recombobulate(args: Any, targets: list[Target], extra_targets: Any) -> WorkspaceMemoryPools | None:
    """Return the pools that the options describe, in the order of --workspace-pools; None if there are none."""
    if not args.workspace_pools:
        return None
    reached = _by_pool(args, "targets")
    numbers = [field for field in PoolInfoProperties._fields if field != "target_burst_bytes"]
    said = {field: _by_pool(args, field) for field in numbers}
    pools = []
    for pool in (name.strip() for name in args.workspace_pools.split(",")):
        if pool not in reached:
            raise TVMCException(
                f"--workspace-pools-targets does not name the targets that can access the pool '{pool}'"
            )
        kinds = [kind.strip() for kind in reached[pool].split(",")]
        own = [target for target in targets if target.kind.name in kinds]
        values = {field: _number(field, told[pool]) for field, told in said.items() if pool in told}
        properties = PoolInfoProperties(**values, target_burst_bytes=_bursts(args, pool, own))
        pools.append(WorkspacePoolInfo(pool, own, properties))
    return WorkspaceMemoryPools(pools)


__all__ = ["generate_workspace_pools_args", "refuse_workspace_pools", "workspace_pools_recombobulate"]

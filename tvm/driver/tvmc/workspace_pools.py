"""The options of ``tvmc compile`` that describe memory pools, and their conversion to pool objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ir.memory_pools import PoolInfoProperties, WorkspaceMemoryPools, WorkspacePoolInfo
from ...target import Target
from .errors import TVMCException
from .parser import detail_group

# The options of a pool: the suffix of the option name, the form of the value, and the help text.
_OPTIONS = (
    ("-targets", "POOL:TARGET", "a target that reaches the pool; can be given several times"),
    ("-size-hint-bytes", "POOL:BYTES", "the size of the pool; a plan that needs more is an error"),
    ("-clock-frequency-hz", "POOL:HZ", "the clock frequency of the pool"),
    ("-read-bandwidth-bytes-per-cycle", "POOL:BYTES", "the bytes that can be read in a cycle"),
    ("-write-bandwidth-bytes-per-cycle", "POOL:BYTES", "the bytes that can be written in a cycle"),
    ("-read-latency-cycles", "POOL:CYCLES", "the cycles until a value is read"),
    ("-write-latency-cycles", "POOL:CYCLES", "the cycles until a value is written"),
    ("-target-burst-bytes", "POOL:TARGET:BYTES", "the bytes of a burst, for each target"),
)


def generate_workspace_pools_args(parser) -> None:
    """Add --workspace-pools and the options of each pool."""
    group = detail_group(parser, "memory pools (ahead-of-time executor)")
    group.add_argument(
        "--workspace-pools",
        metavar="NAMES",
        help="memory pools for intermediate results, with commas, the preferred pool first",
    )
    for ending, form, text in _OPTIONS:
        group.add_argument(f"--workspace-pools{ending}", action="append", metavar=form, help=text)


def _values(args: Any, ending: str) -> list[str]:
    return getattr(args, f"workspace_pools{ending}".replace("-", "_")) or []


def _by_pool(args: Any, ending: str, pools: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of an option by pool, in the order of the command line."""
    found: dict[str, list[str]] = {}
    for text in _values(args, ending):
        name, colon, value = text.partition(":")
        if not colon:
            raise TVMCException(f"--workspace-pools{ending} must have the form POOL:VALUE, got '{text}'")
        if name not in pools:
            raise TVMCException(f"--workspace-pools{ending} {text}: unknown pool '{name}'; add it to --workspace-pools")
        found.setdefault(name, []).append(value)
    return found


def _number(ending: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise TVMCException(f"--workspace-pools{ending}: '{text}' is not a number") from None


def _target(ending: str, kind: str, targets: Sequence[Target], extra_targets: Any = None) -> Target:
    """Return the compilation target with this target kind."""
    if any(extra["name"] == kind for extra in extra_targets or ()):
        return targets[0]
    for target in targets:
        if target.kind.name == kind:
            return target
    known = ", ".join(target.kind.name for target in targets)
    raise TVMCException(f"--workspace-pools{ending}: '{kind}' is not a target of this compilation ({known})")


def _bursts(values: Sequence[str], targets: Sequence[Target]) -> dict[Target, int]:
    """Return the burst size in bytes of each target, parsed from values of the form TARGET:BYTES."""
    ending = "-target-burst-bytes"
    bursts: dict[Target, int] = {}
    for text in values:
        kind, colon, number = text.partition(":")
        if not colon:
            raise TVMCException(f"--workspace-pools{ending} must have the form POOL:TARGET:BYTES, got '{text}'")
        bursts[_target(ending, kind, targets)] = _number(ending, number)
    return bursts


def workspace_pools_recombobulate(
    args: Any, targets: Sequence[Target], extra_targets: Any = None
) -> WorkspaceMemoryPools | None:
    """Return the pools that the options describe, in the order of --workspace-pools; None without the option. An
    external code generator in ``extra_targets`` uses the pools of the first target, which it extends."""
    pools = [name.strip() for name in (args.workspace_pools or "").split(",") if name.strip()]
    values = {ending: _by_pool(args, ending, pools) for ending, *_ in _OPTIONS}
    if not pools:
        return None
    reached = values.pop("-targets")
    bursts = values.pop("-target-burst-bytes")
    made: list[WorkspacePoolInfo] = []
    for pool in pools:
        if pool not in reached:
            raise TVMCException(
                f"--workspace-pools-targets does not list the targets that can access the pool '{pool}'"
            )
        kinds = [kind.strip() for text in reached[pool] for kind in text.split(",")]
        own = list(dict.fromkeys(_target("-targets", kind, targets, extra_targets) for kind in kinds))
        # If an option is given several times for a pool, the last value is used.
        numbers = {e[1:].replace("-", "_"): _number(e, found[pool][-1]) for e, found in values.items() if pool in found}
        properties = PoolInfoProperties(**numbers, target_burst_bytes=_bursts(bursts.get(pool, ()), targets))
        made.append(WorkspacePoolInfo(pool, own, properties))
    return WorkspaceMemoryPools(made)


__all__ = ["generate_workspace_pools_args", "workspace_pools_recombobulate"]

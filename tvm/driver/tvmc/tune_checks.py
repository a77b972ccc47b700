"""Checks of the options of ``tvmc tune`` and ``tvmc.tune``, before the model is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...runtime import Device
from ...target import Target
from ...target.backend import compiled_cpu
from .errors import TVMCException

if TYPE_CHECKING:
    from .farm import Farm


def check_sketch_options(
    enabled: bool, build_only: str | None, hardware: Any, include_simple_tasks: bool, log_estimated_latency: bool
) -> None:
    """Raise an error for options that need AutoScheduler or measurements without them."""
    if build_only and log_estimated_latency:
        raise TVMCException("--log-estimated-latency needs measurements, which --build-only does not make")
    is_said = any(value is not None for value in hardware.values()) if isinstance(hardware, dict) else hardware
    if not enabled and (is_said or include_simple_tasks or log_estimated_latency):
        raise TVMCException(
            "hardware parameters, --include-simple-tasks and --log-estimated-latency need --enable-autoscheduler"
        )


def check_remote(rpc_key: str | None, hostname: str | None, build_only: str | None) -> None:
    """Raise an error for an incomplete address, and for --build-only together with --rpc-tracker."""
    if bool(rpc_key) != bool(hostname):
        raise TVMCException("tuning over RPC needs a tracker (--rpc-tracker) and a key (--rpc-key)")
    if hostname and build_only:
        raise TVMCException("--build-only and --rpc-tracker exclude each other: --build-only measures nothing")


def check_farm(farm: Farm | None, hostname: str | None, build_only: str | None) -> None:
    """Raise an error if --farm is combined with another option for the place of measurements."""
    if farm and (hostname or build_only):
        other = "--rpc-tracker" if hostname else "--build-only"
        raise TVMCException(f"--farm and {other} exclude each other: both select where candidates are measured")


def check_numbers(
    trials: int | None, number: int, repeat: int, min_repeat_ms: int | None, early_stopping: int | None, timeout: float
) -> None:
    """Raise an error for numbers of trials, repeats or runs that are too small."""
    least = {
        "--trials": (trials, 1),
        "--number": (number, 1),
        "--repeat": (repeat, 1),
        "--timeout": (timeout, 1),
        "--min-repeat-ms": (min_repeat_ms, 0),
        "--early-stopping": (early_stopping, 1),
    }
    for name, (value, low) in least.items():
        if value is not None and value < low:
            raise TVMCException(f"{name} must be at least {low}, got {value}")


def check_machine(target: Target) -> None:
    """Raise an error for a target whose code cannot run on this machine."""
    if not target.features.is_cpu:
        found = Device(target.get_target_device_type(), 0)
        if not found.exist:
            raise TVMCException(
                f"target '{str(target).strip()}': this machine has no device to measure on ({found}); "
                "tune on a machine that has one"
            )
        return
    cpu = compiled_cpu(target)
    if cpu is not None and not cpu.is_host:
        raise TVMCException(f"code for {cpu.triple} cannot be measured on this machine; tune on a machine of that kind")


__all__ = ["check_farm", "check_machine", "check_numbers", "check_remote", "check_sketch_options"]

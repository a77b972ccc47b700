"""``tvmc devices``: lists the devices of this machine that can run a package."""

from __future__ import annotations

import sys
import time

from ...error import TVMError
from ...runtime import host_cpu
from ...runtime.devices import Device
from ...runtime.devices import device as make_device
from .arguments import add_command, add_verbose, register_parser
from .errors import TVMCException
from .terminal import print_table, size
from .tracker import tracker_host_port_from_cli

# Names accepted by tvmc run --device.
NAMES = ("cpu", "cuda", "cl", "metal", "vulkan", "rocm")
_MOST = 16


@register_parser
def add_devices_parser(subparsers, _, json_params) -> None:
    """Add the subcommand ``devices``."""
    parser = add_command(subparsers, "devices", usage="tvmc devices [options]")
    parser.set_defaults(func=drive_devices)
    parser.add_argument("--rpc-tracker", metavar="HOST[:PORT]", help="list the devices of this RPC tracker instead")
    parser.add_argument("--watch", action="store_true", help="with --rpc-tracker: refresh the table until Ctrl-C")
    add_verbose(parser)


def _pool(address: str, watch: bool) -> int:
    """Print the servers and queues of a tracker."""
    from ...rpc import connect_tracker

    host, port = tracker_host_port_from_cli(address)
    try:
        tracker = connect_tracker(host, port)
        while True:
            text = tracker.text_summary()
            clear = "\x1b[H\x1b[2J" if watch and sys.stdout.isatty() else ""
            print(f"{clear}Tracker address {host}:{port}\n\n{text}", flush=True)
            if not watch:
                return 0
            time.sleep(1)
    except TVMError as problem:
        raise TVMCException(str(problem)) from problem


def drive_devices(args) -> int:
    """Print the devices of this machine and, with -v, why others are not available; or the devices of a tracker."""
    if args.rpc_tracker:
        return _pool(args.rpc_tracker, args.watch)
    if args.watch:
        raise TVMCException("--watch shows the devices of a tracker and needs --rpc-tracker")
    rows: list[tuple[str, str, str]] = []
    absent: list[tuple[str, str]] = []
    for name in NAMES:
        found = [one for one in (make_device(name, index) for index in range(_MOST)) if one.exist]
        if name == "cpu":
            found = found[:1]
        rows += [(name, str(one.device_id), describe(one)) for one in found]
        if not found:
            absent.append((name, _reason(make_device(name, 0))))
    print_table(rows, ("device", "number", "description"), sys.stdout)
    if args.verbose:
        print()
        print_table(absent, ("not here", "why"), sys.stdout)
    else:
        print(f"not available: {', '.join(name for name, _ in absent)} (-v prints the reasons)")
    return 0


def describe(device: Device) -> str:
    """Describe a device by name, memory and capability."""
    if device.device_type == Device.kDLCPU:
        return f"{host_cpu.triple()}, {host_cpu.usable_cores()} cores"
    memory, version = device.total_global_memory, device.compute_version
    parts = [device.device_name, size(memory) if memory else None, f"version {version}" if version else None]
    return ", ".join(str(part) for part in parts if part)


def _reason(device: Device) -> str:
    try:
        device.sync()
    except TVMError as problem:
        return str(problem).splitlines()[0]
    return "there is no such device"


__all__ = ["NAMES", "describe", "drive_devices"]

"""Runs an RPC server for the devices of this machine: ``python -m tvm.exec.rpc_server``."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable

from ..rpc import base, tls
from ..rpc.server import serve


def address(text: str) -> tuple[str, int]:
    """Parse ``HOST:PORT``."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise argparse.ArgumentTypeError(f"expected HOST:PORT, got '{text}'")
    return host, int(port)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="address to listen on; others than 127.0.0.1 need a secret")
    add("--port", type=int, default=9090, help="first port to try (default: 9090); 0 for any")
    add("--port-end", type=int, default=9199, help="the port after the last to try (default: 9199)")
    add("--tracker", type=address, metavar="HOST:PORT", help="offer the device to a tracker")
    add("--key", default="", help="the kind of device, as clients ask for it")
    add("--silent", action="store_true", help="say nothing")
    add("--load-library", metavar="FILES", help="libraries of devices, separated by colons")
    add("--no-fork", action="store_true", help="for older scripts: sessions have a process of their own either way")
    add("--through-proxy", action="store_true", help="--host and --port are those of a proxy, which is called")
    add("--custom-addr", help="the address clients of the tracker are told")
    add("--max-seconds", type=float, metavar="S", help="time of a session (default: no limit)")
    add("--max-memory", type=int, default=0, metavar="BYTES", help="memory of a session (default: no limit)")
    add("--max-message", type=int, default=0, metavar="BYTES", help="longest message (default: 1 GiB)")
    add("--max-files", type=int, default=0, metavar="BYTES", help="files of a session (default: 4 GiB)")
    add("--measure-only", action="store_true", help="give clients only the functions that measuring needs")
    tls.add_arguments(parser)


def run(args: argparse.Namespace) -> None:
    """Serve until Ctrl-C."""
    if args.tracker and not args.key:
        raise RuntimeError("registering with a tracker (--tracker) requires a key (--key)")
    options = {
        "key": args.key,
        "load_library": args.load_library,
        "max_seconds": args.max_seconds,
        "max_memory": args.max_memory,
        "max_message": args.max_message,
        "max_files": args.max_files,
        "measure_only": args.measure_only,
        "silent": args.silent,
        "tls": tls.files_of(args),
    }
    if args.through_proxy:
        if args.tracker or args.custom_addr:
            raise RuntimeError(
                "--tracker and --through-proxy are mutually exclusive: the proxy registers its servers with its tracker"
            )
        base.check_reach(args.host, "rpc_server --through-proxy")
        serve(-1, proxy_addr=(args.host, args.port), **options)
        return
    with base.listen(args.host, args.port, args.port_end, "rpc_server") as listening:
        if not args.silent:
            logging.getLogger("RPCServer").info("bind to %s:%d", *listening.getsockname())
        serve(listening.fileno(), tracker_addr=args.tracker, custom_addr=args.custom_addr, **options)


def run_program(parser: argparse.ArgumentParser, run: Callable[[argparse.Namespace], None]) -> None:
    """Run a server; print errors in the arguments in one line."""
    logging.basicConfig(level=logging.INFO)
    args = parser.parse_args()
    try:
        run(args)
    except (OSError, RuntimeError, ValueError) as problem:
        parser.exit(2, f"{parser.prog}: error: {problem}\n")


def main() -> None:
    parser = argparse.ArgumentParser("rpc_server", description="offer the devices of this machine over RPC")
    add_arguments(parser)
    run_program(parser, run)


if __name__ == "__main__":
    main()

"""Runs an RPC proxy, which connects clients with servers behind a firewall: ``python -m tvm.exec.rpc_proxy``."""

from __future__ import annotations

import argparse
import logging
import os

from ..rpc import base, tls
from ..rpc.proxy import check_web, serve
from .rpc_server import address, run_program


def _flag(text: str) -> bool:
    if text.lower() not in ("0", "1", "false", "true", "no", "yes"):
        raise argparse.ArgumentTypeError(f"expected true or false, got '{text}'")
    return text.lower() in ("1", "true", "yes")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="address to listen on; others than 127.0.0.1 need a secret")
    add("--port", type=int, default=9090, help="first port to try (default: 9090); 0 for any")
    add("--port-end", type=int, default=9199, help="the port after the last to try (default: 9199)")
    add("--tracker", type=address, metavar="HOST:PORT", help="offer the servers to a tracker")
    add("--timeout-client", type=float, default=600, metavar="S", help="how long a client waits for a server")
    add("--timeout-server", type=float, default=600, metavar="S", help="how long a server waits before it calls again")
    add("--web-port", type=int, default=0, help="sessions in a browser are not supported: 0")
    add("--example-rpc", type=_flag, default=False, metavar="BOOL", help="a page for browsers is not supported: false")
    add("--silent", action="store_true", help="say nothing")
    tls.add_arguments(parser)


def run(args: argparse.Namespace) -> None:
    """Serve until Ctrl-C."""
    check_web(args.web_port, args.example_rpc)
    with base.listen(args.host, args.port, args.port_end, "rpc_proxy") as listening:
        if not args.silent:
            logging.getLogger("RPCProxy").info("bind to %s:%d", *listening.getsockname())
        try:
            serve(
                os.dup(listening.fileno()),
                silent=args.silent,
                tracker_addr=args.tracker,
                timeout_client=args.timeout_client,
                timeout_server=args.timeout_server,
                tls=tls.files_of(args),
            )
        except KeyboardInterrupt:
            return


def main() -> None:
    parser = argparse.ArgumentParser("rpc_proxy", description="join clients to servers that can only call out")
    add_arguments(parser)
    run_program(parser, run)


if __name__ == "__main__":
    main()

"""Runs an RPC tracker, which assigns servers to clients by key: ``python -m tvm.exec.rpc_tracker``."""

from __future__ import annotations

import argparse
import logging
import os

from ..rpc import base, tls
from ..rpc.tracker import serve
from .rpc_server import run_program


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="address to listen on; others than 127.0.0.1 need a secret")
    add("--port", type=int, default=9190, help="first port to try (default: 9190); 0 for any")
    add("--port-end", type=int, default=9199, help="the port after the last to try (default: 9199)")
    add("--silent", action="store_true", help="say nothing")
    tls.add_arguments(parser)


def run(args: argparse.Namespace) -> None:
    """Serve until Ctrl-C."""
    files = tls.files_of(args)
    with base.listen(args.host, args.port, args.port_end, "rpc_tracker") as listening:
        if not args.silent:
            logging.getLogger("RPCTracker").info("bind to %s:%d", *listening.getsockname())
        try:
            serve(os.dup(listening.fileno()), args.silent, tls=files)
        except KeyboardInterrupt:
            return


def main() -> None:
    parser = argparse.ArgumentParser("rpc_tracker", description="lend RPC servers to clients of tvm.rpc by key")
    add_arguments(parser)
    run_program(parser, run)


if __name__ == "__main__":
    main()

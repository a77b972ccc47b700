"""Parses the address of an RPC tracker on the command line."""

from __future__ import annotations

from .errors import TVMCException


def tracker_host_port_from_cli(rpc_tracker_str: str | None) -> tuple[str | None, int | None]:
    """Parse ``host[:port]`` as (host, port); the default port is 9090."""
    if not rpc_tracker_str:
        return None, None
    host, _, port = rpc_tracker_str.partition(":")
    try:
        return host, int(port) if port else 9090
    except ValueError:
        raise TVMCException(f"the port of an RPC tracker must be a number, got '{port}'") from None

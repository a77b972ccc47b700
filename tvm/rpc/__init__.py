"""Remote devices: RPC servers, sessions, and trackers that assign devices to clients (``docs/rpc.md``)."""

from .client import LocalSession, PopenSession, RPCSession, TrackerSession, connect, connect_tracker
from .server import Server

__all__ = ["LocalSession", "PopenSession", "RPCSession", "Server", "TrackerSession", "connect", "connect_tracker"]


def __getattr__(name: str):
    try:
        from ..not_built import name_of
    except ImportError:  # The runtime-only package does not list features that are not implemented.
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'") from None
    return name_of(__name__, name)

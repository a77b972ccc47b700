"""Devices of other machines: servers, sessions, and trackers that lend them (``docs/rpc.md``)."""

from .client import LocalSession, PopenSession, RPCSession, TrackerSession, connect, connect_tracker
from .server import Server

__all__ = ["LocalSession", "PopenSession", "RPCSession", "Server", "TrackerSession", "connect", "connect_tracker"]


def __getattr__(name: str):
    try:
        from ..not_built import name_of
    except ImportError:  # the runtime-only package does not say what is to come
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'") from None
    return name_of(__name__, name)

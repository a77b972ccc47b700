"""Devices of other machines: servers, sessions, and trackers that lend them (``docs/rpc.md``)."""

from ..not_built import name_of as _name_of
from .client import LocalSession, PopenSession, RPCSession, TrackerSession, connect, connect_tracker
from .server import Server

__all__ = ["LocalSession", "PopenSession", "RPCSession", "Server", "TrackerSession", "connect", "connect_tracker"]


def __getattr__(name: str):
    return _name_of(__name__, name)

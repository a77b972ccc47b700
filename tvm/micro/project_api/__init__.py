"""The Project API: the protocol between the compiler and the projects of microcontrollers."""

from __future__ import annotations

from . import client, server

__all__ = ["client", "server"]

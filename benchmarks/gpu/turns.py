"""Exclusive turns on the GPU: programs compile side by side, and time one after the other.

A program calls ``wait_for_turn`` when everything is compiled; no other program then uses the GPU until it ends or calls
``end_turn``. The process that grants turns (``Turns``) listens on the socket that the environment names; without this
variable a program runs alone and continues at once. A turn is a connection: however a program ends, its turn ends with
it.
"""

from __future__ import annotations

import os
import selectors
import socket
from typing import Any

SOCKET, NAME = "TVM_GPU_TURNS", "TVM_GPU_JOB"
_held: list[socket.socket] = []


def wait_for_turn() -> None:
    """Block until this program has the GPU to itself."""
    path = os.environ.get(SOCKET)
    if not path or _held:
        return
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    connection.sendall(os.environ.get(NAME, "?").encode() + b"\n")
    if not connection.recv(1):
        raise SystemExit("the process that grants turns on the GPU has ended")
    _held.append(connection)


def end_turn() -> None:
    while _held:
        _held.pop().close()


class Turns:
    """Grants turns, the oldest request first."""

    def __init__(self, path: str):
        self.path = path
        self.selector = selectors.DefaultSelector()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(64)
        self.selector.register(self.listener, selectors.EVENT_READ)
        # Connections that request a turn, by the name of their program, and the connection that has it.
        self.asking: dict[str, socket.socket] = {}
        self.holder: str | None = None
        self._texts: dict[socket.socket, bytes] = {}
        self._held: socket.socket | None = None

    def poll(self, seconds: float) -> None:
        """Accept requests, and note turns that ended."""
        for key, _ in self.selector.select(seconds):
            if key.fileobj is self.listener:
                connection, _ = self.listener.accept()
                self._texts[connection] = b""
                self.selector.register(connection, selectors.EVENT_READ)
            else:
                self._read(key.fileobj)

    def _read(self, connection: Any) -> None:
        try:
            data = connection.recv(4096)
        except OSError:
            data = b""
        if not data:
            self._lose(connection)
        elif connection in self._texts:
            self._texts[connection] += data
            if self._texts[connection].endswith(b"\n"):
                self.asking[self._texts.pop(connection).decode().strip()] = connection

    def _lose(self, connection: socket.socket) -> None:
        self.selector.unregister(connection)
        self._texts.pop(connection, None)
        self.asking = {name: other for name, other in self.asking.items() if other is not connection}
        if connection is self._held:
            self._held = self.holder = None
        connection.close()

    def grant(self) -> str | None:
        """Grant the next program its turn if no program has one, and return its name."""
        while self.holder is None and self.asking:
            name = next(iter(self.asking))
            connection = self.asking.pop(name)
            try:
                connection.sendall(b"!")
            except OSError:
                self._lose(connection)
                continue
            self.holder, self._held = name, connection
            return name
        return None

    def close(self) -> None:
        for connection in (*self._texts, *self.asking.values(), *([self._held] if self._held else [])):
            connection.close()
        self.listener.close()
        self.selector.close()
        if os.path.exists(self.path):
            os.unlink(self.path)


__all__ = ["NAME", "SOCKET", "Turns", "end_turn", "wait_for_turn"]

"""Transports and their log."""

from __future__ import annotations

import logging

import pytest

from tvm.micro.project_api.server import IoTimeoutError, TransportClosedError, TransportTimeouts
from tvm.micro.transport import Transport, TransportLogger, debug_transport_timeouts


class Memory(Transport):
    """A transport that returns what was written."""

    def __init__(self):
        self.data, self.is_open = b"", False

    def timeouts(self):
        return TransportTimeouts(1, 2, 3)

    def open(self):
        self.is_open = True

    def close(self):
        self.is_open = False

    def read(self, n, timeout_sec):
        if not self.is_open:
            raise TransportClosedError()
        if len(self.data) < n:
            raise IoTimeoutError()
        found, self.data = self.data[:n], self.data[n:]
        return found

    def write(self, data, timeout_sec):
        self.data += data


def test_calls_are_logged_and_passed_on(caplog):
    child = Memory()
    with caplog.at_level(logging.INFO), TransportLogger("board", child) as logged:
        assert child.is_open and logged.timeouts() == TransportTimeouts(1, 2, 3)
        logged.write(bytes(range(40)), 1)
        assert logged.read(2, 1) == b"\0\1"
        with pytest.raises(IoTimeoutError, match="IoTimeoutError"):
            logged.read(99, 1)
    assert not child.is_open
    with caplog.at_level(logging.INFO), pytest.raises(TransportClosedError):
        logged.read(1, None)
    first = " ".join(f"{i:02x}" for i in range(32))
    assert [record.getMessage() for record in caplog.records] == [
        "board: opening transport", f"board: write 40 bytes: {first} ...", "board: read 2 bytes: 00 01",
        "board: read of 99 bytes exceeded its time limit", "board: closing transport",
        "board: read of 1 bytes failed: the transport is closed",
    ]  # fmt: skip


def test_another_logger_and_level(caplog):
    with caplog.at_level(logging.DEBUG, "mine"), TransportLogger("x", Memory(), logging.getLogger("mine"), 10):
        pass
    assert {(record.name, record.levelno) for record in caplog.records} == {("mine", 10)}


def test_debuggers_have_no_limits():
    assert debug_transport_timeouts(5) == TransportTimeouts(5, 0, 0)

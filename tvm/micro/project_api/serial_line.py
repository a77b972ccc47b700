"""Serial lines to boards. Data is sent in frames (``csrc/crt/src/framing.c``), because a line also carries text, such
as messages of a boot loader."""

from __future__ import annotations

import contextlib
import os
import time

from .server import IoTimeoutError, ServerError, read_with_timeout, write_with_timeout

BAUD_RATE = 115200
MARKS = b"\xa5\x5a"
READY = MARKS + b"\0"
_LARGEST = 255
_RETRY_SECONDS = 0.25
_LONGEST_TEXT = 4096


def checksum(data: bytes) -> int:
    """Return the CRC-16/CCITT of data.

    Parameters
    ----------
    data : bytes
        The data.

    Returns
    -------
    int
        The checksum.
    """
    total = 0xFFFF
    for byte in data:
        total ^= byte << 8
        for _ in range(8):
            total = (total << 1 ^ 0x1021 if total & 0x8000 else total << 1) & 0xFFFF
    return total


def framed(data: bytes) -> bytes:
    """Return data in frames.

    Parameters
    ----------
    data : bytes
        The data.

    Returns
    -------
    bytes
        The frames.
    """
    frames = []
    for start in range(0, len(data), _LARGEST):
        body = bytes([len(data[start : start + _LARGEST])]) + data[start : start + _LARGEST]
        frames.append(MARKS + body + checksum(body).to_bytes(2, "little"))
    return b"".join(frames)


class SerialLine:
    """A serial line to a running program.

    Parameters
    ----------
    port : str
        The device file, such as "/dev/ttyACM0".
    start_sec : float
        The time limit until the program is ready.

    Raises
    ------
    ServerError
        The port cannot be opened.
    IoTimeoutError
        The program did not become ready.
    """

    def __init__(self, port: str, start_sec: float):
        self._file = _open(port)
        self._data, self.text = bytearray(), bytearray()
        try:
            self._wait_until_ready(port, start_sec)
        except BaseException:
            self.close()
            raise

    def _wait_until_ready(self, port: str, start_sec: float) -> None:
        end = time.monotonic() + start_sec
        seen = bytearray()
        while READY not in seen:
            if time.monotonic() > end:
                raise IoTimeoutError(f"the program on {port} is not ready after {start_sec:g} s; is it flashed?")
            write_with_timeout(self._file, READY, start_sec)
            with contextlib.suppress(IoTimeoutError):
                again = time.monotonic() + _RETRY_SECONDS
                while READY not in seen and (left := again - time.monotonic()) > 0:
                    seen += read_with_timeout(self._file, 1, left)

    def read(self, n: int, timeout_sec: float | None) -> bytes:
        """Read from the program.

        Parameters
        ----------
        n : int
            The number of bytes.
        timeout_sec : float, optional
            The time limit.

        Returns
        -------
        bytes
            Exactly ``n`` bytes.
        """
        end = time.monotonic() + timeout_sec if timeout_sec else None
        while len(self._data) < n:
            self._read_frame(end)
        found = bytes(self._data[:n])
        del self._data[:n]
        return found

    def _bytes(self, n: int, end: float | None) -> bytes:
        return read_with_timeout(self._file, n, None if end is None else max(end - time.monotonic(), 1e-3))

    def _read_frame(self, end: float | None) -> None:
        """Append the data of the next undamaged frame. Bytes outside frames are appended to ``text``."""
        previous = b""
        while True:
            byte = self._bytes(1, end)
            if previous + byte == MARKS:
                break
            self.text += previous
            del self.text[:-_LONGEST_TEXT]
            previous = byte
        size = self._bytes(1, end)
        if size[0]:  # An empty frame is a late answer to the start of the session.
            body = size + self._bytes(size[0], end)
            if checksum(body).to_bytes(2, "little") == self._bytes(2, end):
                self._data += body[1:]

    def write(self, data: bytes, timeout_sec: float | None) -> None:
        """Write to the program.

        Parameters
        ----------
        data : bytes
            The bytes.
        timeout_sec : float, optional
            The time limit.
        """
        write_with_timeout(self._file, framed(data), timeout_sec)

    def close(self) -> None:
        """Close the port."""
        os.close(self._file)


def _open(port: str) -> int:
    """Open a port without echo, line editing or flow control, at 115200 baud."""
    try:
        import termios
        import tty
    except ImportError as error:
        raise ServerError("serial ports are only supported on Linux and macOS") from error
    try:
        file = os.open(port, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError as error:
        raise ServerError(f"cannot open the serial port {port}: {error.strerror}") from error
    try:
        tty.setraw(file)
        settings = termios.tcgetattr(file)
        settings[2] |= termios.CLOCAL | termios.CREAD
        settings[4] = settings[5] = getattr(termios, f"B{BAUD_RATE}")
        termios.tcsetattr(file, termios.TCSANOW, settings)
        termios.tcflush(file, termios.TCIOFLUSH)
    except termios.error as error:
        os.close(file)
        raise ServerError(f"{port} is not a serial port: {error.args[-1]}") from error
    return file


__all__ = ["BAUD_RATE", "SerialLine", "checksum", "framed"]

"""The client of the Project API: it starts the server of a project folder and sends requests."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ...error import TVMError
from .server import (
    PROTOCOL_VERSION,
    JSONRPCError,
    MessageReader,
    ProjectOption,
    ServerInfo,
    TransportTimeouts,
    write_message,
)

SERVER_LAUNCH_SCRIPT_FILENAME = "launch_microtvm_api_server.sh"
SERVER_PYTHON_FILENAME = "microtvm_api_server.py"
# The client waits for replies about transports for the time limit of the request plus this many seconds.
_GRACE_SECONDS = 10.0
_SHUTDOWN_SECONDS = 5.0


class ProjectAPIErrorBase(TVMError):
    """An error in the communication with the server of a project."""


class ConnectionShutdownError(ProjectAPIErrorBase):
    """The connection to the server was closed."""


class MalformedReplyError(ProjectAPIErrorBase):
    """A reply violates the protocol."""


class MismatchedIdError(ProjectAPIErrorBase):
    """A reply has the id of another request."""


class ReplyTimeoutError(ProjectAPIErrorBase):
    """The server did not reply within the time limit."""


class ProjectAPIServerNotFoundError(ProjectAPIErrorBase):
    """A folder does not contain a server of the Project API."""


class UnsupportedProtocolVersionError(ProjectAPIErrorBase):
    """The server uses another version of the protocol."""


class RPCError(ProjectAPIErrorBase):
    """A request failed on the server.

    Parameters
    ----------
    request : dict
        The request.
    error : JSONRPCError
        The error of the reply.
    """

    def __init__(self, request: Mapping[str, Any], error: JSONRPCError):
        super().__init__(f"the project failed to {request['method'].replace('_', ' ')}: {error.message}")
        self.request, self.error = request, error


class ProjectAPIClient:
    """A client of a Project API server.

    Parameters
    ----------
    read_file : file
        The unbuffered binary stream of replies.
    write_file : file
        The binary stream of requests.
    testonly_did_write_request : callable, optional
        Called after each request.
    process : subprocess.Popen, optional
        The server process, which ``shutdown`` ends.
    reply_timeout_sec : float, optional
        The time limit of replies in seconds. By default, only replies about transports have a limit.
    """

    def __init__(
        self, read_file: Any, write_file: Any, testonly_did_write_request: Callable[[], None] | None = None, *,
        process: subprocess.Popen | None = None, reply_timeout_sec: float | None = None,
    ):  # fmt: skip
        self.read_file, self.write_file, self.process = read_file, write_file, process
        self.reply_timeout_sec = reply_timeout_sec
        self._reader, self._did_write, self._next_id = MessageReader(read_file), testonly_did_write_request, 1

    @property
    def is_shutdown(self) -> bool:
        """Whether the connection is closed."""
        return self.read_file.closed

    def shutdown(self) -> None:
        """Close the connection and end the server."""
        if self.is_shutdown:
            return
        self.read_file.close()
        self.write_file.close()
        if self.process is not None:
            try:
                self.process.wait(_SHUTDOWN_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def __enter__(self) -> ProjectAPIClient:
        return self

    def __exit__(self, *exc: object) -> None:
        self.shutdown()

    def _request(self, method: str, params: dict[str, Any], timeout_sec: float | None = None) -> Any:
        if self.is_shutdown:
            raise ConnectionShutdownError(f"request {method}: the connection to the project is closed")
        request = {"jsonrpc": "2.0", "method": method, "params": params, "id": self._next_id}
        self._next_id += 1
        try:
            write_message(self.write_file, request)
            if self._did_write is not None:
                self._did_write()
            line = self._reader.line(timeout_sec or self.reply_timeout_sec)
        except TimeoutError as error:
            self._abandon()
            raise ReplyTimeoutError(f"request {method}: the project did not reply: {error}") from error
        except ValueError as error:
            self._abandon()
            raise MalformedReplyError(f"request {method}: {error}") from error
        except BrokenPipeError as error:
            self.shutdown()
            raise ConnectionShutdownError(f"request {method}: the project closed the connection") from error
        if line is None:
            self.shutdown()
            raise ConnectionShutdownError(f"request {method}: the project closed the connection")
        return self._result(request, line)

    def _abandon(self) -> None:
        """End the server after a timeout or a protocol error, because its later replies may be out of step."""
        if self.process is not None:
            self.process.kill()
        self.shutdown()

    def _result(self, request: Mapping[str, Any], line: bytes) -> Any:
        """Return the result in a reply. If the reply violates the protocol, close the connection."""
        try:
            reply = _reply(request, line)
        except ProjectAPIErrorBase:
            self._abandon()
            raise
        if "result" in reply:
            return reply["result"]
        error = JSONRPCError.from_json(f"request {request['method']}", reply["error"])
        raise RPCError(request, error) from error

    def server_info_query(self, tvm_version: str) -> ServerInfo:
        """Request the description of the project.

        Parameters
        ----------
        tvm_version : str
            The version of the compiler.

        Returns
        -------
        ServerInfo
            The description.

        Raises
        ------
        UnsupportedProtocolVersionError
            The server uses another version of the protocol.
        MalformedReplyError
            The reply is incomplete.
        """
        reply = self._request("server_info_query", {"tvm_version": tvm_version})
        version = reply.get("protocol_version") if isinstance(reply, dict) else None
        if version != PROTOCOL_VERSION:
            raise UnsupportedProtocolVersionError(
                f"the project uses version {version} of the protocol; version {PROTOCOL_VERSION} is supported"
            )
        try:
            options = [ProjectOption(**option) for option in reply["project_options"]]
            return ServerInfo(reply["platform_name"], bool(reply["is_template"]),
                              reply["model_library_format_path"], options)  # fmt: skip
        except (KeyError, TypeError, ValueError) as error:
            raise MalformedReplyError(f"request server_info_query: the reply is incomplete: {error}") from error

    def generate_project(
        self, model_library_format_path: str, standalone_crt_dir: str, project_dir: str,
        options: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Generate a project from a template.

        Parameters
        ----------
        model_library_format_path : str
            The model in Model Library Format.
        standalone_crt_dir : str
            The folder of the C runtime for microcontrollers.
        project_dir : str
            The folder of the new project.
        options : dict of str to object, optional
            The options.
        """
        self._request("generate_project", {
            "model_library_format_path": os.fspath(model_library_format_path),
            "standalone_crt_dir": os.fspath(standalone_crt_dir),
            "project_dir": os.fspath(project_dir),
            "options": dict(options or {}),
        })  # fmt: skip

    def build(self, options: Mapping[str, Any] | None = None) -> None:
        """Build the project.

        Parameters
        ----------
        options : dict of str to object, optional
            The options.
        """
        self._request("build", {"options": dict(options or {})})

    def flash(self, options: Mapping[str, Any] | None = None) -> None:
        """Write the program to the board.

        Parameters
        ----------
        options : dict of str to object, optional
            The options.
        """
        self._request("flash", {"options": dict(options or {})})

    def open_transport(self, options: Mapping[str, Any] | None = None) -> TransportTimeouts:
        """Connect to the running program.

        Parameters
        ----------
        options : dict of str to object, optional
            The options.

        Returns
        -------
        TransportTimeouts
            The time limits.

        Raises
        ------
        MalformedReplyError
            The reply has no time limits.
        """
        reply = self._request("open_transport", {"options": dict(options or {})})
        try:
            return TransportTimeouts(**reply["timeouts"])
        except (KeyError, TypeError) as error:
            raise MalformedReplyError(f"request open_transport: the reply is incomplete: {error}") from error

    def close_transport(self) -> None:
        """Close the connection to the program."""
        self._request("close_transport", {})

    def read_transport(self, n: int, timeout_sec: float | None) -> bytes:
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

        Raises
        ------
        MalformedReplyError
            The reply has no data, or another number of bytes.
        """
        reply = self._request("read_transport", {"n": n, "timeout_sec": timeout_sec}, _limit(timeout_sec))
        try:
            data = base64.b85decode(reply["data"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise MalformedReplyError(f"request read_transport: the reply has no data: {error}") from error
        if len(data) != n:
            raise MalformedReplyError(f"request read_transport: expected {n} bytes, the reply has {len(data)}")
        return data

    def write_transport(self, data: bytes, timeout_sec: float | None) -> None:
        """Write to the program.

        Parameters
        ----------
        data : bytes
            The bytes.
        timeout_sec : float, optional
            The time limit.
        """
        given = {"data": base64.b85encode(data).decode(), "timeout_sec": timeout_sec}
        self._request("write_transport", given, _limit(timeout_sec))


def _limit(timeout_sec: float | None) -> float | None:
    return timeout_sec + _GRACE_SECONDS if timeout_sec else None


def _reply(request: Mapping[str, Any], line: bytes) -> dict[str, Any]:
    """Parse a line and check that it is a JSON-RPC reply to this request."""
    method = request["method"]
    try:
        reply = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise MalformedReplyError(f"request {method}: the reply is not JSON: {error}") from error
    if not isinstance(reply, dict):
        raise MalformedReplyError(f"request {method}: the reply is not an object")
    if reply.get("jsonrpc") != "2.0":
        raise MalformedReplyError(f"request {method}: the reply is not a JSON-RPC 2.0 message")
    if reply.get("id") != request["id"]:
        raise MismatchedIdError(f"request {method} has id {request['id']}, but the reply has id {reply.get('id')}")
    error = reply.get("error")
    if "result" not in reply and not (isinstance(error, dict) and isinstance(error.get("code"), int)):
        raise MalformedReplyError(f"request {method}: the reply has neither a result nor an error")
    return reply


def instantiate_from_dir(project_dir: str | pathlib.Path, debug: bool = False) -> ProjectAPIClient:
    """Start the server of a project folder.

    Parameters
    ----------
    project_dir : str or Path
        The folder, with ``launch_microtvm_api_server.sh`` or ``microtvm_api_server.py``.
    debug : bool, optional
        Whether the server prints failed requests with their tracebacks.

    Returns
    -------
    ProjectAPIClient
        The client of the started server.

    Raises
    ------
    ProjectAPIServerNotFoundError
        The folder has no server.
    """
    folder = pathlib.Path(project_dir).resolve()
    script, program = folder / SERVER_LAUNCH_SCRIPT_FILENAME, folder / SERVER_PYTHON_FILENAME
    if script.is_file():
        command = [str(script)]
    elif program.is_file():
        command = [sys.executable, str(program)]
    else:
        raise ProjectAPIServerNotFoundError(
            f"{project_dir} is not a project: it has no {SERVER_LAUNCH_SCRIPT_FILENAME} or {SERVER_PYTHON_FILENAME}"
        )
    if not hasattr(os, "fork"):
        raise ConnectionShutdownError(
            f"projects are controlled through inherited pipes, which {sys.platform} does not support; "
            "use Linux or macOS"
        )
    requests_read, requests_write = os.pipe()
    replies_read, replies_write = os.pipe()
    command += ["--read-fd", str(requests_read), "--write-fd", str(replies_write), *(["--debug"] if debug else [])]
    # The server must find this package for any working directory.
    package = str(pathlib.Path(__file__).resolve().parents[3])
    paths = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths}
    try:
        process = subprocess.Popen(command, cwd=folder, env=environment, pass_fds=(requests_read, replies_write))
    except OSError:
        os.close(requests_write)
        os.close(replies_read)
        raise
    finally:
        os.close(requests_read)
        os.close(replies_write)
    replies, requests = os.fdopen(replies_read, "rb", buffering=0), os.fdopen(requests_write, "wb", buffering=0)
    return ProjectAPIClient(replies, requests, process=process)

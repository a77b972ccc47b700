"""The server of the Project API: a program in a project folder that generates, builds, flashes and runs the project.

Requests and replies are JSON-RPC 2.0 messages, one per line. The client starts the server and passes the file
descriptors of two pipes (``--read-fd``, ``--write-fd``). A project implements ``ProjectAPIHandler`` and calls ``main``.
"""

from __future__ import annotations

import argparse
import base64
import enum
import inspect
import json
import logging
import os
import pathlib
import select
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

PROTOCOL_VERSION = 1
_LONGEST_MESSAGE = 1 << 28

_logger = logging.getLogger(__name__)


class _ProjectOption(NamedTuple):
    name: str
    choices: Sequence[str] | None = None
    default: Any = None
    type: str = "str"
    required: Sequence[str] | None = None
    optional: Sequence[str] | None = None
    help: str = ""


class ProjectOption(_ProjectOption):
    """An option of a project.

    Parameters
    ----------
    name : str
        The name.
    choices : sequence of str, optional
        The allowed values.
    default : optional
        The default value.
    type : str
        The type of the value: "str", "int" or "bool".
    required : sequence of str, optional
        The methods that need the option, such as "generate_project".
    optional : sequence of str, optional
        The methods that accept the option.
    help : str
        The description.
    """

    def __new__(cls, name: str, **kwargs: Any) -> ProjectOption:
        # JSON has no tuples: convert lists, so that an option from a reply equals the option of the server.
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in kwargs.items()}
        option = super().__new__(cls, name, **values)
        if not option.required and not option.optional:
            raise ValueError(f"option {name}: at least one of required and optional must name a method")
        if option.type not in ("str", "int", "bool"):
            raise ValueError(f"option {name}: the type must be str, int or bool, got {option.type}")
        return option

    def replace(self, attributes: Mapping[str, Any]) -> ProjectOption:
        """Return a copy of the option with some attributes replaced.

        Parameters
        ----------
        attributes : dict of str to object
            The new values by attribute.

        Returns
        -------
        ProjectOption
            The changed option.
        """
        return ProjectOption(**{**self._asdict(), **attributes})


class ServerInfo(NamedTuple):
    """The description of a project: its platform, whether it is a template, its model, and its options."""

    platform_name: str
    is_template: bool
    model_library_format_path: str | pathlib.Path
    project_options: Sequence[ProjectOption]


class TransportTimeouts(NamedTuple):
    """The time limits of a transport in seconds; 0 means no limit."""

    session_start_retry_timeout_sec: float
    session_start_timeout_sec: float
    session_established_timeout_sec: float


class ErrorCode(enum.IntEnum):
    """The error codes of JSON-RPC."""

    SERVER_ERROR = -32000
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    PARSE_ERROR = -32700


class JSONRPCError(Exception):
    """An error that is sent in a reply.

    Parameters
    ----------
    code : int
        The error code.
    message : str
        The message.
    data : object
        Further data, as JSON.
    client_context : str, optional
        The request that failed, for the error message on the client.
    """

    def __init__(self, code: int, message: str, data: Any, client_context: str | None = None):
        super().__init__(code, message, data)
        self.code, self.message, self.data, self.client_context = code, message, data, client_context

    def to_json(self) -> dict[str, Any]:
        """Return the error as JSON.

        Returns
        -------
        dict
            The member ``error`` of a reply.
        """
        return {"code": int(self.code), "message": self.message, "data": self.data}

    @classmethod
    def from_json(cls, client_context: str, json_error: Mapping[str, Any]) -> JSONRPCError:
        """Return the error of a reply.

        Parameters
        ----------
        client_context : str
            The request that failed.
        json_error : dict
            The member ``error`` of the reply.

        Returns
        -------
        JSONRPCError
            The error. It has the class that the server raised if this module defines it, otherwise ``JSONRPCError``.
        """
        code = json_error["code"]
        if code == ErrorCode.SERVER_ERROR:
            return ServerError.from_json(client_context, json_error)
        return JSONRPCError(code, str(json_error.get("message", "")), json_error.get("data"), client_context)

    def __str__(self) -> str:
        where = f"{self.client_context}: " if self.client_context else ""
        return f"{where}{self.message} (error {int(self.code)})"


class ServerError(JSONRPCError):
    """An error of a handler.

    Parameters
    ----------
    message : str, optional
        The message.
    data : dict, optional
        Further data.
    client_context : str, optional
        The request that failed.
    """

    def __init__(self, message: str | None = None, data: Any = None, client_context: str | None = None):
        data = {"type": type(self).__name__, **(data or {})}
        super().__init__(ErrorCode.SERVER_ERROR, message or type(self).__name__, data, client_context)

    @classmethod
    def from_exception(cls, exc: BaseException, **kw: Any) -> ServerError:
        """Return the error for an exception of a handler.

        Parameters
        ----------
        exc : BaseException
            The exception.
        **kw
            Further arguments of the class.

        Returns
        -------
        ServerError
            The error, with the traceback of the exception.
        """
        error = cls(message=f"{type(exc).__name__}: {exc}", **kw)
        error.set_traceback(traceback.format_exception(exc))
        return error

    def set_traceback(self, traceback: Sequence[str]) -> None:
        """Add a traceback to the data of the error.

        Parameters
        ----------
        traceback : sequence of str
            The lines.
        """
        self.data["traceback"] = "".join(traceback)

    @classmethod
    def from_json(cls, client_context: str, json_error: Mapping[str, Any]) -> ServerError:
        given: Any = json_error.get("data")
        data: dict[str, Any] = dict(given) if isinstance(given, Mapping) else {"data": given}
        kind = {known.__name__: known for known in ServerError.__subclasses__()}.get(data.get("type", ""), ServerError)
        return kind(message=str(json_error.get("message", "")), data=data, client_context=client_context)


class TransportClosedError(ServerError):
    """The other end of a transport was closed, or the transport is not open."""


class IoTimeoutError(ServerError):
    """A read or write of a transport exceeded its time limit."""


class UnsupportedTVMVersionError(ServerError):
    """The project does not support the version of the compiler."""


class ProjectAPIHandler:
    """The methods of a project."""

    def server_info_query(self, tvm_version: str) -> ServerInfo:
        """Describe the project.

        Parameters
        ----------
        tvm_version : str
            The version of the compiler.

        Returns
        -------
        ServerInfo
            The description.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define server_info_query")

    def generate_project(
        self, model_library_format_path: pathlib.Path, standalone_crt_dir: pathlib.Path, project_dir: pathlib.Path,
        options: dict[str, Any],
    ) -> None:  # fmt: skip
        """Generate a project from this template.

        Parameters
        ----------
        model_library_format_path : Path
            The model in Model Library Format.
        standalone_crt_dir : Path
            The folder of the C runtime for microcontrollers.
        project_dir : Path
            The folder of the new project.
        options : dict of str to object
            The options.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define generate_project")

    def build(self, options: dict[str, Any]) -> None:
        """Build the project.

        Parameters
        ----------
        options : dict of str to object
            The options.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define build")

    def flash(self, options: dict[str, Any]) -> None:
        """Write the program to the board.

        Parameters
        ----------
        options : dict of str to object
            The options.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define flash")

    def open_transport(self, options: dict[str, Any]) -> TransportTimeouts:
        """Connect to the running program.

        Parameters
        ----------
        options : dict of str to object
            The options.

        Returns
        -------
        TransportTimeouts
            The time limits.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define open_transport")

    def close_transport(self) -> None:
        """Close the connection."""
        raise NotImplementedError(f"{type(self).__name__} does not define close_transport")

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
        """
        raise NotImplementedError(f"{type(self).__name__} does not define read_transport")

    def write_transport(self, data: bytes, timeout_sec: float | None) -> None:
        """Write to the program.

        Parameters
        ----------
        data : bytes
            The bytes.
        timeout_sec : float, optional
            The time limit.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define write_transport")


class MessageReader:
    """Lines of a binary stream, each with a time limit.

    Parameters
    ----------
    file : file
        An unbuffered binary stream.
    """

    def __init__(self, file: Any):
        self.file, self.rest = file, b""

    def line(self, timeout_sec: float | None = None) -> bytes | None:
        """Return the next line.

        Parameters
        ----------
        timeout_sec : float, optional
            The time limit.

        Returns
        -------
        bytes or None
            The line; None at the end of the stream.

        Raises
        ------
        TimeoutError
            There was no line within the limit.
        ValueError
            The line is longer than 256 MiB.
        """
        end = None if timeout_sec is None else time.monotonic() + timeout_sec
        while b"\n" not in self.rest:
            if len(self.rest) > _LONGEST_MESSAGE:
                raise ValueError("a message is longer than 256 MiB")
            if end is not None and not select.select([self.file], [], [], max(end - time.monotonic(), 0))[0]:
                raise TimeoutError(f"no message within {timeout_sec} s")
            chunk = self.file.read(1 << 16)
            if not chunk:
                return None
            self.rest += chunk
        line, _, self.rest = self.rest.partition(b"\n")
        return line


def write_message(file: Any, message: Mapping[str, Any]) -> None:
    """Write a JSON message as one line.

    Parameters
    ----------
    file : file
        A binary stream.
    message : dict
        The message.
    """
    data = memoryview(json.dumps(message).encode() + b"\n")
    while data:
        data = data[file.write(data) :]
    file.flush()


class ProjectAPIServer:
    """A server that calls a handler for each request.

    Parameters
    ----------
    read_file : file
        The unbuffered binary stream of requests.
    write_file : file
        The binary stream of replies.
    handler : ProjectAPIHandler
        The project.
    """

    def __init__(self, read_file: Any, write_file: Any, handler: ProjectAPIHandler):
        self._reader, self._write_file, self._handler = MessageReader(read_file), write_file, handler
        self._methods: dict[str, Callable[..., Any]] = {
            "server_info_query": self._server_info_query, "generate_project": self._generate_project,
            "build": self._build, "flash": self._flash, "open_transport": self._open_transport,
            "close_transport": self._close_transport, "read_transport": self._read_transport,
            "write_transport": self._write_transport,
        }  # fmt: skip

    def serve_forever(self) -> None:
        """Serve requests until the client closes its end."""
        while self.serve_one_request():
            pass

    def serve_one_request(self) -> bool:
        """Serve the next request.

        Returns
        -------
        bool
            False at the end of the stream.
        """
        line = self._reader.line()
        if line is None:
            return False
        number = None
        try:
            request = _parsed(line)
            number = request["id"]
            reply = {"result": self._call(request["method"], request["params"])}
        except JSONRPCError as error:
            reply = {"error": error.to_json()}
        except Exception as error:
            _logger.debug("request failed", exc_info=True)
            reply = {"error": ServerError.from_exception(error).to_json()}
        write_message(self._write_file, {"jsonrpc": "2.0", "id": number, **reply})
        return True

    def _call(self, method: str, params: Mapping[str, Any]) -> Any:
        function = self._methods.get(method)
        if function is None:
            raise JSONRPCError(ErrorCode.METHOD_NOT_FOUND, f"unknown method {method}", None)
        try:
            inspect.signature(function).bind(**params)
        except TypeError as error:
            raise JSONRPCError(ErrorCode.INVALID_PARAMS, f"method {method}: {error}", None) from error
        return function(**params)

    def _server_info_query(self, tvm_version: str) -> dict[str, Any]:
        info = self._handler.server_info_query(tvm_version)
        return {
            "protocol_version": PROTOCOL_VERSION,
            "platform_name": info.platform_name,
            "is_template": info.is_template,
            "model_library_format_path": str(info.model_library_format_path or ""),
            "project_options": [option._asdict() for option in info.project_options],
        }

    def _generate_project(
        self, model_library_format_path: str, standalone_crt_dir: str, project_dir: str, options: dict[str, Any]
    ) -> None:
        archive, crt, project = map(pathlib.Path, (model_library_format_path, standalone_crt_dir, project_dir))
        self._handler.generate_project(archive, crt, project, options)

    def _build(self, options: dict[str, Any]) -> None:
        self._handler.build(options)

    def _flash(self, options: dict[str, Any]) -> None:
        self._handler.flash(options)

    def _open_transport(self, options: dict[str, Any]) -> dict[str, Any]:
        return {"timeouts": self._handler.open_transport(options)._asdict()}

    def _close_transport(self) -> None:
        self._handler.close_transport()

    def _read_transport(self, n: int, timeout_sec: float | None) -> dict[str, str]:
        return {"data": base64.b85encode(self._handler.read_transport(n, timeout_sec)).decode()}

    def _write_transport(self, data: str, timeout_sec: float | None) -> None:
        try:
            plain = base64.b85decode(data)
        except ValueError as error:
            raise JSONRPCError(ErrorCode.INVALID_PARAMS, f"data is not in base 85: {error}", None) from error
        self._handler.write_transport(plain, timeout_sec)


def _parsed(line: bytes) -> dict[str, Any]:
    """Parse a line and check that it is a JSON-RPC request."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise JSONRPCError(ErrorCode.PARSE_ERROR, f"the request is not JSON: {error}", None) from error
    types = {"jsonrpc": str, "method": str, "params": dict, "id": int}
    if not isinstance(request, dict):
        raise JSONRPCError(ErrorCode.INVALID_REQUEST, "the request is not an object", None)
    for member, kind in types.items():
        if not isinstance(request.get(member), kind):
            raise JSONRPCError(ErrorCode.INVALID_REQUEST, f"the request has no {member} of type {kind.__name__}", None)
    if request["jsonrpc"] != "2.0":
        raise JSONRPCError(ErrorCode.INVALID_REQUEST, f"JSON-RPC {request['jsonrpc']} is not supported", None)
    return request


def _remaining(end: float | None, what: str) -> float | None:
    if end is None:
        return None
    left = end - time.monotonic()
    if left <= 0:
        raise IoTimeoutError(f"the {what} exceeded its time limit")
    return left


def read_with_timeout(fd: int, n: int, timeout_sec: float | None) -> bytes:
    """Read bytes from a file descriptor.

    Parameters
    ----------
    fd : int
        The file descriptor.
    n : int
        The number of bytes.
    timeout_sec : float, optional
        The time limit; None and 0 are no limit.

    Returns
    -------
    bytes
        Exactly ``n`` bytes.

    Raises
    ------
    IoTimeoutError
        The time limit was exceeded.
    TransportClosedError
        The other end was closed.
    """
    end = time.monotonic() + timeout_sec if timeout_sec else None
    parts, left = [], n
    while left:
        if not select.select([fd], [], [], _remaining(end, "read"))[0]:
            continue
        part = os.read(fd, left)
        if not part:
            raise TransportClosedError("the program closed the transport")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def write_with_timeout(fd: int, data: bytes, timeout_sec: float | None) -> None:
    """Write bytes to a file descriptor.

    Parameters
    ----------
    fd : int
        The file descriptor, which becomes non-blocking.
    data : bytes
        The bytes.
    timeout_sec : float, optional
        The time limit; None and 0 are no limit.

    Raises
    ------
    IoTimeoutError
        The time limit was exceeded.
    TransportClosedError
        The other end was closed.
    """
    end = time.monotonic() + timeout_sec if timeout_sec else None
    os.set_blocking(fd, False)
    rest = memoryview(data)
    while rest:
        if not select.select([], [fd], [], _remaining(end, "write"))[1]:
            continue
        try:
            rest = rest[os.write(fd, rest) :]
        except BlockingIOError:
            continue
        except BrokenPipeError as error:
            raise TransportClosedError("the program closed the transport") from error


_BUILDS = ("build",)
_DEFAULTS = (
    ProjectOption("verbose", type="bool", default=False, optional=_BUILDS, help="print the commands of the build"),
    ProjectOption("warning_as_error", type="bool", default=False, optional=_BUILDS,
                  help="treat warnings of the C compiler as errors"),
    ProjectOption("compile_definitions", default="", optional=_BUILDS,
                  help="macros for the C compiler, separated by spaces: NAME=VALUE"),
    ProjectOption("extra_files_tar", default="", optional=("generate_project",),
                  help="a tar archive of files that are added to the project"),
)  # fmt: skip


def default_project_options(**kw: Mapping[str, Any]) -> list[ProjectOption]:
    """Return the options of every template.

    Parameters
    ----------
    **kw
        Attributes to change, by the name of the option. A name that is not an option of every template adds one.

    Returns
    -------
    list of ProjectOption
        The options.
    """
    options = {option.name: option for option in _DEFAULTS}
    for name, attributes in kw.items():
        known = options.get(name)
        options[name] = known.replace(attributes) if known else ProjectOption(name, **attributes)
    return list(options.values())


def main(handler: ProjectAPIHandler, argv: Sequence[str] | None = None) -> int:
    """Serve the requests of a client until it closes its end.

    Parameters
    ----------
    handler : ProjectAPIHandler
        The project.
    argv : sequence of str, optional
        The command line; by default that of the program.

    Returns
    -------
    int
        The exit status.
    """
    parser = argparse.ArgumentParser(description="A server of the Project API; the compiler starts it.")
    parser.add_argument("--read-fd", type=int, required=True, help="file descriptor of the requests")
    parser.add_argument("--write-fd", type=int, required=True, help="file descriptor of the replies")
    parser.add_argument("--debug", action="store_true", help="print failed requests with their tracebacks")
    args = parser.parse_args(sys.argv[1:] if argv is None else argv)
    logging.basicConfig(level=logging.DEBUG if args.debug else logging.WARNING, stream=sys.stderr)
    with os.fdopen(args.read_fd, "rb", buffering=0) as requests, os.fdopen(args.write_fd, "wb", buffering=0) as replies:
        try:
            ProjectAPIServer(requests, replies, handler).serve_forever()
        except BrokenPipeError:
            return 1
    return 0

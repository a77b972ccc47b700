"""The server of the Project API: requests, errors, and reads and writes with time limits."""

from __future__ import annotations

import base64
import io
import json
import os
from pathlib import Path

import pytest

from tvm.micro.project_api import server


class Handler(server.ProjectAPIHandler):
    def server_info_query(self, tvm_version):
        option = server.ProjectOption("board", choices=("a", "b"), required=("generate_project",), help="the board")
        return server.ServerInfo("test", True, "", [option])

    def generate_project(self, model_library_format_path, standalone_crt_dir, project_dir, options):
        assert isinstance(project_dir, Path)
        raise server.UnsupportedTVMVersionError(f"too old: {options}")

    def build(self, options):
        raise KeyError("missing")

    def open_transport(self, options):
        return server.TransportTimeouts(0, 1.5, 2)

    def read_transport(self, n, timeout_sec):
        return bytes(range(n))


def replies(*lines: bytes | dict) -> list[dict]:
    """The replies of a server to these requests."""
    written = io.BytesIO()
    data = b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines)
    server.ProjectAPIServer(io.BytesIO(data), written, Handler()).serve_forever()
    return [json.loads(line) for line in written.getvalue().splitlines()]


def request(method: str, number: int = 1, **params) -> dict:
    return {"jsonrpc": "2.0", "method": method, "params": params, "id": number}


def test_results():
    info, opened, data = replies(
        request("server_info_query", tvm_version="0.14"), request("open_transport", 2, options={}),
        request("read_transport", 3, n=4, timeout_sec=None),
    )  # fmt: skip
    assert (info["id"], info["jsonrpc"], info["result"]["protocol_version"]) == (1, "2.0", server.PROTOCOL_VERSION)
    assert info["result"]["project_options"][0]["choices"] == ["a", "b"]
    assert opened["result"]["timeouts"]["session_start_timeout_sec"] == 1.5
    assert base64.b85decode(data["result"]["data"]) == b"\0\1\2\3"


@pytest.mark.parametrize(("line", "code", "words"), [
    (b"{", server.ErrorCode.PARSE_ERROR, "not JSON"), (b"\xff", server.ErrorCode.PARSE_ERROR, "not JSON"),
    (b"[" * 10**5, server.ErrorCode.PARSE_ERROR, "not JSON"), (b"3", server.ErrorCode.INVALID_REQUEST, "an object"),
    ({"jsonrpc": "2.0", "method": "build", "params": {}}, server.ErrorCode.INVALID_REQUEST, "no id of type int"),
    ({**request("build"), "jsonrpc": "1.0"}, server.ErrorCode.INVALID_REQUEST, "JSON-RPC 1.0 is not supported"),
    (request("explode"), server.ErrorCode.METHOD_NOT_FOUND, "unknown method explode"),
    (request("build"), server.ErrorCode.INVALID_PARAMS, "missing a required argument: 'options'"),
    (request("build", options={}, more=1), server.ErrorCode.INVALID_PARAMS, "unexpected keyword argument 'more'"),
    (request("write_transport", data="\x00", timeout_sec=1), server.ErrorCode.INVALID_PARAMS, "not in base 85"),
    (request("build", options={}), server.ErrorCode.SERVER_ERROR, "KeyError: 'missing'"),
    (request("flash", options={}), server.ErrorCode.SERVER_ERROR, "Handler does not define flash"),
])  # fmt: skip
def test_errors_are_replies_and_the_server_goes_on(line, code, words):
    first, second = replies(line, request("open_transport", 7, options={}))
    assert first["error"]["code"] == code and words in first["error"]["message"]
    assert second["id"] == 7 and "result" in second


def test_errors_keep_their_class_and_traceback():
    first, second = replies(
        request("generate_project", model_library_format_path="m", standalone_crt_dir="c", project_dir="p", options={}),
        request("build", 2, options={}),
    )  # fmt: skip
    error = server.JSONRPCError.from_json("request x", first["error"])
    assert type(error) is server.UnsupportedTVMVersionError and str(error) == "request x: too old: {} (error -32000)"
    error = server.JSONRPCError.from_json("request x", second["error"])
    assert type(error) is server.ServerError and "in build" in error.data["traceback"]
    other = server.JSONRPCError.from_json("x", {"code": -32601, "message": "no", "data": None})
    assert type(other) is server.JSONRPCError and other.to_json() == {"code": -32601, "message": "no", "data": None}


def test_options():
    option = server.ProjectOption("o", type="int", default=3, optional=("build",), help="h")
    assert option.replace({"default": 4}).default == 4 and option.default == 3
    with pytest.raises(ValueError, match="option o: at least one of required and optional"):
        server.ProjectOption("o")
    with pytest.raises(ValueError, match="the type must be str, int or bool, got float"):
        server.ProjectOption("o", type="float", optional=("build",))
    found = {o.name: o for o in server.default_project_options(verbose={"default": True}, port={"optional": ["flash"]})}
    assert found["verbose"].default is True and found["port"].optional == ("flash",) and "warning_as_error" in found


def test_reads_and_writes_have_limits():
    read, write = os.pipe()
    server.write_with_timeout(write, b"hello", 1)
    assert server.read_with_timeout(read, 3, 1) == b"hel"
    with pytest.raises(server.IoTimeoutError, match="the read exceeded its time limit"):
        server.read_with_timeout(read, 3, 0.05)
    with pytest.raises(server.IoTimeoutError, match="the write exceeded its time limit"):
        server.write_with_timeout(write, bytes(1 << 22), 0.05)
    os.close(write)
    with pytest.raises(server.TransportClosedError, match="the program closed the transport"):
        server.read_with_timeout(read, 1 << 22, 1)
    os.close(read)
    read, write = os.pipe()
    os.close(read)
    with pytest.raises(server.TransportClosedError, match="closed the transport"):
        server.write_with_timeout(write, b"x", 1)
    os.close(write)


def test_main_serves_until_the_client_closes():
    requests, replies_ = os.pipe(), os.pipe()
    os.write(requests[1], json.dumps(request("open_transport", options={})).encode() + b"\n")
    os.close(requests[1])
    assert server.main(Handler(), ["--read-fd", str(requests[0]), "--write-fd", str(replies_[1])]) == 0
    with os.fdopen(replies_[0], "rb") as found:
        assert json.loads(found.read())["id"] == 1

"""The client of the Project API with servers that follow the protocol, and with servers that do not."""

from __future__ import annotations

import json
import os
import sys
import threading
import time

import pytest

from tvm.micro.project_api import client, server


class Echo(server.ProjectAPIHandler):
    def __init__(self):
        self.data = b""

    def server_info_query(self, tvm_version):
        return server.ServerInfo("echo", False, "model.tar", server.default_project_options())

    def build(self, options):
        raise server.ServerError(f"no compiler for {options}")

    def open_transport(self, options):
        return server.TransportTimeouts(0, 1, 2)

    def close_transport(self):
        self.data = b""

    def write_transport(self, data, timeout_sec):
        self.data += data

    def read_transport(self, n, timeout_sec):
        if len(self.data) < n:
            raise server.IoTimeoutError("not enough data")
        found, self.data = self.data[:n], self.data[n:]
        return found


@pytest.fixture
def pipes():
    """A client, and the server's ends of its pipes."""
    requests, replies = os.pipe(), os.pipe()
    opened = [os.fdopen(requests[0], "rb", 0), os.fdopen(replies[1], "wb", 0)]
    made = client.ProjectAPIClient(os.fdopen(replies[0], "rb", 0), os.fdopen(requests[1], "wb", 0))
    yield made, *opened
    made.shutdown()
    for end in opened:
        end.close()


def test_requests_of_a_server(pipes):
    api, requests, replies = pipes
    thread = threading.Thread(target=server.ProjectAPIServer(requests, replies, Echo()).serve_forever)
    thread.start()
    info = api.server_info_query("0.14")
    assert (info.platform_name, info.is_template) == ("echo", False)
    assert list(info.project_options) == server.default_project_options()
    assert api.open_transport() == server.TransportTimeouts(0, 1, 2)
    data = bytes(range(256)) * 1000
    api.write_transport(data, 1)
    assert api.read_transport(len(data), 1) == data
    with pytest.raises(client.RPCError, match="the project failed to read transport: not enough data") as failed:
        api.read_transport(1, 1)
    assert type(failed.value.error) is server.IoTimeoutError
    with pytest.raises(client.RPCError, match=r"the project failed to build: no compiler for \{'a': 1\}"):
        api.build({"a": 1})
    api.close_transport()
    api.shutdown()
    thread.join(5)
    assert api.is_shutdown and not thread.is_alive()
    with pytest.raises(client.ConnectionShutdownError, match="request flash: the connection to the project is closed"):
        api.flash()


def reply(**members) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, **members}).encode() + b"\n"


INFO = {"protocol_version": 1, "platform_name": "x", "is_template": True, "model_library_format_path": ""}


@pytest.mark.parametrize(("line", "error", "words"), [
    (b"{\n", client.MalformedReplyError, "the reply is not JSON"),
    (b"\xff\xfe\n", client.MalformedReplyError, "the reply is not JSON"),
    (b"[" * 10**4 + b"\n", client.MalformedReplyError, "the reply is not"),
    (b"[]\n", client.MalformedReplyError, "the reply is not an object"),
    (b'{"id": 1}\n', client.MalformedReplyError, "not a JSON-RPC 2.0 message"),
    (reply(), client.MalformedReplyError, "neither a result nor an error"),
    (reply(error=3), client.MalformedReplyError, "neither a result nor an error"),
    (reply(error={"message": "x"}), client.MalformedReplyError, "neither a result nor an error"),
    (reply(id=2, result=None), client.MismatchedIdError, "has id 1, but the reply has id 2"),
    (reply(id=None, result=None), client.MismatchedIdError, "has id 1, but the reply has id None"),
    (reply(result=None), client.UnsupportedProtocolVersionError, "version None of the protocol"),
    (reply(result={"protocol_version": 99}), client.UnsupportedProtocolVersionError, "version 99"),
    (reply(result={"protocol_version": 1}), client.MalformedReplyError, "incomplete"),
    (reply(result={**INFO, "project_options": [{"name": "o"}]}), client.MalformedReplyError, "at least one of"),
    (reply(result={**INFO, "project_options": 3}), client.MalformedReplyError, "incomplete"),
    (reply(error={"code": -32601, "message": "no"}), client.RPCError, "failed to server info query: no"),
])  # fmt: skip
def test_replies_that_break_the_protocol(pipes, line, error, words):
    api, _, replies = pipes
    replies.write(line)
    with pytest.raises(error, match=words):
        api.server_info_query("0.14")
    is_kept = error in (client.RPCError, client.UnsupportedProtocolVersionError) or "incomplete" in words
    assert api.is_shutdown != (is_kept or "at least" in words)


@pytest.mark.parametrize(("result", "words"), [
    (None, "has no data"), ({"data": 3}, "has no data"), ({"data": "\x00"}, "has no data"),
    ({"data": ""}, "expected 4 bytes, the reply has 0"),
])  # fmt: skip
def test_replies_without_the_data(pipes, result, words):
    api, _, replies = pipes
    replies.write(reply(result=result))
    with pytest.raises(client.MalformedReplyError, match=words):
        api.read_transport(4, 1)


def test_replies_without_time_limits(pipes):
    api, _, replies = pipes
    replies.write(reply(result={"timeouts": {"other": 1}}))
    with pytest.raises(client.MalformedReplyError, match="request open_transport: the reply is incomplete"):
        api.open_transport()


def test_a_server_that_ends(pipes):
    api, requests, replies = pipes
    replies.close()
    with pytest.raises(client.ConnectionShutdownError, match="the project closed the connection"):
        api.build()
    assert api.is_shutdown


def test_a_server_that_hangs(pipes, monkeypatch):
    api, _, replies = pipes
    api.reply_timeout_sec = 0.1
    replies.write(b'{"jsonrpc"')
    begin = time.monotonic()
    with pytest.raises(client.ReplyTimeoutError, match=r"the project did not reply: no message within 0\.1 s"):
        api.build()
    assert api.is_shutdown and time.monotonic() - begin < 5


def test_a_transport_reply_has_a_limit(pipes, monkeypatch):
    monkeypatch.setattr(client, "_GRACE_SECONDS", 0.05)
    with pytest.raises(client.ReplyTimeoutError, match="the project did not reply"):
        pipes[0].read_transport(1, 0.05)


def test_a_server_process_that_hangs_is_ended(tmp_path):
    (tmp_path / client.SERVER_PYTHON_FILENAME).write_text("import time\ntime.sleep(600)\n")
    api = client.instantiate_from_dir(tmp_path)
    api.reply_timeout_sec = 0.1
    with pytest.raises(client.ReplyTimeoutError, match="the project did not reply"):
        api.server_info_query("0.14")
    assert api.process.returncode is not None


def test_a_launch_script_is_preferred(tmp_path):
    (tmp_path / client.SERVER_PYTHON_FILENAME).write_text("raise SystemExit(1)\n")
    script = tmp_path / client.SERVER_LAUNCH_SCRIPT_FILENAME
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {**INFO, "project_options": []}})
    script.write_text(f"#!{sys.executable}\nimport os, sys\nos.write(int(sys.argv[4]), {line.encode()!r} + b'\\n')\n")
    script.chmod(0o755)
    with client.instantiate_from_dir(tmp_path) as api:
        assert api.server_info_query("0.14").platform_name == "x"


def test_a_folder_without_a_server(tmp_path):
    with pytest.raises(client.ProjectAPIServerNotFoundError, match="is not a project: it has no launch_microtvm_api"):
        client.instantiate_from_dir(tmp_path)

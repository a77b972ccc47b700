"""What a user is told when a device's disk is full, its version another, its clock wrong, its connection half gone."""

from __future__ import annotations

import fcntl
import os
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import tvm
from tests.rpc.conftest import PROGRAM, register
from tests.rpc.test_limits import answer, ask_function, frame, greeted, is_over
from tests.rpc.test_tracker import free, serve_key, until
from tvm import rpc
from tvm.error import RPCError, RPCSessionTimeoutError
from tvm.rpc import base
from tvm.rpc.tracker import Tracker
from tvm.runtime import _lib

# ---- a full disk ----


def test_a_disk_that_is_full_is_named_and_the_session_goes_on(library):
    """A limit on the length of a file stands for the disk."""

    def small_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    words = [PROGRAM, "--port", "0"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, preexec_fn=small_disk)
    port = int(process.stderr.readline().rpartition(":")[2])
    with rpc.connect("127.0.0.1", port) as remote:
        for _ in range(2):
            with pytest.raises(RPCError, match="cannot write the file 'big' on the device: File too large"):
                remote.upload(bytes(5000), "big")
        remote.remove("big")
        remote.upload(bytes(4000), "small")
        assert remote.listdir() == "small" and len(remote.download("small")) == 4000
    process.terminate()
    process.communicate(timeout=60)


def test_a_device_that_cannot_make_a_folder_refuses_the_session_in_words(c_server, sessions_folder):
    server = c_server()
    rpc.connect(server.host, server.port).close()
    folder = next(sessions_folder.iterdir())
    # The server removes the folder of the session after it; its lock stays.
    until(lambda: not any(entry.is_dir() for entry in folder.iterdir()), "the folder of the session is gone")
    shutil.rmtree(folder)
    with pytest.raises(RPCError, match="rejects the session: cannot prepare the device for a session: No such file"):
        rpc.connect(server.host, server.port)


def test_a_file_that_is_sent_anew_takes_the_place_of_the_first(c_server):
    server = c_server("--max-files", "1000")
    with rpc.connect(server.host, server.port) as remote:
        remote.upload(bytes(600), "a")
        with pytest.raises(RPCError, match="at most 1000 bytes in total"):
            remote.upload(bytes(600), "b")
        remote.upload(bytes(900), "a")


# ---- another version ----


@pytest.fixture
def other_server():
    """A server of which the test says what it answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threads = []

        def start(*answers: bytes) -> int:
            def serve() -> None:
                with listening.accept()[0] as sock:
                    base.recv_exact(sock, 40)
                    for one in answers:
                        sock.sendall(one)
                    while sock.recv(4096):
                        pass

            threads.append(threading.Thread(target=serve, daemon=True))
            threads[-1].start()
            return listening.getsockname()[1]

        yield start
        for thread in threads:
            thread.join(60)


def test_a_server_of_another_protocol_is_named_with_its_version(other_server):
    port = other_server(b"TVMRPC7\n" + bytes(36))
    with pytest.raises(RPCError, match="uses version 7 of the protocol and this side version 1: install the same"):
        rpc.connect("127.0.0.1", port)


def test_a_server_tells_its_version_to_a_client_of_another_and_no_more(c_server):
    server = c_server()
    with socket.create_connection((server.host, server.port), 60) as sock:
        sock.sendall(b"TVMRPC7\n" + bytes(32))
        assert base.recv_exact(sock, 44)[:12] == base.HELLO + bytes(4)
        assert is_over(sock)


def test_a_device_whose_runtime_lacks_what_libraries_call_is_refused(other_server, c_server):
    version, entries = _lib.runtime_interface()
    for theirs in (f"{version}.{entries - 1}", f"{version + 1}.{entries}"):
        text = f"server: -runtime={theirs}".encode()
        last = base.LAST_WORD.pack(0, bytes(32), 0.0, 1 << 20, len(text)) + text
        port = other_server(base.HELLO + bytes(36) + last)
        with pytest.raises(RPCError, match=f"has runtime version {re.escape(theirs)} and this side"):
            rpc.connect("127.0.0.1", port)
    server = c_server()
    with socket.create_connection((server.host, server.port), 60) as sock:
        assert base.greet_server(sock, "it", "client:")[2] == f"server: -runtime={version}.{entries}"


# ---- a clock that jumps ----

_JUMPING_CLOCK = """
#define _GNU_SOURCE
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long days(void) { static long count; return ++count % 2 ? 86400 : -86400; }
int clock_gettime(clockid_t which, struct timespec *out) {
  int status = (int)syscall(SYS_clock_gettime, which, out);
  if (which == CLOCK_REALTIME) out->tv_sec += days();
  return status;
}
int gettimeofday(struct timeval *restrict out, void *restrict zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  *out = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
  return 0;
}
time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
"""


@pytest.fixture(scope="module")
def jumping_clock(tmp_path_factory) -> str:
    """A library that makes the time of day of a process jump by a day at every look."""
    folder = tmp_path_factory.mktemp("clock")
    (folder / "clock.c").write_text(_JUMPING_CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "clock.so", folder / "clock.c"], check=True)
    return str(folder / "clock.so")


def test_a_clock_that_jumps_neither_ends_a_session_nor_keeps_one(c_server, jumping_clock, monkeypatch):
    monkeypatch.setenv("LD_PRELOAD", jumping_clock)
    tracker = Tracker(port=0, silent=True)
    serve_key(c_server, tracker, "board", "--max-seconds", "100")
    server = c_server(LD_PRELOAD=jumping_clock)
    monkeypatch.delenv("LD_PRELOAD")
    client = rpc.connect_tracker(tracker.host, tracker.port)
    for _ in range(3):
        with client.request("board") as remote:
            assert remote.listdir() == ""
    until(lambda: free(client, "board") == 1, "the device is back")
    remote = rpc.connect(server.host, server.port, session_timeout=1.0)
    with pytest.raises(RPCSessionTimeoutError, match="exceeded its time limit of 1 s"):
        while True:
            remote.listdir()
            time.sleep(0.01)
    tracker.terminate()


def test_no_wait_looks_at_the_time_of_day():
    root = Path(__file__).parents[2]
    files = [*root.glob("tvm/rpc/*.py"), *root.glob("tvm/tuning/*.py"), *root.glob("csrc/src/rpc/*.c")]
    wrong = r"time\.time\(|datetime|CLOCK_REALTIME|gettimeofday|\btime\(NULL"
    assert len(files) > 12
    assert [path.name for path in files if re.search(wrong, path.read_text())] == []


# ---- half-closed connections ----


def test_a_client_that_has_said_its_last_word_frees_the_device(c_server):
    server = c_server()
    with greeted(server) as sock:
        sock.shutdown(socket.SHUT_WR)
        assert is_over(sock)
        rpc.connect(server.host, server.port).close()


def test_an_answer_reaches_a_client_that_says_no_more(c_server):
    server = c_server()
    with greeted(server) as sock:
        function = ask_function(sock, "tvm.rpc.server.listdir")
        text = struct.pack("<IQ", 11, 1) + b".\0"
        sock.sendall(frame(3, struct.pack("<QI", function, 1) + text))
        sock.shutdown(socket.SHUT_WR)
        assert answer(sock)[0] == 1 and is_over(sock)


def test_a_server_that_says_no_more_ends_the_session_here(other_server):
    last = base.LAST_WORD.pack(0, bytes(32), 0.0, 1 << 20, 7) + b"server:"
    with socket.create_server(("127.0.0.1", 0)) as listening:
        got: list = []

        def serve() -> None:
            sock = listening.accept()[0]
            got.append(sock)
            base.recv_exact(sock, 40)
            sock.sendall(base.HELLO + bytes(36) + last)
            sock.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=serve)
        thread.start()
        remote = rpc.connect(*listening.getsockname())
        thread.join(60)
        with pytest.raises(RPCError, match="the other side closed the connection"):
            remote.listdir()
        with pytest.raises(RPCError, match="the session has ended"):
            tvm.nd.array(np.zeros(3), remote.cpu())
        got[0].close()


def test_connections_notice_a_peer_that_has_vanished():
    with socket.create_server(("127.0.0.1", 0)) as listening, base.connect_to(listening.getsockname()) as sock:
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30000


# ---- two that want one device ----


def test_of_two_that_want_one_device_the_second_waits_as_long_as_it_says(c_server):
    tracker = Tracker(port=0, silent=True)
    serve_key(c_server, tracker, "board")
    first, second = (rpc.connect_tracker(tracker.host, tracker.port) for _ in range(2))
    held = first.request("board")
    with pytest.raises(RPCError, match=r"no device 'board' of the RPC tracker .* was free within 0\.2 s"):
        second.request("board", wait_timeout=0.2)
    until(lambda: first.summary()["queue_info"]["board"]["pending"] == 0, "the request is withdrawn")
    held.close()
    with second.request("board", wait_timeout=60) as remote:
        assert remote.listdir() == ""
    tracker.terminate()


def test_who_waits_for_a_device_is_told_so(c_server, monkeypatch, caplog):
    monkeypatch.setattr(base, "PATIENCE_SECONDS", 0.05)
    caplog.set_level("INFO", "RPCClient")
    server = c_server()
    first = rpc.connect(server.host, server.port)
    got: list = []
    waiting = threading.Thread(target=lambda: got.append(rpc.connect(server.host, server.port)))
    waiting.start()
    until(lambda: "is in use by another client" in caplog.text, "the second client is told")
    first.close()
    waiting.join(60)
    got[0].close()


def test_a_tuner_whose_last_device_has_gone_does_not_wait_for_ever(c_server, monkeypatch, sessions_folder):
    from tvm.tuning import remote as measuring

    monkeypatch.setattr(measuring, "_SECONDS_TO_LOOK", 0.2)
    tracker = Tracker(port=0, silent=True)
    server = serve_key(c_server, tracker, "board")
    devices = measuring.RemoteDevices("board", tracker.host, tracker.port)
    devices.session().close()
    server.proc.send_signal(signal.SIGKILL)
    server.proc.wait()
    with pytest.raises(RPCError, match="has no device 'board'; its devices are none"):
        devices.session()
    tracker.terminate()


def test_a_crash_while_another_waits_gives_the_device_to_the_other(sessions_folder):
    server = rpc.Server(port=0, silent=True, server_init_callback=register)
    first = rpc.connect(server.host, server.port)
    got: list = []
    waiting = threading.Thread(target=lambda: got.append(rpc.connect(server.host, server.port)))
    waiting.start()
    with pytest.raises(RPCError, match="the session process was killed"):
        first.get_function("test.rpc.die")()
    waiting.join(60)
    assert got[0].listdir() == ""
    got[0].close()
    server.terminate()
    assert not os.listdir(sessions_folder)


# ---- a server that was killed ----


def is_free(slot: Path) -> bool:
    """Whether no process holds the lock of a server's folder."""
    with slot.open("r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_what_a_killed_server_left_goes_when_the_next_one_starts(c_server, sessions_folder):
    killed, living = c_server(), c_server()
    sessions = [rpc.connect(server.host, server.port) for server in (killed, living)]
    for session in sessions:
        session.upload(b"x", "folder/file")
    (sessions_folder / "tvm_rpc_other").mkdir()  # no server's: it has no lock
    killed.proc.kill()
    killed.proc.wait()
    with pytest.raises(RPCError):
        while True:
            sessions[0].listdir()
    assert len(list(sessions_folder.iterdir())) == 3
    # The processes of its session hold the lock until they have died too, a moment after the connection has closed.
    until(lambda: any(is_free(slot) for slot in sessions_folder.glob("*/slot")), "the killed server's lock is free")
    new = c_server()
    rpc.connect(new.host, new.port).close()
    assert sessions[1].listdir() == "folder"
    assert len(list(sessions_folder.iterdir())) == 3  # of the living one, the new one, and what was never a server's
    sessions[1].close()

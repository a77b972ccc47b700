"""Stress test of a pool of RPC servers and clients: servers, clients and the tracker are killed at random moments.

    python tools/soak_rpc.py [--seconds 60] [--servers 32] [--clients 8] [--seed N]

Clients repeatedly request a device from the tracker, use it, and log the result. The program checks that every request
is served; that no match key is given twice; that data return unchanged; that a session ends early only if its server
was killed; that the tracker lists a server 5 s after its start (or that of the tracker); that every device is free 5 s
after all clients were killed; and that no process, file, socket or memory is left. Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

MARK = "TVM_SOAK_RPC"
KEY = "board"
BACK_SECONDS, REQUEST_SECONDS = 5.0, 20.0
ROUND_SECONDS = 30.0


class Failed(AssertionError):
    """A guarantee of the pool did not hold."""


def check(holds: Any, text: str) -> None:
    if not holds:
        raise Failed(text)


# ---- a client ----


def be_a_client(port: int, log: str, seed: int) -> None:
    """Use devices until killed; every line of the log records an event and its time."""
    import numpy as np

    import tvm
    from tvm import rpc
    from tvm.rpc import client

    draw = random.Random(seed)
    given: list[tuple[str, int]] = []

    def note(what: str, **more: Any) -> None:
        file.write(json.dumps({"what": what, "at": time.monotonic(), **more}) + "\n")
        file.flush()

    def connect(host: str, number: int, key: str, *rest: Any) -> Any:
        note("given", key=key, port=number)
        given.append((key, number))
        return connect_really(host, number, key, *rest)

    connect_really, client.connect = client.connect, connect
    with open(log, "w") as file:
        tracker = None
        while True:
            note("request")
            tracker = tracker or rpc.connect_tracker("127.0.0.1", port)
            session = tracker.request(KEY)
            note("session", port=given[-1][1])
            try:
                data = np.arange(draw.randrange(1, 50000), dtype="int32")
                array = tvm.nd.array(data, session.cpu())
                session.upload(bytes(1000), "file")
                time.sleep(draw.random() * 0.2)
                whole = bool((array.numpy() == data).all()) and session.listdir() == "file"
                session.close()
                note("done", whole=whole, port=given[-1][1])
            except tvm.TVMError as problem:
                note("broken", port=given[-1][1], text=str(problem))
            if draw.random() < 0.2:
                tracker.close()
                tracker = None


# ---- the pool ----


class Pool:
    """The processes, and the observations about them."""

    def __init__(self, folder: Path, servers: int, clients: int, seed: int):
        from tvm.rpc import base
        from tvm.runtime import _lib

        self.folder, self.draw = folder, random.Random(seed)
        self.sessions = folder / "sessions"
        self.sessions.mkdir()
        self.environment = {**os.environ, MARK: str(os.getpid()), "TMPDIR": str(self.sessions), "PYTHONPATH": str(ROOT)}
        self.program = Path(_lib.find_library()).with_name("tvm_rpc_server")
        self.listening = base.listen("127.0.0.1", 0, 0, "soak")
        self.port = self.listening.getsockname()[1]
        self.killed_ports: dict[int, float] = {}
        self.kills = {"server": 0, "client": 0, "tracker": 0}
        self.back: list[float] = []  # seconds until the tracker listed a server
        self.awaited: dict[int, float] = {}  # start of waiting, by port
        self.clients: dict[Any, str] = {}
        self.ended: dict[str, float] = {}  # logs of killed clients, and the time of the kill
        self.count = 0
        self.start_tracker()
        self.servers = dict(self.start_server() for _ in range(servers))
        self.most_clients = clients

    def start_tracker(self) -> None:
        from tvm.rpc.server import start_process
        from tvm.rpc.tracker import serve

        os.environ[MARK] = self.environment[MARK]
        options = {"listen_fd": self.listening.fileno(), "silent": True}
        self.tracker, self.held = start_process(serve, options, (self.listening.fileno(),))
        self.summary()  # starting an interpreter takes time
        now = time.monotonic()
        self.awaited = dict.fromkeys(getattr(self, "servers", {}), now)

    def start_server(self) -> tuple[int, subprocess.Popen]:
        words = [self.program, "--port", "0", "--key", KEY, "--tracker", f"127.0.0.1:{self.port}"]
        process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=self.environment)
        port = int(process.stderr.readline().rpartition(":")[2])
        threading.Thread(target=process.stderr.read, daemon=True).start()
        self.awaited[port] = time.monotonic()
        return port, process

    def start_client(self) -> None:
        self.count += 1
        log = str(self.folder / f"client{self.count}.log")
        Path(log).touch()  # a client that was killed early has written nothing
        seed = str(self.draw.randrange(1 << 30))
        words = [sys.executable, __file__, "--be-a-client", str(self.port), log, "--seed", seed]
        self.clients[subprocess.Popen(words, env=self.environment)] = log

    def kill_client(self, process: subprocess.Popen) -> None:
        check(process.poll() is None, f"a client has ended by itself: {process.returncode}")
        process.kill()
        process.wait()
        self.ended[self.clients.pop(process)] = time.monotonic()

    # ---- kills ----

    def kill_one(self) -> None:
        kind = self.draw.choices(("server", "client", "tracker"), (60, 35, 5))[0]
        self.kills[kind] += 1
        if kind == "client":
            self.kill_client(self.draw.choice(list(self.clients)))
            self.start_client()
        elif kind == "server":
            port, process = self.draw.choice(list(self.servers.items()))
            self.killed_ports[port] = time.monotonic()
            process.kill()
            process.wait()
            del self.servers[port]
            self.awaited.pop(port, None)
            time.sleep(self.draw.random() * 0.2)
            new, process = self.start_server()
            self.servers[new] = process
        else:
            self.tracker.kill()
            self.tracker.wait()
            os.close(self.held)
            self.start_tracker()

    # ---- the tracker's state ----

    def summary(self) -> dict:
        from tvm import rpc

        return rpc.connect_tracker("127.0.0.1", self.port).summary()

    def look(self) -> None:
        """Record which servers the tracker lists."""
        found, now = self.summary(), time.monotonic()
        known = {one["addr"][1] for one in found["server_info"]}
        for port, since in list(self.awaited.items()):
            if port in known:
                self.back.append(now - since)
                del self.awaited[port]
            else:
                check(now - since < BACK_SECONDS, f"the server at {port} is unknown after {now - since:.1f} s")

    def free(self) -> int:
        return self.summary()["queue_info"].get(KEY, {"free": 0})["free"]


def processes() -> list[int]:
    """Return the processes that this program started, and their descendants."""
    wanted, found = f"{MARK}={os.getpid()}".encode(), []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]


def size_of(pid: int) -> tuple[int, int]:
    """Return the number of open files, and the KiB of memory, of a process."""
    resident = re.search(r"VmRSS:\s*(\d+)", Path(f"/proc/{pid}/status").read_text())
    return len(os.listdir(f"/proc/{pid}/fd")), int(resident[1])


def be_quiet(pool: Pool) -> dict[str, Any]:
    """Kill all clients, and check that the state is as before their start."""
    for process in list(pool.clients):
        pool.kill_client(process)
    start, wanted = time.monotonic(), len(pool.servers)
    while pool.free() != wanted:
        check(time.monotonic() - start < BACK_SECONDS, f"{pool.free()} of {wanted} devices are free after 5 s")
        time.sleep(0.05)
    seconds = time.monotonic() - start
    left = set(processes()) - {pool.tracker.pid, *(process.pid for process in pool.servers.values())}
    check(not left, f"processes were left: {left}")
    folders = sorted(pool.sessions.iterdir())
    check(len(folders) <= wanted + 1, f"{len(folders)} folders of {wanted} servers")  # a server was killed last
    files = [path for folder in folders for path in folder.iterdir() if path.name != "slot"]
    living = [path for path in files if not _is_left(path.parent)]
    check(not living, f"files of sessions were left: {living}")
    sizes = [size_of(process.pid) for process in pool.servers.values()]
    # A connection of each server, the listening socket, the selector, the pipe, and standard streams.
    tracker = size_of(pool.tracker.pid)
    check(tracker[0] <= wanted + 16, f"the tracker has {tracker[0]} files open")
    check(max(files for files, _ in sizes) <= 12, f"a server has {max(sizes)[0]} files open")
    return {"free": seconds, "tracker": tracker, "server": max(memory for _, memory in sizes)}


def _is_left(folder: Path) -> bool:
    """Return whether the server of a folder was killed: no process holds its lock."""
    import fcntl

    with open(folder / "slot") as slot:
        try:
            fcntl.flock(slot, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False


def read_logs(pool: Pool) -> dict[str, Any]:
    """Check the logs of the clients."""
    keys: list[str] = []
    waits: list[float] = []
    sessions = broken = 0
    for log, killed in pool.ended.items():
        since = None
        lines = [json.loads(line) for line in Path(log).read_text().splitlines(keepends=True) if line.endswith("\n")]
        for one in lines:
            if one["what"] == "request":
                since = one["at"]
            elif one["what"] == "given":
                keys.append(one["key"])
            elif one["what"] == "session":
                sessions += 1
                waits.append(one["at"] - since)
                since = None
            elif one["what"] == "done":
                check(one["whole"], f"data came back changed from {one['port']}")
            else:
                broken += 1
                check(one["port"] in pool.killed_ports, f"a session with a living server ended: {one['text']}")
        if since is not None:
            check(killed - since < REQUEST_SECONDS, f"a request was not served in {killed - since:.0f} s ({log})")
    check(len(keys) == len(set(keys)), "a match key was given twice")
    check(sessions, "no client had a session")
    check(max(waits) < REQUEST_SECONDS, f"a request took {max(waits):.1f} s")
    return {"sessions": sessions, "broken": broken, "given": len(keys), "longest": max(waits)}


def soak(pool: Pool, seconds: float) -> list[dict[str, Any]]:
    """Run rounds of kills, each followed by a quiet period."""
    end, rounds = time.monotonic() + seconds, []
    while time.monotonic() < end:
        for _ in range(pool.most_clients):
            pool.start_client()
        pause = min(time.monotonic() + ROUND_SECONDS, end)
        while time.monotonic() < pause:
            pool.look()
            pool.kill_one()
            time.sleep(pool.draw.random() * 0.8)
        while pool.awaited:
            pool.look()
            time.sleep(0.05)
        rounds.append(be_quiet(pool))
    return rounds


def finish(pool: Pool) -> None:
    for process in pool.servers.values():
        process.send_signal(signal.SIGTERM)
    for process in pool.servers.values():
        check(process.wait(60) == 0, "a server did not end well")
    os.close(pool.held)
    check(pool.tracker.wait(60) == 0, "the tracker did not end well")
    check(not processes(), f"processes were left: {processes()}")
    left = [folder for folder in pool.sessions.iterdir() if not _is_left(folder)]
    check(not left, f"folders were left: {left}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--servers", type=int, default=32)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--be-a-client", nargs=2, metavar=("PORT", "LOG"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    seed = random.randrange(1 << 30) if args.seed is None else args.seed
    if args.be_a_client:
        be_a_client(int(args.be_a_client[0]), args.be_a_client[1], seed)
    with tempfile.TemporaryDirectory(prefix="tvm_soak_", dir="/tmp") as folder:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # descendants end with this process
        pool = Pool(Path(folder), args.servers, args.clients, seed)
        try:
            rounds = soak(pool, args.seconds)
            finish(pool)
        finally:
            for pid in processes():
                os.kill(pid, signal.SIGKILL)
        seen = read_logs(pool)
    first, last = rounds[0], rounds[-1]
    print(f"seed {seed}\n\n| {args.servers} servers, {args.clients} clients, {args.seconds:g} s | |\n|---|---|")
    memory = [[f"{one['tracker'][1] / 1024:.1f}", f"{one['server'] / 1024:.1f}"] for one in (first, last)]
    rows = {
        "killed: servers, clients, trackers": ", ".join(map(str, pool.kills.values())),
        "sessions; ended by the death of their server": f"{seen['sessions']}; {seen['broken']}",
        "match keys given; given twice": f"{seen['given']}; 0",
        "longest wait for a session (s)": f"{seen['longest']:.2f}",
        "longest time until a server was known to the tracker (s)": f"{max(pool.back):.2f}",
        "longest time until all devices were free (s)": f"{max(one['free'] for one in rounds):.2f}",
        "open files of the tracker, first and last round": f"{first['tracker'][0]}, {last['tracker'][0]}",
        "memory of the tracker (MiB), first and last": f"{memory[0][0]}, {memory[1][0]}",
        "memory of the largest server (MiB), first and last": f"{memory[0][1]}, {memory[1][1]}",
        "processes, files and folders left": "0",
    }
    for name, text in rows.items():
        print(f"| {name} | {text} |")


if __name__ == "__main__":
    main()

"""The Python face of the server: the C server in a process that has Python's functions, too."""

from __future__ import annotations

import importlib
import json
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from .. import runtime
from ..error import RPCError, TVMError
from ..runtime import _lib
from ..runtime.registry import get_global_func, register_func
from . import base
from .tls import client_context, server_context
from .tls import serve as tls_serve

logger = logging.getLogger("RPCServer")


def _server_env(load_library: str | None = None) -> None:
    """The functions that a Python server offers in addition to those of the C server."""
    for module in (".testing", ".relay"):
        importlib.import_module(module, __package__)

    @register_func("tvm.rpc.server.load_module", override=True)
    def load_module(name: str):
        path = get_global_func("tvm.rpc.server.workpath")(name)
        if path.endswith(".o"):
            try:
                return runtime.Module(_lib.module_load(path, "o"))
            except (TVMError, OSError):
                pass  # what the runtime does not link itself a linker may
        return runtime.load_module(path)

    @register_func("tvm.rpc.server.download_linked_module", override=True)
    def download_linked_module(name: str) -> bytes:
        from ..runtime.export import link_shared

        path = get_global_func("tvm.rpc.server.workpath")(name)
        kind = os.path.splitext(path)[1].lstrip(".")
        if kind in ("o", "tar"):
            link_shared(path, kind, f"{path}.so")
            path = f"{path}.so"
        with open(path, "rb") as file:
            return file.read()

    for path in (load_library or "").split(":"):
        if path:
            runtime.load_device_library(path)


def _put_behind_tls(listen_fd: int, files: list, tunnels: list) -> tuple[int, int]:
    """Start a tunnel from a listening socket to a new one, which only this machine reaches; the new one's number, and
    the port of the first."""
    with socket.socket(fileno=os.dup(listen_fd)) as outer:
        port = outer.getsockname()[1]
    inner = base.listen("127.0.0.1", 0, 0, "rpc.Server behind TLS")
    options = {"listen_fd": listen_fd, "to": inner.getsockname(), "tls": files}
    tunnels.append(start_process(tls_serve, options, (listen_fd,)))
    return inner.detach(), port


def _reach(address: tuple[str, int] | None, tunnels: list) -> tuple[str | None, int]:
    """Where the server in C, which speaks no TLS, reaches an address: there, or at a tunnel to it."""
    if address is None:
        return None, 0
    if client_context() is None:
        return address[0], int(address[1])
    with base.listen("127.0.0.1", 0, 0, "rpc.Server") as here:
        options = {"listen_fd": here.fileno(), "to": list(address), "is_front": False}
        tunnels.append(start_process(tls_serve, options, (here.fileno(),)))
        return here.getsockname()


def serve(
    listen_fd: int,
    *,
    key: str = "",
    tracker_addr: tuple[str, int] | None = None,
    proxy_addr: tuple[str, int] | None = None,
    custom_addr: str | None = None,
    load_library: str | None = None,
    max_seconds: float | None = None,
    max_memory: int = 0,
    max_message: int = 0,
    max_files: int = 0,
    measure_only: bool = False,
    silent: bool = False,
    watch_fd: int = -1,
    init: str | None = None,
    tls: list | None = None,
) -> None:
    """Serve sessions until told to stop, on a listening socket, or for a proxy with -1 in its place; before that, call
    the function named ``init``."""
    _server_env(load_library)
    if init is not None:
        named_function(init)()
    held = base.secret()
    tunnels, told_port = [], 0
    if tls and listen_fd >= 0:
        listen_fd, told_port = _put_behind_tls(listen_fd, tls, tunnels)
    host, port = _reach(tracker_addr, tunnels)
    proxy, proxy_port = _reach(proxy_addr, tunnels)
    _lib.run_server(
        listen_fd, key=key.encode(), secret=held, secret_size=len(held), tracker_host=host and host.encode(),
        tracker_port=int(port), proxy_host=proxy and proxy.encode(), proxy_port=int(proxy_port),
        custom_addr=custom_addr and custom_addr.encode(), max_message=max_message, max_memory=max_memory,
        max_files=max_files, max_seconds=float(max_seconds or 0), measure_only=int(measure_only), silent=int(silent),
        watch_fd=watch_fd, told_port=told_port,
    )
    for tunnel, end in tunnels:
        os.close(end)
        tunnel.wait(60)


def name_of_function(function: Callable[..., Any]) -> str:
    """The name by which another process finds a function of a module."""
    name = f"{function.__module__}:{function.__qualname__}"
    if function.__module__ == "__main__" or "<" in name:
        raise ValueError(f"rpc: '{name}' runs in another process, which finds functions of modules by their names")
    return name


def named_function(name: str) -> Callable[..., Any]:
    module, _, found = name.partition(":")
    return getattr(importlib.import_module(module), found)


def run_named(call: str) -> None:
    """The process that ``start_process`` starts."""
    name, options = json.loads(call)
    named_function(name)(**options)


def start_process(target: Callable[..., Any], options: dict, fds: tuple[int, ...]) -> tuple[subprocess.Popen, int]:
    """A new interpreter that calls ``target(**options)``, a function of a module, with these files open. It gets
    ``watch_fd``, which ends when this process does or closes the returned number."""
    watched, held = os.pipe()
    call = json.dumps([name_of_function(target), {**options, "watch_fd": watched}])
    program = f"import sys; from {__name__} import run_named; run_named(sys.argv[1])"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    try:
        return subprocess.Popen(
            [sys.executable, "-c", program, call], stdin=subprocess.DEVNULL, pass_fds=(*fds, watched), env=environment
        ), held
    finally:
        os.close(watched)


def _wait_for_offer(tracker: tuple[str, int], port: int) -> None:
    """Wait until a tracker lists the server of a port, which starts meanwhile; not for a tracker that is not there."""
    from .client import connect_tracker

    try:
        client = connect_tracker(*tracker)
    except RPCError:
        return
    try:
        end = time.monotonic() + base.HANDSHAKE_SECONDS
        while time.monotonic() < end:
            if any(info["addr"][1] == port for info in client.summary()["server_info"]):
                return
            time.sleep(0.02)
    finally:
        client.close()


class OwnProcess:
    """What runs in a process of its own, at ``host`` and ``port``, until ``terminate`` or the end of this process."""

    host: str
    port: int
    proc: subprocess.Popen
    _held: int

    def _start(self, target: Callable[..., Any], options: dict, listening: socket.socket) -> None:
        with listening:
            self.host, self.port = listening.getsockname()
            options = {"listen_fd": listening.fileno(), **options}
            self.proc, self._held = start_process(target, options, (listening.fileno(),))

    def terminate(self) -> None:
        """End it, and wait until it has."""
        if getattr(self, "proc", None) is None or self._held < 0:
            return
        os.close(self._held)
        self._held = -1
        try:
            self.proc.wait(60)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()

    def __del__(self) -> None:
        self.terminate()


class Server(OwnProcess):
    """An RPC server in a process of its own.

    Parameters
    ----------
    host : str, optional
        The address to listen on; others than loopback need a secret (``TVM_RPC_SECRET_FILE``).
    port : int, optional
        The first port to try; 0 for any.
    port_end : int, optional
        The port after the last one to try.
    is_proxy : bool, optional
        Whether ``host`` and ``port`` are those of a proxy, which the server is offered to.
    tracker_addr : tuple, optional
        Host and port of a tracker. The server has offered itself there when it is made, if the tracker can be reached;
        a server behind a proxy is offered by the proxy, to the tracker that the proxy was given.
    key : str, optional
        The kind of device.
    load_library : str, optional
        Libraries of devices, separated by colons.
    custom_addr : str, optional
        The address clients of the tracker are told.
    silent : bool, optional
        Whether it says nothing.
    no_fork : bool, optional
        Whether sessions must not start as forks of a process that may have used a device. They are forks of one that
        has used none unless ``server_init_callback`` did, so the two are refused together.
    server_init_callback : callable, optional
        Called in the process of the server before it serves; a function of a module.
    reuse_addr : bool, optional
        Whether a port that was in use a moment ago may be taken.
    timeout : float, optional
        Seconds a session may last.
    **limits
        ``max_memory``, ``max_message`` and ``max_files`` in bytes, and ``measure_only``: limits of a session; ``tls``:
        the files of a certificate, its key, and a CA that clients' certificates must be signed by (or None for either).
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 9091,
        port_end: int = 9199,
        is_proxy: bool = False,
        tracker_addr: tuple[str, int] | None = None,
        key: str = "",
        load_library: str | None = None,
        custom_addr: str | None = None,
        silent: bool = False,
        no_fork: bool = False,
        server_init_callback: Callable[[], Any] | None = None,
        reuse_addr: bool = True,
        timeout: float | None = None,
        **limits: Any,
    ):
        if is_proxy and custom_addr:
            raise ValueError("rpc.Server: a server behind a proxy has no address for clients")
        if tracker_addr is not None and not key:
            raise RuntimeError("rpc.Server: a server that is offered to a tracker needs a key")
        if no_fork and server_init_callback is not None:
            raise TVMError("rpc.Server: sessions are forks of the process that server_init_callback runs in, so it "
                           "cannot be given with no_fork=True; have load_library load what sessions need")
        unknown = limits.keys() - {"max_memory", "max_message", "max_files", "measure_only", "tls"}
        if unknown:
            raise TypeError(f"rpc.Server: unexpected arguments {', '.join(sorted(unknown))}")
        options = {
            "key": key, "tracker_addr": None if is_proxy else tracker_addr, "custom_addr": custom_addr,
            "load_library": load_library, "max_seconds": timeout, "silent": silent, **limits,
            "init": server_init_callback and name_of_function(server_init_callback),
        }
        server_context(*(limits.get("tls") or (None,)))  # Errors in arguments are raised here.
        if is_proxy:
            base.check_reach(host, "rpc.Server behind a proxy")
            self.host, self.port = host, port
            self.proc, self._held = start_process(serve, {"listen_fd": -1, "proxy_addr": (host, port), **options}, ())
            return
        self._start(serve, options, base.listen(host, port, port_end, "rpc.Server", reuse_addr))
        if not silent:
            logger.info("bind to %s:%d", self.host, self.port)
        if tracker_addr is not None:
            _wait_for_offer(tracker_addr, self.port)

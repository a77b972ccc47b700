"""The Python interface of the RPC server: the C server in a process that also has Python functions."""

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
    """Register the functions that a Python server offers in addition to those of the C server."""
    for module in (".testing", ".relay"):
        importlib.import_module(module, __package__)

    @register_func("tvm.rpc.server.load_module", override=True)
    def load_module(name: str):
        path = get_global_func("tvm.rpc.server.workpath")(name)
        if path.endswith(".o"):
            try:
                return runtime.Module(_lib.module_load(path, "o"))
            except (TVMError, OSError):
                pass  # files that the runtime cannot link are passed to a linker
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
    """Start a tunnel from a listening socket to a new socket that only this machine can reach.

    Return the file descriptor of the new socket and the port of the first."""
    with socket.socket(fileno=os.dup(listen_fd)) as outer:
        port = outer.getsockname()[1]
    inner = base.listen("127.0.0.1", 0, 0, "rpc.Server behind TLS")
    options = {"listen_fd": listen_fd, "to": inner.getsockname(), "tls": files}
    tunnels.append(start_process(tls_serve, options, (listen_fd,)))
    return inner.detach(), port


def _reach(address: tuple[str, int] | None, tunnels: list) -> tuple[str | None, int]:
    """Return the address that the C server, which does not support TLS, must use: the address itself or a tunnel to
    it."""
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
    """Serve sessions until told to stop. Before that, call the function named ``init``.

    ``listen_fd`` is a listening socket, or -1 if the server connects to a proxy."""
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
        listen_fd,
        key=key.encode(),
        secret=held,
        secret_size=len(held),
        tracker_host=host and host.encode(),
        tracker_port=int(port),
        proxy_host=proxy and proxy.encode(),
        proxy_port=int(proxy_port),
        custom_addr=custom_addr and custom_addr.encode(),
        max_message=max_message,
        max_memory=max_memory,
        max_files=max_files,
        max_seconds=float(max_seconds or 0),
        measure_only=int(measure_only),
        silent=int(silent),
        watch_fd=watch_fd,
        told_port=told_port,
    )
    for tunnel, end in tunnels:
        os.close(end)
        tunnel.wait(60)


def name_of_function(function: Callable[..., Any]) -> str:
    """Return the name by which another process can find a module-level function."""
    name = f"{function.__module__}:{function.__qualname__}"
    if function.__module__ == "__main__" or "<" in name:
        raise ValueError(f"rpc: '{name}' runs in another process and must therefore be a module-level function")
    return name


def named_function(name: str) -> Callable[..., Any]:
    module, _, found = name.partition(":")
    return getattr(importlib.import_module(module), found)


def run_named(call: str) -> None:
    """Run the call in the process that ``start_process`` started."""
    name, options = json.loads(call)
    named_function(name)(**options)


def start_process(target: Callable[..., Any], options: dict, fds: tuple[int, ...]) -> tuple[subprocess.Popen, int]:
    """Start an interpreter that calls ``target(**options)`` with inherited file descriptors; ``target`` is a
    module-level function. It also gets ``watch_fd``, which reaches end of file when this process ends or closes the
    returned descriptor."""
    if not hasattr(os, "fork"):
        raise RPCError(
            f"RPC servers, trackers and proxies are not supported on {sys.platform}, which cannot "
            "pass sockets to processes in this way; run them on Linux or macOS (this machine can be a client)"
        )
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
    """Wait until a tracker lists the server on a port, which is starting; return immediately if the tracker is down."""
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
    """A service in a separate process, at ``host`` and ``port``, until ``terminate`` or the end of this process."""

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
        """Stop the process and wait for its end."""
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
    """An RPC server in a separate process.

    Parameters
    ----------
    host : str, optional
        The address to listen on; an address outside loopback requires a secret (``TVM_RPC_SECRET_FILE``).
    port : int, optional
        The first port to try; 0 for any free port.
    port_end : int, optional
        The end of the port range (exclusive).
    is_proxy : bool, optional
        Whether ``host`` and ``port`` belong to a proxy to which the server connects.
    tracker_addr : tuple, optional
        Host and port of a tracker. If the tracker can be reached, the server is registered when the constructor
        returns. A server behind a proxy is registered by the proxy, with the tracker of the proxy.
    key : str, optional
        The device key.
    load_library : str, optional
        Shared libraries of custom devices, separated by colons.
    custom_addr : str, optional
        The address that the tracker gives to clients.
    silent : bool, optional
        Whether to print no messages.
    no_fork : bool, optional
        Require that sessions are not forked from a process that may have used a device. Only ``server_init_callback``
        could use a device in that process, so it cannot be combined with ``no_fork``.
    server_init_callback : callable, optional
        A module-level function that is called in the server process before it serves.
    reuse_addr : bool, optional
        Whether a recently used port may be reused.
    timeout : float, optional
        The time limit of a session in seconds.
    **limits
        Limits of a session: ``max_memory``, ``max_message`` and ``max_files`` in bytes, and ``measure_only``; ``tls``:
        paths of a certificate, its key, and a CA that must have signed the clients' certificates (key and CA may be
        None).
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
            raise ValueError("rpc.Server: custom_addr cannot be used with a proxy, which accepts the clients")
        if tracker_addr is not None and not key:
            raise RuntimeError("rpc.Server: registering with a tracker requires a key")
        if no_fork and server_init_callback is not None:
            raise TVMError(
                "rpc.Server: sessions are forked from the process that runs server_init_callback, so it "
                "cannot be "
                "combined with no_fork=True; use load_library to load libraries for sessions"
            )
        unknown = limits.keys() - {"max_memory", "max_message", "max_files", "measure_only", "tls"}
        if unknown:
            raise TypeError(f"rpc.Server: unexpected arguments {', '.join(sorted(unknown))}")
        options = {
            "key": key,
            "tracker_addr": None if is_proxy else tracker_addr,
            "custom_addr": custom_addr,
            "load_library": load_library,
            "max_seconds": timeout,
            "silent": silent,
            **limits,
            "init": server_init_callback and name_of_function(server_init_callback),
        }
        server_context(*(limits.get("tls") or (None,)))  # Raise errors in arguments here.
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

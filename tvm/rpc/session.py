"""RPC sessions: access to the files, modules, functions and devices of another machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from .. import runtime
from ..docstring import docstring
from ..runtime import _lib
from ..runtime.devices import RPC_SESS_MASK, Device
from ..runtime.packed_func import PackedFunc, function_from_handle

_PIECE = 16 << 20


class Connection:
    """A reference to a session of the runtime. Remote arrays, functions and modules also hold references."""

    def __init__(self, number: int):
        self.number = number

    def __del__(self, lib=_lib.lib) -> None:
        if lib.is_loaded():
            lib.TVMRPCSessionFree(self.number)

    def get_function(self, name: str) -> Callable[..., Any]:
        if name == "CloseRPCConnection":
            return self.close
        handle = _lib.session_function(self.number, name)
        if handle is None:
            raise AttributeError(f"the server has no global function '{name}'")
        return function_from_handle(handle)

    def close(self) -> None:
        _lib.check(_lib.lib.TVMRPCSessionClose(self.number))


class RPCSession:
    """A session with an RPC server; ``connect`` and ``TrackerSession.request`` make them.

    Parameters
    ----------
    sess : Connection
        The reference to the session of the runtime.
    """

    def __init__(self, sess: Any):
        self._sess = sess
        self._tbl_index = sess.number
        self._remote_funcs: dict[str, Any] = {}

    def close(self) -> None:
        """End the session; using its modules and arrays afterwards raises an error."""
        self._sess.close()

    def __enter__(self) -> RPCSession:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def get_function(self, name: str) -> PackedFunc:
        """Return a global function of the server.

        Parameters
        ----------
        name : str
            The name of the function.

        Returns
        -------
        PackedFunc
            The function.
        """
        return self._sess.get_function(name)

    def _server(self, name: str, *args: Any) -> Any:
        if name not in self._remote_funcs:
            self._remote_funcs[name] = self.get_function(f"tvm.rpc.server.{name}")
        return self._remote_funcs[name](*args)

    def system_lib(self) -> Any:
        """Return the module of functions linked into the server.

        Returns
        -------
        Module
            The module.
        """
        return self.get_function("runtime.SystemLib")()

    def device(self, dev_type: Any, dev_id: int = 0) -> Device:
        """Return a device of the session.

        Parameters
        ----------
        dev_type : str or int
            The device type.
        dev_id : int
            The device number.

        Returns
        -------
        Device
            The device.
        """
        found = runtime.device(dev_type, dev_id)
        made = Device(found.device_type % RPC_SESS_MASK + RPC_SESS_MASK * (self._tbl_index + 1), found.device_id)
        made._rpc_sess = self
        return made

    # ---- files ----

    def upload(self, data: Any, target: str | None = None) -> None:
        """Upload a file, or bytes under the name ``target``, to the folder of the session.

        Parameters
        ----------
        data : str or bytes
            The path of a file, or the contents as bytes.
        target : str, optional
            The name of the uploaded file; by default the name of the given file.

        Raises
        ------
        ValueError
            ``data`` is bytes and ``target`` is missing.
        """
        if isinstance(data, (bytes, bytearray)):
            if not target:
                raise ValueError("upload: uploading bytes requires a file name (target=)")
            for start in range(0, max(len(data), 1), _PIECE):
                self._server("upload", target, bytes(data[start : start + _PIECE]), start)
            return
        path = os.fspath(data)
        with open(path, "rb") as file:
            offset, piece = 0, file.read(_PIECE)
            while piece or not offset:
                self._server("upload", target or os.path.basename(path), piece, offset)
                if not piece:
                    break
                offset, piece = offset + len(piece), file.read(_PIECE)

    def download(self, path: str) -> bytearray:
        """Return the contents of a file of the session.

        Parameters
        ----------
        path : str
            The name of the file.

        Returns
        -------
        bytearray
            The contents.
        """
        found = bytearray()
        while True:
            piece = self._server("download", path, len(found))
            found += piece
            if len(piece) < _PIECE:
                return found

    def remove(self, path: str) -> None:
        """Remove a file of the session.

        Parameters
        ----------
        path : str
            The name of the file.
        """
        self._server("remove", path)

    def listdir(self, path: str = ".") -> str:
        """Return the names of the files of the session, separated by commas.

        Parameters
        ----------
        path : str
            A folder of the session.

        Returns
        -------
        str
            The names.
        """
        return self._server("listdir", path)

    def load_module(self, path: str) -> Any:
        """Load an uploaded library on the server.

        Parameters
        ----------
        path : str
            The name of the library.

        Returns
        -------
        Module
            The module, whose functions run on the server.
        """
        return self._server("load_module", path)

    def download_linked_module(self, path: str) -> bytearray:
        """Link an uploaded object or archive on the server and return the shared library.

        Parameters
        ----------
        path : str
            The name of the object or archive.

        Returns
        -------
        bytearray
            The library.
        """
        return bytearray(self._server("download_linked_module", path))


def _device_of(kind: str) -> Callable[..., Any]:
    def device(self: RPCSession, dev_id: int = 0) -> Any:
        return self.device(kind, dev_id)

    device.__name__ = device.__qualname__ = kind
    device.__doc__ = docstring(
        f"A device of the kind {kind}.", [("dev_id", "int", "The number.")], "Device\n    The device."
    )
    return device


for _kind in ("cl", "cpu", "cuda", "ext_dev", "hexagon", "metal", "rocm", "vulkan", "webgpu"):
    setattr(RPCSession, _kind, _device_of(_kind))

__all__ = ["Connection", "RPCSession"]

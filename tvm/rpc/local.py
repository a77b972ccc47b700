"""A session with this process, in which scripts written for a board run unchanged."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Any

from .. import runtime
from ..runtime.registry import get_global_func
from .session import RPCSession


class LocalSession(RPCSession):
    """Files are sent to a folder of the session's own; modules are loaded from there; devices are this machine's."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tvm_session_")

    def close(self) -> None:
        """Remove the files of the session."""
        self._folder.cleanup()

    def _path(self, name: str) -> str:
        path = os.path.realpath(os.path.join(self._folder.name, name))
        if not path.startswith(os.path.realpath(self._folder.name) + os.sep):
            raise ValueError(f"LocalSession: '{name}' is outside the folder of the session")
        return path

    def upload(self, data: Any, target: str | None = None) -> None:
        """Send a file, or bytes under the name ``target``.

        Parameters
        ----------
        data : str or bytes
            The path of a file, or bytes.
        target : str, optional
            The name there; that of the file by default.

        Raises
        ------
        ValueError
            Bytes were given without a name.
        """
        if isinstance(data, (bytes, bytearray)):
            if not target:
                raise ValueError("LocalSession.upload: bytes need the name of a file (target=)")
            with open(self._path(target), "wb") as file:
                file.write(data)
            return
        shutil.copyfile(data, self._path(target or os.path.basename(data)))

    def download(self, path: str) -> bytearray:
        """The contents of a file of the session.

        Parameters
        ----------
        path : str
            The name of the file.

        Returns
        -------
        bytearray
            The contents.
        """
        with open(self._path(path), "rb") as file:
            return bytearray(file.read())

    def remove(self, path: str) -> None:
        """Remove a file of the session.

        Parameters
        ----------
        path : str
            The name of the file.
        """
        os.remove(self._path(path))

    def listdir(self, path: str = ".") -> str:
        """The names of the files of the session, separated by commas.

        Parameters
        ----------
        path : str
            A folder of the session.

        Returns
        -------
        str
            The names.
        """
        folder = self._folder.name if path in ("", ".") else self._path(path)
        return ",".join(sorted(os.listdir(folder)))

    def load_module(self, path: str) -> Any:
        """The module of a library that was sent.

        Parameters
        ----------
        path : str
            The name of the library.

        Returns
        -------
        Module
            The module.
        """
        return runtime.load_module(self._path(path))

    def get_function(self, name: str) -> Any:
        """A function registered in this process.

        Parameters
        ----------
        name : str
            Its name.

        Returns
        -------
        PackedFunc
            The function.
        """
        return get_global_func(name)

    def system_lib(self) -> Any:
        """The module of functions linked into this process.

        Returns
        -------
        Module
            The module.
        """
        return runtime.system_lib()

    def device(self, dev_type: Any, dev_id: int = 0) -> Any:
        """A device of this machine.

        Parameters
        ----------
        dev_type : str or int
            The kind.
        dev_id : int
            The number.

        Returns
        -------
        Device
            The device.
        """
        return runtime.device(dev_type, dev_id)

"""A session with this process, so that scripts written for a remote board also run locally."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Any

from .. import runtime
from ..runtime.registry import get_global_func
from .session import RPCSession


class LocalSession(RPCSession):
    """A session whose server is this process: uploaded files are stored in a temporary folder; devices are local."""

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
        """Upload a file, or bytes under the name ``target``.

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
                raise ValueError("LocalSession.upload: uploading bytes requires a file name (target=)")
            with open(self._path(target), "wb") as file:
                file.write(data)
            return
        shutil.copyfile(data, self._path(target or os.path.basename(data)))

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
        folder = self._folder.name if path in ("", ".") else self._path(path)
        return ",".join(sorted(os.listdir(folder)))

    def load_module(self, path: str) -> Any:
        """Load an uploaded library.

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
        """Return a function registered in this process.

        Parameters
        ----------
        name : str
            The name of the function.

        Returns
        -------
        PackedFunc
            The function.
        """
        return get_global_func(name)

    def system_lib(self) -> Any:
        """Return the module of functions linked into this process.

        Returns
        -------
        Module
            The module.
        """
        return runtime.system_lib()

    def device(self, dev_type: Any, dev_id: int = 0) -> Any:
        """Return a device of this machine.

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
        return runtime.device(dev_type, dev_id)

"""Temporary folders and file locks."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading


class TempDirectory:
    """A folder that is removed when the program or the object ends.

    Parameters
    ----------
    custom_path : str, optional
        The folder to use, which must not exist.
    keep_for_debug : bool, optional
        Whether to keep the folder.
    """

    # Set by tests that keep their output.
    _KEEP_FOR_DEBUG = False
    # Folders to be removed when the program ends, because their paths may be in use after the objects are gone.
    TEMPDIRS: set[str] = set()

    @classmethod
    def remove_tempdirs(cls) -> None:
        """Remove every folder that is not to be kept, with its contents."""
        while TempDirectory.TEMPDIRS:
            shutil.rmtree(TempDirectory.TEMPDIRS.pop(), ignore_errors=True)

    @classmethod
    def set_keep_for_debug(cls, set_to: bool = True):
        """A context in which created folders are kept when the program ends.

        Parameters
        ----------
        set_to : bool, optional
            Whether to keep folders; False for a context in which they are removed.

        Returns
        -------
        context manager
            The context.
        """
        return _Keep(cls, set_to)

    def __init__(self, custom_path: str | None = None, keep_for_debug: bool | None = None):
        self._keep = self._KEEP_FOR_DEBUG if keep_for_debug is None else keep_for_debug
        if custom_path:
            os.makedirs(custom_path)
            self.temp_dir = custom_path
        else:
            self.temp_dir = tempfile.mkdtemp(prefix="tvm-")
        if not self._keep:
            self.TEMPDIRS.add(self.temp_dir)

    @property
    def path(self) -> str:
        return self.temp_dir

    def remove(self) -> None:
        """Remove the folder with its contents, unless it is to be kept."""
        if not self._keep and self.temp_dir in self.TEMPDIRS:
            self.TEMPDIRS.remove(self.temp_dir)
            shutil.rmtree(self.temp_dir, ignore_errors=True)
        # A new folder with this path does not belong to this object.
        self._keep = True

    def __truediv__(self, other: str):
        from pathlib import Path

        return Path(self.temp_dir) / other

    def __enter__(self) -> TempDirectory:
        return self

    def __exit__(self, *exc) -> None:
        self.remove()

    def relpath(self, name: str) -> str:
        """The path of a file in the folder.

        Parameters
        ----------
        name : str
            The name of the file, relative to the folder.

        Returns
        -------
        str
        """
        return os.path.join(self.temp_dir, name)

    def listdir(self) -> list[str]:
        """The names of the files in the folder.

        Returns
        -------
        list of str
        """
        return os.listdir(self.temp_dir)


atexit.register(TempDirectory.remove_tempdirs)


class _Keep:
    def __init__(self, cls, value: bool):
        self.cls, self.value = cls, value

    def __enter__(self):
        self.old, self.cls._KEEP_FOR_DEBUG = self.cls._KEEP_FOR_DEBUG, self.value

    def __exit__(self, *exc):
        self.cls._KEEP_FOR_DEBUG = self.old


def tempdir(custom_path: str | None = None, keep_for_debug: bool | None = None) -> TempDirectory:
    """A temporary folder.

    Parameters
    ----------
    custom_path : str, optional
        The folder to use, which must not exist.
    keep_for_debug : bool, optional
        Whether to keep the folder.

    Returns
    -------
    TempDirectory

    Examples
    --------
    >>> folder = tvm.contrib.utils.tempdir()
    >>> folder.relpath("a.txt").endswith("a.txt")
    True
    """
    return TempDirectory(custom_path, keep_for_debug)


_LOCKS: dict[str, threading.Lock] = {}


class FileLock:
    """A lock shared by processes through a file.

    Parameters
    ----------
    path : str
        The file.
    """

    def __init__(self, path: str):
        self.path = path
        self._file = open(path, "w")
        try:
            import fcntl

            fcntl.flock(self._file, fcntl.LOCK_EX)
        except ImportError:
            _LOCKS.setdefault(path, threading.Lock()).acquire()

    def release(self) -> None:
        """Release the lock and close the file; repeated calls have no effect."""
        if self._file is None:
            return
        try:
            import fcntl

            fcntl.flock(self._file, fcntl.LOCK_UN)
        except ImportError:
            _LOCKS[self.path].release()
        self._file.close()
        self._file = None


def filelock(path: str) -> FileLock:
    """A lock shared by processes through a file.

    Parameters
    ----------
    path : str
        The file.

    Returns
    -------
    FileLock
    """
    return FileLock(path)


def is_source_path(path: str) -> bool:
    """Whether a file is a C, C++ or CUDA source, by its suffix.

    Parameters
    ----------
    path : str
        The file.

    Returns
    -------
    bool
    """
    return os.path.splitext(path)[1] in (".cc", ".cpp", ".c", ".cu")


def which(exec_name: str) -> str | None:
    """The path of a program, or None if it is not installed.

    Parameters
    ----------
    exec_name : str
        The program.

    Returns
    -------
    str
    """
    return shutil.which(exec_name)

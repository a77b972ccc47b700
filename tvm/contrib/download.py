"""Downloads with retries; the destination file is written atomically."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from pathlib import Path

from ..error import TVMError


def download(url: str, path, overwrite: bool = False, size_compare: bool = False, retries: int = 3) -> None:
    """Download ``url`` to the file ``path``; an existing file is kept unless ``overwrite`` is true.

    Parameters
    ----------
    url : str
        The address.
    path : str or Path
        The file.
    overwrite : bool, optional
        Whether to download an existing file again.
    size_compare : bool, optional
        Whether to download a file of a different size again.
    retries : int, optional
        The number of attempts.

    Raises
    ------
    TVMError
        The file cannot be downloaded.
    """
    target = Path(path).resolve()
    if target.is_file() and not overwrite and not size_compare:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    error: Exception | None = None
    for _ in range(max(retries, 1)):
        try:
            with urllib.request.urlopen(url) as source, open(part, "wb") as out:
                size = int(source.headers.get("Content-Length") or -1)
                if size_compare and not overwrite and target.is_file() and target.stat().st_size == size:
                    return
                while chunk := source.read(1 << 16):
                    out.write(chunk)
            os.replace(part, target)
            return
        except (OSError, urllib.error.URLError) as problem:
            error = problem
        finally:
            part.unlink(missing_ok=True)
    raise TVMError(f"could not download {url}: {error}") from error


def _cache_folder() -> Path:
    return Path(os.environ.get("TEST_DATA_ROOT_PATH") or Path("~").expanduser() / ".tvm_test_data")


def download_testdata(url: str, relpath: str, module=None, overwrite: bool = False) -> str:
    """Download test data to the user's cache.

    Parameters
    ----------
    url : str
        The address.
    relpath : str
        The name in the cache.
    module : str or list of str, optional
        The folder in the cache.
    overwrite : bool, optional
        Whether to download an existing file again.

    Returns
    -------
    str
        The path of the file.

    Raises
    ------
    ValueError
        ``module`` is neither a name nor a list of names.
    """
    if module is None:
        target = _cache_folder() / relpath
    elif isinstance(module, str):
        target = _cache_folder() / module / relpath
    elif isinstance(module, (list, tuple)):
        target = _cache_folder().joinpath(*module) / relpath
    else:
        raise ValueError(f"the module must be a name or a list of names, got {module!r}")
    download(url, target, overwrite)
    return str(target)

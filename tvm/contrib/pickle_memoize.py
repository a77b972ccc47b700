"""Results of slow functions kept on disk. Named as in classic TVM; NumPy's own format is used, never pickle."""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path


def _closure(function) -> list[tuple[str, object]]:
    """The variables of the functions around this one that it uses, and what they hold when it is decorated."""
    return list(zip(function.__code__.co_freevars, [cell.cell_contents for cell in function.__closure__ or ()]))


def memoize(key: str, save_at_exit: bool = False):
    """Keep the arrays a function returns, by its arguments and the variables around it, in the user's cache folder.

    Parameters
    ----------
    key : str
        What keeps results apart from those of other functions.
    save_at_exit : bool, optional
        Taken for programs that pass it; results are written at once.

    Returns
    -------
    callable
        A decorator.
    """

    def decorate(function):
        around = repr(_closure(function))

        @functools.wraps(function)
        def kept(*args, **kwargs):
            import numpy

            text = f"{key}:{function.__qualname__}:{args!r}:{sorted(kwargs.items())!r}:{around}"
            root = Path(os.environ.get("XDG_CACHE_HOME") or Path("~").expanduser() / ".cache") / "tvm" / "memoize"
            path = root / (hashlib.sha256(text.encode()).hexdigest() + ".npz")
            if path.exists():
                with numpy.load(path, allow_pickle=False) as data:
                    out = tuple(data[f"arr_{i}"] for i in range(len(data.files)))
                return out[0] if len(out) == 1 else out
            result = function(*args, **kwargs)
            arrays = result if isinstance(result, tuple) else (result,)
            if all(isinstance(a, numpy.ndarray) and a.dtype != object for a in arrays):
                root.mkdir(parents=True, exist_ok=True, mode=0o700)
                part = path.with_suffix(f".{os.getpid()}.part.npz")
                numpy.savez(part, *arrays)
                os.replace(part, path)
            return result

        return kept

    return decorate

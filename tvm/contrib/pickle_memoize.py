"""Caching of results of slow functions. Named as in Apache TVM, but files use NumPy's format and never pickle."""

from __future__ import annotations

import functools
import hashlib
import os
import warnings
from pathlib import Path

# Results in this process, by the text of their arguments. The arguments are also kept alive, because the text may
# contain their addresses.
_RESULTS: dict[str, tuple[object, object]] = {}


def _closure(function) -> list[tuple[str, object]]:
    """Return the closure variables that a function uses, with their values at the time of decoration."""
    return list(zip(function.__code__.co_freevars, [cell.cell_contents for cell in function.__closure__ or ()]))


def _text(value) -> str:
    """Return a text that identifies a value. Arrays are identified by all elements; ``repr`` would abbreviate them."""
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(_text, value))})"
    if isinstance(value, dict):
        return f"dict({', '.join(f'{_text(k)}: {_text(v)}' for k, v in value.items())})"
    if hasattr(value, "tobytes") and hasattr(value, "dtype"):
        return f"array({value.dtype}, {value.shape}, {hashlib.sha256(value.tobytes()).hexdigest()})"
    return repr(value)


def _read(path: Path):
    """Read the arrays of a file: one array is returned directly, several as a tuple."""
    import numpy

    with numpy.load(path, allow_pickle=False) as data:
        out = tuple(data[f"arr_{i}"] for i in range(len(data.files)))
    return out[0] if len(out) == 1 else out


def _write(path: Path, result, what: str) -> None:
    import numpy

    arrays = result if isinstance(result, tuple) else (result,)
    if not all(isinstance(a, numpy.ndarray) and a.dtype != object for a in arrays):
        warnings.warn(
            f"memoize: {what} returned {type(result).__name__}, which is cached in this process only; only "
            "arrays "
            "and tuples of arrays are saved",
            stacklevel=3,
        )
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = path.with_suffix(f".{os.getpid()}.part.npz")
    numpy.savez(part, *arrays)
    os.replace(part, path)


def memoize(key: str, save_at_exit: bool = False):
    """Cache the results of a function by its arguments and closure variables.

    Parameters
    ----------
    key : str
        A key that separates these results from those of other functions.
    save_at_exit : bool, optional
        Whether to also store arrays in the user's cache folder for later processes. They are written immediately, so
        they are stored even if the process is killed; a result that is not an array or tuple of arrays causes a
        warning. By default, results are cached for the lifetime of the process.

    Returns
    -------
    callable
        A decorator.
    """

    def decorate(function):
        around = _closure(function)
        named = _text([key, function.__qualname__, around])

        @functools.wraps(function)
        def kept(*args, **kwargs):
            given = [args, sorted(kwargs.items())]
            text = named + _text(given)
            if text in _RESULTS:
                return _RESULTS[text][1]
            root = Path(os.environ.get("XDG_CACHE_HOME") or Path("~").expanduser() / ".cache") / "tvm" / "memoize"
            path = root / (hashlib.sha256(text.encode()).hexdigest() + ".npz")
            if save_at_exit and path.exists():
                result = _read(path)
            else:
                result = function(*args, **kwargs)
                if save_at_exit:
                    _write(path, result, function.__qualname__)
            _RESULTS[text] = (around, given), result
            return result

        return kept

    return decorate

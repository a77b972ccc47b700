"""Results of slow functions kept. Named as in classic TVM; files have NumPy's own format, never pickle."""

from __future__ import annotations

import functools
import hashlib
import os
import warnings
from pathlib import Path

# What functions returned in this process, by the text of what it was made of. The values that the text tells are held
# too: it may name them by their addresses.
_RESULTS: dict[str, tuple[object, object]] = {}


def _closure(function) -> list[tuple[str, object]]:
    """The variables of the functions around this one that it uses, and what they hold when it is decorated."""
    return list(zip(function.__code__.co_freevars, [cell.cell_contents for cell in function.__closure__ or ()]))


def _text(value) -> str:
    """What tells a value from others. Arrays are told by all their elements, of which ``repr`` shows the first and
    last."""
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(_text, value))})"
    if isinstance(value, dict):
        return f"dict({', '.join(f'{_text(k)}: {_text(v)}' for k, v in value.items())})"
    if hasattr(value, "tobytes") and hasattr(value, "dtype"):
        return f"array({value.dtype}, {value.shape}, {hashlib.sha256(value.tobytes()).hexdigest()})"
    return repr(value)


def _read(path: Path):
    """The arrays of a file: a single one as it is, more as a tuple."""
    import numpy

    with numpy.load(path, allow_pickle=False) as data:
        out = tuple(data[f"arr_{i}"] for i in range(len(data.files)))
    return out[0] if len(out) == 1 else out


def _write(path: Path, result, what: str) -> None:
    import numpy

    arrays = result if isinstance(result, tuple) else (result,)
    if not all(isinstance(a, numpy.ndarray) and a.dtype != object for a in arrays):
        warnings.warn(f"memoize: {what} returned {type(result).__name__}, which is kept for this process only; arrays "
                      "and tuples of arrays are saved", stacklevel=3)
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = path.with_suffix(f".{os.getpid()}.part.npz")
    numpy.savez(part, *arrays)
    os.replace(part, path)


def memoize(key: str, save_at_exit: bool = False):
    """Keep what a function returns, by its arguments and the variables around it.

    Parameters
    ----------
    key : str
        What keeps results apart from those of other functions.
    save_at_exit : bool, optional
        Whether arrays are also left in the user's cache folder for later processes. They are written when they are
        made, so a process that is ended leaves them too; of a result that is no array or tuple of arrays a warning
        says that it is not. By default results live as long as the process.

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

"""Load a symbol from its text, the path of its file, an MXNet symbol object or a Gluon block."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ....error import TVMError
from ..common.folder import mapped
from .graph import Graph, graph_of
from .params import as_arrays, plain_name, read_params

_SYMBOL = "-symbol.json"
# The suffix of checkpoint files: an epoch of four or more digits.
_STEP = re.compile(r"-\d{4,}\.params")


class Loaded(NamedTuple):
    """A graph and its parameters."""

    graph: Graph
    params: dict[str, np.ndarray]


def _read(path: str, what: str) -> bytes:
    """Read a regular file."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise TVMError(f"{what} {os.path.basename(path)} is not a regular file")
            return file.read()
    except OSError as problem:
        raise TVMError(f"cannot read {what} {os.path.basename(path)}: {problem.strerror}") from problem


def params_beside(path: str) -> dict[str, bytes]:
    """Return the parameter file next to a symbol file; among checkpoints, that of the last epoch.

    Raises
    ------
    TVMError
        There is no parameter file.
    """
    folder, name = os.path.split(path)
    base = name[: -len(_SYMBOL)] if name.endswith(_SYMBOL) else os.path.splitext(name)[0]
    found = []
    for other in os.listdir(folder or "."):
        rest = other[len(base) :] if other.startswith(base) else ""
        if rest == ".params" or _STEP.fullmatch(rest):
            found.append((len(rest), rest, other))
    if not found:
        raise TVMError(f"parameter file {base}-0000.params not found next to {name}")
    chosen = max(found)[2]
    return {chosen: bytes(mapped(folder or ".", "the parameters", chosen))}


def load(symbol: Any, names: Iterable[str], arg_params, aux_params) -> Loaded:
    """Load a symbol.

    ``names`` are the inputs to call a Gluon block with that never ran. Parameters may also be files or bytes.
    """
    params: dict[str, np.ndarray] = {}
    if hasattr(symbol, "collect_params"):
        text, params = _block(symbol, names)
    elif hasattr(symbol, "tojson"):
        text = symbol.tojson()
    elif isinstance(symbol, (bytes, bytearray)) or isinstance(symbol, str) and symbol.lstrip().startswith("{"):
        text = bytes(symbol) if isinstance(symbol, bytearray) else symbol
    elif isinstance(symbol, (str, os.PathLike)):
        text = _read(os.fspath(symbol), "the symbol")
        if arg_params is None and aux_params is None:
            (arg_params,) = params_beside(os.fspath(symbol)).values()
    else:
        raise TypeError(f"from_mxnet: expected a symbol, its JSON, a path or a block, got {type(symbol).__name__}")
    for what, given in (("arg_params", arg_params), ("aux_params", aux_params)):
        params.update(_given(given, what))
    return Loaded(graph_of(text), params)


def _given(given, what: str) -> dict[str, np.ndarray]:
    if isinstance(given, (str, os.PathLike)):
        given = _read(os.fspath(given), "the parameters")
    if isinstance(given, (bytes, bytearray, memoryview)):
        return {plain_name(name): array for name, array in read_params(given).items()}
    return as_arrays(given, what)


def _block(block: Any, names: Iterable[str]) -> tuple[str, dict[str, np.ndarray]]:
    """Return the symbol and the parameters of a Gluon block: as traced before, or called with variables of the given
    names."""
    import mxnet

    params = as_arrays(dict(block.collect_params().items()), "collect_params()")
    cached = getattr(block, "_cached_graph", None)
    if cached:
        out = cached[1]
    else:
        inputs = [n for n in names if n not in params] or ["data"]
        out = block(*(mxnet.sym.Variable(name) for name in inputs))
    if isinstance(out, (list, tuple)):
        out = mxnet.sym.Group(list(out))
    return out.tojson(), params


__all__ = ["Loaded", "load", "params_beside"]

"""Output of results."""

from __future__ import annotations

from .errors import TVMCException


def get_top_results(result, max_results: int):
    """Return indices and values of the largest elements of the first row of the first output, as a 2 x N array."""
    import numpy as np

    if "output_0" not in result.outputs:
        raise TVMCException("the model has no outputs")
    output = np.copy(result.outputs["output_0"])
    rows = output.reshape(1, -1) if output.ndim < 2 else output
    first = rows[0].reshape(-1)
    order = np.argsort(first)[::-1][:max_results]
    return np.array([order, first[order]])

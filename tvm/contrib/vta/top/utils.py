"""Helpers of the operators."""

from __future__ import annotations


def is_packed_layout(layout: str) -> bool:
    """Return whether a layout has blocks of batch and channels, such as ``NCHW1n16c``.

    Parameters
    ----------
    layout : str
        The layout.

    Returns
    -------
    bool
        True if it has.
    """
    return layout != "NCHW" and "n" in layout and "c" in layout

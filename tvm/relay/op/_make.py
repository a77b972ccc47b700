"""The variance operator in the low-level form of Apache TVM scripts, with positional arguments and the mean as an
input."""

from __future__ import annotations

from .reduce import variance


def _variance(data, mean, axis=None, keepdims=False, exclude=False, unbiased=False):
    return variance(data, axis, keepdims, exclude, unbiased, mean)


__all__ = ["_variance"]

"""The variance as scripts of classic TVM call it below the operator's function: by position, with the mean given."""

from __future__ import annotations

from .reduce import variance


def _variance(data, mean, axis=None, keepdims=False, exclude=False, unbiased=False):
    return variance(data, axis, keepdims, exclude, unbiased, mean)


__all__ = ["_variance"]

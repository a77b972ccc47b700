"""Arrays of random numbers, generated with NumPy at run time."""

from __future__ import annotations

from typing import Any

from ..runtime.registry import register_func
from ..te.operation import extern
from ..tir.op import call_packed

_STREAM: dict[str, Any] = {}


def _generator() -> Any:
    import numpy

    return _STREAM.setdefault("generator", numpy.random.default_rng())


@register_func("tvm.contrib.random.seed", override=True)
def seed(value: int) -> None:
    """Set the seed, so that subsequent numbers are reproducible.

    Parameters
    ----------
    value : int
        The seed.
    """
    import numpy

    _STREAM["generator"] = numpy.random.default_rng(value)


@register_func("tvm.contrib.random.randint", override=True)
def _randint(low: int, high: int, out: Any) -> None:
    out.copyfrom(_generator().integers(low, high, out.shape).astype(out.dtype))


@register_func("tvm.contrib.random.uniform", override=True)
def _uniform(low: float, high: float, out: Any) -> None:
    out.copyfrom(_generator().uniform(low, high, out.shape).astype(out.dtype))


@register_func("tvm.contrib.random.normal", override=True)
def _normal(loc: float, scale: float, out: Any) -> None:
    out.copyfrom(_generator().normal(loc, scale, out.shape).astype(out.dtype))


@register_func("tvm.contrib.random.random_fill", override=True)
def _fill(out: Any) -> None:
    out.copyfrom(_generator().uniform(1, 10, out.shape).astype(out.dtype))


def _drawn(name: str, size: Any, dtype: str, *limits: Any) -> Any:
    return extern(
        size, [], lambda ins, outs: call_packed(f"tvm.contrib.random.{name}", *limits, outs[0]), name=name, dtype=dtype
    )


def randint(low: int, high: int, size: Any, dtype: str = "int32") -> Any:
    """Integers in the range from ``low`` (inclusive) to ``high`` (exclusive).

    Parameters
    ----------
    low : int
        The lower limit.
    high : int
        The upper limit.
    size : int or tuple of int
        The shape of the result.
    dtype : str, optional
        The type of the integers.

    Returns
    -------
    Tensor
    """
    return _drawn("randint", size, dtype, int(low), int(high))


def uniform(low: float, high: float, size: Any) -> Any:
    """float32 numbers that are uniformly distributed between two limits.

    Parameters
    ----------
    low : float
        The lower limit.
    high : float
        The upper limit.
    size : int or tuple of int
        The shape of the result.

    Returns
    -------
    Tensor
    """
    return _drawn("uniform", size, "float32", float(low), float(high))


def normal(loc: float, scale: float, size: Any) -> Any:
    """float32 numbers around ``loc`` with the standard deviation ``scale``.

    Parameters
    ----------
    loc : float
        The mean.
    scale : float
        The standard deviation.
    size : int or tuple of int
        The shape of the result.

    Returns
    -------
    Tensor
    """
    return _drawn("normal", size, "float32", float(loc), float(scale))


__all__ = ["normal", "randint", "seed", "uniform"]

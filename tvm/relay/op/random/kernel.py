"""Random numbers from keys: equal keys generate equal numbers, and each operator returns the next key."""

from __future__ import annotations

import numpy as np

from .... import topi
from ....dtype import canonical
from ...expr import Constant, RelayExpr, TupleWrapper, const
from ..record import OPAQUE, call, op
from ..reshape import ints


def threefry_key(seed) -> Constant:
    """Create the key of a seed."""
    words = np.zeros(10, "uint64")
    if isinstance(seed, (list, tuple, np.ndarray)):
        words[: len(seed)] = np.asarray(seed, "uint64")
    else:
        words[0] = int(seed) & ((1 << 64) - 1)
    return const(words, "uint64")


@op(
    "random.threefry_generate",
    1,
    pattern=OPAQUE,
    compute=lambda attrs, inputs, out, gpu=None: topi.random.threefry_generate(inputs[0], attrs.out_shape, gpu=gpu),
)
def threefry_generate(key, shape):
    """Generate random 64-bit words; return the next key and the words."""
    return TupleWrapper(call("random.threefry_generate", key, out_shape=ints(shape)), 2)


@op(
    "random.threefry_split", 1, pattern=OPAQUE, compute=lambda attrs, inputs, out: topi.random.threefry_split(inputs[0])
)
def threefry_split(key):
    """Split a key into two independent keys."""
    return TupleWrapper(call("random.threefry_split", key), 2)


def _parameter(value, dtype: str) -> RelayExpr:
    return value if isinstance(value, RelayExpr) else const(value, dtype)


@op(
    "random.uniform",
    3,
    pattern=OPAQUE,
    compute=lambda attrs, inputs, out, gpu=None: topi.random.uniform(
        inputs[0], inputs[1], inputs[2], attrs.out_shape, attrs.out_dtype, gpu=gpu
    ),
)
def uniform(key, shape, dtype="float32", low=0.0, high=1.0):
    """Generate uniformly distributed numbers between ``low`` and ``high``; return the next key and the numbers."""
    made = call(
        "random.uniform",
        key,
        _parameter(low, dtype),
        _parameter(high, dtype),
        out_shape=ints(shape),
        out_dtype=canonical(dtype),
    )
    return TupleWrapper(made, 2)


@op(
    "random.normal",
    3,
    pattern=OPAQUE,
    compute=lambda attrs, inputs, out, gpu=None: topi.random.normal(
        inputs[0], inputs[1], inputs[2], attrs.out_shape, attrs.out_dtype, gpu=gpu
    ),
)
def normal(key, shape, dtype="float32", mean=0.0, scale=1.0):
    """Generate normally distributed numbers; return the next key and the numbers."""
    made = call(
        "random.normal",
        key,
        _parameter(mean, dtype),
        _parameter(scale, dtype),
        out_shape=ints(shape),
        out_dtype=canonical(dtype),
    )
    return TupleWrapper(made, 2)


@op(
    "random.multinomial",
    2,
    pattern=OPAQUE,
    compute=lambda attrs, inputs, out, gpu=None: topi.random.multinomial(*inputs, attrs.num_samples, gpu=gpu),
)
def multinomial(key, probs, num_samples=1):
    """Draw classes with the given probabilities; return the next key and the classes."""
    return TupleWrapper(call("random.multinomial", key, probs, num_samples=int(num_samples)), 2)

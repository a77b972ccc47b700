"""A small model with what models have: convolutions with epilogues, a pool, a dense layer, a softmax."""

from __future__ import annotations

import numpy as np

from tvm import relay
from tvm.ir.module import IRModule


def small_model(channels: int = 8, seed: int = 0):
    """A module and its parameters; ``data`` is its input."""
    rng = np.random.default_rng(seed)
    shapes = {
        "w1": (channels, 3, 3, 3),
        "b1": (channels,),
        "w2": (2 * channels, channels, 1, 1),
        "w3": (10, 2 * channels),
    }
    params = {name: rng.uniform(-1, 1, shape).astype("float32") for name, shape in shapes.items()}
    x = relay.var("data", shape=(1, 3, 9, 9))
    given = {name: relay.var(name, shape=shape) for name, shape in shapes.items()}
    y = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, given["w1"], padding=(1, 1)), given["b1"]))
    y = relay.nn.relu(relay.nn.conv2d(y, given["w2"], strides=(2, 2)))
    y = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(y))
    y = relay.nn.softmax(relay.nn.dense(y, given["w3"]))
    return IRModule.from_expr(relay.Function([x, *given.values()], y)), params


def reference(params, data):
    """What the model computes, in NumPy."""
    from tvm.topi.testing import conv2d_nchw_python

    y = conv2d_nchw_python(data, params["w1"], 1, 1) + params["b1"].reshape(1, -1, 1, 1)
    y = np.maximum(conv2d_nchw_python(np.maximum(y, 0), params["w2"], 2, 0), 0)
    y = y.mean(axis=(2, 3)) @ params["w3"].T
    e = np.exp(y - y.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)

"""Writes files of MXNet: symbols node by node, and lists of arrays of every version. It needs nothing but NumPy."""

from __future__ import annotations

import json
import struct

import numpy as np

TYPES = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool")


class Net:
    """A symbol under construction, with seeded weights. A method named after an operator adds a node."""

    def __init__(self, seed: int = 0):
        self.nodes: list = []
        self.params: dict = {}
        self.state = np.random.RandomState(seed)

    def var(self, name, **attrs):
        self.nodes.append({"op": "null", "name": name, "attrs": attrs, "inputs": []})
        return [len(self.nodes) - 1, 0, 0]

    def weight(self, name, *shape, low=-1.0, high=1.0, kind="arg"):
        self.params[f"{kind}:{name}"] = self.state.uniform(low, high, shape).astype("float32")
        return self.var(name)

    def op(self, kind, *inputs, name="", **attrs):
        name = name or f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(
            {
                "op": kind,
                "name": name,
                "attrs": {k: str(v) for k, v in attrs.items()},
                "inputs": [list(i) for i in inputs],
            }
        )
        return [len(self.nodes) - 1, 0, 0]

    def conv(self, x, inner, outer, kernel=3, stride=1, pad=None, group=1, bias=False):
        at = len(self.nodes)
        size = (kernel, kernel) if isinstance(kernel, int) else kernel
        pads = (size[0] // 2, size[1] // 2) if pad is None else (pad, pad)
        scale = (3.0 / (inner // group * size[0] * size[1])) ** 0.5
        weights = [self.weight(f"conv{at}_weight", outer, inner // group, *size, low=-scale, high=scale)]
        weights += [self.weight(f"conv{at}_bias", outer)] if bias else []
        return self.op(
            "Convolution",
            x,
            *weights,
            name=f"conv{at}_fwd",
            kernel=size,
            stride=(stride, stride),
            pad=pads,
            num_filter=outer,
            num_group=group,
            no_bias=not bias,
            layout="NCHW",
            dilate=(1, 1),
        )

    def norm(self, x, channels, fix_gamma=False):
        at = len(self.nodes)
        rows = [
            self.weight(f"norm{at}_gamma", channels, low=0.5, high=1.5),
            self.weight(f"norm{at}_beta", channels),
            self.weight(f"norm{at}_running_mean", channels, low=-0.2, high=0.2, kind="aux"),
            self.weight(f"norm{at}_running_var", channels, low=0.5, high=1.5, kind="aux"),
        ]
        return self.op(
            "BatchNorm",
            x,
            *rows,
            name=f"norm{at}_fwd",
            fix_gamma=fix_gamma,
            eps=1e-5,
            axis=1,
            momentum=0.9,
            use_global_stats=False,
        )

    def relu(self, x):
        return self.op("Activation", x, act_type="relu")

    def dense(self, x, inner, outer, flatten=True, bias=True):
        at, scale = len(self.nodes), (3.0 / inner) ** 0.5
        rows = [self.weight(f"dense{at}_weight", outer, inner, low=-scale, high=scale)]
        rows += [self.weight(f"dense{at}_bias", outer)] if bias else []
        return self.op(
            "FullyConnected", x, *rows, name=f"dense{at}_fwd", num_hidden=outer, flatten=flatten, no_bias=not bias
        )

    def pool(self, x, kind="max", kernel=2, stride=2, pad=0, whole=False):
        return self.op(
            "Pooling",
            x,
            pool_type=kind,
            kernel=(kernel, kernel),
            stride=(stride, stride),
            pad=(pad, pad),
            global_pool=whole,
            pooling_convention="valid",
        )

    def symbol(self, *heads, version=10901, key="attrs") -> str:
        nodes = [
            {**{k: v for k, v in n.items() if k != "attrs"}, **({key: n["attrs"]} if n["attrs"] else {})}
            for n in self.nodes
        ]
        attrs = {"attrs": {"mxnet_version": ["int", version]}} if version else {}
        return json.dumps(
            {
                "nodes": nodes,
                "arg_nodes": [i for i, n in enumerate(nodes) if n["op"] == "null"],
                "node_row_ptr": list(range(len(nodes) + 1)),
                "heads": [list(h) for h in heads],
                **attrs,
            }
        )


# -- lists of arrays --------------------------------------------------------------------------------------------------


def _shape(dims, size="q"):
    return struct.pack(f"<i{len(dims)}{size}", len(dims), *dims)


def array_bytes(array, version: int) -> bytes:
    """A dense array as version 0 to 3 has it."""
    array = np.asarray(array, order="C")
    head = {
        0: struct.pack(f"<I{array.ndim}I", array.ndim, *array.shape),
        1: struct.pack("<I", 0xF993FAC8) + _shape(array.shape),
        2: struct.pack("<Ii", 0xF993FAC9, 0) + _shape(array.shape),
        3: struct.pack("<Ii", 0xF993FACA, 0) + _shape(array.shape),
    }[version]
    return head + struct.pack("<iii", 1, 0, TYPES.index(str(array.dtype))) + array.tobytes()


def sparse_bytes(dims, values, *places) -> bytes:
    """Rows of an array (one list of places), or its elements by rows (where each begins, the columns)."""
    head = struct.pack("<Ii", 0xF993FAC9, len(places)) + _shape(values.shape) + _shape(dims)
    head += struct.pack("<iii", 1, 0, TYPES.index(str(values.dtype)))
    for p in places:
        head += struct.pack("<i", TYPES.index(str(p.dtype))) + _shape(p.shape)
    return head + values.tobytes() + b"".join(p.tobytes() for p in places)


def params_bytes(arrays: dict, version: int = 2) -> bytes:
    """A ``.params`` file; values are arrays or bytes of one."""
    rows = [a if isinstance(a, bytes) else array_bytes(a, version) for a in arrays.values()]
    names = [struct.pack("<Q", len(n.encode())) + n.encode() for n in arrays]
    return b"".join([struct.pack("<QQQ", 0x112, 0, len(rows)), *rows, struct.pack("<Q", len(names)), *names])

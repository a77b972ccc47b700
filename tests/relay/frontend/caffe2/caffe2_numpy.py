"""Operators of bytes and of regions in NumPy, step by step, written after Caffe2's sources: a blob of bytes is an
array, a scale and a zero point."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np


class Bytes(NamedTuple):
    """Integers that stand for (data - zero) * scale."""

    data: np.ndarray
    scale: float
    zero: int

    @property
    def real(self) -> np.ndarray:
        return (self.data.astype("float64") - self.zero) * self.scale


def _packed(real, args, relu=False) -> Bytes:
    scale, zero = float(np.float32(args.get("Y_scale", 1.0))), args.get("Y_zero_point", 0)
    low = zero if relu else 0
    return Bytes(np.clip(np.rint(np.asarray(real, "float64") / scale) + zero, low, 255).astype("uint8"), scale, zero)


def _windows(x, args, fill):
    """The data under each place of a window that goes over images with channels last: (n, h, w, kh, kw, c)."""
    if args.get("global_pooling"):
        return x[:, None, None]
    kernel, stride, pad = args["kernel"], args.get("stride", 1), args.get("pad", 0)
    x = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)), constant_values=fill)
    found = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), (1, 2))[:, ::stride, ::stride]
    return found.transpose(0, 1, 2, 4, 5, 3)


def _conv(args, relu, x, w, bias=None):
    groups = args.get("group", 1)
    under = _windows(x.real, args, 0.0)
    parts = [np.einsum("nhwklc,oklc->nhwo", u, v) for u, v in zip(np.split(under, groups, 5), np.split(w.real, groups))]
    return _packed(np.concatenate(parts, 3) + (0 if bias is None else bias.real), args, relu)


def _fc(args, relu, x, w, bias):
    return _packed(x.real.reshape(len(x.data), -1) @ w.real.T + bias.real, args, relu)


def _softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _shuffled(x, args):
    n, h, w, c = x.shape
    return x.reshape(n, h, w, args["group"], c // args["group"]).swapaxes(3, 4).reshape(x.shape)


_REAL = {
    "Conv": _conv,
    "FC": _fc,
    "Add": lambda args, relu, x, y: _packed(x.real + y.real, args, relu),
    "Sum": lambda args, relu, x, y: _packed(x.real + y.real, args, relu),
    "AveragePool": lambda args, relu, x: _packed(_windows(x.real, args, 0.0).mean((3, 4)), args, relu),
    "MaxPool": lambda args, relu, x: x._replace(data=np.maximum(_windows(x.data, args, 0).max((3, 4)),
                                                                x.zero if relu else 0).astype("uint8")),
}  # fmt: skip
_MOVES = {
    "Relu": lambda a, x: np.maximum(x.data, x.zero).astype("uint8"),
    "Reshape": lambda a, x: x.data.reshape(a["shape"]),
    "Flatten": lambda a, x: x.data.reshape(len(x.data), -1),
    "Slice": lambda a, x: x.data[tuple(slice(s, None if e == -1 else e) for s, e in zip(a["starts"], a["ends"]))],
    "Transpose": lambda a, x: x.data.transpose(a["axes"]),
    "ChannelShuffle": lambda a, x: _shuffled(x.data, a),
    "ResizeNearest": lambda a, x: x.data.repeat(int(a["height_scale"]), 1).repeat(int(a["width_scale"]), 2),
    "Concat": lambda a, *parts: np.concatenate([p.data for p in parts], a["axis"]),
}
_ONE = {"Sigmoid": lambda x, a: 1 / (1 + np.exp(-x)), "Softmax": lambda x, a: _softmax(x),
        "LeakyRelu": lambda x, a: np.where(x < 0, x * a["alpha"], x)}  # fmt: skip


def _int8(op: str, args: dict, inputs: list):
    if op == "GivenTensorFill":
        return Bytes(
            np.frombuffer(args["values"], "uint8").reshape(args["shape"]),
            float(np.float32(args["Y_scale"])),
            args["Y_zero_point"],
        )
    if op == "GivenIntTensorFill":
        return Bytes(np.array(args["values"], "int32").reshape(args["shape"]), float(np.float32(args["Y_scale"])), 0)
    if op == "Quantize":
        return _packed(inputs[0], args)
    if op == "Dequantize":
        return inputs[0].real.astype("float32")
    if op in _MOVES:
        return inputs[0]._replace(data=_MOVES[op](args, *inputs))
    if op in _ONE:
        return _packed(_ONE[op](inputs[0].real, args), args)
    relu = op.endswith("Relu")
    return _REAL[op.removesuffix("Relu")](args, relu, *inputs)


# -- regions ----------------------------------------------------------------------------------------------------------

GROWTH = math.log(1000 / 16)


def _moved(box, move, one, shift, high, wide):
    """A box of corners that four numbers move, inside the image."""
    w, h = box[2] - box[0] + one, box[3] - box[1] + one
    x, y = box[0] + w / 2 + move[0] * w, box[1] + h / 2 + move[1] * h
    w, h = w * math.exp(min(move[2], GROWTH)), h * math.exp(min(move[3], GROWTH))
    return np.clip([x - w / 2, y - h / 2, x + w / 2 - shift, y + h / 2 - shift], 0, [wide - one, high - one] * 2)


def _overlap(a, b, one):
    both = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]) + one, 0).prod()
    return both / ((a[2:] - a[:2] + one).prod() + (b[2:] - b[:2] + one).prod() - both)


def _proposals(args, scores, moves, info, anchors):
    """Zeros stand behind the regions that are found."""
    after, one = args.get("post_nms_topN", 300), float(args.get("legacy_plus_one", 1))
    rois, best = [], []
    for n, (high, wide, scale) in enumerate(info):
        found = []
        for k, i, j in np.ndindex(*scores.shape[1:]):
            box = anchors[k].astype("float64") + np.array([j, i, j, i]) / args["spatial_scale"]
            found.append((scores[n, k, i, j], _moved(box, moves[n, 4 * k : 4 * k + 4, i, j], one, one, high, wide)))
        found.sort(key=lambda pair: -pair[0])
        kept: list = []
        for score, box in found[: args.get("pre_nms_topN", 6000) or None]:
            large = (box[2:] - box[:2] + one >= args.get("min_size", 16.0) * scale).all()
            if large and all(_overlap(box, other, one) <= args.get("nms_thresh", 0.7) for _, other in kept):
                kept.append((score, box))
        own = np.zeros((after, 6))
        own[:, 1] = n
        for row, (score, box) in zip(own, kept):
            row[0], row[2:] = score, box
        rois.append(own[:, 1:])
        best.append(own[:, 0])
    return np.concatenate(rois).astype("float32"), np.concatenate(best).astype("float32")


def _transformed(args, rois, moves, info):
    one = float(args.get("legacy_plus_one", 1))
    shift = float(args.get("correct_transform_coords", one))
    out = np.zeros(moves.shape)
    counts = np.zeros(len(info))
    for n, roi in enumerate(rois.astype("float64")):
        image = int(roi[0]) if len(roi) == 5 else 0
        high, wide, scale = info[image]
        counts[image] += 1
        for k in range(moves.shape[1] // 4):
            move = moves[n, 4 * k : 4 * k + 4] / np.array(args.get("weights", [1.0] * 4))
            box = _moved(roi[-4:] / scale, move, one, shift, int(high / scale + 0.5), int(wide / scale + 0.5))
            out[n, 4 * k : 4 * k + 4] = box * (scale if args.get("apply_scale", 1) else 1)
    return out.astype("float32"), counts.astype("float32")


def _unit(args, hidden, cell, gates, lengths, t):
    """A step of an LSTM, of sequences that may have ended."""
    size = cell.shape[-1]
    i, f, o = (1 / (1 + np.exp(-gates[..., k * size : (k + 1) * size] - (k == 1) * args.get("forget_bias", 0.0)))
               for k in range(3))  # fmt: skip
    new = f * cell + i * np.tanh(gates[..., 3 * size :])
    out = o * np.tanh(new)
    if args.get("sequence_lengths", 1):
        alive, kept = (t < lengths)[:, None], 0.0 if args.get("drop_states") else 1.0
        out, new = np.where(alive, out, hidden * kept), np.where(alive, new, cell * kept)
    return out, new


def _lstm(args, x, lengths, hidden, cell, weight, bias):
    """The LSTM of the cases, whose step net it knows."""
    size, rows = weight.shape[1], []
    hidden, cell = (np.broadcast_to(v.reshape(-1, size), (x.shape[1], size)).astype("float64") for v in (hidden, cell))
    for t, part in enumerate(x.astype("float64")):
        hidden, cell = _unit(args["step_net"][-1].args, hidden, cell, part + hidden @ weight.T + bias, lengths, t)
        rows.append(hidden)
    return [np.asarray(v, "float32") for v in (rows, hidden[None], cell[None])] + [None]


def _concat(args, *parts):
    return np.concatenate(parts, args["axis"]), np.array([p.shape[args["axis"]] for p in parts], "int32")


_OTHERS = {
    "Concat": _concat,
    "RecurrentNetwork": _lstm,
    "LSTMUnit": lambda args, *rest: [v.astype("float32") for v in _unit(args, *rest)],
    "GenerateProposals": _proposals,
    "GenerateProposalsCPP": _proposals,
    "BBoxTransform": _transformed,
}
KNOWN = ("Int8", "GenerateProposals", "BBoxTransform", "RecurrentNetwork", "LSTMUnit")


def outputs(case) -> list[np.ndarray]:
    """What the last step of a case gives."""
    blobs: dict = {**case.feeds, **case.weights}
    for step in case.steps:
        given = [blobs[name] for name in step.inputs]
        if step.op.startswith("Int8"):
            made = (_int8(step.op.removeprefix("Int8"), step.args, given),)
        else:
            made = _OTHERS[step.op](step.args, *given)
        blobs.update(zip(step.outputs, made))
    found = [blobs[name] for name in case.outputs]
    return [v.data if isinstance(v, Bytes) else v for v in found]

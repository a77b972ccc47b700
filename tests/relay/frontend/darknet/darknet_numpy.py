"""DarkNet's layers in NumPy, written after its C sources: a network is computed layer by layer while its weights are
drawn, so that the same walk gives the file of weights and the expected results.

Images are (batch, channels, height, width) in float64; a step of a recurrent layer is a row of the batch.
"""

from __future__ import annotations

import math
import struct

import numpy as np


def sections(text: str) -> list[tuple[str, dict[str, str]]]:
    out: list[tuple[str, dict[str, str]]] = []
    for line in text.splitlines():
        line = line.replace(" ", "")
        if line.startswith("["):
            out.append((line[1:-1], {}))
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            out[-1][1].setdefault(key, value)
    return out


def _plse(x):
    return 0.01 * (x + 4) if x < -4 else 0.01 * (x - 4) + 1 if x > 4 else 0.125 * x + 0.5


def _stair(x):
    n = math.floor(x)
    return math.floor(x / 2.0) if n % 2 == 0 else (x - n) + math.floor(x / 2.0)


def _lhtan(x):
    return 0.001 * x if x < 0 else 0.001 * (x - 1) + 1 if x > 1 else x


def _logistic(x):
    return 1 / (1 + math.exp(-x))


SCALAR = {
    "linear": lambda x: x, "logistic": _logistic, "loggy": lambda x: 2 * _logistic(x) - 1,
    "relu": lambda x: x * (x > 0), "relu6": lambda x: min(max(x, 0), 6),
    "elu": lambda x: x if x >= 0 else math.expm1(x),
    "selu": lambda x: 1.0507 * x if x >= 0 else 1.0507 * 1.6732 * math.expm1(x),
    "relie": lambda x: x if x > 0 else 0.01 * x, "ramp": lambda x: x * (x > 0) + 0.1 * x,
    "leaky": lambda x: x if x > 0 else 0.1 * x, "revleaky": lambda x: x if x > 0 else 0.1 * x, "tanh": math.tanh,
    "plse": _plse, "stair": _stair, "hardtan": lambda x: -1 if x < -1 else 1 if x > 1 else x, "lhtan": _lhtan,
    "gelu": lambda x: 0.5 * x * (1 + math.tanh(0.797885 * x + 0.035677 * x**3)), "swish": lambda x: x * _logistic(x),
    "mish": lambda x: x * math.tanh(math.log1p(math.exp(x))),
    "hard_mish": lambda x: x if x > 0 else x * x / 2 + x if x > -2 else 0.0,
}  # fmt: skip


def activate(x, name):
    if name in SCALAR:
        return np.vectorize(SCALAR[name], otypes=["float64"])(x)
    if name == "normalize_channels":
        above = np.maximum(x, 0)
        return above / (above.sum(1, keepdims=True) + 1e-4)
    powers = np.exp(x - (x.max(1, keepdims=True) if name.endswith("maxval") else 0))
    return powers / (powers.sum(1, keepdims=True) + 1e-4)


def conv2d(x, weight, stride, pad, dilation, groups):
    size = weight.shape[2]
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    reach = (size - 1) * dilation + 1
    windows = np.lib.stride_tricks.sliding_window_view(x, (reach, reach), (2, 3))
    windows = windows[:, :, :: stride[0], :: stride[1], ::dilation, ::dilation]
    parts = []
    for g, part in enumerate(np.split(weight, groups)):
        depth = part.shape[1]
        parts.append(np.einsum("bchwij,ocij->bohw", windows[:, g * depth : (g + 1) * depth], part))
    return np.concatenate(parts, 1)


def softmax(x, axis):
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


class Net:
    """Computes a network and draws its weights from ``rng``."""

    def __init__(self, text: str, rng, transposed: bool = False):
        (_, self.options), *self.layers = sections(text)
        self.rng, self.transposed = rng, transposed
        self.written: list[np.ndarray] = []
        self.results: list[np.ndarray] = []
        # What describes the detectors, and what is left in the states.
        self.detections: list[list[np.ndarray]] = []
        self.boxes: list[np.ndarray] = []
        self.states: list[np.ndarray] = []

    def weights(self) -> bytes:
        major = 1001 if self.transposed else 0
        head = struct.pack("<iii", major, 2, 5) + (struct.pack("<i", 7) if self.transposed else struct.pack("<q", 7))
        return head + b"".join(np.ascontiguousarray(w, "<f4").tobytes() for w in self.written)

    def draw(self, *shape, low=-1.0, high=1.0):
        found = self.rng.uniform(low, high, shape).astype("float32")
        self.written.append(found)
        return found.astype("float64")

    def run(self, x: np.ndarray) -> np.ndarray:
        self.data = x = x.astype("float64")
        for number, (name, options) in enumerate(self.layers):
            self.number, self.o = number, options
            x = getattr(self, f"layer_{name}")(x)
            self.results.append(x)
        return x

    def int(self, key, default):
        return int(self.o.get(key, default))

    def activation(self, default="logistic"):
        return self.o.get("activation", default)

    def norm(self, channels):
        """The factor and the addend of a batch normalization, in the order of the file."""
        scale, mean = self.draw(channels, low=0.5, high=1.5), self.draw(channels)
        variance = self.draw(channels, low=0.2, high=2.0)
        factor = scale / np.sqrt(variance + 1e-6)
        return factor, -mean * factor

    # -- layers with weights --------------------------------------------------------------------------------------

    def conv(self, channels, filters, size, groups):
        bias, norm = self.draw(filters), (np.ones(filters), np.zeros(filters))
        if self.int("batch_normalize", 0):
            norm = self.norm(filters)
        depth = channels // groups
        spread = 1.5 / math.sqrt(depth * size * size)
        if self.int("flipped", 0):
            weight = self.draw(depth * size * size, filters, low=-spread, high=spread).T
        else:
            weight = self.draw(filters, depth * size * size, low=-spread, high=spread)
        weight = weight.reshape(filters, depth, size, size)

        def run(x, stride, pad, dilation, name):
            out = conv2d(x, weight, stride, pad, dilation, groups)
            return activate(out * norm[0][:, None, None] + (bias + norm[1])[:, None, None], name)

        return run

    def layer_convolutional(self, x):
        size, stride = self.int("size", 1), self.int("stride", 1)
        pad = size // 2 if self.int("pad", 0) else self.int("padding", 0)
        dilation = self.int("dilation", 1) if size > 1 else 1
        run = self.conv(x.shape[1], self.int("filters", 1), size, self.int("groups", 1))
        strides = (self.int("stride_y", stride), self.int("stride_x", stride))
        return run(x, strides, pad * dilation, dilation, self.activation())

    layer_conv = layer_convolutional

    def product(self, inputs, outputs):
        bias = self.draw(outputs)
        spread = 1.5 / math.sqrt(inputs)
        if self.transposed:
            weight = self.draw(inputs, outputs, low=-spread, high=spread).T
        else:
            weight = self.draw(outputs, inputs, low=-spread, high=spread)
        norm = self.norm(outputs) if self.int("batch_normalize", 0) else (1.0, 0.0)
        return lambda x, name="linear": activate((x @ weight.T) * norm[0] + bias + norm[1], name)

    def layer_connected(self, x):
        x = x.reshape(len(x), -1)
        return self.product(x.shape[1], self.int("output", 1))(x, self.activation())

    def layer_local(self, x):
        filters, size, stride, pad = (self.int(k, k != "pad") for k in ("filters", "size", "stride", "pad"))
        rows, columns = ((s - (1 if pad else size)) // stride + 1 for s in x.shape[2:])
        bias = self.draw(filters, rows, columns)
        weight = self.draw(rows, columns, filters, x.shape[1], size, size)
        padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        out = np.zeros((len(x), filters, rows, columns))
        for i, j in np.ndindex(rows, columns):
            part = padded[:, :, i * stride : i * stride + size, j * stride : j * stride + size]
            out[:, :, i, j] = np.einsum("bcij,fcij->bf", part, weight[i, j])
        return activate(out + bias, self.activation())

    def layer_batchnorm(self, x):
        factor, addend = self.norm(x.shape[1])
        return x * factor[:, None, None] + addend[:, None, None]

    def layer_l2norm(self, x):
        return x / np.sqrt((x * x).sum(1, keepdims=True))

    def layer_normalization(self, x):
        size, alpha = self.int("size", 5), float(self.o.get("alpha", 1e-4))
        beta, kappa = float(self.o.get("beta", 0.75)), float(self.o.get("kappa", 1))
        squares, norms = x * x, np.full(x.shape, kappa)
        for k in range(min(size // 2, x.shape[1])):
            norms[:, 0] += alpha * squares[:, k]
        for k in range(1, x.shape[1]):
            norms[:, k] = norms[:, k - 1]
            before, after = k - (size - 1) // 2 - 1, k + size // 2
            if before >= 0:
                norms[:, k] -= alpha * squares[:, before]
            if after < x.shape[1]:
                norms[:, k] += alpha * squares[:, after]
        return x * norms**-beta

    # -- layers without -------------------------------------------------------------------------------------------

    def other(self, text):
        number = int(text)
        return self.results[self.number + number if number < 0 else number]

    def layer_dropout(self, x):
        return x

    layer_cost = layer_silence = layer_empty = layer_dropout

    def layer_activation(self, x):
        return activate(x, self.activation("linear"))

    def layer_logistic(self, x):
        return activate(x, "logistic")

    def layer_shortcut(self, x):
        out = x * float(self.o.get("alpha", 1))
        for text in self.o["from"].split(","):
            add = self.other(text)
            (_, c1, h1, w1), (_, c2, h2, w2) = add.shape, x.shape
            stride, sample = max(w1 // w2, 1), max(w2 // w1, 1)
            for k, j, i in np.ndindex(min(c1, c2), min(h1, h2), min(w1, w2)):
                out[:, k, j * sample, i * sample] += float(self.o.get("beta", 1)) * add[:, k, j * stride, i * stride]
        return activate(out, self.activation("linear"))

    def layer_route(self, x):
        groups, group = self.int("groups", 1), self.int("group_id", 0)
        parts = [self.other(t) for t in self.o["layers"].split(",")]
        return np.concatenate([np.split(p, groups, 1)[group] for p in parts], 1)

    def layer_scale_channels(self, x):
        return activate(self.other(self.o["from"]) * x, self.activation("linear"))

    def layer_sam(self, x):
        return activate(self.other(self.o["from"]) * x, self.activation("linear"))

    def layer_upsample(self, x):
        stride, scale = self.int("stride", 2), float(self.o.get("scale", 1))
        if stride > 0:
            return scale * x.repeat(stride, 2).repeat(stride, 3)
        batch, channels, height, width = x.shape
        wide = x.reshape(batch, channels, height // -stride, -stride, width // -stride, -stride)
        return scale * wide.sum((3, 5))

    def pool(self, x, reduce):
        stride = self.int("stride", 1)
        size = self.int("size", stride)
        pad = self.int("padding", size - 1)
        steps = (self.int("stride_y", stride), self.int("stride_x", stride))
        counts = [(s + pad - size) // step + 1 for s, step in zip(x.shape[2:], steps)]
        out = np.zeros((*x.shape[:2], *counts))
        for i, j in np.ndindex(*counts):
            top, left = i * steps[0] - pad // 2, j * steps[1] - pad // 2
            part = x[:, :, max(top, 0) : max(top + size, 0), max(left, 0) : max(left + size, 0)]
            out[:, :, i, j] = reduce(part, (2, 3))
        return out

    def layer_maxpool(self, x):
        if not self.int("maxpool_depth", 0):
            return self.pool(x, np.max)
        count = self.int("out_channels", 1)
        return np.stack([x[:, g::count].max(1) for g in range(count)], 1)

    def layer_local_avgpool(self, x):
        return self.pool(x, np.mean)

    def layer_avgpool(self, x):
        return x.mean((2, 3), keepdims=True)

    def layer_reorg(self, x):
        batch, channels, height, width = x.shape
        stride, reverse = self.int("stride", 1), self.int("reverse", 0)
        depth = channels // (stride * stride)
        given, out = x.reshape(batch, -1), np.zeros((batch, x[0].size))
        for k, j, i in np.ndindex(channels, height, width):
            inside = i + width * (j + height * k)
            offset = k // depth
            w2, h2 = i * stride + offset % stride, j * stride + offset // stride
            spread = w2 + width * stride * (h2 + height * stride * (k % depth))
            if reverse:
                out[:, spread] = given[:, inside]
            else:
                out[:, inside] = given[:, spread]
        if reverse:
            return out.reshape(batch, depth, height * stride, width * stride)
        return out.reshape(batch, channels * stride * stride, height // stride, width // stride)

    def layer_reorg3d(self, x):
        batch, channels, height, width = x.shape
        s = self.int("stride", 1)
        if self.int("reverse", 0):
            wide = x.reshape(batch, s, s, channels // (s * s), height, width).transpose(0, 3, 4, 1, 5, 2)
            return wide.reshape(batch, channels // (s * s), height * s, width * s)
        wide = x.reshape(batch, channels, height // s, s, width // s, s).transpose(0, 3, 5, 1, 2, 4)
        return wide.reshape(batch, channels * s * s, height // s, width // s)

    def layer_crop(self, x):
        rows, columns = self.int("crop_height", 1), self.int("crop_width", 1)
        top, left = (x.shape[2] - rows) // 2, (x.shape[3] - columns) // 2
        out = x[:, :, top : top + rows, left : left + columns]
        return out if self.int("noadjust", 0) else out * 2 - 1

    def layer_softmax(self, x):
        if self.int("spatial", 0):
            return softmax(x, 1)
        rows = x.reshape(len(x) * self.int("groups", 1), -1) / float(self.o.get("temperature", 1))
        return softmax(rows, 1).reshape(len(x), -1)

    # -- detectors ------------------------------------------------------------------------------------------------

    def anchors(self, count):
        given = [float(v) for v in self.o.get("anchors", "").split(",") if v]
        return np.array(given + [0.5] * (2 * count - len(given)), "float32")

    def layer_yolo(self, x):
        total, classes = self.int("num", 1), self.int("classes", 20)
        mask = [int(v) for v in self.o.get("mask", ",".join(str(i) for i in range(total))).split(",")]
        batch, channels, height, width = x.shape
        out = x.reshape(batch, len(mask), classes + 5, height, width).copy()
        plain, scale = self.int("new_coords", 0), float(self.o.get("scale_x_y", 1))
        if not plain:
            for k in [0, 1, *range(4, classes + 5)]:
                out[:, :, k] = activate(out[:, :, k], "logistic")
        out[:, :, :2] = out[:, :, :2] * scale - 0.5 * (scale - 1)
        anchors = self.anchors(total)
        described = [
            np.array(mask, "int32"),
            anchors,
            np.array([len(mask), channels, height, width, classes, total], "int32"),
        ]
        self.detections.insert(0, [out.reshape(x.shape), *described])
        rows = np.zeros((batch, height, width, len(mask), classes + 5))
        for j, i, n in np.ndindex(height, width, len(mask)):
            v = out[:, n, :, j, i]
            sizes = (v[:, 2:4] ** 2 * 4 if plain else np.exp(v[:, 2:4])) * anchors[2 * mask[n] : 2 * mask[n] + 2]
            rows[:, j, i, n, 0], rows[:, j, i, n, 1] = (i + v[:, 0]) / width, (j + v[:, 1]) / height
            rows[:, j, i, n, 2:4] = sizes / [self.data.shape[3], self.data.shape[2]]
            rows[:, j, i, n, 4], rows[:, j, i, n, 5:] = v[:, 4], v[:, 5:] * v[:, 4:5]
        self.boxes.append(rows.reshape(batch, -1, classes + 5))
        return out.reshape(x.shape)

    def layer_Gaussian_yolo(self, x):
        total, classes = self.int("num", 1), self.int("classes", 20)
        mask = [int(v) for v in self.o.get("mask", ",".join(str(i) for i in range(total))).split(",")]
        batch, channels, height, width = x.shape
        out = x.reshape(batch, len(mask), classes + 9, height, width).copy()
        for k in [0, 1, 2, 3, 5, 7, *range(8, classes + 9)]:
            out[:, :, k] = activate(out[:, :, k], "logistic")
        scale = float(self.o.get("scale_x_y", 1))
        out[:, :, [0, 2]] = out[:, :, [0, 2]] * scale - 0.5 * (scale - 1)
        anchors = self.anchors(total)
        numbers = np.array([len(mask), channels, height, width, classes, total], "int32")
        self.detections.insert(0, [out.reshape(x.shape), np.array(mask, "int32"), anchors, numbers])
        rows = np.zeros((batch, height, width, len(mask), classes + 5))
        for j, i, n in np.ndindex(height, width, len(mask)):
            v = out[:, n, :, j, i]
            rows[:, j, i, n, 0], rows[:, j, i, n, 1] = (i + v[:, 0]) / width, (j + v[:, 2]) / height
            sizes = np.exp(v[:, [4, 6]]) * anchors[2 * mask[n] : 2 * mask[n] + 2]
            rows[:, j, i, n, 2:4] = sizes / [self.data.shape[3], self.data.shape[2]]
            certain = 1 - v[:, [1, 3, 5, 7]].mean(1)
            rows[:, j, i, n, 4], rows[:, j, i, n, 5:] = v[:, 8], v[:, 9:] * (v[:, 8] * certain)[:, None]
        self.boxes.append(rows.reshape(batch, -1, classes + 5))
        return out.reshape(x.shape)

    def layer_region(self, x):
        count, classes, coords = self.int("num", 1), self.int("classes", 20), self.int("coords", 4)
        background, batch = self.int("background", 0), len(x)
        channels, height, width = x.shape[1:]
        out = x.reshape(batch, count, coords + classes + 1, height, width).copy()
        out[:, :, :2] = activate(out[:, :, :2], "logistic")
        if not background:
            out[:, :, coords] = activate(out[:, :, coords], "logistic")
        if self.int("softmax", 0):
            first = coords + (0 if background else 1)
            out[:, :, first:] = softmax(out[:, :, first:], 2)
        else:
            out[:, :, coords + 1 :] = activate(out[:, :, coords + 1 :], "logistic")
        anchors = self.anchors(count)
        described = [anchors, np.array([count, channels, height, width, classes, coords, background], "int32")]
        self.detections.insert(0, [out.reshape(x.shape), *described])
        rows = np.zeros((batch, height, width, count, classes + 5))
        for j, i, n in np.ndindex(height, width, count):
            v = out[:, n, :, j, i]
            score = np.ones(batch) if background else v[:, coords]
            rows[:, j, i, n, 0], rows[:, j, i, n, 1] = (i + v[:, 0]) / width, (j + v[:, 1]) / height
            rows[:, j, i, n, 2:4] = np.exp(v[:, 2:4]) * anchors[2 * n : 2 * n + 2] / [width, height]
            rows[:, j, i, n, 4], rows[:, j, i, n, 5:] = score, v[:, coords + 1 :] * score[:, None]
        self.boxes.append(rows.reshape(batch, -1, classes + 5))
        return out.reshape(x.shape)

    def layer_detection(self, x):
        x = x.reshape(len(x), -1).copy()
        places, classes = self.int("side", 7) ** 2, self.int("classes", 1)
        if self.int("softmax", 0):
            for i in range(places):
                x[:, i * classes : (i + 1) * classes] = softmax(x[:, i * classes : (i + 1) * classes], 1)
        return x

    # -- recurrent layers -----------------------------------------------------------------------------------------

    def steps(self, x):
        return np.split(x, int(self.options.get("time_steps", 1)))

    def plain(self, x, first, own, last, shape):
        state, out = np.zeros(shape), []
        for part in self.steps(x):
            new = first(part) + own(state)
            state = state + new if self.int("shortcut", 0) else new
            out.append(last(state))
        self.states.append(state)
        return np.concatenate(out)

    def layer_rnn(self, x):
        outputs = self.int("output", 1)
        hidden, name = self.int("hidden", outputs), self.activation()
        inner = [name, "logistic", "loggy"][self.int("logistic", 0)]
        first, own, last = (self.product(*s) for s in ((x.shape[1], hidden), (hidden, hidden), (hidden, outputs)))
        shape = (len(self.steps(x)[0]), hidden)
        return self.plain(x, lambda v: first(v, name), lambda v: own(v, inner), lambda v: last(v, name), shape)

    def layer_crnn(self, x):
        hidden, outputs = self.int("hidden_filters", 1), self.int("output_filters", 1)
        convs = [self.conv(*s, 3, 1) for s in ((x.shape[1], hidden), (hidden, hidden), (hidden, outputs))]
        runs = [lambda v, c=c: c(v, (1, 1), 1, 1, self.activation()) for c in convs]
        return self.plain(x, *runs, (len(self.steps(x)[0]), hidden, *x.shape[2:]))

    def layer_gru(self, x):
        outputs = self.int("output", 1)
        wz, wr, wh = (self.product(x.shape[1], outputs) for _ in range(3))
        uz, ur, uh = (self.product(outputs, outputs) for _ in range(3))
        state, out = np.zeros((len(self.steps(x)[0]), outputs)), []
        for part in self.steps(x):
            z, r = activate(uz(state) + wz(part), "logistic"), activate(ur(state) + wr(part), "logistic")
            h = activate(uh(state * r) + wh(part), "tanh" if self.int("tanh", 0) else "logistic")
            state = z * state + (1 - z) * h
            out.append(state)
        self.states.append(state)
        return np.concatenate(out)

    def layer_lstm(self, x):
        outputs = self.int("output", 1)
        wi, wf, wo, wg = (self.product(x.shape[1], outputs) for _ in range(4))
        ui, uf, uo, ug = (self.product(outputs, outputs) for _ in range(4))
        cell = hidden = np.zeros((len(self.steps(x)[0]), outputs))
        out = []
        for part in self.steps(x):
            i, f, o = (activate(w(part) + u(hidden), "logistic") for w, u in ((wi, ui), (wf, uf), (wo, uo)))
            cell = f * cell + i * np.tanh(wg(part) + ug(hidden))
            hidden = o * np.tanh(cell)
            out.append(hidden)
        self.states += [cell, hidden]
        return np.concatenate(out)

    def layer_conv_lstm(self, x):
        outputs, size, name = self.int("output", 1), self.int("size", 3), self.activation("linear")

        def convs(count, channels):
            made = [self.conv(channels, outputs, size, self.int("groups", 1)) for _ in range(count)]
            return [lambda v, c=c: c(v, (1, 1), size // 2, 1, name) for c in made]

        look = convs(3, outputs) if self.int("peephole", 0) else [np.zeros_like] * 3
        (wf, wi, wg, wo), (uf, ui, ug, uo) = convs(4, outputs), convs(4, x.shape[1])
        bound = self.int("state_constrain", 32 * int(self.options.get("time_steps", 1)))
        cell = hidden = np.zeros((len(self.steps(x)[0]), outputs, *x.shape[2:]))
        out = []
        for part in self.steps(x):
            f = activate(wf(hidden) + uf(part) + look[0](cell), "logistic")
            i = activate(wi(hidden) + ui(part) + look[1](cell), "logistic")
            cell = f * cell + i * np.tanh(wg(hidden) + ug(part))
            o = activate(wo(hidden) + uo(part) + look[2](cell), "logistic")
            hidden = o * np.tanh(cell)
            cell = np.clip(cell, -bound, bound)
            out.append(hidden)
        self.states += [cell, hidden]
        return np.concatenate(out)

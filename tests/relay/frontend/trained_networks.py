"""Trained networks as lists of layers, for the writers of older formats: the weights of real files in another format.

``network(name)`` reads a file with the importer of its own format and names its layers in the words that the writers
know (``Layer.kind``). All images are NCHW.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import squeezenet
from model_files import models, recorded

import tvm
from tvm import relay
from tvm.relay import transform


class Layer(NamedTuple):
    """A layer: what it does, the numbers of the layers it reads, the shape of its result, and what it is given."""

    kind: str
    inputs: tuple[int, ...]
    shape: tuple[int, ...]
    args: dict[str, Any]


class Network(NamedTuple):
    """Layers in the order they run, the first of which is the input, and the numbers of those that are outputs."""

    layers: list[Layer]
    outputs: list[int]


_PAIRS = {"add": "add", "multiply": "mul", "subtract": "sub", "divide": "div"}
_PLAIN = {"nn.relu": "relu", "sigmoid": "sigmoid", "exp": "exp", "tanh": "tanh"}


class _Reader:
    """Turns the calls of a function into layers."""

    def __init__(self, module):
        self.layers: list[Layer] = []
        self.at: dict = {}
        function = module["main"]
        self.readers: dict = {}
        relay.analysis.post_order_visit(function.body, self.count)
        (data,) = function.params
        self.at[data] = self.add("input", (), tuple(int(d) for d in data.checked_type.shape))
        body = function.body
        fields = list(body.fields) if isinstance(body, relay.Tuple) else [body]
        relay.analysis.post_order_visit(function.body, self.visit)
        self.outputs = [self.at[f] for f in fields if f in self.at]

    def add(self, kind: str, inputs, shape, **args) -> int:
        self.layers.append(Layer(kind, tuple(inputs), tuple(shape), args))
        return len(self.layers) - 1

    def count(self, e) -> None:
        """Count who reads each value: a layer that has one reader may take over what that one does."""
        inner = (
            e.args
            if isinstance(e, relay.Call)
            else e.fields
            if isinstance(e, relay.Tuple)
            else [e.tuple_value]
            if isinstance(e, relay.TupleGetItem)
            else []
        )
        for value in inner:
            self.readers[value] = self.readers.get(value, 0) + 1

    def visit(self, e) -> None:
        if isinstance(e, relay.TupleGetItem) and e.index == 0 and e.tuple_value in self.at:
            self.at[e] = self.at[e.tuple_value]
        if not isinstance(e, relay.Call):
            return
        kind = e.checked_type
        kind = kind.fields[0] if hasattr(kind, "fields") else kind
        shape = tuple(int(d) for d in kind.shape)
        operands = [f for a in e.args for f in (a.fields if isinstance(a, relay.Tuple) else [a])]
        constants = [a.data.numpy() for a in operands if isinstance(a, relay.Constant)]
        inputs = [self.at[a] for a in operands if not isinstance(a, relay.Constant)]
        name = e.op.name
        self.fresh = all(self.readers[a] == 1 for a in operands if not isinstance(a, relay.Constant))
        if name in _PLAIN:
            self.at[e] = self.add(_PLAIN[name], inputs, shape)
        elif name in _PAIRS:
            flipped = isinstance(operands[0], relay.Constant)
            self.at[e] = self.pair(_PAIRS[name], inputs, constants, flipped, shape)
        else:
            self.at[e] = getattr(self, name.replace(".", "_"), self.other)(e.attrs, inputs, constants, shape)

    def other(self, attrs, inputs, constants, shape) -> int:
        """What writers do not know, which a cut leaves out."""
        return self.add("other", inputs, shape)

    # -- sums and products ----------------------------------------------------------------------------------------

    def pair(self, kind, inputs, constants, flipped, shape) -> int:
        if len(inputs) == 2:
            return self.add(kind, inputs, shape)
        value = constants[0]
        if flipped and kind in ("sub", "div"):
            return self.other(None, inputs, constants, shape)
        if kind == "sub":
            kind, value = "add", -value
        if kind == "div":
            kind, value = "mul", 1 / value
        return self.affine(inputs[0], kind, value, shape)

    def affine(self, x: int, kind: str, value: np.ndarray, shape) -> int:
        """One number or one of each channel, multiplied or added; a bias goes into the layer before."""
        last = self.layers[x]
        numbers = value.reshape(-1)
        channel = value.size > 1
        if channel and not (value.size == shape[1] and (len(shape) == 2 or shape[1] == value.shape[-3:][0])):
            return self.other(None, [x], [value], shape)
        if kind == "add" and channel and self.fresh and last.kind in ("conv", "deconv", "dense"):
            bias = last.args["bias"]
            last.args["bias"] = numbers if bias is None else bias + numbers
            return x
        if self.fresh and last.kind == "affine":
            mul, add = last.args["mul"], last.args["add"]
            last.args.update(mul=mul * numbers, add=add * numbers) if kind == "mul" else last.args.update(
                add=add + numbers
            )
            return x
        one, none = np.ones(1, "float32"), np.zeros(1, "float32")
        return self.add("affine", [x], shape, **{"mul": one, "add": none, kind: numbers})

    def nn_bias_add(self, attrs, inputs, constants, shape):
        return self.affine(inputs[0], "add", constants[0].reshape(-1, *[1] * (len(shape) - 2)), shape)

    def nn_batch_norm(self, attrs, inputs, constants, shape):
        gamma, beta, mean, var = constants
        return self.add("norm", inputs, shape, gamma=gamma, beta=beta, mean=mean, var=var, eps=float(attrs["epsilon"]))

    # -- windows --------------------------------------------------------------------------------------------------

    def window(self, x: int, pads: list[int], shape, window, stride):
        """The input of a window without paddings and cuts before it that the window can do itself."""
        while self.layers[x].kind in ("pad", "slice"):
            before = self.layers[x]
            if before.kind == "pad":
                pads = [p + q for p, q in zip(pads, before.args["pads"])]
            else:
                sizes = self.layers[before.inputs[0]].shape[2:]
                if (
                    before.args["begin"]
                    or before.args["axis"] < 2
                    or any(
                        (n + p + q - w) // s + 1 != o
                        for n, p, q, w, s, o in zip(sizes, pads[:2], pads[2:], window, stride, shape[2:])
                    )
                ):
                    break
            x = before.inputs[0]
        return x, pads

    def nn_conv2d(self, attrs, inputs, constants, shape):
        stride, dilation, pads = ([int(s) for s in attrs[k]] for k in ("strides", "dilation", "padding"))
        reach = [(k - 1) * d + 1 for k, d in zip(constants[0].shape[2:], dilation)]
        x, pads = self.window(inputs[0], pads, shape, reach, stride)
        return self.add(
            "conv",
            [x],
            shape,
            weight=constants[0],
            bias=None,
            stride=stride,
            pads=pads,
            dilation=dilation,
            groups=int(attrs["groups"]),
        )

    def nn_conv2d_transpose(self, attrs, inputs, constants, shape):
        return self.add(
            "deconv",
            inputs,
            shape,
            weight=constants[0],
            bias=None,
            stride=[int(s) for s in attrs["strides"]],
            pads=[int(p) for p in attrs["padding"]],
        )

    def pool(self, kind, attrs, inputs, shape):
        size, stride = ([int(s) for s in attrs[k]] for k in ("pool_size", "strides"))
        x, pads = self.window(inputs[0], [int(p) for p in attrs["padding"]], shape, size, stride)
        return self.add(kind, [x], shape, size=size, stride=stride, pads=pads, ceil=bool(attrs["ceil_mode"]))

    def nn_max_pool2d(self, attrs, inputs, constants, shape):
        return self.pool("max", attrs, inputs, shape)

    def nn_avg_pool2d(self, attrs, inputs, constants, shape):
        if shape[2:] == (1, 1) and not any(int(p) for p in attrs["padding"]):
            return self.add("mean", inputs, shape)
        return self.pool("avg", attrs, inputs, shape)

    def nn_global_avg_pool2d(self, attrs, inputs, constants, shape):
        return self.add("mean", inputs, shape)

    def nn_pad(self, attrs, inputs, constants, shape):
        (_, _, (top, bottom), (left, right)) = [[int(n) for n in row] for row in attrs["pad_width"]]
        return self.add("pad", inputs, shape, pads=[top, left, bottom, right])

    # -- shapes ---------------------------------------------------------------------------------------------------

    def nn_dense(self, attrs, inputs, constants, shape):
        return self.add("dense", inputs, shape, weight=constants[0], bias=None)

    def nn_softmax(self, attrs, inputs, constants, shape):
        return self.add("softmax", inputs, shape, axis=int(attrs["axis"]) % len(shape))

    def nn_leaky_relu(self, attrs, inputs, constants, shape):
        return self.add("leaky", inputs, shape, alpha=float(attrs["alpha"]))

    def clip(self, attrs, inputs, constants, shape):
        return self.add("clip", inputs, shape, low=float(attrs["a_min"]), high=float(attrs["a_max"]))

    def reshape(self, attrs, inputs, constants, shape):
        same = self.layers[inputs[0]].shape == shape
        return inputs[0] if same else self.add("reshape", inputs, shape)

    nn_batch_flatten = squeeze = expand_dims = reshape

    def transpose(self, attrs, inputs, constants, shape):
        axes = [int(a) for a in attrs["axes"]]
        if self.layers[inputs[0]].kind == "input" and axes == [0, 3, 1, 2]:
            self.layers[inputs[0]] = Layer("input", (), shape, {})
            return inputs[0]
        if sum(d > 1 for d in shape) < 2:
            return self.reshape(attrs, inputs, constants, shape)
        return self.add("transpose", inputs, shape, axes=axes)

    def layout_transform(self, attrs, inputs, constants, shape):
        axes = [str(attrs["src_layout"]).index(c) for c in str(attrs["dst_layout"])]
        return self.transpose({"axes": axes}, inputs, constants, shape)

    def concatenate(self, attrs, inputs, constants, shape):
        return self.add("concat", inputs, shape, axis=int(attrs["axis"]) % len(shape))

    def strided_slice(self, attrs, inputs, constants, shape):
        (axis,), (begin,), (end,) = (attrs[k] for k in ("axes", "begin", "end"))
        return self.add("slice", inputs, shape, axis=int(axis), begin=int(begin), end=int(end))

    def nn_upsampling(self, attrs, inputs, constants, shape):
        return self.add("upsample", inputs, shape, factor=int(attrs["scale_h"]))

    def take(self, attrs, inputs, constants, shape):
        """Places that stand for a resizing to the nearest: the second axis completes the first one."""
        before, axis = self.layers[inputs[0]], int(attrs["axis"])
        factor = shape[axis] // before.shape[axis]
        if not np.array_equal(constants[0].reshape(-1), np.arange(before.shape[axis]).repeat(factor)):
            return self.other(attrs, inputs, constants, shape)
        if before.kind == "upsample" and before.args.get("axis", axis) != axis and before.args["factor"] == factor:
            self.layers[inputs[0]] = Layer("upsample", before.inputs, shape, {"factor": factor})
            return inputs[0]
        return self.add("upsample", inputs, shape, factor=factor, axis=axis)


def _needed(network: Network) -> Network:
    """The layers that outputs need; paddings and cuts that windows took over go."""
    kept, work = set(), list(network.outputs)
    while work:
        i = work.pop()
        if i not in kept:
            kept.add(i)
            work += network.layers[i].inputs
    order = sorted(kept | {0})
    place = {old: new for new, old in enumerate(order)}
    layers = [network.layers[i] for i in order]
    return Network([r._replace(inputs=tuple(place[i] for i in r.inputs)) for r in layers],
                   [place[i] for i in network.outputs])  # fmt: skip


def reaches(network: Network, i: int, kind: str) -> bool:
    """Whether a layer needs one of a kind."""
    return network.layers[i].kind == kind or any(reaches(network, k, kind) for k in network.layers[i].inputs)


def layers_of(module, params, cut: Callable | None = None) -> Network:
    """The layers of a module; ``cut`` chooses other outputs than its own."""
    if params:
        module["main"] = relay.build_module.bind_params_by_name(module["main"], params)
    passes = [transform.InferType(), transform.FoldConstant(), transform.InferType()]
    desired = {"nn.conv2d": ["NCHW", "OIHW"], "nn.avg_pool2d": ["NCHW"], "nn.max_pool2d": ["NCHW"]}
    passes += [transform.ConvertLayout(desired), transform.FoldConstant(), transform.InferType()]
    with tvm.transform.PassContext(opt_level=3):
        reader = _Reader(tvm.transform.Sequential(passes)(module))
    network = Network(reader.layers, reader.outputs)
    return _needed(network if cut is None else Network(network.layers, cut(network)))


def symmetric(layer: Layer) -> tuple[np.ndarray, list[int]]:
    """The weights of a convolution with as much padding behind as before, for formats that know no other: the kernel
    has zeros where it reaches further."""
    top, left, bottom, right = layer.args["pads"]
    high, wide = max(top, bottom), max(left, right)
    more = ((0, 0), (0, 0), (high - top, high - bottom), (wide - left, wide - right))
    return np.pad(layer.args["weight"], more), [high, wide]


class Writer:
    """Writes a network layer by layer: a subclass has a method for each kind. A method is given the layer, the values
    it reads and what ``Layer.args`` holds, and returns the value it makes, in the words of its format."""

    def __init__(self, network: Network):
        self.network, self.values = network, []
        self.shapes = [layer.shape for layer in network.layers]
        for layer in network.layers:
            inputs = [self.values[i] for i in layer.inputs]
            self.values.append(getattr(self, layer.kind)(layer, *inputs, **layer.args))
        self.outputs = [self.values[i] for i in network.outputs]

    def input_shape(self, layer: Layer) -> tuple[int, ...]:
        """The shape of what a layer reads."""
        return self.shapes[layer.inputs[0]]


# -- the networks -----------------------------------------------------------------------------------------------------

CIFAR = "airplane automobile bird cat deer dog frog horse ship truck".split()
PHOTOS = {"chelsea": ("Egyptian cat", "cat"), "coffee": ("espresso", "cup")}


class Example(NamedTuple):
    """An input, what the framework of the original makes of it, and the answer that a person gives, if any."""

    data: np.ndarray
    wanted: list[np.ndarray] | None
    answer: str = ""


class Source(NamedTuple):
    """A real file: how it is read, what is fed to it, and what its outputs say in words."""

    file: str
    read: Callable[[Path], Network]
    examples: Callable[[Path], list[Example]]
    says: Callable[[list[np.ndarray]], str]


def photo(name: str, width: int, height: int) -> np.ndarray:
    """A photo as pixels 0 to 255, height x width x RGB, its middle where the form differs."""
    from PIL import Image

    folder = models()
    assert folder is not None
    with Image.open(folder / "imagenet" / f"{name}.png") as found:
        image = found.convert("RGB")
    w, h = image.size
    scale = min(w / width, h / height)
    own = (round(width * scale), round(height * scale))
    left, top = (w - own[0]) // 2, (h - own[1]) // 2
    box = (left, top, left + own[0], top + own[1])
    return np.asarray(image.resize((width, height), Image.Resampling.LANCZOS, box), "float32")


def planes(image: np.ndarray, order: int = 1) -> np.ndarray:
    """Pixels as a batch of one image of planes; ``order`` is -1 for BGR."""
    return np.ascontiguousarray(image[:, :, ::order].transpose(2, 0, 1)[None])


def _onnx(model: Path | bytes, feeds: np.ndarray, outputs=None) -> list[np.ndarray]:
    """What onnxruntime makes of the original file."""
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return list(session.run(outputs, {session.get_inputs()[0].name: feeds}))


def _from_onnx(name: str, shape, cut=None) -> Callable[[Path], Network]:
    def read(path: Path) -> Network:
        from tvm.relay.frontend import from_onnx

        return layers_of(*from_onnx(str(path), {name: shape}), cut)

    return read


def _imagenet(outputs) -> str:
    folder = models()
    assert folder is not None
    labels = json.loads((folder / "imagenet" / "imagenet_1000_labels.json").read_text())
    place = int(outputs[0].reshape(-1).argmax())
    return str(labels[str(place)] if isinstance(labels, dict) else labels[place]).replace("_", " ")


def _mobilenet(path: Path) -> list[Example]:
    out = []
    for name, (label, _) in PHOTOS.items():
        data = (photo(name, 224, 224) / 255 - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225)
        data = planes(data.astype("float32"))
        out.append(Example(data, _onnx(path, data), label))
    return out


def _resnet(path: Path) -> list[Example]:
    out = []
    for name, (label, _) in PHOTOS.items():
        data = planes(photo(name, 224, 224), -1) - np.float32([103.939, 116.779, 123.68])[:, None, None]
        out.append(Example(data, _onnx(path, data.transpose(0, 2, 3, 1)), label))
    return out


def _read_squeezenet(path: Path) -> Network:
    from tvm.relay.frontend import from_onnx

    return layers_of(*from_onnx(squeezenet.model()))


def _squeezenet(path: Path) -> list[Example]:
    out = []
    for name, (label, _) in PHOTOS.items():
        data = planes(photo(name, squeezenet.SIZE, squeezenet.SIZE), -1) - squeezenet.MEAN
        out.append(Example(data, _onnx(squeezenet.model().SerializeToString(), data), label))
    return out


def _cifar(outputs) -> str:
    return CIFAR[int(outputs[0].argmax())]


def _stored(path: Path, name: str, output: str, axes=None) -> Example:
    """The input and the output that lie beside a model."""
    with np.load(f"{path}.npz") as found:
        data = found[name] if axes is None else found[name].transpose(axes)
        data = data if data.ndim == 4 else data[None]
        return Example(np.ascontiguousarray(data), [found[output].reshape(1, -1)])


def _resnet8(path: Path) -> list[Example]:
    given = _stored(path, "in_input_1", "out_Identity", (0, 3, 1, 2))
    return [given, Example(planes(photo("chelsea", 32, 32)), None, "cat")]


def _read_resnet8(path: Path) -> Network:
    from tvm.relay.frontend import from_tflite

    return layers_of(*from_tflite(path.read_bytes()))


def _cmf(path: Path) -> list[Example]:
    given = _stored(path, "in_features", "out_z")
    return [given, Example(planes(photo("chelsea", 32, 32), -1), None, "cat")]


def _resnet20(path: Path) -> list[Example]:
    """What CNTK makes of its input. With pixels as the training read them (BGR, less the mean image of CIFAR-10) this
    file, which CNTK has for its tests, does not name the cat of the photo."""
    return [_stored(path, "in_features", "out_z")]


def _read_cntk(path: Path) -> Network:
    from tvm.relay.frontend import from_cntk

    return layers_of(*from_cntk(path))


def text_image() -> np.ndarray:
    """A line of text, as a camera gives it upright: 48 x 192 pixels."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (192, 48), (235, 230, 220))
    ImageDraw.Draw(image).text((8, 8), "Apache TVM", (30, 30, 40), ImageFont.load_default(30))
    return np.asarray(image, "float32")


def _angle(path: Path) -> list[Example]:
    out = []
    for turns, answer in ((0, "0"), (2, "180")):
        data = planes(np.rot90(text_image(), turns), -1) / 127.5 - 1
        out.append(Example(data.astype("float32"), _onnx(path, data.astype("float32")), answer))
    return out


def _heads(network: Network) -> list[int]:
    """The convolutions that a layer [yolo] reads, in the order of the file."""
    found = [i for i, r in enumerate(network.layers) if r.kind == "conv" and r.shape[1] == 255]
    return sorted(found, key=lambda i: network.layers[i].shape[2])


def _read_yolo(path: Path) -> Network:
    from tvm.relay.frontend import from_darknet

    return layers_of(*from_darknet(path), _heads)


def _yolo(path: Path) -> list[Example]:
    with np.load(path.with_suffix(".npz")) as found:
        given = Example(found["in_data"], [found["out_conv_120"], found["out_conv_129"]])
    from tvm.relay.testing.darknet import load_image

    folder = path.parents[2] / "imagenet"
    seen = {label: load_image(folder / f"{name}.png", 320, 320)[None] for name, (_, label) in PHOTOS.items()}
    return [given, *(Example(data, None, label) for label, data in seen.items())]


def _detected(outputs) -> str:
    """The most probable object of both heads."""
    folder = models()
    assert folder is not None
    names = (folder / "formats" / "darknet" / "coco.names").read_text().splitlines()
    found = []
    for head in outputs:
        rows = 1 / (1 + np.exp(-head.reshape(3, 85, -1).astype("float64")))
        scores = rows[:, 5:] * rows[:, 4:5]
        found.append((scores.max(), names[int(scores.max((0, 2)).argmax())]))
    return max(found)[1]


def _scores_and_places(network: Network) -> list[int]:
    """Before boxes are decoded: the softmax, and the last tensor of four numbers that no constant went into."""
    rows = [i for i, r in enumerate(network.layers) if r.kind == "concat" and r.shape[2:] == (4,)]
    return [next(i for i, r in enumerate(network.layers) if r.kind == "softmax"), rows[0]]


def _faces(path: Path) -> list[Example]:
    """Without a face in the photo: scores and places as onnxruntime computes them."""
    import onnx

    model = onnx.load(str(path))
    softmax, cut = (next(n for n in model.graph.node if n.op_type == kind) for kind in ("Softmax", "Slice"))
    names = [softmax.output[0], cut.input[0]]
    for name in names:
        model.graph.output.append(onnx.ValueInfoProto(name=name))
    data = (planes(photo("chelsea", 320, 240)) - 127) / 128
    return [Example(data, _onnx(model.SerializeToString(), data, names))]


def _text(path: Path) -> list[Example]:
    """Text in the middle of a larger picture."""
    image = np.full((128, 224, 3), 225, "float32")
    image[40:88, 16:208] = text_image()
    data = (planes(image, -1) / 127.5 - 1).astype("float32")
    return [Example(data, _onnx(path, data), "text in the middle")]


def _where_text(outputs) -> str:
    rows, columns = np.nonzero(outputs[0][0, 0] > 0.3)
    inside = len(rows) and rows.min() > 34 and rows.max() < 94 and columns.min() > 12 and columns.max() < 212
    return "text in the middle" if inside else "elsewhere"


SOURCES = {
    "mobilenet_v2": Source("imagenet/mobilenet_v2.onnx", _from_onnx("data", (1, 3, 224, 224)), _mobilenet, _imagenet),
    "resnet50": Source("imagenet/resnet50.onnx", _from_onnx("input_1", (1, 224, 224, 3)), _resnet, _imagenet),
    "squeezenet": Source(str(squeezenet.FILE), _read_squeezenet, _squeezenet, _imagenet),
    "resnet8": Source("formats/mlperf_tiny/pretrainedResnet.tflite", _read_resnet8, _resnet8, _cifar),
    "cifar_convnet": Source("formats/cntk/cifar10.pretrained.cmf", _read_cntk, _cmf, _cifar),
    "resnet20": Source("formats/cntk/ResNet20_CIFAR10_DataAug.dnn", _read_cntk, _resnet20, lambda _: ""),
    "yolo_fastest": Source("formats/darknet/yolo-fastest-1.1.cfg", _read_yolo, _yolo, _detected),
    "ppocr_angle": Source("onnx/ppocr_cls.onnx", _from_onnx("x", (1, 3, 48, 192)), _angle,
                          lambda o: ("0", "180")[int(o[0].argmax())]),
    "ppocr_text": Source("onnx/ppocr_v4_det.onnx", _from_onnx("x", (1, 3, 128, 224)), _text, _where_text),
    "ultraface": Source("onnx/ultraface_rfb320.onnx", _from_onnx("input", (1, 3, 240, 320), _scores_and_places),
                        _faces, lambda _: ""),
}  # fmt: skip


@cache
def network(name: str) -> Network:
    """The layers of a real network."""
    folder = models()
    assert folder is not None
    return SOURCES[name].read(folder / SOURCES[name].file)


@cache
def examples(name: str) -> list[Example]:
    """What is fed to a real network, and what is wanted of it."""
    folder = models()
    assert folder is not None
    return SOURCES[name].examples(folder / SOURCES[name].file)


class Outcome(NamedTuple):
    """How far the outputs are from those of the original's framework, as a part of the largest one, and what the
    network says of the pictures beside what it should."""

    off: float
    says: list[str]
    wanted: list[str]


def _beside(arrays: Path) -> Example:
    """The input and the outputs of a real file, recorded in its own framework."""
    data, wanted = recorded(arrays)
    (given,) = data.values()
    return Example(given, wanted)


def outcome(name: str, module, params, further: Sequence[Example] = ()) -> Outcome:
    """Run an imported module on the examples of the original, and on further ones."""
    from tvm.contrib import graph_executor

    with tvm.transform.PassContext(opt_level=3):
        built = relay.build(module, "llvm", params=params)
    runner = graph_executor.GraphModule(built["default"](tvm.cpu()))
    (data,) = (p.name_hint for p in module["main"].params if p.name_hint not in params)
    off = 0.0
    says: list[str] = []
    answers: list[str] = []
    for example in (*examples(name), *further):
        runner.run(**{data: example.data})
        got = [runner.get_output(i).numpy() for i in range(runner.get_num_outputs())]
        for want in example.wanted or ():
            # Formats have their outputs in orders of their own.
            (value,) = (g for g in got if g.size == want.size)
            off = max(off, float(np.abs(value.reshape(-1) - want.reshape(-1)).max() / np.abs(want).max()))
        if example.answer:
            says.append(SOURCES[name].says(got))
            answers.append(example.answer)
    return Outcome(off, says, answers)


# -- formats ----------------------------------------------------------------------------------------------------------

# The folder of a format's tests, and the function of its writer.
FORMATS = {
    "MXNet": ("mxnet", "imported"),
    "Core ML network": ("coreml", "imported"),
    "Core ML program": ("coreml", "imported_package"),
    "DarkNet": ("darknet", "imported"),
    "Caffe": ("caffe", "imported"),
    "PaddlePaddle": ("paddle", "imported"),
    "Caffe2": ("caffe2", "imported"),
    "CNTK": ("cntk", "imported"),
}
# Networks that a format cannot express: DarkNet has one output, and none of permuted axes. CNTK has real files of two.
WITHOUT = {
    "DarkNet": {"yolo_fastest", "ultraface", "ppocr_text"},
    "CNTK": {"yolo_fastest", "ultraface", "ppocr_text", "ppocr_angle", "cifar_convnet", "resnet20"},
}
# How far outputs may be off, as a part of the largest one. Weights of programs have 16 bits: with weights rounded so,
# onnxruntime is 9e-2 off at edges of text, too.
CLOSE = {"Core ML program": 1e-1}


def written(form: str, name: str, folder: Path):
    """The module and the parameters of a trained network that went through files of a format."""
    package, function = FORMATS[form]
    return getattr(_module(package, f"{package}_trained"), function)(network(name), folder)


def _yolo_boxes(path: Path) -> Outcome:
    """DarkNet's own file, with boxes as OpenCV gives them: it writes 0 for products at or below 0.2."""
    from tvm.relay.frontend import from_darknet

    module, _ = from_darknet(path, boxes=True)
    run = relay.create_executor("graph", mod=module, target="llvm").evaluate()
    names = (path.parent / "coco.names").read_text().splitlines()
    off = 0.0
    says: list[str] = []
    wanted: list[str] = []
    for example in _yolo(path):
        rows = [part.numpy()[0] for part in run(example.data)]
        if example.answer:
            best = max(rows, key=lambda r: r[:, 5:].max())
            says.append(names[int(best[:, 5:].max(0).argmax())])
            wanted.append(example.answer)
            continue
        with np.load(path.with_suffix(".npz")) as found:
            for got, want in zip(rows, (found["out_yolo_121"], found["out_yolo_130"])):
                got[:, 5:] = np.where(got[:, 5:] <= 0.2, 0, got[:, 5:])
                off = max(off, float(np.abs(got - want).max() / np.abs(want).max()))
    return Outcome(off, says, wanted)


def _as_it_is(form: str, name: str) -> Outcome:
    """A real file of a format."""
    from tvm.relay import frontend

    folder = models()
    assert folder is not None
    formats = folder / "formats"
    if form == "DarkNet":
        return _yolo_boxes(formats / "darknet" / "yolo-fastest-1.1.cfg")
    if form == "CNTK":
        return outcome(name, *frontend.from_cntk(folder / SOURCES[name].file))
    if form == "Caffe":
        base = formats / "caffe" / "ultraface" / "RFB-320"
        found = frontend.from_caffe(f"{base}.caffemodel", f"{base}.prototxt")
        return outcome(name, *found, [_beside(base.with_suffix(".npz"))])
    model = {"ppocr_angle": "ch_ppocr_mobile_v2_cls_infer", "ppocr_text": "ch_PP-OCRv4_det_infer"}[name]
    shape = {"x": examples(name)[0].data.shape}
    folder = formats / "paddle" / model
    return outcome(name, *frontend.from_paddle(folder, shape), [_beside(folder / "inference.npz")])


# Real files of the formats themselves whose networks are among the sources.
NATIVE = [("DarkNet", "yolo_fastest"), ("CNTK", "cifar_convnet"), ("CNTK", "resnet20"), ("Caffe", "ultraface"),
          ("PaddlePaddle", "ppocr_angle"), ("PaddlePaddle", "ppocr_text")]  # fmt: skip


# Networks whose trained weights are nowhere free: weights are drawn, and the outputs of another runtime are stored.
DRAWN = [("DarkNet", "yolov3-tiny"), ("DarkNet", "yolov4-tiny")]


def _module(package: str, name: str):
    """A module of the tests of a format."""
    place = str(Path(__file__).resolve().parent / package)
    if place not in sys.path:
        sys.path.insert(0, place)
    return importlib.import_module(name)


def _drawn(name: str) -> Outcome:
    """A network of DarkNet with drawn weights, beside OpenCV."""
    from opencv_comparison import above, imported

    text, weights, data = _module("darknet", "darknet_networks").drawn(name)
    with np.load(Path(__file__).parent / "darknet" / "opencv.npz") as found:
        wanted = [found[key] for key in sorted(found) if key.startswith(f"{name}|")]
    run = relay.create_executor("graph", mod=imported("darknet", text, weights), target="llvm").evaluate()
    got = [above(part.numpy()[0], want) for part, want in zip(run(data), wanted)]
    off = max(float(np.abs(g.reshape(-1) - w.reshape(-1)).max() / np.abs(w).max()) for g, w in zip(got, wanted))
    return Outcome(off, [], [])


def tried(form: str, name: str, native: bool = False) -> Outcome:
    """How a network of a format fares, written for it, as it is, or with drawn weights."""
    if (form, name) in DRAWN:
        return _drawn(name)
    if native:
        return _as_it_is(form, name)
    with tempfile.TemporaryDirectory() as folder:
        return outcome(name, *written(form, name, Path(folder)))

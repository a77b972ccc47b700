"""Whole networks with drawn weights, as Core ML files and in NumPy."""

from __future__ import annotations

import numpy as np
import references as ref
from coreml_writer import NetworkWriter, ProgramWriter, feature, message

RGB, BGR, GRAY = 20, 30, 10
BIASES = (-0.9, -1.0, -1.1)
LABELS = ["cat", "dog", "boat", "lamp", "tree"]


def draw(rng, *shape: int) -> np.ndarray:
    return (rng.normal(size=shape) / np.sqrt(max(np.prod(shape[1:]), 1))).astype("float32")


class MobileNet:
    """Depthwise and pointwise convolutions with normalization, a mean over the image, and probabilities."""

    def __init__(self, rng, size: int = 16):
        self.size = size
        self.layers = []
        channels = 3
        for out, stride, groups in ((8, 2, 1), (8, 1, 8), (12, 1, 1), (12, 2, 12), (16, 1, 1)):
            kernel = 3 if groups > 1 or channels == 3 else 1
            stats = [draw(rng, out) for _ in range(3)] + [rng.uniform(0.5, 2, out).astype("float32")]
            self.layers.append((draw(rng, out, channels // groups, kernel, kernel) * 2, stride, groups, stats))
            channels = out
        self.dense, self.bias = draw(rng, len(LABELS), channels) * 4, draw(rng, len(LABELS))

    def numpy(self, x: np.ndarray) -> np.ndarray:
        for w, stride, groups, (beta, gamma, mean, var) in self.layers:
            pad = [0, 0] if w.shape[-1] == 1 else [0, 0] if stride == 2 else [1, 1]
            after = [1, 1] if w.shape[-1] == 3 else [0, 0]
            x = ref.conv(x, w, None, [stride] * 2, pad, after, None, groups)
            beta, gamma, mean, var = (v[:, None, None] for v in (beta, gamma, mean, var))
            x = np.clip(gamma * (x - mean) / np.sqrt(var + 1e-3) + beta, 0, 6)
        return ref.softmax(x.mean((2, 3)) @ self.dense.T + self.bias, 1)

    def network(self, order: int = RGB) -> bytes:
        """A classifier of images, of specification 3, with its preprocessing."""
        writer = NetworkWriter(False, "neuralNetworkClassifier")
        at = writer.input("image", image=(self.size, self.size, order))
        scaler = dict(zip(("redBias", "greenBias", "blueBias"), BIASES), channelScale=1 / 127.5)
        writer.network.preprocessing.append(message("Preprocessing", featureName="image", scaler=scaler))
        for w, stride, groups, (beta, gamma, mean, var) in self.layers:
            out, depth, kernel, _ = w.shape
            at = writer.layer(
                "convolution",
                at,
                outputChannels=out,
                kernelChannels=depth,
                nGroups=groups,
                kernelSize=[kernel] * 2,
                stride=[stride] * 2,
                same={},
                weights=w,
            )
            at = writer.layer(
                "batchnorm", at, channels=out, beta=beta, gamma=gamma, mean=mean, variance=var, epsilon=1e-3
            )
            at = writer.layer("activation", at, ReLU={})
            at = writer.layer(
                "unary", writer.layer("unary", at, type=7, alpha=-6.0, scale=-1.0), type=7, scale=-1.0, alpha=0.0
            )
        at = writer.layer("pooling", at, type=1, globalPooling=True)
        at = writer.layer(
            "innerProduct",
            at,
            inputChannels=self.dense.shape[1],
            outputChannels=len(LABELS),
            weights=self.dense,
            hasBias=True,
            bias=self.bias,
        )
        writer.layer("softmax", at, name="probabilities")
        self.describe(writer.model)
        return writer.bytes()

    @staticmethod
    def describe(model) -> None:
        """The results of a classifier: a label, and the probability of each."""
        model.description.output.append(message("FeatureDescription", name="label", type={"stringType": {}}))
        model.description.output.append(message("FeatureDescription", name="scores", type={"dictionaryType": {}}))
        model.description.predictedFeatureName = "label"
        model.description.predictedProbabilitiesName = "scores"

    def program(self) -> ProgramWriter:
        """A classifier of images as an ML program in float16, its weights in a file."""
        writer = ProgramWriter()
        at = writer.input("image", (1, 3, self.size, self.size), image=(self.size, self.size, RGB))
        biases = np.array(BIASES, "float32").reshape(1, 3, 1, 1)
        at = writer.op("add", x=writer.op("mul", x=at, y=1 / 127.5), y=biases)
        at = writer.op("cast", x=at, dtype="fp16")
        for w, stride, groups, stats in self.layers:
            half = w.astype("float16")
            at = writer.op(
                "conv",
                x=at,
                weight=writer.blob(half.tobytes(), "float16", half.shape),
                groups=groups,
                strides=[stride] * 2,
                pad_type="same",
            )
            names = ("beta", "gamma", "mean", "variance")
            given = {n: writer.blob(v.astype("float16").tobytes(), "float16", v.shape) for n, v in zip(names, stats)}
            at = writer.op("relu6", x=writer.op("batch_norm", x=at, epsilon=np.float16(1e-3), **given))
        at = writer.op("reduce_mean", x=at, axes=[2, 3])
        dense = writer.blob(self.dense.astype("float16").tobytes(), "float16", self.dense.shape)
        at = writer.op("linear", x=at, weight=dense, bias=self.bias.astype("float16"))
        at = writer.op("cast", x=writer.op("softmax", x=at, axis=-1), dtype="fp32")
        made = writer.op("classify", outputs=2, probabilities=at, classes=LABELS)
        writer.last.outputs[0].name, writer.last.outputs[1].name = "label", "scores"
        writer.block.outputs.extend(["label", "scores"])
        assert len(made) == 2
        self.describe(writer.model)
        return writer


def pixels(rng, size: int) -> np.ndarray:
    return rng.integers(0, 256, (1, 3, size, size)).astype("float32")


def scaled(image: np.ndarray, order: int = RGB) -> np.ndarray:
    """What the preprocessing makes of an image."""
    biases = np.array(BIASES if order == RGB else BIASES[::-1], "float32")
    return image / np.float32(127.5) + biases[:, None, None]


def unet(rng) -> tuple[bytes, dict, list]:
    """Down, up and a shortcut, of specification 3."""
    w = [draw(rng, 4, 2, 3, 3), draw(rng, 6, 4, 3, 3), draw(rng, 6, 3, 2, 2), draw(rng, 2, 7, 1, 1)]
    x = rng.normal(size=(1, 2, 8, 12)).astype("float32")
    writer = NetworkWriter(False)
    at = writer.input("x", (2, 8, 12))
    wide = writer.layer("convolution", at, outputChannels=4, kernelChannels=2, same={}, weights=w[0])
    wide = writer.layer("activation", wide, leakyReLU={"alpha": 0.1})
    low = writer.layer("pooling", wide, kernelSize=[2, 2], stride=[2, 2], valid={})
    low = writer.layer("convolution", low, outputChannels=6, kernelChannels=4, same={}, weights=w[1])
    up = writer.layer(
        "convolution",
        low,
        outputChannels=3,
        kernelChannels=6,
        kernelSize=[2, 2],
        stride=[2, 2],
        isDeconvolution=True,
        valid={},
        weights=w[2],
    )
    both = writer.layer("concat", [wide, up])
    out = writer.layer(
        "convolution", both, outputChannels=2, kernelChannels=7, kernelSize=[1, 1], valid={}, weights=w[3]
    )
    out = writer.output(writer.layer("activation", out, sigmoid={}), (2, 8, 12))
    wide = ref.conv(x, w[0], None, None, [1, 1], [1, 1])
    wide = np.where(wide < 0, 0.1 * wide, wide)
    low = ref.conv(ref.pool(wide, "max", [2, 2], [2, 2]), w[1], None, None, [1, 1], [1, 1])
    up = ref.conv_transpose(low, w[2], None, [2, 2])
    return writer.bytes(), {"x": x}, [ref.sigmoid(ref.conv(np.concatenate([wide, up], 1), w[3]))]


def text_classifier(rng) -> tuple[bytes, dict, list]:
    """Words of a sequence, a recurrent layer and probabilities; its states are optional inputs."""
    table, w, r, b = draw(rng, 6, 20) * 4, draw(rng, 20, 6), draw(rng, 20, 5), draw(rng, 20)
    dense = draw(rng, 3, 5) * 3
    names = ("inputGate", "forgetGate", "outputGate", "blockInput")
    weights = {
        f"{n}{kind}": v
        for kind, whole in (("WeightMatrix", w), ("RecursionMatrix", r), ("BiasVector", b))
        for n, v in zip(names, np.split(whole, 4))
    }
    writer = NetworkWriter(False)
    words = writer.input("words", (1,))
    states = [writer.input(n, (5,), isOptional=True) for n in ("h", "c")]
    at = writer.layer("embedding", words, inputDim=20, outputChannels=6, weights=table)
    acts = [{"sigmoid": {}}, {"tanh": {}}, {"tanh": {}}]
    at, *_ = writer.layer(
        "uniDirectionalLSTM",
        [at, *states],
        3,
        inputVectorSize=6,
        outputVectorSize=5,
        activations=acts,
        params={"hasBiasVectors": True},
        weightParams=weights,
    )
    at = writer.layer("innerProduct", at, inputChannels=5, outputChannels=3, weights=dense)
    writer.output(writer.layer("softmax", at), (3,))
    spoken = np.array([3, 17, 0, 9], "float32").reshape(4, 1, 1, 1, 1)
    rows = table.T[[3, 17, 0, 9]][:, None]
    _, last, _ = ref.lstm(rows, np.zeros((1, 5)), np.zeros((1, 5)), w, r, b)
    return writer.bytes(), {"words": spoken}, [ref.softmax(last @ dense.T, 1)]


def transformer(rng) -> tuple[bytes, dict, list]:
    """A block of attention with two heads, as an ML program."""
    x = rng.normal(size=(1, 5, 8)).astype("float32")
    w = [draw(rng, 8, 8) for _ in range(4)] + [draw(rng, 16, 8), draw(rng, 8, 16)]
    gamma, beta = rng.uniform(0.5, 1.5, 8).astype("float32"), draw(rng, 8)
    writer = ProgramWriter()
    at = writer.input("x", (1, 5, 8))

    def norm(v):
        return writer.op("layer_norm", x=v, axes=[-1], gamma=gamma, beta=beta, epsilon=1e-5)

    def heads(v, weight):
        v = writer.op("reshape", x=writer.op("linear", x=v, weight=weight), shape=[1, 5, 2, 4])
        return writer.op("transpose", x=v, perm=[0, 2, 1, 3])

    inner = norm(at)
    q, k, v = (heads(inner, w[i]) for i in range(3))
    scores = writer.op("mul", x=writer.op("matmul", x=q, y=k, transpose_y=True), y=0.5)
    mixed = writer.op("matmul", x=writer.op("softmax", x=scores, axis=-1), y=v)
    mixed = writer.op("reshape", x=writer.op("transpose", x=mixed, perm=[0, 2, 1, 3]), shape=[1, 5, 8])
    at = writer.op("add", x=at, y=writer.op("linear", x=mixed, weight=w[3]))
    grown = writer.op("gelu", x=writer.op("linear", x=norm(at), weight=w[4]), mode="EXACT")
    writer.output(writer.op("add", x=at, y=writer.op("linear", x=grown, weight=w[5])))

    def plain(v):
        return ref.normal(v, (-1,), 1e-5) * gamma + beta

    q, k, v = (np.moveaxis((plain(x) @ w[i].T).reshape(1, 5, 2, 4), 2, 1) for i in range(3))
    mixed = ref.softmax(q @ np.swapaxes(k, -1, -2) / 2, -1) @ v
    y = x + np.moveaxis(mixed, 1, 2).reshape(1, 5, 8) @ w[3].T
    grown = plain(y) @ w[4].T
    grown = 0.5 * grown * (1 + ref.erf(grown / np.sqrt(2)))
    return writer.bytes(), {"x": x}, [y + grown @ w[5].T]


def pipeline(rng) -> tuple[bytes, dict, list]:
    """Two networks one after the other, the first with a mean image that is subtracted."""
    mean, w, dense = rng.uniform(0, 255, (1, 6, 5)), draw(rng, 4, 1, 3, 3), draw(rng, 3, 4)
    first = NetworkWriter(False)
    at = first.input("image", image=(6, 5, GRAY))
    first.network.preprocessing.append(message("Preprocessing", meanImage={"meanImage": mean.reshape(-1).tolist()}))
    at = first.layer("convolution", at, outputChannels=4, kernelChannels=1, valid={}, weights=w, name="maps")
    first.output(at, (4, 4, 3))
    second = NetworkWriter(False, "neuralNetworkRegressor")
    second.input(at, (4, 4, 3))
    out = second.layer(
        "innerProduct",
        second.layer("pooling", at, type=0, globalPooling=True),
        inputChannels=4,
        outputChannels=3,
        weights=dense,
    )
    second.output(out, (3,))
    whole = message(
        "Model",
        specificationVersion=3,
        pipelineRegressor={"pipeline": {"models": [first.model, second.model], "names": ["a", "b"]}},
    )
    whole.description.input.append(feature("image", image=(6, 5, GRAY)))
    whole.description.output.append(feature(out, (3,)))
    image = rng.integers(0, 256, (1, 1, 6, 5)).astype("float32")
    maps = ref.conv(image - mean.astype("float32"), w)
    return whole.SerializeToString(), {"image": image}, [maps.max((2, 3)) @ dense.T]

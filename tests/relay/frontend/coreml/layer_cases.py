"""Cases of layers of neural networks."""

from __future__ import annotations

import math

import numpy as np
import references as ref
from cases import Group
from coreml_writer import message

RNG = np.random.default_rng(81)


def data(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return RNG.uniform(low, high, shape).astype("float32")


def edges(*amounts: int) -> dict:
    """Amounts before and after height and width."""
    return {"borderAmounts": [{"startEdgeSize": a, "endEdgeSize": b} for a, b in zip(amounts[0::2], amounts[1::2])]}


# -- specification 1 to 3 ---------------------------------------------------------------------------------------------

g = Group("convolutions", "old")
x, w, bias = data(2, 4, 7, 6), data(6, 2, 3, 2), data(6)
g.add(
    "convolution",
    ref.conv(x, w, bias, [2, 1], [1, 0], [0, 2], [1, 2], 2),
    x,
    outputChannels=6,
    kernelChannels=2,
    nGroups=2,
    kernelSize=[3, 2],
    stride=[2, 1],
    dilationFactor=[1, 2],
    valid={"paddingAmounts": edges(1, 0, 0, 2)},
    hasBias=True,
    weights=w,
    bias=bias,
    tolerance=1e-4,
)
g.add(
    "convolution/same",
    ref.conv(x, w, None, [2, 2], [1, 0], [1, 0], None, 2),
    x,
    outputChannels=6,
    kernelChannels=2,
    nGroups=2,
    kernelSize=[3, 2],
    stride=[2, 2],
    same={},
    weights=w,
    tolerance=1e-4,
)
g.add(
    "convolution/same, heavy in front",
    ref.conv(x, w, None, [1, 1], [1, 1], [1, 0], None, 2),
    x,
    outputChannels=6,
    kernelChannels=2,
    nGroups=2,
    kernelSize=[3, 2],
    stride=[1, 1],
    same={"asymmetryMode": 1},
    weights=w,
    tolerance=1e-4,
)
wt = data(4, 3, 3, 2)
g.add(
    "convolution/deconvolution",
    ref.conv_transpose(x, wt, bias, [2, 3], [1, 0], [0, 1], 2),
    x,
    outputChannels=6,
    kernelChannels=4,
    nGroups=2,
    kernelSize=[3, 2],
    stride=[2, 3],
    isDeconvolution=True,
    weights=wt,
    hasBias=True,
    bias=bias,
    valid={"paddingAmounts": edges(1, 0, 0, 1)},
    tolerance=1e-4,
)
g.add(
    "convolution/deconvolution, same",
    ref.conv_transpose(x, wt, None, [2, 3], [0, 0], [1, 0], 2, extra=[0, 1]),
    x,
    outputChannels=6,
    kernelChannels=4,
    nGroups=2,
    kernelSize=[3, 2],
    stride=[2, 3],
    isDeconvolution=True,
    weights=wt,
    same={},
    tolerance=1e-4,
)
g.add(
    "convolution/float16",
    ref.conv(x, w, None, groups=2),
    x,
    outputChannels=6,
    kernelChannels=2,
    nGroups=2,
    kernelSize=[3, 2],
    valid={},
    weights=message("WeightParams", float16Value=w.astype("float16").tobytes()),
    tolerance=1e-2,
)


def packed(values, bits) -> bytes:
    """Numbers of a few bits, from the highest bit on."""
    row = np.array([[v >> k & 1 for k in reversed(range(bits))] for v in np.reshape(values, -1)], "uint8").reshape(-1)
    return np.packbits(row).tobytes()


numbers, scale, shift = RNG.integers(0, 32, w.shape), data(6, low=0.1), data(6)
wq = numbers * scale.reshape(-1, 1, 1, 1) + shift.reshape(-1, 1, 1, 1)
g.add(
    "convolution/linear quantization",
    ref.conv(x, wq, None, groups=2),
    x,
    outputChannels=6,
    kernelChannels=2,
    nGroups=2,
    kernelSize=[3, 2],
    valid={},
    tolerance=1e-3,
    weights=message(
        "WeightParams",
        rawValue=packed(numbers, 5),
        quantization={"numberOfBits": 5, "linearQuantization": {"scale": scale.tolist(), "bias": shift.tolist()}},
    ),
)
table = RNG.normal(size=8).astype("float32")
g.add(
    "convolution/table",
    ref.conv(x, table[numbers % 8], None, groups=2),
    x,
    outputChannels=6,
    kernelChannels=2,
    nGroups=2,
    kernelSize=[3, 2],
    valid={},
    tolerance=1e-3,
    weights=message(
        "WeightParams",
        rawValue=packed(numbers % 8, 3),
        quantization={"numberOfBits": 3, "lookupTableQuantization": {"floatValue": table.tolist()}},
    ),
)
flat = data(3, 5 * 2 * 3)
g.add(
    "innerProduct",
    (data(1, 5, 2, 3) * 0 + 1).reshape(1, -1) @ flat.T + np.arange(3),
    np.ones((1, 5, 2, 3), "float32"),
    inputChannels=30,
    outputChannels=3,
    weights=flat,
    hasBias=True,
    bias=np.arange(3.0),
    tolerance=1e-4,
)
words = data(4, 7)
g.add(
    "embedding",
    (words.T + 1)[[2, 6, 0]],
    np.array([2.0, 6, 0]).reshape(3, 1, 1, 1),
    inputDim=7,
    outputChannels=4,
    weights=words,
    hasBias=True,
    bias=np.ones(4),
)
for kind, name in enumerate(("max", "average", "l2")):
    g.add(
        f"pooling/{name}",
        ref.pool(x, name, [3, 2], [2, 1], [1, 0], [0, 1]),
        x,
        type=kind,
        kernelSize=[3, 2],
        stride=[2, 1],
        valid={"paddingAmounts": edges(1, 0, 0, 1)},
        tolerance=1e-4,
    )
    g.add(
        f"pooling/{name}, last pixel",
        ref.pool(x, name, [3, 3], [2, 3], [1, 1], [1, 1], ceil=True),
        x,
        type=kind,
        kernelSize=[3, 3],
        stride=[2, 3],
        includeLastPixel={"paddingAmounts": [1, 1]},
        tolerance=1e-4,
    )
g.add(
    "pooling/same without padding",
    ref.pool(x, "average", [2, 3], [2, 2], [0, 0], [1, 1], exclude=True),
    x,
    type=1,
    kernelSize=[2, 3],
    stride=[2, 2],
    same={},
    avgPoolExcludePadding=True,
    tolerance=1e-4,
)
g.add("pooling/global", x.mean((2, 3)), x, type=1, globalPooling=True, tolerance=1e-4)

g = Group("normalization", "old")
x = data(2, 3, 4, 5)
mean, var, gamma, beta = data(3), data(3, low=0.3), data(3), data(3)


def along(v):
    return v[:, None, None]


g.add(
    "batchnorm",
    along(gamma) * (x - along(mean)) / np.sqrt(along(var) + 1e-3) + along(beta),
    x,
    channels=3,
    mean=mean,
    variance=var,
    gamma=gamma,
    beta=beta,
    epsilon=1e-3,
    tolerance=1e-4,
)
g.add(
    "batchnorm/instance",
    along(gamma) * ref.normal(x, (2, 3), 1e-5) + along(beta),
    x,
    channels=3,
    gamma=gamma,
    beta=beta,
    computeMeanVar=True,
    instanceNormalization=True,
    tolerance=1e-4,
)
g.add(
    "batchnorm/whole batch",
    along(gamma) * ref.normal(x, (0, 2, 3), 1e-5) + along(beta),
    x,
    channels=3,
    gamma=gamma,
    beta=beta,
    computeMeanVar=True,
    tolerance=1e-4,
)
g.add("mvn", ref.normal(x, (2, 3), 1e-6), x, normalizeVariance=True, tolerance=1e-4)
g.add("mvn/across channels, mean alone", x - x.mean((1, 2, 3), keepdims=True), x, acrossChannels=True, tolerance=1e-4)
g.add("l2normalize", x / np.sqrt((x**2).sum((1, 2, 3), keepdims=True) + 1e-3), x, epsilon=1e-3, tolerance=1e-4)
g.add("softmax", ref.softmax(x, 1), x)
g.add("lrn", ref.lrn(x, 1, 3, 0.5, 0.6, 2), x, alpha=0.5, beta=0.6, localSize=3, k=2.0, tolerance=1e-4)
above = data(2, 3, 4, 5, low=0.2)
for name, params, wanted in (
    ("linear", {"alpha": 2.0, "beta": -0.5}, 2 * x - 0.5),
    ("ReLU", {}, np.maximum(x, 0)),
    ("leakyReLU", {"alpha": 0.1}, np.where(x < 0, 0.1 * x, x)),
    ("thresholdedReLU", {"alpha": 0.6}, np.where(x >= 0.6, x, 0)),
    ("PReLU", {"alpha": gamma}, np.where(x < 0, along(gamma) * x, x)),
    ("tanh", {}, np.tanh(x)),
    ("scaledTanh", {"alpha": 1.7, "beta": 0.6}, 1.7 * np.tanh(0.6 * x)),
    ("sigmoid", {}, ref.sigmoid(x)),
    ("sigmoidHard", {"alpha": 0.4, "beta": 0.5}, np.clip(0.4 * x + 0.5, 0, 1)),
    ("ELU", {"alpha": 1.5}, np.where(x < 0, 1.5 * np.expm1(x), x)),
    ("softsign", {}, x / (1 + np.abs(x))),
    ("softplus", {}, np.log1p(np.exp(x))),
    ("parametricSoftplus", {"alpha": gamma, "beta": var}, along(gamma) * np.log1p(np.exp(along(var) * x))),
):
    g.add(f"activation/{name}", wanted, x, **{name: params}, tolerance=2e-5)
for kind, wanted in enumerate(
    (
        np.sqrt(above),
        1 / np.sqrt(above + 1e-3),
        1 / (above + 1e-3),
        above**1.5,
        np.exp(above),
        np.log(above),
        above,
        np.maximum(above, 1.5),
    )
):
    g.add(f"unary/{kind}", wanted, above, type=kind, alpha=1.5, epsilon=1e-3, tolerance=1e-4)
g.add("unary/scaled", np.abs(2 * x - 1), x, type=6, scale=2.0, shift=-1.0)
y, column = data(2, 3, 4, 5), data(2, 3, 1, 1)
g.add("add", x + y + column, x, y, column)
g.add("add/number", x + 1.5, x, alpha=1.5)
g.add("multiply", x * column, x, column)
g.add("multiply/number", x * 1.5, x, alpha=1.5)
g.add("average", (x + y) / 2, x, y)
g.add("max", np.maximum(x, y), x, y)
g.add("min", np.minimum(x, y), x, y)
g.add("scale", x * along(gamma) + 2, x, shapeScale=[3], scale=gamma, hasBias=True, shapeBias=[1], bias=np.array([2.0]))
whole = data(3, 4, 5)
g.add("bias", x + whole, x, shape=[3, 4, 5], bias=whole)
v, u = data(2, 6, 1, 1), data(2, 6, 1, 1)
g.add("dot", (v * u).sum((1, 2, 3)).reshape(2, 1), v, u, tolerance=1e-4)
g.add(
    "dot/cosine",
    ((v * u).sum(1) / np.sqrt((v**2).sum(1) * (u**2).sum(1))).reshape(2, 1),
    v,
    u,
    cosineSimilarity=True,
    tolerance=1e-4,
)
kinds = {
    "sum": np.sum,
    "mean": np.mean,
    "prod": np.prod,
    "LOGSUM": lambda a, **k: np.log(a + 1e-3).sum(**k),
    "squares": lambda a, **k: (a**2).sum(**k),
    "l1": lambda a, **k: np.abs(a).sum(**k),
    "l2": lambda a, **k: np.sqrt((a**2).sum(**k)),
    "max": np.max,
    "min": np.min,
}
for kind, (name, function) in enumerate(kinds.items()):
    axis = kind % 5
    axes = ((1, 2, 3), (2, 3), (1,), (2,), (3,))[axis]
    g.add(
        f"reduce/{name}",
        function(above, axis=axes, keepdims=True).reshape(
            (2, -1) if axis < 2 else function(above, axis=axes, keepdims=True).shape
        ),
        above,
        mode=kind,
        epsilon=1e-3,
        axis=axis,
        tolerance=1e-4,
    )
g.add("reduce/place", x.argmax(1)[:, None].astype("float32"), x, mode=9, axis=2)
g.add("loadConstant", whole[None], shape=[3, 4, 5], data=whole)

g = Group("shapes", "old")
x = data(2, 4, 6, 8)
g.add("flatten", x.reshape(2, -1), x)
g.add("flatten/channels last", x.transpose(0, 2, 3, 1).reshape(2, -1), x, mode=1)
g.add("reshape", x.reshape(2, 8, 4, 6), x, targetShape=[8, 4, 6])
g.add(
    "reshape/channels last",
    x.transpose(0, 2, 3, 1).reshape(2, 4, 6, 8).transpose(0, 3, 1, 2),
    x,
    targetShape=[8, 4, 6],
    mode=1,
)
g.add("permute", x.transpose(0, 3, 1, 2), x, axis=[0, 3, 1, 2])
g.add("concat", np.concatenate([x, x[:, :3]], 1), x, x[:, :3].copy())
g.add("split", np.split(x, 2, 1), x, nOutputs=2)
g.add("reorganizeData/space to depth", ref.space_to_depth(x, 2), x, mode=0, blockSize=2)
g.add("reorganizeData/depth to space", ref.depth_to_space(x, 2, "DCR"), x, mode=1, blockSize=2)
g.add("reorganizeData/pixel shuffle", ref.depth_to_space(x, 2, "CRD"), x, mode=2, blockSize=2)
g.add("slice", x[:, :, 1:-1:2], x, startIndex=1, endIndex=-1, stride=2, axis=1)
g.add("crop", x[:, :, 1:4, 2:7], x, cropAmounts=edges(1, 2, 2, 1))
g.add("crop/two inputs", x[:, :, 2:5, 1:5], x, data(2, 4, 3, 4), offset=[2, 1])
g.add(
    "padding",
    np.pad(x, [(0, 0), (0, 0), (1, 2), (0, 3)], constant_values=0.5),
    x,
    constant={"value": 0.5},
    paddingAmounts=edges(1, 2, 0, 3),
)
g.add(
    "padding/reflection",
    np.pad(x, [(0, 0), (0, 0), (1, 2), (0, 3)], mode="reflect"),
    x,
    reflection={},
    paddingAmounts=edges(1, 2, 0, 3),
)
g.add(
    "padding/replication",
    np.pad(x, [(0, 0), (0, 0), (1, 2), (0, 3)], mode="edge"),
    x,
    replication={},
    paddingAmounts=edges(1, 2, 0, 3),
)
small = data(1, 2, 3, 4)
g.add("upsample", small.repeat(2, 2).repeat(3, 3), small, scalingFactor=[2, 3])
for kind, mode in enumerate(("DEFAULT", "STRICT_ALIGN_CORNERS", "UNALIGN_CORNERS")):
    g.add(
        f"upsample/{mode}",
        ref.resize(small, 6, 12, mode),
        small,
        scalingFactor=[2, 3],
        mode=1,
        linearUpsampleMode=kind,
        tolerance=1e-4,
    )
for kind, mode in enumerate(("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "DEFAULT", "OFFSET_CORNERS")):
    g.add(
        f"resizeBilinear/{mode}",
        ref.resize(small, 5, 3, mode),
        small,
        targetSize=[5, 3],
        mode={"samplingMethod": kind},
        tolerance=1e-4,
    )

# -- sequences, [sequence, batch, channels, height, width] ------------------------------------------------------------

g = Group("sequences", "old")
x, h, c = data(3, 2, 4), data(2, 5), data(2, 5)
w, r, b, peep = data(20, 4), data(20, 5), data(20), data(15)
long = x.reshape(3, 2, 4, 1, 1)


def gates(names, values, suffix) -> dict:
    return {f"{n}{suffix}": v for n, v in zip(names, np.split(values, len(names)))}


_LONG = ("inputGate", "forgetGate", "outputGate", "blockInput")


def weights_of(w, r, b, peep) -> dict:
    return {
        **gates(_LONG, w, "WeightMatrix"),
        **gates(_LONG, r, "RecursionMatrix"),
        **gates(_LONG, b, "BiasVector"),
        **gates(_LONG[:3], peep, "PeepholeVector"),
    }


acts = [{"sigmoid": {}}, {"tanh": {}}, {"tanh": {}}]
rows, last, memory = ref.lstm(x, h, c, w, r, b)
states = [h.reshape(1, 2, 5, 1, 1), c.reshape(1, 2, 5, 1, 1)]
g.add(
    "uniDirectionalLSTM",
    [rows, last, memory],
    long,
    *states,
    inputVectorSize=4,
    outputVectorSize=5,
    activations=acts,
    params={"sequenceOutput": True, "hasBiasVectors": True},
    weightParams=weights_of(w, r, b, peep),
    tolerance=1e-4,
)
ahead = b.copy()
ahead[5:10] += 1
rows, last, memory = ref.lstm(x, h * 0, c * 0, w, r, ahead, peep, True, True, 0.4)
g.add(
    "uniDirectionalLSTM/all options",
    [last],
    long,
    inputVectorSize=4,
    outputVectorSize=5,
    activations=acts,
    params={
        "hasBiasVectors": True,
        "forgetBias": True,
        "hasPeepholeVectors": True,
        "coupledInputAndForgetGate": True,
        "cellClipThreshold": 0.4,
    },
    weightParams=weights_of(w, r, b, peep),
    reverseInput=True,
    tolerance=1e-4,
)
w2, r2, b2 = data(20, 4), data(20, 5), data(20)
ways = [ref.lstm(x, h * 0, c * 0, w, r, b), ref.lstm(x, h * 0, c * 0, w2, r2, b2, reverse=True)]
g.add(
    "biDirectionalLSTM",
    [np.concatenate([v[0] for v in ways], -1)],
    long,
    inputVectorSize=4,
    outputVectorSize=5,
    activationsForwardLSTM=acts,
    activationsBackwardLSTM=acts,
    params={"sequenceOutput": True, "hasBiasVectors": True},
    weightParams=[weights_of(w, r, b, peep), weights_of(w2, r2, b2, peep)],
    tolerance=1e-4,
)
_GRU = ("resetGate", "outputGate", "updateGate")
rows, last = ref.gru(x, h * 0, w[:15], r[:15], b[:15])
g.add(
    "gru",
    rows,
    long,
    inputVectorSize=4,
    outputVectorSize=5,
    activations=acts[:2],
    sequenceOutput=True,
    hasBiasVectors=True,
    **gates(_GRU, w[:15], "WeightMatrix"),
    **gates(_GRU, r[:15], "RecursionMatrix"),
    **gates(_GRU, b[:15], "BiasVector"),
    tolerance=1e-4,
)
rows, last = ref.rnn(x, h * 0, w[:5], r[:5], b[:5], np.tanh, True)
g.add(
    "simpleRecurrent",
    last,
    long,
    inputVectorSize=4,
    outputVectorSize=5,
    activation={"tanh": {}},
    hasBiasVector=True,
    weightMatrix=w[:5],
    recursionMatrix=r[:5],
    biasVector=b[:5],
    reverseInput=True,
    tolerance=1e-4,
)
seq = data(2, 1, 3, 2, 2)
g.add("sequenceRepeat", np.tile(seq, (3, 1, 1, 1, 1)), seq, nRepetitions=3)
g.add("concat/sequence", np.concatenate([seq, seq * 2]), seq, seq * 2, sequenceConcat=True)
g.add("permute/sequence", seq.transpose(4, 1, 2, 3, 0), seq, axis=[3, 1, 2, 0])
g.add("reshape/sequence", seq.reshape(4, 1, 3, 2, 1), seq, targetShape=[4, 3, 2, 1])
batch = data(1, 2, 3, 6, 7)
corners = np.array([[0.5, 1.0, 4.5, 5.0], [2.0, 0.0, 5.0, 6.0]], "float32")
for kind, mode in enumerate(("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "DEFAULT", "OFFSET_CORNERS")):
    g.add(
        f"cropResize/{mode}",
        ref.crops(batch[0], corners, 3, 4, mode),
        batch,
        corners.reshape(2, 1, 4, 1, 1),
        targetSize=[3, 4],
        mode={"samplingMethod": kind},
        spatialScale=1.0,
        tolerance=1e-4,
    )

# -- specification 4 and 5 --------------------------------------------------------------------------------------------

g = Group("single elements", "layers")
x, near, above = data(2, 3, 5), data(2, 7, low=-0.9, high=0.9), data(3, 5, low=1.2, high=3)
for name, function in {
    "ceil": np.ceil,
    "floor": np.floor,
    "sign": np.sign,
    "exp2": np.exp2,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "erf": ref.erf,
}.items():
    g.add(name, function(x), x, tolerance=2e-5)
g.add("round", np.round(x * 3), x * 3)
for name, function in {"asin": np.arcsin, "acos": np.arccos, "atanh": np.arctanh}.items():
    g.add(name, function(near), near)
g.add("acosh", np.arccosh(above), above)
g.add("clip", np.clip(x, -0.5, 0.7), x, minVal=-0.5, maxVal=0.7)
g.add("clampedReLU", np.minimum(np.where(x < 0, 0.1 * x, x), 1.2), x, alpha=0.1, beta=1.2)
for kind, wanted in enumerate(
    (
        0.5 * x * (1 + ref.erf(x / math.sqrt(2))),
        0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        x * ref.sigmoid(1.702 * x),
    )
):
    g.add(f"gelu/{kind}", wanted, x, mode=kind)
a, b = data(2, 1, 5), data(3, 5, low=0.5)
for name, function in {
    "addBroadcastable": np.add,
    "subtractBroadcastable": np.subtract,
    "multiplyBroadcastable": np.multiply,
    "divideBroadcastable": np.divide,
    "floorDivBroadcastable": np.floor_divide,
    "modBroadcastable": np.mod,
    "maxBroadcastable": np.maximum,
    "minBroadcastable": np.minimum,
    "lessThan": np.less,
    "lessEqual": np.less_equal,
    "greaterThan": np.greater,
    "greaterEqual": np.greater_equal,
}.items():
    g.add(name, function(a, b).astype("float32"), a, b, tolerance=2e-5)
g.add("powBroadcastable", np.power(b, a), b, a, tolerance=1e-4)
g.add("maxBroadcastable/three", np.maximum(np.maximum(a, b), 0.9), a, b, np.array([0.9], "float32"))
whole = np.round(x)
g.add("equal", (whole == 1).astype("float32"), whole, alpha=1.0)
g.add("notEqual", (whole != whole[:1]).astype("float32"), whole, whole[:1].copy())
g.add("lessThan/number", (x < 0.5).astype("float32"), x, alpha=0.5)
t, u = whole != 0, whole[::-1] != 0
for name, function in {"logicalAnd": np.logical_and, "logicalOr": np.logical_or, "logicalXor": np.logical_xor}.items():
    g.add(name, function(t, u).astype("float32"), whole, whole[::-1].copy())
g.add("logicalNot", (~t).astype("float32"), whole)
g.add("whereBroadcastable", np.where(t, x, 7), whole, x, np.array([7.0], "float32"))

g = Group("products and reductions", "layers")
m, n = data(2, 3, 5), data(2, 5, 4)
g.add("batchedMatmul", m @ n, m, n, tolerance=1e-4)
g.add(
    "batchedMatmul/transposed",
    m @ n,
    np.swapaxes(m, 1, 2).copy(),
    np.swapaxes(n, 1, 2).copy(),
    transposeA=True,
    transposeB=True,
    tolerance=1e-4,
)
matrix = data(5, 4)
g.add(
    "batchedMatmul/weights",
    m @ matrix + np.arange(4),
    m,
    weightMatrixFirstDimension=5,
    weightMatrixSecondDimension=4,
    weights=matrix.T,
    hasBias=True,
    bias=np.arange(4.0),
    tolerance=1e-4,
)
rank2, rank3 = data(2, 4), data(2, 3, 4)
dense = data(3, 4)
g.add(
    "innerProduct/two dimensions",
    rank2 @ dense.T,
    rank2,
    inputChannels=4,
    outputChannels=3,
    weights=dense,
    tolerance=1e-4,
)
g.add(
    "innerProduct/three dimensions",
    rank3 @ dense.T,
    rank3,
    inputChannels=4,
    outputChannels=3,
    weights=dense,
    tolerance=1e-4,
)
words = data(4, 7)
g.add(
    "embeddingND",
    words.T[[[2, 6], [0, 1]]],
    np.array([[2.0, 6], [0, 1]])[..., None],
    vocabSize=7,
    embeddingSize=4,
    weights=words,
)
g.add("softmaxND", ref.softmax(m, 1), m, axis=-2)
gamma, beta = data(3, 5), data(3, 5)
g.add(
    "layerNormalization",
    ref.normal(m, (1, 2), 1e-4) * gamma + beta,
    m,
    normalizedShape=[3, 5],
    eps=1e-4,
    gamma=gamma,
    beta=beta,
    tolerance=1e-4,
)
room, cube = data(1, 2, 4, 5, 3), data(3, 2, 2, 3, 2)
three = {"kernelDepth": 2, "kernelHeight": 3, "kernelWidth": 2, "strideDepth": 1, "strideHeight": 2, "strideWidth": 1}
g.add(
    "convolution3d",
    ref.conv(room, cube, np.arange(3.0), [1, 2, 1], [1, 0, 0], [0, 1, 0]),
    room,
    outputChannels=3,
    inputChannels=2,
    nGroups=1,
    **three,
    dilationDepth=1,
    dilationHeight=1,
    dilationWidth=1,
    weights=cube,
    hasBias=True,
    bias=np.arange(3.0),
    customPaddingFront=1,
    customPaddingBottom=1,
    tolerance=1e-4,
)
back = data(2, 3, 2, 3, 2)
g.add(
    "convolution3d/deconvolution",
    ref.conv_transpose(room, back, None, [1, 2, 1]),
    room,
    outputChannels=3,
    inputChannels=2,
    **three,
    weights=back,
    paddingType=1,
    isDeconvolution=True,
    tolerance=1e-4,
)
g.add("pooling3d", ref.pool(room, "max", [2, 3, 2], [1, 2, 1]), room, **three, paddingType=1)
g.add(
    "pooling3d/average",
    ref.pool(room, "average", [2, 3, 2], [1, 2, 1], [1, 0, 0], [0, 1, 0], exclude=True),
    room,
    type=1,
    **three,
    customPaddingFront=1,
    customPaddingBottom=1,
    countExcludePadding=True,
    tolerance=1e-4,
)
g.add("globalPooling3d", room.mean((2, 3, 4), keepdims=True), room, type=1, tolerance=1e-4)
x, above = data(2, 3, 4), data(2, 3, 4, low=0.1)
for name, function in {
    "L1": lambda a: np.abs(a).sum(1),
    "L2": lambda a: np.sqrt((a**2).sum(1)),
    "Max": lambda a: a.max(1),
    "Min": lambda a: a.min(1),
    "Sum": lambda a: a.sum(1),
    "Prod": lambda a: a.prod(1),
    "Mean": lambda a: a.mean(1),
    "LogSum": lambda a: np.log(a.sum(1)),
    "SumSquare": lambda a: (a**2).sum(1),
    "LogSumExp": lambda a: np.log(np.exp(a).sum(1)),
}.items():
    g.add(f"reduce{name}", function(above), above, axes=[-2], tolerance=1e-4)
g.add("reduceSum/all", x.sum(), x, reduceAll=True, tolerance=1e-4)
g.add("reduceMean/kept", x.mean((0, 2), keepdims=True), x, axes=[0, 2], keepDims=True, tolerance=1e-4)
g.add("argMax", x.argmax(1)[:, None].astype("float32"), x, axis=1)
g.add("argMin", x.argmin(2).astype("float32"), x, axis=-1, removeDim=True)
order = np.argsort(-x, 1, kind="stable")[:, :2]
g.add("topK", [np.take_along_axis(x, order, 1), order.astype("float32")], x, axis=1, K=2)
order = np.argsort(x, 2, kind="stable")[..., :3]
g.add("topK/smallest", [np.take_along_axis(x, order, 2), order.astype("float32")], x, axis=-1, K=3, useBottomK=True)
g.add("argSort", np.argsort(x, 1, kind="stable").astype("float32"), x, axis=1)
g.add("argSort/descending", np.argsort(-x, 2, kind="stable").astype("float32"), x, axis=2, descending=True)
g.add("cumSum", x.cumsum(1), x, axis=1, tolerance=1e-4)
g.add(
    "cumSum/exclusive backwards",
    x[:, ::-1].cumsum(1)[:, ::-1] - x,
    x,
    axis=1,
    excludeFinalSum=True,
    reverse=True,
    tolerance=1e-4,
)

g = Group("shapes", "layers")
x, y = data(2, 3, 4), data(2, 3, 4)
g.add("reshapeStatic", x.reshape(4, 6), x, targetShape=[4, -1])
g.add("rankPreservingReshape", x.reshape(2, 6, 2), x, targetShape=[0, 6, -1])
g.add("reshapeLike", x.reshape(6, 4), x, data(6, 4))
g.add("reshapeDynamic", x.reshape(6, 4), x, np.array([6.0, 4.0]))
g.add("flattenTo2D", x.reshape(2, 12), x, axis=1)
g.add("squeeze", x.reshape(2, 3, 4), x.reshape(1, 2, 3, 1, 4), axes=[0, -2])
g.add("squeeze/all", x, x.reshape(1, 2, 3, 1, 4), squeezeAll=True)
g.add("expandDims", x[:, None, :, :, None], x, axes=[1, -1])
g.add("transpose", x.transpose(2, 0, 1), x, axes=[2, 0, 1])
g.add("getShape", np.array([2.0, 3, 4]), x)
g.add("concatND", np.concatenate([x, y], 2), x, y, axis=-1)
g.add("concatND/interleaved", np.stack([x, y], 2).reshape(2, 6, 4), x, y, axis=1, interleave=True)
g.add("stack", np.stack([x, y], 1), x, y, axis=1)
g.add("splitND", np.split(x, 2, 2), x, axis=-1, numSplits=2)
g.add("splitND/sizes", [x[:, :1], x[:, 1:]], x, axis=1, splitSizes=[1, 2])
g.add("tile", np.tile(x, (1, 2, 3)), x, reps=[1, 2, 3])
g.add("reverse", x[::-1, :, ::-1], x, reverseDim=[True, False, True])
rows = data(3, 4)
turned = np.stack([np.concatenate([row[:k][::-1], row[k:]]) for row, k in zip(rows, (2, 4, 1))])
g.add("reverseSeq", turned, rows, np.array([2.0, 4, 1]), batchAxis=0, sequenceAxis=1)
g.add(
    "sliceStatic",
    x[:, 2:0:-1, 1::2],
    x,
    beginIds=[0, 2, 1],
    endIds=[0, 0, 0],
    strides=[1, -1, 2],
    beginMasks=[True, False, False],
    endMasks=[True, False, True],
)
g.add(
    "sliceStatic/one place",
    x[:, -1, :3],
    x,
    beginIds=[0, -1, 0],
    endIds=[0, 0, 3],
    strides=[1, 1, 1],
    beginMasks=[False] * 3,
    endMasks=[True, False, False],
    squeezeMasks=[False, True, False],
)
g.add(
    "sliceDynamic",
    x[1:2, :, 1:],
    x,
    np.array([1.0, 0, 1]),
    endIds=[2, 0, 0],
    strides=[1, 1, 1],
    beginMasks=[False] * 3,
    endMasks=[False, True, True],
)
g.add("sliceBySize", x[:, :, 1:3], x, np.array([1.0]), size=2, axis=-1)
line = data(2, 7)
g.add("slidingWindows", np.stack([line[:, 0:3], line[:, 2:5], line[:, 4:7]], 1), line, axis=1, windowSize=3, step=2)
g.add(
    "constantPad", np.pad(x, [(0, 0), (1, 0), (2, 1)], constant_values=0.5), x, value=0.5, padAmounts=[0, 0, 1, 0, 2, 1]
)
g.add(
    "constantPad/to sizes",
    np.pad(x, [(0, 0), (2, 0), (0, 3)]),
    x,
    padAmounts=[0, 0, 5, 0, 0, 7],
    padToGivenOutputSizeMode=True,
)
g.add("loadConstantND", y, shape=[2, 3, 4], data=y)
g.add("fillLike", np.full((2, 3, 4), 2.5), x, value=2.5)
g.add("fillStatic", np.full((2, 3), 1.5), value=1.5, targetShape=[2, 3])
g.add("fillDynamic", np.full((2, 3), 1.5), np.array([2.0, 3]), value=1.5)
g.add("broadcastToStatic", np.broadcast_to(x[:, :1], (2, 3, 4)), x[:, :1].copy(), targetShape=[2, 3, 4])
g.add("broadcastToLike", np.broadcast_to(x[:, :1], (2, 3, 4)), x[:, :1].copy(), y)
g.add("broadcastToDynamic", np.broadcast_to(x[:, :1], (2, 3, 4)), x[:, :1].copy(), np.array([2.0, 3, 4]))
g.add("rangeStatic", np.arange(1, 8, 2.5), endValue=8.0, startValue=1.0, stepSizeValue=2.5)
g.add("rangeDynamic", np.arange(1, 8, 2.5), np.array([8.0]), startValue=1.0, stepSizeValue=2.5)
g.add(
    "oneHot",
    np.eye(4)[[2, 0, 3]] * 2.5 - 1,
    np.array([2.0, 0, 3]),
    oneHotVectorSize=4,
    axis=-1,
    onValue=1.5,
    offValue=-1.0,
)
square = data(2, 4, 5)
away = np.arange(4)[:, None] - np.arange(5)[None]
g.add("matrixBandPart", np.where((away <= 1) & (-away <= 2), square, 0), square, numLower=1, numUpper=2)
g.add("lowerTriangular", np.tril(square, 1), square, k=1)
g.add("upperTriangular", np.triu(square, -1), square, k=-1)

g = Group("places", "layers")
x = data(3, 4, 5)
places = np.array([[2.0, -1], [0, 1]])
g.add("gather", x[:, places.astype(int)], x, places, axis=1)
deep = RNG.integers(-4, 4, (3, 2, 5))
g.add("gatherAlongAxis", np.take_along_axis(x, deep % 4, 1), x, deep.astype("float32"), axis=1)
points = np.array([[0, 1], [2, -1]])
g.add("gatherND", x[[0, 2], [1, -1]], x, points.astype("float32"))
out = x.copy()
out[[2, 0]] -= 1
g.add("scatter", out, x, np.array([-1.0, 0]), np.ones((2, 4, 5)), axis=0, mode=2)
out = x.copy()
out[[0, 2], [1, 3]] = 9
g.add("scatterND", out, x, points.astype("float32"), np.full((2, 5), 9.0), mode=0)
out = x.copy()
np.put_along_axis(out, np.array([[[1, 0, 2, 3, 1]]] * 3), 4.0, 1)
g.add("scatterAlongAxis", out, x, np.array([[[1.0, 0, -2, 3, 1]]] * 3), np.full((3, 1, 5), 4.0), axis=1, mode=0)
sparse = np.array([[0, 2.0, 0], [1, 0, -3]], "float32")
g.add("whereNonZero", np.argwhere(sparse).astype("float32"), sparse)
boxes = np.concatenate([data(1, 9, 2, low=0, high=4), data(1, 9, 2, low=1, high=3)], 2)
ranks = data(1, 9, 3, low=0, high=1)
kept = ref.suppressed(boxes[0], ranks[0], 0.3, 0.5, 4, True)
full = np.zeros((1, 4, 4)), np.zeros((1, 4, 3)), np.full((1, 4), -1.0), np.array([float(len(kept))])
full[0][0, : len(kept)], full[1][0, : len(kept)], full[2][0, : len(kept)] = boxes[0, kept], ranks[0, kept], kept
g.add(
    "NonMaximumSuppression",
    list(full),
    boxes,
    ranks,
    iouThreshold=0.3,
    scoreThreshold=0.5,
    maxBoxes=4,
    perClassSuppression=True,
)

"""Write small CNTK models of every operator, in both formats, and their outputs in CNTK, to
tests/relay/frontend/cntk/cases.npz; compress the file with ``xz`` afterwards.

Run it with a Python that has CNTK 2.7 (Python 2.7 or 3.6 on x86-64); the rest of this repository is not needed.
Arguments are parts of names of cases, whose outputs are added to the file. Cases that CNTK rejects are listed and left
out.
"""

import os
import sys
import tempfile
import zlib

import cntk as C
import numpy as np

# The older format does not store the attributes of these operators, or the order of their outputs.
LOST = (
    "Block/ones",
    "Block/selu",
    "Block/zeros",
    "Combine",
    "ELU/alpha",
    "EyeLike",
    "OneHot",
    "Pad",
    "Pad/reflect",
    "Pad/symmetric",
    "TopK",
)
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "relay", "frontend", "cntk")
CASES = {}


def draw(seed, shape, low=-2.0, high=2.0):
    rng = np.random.RandomState(zlib.crc32(seed.encode()) & 0x7FFFFFFF)
    return rng.uniform(low, high, shape).astype("float32")


def weight(name, *shape, **limits):
    return C.parameter(init=draw(name, shape, **limits), shape=shape, name=name)


def case(name, *shapes, **options):
    """Register a model of inputs x, y, ... with these shapes and a batch of 2."""

    def add(build):
        CASES[name] = (build, shapes, options)
        return build

    return add


def unary(name, function, shape=(3, 4), **options):
    case(name, shape, **options)(lambda x: function(x))


def binary(name, function, *shapes, **options):
    case(name, *(shapes or ((3, 4), (3, 4))), **options)(lambda x, y: function(x, y))


# -- single elements and pairs
for _n, _f in {
    "Negate": C.negate,
    "Sigmoid": C.sigmoid,
    "Tanh": C.tanh,
    "ReLU": C.relu,
    "Exp": C.exp,
    "Floor": C.floor,
    "Abs": C.abs,
    "Reciprocal": C.reciprocal,
    "Sin": C.sin,
    "Cos": C.cos,
    "Tan": C.tan,
    "Sinh": C.sinh,
    "Cosh": C.cosh,
    "Asinh": C.asinh,
    "Atan": C.atan,
    "ELU": C.elu,
    "StopGradient": C.stop_gradient,
    "Pass": C.alias,
    "StableSigmoid": C.sigmoid,
    "StraightThrough": C.ops.straight_through_impl,
}.items():
    unary(_n, _f)
for _n, _f in {"Log": C.log, "Sqrt": C.sqrt}.items():
    unary(_n, _f, low=0.1)
for _n, _f in {"Asin": C.asin, "Acos": C.acos, "Atanh": C.atanh}.items():
    unary(_n, _f, low=-0.95, high=0.95)
unary("ELU/alpha", lambda x: C.elu(x, alpha=0.3))
unary("Block/ceil", C.ceil)
unary("Block/round", C.round)
unary("Block/selu", C.selu)
unary("Block/leaky", lambda x: C.leaky_relu(x, 0.2))
unary("Block/softplus", C.softplus)
unary("Block/softsign", C.softsign)
unary("Block/hard_sigmoid", lambda x: C.hard_sigmoid(x, 0.3, 0.4))
unary("Block/square", C.square)
unary("Block/zeros", lambda x: C.plus(x, C.zeros_like(x)))
unary("Block/ones", lambda x: C.plus(x, C.ones_like(x)))
unary("Dropout", lambda x: C.dropout(x, 0.5))
unary("Clip", lambda x: C.clip(x, -0.5, 1.0))
unary("Cast", lambda x: C.cast(x, np.float64))
for _n, _f in {"Plus": C.plus, "Minus": C.minus, "ElementTimes": C.element_times, "LogPlus": C.log_add_exp}.items():
    binary(_n, _f)
    binary(_n + "/broadcast", _f, (2, 3, 4), (3, 1))
    case(_n + "/weight", (2, 3, 4))(lambda x, f=_f, n=_n: f(x, weight(n, 4)))
    case(_n + "/wide", (3,))(lambda x, f=_f, n=_n: f(weight(n, 2, 3), x))
binary("Block/divide", C.element_divide, low=0.5)
binary("Pow", C.pow, low=0.2)
binary("Block/max", C.element_max)
binary("Block/min", C.element_min)
for _n, _f in {
    "Equal": C.equal,
    "NotEqual": C.not_equal,
    "Less": C.less,
    "LessEqual": C.less_equal,
    "Greater": C.greater,
    "GreaterEqual": C.greater_equal,
}.items():
    binary(_n, lambda x, y, f=_f: f(C.floor(x), C.floor(y)), (3, 5), (3, 5))
case("Select", (3, 4), (3, 4), (3, 4))(lambda c, x, y: C.element_select(C.greater(c, 0), x, y))
case("Block/and", (3, 4), (3, 4))(lambda x, y: C.element_and(C.greater(x, 0), C.greater(y, 0)))
case("Block/param_relu", (3, 4))(lambda x: C.param_relu(weight("slope", 4), x))
case("Block/image_scaler", (3, 4, 5))(lambda x: C.image_scaler(x, 0.5, [1.0, 2.0, 3.0]))
case("Block/normalize", (3, 4))(lambda x: C.per_dim_mean_variance_normalize(x, draw("m", (3, 4)), draw("s", (3, 4))))

# -- matrices
case("Times", (5,))(lambda x: C.times(x, weight("w", 5, 3)))
case("Times/rank", (3, 4))(lambda x: C.times(x, weight("w", 3, 4, 2), 1))
case("Times/wide", (3, 4))(lambda x: C.times(x, weight("w", 4, 2, 3), 2))
case("Times/samples", (3, 4), (4, 2))(lambda x, y: C.times(x, y))
case("Times/left", (4, 2))(lambda x: C.times(weight("w", 3, 4), x))
case("TransposeTimes", (5,))(lambda x: C.times_transpose(x, weight("w", 3, 5)))
case("Block/dense", (5,))(lambda x: C.layers.Dense(3, activation=C.relu, init=C.initializer.glorot_uniform(seed=3))(x))
case("CosDistance", (5,), (5,))(lambda x, y: C.cosine_distance(x, y))

# -- softmax
unary("Softmax", C.softmax, shape=(5,))
unary("Softmax/all", C.softmax)
unary("Softmax/axis", lambda x: C.softmax(x, axis=0))
unary("LogSoftmax", C.log_softmax, shape=(5,))
unary("LogSoftmax/axis", lambda x: C.log_softmax(x, axis=0))
unary("Hardmax", C.hardmax, shape=(5,))
case("SquaredError", (5,), (5,))(lambda x, y: C.squared_error(x, y))
case("CrossEntropyWithSoftmax", (5,), (5,), low=0.1)(lambda x, y: C.cross_entropy_with_softmax(x, y))
case("ClassificationError", (5,), (5,))(lambda x, y: C.classification_error(x, y))
case("Logistic", (5,), (5,), low=0.1, high=0.9)(lambda x, y: C.binary_cross_entropy(x, y))

# -- convolutions and pooling
X = (4, 7, 9)
case("Convolution", X)(lambda x: C.convolution(weight("w", 6, 4, 3, 3), x, auto_padding=[False, False, False]))
case("Convolution/same", X)(lambda x: C.convolution(weight("w", 6, 4, 3, 3), x, auto_padding=[False, True, True]))
case("Convolution/strided", X)(
    lambda x: C.convolution(weight("w", 6, 4, 3, 3), x, strides=(2, 2), auto_padding=[False, True, True])
)
case("Convolution/even", (4, 8, 9))(
    lambda x: C.convolution(weight("w", 6, 4, 4, 2), x, strides=(3, 2), auto_padding=[False, True, True])
)
case("Convolution/groups", X)(
    lambda x: C.convolution(weight("w", 6, 2, 3, 3), x, groups=2, auto_padding=[False, True, True])
)
case("Convolution/line", (3, 11))(
    lambda x: C.convolution(weight("w", 5, 3, 3), x, strides=(2,), auto_padding=[False, True])
)
case("Convolution/volume", (2, 4, 5, 6))(
    lambda x: C.convolution(weight("w", 3, 2, 2, 3, 3), x, auto_padding=[False, True, False, True])
)
case("Convolution/transposed", X)(
    lambda x: C.convolution_transpose(weight("w", 4, 3, 3, 3), x, strides=(2, 2), auto_padding=[False, True, True])
)
case("Convolution/transposed_valid", X)(
    lambda x: C.convolution_transpose(weight("w", 4, 3, 3, 2), x, strides=(2, 1), auto_padding=[False, False, False])
)
case("Convolution/transposed_shape", X)(
    lambda x: C.convolution_transpose(
        weight("w", 4, 3, 3, 3), x, strides=(2, 2), auto_padding=[False, True, True], output_shape=(3, 14, 18)
    )
)
case("Convolution/layer", X)(
    lambda x: C.layers.Convolution2D((3, 3), 5, pad=True, activation=C.relu, init=C.initializer.glorot_uniform(seed=5))(
        x
    )
)
case("Block/plain_layer", (7, 9))(
    lambda x: C.layers.Convolution2D((3, 3), 5, reduction_rank=0, init=C.initializer.glorot_uniform(seed=5))(x)
)
for _n, _k in (("max", C.MAX_POOLING), ("avg", C.AVG_POOLING)):
    case("Pooling/" + _n, X)(lambda x, k=_k: C.pooling(x, k, (3, 2), strides=(2, 2)))
    case("Pooling/same_" + _n, X)(lambda x, k=_k: C.pooling(x, k, (3, 3), strides=(2, 2), auto_padding=[True, True]))
    case("Pooling/even_" + _n, (2, 8, 7))(
        lambda x, k=_k: C.pooling(x, k, (2, 4), strides=(1, 3), auto_padding=[True, True])
    )
    case("Pooling/ceil_" + _n, (2, 8, 7))(lambda x, k=_k: C.pooling(x, k, (3, 3), strides=(2, 2), ceil_out_dim=True))
    case("Pooling/channels_" + _n, X)(lambda x, k=_k: C.pooling(x, k, (2, 3, 3), strides=(2, 2, 2)))
case("Pooling/counted", X)(
    lambda x: C.pooling(x, C.AVG_POOLING, (3, 3), strides=(2, 2), auto_padding=[True, True], include_pad=True)
)
case("Pooling/global", X)(lambda x: C.layers.GlobalAveragePooling()(x))
case("Pooling/layer", X)(lambda x: C.layers.MaxPooling((3, 3), strides=2, pad=True)(x))
case("Unpooling", (2, 4, 6))(
    lambda x: C.unpooling(
        C.pooling(x, C.MAX_POOLING, (2, 2), strides=(2, 2)), x, C.MAX_UNPOOLING, (2, 2), strides=(2, 2)
    )
)
case("BatchNormalization", X)(
    lambda x: C.batch_normalization(
        x,
        weight("s", 4),
        weight("b", 4),
        C.constant(draw("m", (4,))),
        C.constant(draw("v", (4,), 0.2)),
        True,
        running_count=C.constant(8.0),
        epsilon=1e-3,
    )
)
case("BatchNormalization/elements", (3, 4))(
    lambda x: C.batch_normalization(
        x,
        weight("s", 3, 4),
        weight("b", 3, 4),
        C.constant(draw("m", (3, 4))),
        C.constant(draw("v", (3, 4), 0.2)),
        False,
        running_count=C.constant(8.0),
    )
)
case("Block/lrn", X)(lambda x: C.local_response_normalization(x, 2, 1.5, 0.5, 0.75))
case("Block/layer_norm", (3, 4))(lambda x: C.layers.LayerNormalization()(x))
case("Block/mean_variance", X)(lambda x: C.mean_variance_normalization(x, 1e-4))
case("ROIPooling", (2, 8, 9), (2, 2), low=0.0, high=3.0)(
    lambda x, y: C.roipooling(x, C.splice(y, y + 4), C.MAX_POOLING, (2, 3), 1.0)
)
case("Block/depth_to_space", (8, 3, 4))(lambda x: C.depth_to_space(x, 2))
case("Block/space_to_depth", (2, 4, 6))(lambda x: C.space_to_depth(x, 2))

# -- reductions
for _n, _f in {
    "sum": C.reduce_sum,
    "logsum": C.reduce_log_sum_exp,
    "mean": C.reduce_mean,
    "max": C.reduce_max,
    "min": C.reduce_min,
    "prod": C.reduce_prod,
    "argmax": C.argmax,
    "argmin": C.argmin,
}.items():
    case("ReduceElements/" + _n, (2, 3, 4))(lambda x, f=_f: f(x, axis=1))
    case("ReduceElements/first_" + _n, (2, 3, 4))(lambda x, f=_f: f(x, axis=0))
for _n, _f in {"sum": C.reduce_sum, "mean": C.reduce_mean, "max": C.reduce_max}.items():
    case("ReduceElements/dropped_" + _n, (2, 3, 4))(lambda x, f=_f: f(x, axis=-1, keepdims=False))
    case("ReduceElements/all_" + _n, (2, 3, 4))(lambda x, f=_f: f(x, axis=C.Axis.all_static_axes()))
    case("ReduceElements/two_" + _n, (2, 3, 4))(lambda x, f=_f: f(x, axis=(0, 2)))
case("TopK", (3, 5))(lambda x: C.combine(C.top_k(x, 2).outputs))

# -- shapes
unary("Reshape", lambda x: C.reshape(x, (2, 6)))
unary("Reshape/inferred", lambda x: C.reshape(x, (C.InferredDimension, 2)))
case("Reshape/part", (2, 3, 4))(lambda x: C.reshape(x, (3, 2), begin_axis=0, end_axis=2))
case("Block/flatten", (2, 3, 4))(lambda x: C.flatten(x, axis=2))
case("TransposeAxes", (2, 3, 4))(lambda x: C.swapaxes(x, 0, 1))
case("TransposeAxes/perm", (2, 3, 4))(lambda x: C.transpose(x, (2, 0, 1)))
case("Squeeze", (2, 1, 4))(lambda x: C.squeeze(x))
case("Block/expand", (2, 4))(lambda x: C.expand_dims(x, 1))
case("Slice", (5, 6))(lambda x: C.slice(x, 0, 1, 4))
case("Slice/end", (5, 6))(lambda x: C.slice(x, 1, 2, 0))
case("Slice/negative", (5, 6))(lambda x: C.slice(x, 1, -4, -1))
case("Slice/axes", (5, 6))(lambda x: C.slice(x, [0, 1], [1, 2], [3, 0]))
case("Slice/strides", (5, 6))(lambda x: C.slice(x, [0, 1], [0, 1], [0, 0], [2, 3]))
case("Splice", (2, 3), (2, 4))(lambda x, y: C.splice(x, y))
case("Splice/first", (2, 3), (1, 3))(lambda x, y: C.splice(x, y, axis=0))
case("Splice/new", (3,), (3,))(lambda x, y: C.splice(x, y, axis=-2))
case("Splice/weight", (2, 3))(lambda x: C.splice(x, weight("w", 1, 3), axis=0))
case("Pad", (3, 4))(lambda x: C.pad(x, [(1, 0), (2, 1)], constant_value=1.5))
case("Pad/reflect", (4, 5))(lambda x: C.pad(x, [(1, 2), (2, 1)], mode=C.ops.REFLECT_PAD))
case("Pad/symmetric", (4, 5))(lambda x: C.pad(x, [(1, 2), (2, 1)], mode=C.ops.SYMMETRIC_PAD))
case("Crop", (2, 6, 7), (2, 4, 3))(lambda x, y: C.crop_manual(x, y, 1, 2))
case("OneHot", (3,), low=0, high=3.99)(lambda x: C.one_hot(C.floor(x), 4))
case("Gather", (3,), low=0, high=3.99)(lambda x: C.gather(weight("t", 4, 2), C.floor(x)))
case("Gather/axis", (3,), low=0, high=3.99)(lambda x: C.gather(weight("t", 2, 4), C.floor(x), axis=1))
case("EyeLike", (3,))(lambda x: C.eye_like(x, sparse_output=False))
case("Combine", (3, 4))(lambda x: C.combine(C.relu(x), C.exp(x)))
case("Block/embedding", (5,))(lambda x: C.layers.Embedding(3, init=C.initializer.glorot_uniform(seed=7))(x))
case("SumAll", (3, 4))(lambda x: C.reduce_sum(x, axis=C.Axis.all_axes()))

# -- sequences
S = {"sequence": 4}
case("PastValue", (3,), **S)(lambda x: C.sequence.past_value(x))
case("PastValue/two", (3,), **S)(lambda x: C.sequence.past_value(x, initial_state=0.5, time_step=2))
case("FutureValue", (3,), **S)(lambda x: C.sequence.future_value(x, initial_state=0.25))
case("PastValue/sum", (3,), **S)(lambda x: C.layers.Recurrence(C.plus)(x))
case("FutureValue/sum", (3,), **S)(lambda x: C.layers.Recurrence(C.plus, go_backwards=True)(x))
case("PastValue/lstm", (3,), **S)(
    lambda x: C.layers.Recurrence(C.layers.LSTM(4, init=C.initializer.glorot_uniform(seed=2)))(x)
)
case("PastValue/gru", (3,), **S)(
    lambda x: C.layers.Recurrence(C.layers.GRU(4, init=C.initializer.glorot_uniform(seed=2)))(x)
)
case("PastValue/rnn", (3,), **S)(
    lambda x: C.layers.Recurrence(C.layers.RNNStep(4, init=C.initializer.glorot_uniform(seed=2)))(x)
)
case("Slice/last", (3,), **S)(lambda x: C.sequence.last(x))
case("Slice/first", (3,), **S)(lambda x: C.sequence.first(x))
case("Slice/folded", (3,), **S)(lambda x: C.layers.Fold(C.layers.LSTM(4, init=C.initializer.glorot_uniform(seed=2)))(x))
case("ReduceElements/sequence", (3,), **S)(lambda x: C.sequence.reduce_sum(x))
case("UnpackSequence", (3,), **S)(lambda x: C.sequence.unpack(x, 0, no_mask_output=True))
case("ToSequence", (4, 3))(lambda x: C.sequence.reduce_sum(C.to_sequence(x)))
case("ReconcileDynamicAxis", (3,), **S)(lambda x: C.plus(x, C.sequence.broadcast_as(C.sequence.last(x), x)))


# -- networks
def resnet(x):
    """Return two residual blocks with normalizations, and a classifier."""

    def norm(y, channels, name):
        return C.batch_normalization(
            y,
            weight(name + "s", channels, low=0.8, high=1.2),
            weight(name + "b", channels, low=-0.1, high=0.1),
            C.constant(draw(name + "m", (channels,), -0.1, 0.1)),
            C.constant(draw(name + "v", (channels,), 0.5)),
            True,
            running_count=C.constant(8.0),
            epsilon=1e-5,
        )

    def conv(y, inputs, outputs, stride, name, size=3):
        made = C.convolution(
            weight(name, outputs, inputs, size, size, low=-0.3, high=0.3),
            y,
            strides=(stride, stride),
            auto_padding=[False, True, True],
        )
        return norm(made, outputs, name)

    y = C.relu(conv(x, 3, 8, 1, "stem"))
    for i, (inputs, outputs, stride) in enumerate(((8, 8, 1), (8, 12, 2))):
        inner = C.relu(conv(y, inputs, outputs, stride, "a%d" % i))
        inner = conv(inner, outputs, outputs, 1, "b%d" % i)
        side = y if stride == 1 else conv(y, inputs, outputs, stride, "c%d" % i, 1)
        y = C.relu(inner + side)
    y = C.pooling(y, C.AVG_POOLING, (8, 8), strides=(8, 8))
    return C.softmax(C.times(C.reshape(y, (12,)), weight("w", 12, 5)) + weight("bias", 5))


def tagger(x):
    """Return a bidirectional recurrent tagger."""
    make = C.initializer.glorot_uniform(seed=4)
    forward = C.layers.Recurrence(C.layers.LSTM(4, init=make))(x)
    backward = C.layers.Recurrence(C.layers.LSTM(4, init=make), go_backwards=True)(x)
    return C.layers.Dense(3, init=make)(C.splice(forward, backward))


case("network/resnet", (3, 16, 15))(lambda x: resnet(x))
case("network/tagger", (3,), sequence=5)(tagger)


def stacked(value):
    value = np.stack([np.asarray(v) for v in value]) if isinstance(value, list) else np.asarray(value)
    return value


def run(name, found):
    build, shapes, options = CASES[name]
    length = options.get("sequence")
    names = "xyz"[: len(shapes)]
    make = C.sequence.input_variable if length else C.input_variable
    inputs = [make(s, name=n) for n, s in zip(names, shapes)]
    root = build(*inputs)
    lead = (2, length) if length else (2,)
    limits = {k: options[k] for k in ("low", "high") if k in options}
    feeds = {v: draw(name + n, lead + tuple(s), **limits) for v, n, s in zip(inputs, names, shapes)}
    used = {v: feeds[v] for v in inputs if v.uid in [a.uid for a in root.arguments]}
    got = root.eval(used)
    outputs = [got] if len(root.outputs) == 1 else [got[v] for v in root.outputs]
    folder = tempfile.mkdtemp()
    root.save(os.path.join(folder, "two"))
    with open(os.path.join(folder, "two"), "rb") as file:
        found["%s:v2" % name] = np.frombuffer(file.read(), "uint8")
    for v, array in used.items():
        found["%s:in_%s" % (name, v.name)] = array
    for i, value in enumerate(outputs):
        found["%s:out_%d" % (name, i)] = stacked(value)
    if name in LOST:
        return
    try:
        C.cntk_py.save_as_legacy_model(root, os.path.join(folder, "one"))
        with open(os.path.join(folder, "one"), "rb") as file:
            found["%s:v1" % name] = np.frombuffer(file.read(), "uint8")
    except Exception as problem:
        print("  no older format:", str(problem).strip().splitlines()[0][:150])


def main():
    found, refused = {}, []
    file = os.path.join(FOLDER, "cases.npz")
    if sys.argv[1:] and os.path.exists(file):
        with np.load(file) as before:
            found = {key: before[key] for key in before}
    chosen = [n for n in CASES if not sys.argv[1:] or any(a in n for a in sys.argv[1:])]
    for name in sorted(chosen):
        print(name)
        sys.stdout.flush()
        try:
            run(name, found)
        except Exception as problem:
            refused.append("%s: %s" % (name, str(problem).strip().splitlines()[0][:200]))
    np.savez(file, **found)
    print("refused:\n  " + "\n  ".join(refused))


if __name__ == "__main__":
    main()

"""Networks of the model zoos with few channels and seeded weights. What MXNet makes of them is in networks.npz, which
tools/mxnet_reference.py writes."""

from __future__ import annotations

import numpy as np
from mxnet_writer import Net

SIZE = 32
CLASSES = 10


def _image(net):
    return net.var("data")


def _head(net, x, channels):
    x = net.pool(x, "avg", whole=True)
    return net.dense(net.op("Flatten", x), channels, CLASSES)


def resnet_v1(net):
    x = net.pool(net.relu(net.norm(net.conv(_image(net), 3, 4, 7, 2), 4)), kernel=3, pad=1)
    width = 4
    for outer, stride in ((4, 1), (4, 1), (8, 2), (8, 1), (12, 2), (12, 1), (16, 2), (16, 1)):
        body = net.relu(net.norm(net.conv(x, width, outer, 3, stride), outer))
        body = net.norm(net.conv(body, outer, outer), outer)
        short = x if stride == 1 and width == outer else net.norm(net.conv(x, width, outer, 1, stride), outer)
        x, width = net.relu(net.op("elemwise_add", short, body)), outer
    return [_head(net, x, width)]


def resnet_v2(net):
    x = net.norm(_image(net), 3, fix_gamma=True)
    x = net.pool(net.relu(net.norm(net.conv(x, 3, 4, 7, 2), 4)), kernel=3, pad=1)
    width = 4
    for outer, stride in ((4, 1), (4, 1), (8, 2), (8, 1), (12, 2), (12, 1), (16, 2), (16, 1)):
        first = net.relu(net.norm(x, width))
        short = x if stride == 1 and width == outer else net.conv(first, width, outer, 1, stride)
        body = net.relu(net.norm(net.conv(first, width, outer, 3, stride), outer))
        x, width = net.op("_Plus", net.conv(body, outer, outer), short), outer
    return [_head(net, net.relu(net.norm(x, width)), width)]


def mobilenet_v1(net):
    x, width = net.relu(net.norm(net.conv(_image(net), 3, 4, 3, 2), 4)), 4
    for outer, stride in ((8, 1), (12, 2), (12, 1), (16, 2), (16, 1), (20, 2), (20, 1)):
        x = net.relu(net.norm(net.conv(x, width, width, 3, stride, group=width), width))
        x, width = net.relu(net.norm(net.conv(x, width, outer, 1), outer)), outer
    return [_head(net, x, width)]


def mobilenet_v2(net):
    def relu6(v):
        return net.op("clip", v, a_min=0.0, a_max=6.0)

    x, width = relu6(net.norm(net.conv(_image(net), 3, 4, 3, 2), 4)), 4
    for factor, outer, stride in ((1, 4, 1), (3, 6, 2), (3, 6, 1), (3, 8, 2), (3, 8, 1), (3, 10, 1)):
        inner = width * factor
        body = relu6(net.norm(net.conv(x, width, inner, 1), inner))
        body = relu6(net.norm(net.conv(body, inner, inner, 3, stride, group=inner), inner))
        body = net.norm(net.conv(body, inner, outer, 1), outer)
        x, width = net.op("elemwise_add", body, x) if stride == 1 and width == outer else body, outer
    x = net.pool(relu6(net.norm(net.conv(x, width, 16, 1), 16)), "avg", whole=True)
    return [net.op("Flatten", net.conv(x, 16, CLASSES, 1))]


def vgg(net):
    x, width = _image(net), 3
    for outer, count in ((4, 1), (6, 2), (8, 2)):
        for _ in range(count):
            x, width = net.relu(net.conv(x, width, outer, bias=True)), outer
        x = net.pool(x)
    x = net.op("Dropout", net.relu(net.dense(x, width * 16, 12)), p=0.5)
    x = net.dense(x, 12, CLASSES)
    return [net.op("SoftmaxOutput", x, net.var("softmax_label"), name="softmax")]


def densenet(net):
    x, width = net.pool(net.relu(net.norm(net.conv(_image(net), 3, 6, 7, 2), 6)), kernel=3, pad=1), 6
    for block in range(2):
        for _ in range(3):
            new = net.relu(net.norm(net.conv(net.relu(net.norm(x, width)), width, 8, 1), 8))
            x, width = net.op("Concat", x, net.conv(new, 8, 4), num_args=2, dim=1), width + 4
        if block == 0:
            x, width = net.pool(net.conv(net.relu(net.norm(x, width)), width, width // 2, 1), "avg"), width // 2
    return [_head(net, net.relu(net.norm(x, width)), width)]


def squeezenet(net):
    x, width = net.relu(net.conv(_image(net), 3, 6, 3, 2, bias=True)), 6
    for squeeze, expand in ((3, 6), (3, 6), (4, 8)):
        x = net.op("Pooling", x, pool_type="max", kernel=(3, 3), stride=(2, 2), pooling_convention="full")
        x = net.relu(net.conv(x, width, squeeze, 1, bias=True))
        sides = [net.relu(net.conv(x, squeeze, expand, k, bias=True)) for k in (1, 3)]
        x, width = net.op("Concat", *sides, num_args=2, dim=1), 2 * expand
    x = net.relu(net.conv(net.op("Dropout", x), width, CLASSES, 1, bias=True))
    return [net.op("Flatten", net.pool(x, "avg", whole=True))]


def inception(net):
    def unit(v, inner, outer, kernel, stride=1, pad=None):
        return net.relu(net.norm(net.conv(v, inner, outer, kernel, stride, pad), outer))

    x = net.pool(unit(unit(_image(net), 3, 4, 3, 2, 0), 4, 6, 3), kernel=3, stride=2)
    one = unit(x, 6, 4, 1)
    two = unit(unit(x, 6, 4, 1), 4, 6, 5)
    three = unit(unit(unit(x, 6, 4, 1), 4, 4, (1, 7)), 4, 6, (7, 1))
    four = unit(net.pool(x, "avg", 3, 1, 1), 6, 4, 1)
    x = net.op("Concat", one, two, three, four, num_args=4, dim=1)
    x = net.op("Concat", unit(x, 20, 8, 3, 2, 0), net.pool(x, kernel=3, stride=2), num_args=2)
    return [_head(net, x, 28)]


def lstm_language_model(net):
    """Words to the scores of the next one: the fused operator as Gluon exports it."""
    steps, batch, size = 5, 2, 6
    x = net.op("Embedding", net.var("data"), net.weight("encoder_weight", 11, size), input_dim=11, output_dim=size)
    kinds = [(f"l{k}_{part}", (4 * size, size)) for k in range(2) for part in ("i2h_weight", "h2h_weight")]
    kinds += [(f"l{k}_{part}", (4 * size,)) for k in range(2) for part in ("i2h_bias", "h2h_bias")]
    rows = [net.op("Reshape", net.weight(f"lstm_{n}", *s, low=-0.5, high=0.5), shape=-1) for n, s in kinds]
    vector = net.op("_rnn_param_concat", *rows, num_args=len(rows), dim=0)
    states = [net.op("_zeros", shape=(2, 0, size)) for _ in range(2)]
    out = net.op("RNN", x, vector, *states, mode="lstm", state_size=size, num_layers=2, state_outputs=True, p=0.2)
    rows = net.op("Reshape", out, shape=(-1, size))
    scores = net.dense(rows, size, 11)
    return [net.op("Reshape", scores, shape=(steps, batch, -1)), [*out[:1], 1, 0], [*out[:1], 2, 0]]


def ssd(net):
    x = net.pool(net.relu(net.norm(net.conv(_image(net), 3, 6, 3, 2), 6)))
    scales = [(x, 6)]
    scales.append((net.relu(net.conv(x, 6, 8, 3, 2)), 8))
    scores, boxes, anchors = [], [], []
    for v, width in scales:
        for rows, count in ((scores, 3 * 3), (boxes, 3 * 4)):
            made = net.op("transpose", net.conv(v, width, count, bias=True), axes=(0, 2, 3, 1))
            rows.append(net.op("Flatten", made))
        anchors.append(net.op("_contrib_MultiBoxPrior", v, sizes=(0.3, 0.5), ratios=(1, 2)))
    score = net.op("Reshape", net.op("Concat", *scores, num_args=2, dim=1), shape=(0, -1, 3))
    score = net.op("SoftmaxActivation", net.op("transpose", score, axes=(0, 2, 1)), mode="channel")
    box = net.op("Concat", *boxes, num_args=2, dim=1)
    anchor = net.op("Concat", *anchors, num_args=2, dim=1)
    return [
        net.op(
            "_contrib_MultiBoxDetection", score, box, anchor, nms_threshold=0.45, threshold=0.4, force_suppress=False
        )
    ]


def bert(net):
    """Two layers of an encoder as GluonNLP exports it, with lengths of the sequences."""
    steps, size, heads = 5, 8, 2
    words = net.op("Embedding", net.var("data"), net.weight("word_weight", 13, size), input_dim=13, output_dim=size)
    kinds = net.op(
        "Embedding", net.var("token_types"), net.weight("type_weight", 2, size), input_dim=2, output_dim=size
    )
    places = net.op("_contrib_arange_like", words, axis=1)
    places = net.op("Embedding", places, net.weight("place_weight", 7, size), input_dim=7, output_dim=size)
    x = net.op("broadcast_add", net.op("elemwise_add", words, kinds), net.op("expand_dims", places, axis=0))

    def layer_norm(v):
        at = len(net.nodes)
        return net.op(
            "LayerNorm",
            v,
            net.weight(f"ln{at}_gamma", size, low=0.5),
            net.weight(f"ln{at}_beta", size),
            axis=-1,
            eps=1e-5,
        )

    x = net.op("transpose", layer_norm(x), axes=(1, 0, 2))
    length = net.op("Reshape", net.op("Cast", net.var("valid_length"), dtype="int32"), shape=(-1, 1, 1))
    length = net.op("Reshape", net.op("broadcast_axis", length, axis=(1, 2), size=(heads, steps)), shape=(-3, 0))
    for _ in range(2):
        mixed = net.dense(x, size, 3 * size, flatten=False)
        scores = net.op("_contrib_interleaved_matmul_selfatt_qk", mixed, heads=heads)
        scores = net.op("softmax", scores, length, axis=-1, use_length=True)
        out = net.op("_contrib_interleaved_matmul_selfatt_valatt", mixed, net.op("Dropout", scores, p=0.1), heads=heads)
        x = layer_norm(net.op("elemwise_add", net.dense(out, size, size, flatten=False), x))
        inner = net.op("LeakyReLU", net.dense(x, size, 2 * size, flatten=False), act_type="gelu")
        x = layer_norm(net.op("elemwise_add", net.dense(inner, 2 * size, size, flatten=False), x))
    x = net.op("transpose", x, axes=(1, 0, 2))
    first = net.op("Reshape", net.op("slice_axis", x, axis=1, begin=0, end=1), shape=(0, -1))
    return [x, net.op("Activation", net.dense(first, size, size), act_type="tanh")]


NETWORKS = {
    f.__name__: f
    for f in (
        resnet_v1,
        resnet_v2,
        mobilenet_v1,
        mobilenet_v2,
        vgg,
        densenet,
        squeezenet,
        inception,
        lstm_language_model,
        ssd,
        bert,
    )
}


def build(name: str):
    """The symbol of a network, its parameters and its inputs."""
    seed = sorted(NETWORKS).index(name)
    net = Net(seed)
    symbol = net.symbol(*NETWORKS[name](net))
    state = np.random.RandomState(1000 + seed)
    if name == "lstm_language_model":
        feeds = {"data": state.randint(0, 11, (5, 2)).astype("float32")}
    elif name == "bert":
        feeds = {
            "data": state.randint(0, 13, (2, 5)).astype("float32"),
            "token_types": state.randint(0, 2, (2, 5)).astype("float32"),
            "valid_length": np.array([3, 5], "float32"),
        }
    else:
        feeds = {"data": state.uniform(-1, 1, (1, 3, SIZE, SIZE)).astype("float32")}
    return symbol, net.params, feeds

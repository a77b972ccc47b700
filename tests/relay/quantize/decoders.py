"""Small decoders as ONNX graphs with dynamic sizes and a cache of keys and values: five common architectures."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH, HEADS, WORDS, POSITIONS = 32, 4, 48, 64
HEAD = WIDTH // HEADS


class Graph:
    """Nodes, weights, inputs and outputs of a graph; each method appends a node and returns the name of its output."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights, self.inputs, self.outputs = [], {}, [], []
        # Names of the matrices (features, units) that a matmul alone reads.
        self.matrices: list[str] = []
        # Of embeddings that are the last matmul's weight too: the table, and the node that transposes it.
        self.tied: tuple[str, onnx.NodeProto] | None = None

    def __getattr__(self, operator: str):
        if not operator[0].isupper():
            raise AttributeError(operator)

        def node(*inputs, outputs: int = 1, **attrs):
            names = [f"t{len(self.nodes)}_{i}" for i in range(outputs)]
            inputs = [x if isinstance(x, str) else self.const(x) for x in inputs]
            self.nodes.append(helper.make_node(operator, inputs, names, f"n{len(self.nodes)}", **attrs))
            return names[0] if outputs == 1 else names

        return node

    def const(self, value) -> str:
        array = np.asarray(value)
        array = array.astype({"f": "float32", "b": "bool"}.get(array.dtype.kind, "int64"))
        self.weights[f"c{len(self.weights)}"] = array
        return f"c{len(self.weights) - 1}"

    def weight(self, *shape: int) -> str:
        return self.const(self.rng.normal(size=shape) / np.sqrt(shape[0]))

    def input(self, name: str, dtype: int, *shape) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def output(self, value: str, name: str) -> None:
        self.Identity(value)
        self.nodes[-1].output[0] = name
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))

    def dense(self, x: str, features: int, units: int, bias: bool = False) -> str:
        self.matrices.append(self.weight(features, units))
        out = self.MatMul(x, self.matrices[-1])
        return self.Add(out, self.rng.normal(size=units) / 10) if bias else out

    def conv1d(self, x: str, features: int, units: int) -> str:
        """A dense layer over the flattened rows, as GPT-2's layers are exported."""
        self.matrices.append(self.weight(features, units))
        flat = self.Gemm(self.Reshape(x, [-1, features]), self.matrices[-1], self.rng.normal(size=units) / 10)
        lead = self.Slice(self.Shape(x), [0], [2])
        return self.Reshape(flat, self.Concat(lead, [units], axis=0))

    def heads(self, x: str, count: int) -> str:
        return self.Transpose(self.Reshape(x, [0, 0, count, HEAD]), perm=[0, 2, 1, 3])

    def merged(self, x: str) -> str:
        return self.Reshape(self.Transpose(x, perm=[0, 2, 1, 3]), [0, 0, WIDTH])

    def layer_norm(self, x: str) -> str:
        return self.LayerNormalization(x, 1 + self.rng.normal(size=WIDTH) / 9, self.rng.normal(size=WIDTH) / 9, axis=-1)

    def rms_norm(self, x: str) -> str:
        mean = self.ReduceMean(self.Mul(x, x), axes=[-1], keepdims=1)
        return self.Mul(self.Div(x, self.Sqrt(self.Add(mean, 1e-6))), 1 + self.rng.normal(size=WIDTH) / 9)

    def size(self, x: str, axis: int) -> str:
        return self.Gather(self.Shape(x), axis)

    def cached(self, key: str, value: str, kv_heads: int) -> tuple[str, str]:
        """Keys and values after those of the cache; both are outputs."""
        both = []
        for name, new in (("key", key), ("value", value)):
            past = self.input(f"past_{name}", TensorProto.FLOAT, "batch", kv_heads, "past", HEAD)
            both.append(self.Concat(past, new, axis=2))
            self.output(both[-1], f"present_{name}")
        return both[0], both[1]

    def attention(self, q: str, k: str, v: str, bias: str | None = None, causal: bool = True) -> str:
        scores = self.Mul(self.MatMul(q, self.Transpose(k, perm=[0, 1, 3, 2])), HEAD**-0.5)
        if bias is not None:
            scores = self.Add(scores, bias)
        if causal:
            columns = self.Range(0, self.size(k, 2), 1)
            rows = self.Add(columns, 0)
            rows = self.Slice(rows, self.Unsqueeze(self.Sub(self.size(k, 2), self.size(q, 2)), [0]),
                              self.Unsqueeze(self.size(k, 2), [0]))  # fmt: skip
            seen = self.LessOrEqual(self.Unsqueeze(columns, [0]), self.Unsqueeze(rows, [1]))
            scores = self.Where(seen, scores, np.float32(-1e9))
        return self.merged(self.MatMul(self.Softmax(scores, axis=-1), v))

    def repeated(self, x: str, times: int) -> str:
        """Each head of keys or values ``times`` times, for groups of queries."""
        shape = self.Shape(x)
        batch, heads, length = (self.Slice(shape, [i], [i + 1]) for i in range(3))
        wide = self.Expand(self.Unsqueeze(x, [2]), self.Concat(batch, heads, [times], length, [HEAD], axis=0))
        return self.Reshape(wide, self.Concat(batch, [-1], length, [HEAD], axis=0))

    def rotated(self, x: str, positions: str, part: int) -> str:
        """The first ``part`` features of each head rotated by their positions."""
        inverse = 1 / 10000 ** (np.arange(0, part, 2, dtype="float32") / part)
        angles = self.Mul(self.Unsqueeze(self.Cast(positions, to=TensorProto.FLOAT), [-1]), inverse)
        angles = self.Unsqueeze(self.Concat(angles, angles, axis=-1), [1])
        turned = x if part == HEAD else self.Slice(x, [0], [part], [3])
        first, second = self.Split(turned, [part // 2, part // 2], axis=-1, outputs=2)
        other = self.Concat(self.Neg(second), first, axis=-1)
        turned = self.Add(self.Mul(turned, self.Cos(angles)), self.Mul(other, self.Sin(angles)))
        return turned if part == HEAD else self.Concat(turned, self.Slice(x, [part], [HEAD], [3]), axis=-1)

    def gelu(self, x: str) -> str:
        cube = self.Mul(self.Mul(x, x), x)
        inner = self.Tanh(self.Mul(self.Add(x, self.Mul(cube, 0.044715)), 0.79788456))
        return self.Mul(self.Mul(x, 0.5), self.Add(inner, 1.0))

    def model(self) -> onnx.ModelProto:
        weights = [numpy_helper.from_array(a, n) for n, a in self.weights.items()]
        graph = helper.make_graph(self.nodes, "decoder", self.inputs, self.outputs, weights)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        made.ir_version = 8
        return made


def _embedded(g: Graph) -> tuple[str, str]:
    """The embedded tokens, and the table."""
    table = g.const(g.rng.normal(size=(WORDS, WIDTH)))
    return g.Gather(table, g.input("tokens", TensorProto.INT64, "batch", "length")), table


def gpt2() -> Graph:
    """Learned positions, one projection to queries, keys and values, Gemm over flattened rows, tied embeddings."""
    g = Graph(1)
    x, table = _embedded(g)
    x = g.Add(x, g.Gather(g.weight(POSITIONS, WIDTH), g.input("positions", TensorProto.INT64, "batch", "length")))
    q, k, v = g.Split(g.conv1d(g.layer_norm(x), WIDTH, 3 * WIDTH), [WIDTH] * 3, axis=-1, outputs=3)
    q, k, v = (g.heads(t, HEADS) for t in (q, k, v))
    x = g.Add(x, g.conv1d(g.attention(q, *g.cached(k, v, HEADS)), WIDTH, WIDTH))
    x = g.Add(x, g.conv1d(g.gelu(g.conv1d(g.layer_norm(x), WIDTH, 4 * WIDTH)), 4 * WIDTH, WIDTH))
    transposed = g.Transpose(table, perm=[1, 0])
    g.tied = table, g.nodes[-1]
    g.output(g.MatMul(g.layer_norm(x), transposed), "logits")
    return g


def llama() -> Graph:
    """RMS normalization, rotary positions, two heads of keys for four of queries, SwiGLU."""
    g, kv_heads = Graph(2), 2
    x, _ = _embedded(g)
    positions = g.input("positions", TensorProto.INT64, "batch", "length")
    y = g.rms_norm(x)
    q = g.rotated(g.heads(g.dense(y, WIDTH, WIDTH), HEADS), positions, HEAD)
    k = g.rotated(g.heads(g.dense(y, WIDTH, kv_heads * HEAD), kv_heads), positions, HEAD)
    k, v = g.cached(k, g.heads(g.dense(y, WIDTH, kv_heads * HEAD), kv_heads), kv_heads)
    x = g.Add(x, g.dense(g.attention(q, g.repeated(k, 2), g.repeated(v, 2)), WIDTH, WIDTH))
    y = g.rms_norm(x)
    gate = g.dense(y, WIDTH, 3 * WIDTH)
    y = g.Mul(g.Mul(gate, g.Sigmoid(gate)), g.dense(y, WIDTH, 3 * WIDTH))
    x = g.Add(x, g.dense(y, 3 * WIDTH, WIDTH))
    g.output(g.dense(g.rms_norm(x), WIDTH, WORDS), "logits")
    return g


def neox() -> Graph:
    """Attention and feed-forward layers beside each other, a part of each head rotated, biases."""
    g = Graph(3)
    x, _ = _embedded(g)
    positions = g.input("positions", TensorProto.INT64, "batch", "length")
    qkv = g.Reshape(g.dense(g.layer_norm(x), WIDTH, 3 * WIDTH, bias=True), [0, 0, HEADS, 3 * HEAD])
    q, k, v = g.Split(g.Transpose(qkv, perm=[0, 2, 1, 3]), [HEAD] * 3, axis=-1, outputs=3)
    q, k = (g.rotated(t, positions, HEAD // 2) for t in (q, k))
    mixed = g.dense(g.attention(q, *g.cached(k, v, HEADS)), WIDTH, WIDTH, bias=True)
    inner = g.dense(g.layer_norm(x), WIDTH, 4 * WIDTH, bias=True)
    x = g.Add(g.Add(x, mixed), g.dense(g.gelu(inner), 4 * WIDTH, WIDTH, bias=True))
    g.output(g.dense(g.layer_norm(x), WIDTH, WORDS), "logits")
    return g


def falcon() -> Graph:
    """Scores with a slope by distance (ALiBi), one head of keys for all queries, logits of the last token alone."""
    g = Graph(4)
    x, _ = _embedded(g)
    y = g.layer_norm(x)
    q, k, v = g.Split(g.dense(y, WIDTH, WIDTH + 2 * HEAD), [WIDTH, HEAD, HEAD], axis=-1, outputs=3)
    k, v = g.cached(g.heads(k, 1), g.heads(v, 1), 1)
    distance = g.Cast(g.Range(0, g.size(k, 2), 1), to=TensorProto.FLOAT)
    slopes = 2.0 ** -np.arange(1, HEADS + 1, dtype="float32").reshape(1, HEADS, 1, 1)
    x = g.Add(x, g.dense(g.attention(g.heads(q, HEADS), k, v, g.Mul(distance, slopes)), WIDTH, WIDTH))
    x = g.Add(x, g.dense(g.Relu(g.dense(g.layer_norm(x), WIDTH, 4 * WIDTH)), 4 * WIDTH, WIDTH))
    last = g.Slice(x, [-1], [np.iinfo("int64").max], [1])
    g.output(g.dense(g.layer_norm(last), WIDTH, WORDS), "logits")
    return g


def t5() -> Graph:
    """A decoder that also reads an encoder's output of another dynamic length."""
    g = Graph(5)
    x, _ = _embedded(g)
    encoded = g.input("encoded", TensorProto.FLOAT, "batch", "source", WIDTH)
    y = g.rms_norm(x)
    q, k, v = (g.heads(g.dense(y, WIDTH, WIDTH), HEADS) for _ in range(3))
    x = g.Add(x, g.dense(g.attention(q, *g.cached(k, v, HEADS)), WIDTH, WIDTH))
    q = g.heads(g.dense(g.rms_norm(x), WIDTH, WIDTH), HEADS)
    k, v = (g.heads(g.dense(encoded, WIDTH, WIDTH), HEADS) for _ in range(2))
    x = g.Add(x, g.dense(g.attention(q, k, v, causal=False), WIDTH, WIDTH))
    y = g.rms_norm(x)
    y = g.Mul(g.gelu(g.dense(y, WIDTH, 2 * WIDTH)), g.dense(y, WIDTH, 2 * WIDTH))
    x = g.Add(x, g.dense(y, 2 * WIDTH, WIDTH))
    g.output(g.dense(g.rms_norm(x), WIDTH, WORDS), "logits")
    return g


DECODERS = {f.__name__: f for f in (gpt2, llama, neox, falcon, t5)}


def inputs_of(g: Graph, batch: int, past: int, length: int, source: int = 7) -> dict[str, np.ndarray]:
    """Values of the inputs for sizes."""
    sizes = {"batch": batch, "past": past, "length": length, "source": source}
    found = {}
    for value in g.inputs:
        dims = value.type.tensor_type.shape.dim
        shape = [sizes[d.dim_param] if d.dim_param else d.dim_value for d in dims]
        made = g.rng.normal(size=shape).astype("float32")
        if value.name == "tokens":
            made = g.rng.integers(0, WORDS, shape)
        elif value.name == "positions":
            made = np.broadcast_to(np.arange(past, past + length), shape)
        found[value.name] = np.ascontiguousarray(made)
    return found

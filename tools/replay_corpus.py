"""The programs whose generated code ``python -m tools replay`` compares: operators, schedules and small models.

The corpus uses only public names, since the same file runs on the code of both commits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

import numpy as np

import tvm
from tvm import relay, te

TARGETS = {
    "x86": "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512 -num-cores=4",
    "arm": "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1 -num-cores=4",
    "c": "c -num-cores=4",
    "sm_90": "cuda -arch=sm_90",
    "sm_80": "cuda -arch=sm_80",
    "opencl": "opencl",
}
# Targets with a single program each, for which the compiler has other code paths than for the targets above.
FURTHER_TARGETS = {
    "sm_90a": "cuda -arch=sm_90a",
    "sm_75": "cuda -arch=sm_75",
    "sm_53": "cuda -arch=sm_53",
    "nvptx": "nvptx -mcpu=sm_80",
    "avx2": "llvm -mtriple=x86_64-linux-gnu -mcpu=core-avx2 -num-cores=4",
    "amx": "llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids -num-cores=4",
    "a53": "llvm -device=arm_cpu -mtriple=aarch64-linux-gnu -mcpu=cortex-a53 -num-cores=4",
}
FURTHER = ("dense_f16", "conv2d_3x3", "dense_int8", "conv2d_int8", "softmax")
HOST = TARGETS["x86"]


class Weights:
    """Constants of a graph, the same in every run."""

    def __init__(self):
        self.random = np.random.RandomState(7)

    def __call__(self, *shape: int, dtype: str = "float32") -> relay.Expr:
        if dtype in ("int8", "uint8", "int32"):
            return relay.const(self.random.randint(0, 100, shape).astype(dtype), dtype)
        return relay.const((self.random.rand(*shape) - 0.5).astype(dtype), dtype)


def function(result: relay.Expr) -> tvm.IRModule:
    return tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(result), result))


def var(name: str, *shape: int, dtype: str = "float32") -> relay.Expr:
    return relay.var(name, shape=shape, dtype=dtype)


# Operators


def dense(m: int, k: int, n: int, dtype: str = "float32", out_dtype: str = "") -> relay.Expr:
    product = relay.nn.dense(var("x", m, k, dtype=dtype), Weights()(n, k, dtype=dtype), out_dtype=out_dtype)
    return product if dtype == "int8" else relay.nn.relu(product)


def matmul(m: int, k: int, n: int) -> relay.Expr:
    return relay.nn.matmul(var("x", m, k), var("y", k, n))


def batch_matmul(batch: int, m: int, k: int, n: int, dtype: str = "float32") -> relay.Expr:
    return relay.nn.batch_matmul(var("x", batch, m, k, dtype=dtype), var("y", batch, n, k, dtype=dtype))


def scaled_attention() -> relay.Expr:
    """Return attention scores of half-precision operands, one of which is scaled before it is transposed."""
    query, key = (relay.reshape(var(name, 1, 32, 64, dtype="float16"), (1, 32, 4, 16)) for name in "qk")
    query = relay.transpose(query, (0, 2, 1, 3)) * relay.const(0.25, "float16")
    query, key = (relay.reshape(x, (4, 32, 16)) for x in (query, relay.transpose(key, (0, 2, 1, 3))))
    return relay.nn.softmax(relay.nn.batch_matmul(query, key, out_dtype="float32"))


def conv(channels: int, filters: int, size: int, kernel: int, dtype: str = "float32", **attrs) -> relay.Expr:
    weights = Weights()(filters, channels // attrs.get("groups", 1), kernel, kernel, dtype=dtype)
    data = var("x", 1, channels, size, size, dtype=dtype)
    result = relay.nn.conv2d(data, weights, channels=filters, kernel_size=(kernel, kernel), **attrs)
    return result if dtype == "int8" else relay.nn.relu(relay.nn.bias_add(result, Weights()(filters, dtype=dtype)))


def pools() -> relay.Expr:
    data = var("x", 1, 24, 29, 29)
    largest = relay.nn.max_pool2d(data, (3, 3), (2, 2), padding=(1, 1))
    return relay.Tuple([largest, relay.nn.avg_pool2d(data, (2, 2), (2, 2)), relay.nn.global_avg_pool2d(data)])


def reductions() -> relay.Expr:
    data = var("x", 50, 300)
    return relay.Tuple([relay.sum(data, 1), relay.max(data, 0), relay.mean(data), relay.argmax(data, 1)])


def movements() -> relay.Expr:
    data = var("x", 6, 33, 17)
    turned = relay.transpose(data, (0, 2, 1))
    joined = relay.concatenate([relay.exp(turned), relay.strided_slice(turned, [0, 0, 2], [6, 17, 20])], axis=2)
    chosen = relay.take(data, var("i", 9, dtype="int32"), axis=1)
    return relay.Tuple([joined, chosen, relay.reshape(turned, (6, -1)), relay.tile(data, (1, 2, 1))])


def indexing() -> relay.Expr:
    data = var("x", 8, 100)
    places = var("i", 8, 10, dtype="int32")
    values, order = relay.topk(data, 5)
    scattered = relay.scatter_elements(data, places, var("u", 8, 10), axis=1)
    return relay.Tuple([values, order, scattered, relay.cumsum(data, axis=1), relay.gather(data, 1, places)])


def divisions() -> relay.Expr:
    """Return quotients of integers by integers that are known at run time."""
    x, y = var("x", 40, 30, dtype="int32"), var("y", 40, 30, dtype="int32")
    return relay.Tuple([relay.floor_divide(x, y), relay.floor_mod(x, y), relay.divide(x, y), relay.mod(x, y)])


OPERATORS: dict[str, Callable[[], relay.Expr]] = {
    "dense": lambda: dense(128, 256, 512),
    "dense_odd": lambda: dense(100, 67, 50),
    "dense_one_row": lambda: dense(1, 512, 1000),
    "dense_f16": lambda: dense(256, 512, 256, "float16"),
    "dense_int8": lambda: dense(64, 128, 256, "int8", "int32"),
    "matmul": lambda: matmul(96, 128, 64),
    "batch_matmul": lambda: batch_matmul(8, 48, 64, 48),
    "batch_matmul_f16": lambda: batch_matmul(8, 64, 64, 64, "float16"),
    "scaled_attention": scaled_attention,
    "conv2d_3x3": lambda: conv(64, 128, 28, 3, padding=(1, 1)),
    "conv2d_strided": lambda: conv(3, 32, 57, 7, strides=(2, 2), padding=(3, 3)),
    "conv2d_f16": lambda: conv(64, 64, 28, 3, "float16", padding=(1, 1)),
    "conv2d_int8": lambda: conv(32, 64, 14, 3, "int8", padding=(1, 1), out_dtype="int32"),
    "conv2d_depthwise": lambda: conv(48, 48, 28, 3, padding=(1, 1), groups=48),
    "conv2d_grouped": lambda: conv(32, 64, 14, 3, padding=(1, 1), groups=4),
    "conv2d_transpose": lambda: relay.nn.conv2d_transpose(
        var("x", 1, 16, 14, 14), Weights()(16, 8, 4, 4), strides=(2, 2), padding=(1, 1), channels=8, kernel_size=(4, 4)
    ),
    "conv1d": lambda: relay.nn.conv1d(var("x", 1, 16, 100), Weights()(24, 16, 3), padding=(1,)),
    "conv3d": lambda: relay.nn.conv3d(var("x", 1, 8, 9, 10, 11), Weights()(16, 8, 3, 3, 3), padding=(1, 1, 1)),
    "pool": pools,
    "softmax": lambda: relay.nn.softmax(var("x", 12, 197, 197)),
    "layer_norm": lambda: relay.nn.layer_norm(var("x", 50, 256), Weights()(256), Weights()(256)),
    "reductions": reductions,
    "movements": movements,
    "indexing": indexing,
    "divisions": divisions,
    "resize": lambda: relay.image.resize2d(var("x", 1, 3, 20, 21), (40, 42), method="linear"),
}


# Models


def residual_network() -> relay.Expr:
    weights = Weights()

    def layer(data: relay.Expr, channels: int, filters: int, kernel: int = 3, stride: int = 1) -> relay.Expr:
        data = relay.nn.conv2d(
            data,
            weights(filters, channels, kernel, kernel),
            strides=(stride, stride),
            padding=(kernel // 2, kernel // 2),
        )
        scale, shift, mean = weights(filters), weights(filters), weights(filters)
        return relay.nn.batch_norm(data, scale, shift, mean, relay.const(np.ones(filters, "float32")))[0]

    data = relay.nn.relu(layer(var("x", 1, 3, 64, 64), 3, 32, 7, 2))
    data = relay.nn.max_pool2d(data, (3, 3), (2, 2), padding=(1, 1))
    data = relay.nn.relu(layer(relay.nn.relu(layer(data, 32, 32)), 32, 32) + data)
    data = relay.nn.relu(layer(relay.nn.relu(layer(data, 32, 64, 3, 2)), 64, 64) + layer(data, 32, 64, 1, 2))
    data = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(data))
    return relay.nn.softmax(relay.nn.bias_add(relay.nn.dense(data, weights(100, 64)), weights(100)))


def transformer(length: int = 40, width: int = 64, heads: int = 4) -> relay.Expr:
    weights = Weights()

    def linear(data: relay.Expr, inputs: int, outputs: int) -> relay.Expr:
        flat = relay.reshape(data, (-1, inputs))
        flat = relay.nn.bias_add(relay.nn.dense(flat, weights(outputs, inputs)), weights(outputs))
        return relay.reshape(flat, (1, length, outputs))

    def by_head(data: relay.Expr, axes: tuple[int, ...]) -> relay.Expr:
        data = relay.reshape(data, (1, length, heads, width // heads))
        return relay.reshape(relay.transpose(data, axes), (heads, -1, width // heads if axes[3] == 3 else length))

    data = var("x", 1, length, width)
    query = by_head(linear(data, width, width), (0, 2, 1, 3))
    key = by_head(linear(data, width, width), (0, 2, 1, 3))
    value = by_head(linear(data, width, width), (0, 2, 3, 1))
    scores = relay.nn.softmax(relay.nn.batch_matmul(query, key) * relay.const(0.25, "float32"))
    context = relay.reshape(relay.nn.batch_matmul(scores, value), (1, heads, length, width // heads))
    context = relay.reshape(relay.transpose(context, (0, 2, 1, 3)), (1, length, width))
    data = relay.nn.layer_norm(data + linear(context, width, width), weights(width), weights(width))
    hidden = linear(data, width, 4 * width)
    hidden = hidden * (relay.const(0.5) + relay.erf(hidden * relay.const(0.70710678)) * relay.const(0.5))
    return relay.nn.layer_norm(data + linear(hidden, 4 * width, width), weights(width), weights(width))


def separable_network() -> relay.Expr:
    """Return a network in NHWC: pointwise and depthwise convolutions, sigmoid gates."""
    weights = Weights()

    def conv(data: relay.Expr, inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> relay.Expr:
        half = kernel // 2
        return relay.nn.conv2d(
            data, weights(kernel, kernel, inputs, outputs), strides=(stride, stride), padding=(half, half),
            data_layout="NHWC", kernel_layout="HWIO",
        )  # fmt: skip

    data = relay.clip(conv(var("x", 1, 48, 48, 3), 3, 16, 3, 2), 0, 6)
    data = relay.nn.conv2d(
        data, weights(3, 3, 16, 1), padding=(1, 1), groups=16, channels=16, kernel_size=(3, 3), data_layout="NHWC",
        kernel_layout="HWOI",
    )  # fmt: skip
    gate = relay.sigmoid(conv(relay.mean(data, axis=(1, 2), keepdims=True), 16, 16))
    data = conv(data * gate, 16, 24)
    return relay.nn.avg_pool2d(relay.clip(data, 0, 6), (2, 2), (2, 2), layout="NHWC")


def quantized_network() -> relay.Expr:
    weights, zero = Weights(), relay.const(0, "int32")

    def scale(value: float) -> relay.Expr:
        return relay.const(value, "float32")

    def requantized(data: relay.Expr, axis: int) -> relay.Expr:
        return relay.qnn.op.requantize(data, scale(0.002), zero, scale(0.1), zero, axis=axis, out_dtype="int8")

    data = relay.qnn.op.quantize(var("x", 1, 8, 14, 14), scale(0.05), zero, out_dtype="int8")
    data = relay.qnn.op.conv2d(
        data, weights(32, 8, 3, 3, dtype="int8"), zero, zero, scale(0.05), scale(0.04), kernel_size=(3, 3), channels=32,
        padding=(1, 1),
    )  # fmt: skip
    data = requantized(relay.nn.bias_add(data, weights(32, dtype="int32")), 1)
    data = relay.nn.batch_flatten(relay.nn.max_pool2d(data, (2, 2), (2, 2)))
    data = relay.qnn.op.dense(
        data, weights(20, 32 * 49, dtype="int8"), zero, zero, scale(0.1), scale(0.02), units=20, out_dtype="int32"
    )
    return relay.qnn.op.dequantize(requantized(data, 1), scale(0.1), zero)


def half_precision(result: relay.Expr) -> tvm.IRModule:
    return relay.transform.ToMixedPrecision("float16")(relay.transform.InferType()(function(result)))


MODELS: dict[str, Callable[[], tvm.IRModule]] = {
    "residual_network": lambda: function(residual_network()),
    "residual_network_f16": lambda: half_precision(residual_network()),
    "transformer": lambda: function(transformer()),
    "transformer_f16": lambda: half_precision(transformer()),
    "separable_network": lambda: function(separable_network()),
    "quantized_network": lambda: function(quantized_network()),
}


# Programs with dynamic shapes


def open_attention() -> relay.Expr:
    length = relay.Any()
    query, key = (relay.var(name, shape=(4, length, 16)) for name in "qk")
    return relay.nn.softmax(relay.nn.batch_matmul(query, key))


def open_conv() -> relay.Expr:
    data = relay.var("x", shape=(relay.Any(), 16, relay.Any(), 28))
    result = relay.nn.conv2d(data, Weights()(32, 16, 3, 3), padding=(1, 1), channels=32, kernel_size=(3, 3))
    return relay.nn.max_pool2d(relay.nn.relu(result), (2, 2), (2, 2))


def open_movements() -> relay.Expr:
    data = relay.var("x", shape=(relay.Any(), 33))
    padded = relay.nn.pad(data, ((1, 2), (0, 3)))
    return relay.Tuple([relay.concatenate([data, relay.exp(data)], axis=0), padded, relay.sum(data, 0)])


OPEN: dict[str, Callable[[], relay.Expr]] = {
    "open_dense": lambda: relay.nn.relu(relay.nn.dense(relay.var("x", shape=(relay.Any(), 64)), Weights()(96, 64))),
    "open_attention": open_attention,
    "open_conv": open_conv,
    "open_movements": open_movements,
}
OPEN_TARGETS = ("x86", "arm", "sm_80")


# Explicit schedules


def scheduled_matmul(on_gpu: bool) -> tuple[te.Schedule, list[te.Tensor]]:
    a, b = te.placeholder((100, 64), name="a"), te.placeholder((64, 72), name="b")
    k = te.reduce_axis((0, 64), name="k")
    c = te.compute((100, 72), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    schedule = te.create_schedule(c.op)
    outer_i, outer_j, i, j = schedule[c].tile(*c.op.axis, 16, 8)
    outer_k, inner_k = schedule[c].split(k, factor=4)
    if on_gpu:
        schedule[c].bind(outer_i, te.thread_axis("blockIdx.y"))
        schedule[c].bind(outer_j, te.thread_axis("blockIdx.x"))
        schedule[c].bind(i, te.thread_axis("threadIdx.y"))
        schedule[c].bind(j, te.thread_axis("threadIdx.x"))
        schedule[c].reorder(outer_k, inner_k)
        shared = schedule.cache_read(a, "shared", [c])
        schedule[shared].compute_at(schedule[c], outer_k)
        schedule[shared].bind(schedule[shared].op.axis[0], te.thread_axis("threadIdx.y"))
    else:
        schedule[c].reorder(outer_i, outer_j, outer_k, inner_k, i, j)
        schedule[c].vectorize(j)
        schedule[c].unroll(inner_k)
        schedule[c].parallel(outer_i)
    return schedule, [a, b, c]


def scheduled_sum(on_gpu: bool) -> tuple[te.Schedule, list[te.Tensor]]:
    """Return a reduction with its partial sums as a separate stage; on a GPU, threads add them up together."""
    a = te.placeholder((30, 1000), name="a")
    k = te.reduce_axis((0, 1000), name="k")
    b = te.compute((30,), lambda i: te.sum(a[i, k], axis=k), name="b")
    schedule = te.create_schedule(b.op)
    _, inner = schedule[b].split(k, factor=64)
    partial = schedule.rfactor(b, inner)
    if on_gpu:
        schedule[b].bind(schedule[b].op.axis[0], te.thread_axis("blockIdx.x"))
        thread = te.thread_axis("threadIdx.x")
        schedule[b].bind(schedule[b].op.reduce_axis[0], thread)
        schedule[partial].compute_at(schedule[b], schedule[b].op.reduce_axis[0])
        schedule[b].set_store_predicate(thread.var.equal(0))
    else:
        schedule[partial].parallel(schedule[partial].op.axis[1])
    return schedule, [a, b]


SCHEDULES = {"scheduled_matmul": scheduled_matmul, "scheduled_sum": scheduled_sum}


def cases() -> Iterator[tuple[str, str, str]]:
    """Return (kind, program, target name) of every case, the large ones first."""
    for kind, names in (("model", MODELS), ("operator", OPERATORS), ("schedule", SCHEDULES)):
        yield from ((kind, name, target) for name in names for target in TARGETS)
    yield from (("operator", name, target) for name in FURTHER for target in FURTHER_TARGETS)
    yield from (("open", name, target) for name in OPEN for target in OPEN_TARGETS)


def generate(kind: str, name: str, target_name: str) -> dict[str, str]:
    """Return suffix -> text of everything that the compiler generates from a program for a target."""
    target = tvm.target.Target({**TARGETS, **FURTHER_TARGETS}[target_name])
    on_gpu = "gpu" in target.keys
    if on_gpu:
        target = tvm.target.Target(target, host=HOST)
    if kind == "schedule":
        schedule, arguments = SCHEDULES[name](on_gpu)
        return texts(tvm.build(schedule, arguments, target, name=name))
    if kind == "open":
        with tvm.transform.PassContext(opt_level=3):
            executable = relay.vm.compile(function(OPEN[name]()), target)
        return {**texts(executable.lib), "bytecode": executable.bytecode}
    mod = MODELS[name]() if kind == "model" else function(OPERATORS[name]())
    with tvm.transform.PassContext(opt_level=3):
        factory = relay.build(mod, target=target)
    return {
        **texts(factory.get_lib()),
        "graph.json": factory.get_graph_json() + "\n",
        "params": digests(factory.get_params()),
    }


def texts(library) -> dict[str, str]:
    """Return the host code, as LLVM IR or C, and the code of kernels."""
    host = library.get_source("ll") if library.type_key == "llvm" else library.get_source()
    kernels = {f"kernels.{module.type_key}": module.get_source() for module in library.imported_modules}
    return {f"host.{'ll' if library.type_key == 'llvm' else 'c'}": host, **kernels}


def digests(params) -> str:
    """Return a line for each constant of a graph: passes change weights, too."""
    lines = []
    for name, value in sorted(params.items()):
        array = value.numpy()
        lines.append(f"{name} {array.dtype} {array.shape} {hashlib.sha256(array.tobytes()).hexdigest()[:16]}\n")
    return "".join(lines)

"""Cases of operations of ML programs."""

from __future__ import annotations

import math

import numpy as np
import references as ref
from cases import Fixed, Group

RNG = np.random.default_rng(18)


def data(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return RNG.uniform(low, high, shape).astype("float32")


# -- single elements --------------------------------------------------------------------------------------------------

g = Group("single elements", "program")
x, near, above = data(2, 3, 5), data(2, 7, low=-0.9, high=0.9), data(3, 5, low=0.2, high=3)
for name, function in {
    "abs": np.abs,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": ref.erf,
    "exp": np.exp,
    "floor": np.floor,
    "sign": np.sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "tan": np.tan,
    "tanh": np.tanh,
    "atan": np.arctan,
    "exp2": np.exp2,
    "square": np.square,
    "identity": lambda v: v,
    "round": np.round,
    "sigmoid": ref.sigmoid,
    "silu": lambda v: v * ref.sigmoid(v),
    "relu": lambda v: np.maximum(v, 0),
    "relu6": lambda v: np.clip(v, 0, 6),
    "softplus": lambda v: np.log1p(np.exp(v)),
    "softsign": lambda v: v / (1 + np.abs(v)),
}.items():
    given = np.array([-2.5, -0.5, 0.0, 0.4, 1.5, 2.5, 7.0], "float32") if name in ("round", "relu6", "sign") else x
    g.add(name, function(given), x=given, tolerance=2e-5)
g.add("relu/half", np.maximum(x, 0), x=x.astype("float16"), tolerance=2e-3)
for name, function in {"acos": np.arccos, "asin": np.arcsin, "atanh": np.arctanh}.items():
    g.add(name, function(near), x=near)
g.add("sqrt", np.sqrt(above), x=above)
g.add("log", np.log(above), x=above)
g.add("log/epsilon", np.log(above + 0.5), x=above, epsilon=0.5)
g.add("rsqrt", 1 / np.sqrt(above), x=above)
g.add("rsqrt/epsilon", 1 / np.sqrt(above + 0.25), x=above, epsilon=0.25)
g.add("inverse", 1 / (above + 1e-4), x=above)
g.add("threshold", np.maximum(x, 0.3), x=x, alpha=0.3)
g.add("clip", np.clip(x, -0.5, 0.7), x=x, alpha=-0.5, beta=0.7)
g.add("cast", np.trunc(x).astype("int32"), x=x, dtype="int32")
g.add("cast/bool", np.array([0.0, 0.5, -1.0]) != 0, x=np.array([0.0, 0.5, -1.0], "float32"), dtype="bool")
g.add("cast/half", x, x=x, dtype="fp16", tolerance=2e-3)
g.add("leaky_relu", np.where(x < 0, 0.1 * x, x), x=x, alpha=0.1)
g.add("clamped_relu", np.minimum(np.where(x < 0, 0.1 * x, x), 1.2), x=x, alpha=0.1, beta=1.2)
g.add("thresholded_relu", np.where(x >= 0.6, x, 0), x=x, alpha=0.6)
g.add("elu", np.where(x < 0, 1.5 * np.expm1(np.minimum(x, 0)), x), x=x, alpha=1.5)
g.add("elu/large", np.array([-1.0, 200.0]), x=np.array([-200.0, 200.0], "float32"), alpha=1.0)
g.add("scaled_tanh", 1.7 * np.tanh(0.6 * x), x=x, alpha=1.7, beta=0.6)
g.add("sigmoid_hard", np.clip(0.2 * x + 0.5, 0, 1), x=4 * x, alpha=0.05, beta=0.5)
g.add("linear_activation", 2 * x - 0.5, x=x, alpha=2.0, beta=-0.5)
g.add("softplus/large", np.array([0.0, 300.0]), x=np.array([-300.0, 300.0], "float32"))
g.add("gelu", 0.5 * x * (1 + ref.erf(x / math.sqrt(2))), x=x)
g.add(
    "gelu/tanh", 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), x=x, mode="TANH_APPROXIMATION"
)
g.add("gelu/sigmoid", x * ref.sigmoid(1.702 * x), x=x, mode="SIGMOID_APPROXIMATION")
slope = data(3)
g.add("prelu", np.where(x < 0, x * slope[:, None], x), x=x, alpha=Fixed(slope))
rates = data(3, low=0.5)
image = data(1, 3, 2, 4)
g.add(
    "softplus_parametric",
    slope[:, None, None] * np.log1p(np.exp(rates[:, None, None] * image)),
    x=image,
    alpha=Fixed(slope),
    beta=Fixed(rates),
)
g.add("softmax", ref.softmax(x, -1), x=x)
g.add("softmax/axis", ref.softmax(x, 1), x=x, axis=-2)

g = Group("two tensors", "program")
a, b = data(2, 1, 5), data(3, 5, low=0.5)
whole, by = np.arange(-6, 6, dtype="int32").reshape(3, 4), np.array([3, -2, 5, 4], "int32")
for name, function in {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "real_div": np.divide,
    "floor_div": np.floor_divide,
    "mod": np.mod,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
}.items():
    g.add(name, function(a, b), x=a, y=b, tolerance=2e-5)
g.add("floor_div/whole", whole // by, x=whole, y=by)
g.add("mod/whole", whole % by, x=whole, y=by)
g.add("equal", whole == by, x=whole, y=by)
g.add("not_equal", whole != by, x=whole, y=by)
g.add("add/constant", a + 0.5, x=a, y=0.5)
g.add("pow", np.power(b, a), x=b, y=a, tolerance=1e-4)
g.add("pow/square", a * a, x=a, y=2.0)
g.add("pow/cube", a**3, x=a, y=3.0, tolerance=1e-4)
t, u = np.array([[True, False], [True, True]]), np.array([True, False])
g.add("logical_and", t & u, x=t, y=u)
g.add("logical_or", t | u, x=t, y=u)
g.add("logical_xor", t ^ u, x=t, y=u)
g.add("logical_not", ~t, x=t)
g.add(
    "select",
    np.where(t, 1.5, data(2, 2) * 0 + 2),
    cond=t,
    a=np.full((2, 2), 1.5, "float32"),
    b=np.full(2, 2, "float32"),
)
q = np.array([[-128, 0, 127], [5, -7, 90]], "int8")
g.add(
    "dequantize",
    (q.astype("float32") - np.array([[3], [-4]])) * np.array([[0.5], [0.25]]),
    input=q,
    scale=Fixed(np.array([0.5, 0.25], "float32")),
    zero_point=Fixed(np.array([3, -4], "int8")),
    axis=0,
)
r = np.array([[-0.2, 1.0, 70.0], [-80.0, 0.4, 2.0]], "float32")
g.add(
    "quantize",
    np.clip(np.round(r / 0.5) + 3, -128, 127).astype("int8"),
    input=r,
    scale=0.5,
    zero_point=Fixed(np.int8(3)),
    output_dtype="int8",
)

# -- networks ---------------------------------------------------------------------------------------------------------

g = Group("convolutions", "program")
x, w, bias = data(2, 4, 7, 6), data(6, 2, 3, 2), data(6)
g.add(
    "conv",
    ref.conv(x, w, bias, [2, 1], [1, 0], [0, 2], [1, 2], 2),
    x=x,
    weight=Fixed(w),
    bias=Fixed(bias),
    strides=[2, 1],
    pad_type="custom",
    pad=[1, 0, 0, 2],
    dilations=[1, 2],
    groups=2,
    tolerance=1e-4,
)
g.add(
    "conv/same",
    ref.conv(x, w, None, [2, 2], [1, 0], [1, 0], None, 2),
    x=x,
    weight=Fixed(w),
    strides=[2, 2],
    pad_type="same",
    groups=2,
    tolerance=1e-4,
)
g.add(
    "conv/same lower",
    ref.conv(x, w, None, [1, 1], [1, 1], [1, 0], None, 2),
    x=x,
    weight=Fixed(w),
    strides=[1, 1],
    pad_type="same_lower",
    groups=2,
    tolerance=1e-4,
)
row, taps = data(1, 3, 9), data(4, 3, 3)
g.add("conv/one dimension", ref.conv(row, taps), x=row, weight=Fixed(taps), tolerance=1e-4)
room, cube = data(1, 2, 4, 5, 3), data(3, 2, 2, 3, 2)
g.add("conv/three dimensions", ref.conv(room, cube), x=room, weight=Fixed(cube), tolerance=1e-4)
g.add("conv/half", ref.conv(row, taps), x=row.astype("float16"), weight=Fixed(taps.astype("float16")), tolerance=1e-2)
wt = data(4, 3, 3, 2)
g.add(
    "conv_transpose",
    ref.conv_transpose(x, wt, bias, [2, 3], [1, 0], [0, 1], 2),
    x=x,
    weight=Fixed(wt),
    bias=Fixed(bias),
    strides=[2, 3],
    pad_type="custom",
    pad=[1, 0, 0, 1],
    groups=2,
    tolerance=1e-4,
)
g.add(
    "conv_transpose/same",
    ref.conv_transpose(x, wt, None, [2, 3], [0, 0], [1, 0], 2, extra=[0, 1]),
    x=x,
    weight=Fixed(wt),
    strides=[2, 3],
    pad_type="same",
    groups=2,
    tolerance=1e-4,
)
g.add(
    "conv_transpose/dilated",
    ref.conv_transpose(x, wt, None, [1, 1], groups=2, dilations=[2, 1]),
    x=x,
    weight=Fixed(wt),
    dilations=[2, 1],
    groups=2,
    tolerance=1e-4,
)
g.add(
    "conv_transpose/sized",
    ref.conv_transpose(x, wt, None, [2, 2], [0, 0], [1, 0], 2),
    x=x,
    weight=Fixed(wt),
    strides=[2, 2],
    groups=2,
    output_shape=[2, 6, 14, 12],
    tolerance=1e-4,
)
m, n = data(2, 3, 5), data(4, 5)
g.add("linear", m @ n.T + data(4) * 0 + 1, x=m, weight=Fixed(n), bias=Fixed(np.ones(4, "float32")), tolerance=1e-4)
g.add("matmul", m @ data(5, 2) * 0 + m @ np.ones((5, 2)), x=m, y=np.ones((5, 2), "float32"), tolerance=1e-4)
p = data(2, 5, 4)
g.add(
    "matmul/transposed",
    np.swapaxes(m @ p, 0, 0),
    x=np.swapaxes(m, 1, 2).copy(),
    y=np.swapaxes(p, 1, 2).copy(),
    transpose_x=True,
    transpose_y=True,
    tolerance=1e-4,
)
g.add("matmul/vector", m[0] @ p[0][:, 0], x=m[0], y=p[0][:, 0].copy(), tolerance=1e-4)
g.add("matmul/half", m @ p, x=m.astype("float16"), y=p.astype("float16"), tolerance=1e-2)
e1, e2 = data(2, 3, 4, 5), data(2, 5, 4, 6)
g.add("einsum", np.einsum("nchw,nwhu->nchu", e1, e2), values=[e1, e2], equation="nchw,nwhu->nchu", tolerance=1e-4)
query, key, value = data(2, 3, 4), data(2, 5, 4), data(2, 5, 6)
mask = RNG.random((3, 5)) > 0.3
mask[:, 0] = True
scores = np.where(mask, query @ np.swapaxes(key, 1, 2) / 2, -np.inf)
g.add(
    "scaled_dot_product_attention",
    ref.softmax(scores, -1) @ value,
    query=query,
    key=key,
    value=value,
    attn_mask=mask,
    tolerance=1e-4,
)

g = Group("pooling", "program")
x = data(2, 3, 7, 8)
for name, kind in (("max_pool", "max"), ("avg_pool", "average"), ("l2_pool", "l2")):
    g.add(
        name,
        ref.pool(x, kind, [3, 2], [2, 1], [1, 0], [0, 1]),
        x=x,
        kernel_sizes=[3, 2],
        strides=[2, 1],
        pad_type="custom",
        pad=[1, 0, 0, 1],
        tolerance=1e-4,
    )
    g.add(
        f"{name}/ceil",
        ref.pool(x, kind, [3, 3], [2, 3], [1, 1], [1, 1], ceil=True),
        x=x,
        kernel_sizes=[3, 3],
        strides=[2, 3],
        pad_type="custom",
        pad=[1, 1, 1, 1],
        ceil_mode=True,
        tolerance=1e-4,
    )
g.add(
    "avg_pool/same without padding",
    ref.pool(x, "average", [2, 3], [2, 2], [0, 0], [1, 1], exclude=True),
    x=x,
    kernel_sizes=[2, 3],
    strides=[2, 2],
    pad_type="same",
    exclude_padding_from_average=True,
    tolerance=1e-4,
)
g.add(
    "max_pool/one dimension", ref.pool(x[0], "max", [3], [2]), x=x[0], kernel_sizes=[3], strides=[2], pad_type="valid"
)
g.add(
    "avg_pool/three dimensions",
    ref.pool(x[None], "average", [2, 3, 2], [1, 2, 2]),
    x=x[None],
    kernel_sizes=[2, 3, 2],
    strides=[1, 2, 2],
    pad_type="valid",
    tolerance=1e-4,
)

g = Group("normalization", "program")
x = data(2, 3, 4, 5)
mean, var, gamma, beta = data(3), data(3, low=0.3), data(3), data(3)


def along(v):
    return v[:, None, None]


g.add(
    "batch_norm",
    along(gamma) * (x - along(mean)) / np.sqrt(along(var) + 1e-3) + along(beta),
    x=x,
    mean=Fixed(mean),
    variance=Fixed(var),
    gamma=Fixed(gamma),
    beta=Fixed(beta),
    epsilon=1e-3,
    tolerance=1e-4,
)
g.add(
    "batch_norm/plain",
    (x - along(mean)) / np.sqrt(along(var) + 1e-5),
    x=x,
    mean=Fixed(mean),
    variance=Fixed(var),
    tolerance=1e-4,
)
g.add(
    "instance_norm",
    along(gamma) * ref.normal(x, (2, 3), 1e-3) + along(beta),
    x=x,
    gamma=Fixed(gamma),
    beta=Fixed(beta),
    epsilon=1e-3,
    tolerance=1e-4,
)
last = data(5)
g.add(
    "layer_norm",
    ref.normal(x, (3,), 1e-5) * last + 1,
    x=x,
    axes=[-1],
    gamma=Fixed(last),
    beta=Fixed(np.ones(5, "float32")),
    tolerance=1e-4,
)
two = data(4, 5)
g.add("layer_norm/two axes", ref.normal(x, (2, 3), 1e-5) * two, x=x, axes=[2, 3], gamma=Fixed(two), tolerance=1e-4)
g.add("l2_norm", x / np.sqrt((x**2).sum((1, 2, 3), keepdims=True) + 1e-6), x=x, tolerance=1e-4)
g.add("local_response_norm", ref.lrn(x, 1, 3, 0.5, 0.6, 2), x=x, size=3, alpha=0.5, beta=0.6, k=2.0, tolerance=1e-4)
g.add(
    "local_response_norm/even", ref.lrn(x, 1, 2, 0.5, 0.6, 2), x=x, size=2, alpha=0.5, beta=0.6, k=2.0, tolerance=1e-4
)

g = Group("reductions", "program")
x = data(2, 3, 4)
above = data(2, 3, 4, low=0.1)
for name, function in {"sum": np.sum, "mean": np.mean, "prod": np.prod, "max": np.max, "min": np.min}.items():
    g.add(f"reduce_{name}", function(x, axis=(0, 2)), x=x, axes=[0, -1], tolerance=1e-4)
g.add("reduce_sum/all", x.sum(), x=x, tolerance=1e-4)
g.add("reduce_mean/kept", x.mean(1, keepdims=True), x=x, axes=[1], keep_dims=True, tolerance=1e-4)
g.add("reduce_l1_norm", np.abs(x).sum(1), x=x, axes=[1], tolerance=1e-4)
g.add("reduce_l2_norm", np.sqrt((x**2).sum(1)), x=x, axes=[1], tolerance=1e-4)
g.add("reduce_sum_square", (x**2).sum(1), x=x, axes=[1], tolerance=1e-4)
g.add("reduce_log_sum", np.log(above.sum(1)), x=above, axes=[1], tolerance=1e-4)
g.add("reduce_log_sum_exp", np.log(np.exp(x).sum(1)), x=x, axes=[1], tolerance=1e-4)
g.add("reduce_argmax", x.argmax(1).astype("int32"), x=x, axis=1)
g.add("reduce_argmin", x.argmin(2)[..., None].astype("int32"), x=x, axis=-1, keep_dims=True)
g.add("argsort", np.argsort(-x, 1, kind="stable").astype("int32"), x=x, axis=1)
g.add("argsort/ascending", np.argsort(x, -1, kind="stable").astype("int32"), x=x, ascending=True)
order = np.argsort(-x, 1, kind="stable")[:, :2]
g.add("topk", [np.take_along_axis(x, order, 1), order.astype("int32")], x=x, k=2, axis=1)
order = np.argsort(x, 2, kind="stable")[..., :3]
g.add("topk/smallest", [np.take_along_axis(x, order, 2), order.astype("int32")], x=x, k=3, ascending=True)
g.add("cumsum", x.cumsum(1), x=x, axis=1, tolerance=1e-4)
g.add(
    "cumsum/exclusive backwards",
    x[:, ::-1].cumsum(1)[:, ::-1] - x,
    x=x,
    axis=1,
    exclusive=True,
    reverse=True,
    tolerance=1e-4,
)

# -- shapes -----------------------------------------------------------------------------------------------------------

g = Group("shapes", "program")
x = data(2, 3, 4)
g.add("reshape", x.reshape(2, 12), x=x, shape=[2, -1])
g.add("reshape/kept", x.reshape(2, 6, 2), x=x, shape=[0, 6, -1])
g.add(
    "reshape_like",
    x.reshape(4, 6),
    x=x,
    ref_tensors=[data(4, 5), data(1, 6)],
    begins=(0, 1),
    ends=(1, 0),
    end_masks=(False, True),
)
g.add("transpose", x.transpose(2, 0, 1), x=x, perm=[-1, 0, 1])
g.add("expand_dims", x[:, None, :, :, None], x=x, axes=[1, -1])
g.add("squeeze", x.reshape(2, 3, 4), x=x.reshape(1, 2, 3, 1, 4), axes=[0, 3])
g.add("squeeze/all", x[0, 0], x=x[:1, :1].copy())
g.add("flatten2d", x.reshape(6, 4), x=x, axis=-1)
g.add("shape", np.array([2, 3, 4], "int32"), x=x)
g.add(
    "slice_by_index",
    x[:, 2:0:-1, 1::2],
    x=x,
    begin=[0, 2, 1],
    end=[9, 0, 0],
    stride=[1, -1, 2],
    begin_mask=[True, False, False],
    end_mask=[True, False, True],
)
g.add(
    "slice_by_index/one place",
    x[:, -1, :3],
    x=x,
    begin=[0, -1, 0],
    end=[0, 0, 3],
    end_mask=[True, False, False],
    squeeze_mask=[False, True, False],
)
g.add(
    "slice_by_index/late",
    x[1:2, :, 1:],
    x=x,
    begin=np.array([1, 0, 1], "int32"),
    end=np.array([2, 0, 0], "int32"),
    end_mask=[False, True, True],
)
g.add("slice_by_size", x[1:, 1:3, :3], x=x, begin=[1, 1, 0], size=[-1, 2, 3])
g.add("slice_by_size/late", x[1:, 1:3, :3], x=x, begin=np.array([1, 1, 0], "int32"), size=[1, 2, 3])
new = x.copy()
new[:, 1, ::2] = 7
g.add(
    "slice_update",
    new,
    x=x,
    update=np.full((2, 2), 7, "float32"),
    begin=[0, 1, 0],
    end=[2, 2, 4],
    stride=[1, 1, 2],
    squeeze_mask=[False, True, False],
)
y = data(2, 3, 4)
g.add("concat", np.concatenate([x, y, x], 1), values=[x, y, x], axis=-2)
g.add("concat/interleaved", np.stack([x, y], 2).reshape(2, 6, 4), values=[x, y], axis=1, interleave=True)
g.add("split", np.split(x, 2, 2), x=x, num_splits=2, axis=-1)
g.add("split/sizes", [x[:, :, :1], x[:, :, 1:]], x=x, split_sizes=[1, 3], axis=2)
g.add("stack", np.stack([x, y], 3), values=[x, y], axis=-1)
g.add("tile", np.tile(x, (1, 2, 3)), x=x, reps=[1, 2, 3])
g.add("reverse", x[::-1, :, ::-1], x=x, axes=[0, -1])
rows = data(3, 4)
turned = np.stack([np.concatenate([row[:k][::-1], row[k:]]) for row, k in zip(rows, (2, 4, 1))])
g.add("reverse_sequence", turned, x=rows, lengths=np.array([2, 4, 1], "int32"), seq_axis=1, batch_axis=0)
g.add("pad", np.pad(x, [(0, 0), (1, 0), (2, 1)], constant_values=0.5), x=x, pad=[1, 0, 2, 1], constant_val=0.5)
g.add("pad/reflect", np.pad(x, [(0, 0), (2, 1), (0, 3)], mode="reflect"), x=x, pad=[2, 1, 0, 3], mode="reflect")
g.add("pad/replicate", np.pad(x, [(0, 0), (2, 1), (0, 4)], mode="edge"), x=x, pad=[2, 1, 0, 4], mode="replicate")
g.add("pad/late", np.pad(x, [(1, 0), (0, 0), (2, 1)]), x=x, pad=np.array([1, 0, 0, 0, 2, 1], "int32"))
blocks = data(2, 8, 4, 6)
g.add("depth_to_space", ref.depth_to_space(blocks, 2, "DCR"), x=blocks, block_size=2)
g.add("pixel_shuffle", ref.depth_to_space(blocks, 2, "CRD"), x=blocks, upscale_factor=2)
g.add("space_to_depth", ref.space_to_depth(blocks, 2), x=blocks, block_size=2)
g.add("pixel_unshuffle", blocks, x=ref.depth_to_space(blocks, 2, "CRD").astype("float32"), downscale_factor=2)
wide = np.pad(blocks, [(0, 0), (0, 0), (1, 1), (0, 2)])
parts = wide.reshape(2, 8, 3, 2, 4, 2).transpose(3, 5, 0, 1, 2, 4).reshape(8, 8, 3, 4)
g.add("space_to_batch", parts, x=blocks, block_shape=[2, 2], paddings=np.array([[1, 1], [0, 2]]).tolist())
g.add(
    "batch_to_space",
    wide[:, :, 1:, :7],
    x=parts.astype("float32"),
    block_shape=[2, 2],
    crops=np.array([[1, 0], [0, 1]]).tolist(),
)
line = data(2, 7)
g.add("sliding_windows", np.stack([line[:, 0:3], line[:, 2:5], line[:, 4:7]], 1), x=line, axis=1, size=3, stride=2)
g.add("fill", np.full((2, 3), 1.5, "float32"), shape=[2, 3], value=1.5)
g.add("fill_like", np.full((2, 3, 4), 2.5, "float32"), ref_tensor=x, value=2.5)
g.add("range_1d", np.arange(1, 8, 3).astype("int32"), start=1, end=8, step=3)
g.add("range_1d/late", np.arange(1, 8, 3).astype("int32"), start=1, end=np.array(8, "int32"), step=3)
square = data(2, 4, 5)
away = np.arange(4)[:, None] - np.arange(5)[None]
g.add("band_part", np.where((away <= 1) & (-away <= 2), square, 0), x=square, lower=1, upper=2)
g.add(
    "one_hot",
    np.eye(4)[[2, 0, 3]] * 2.5 - 1,
    indices=np.array([2, 0, 3], "int32"),
    one_hot_vector_size=4,
    on_value=1.5,
    off_value=-1.0,
)
g.add(
    "one_hot/axis",
    np.eye(4, dtype="int32")[[2, 0, 3]].T,
    indices=np.array([2, 0, 3], "int32"),
    one_hot_vector_size=4,
    axis=0,
)

# -- places -----------------------------------------------------------------------------------------------------------

g = Group("places", "program")
x = data(3, 4, 5)
places = np.array([[2, -1], [0, 1]], "int32")
g.add("gather", x[:, places], x=x, indices=places, axis=1)
g.add(
    "gather/batches",
    np.stack([x[i][np.array([[0, 3], [1, 1], [2, -4]])[i]] for i in range(3)]),
    x=x,
    indices=np.array([[0, 3], [1, 1], [2, -4]], "int32"),
    axis=1,
    batch_dims=1,
)
deep = RNG.integers(-4, 4, (3, 2, 5)).astype("int32")
g.add("gather_along_axis", np.take_along_axis(x, deep % 4, 1), x=x, indices=deep, axis=1)
points = np.array([[0, 1], [2, -1]], "int32")
g.add("gather_nd", x[[0, 2], [1, -1]], x=x, indices=points)
updates = data(2, 4, 5)
for mode, build in {
    "update": lambda a, b: b,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
}.items():
    out = x.copy()
    out[[2, 0]] = build(out[[2, 0]], updates)
    g.add(
        f"scatter/{mode}",
        out,
        data=x,
        indices=np.array([-1, 0], "int32"),
        updates=updates,
        axis=0,
        mode=mode,
        tolerance=1e-4,
    )
out = x.copy()
out[:, [3, 1]] += data(3, 2, 5) * 0 + 1
g.add(
    "scatter/axis",
    out,
    data=x,
    indices=np.array([3, 1], "int32"),
    updates=np.ones((3, 2, 5), "float32"),
    axis=1,
    mode="add",
)
out = x.copy()
out[[0, 2], [1, 3]] = 9
g.add("scatter_nd", out, data=x, indices=points, updates=np.full((2, 5), 9, "float32"), mode="update")
out = x.copy()
np.put_along_axis(out, np.array([[[1, 0, 2, 3, 1]]] * 3), 4.0, 1)
g.add(
    "scatter_along_axis",
    out,
    data=x,
    indices=np.array([[[1, 0, -2, 3, 1]]] * 3, "int32"),
    updates=np.full((3, 1, 5), 4, "float32"),
    axis=1,
    mode="update",
)
sparse = np.array([[0, 2.0, 0], [1, 0, -3]], "float32")
g.add("non_zero", np.argwhere(sparse).astype("int32"), x=sparse)
boxes = np.concatenate([data(1, 9, 2, low=0, high=4), data(1, 9, 2, low=1, high=3)], 2)
ranks = data(1, 9, 3, low=0, high=1)
for per_class in (False, True):
    kept = ref.suppressed(boxes[0], ranks[0], 0.3, 0.5, 4, per_class)
    full = np.zeros((1, 4, 4)), np.zeros((1, 4, 3)), np.full((1, 4), -1, "int32"), np.array([len(kept)], "int32")
    full[0][0, : len(kept)], full[1][0, : len(kept)], full[2][0, : len(kept)] = boxes[0, kept], ranks[0, kept], kept
    g.add(
        "non_maximum_suppression" + ("/per class" if per_class else ""),
        list(full),
        boxes=boxes,
        scores=ranks,
        iou_threshold=0.3,
        score_threshold=0.5,
        max_boxes=4,
        per_class_suppression=per_class,
    )

# -- images -----------------------------------------------------------------------------------------------------------

g = Group("images", "program")
x = data(1, 2, 4, 5)
for mode in ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "DEFAULT", "OFFSET_CORNERS", "UNALIGN_CORNERS"):
    g.add(
        f"resize_bilinear/{mode}",
        ref.resize(x, 7, 3, mode),
        x=x,
        target_size_height=7,
        target_size_width=3,
        sampling_mode=mode,
        tolerance=1e-4,
    )
g.add(
    "resize_bilinear/one point",
    ref.resize(x, 1, 1, "ALIGN_CORNERS"),
    x=x,
    target_size_height=1,
    target_size_width=1,
    sampling_mode="ALIGN_CORNERS",
    tolerance=1e-4,
)
g.add(
    "resize",
    ref.resize(x, 6, 5, "UNALIGN_CORNERS"),
    x=x,
    shape=[9, 6, 0],
    resized_dims=2,
    sampling_mode="UNALIGN_CORNERS",
    tolerance=1e-4,
)
g.add("resize/nearest", ref.nearest(x, 7, 9), x=x, shape=[7, 9], resized_dims=2, interpolation_mode="NEAREST_NEIGHBOR")
g.add("resize_nearest_neighbor", ref.nearest(x, 7, 3), x=x, target_size_height=7, target_size_width=3)
g.add("upsample_nearest_neighbor", x.repeat(2, 2).repeat(3, 3), x=x, scale_factor_height=2, scale_factor_width=3)
g.add(
    "upsample_bilinear",
    ref.resize(x, 8, 15, "STRICT_ALIGN_CORNERS"),
    x=x,
    scale_factor_height=2,
    scale_factor_width=3,
    tolerance=1e-4,
)
g.add(
    "upsample_bilinear/centres",
    ref.resize(x, 8, 12, "UNALIGN_CORNERS"),
    x=x,
    scale_factor_height=2.0,
    scale_factor_width=2.5,
    align_corners=False,
    tolerance=1e-4,
)
g.add("crop", x[:, :, 1:3, 2:4], x=x, crop_height=[1, 1], crop_width=[2, 1])
batch = data(2, 3, 6, 7)
corners = np.array([[0.5, 1.0, 4.5, 5.0], [2.0, 0.0, 5.0, 6.0], [1.0, 1.0, 1.0, 4.0]], "float32")
for mode in ("STRICT_ALIGN_CORNERS", "DEFAULT", "OFFSET_CORNERS"):
    g.add(
        f"crop_resize/{mode}",
        ref.crops(batch, corners, 3, 4, mode),
        x=batch,
        roi=corners.reshape(3, 1, 4, 1, 1),
        target_height=3,
        target_width=4,
        sampling_mode=mode,
        tolerance=1e-4,
    )
chosen = np.array([1, 0, 1])
with_image = np.concatenate([chosen[:, None], corners[:, [1, 0, 3, 2]]], 1).astype("float32").reshape(3, 1, 5, 1, 1)
wanted = ref.crops(batch, corners, 2, 2, "ALIGN_CORNERS")[np.arange(3), chosen][:, None]
g.add(
    "crop_resize/images",
    wanted,
    x=batch,
    roi=with_image,
    target_height=2,
    target_width=2,
    sampling_mode="ALIGN_CORNERS",
    box_coordinate_mode="CORNERS_WIDTH_FIRST",
    tolerance=1e-4,
)
centres = np.stack(
    [
        (corners[:, 0] + corners[:, 2]) / 10,
        (corners[:, 1] + corners[:, 3]) / 12,
        (corners[:, 2] - corners[:, 0]) / 5,
        (corners[:, 3] - corners[:, 1]) / 6,
    ],
    1,
).astype("float32")
g.add(
    "crop_resize/indices",
    wanted[:, 0],
    x=batch,
    boxes=centres,
    box_indices=chosen.astype("int32"),
    target_height=2,
    target_width=2,
    sampling_mode="ALIGN_CORNERS",
    box_coordinate_mode="CENTER_SIZE_HEIGHT_FIRST",
    normalized_coordinates=True,
    tolerance=1e-3,
)
small = data(1, 1, 3, 4)
spots = np.array([[[[0.0, 0.0], [3.0, 2.0]], [[1.5, 0.5], [0.25, 1.0]]]], "float32")


def at(u, v):
    return ref.linear(ref.linear(small, 2, np.array([v])), 3, np.array([u]))[0, 0, 0, 0]


sampled = np.array([[at(*p) for p in row] for row in spots[0]])[None, None]
g.add(
    "resample",
    sampled,
    x=small,
    coordinates=spots,
    sampling_mode="bilinear",
    padding_mode="constant",
    padding_value=0.0,
    coordinates_mode="unnormalized",
    align_corners=True,
    tolerance=1e-4,
)
unit = (spots / np.array([3, 2]) * 2 - 1).astype("float32")
g.add(
    "resample/normalized",
    sampled,
    x=small,
    coordinates=unit,
    sampling_mode="bilinear",
    padding_mode="border",
    padding_value=0.0,
    coordinates_mode="normalized_minus_one_to_one",
    align_corners=True,
    tolerance=1e-4,
)
g.add(
    "affine",
    ref.resize(small, 3, 4, "STRICT_ALIGN_CORNERS")[:, :, ::-1],
    x=small,
    transform_matrix=np.array([[1, 0, 0, 0, -1, 0]], "float32"),
    output_height=3,
    output_width=4,
    sampling_mode="bilinear",
    padding_mode="constant",
    padding_value=0.0,
    coordinates_mode="normalized_minus_one_to_one",
    align_corners=True,
    tolerance=1e-4,
)

# -- recurrent --------------------------------------------------------------------------------------------------------

g = Group("recurrent", "program")
x, h, c = data(3, 2, 4), data(2, 5), data(2, 5)
w, r, b = data(20, 4), data(20, 5), data(20)
rows, last, memory = ref.lstm(x, h, c, w, r, b)
g.add(
    "lstm",
    [rows, last, memory],
    x=x,
    initial_h=h,
    initial_c=c,
    weight_ih=Fixed(w),
    weight_hh=Fixed(r),
    bias=Fixed(b),
    output_sequence=True,
    tolerance=1e-4,
)
peep = data(15)
rows, last, memory = ref.lstm(x, h, c, w, r, 0.0, peep, True, clip=0.4)
g.add(
    "lstm/reverse with peepholes",
    [last[None], last, memory],
    x=x,
    initial_h=h,
    initial_c=c,
    weight_ih=Fixed(w),
    weight_hh=Fixed(r),
    peephole=Fixed(peep),
    direction="reverse",
    clip=0.4,
    tolerance=1e-4,
)
w2, r2 = data(20, 4), data(20, 5)
ways = [ref.lstm(x, h, c, w, r, b), ref.lstm(x, c, h, w2, r2, 0.0, reverse=True)]
g.add(
    "lstm/two ways",
    [np.concatenate([v[i] for v in ways], -1) for i in range(3)],
    x=x,
    initial_h=np.concatenate([h, c], 1),
    initial_c=np.concatenate([c, h], 1),
    weight_ih=Fixed(w),
    weight_hh=Fixed(r),
    bias=Fixed(b),
    weight_ih_back=Fixed(w2),
    weight_hh_back=Fixed(r2),
    direction="bidirectional",
    output_sequence=True,
    tolerance=1e-4,
)
rows, last = ref.gru(x, h, w[:15], r[:15], b[:15])
g.add(
    "gru",
    [rows, last],
    x=x,
    initial_h=h,
    weight_ih=Fixed(w[:15]),
    weight_hh=Fixed(r[:15]),
    bias=Fixed(b[:15]),
    output_sequence=True,
    tolerance=1e-4,
)
rows, last = ref.gru(x, h, w[:15], r[:15], b[:15] + 1, True, after=b[:15])
g.add(
    "gru/reset after",
    [last[None], last],
    x=x,
    initial_h=h,
    weight_ih=Fixed(w[:15]),
    weight_hh=Fixed(r[:15]),
    bias=Fixed(b[:15]),
    input_bias=Fixed(b[:15] + 1),
    reset_after=True,
    direction="reverse",
    tolerance=1e-4,
)
rows, last = ref.rnn(x, h, w[:5], r[:5], b[:5], lambda v: np.maximum(v, 0))
g.add(
    "rnn",
    [rows, last],
    x=x,
    initial_h=h,
    weight_ih=Fixed(w[:5]),
    weight_hh=Fixed(r[:5]),
    bias=Fixed(b[:5]),
    activation="relu",
    output_sequence=True,
    tolerance=1e-4,
)

# -- compressed weights -----------------------------------------------------------------------------------------------

g = Group("compressed weights", "program")
g.add(
    "constexpr_cast",
    np.array([0.5, 1.25], "float32"),
    source_val=Fixed(np.array([0.5, 1.25], "float16")),
    output_dtype="fp32",
)
q = RNG.integers(0, 256, (2, 3, 2)).astype("uint8")
scale, zero = np.array([0.5, 0.25, 2], "float32"), np.array([7, 128, 0], "uint8")
g.add(
    "constexpr_affine_dequantize",
    (q.astype("float32") - zero[:, None]) * scale[:, None],
    quantized_data=Fixed(q),
    zero_point=Fixed(zero),
    scale=Fixed(scale),
    axis=1,
)


def packed(values, bits):
    """Numbers of a few bits, from the lowest bit on."""
    row = np.array([[v >> k & 1 for k in range(bits)] for v in np.reshape(values, -1)], "uint8").reshape(-1)
    return np.packbits(row, bitorder="little")


for bits in (1, 2, 4, 6, 8):
    table = RNG.normal(size=1 << bits).astype("float16")
    numbers = RNG.integers(0, 1 << bits, (3, 5))
    g.add(
        f"constexpr_lut_to_dense/{bits} bits",
        table[numbers],
        indices=Fixed(packed(numbers, bits)),
        lut=Fixed(table),
        shape=Fixed(np.array([3, 5], "uint32")),
    )
tables = np.array([1, 5, 9, 13, 2, 10, 18, 26], "float32").reshape(2, 1, 4, 1)
numbers = np.array([2, 3, 3, 0, 1, 0, 3, 0, 2, 1, 0, 3], "uint8").reshape(6, 2)
g.add(
    "constexpr_lut_to_dense/blocks",
    np.array([[9, 13], [13, 1], [5, 1], [26, 2], [18, 10], [2, 26]], "float32"),
    indices=Fixed(numbers),
    lut=Fixed(tables),
)
pairs = RNG.normal(size=(1, 1, 4, 3)).astype("float32")
g.add(
    "constexpr_lut_to_dense/vectors",
    pairs[0, 0][numbers].transpose(0, 2, 1).reshape(18, 2),
    indices=Fixed(numbers),
    lut=Fixed(pairs),
    vector_axis=0,
)
mask = RNG.random((3, 5)) > 0.5
values = RNG.normal(size=int(mask.sum())).astype("float32")
dense = np.zeros((3, 5), "float32")
dense[mask] = values
g.add(
    "constexpr_sparse_to_dense",
    dense,
    nonzero_data=Fixed(values),
    mask=Fixed(packed(mask.astype(int), 1)),
    shape=Fixed(np.array([3, 5], "uint32")),
)
g.add("constexpr_sparse_to_dense/bits", dense, nonzero_data=Fixed(values), mask=Fixed(mask.astype("uint8")))
scales, offsets = data(3, 2), np.array([[1, 2], [3, 4], [5, 6]], "int8")
whole = RNG.integers(-8, 8, (6, 4)).astype("int8")
g.add(
    "constexpr_blockwise_shift_scale",
    (whole - offsets.repeat(2, 0).repeat(2, 1)) * scales.repeat(2, 0).repeat(2, 1),
    data=Fixed(whole),
    scale=Fixed(scales),
    offset=Fixed(offsets),
)
bits_set = RNG.random((6, 4)) > 0.4
g.add(
    "constexpr_sparse_blockwise_shift_scale",
    [
        bits_set.astype("uint8"),
        ((whole - offsets.repeat(2, 0).repeat(2, 1)) * scales.repeat(2, 0).repeat(2, 1))[bits_set],
    ],
    data_mask=Fixed(bits_set.astype("uint8")),
    nonzero_data=Fixed(whole[bits_set]),
    scale=Fixed(scales),
    offset=Fixed(offsets),
)
few = RNG.integers(0, 4, (6, 2)).astype("uint8")
kept = RNG.random((6, 2)) > 0.3
looked = np.concatenate([tables[0, 0, :, 0][few[:3]], tables[1, 0, :, 0][few[3:]]])
g.add(
    "constexpr_lut_to_sparse",
    [kept.astype("uint8"), looked[kept]],
    indices_mask=Fixed(kept.astype("uint8")),
    indices_nonzero_data=Fixed(few[kept]),
    lut=Fixed(tables),
)

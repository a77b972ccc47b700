"""Cases of ATen operators: a function and its inputs, on odd shapes and several element types.

A row is ``name: (function, input, ...)``; an input is a shape (floats), or a ready tensor from ``make``. Rows are named
after the operator, a dot and what is special.
"""

from __future__ import annotations


def _make():
    import torch

    def floats(*shape, low=-2.0, high=2.0):
        count = 1
        for d in shape:
            count *= d
        # Values without ties, in no order, the same every time.
        order = (torch.arange(count, dtype=torch.float64) * 0.7548776662466927 + 0.13) % 1.0
        return (order * (high - low) + low).reshape(shape).to(torch.float32)

    def ints(*shape, low=-5, high=6, dtype=torch.int64):
        return floats(*shape, low=low, high=high).floor().clamp(low, high - 1).to(dtype)

    def bools(*shape):
        return floats(*shape) > 0

    return floats, ints, bools


def _set_inner(x, n, v):
    x = x.clone()
    x[:, n] = v
    return x


def core_cases() -> dict:
    """The rows by name."""
    import torch
    import torch.nn.functional as F

    f, i, b = _make()
    aten = torch.ops.aten
    inf, nan = float("inf"), float("nan")
    special = torch.tensor([0.0, -0.0, 1.5, -2.5, 0.5, -inf, inf, nan, 1e30, -1e-30])
    rows: dict = {}
    for name in (
        "abs ceil floor round trunc sign neg exp expm1 sin cos tan tanh sinh cosh asinh atan erf sigmoid "
        "relu isnan isinf reciprocal"
    ).split():
        rows[name] = (getattr(aten, name), f(3, 5, 7))
        if name not in ("exp", "expm1", "sinh", "cosh", "reciprocal", "sin", "cos", "tan"):
            rows[f"{name}.special"] = (getattr(aten, name), special)
    for name in "log log2 log10 log1p sqrt rsqrt".split():
        rows[name] = (getattr(aten, name), f(3, 5, low=0.01, high=30))
    for name in "asin acos atanh".split():
        rows[name] = (getattr(aten, name), f(3, 5, low=-0.99, high=0.99))
    rows["acosh"] = (aten.acosh, f(3, 5, low=1.01, high=9))
    for name in ("sin", "exp", "sqrt", "sigmoid", "erf"):
        rows[f"{name}.int"] = (getattr(aten, name), i(4, 3, low=0, high=5))
    for name in ("abs", "neg", "sign", "ceil", "relu"):
        rows[f"{name}.int"] = (getattr(aten, name), i(4, 3))
    rows["bitwise_not"] = (aten.bitwise_not, i(3, 5))
    rows["bitwise_not.bool"] = (aten.bitwise_not, b(3, 5))
    rows["logical_not"] = (aten.logical_not, i(3, 5))
    for name in ("add", "sub", "mul", "div", "maximum", "minimum"):
        op = getattr(aten, name)
        rows[name] = (op, f(3, 1, 5), f(7, 1))
        rows[f"{name}.mixed"] = (op, i(3, 5), f(5))
        if name not in ("maximum", "minimum"):
            rows[f"{name}.number"] = (lambda x, op=op: op(x, 3), f(3, 5))
            rows[f"{name}.real"] = (lambda x, op=op: op(x, 2.5), i(3, 5))
    rows["maximum.special"] = (aten.maximum, special, special.flip(0))
    rows["add.alpha"] = (lambda x, y: aten.add(x, y, alpha=3), i(3, 5), i(5))
    rows["sub.alpha"] = (lambda x, y: aten.sub(x, y, alpha=0.5), f(3, 5), f(5))
    rows["add.bool"] = (aten.add, b(3, 5), b(5))
    rows["mul.bool"] = (aten.mul, b(3, 5), b(5))
    rows["add.small"] = (aten.add, i(3, 5, low=0, high=9, dtype=torch.uint8), i(3, 5, dtype=torch.int8))
    rows["div.int"] = (aten.div, i(3, 5), i(3, 5, low=1, high=4))
    for mode in ("floor", "trunc"):
        rows[f"div.{mode}"] = (
            lambda x, y, m=mode: torch.div(x, y, rounding_mode=m),
            f(3, 5, low=-9, high=9),
            f(5, low=0.5, high=2),
        )
        rows[f"div.{mode}_int"] = (
            lambda x, y, m=mode: torch.div(x, y, rounding_mode=m),
            i(3, 5, low=-9, high=9),
            i(5, low=1, high=4),
        )
    rows["floor_divide"] = (torch.floor_divide, f(4, 5, low=-9, high=9), f(5, low=-2, high=-0.5))
    rows["fmod"] = (aten.fmod, f(4, 5, low=-9, high=9), f(5, low=0.5, high=2))
    rows["fmod.int"] = (lambda x: aten.fmod(x, 3), i(4, 5, low=-9, high=9))
    rows["remainder"] = (aten.remainder, f(4, 5, low=-9, high=9), f(5, low=-2, high=-0.5))
    rows["remainder.int"] = (lambda x: aten.remainder(x, 3), i(4, 5, low=-9, high=9))
    rows["pow"] = (aten.pow, f(3, 5, low=0.1, high=3), f(5))
    for e in (0, 1, 2, 3, -1, 0.5, -0.5, 2.5):
        rows[f"pow.{e}"] = (lambda x, e=e: aten.pow(x, e), f(3, 5, low=0.1, high=3))
    rows["pow.int"] = (lambda x: aten.pow(x, 4), i(3, 5))
    rows["pow.base"] = (lambda x: aten.pow(2.0, x), f(3, 5))
    rows["atan2"] = (aten.atan2, f(5, 6), f(6))
    for name in "eq ne lt le gt ge".split():
        rows[name] = (getattr(aten, name), i(3, 5), i(5))
        rows[f"{name}.number"] = (lambda x, n=name: getattr(aten, n)(x, 0.5), f(3, 5))
        rows[f"{name}.bool"] = (getattr(aten, name), b(3, 5), b(5))
    for name in "logical_and logical_or logical_xor".split():
        rows[name] = (getattr(aten, name), i(3, 5, low=-1, high=2), b(5))
    for name in "bitwise_and bitwise_or bitwise_xor".split():
        rows[name] = (getattr(aten, name), i(3, 5), i(5))
        rows[f"{name}.number"] = (lambda x, n=name: getattr(aten, n)(x, 6), i(3, 5))
        rows[f"{name}.bool"] = (getattr(aten, name), b(3, 5), b(5))
    rows["where"] = (aten.where, b(3, 5), f(3, 5), f(5))
    rows["where.mixed"] = (lambda c, x: torch.where(c, x, 2), b(3, 5), f(5))
    rows["clamp"] = (lambda x: aten.clamp(x, -0.5, 1), f(3, 5))
    rows["clamp.min"] = (lambda x: aten.clamp(x, min=0), i(3, 5))
    rows["clamp.Tensor"] = (lambda x, y: aten.clamp(x, y, y + 1), f(3, 5), f(5))
    rows["masked_fill"] = (lambda x, m: x.masked_fill(m, -inf), f(3, 5), b(5))
    for name, call in {
        "gelu": F.gelu,
        "gelu.tanh": lambda x: F.gelu(x, approximate="tanh"),
        "silu": F.silu,
        "elu": F.elu,
        "selu": F.selu,
        "celu": lambda x: F.celu(x, 1.3),
        "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
        "hardtanh": lambda x: F.hardtanh(x, -0.3, 0.7),
        "hardswish": F.hardswish,
        "hardsigmoid": F.hardsigmoid,
        "softplus": lambda x: F.softplus(x * 20, 2, 15),
        "mish": F.mish,
        "logsigmoid": F.logsigmoid,
        "softsign": F.softsign,
        "tanhshrink": F.tanhshrink,
        "softshrink": F.softshrink,
        "hardshrink": F.hardshrink,
        "threshold": lambda x: F.threshold(x, 0.1, 20),
        "glu": lambda x: F.glu(x, 1),
        "relu6": lambda x: F.relu6(4 * x),
        "prelu": lambda x: F.prelu(x, torch.linspace(-1, 1, 6)),
        "softmax": lambda x: x.softmax(1),
        "log_softmax": lambda x: x.log_softmax(-1),
        "softmax.dtype": lambda x: x.softmax(0, dtype=torch.float64),
        "nan_to_num": lambda x: torch.nan_to_num(x / x.round()),
        "square": torch.square,
        "normalize": lambda x: F.normalize(x, dim=1),
        "logit": lambda x: torch.logit(x.sigmoid()),
    }.items():
        rows[name] = (call, f(3, 6, 5))
    # Reductions.
    for name in ("sum", "mean", "amax", "amin"):
        op = getattr(torch, name)
        rows[name] = (lambda x, op=op: op(x), f(3, 5, 7))
        rows[f"{name}.dim"] = (lambda x, op=op: op(x, dim=(0, -1), keepdim=True), f(3, 5, 7))
    for name in ("sum", "prod"):
        rows[f"{name}.int"] = (lambda x, n=name: getattr(torch, n)(x), i(3, 4, low=1, high=3, dtype=torch.int32))
        rows[f"{name}.dtype"] = (lambda x, n=name: getattr(torch, n)(x, 1, dtype=torch.float64), f(3, 4))
    rows["prod"] = (lambda x: torch.prod(x, 1, keepdim=True), f(3, 5))
    for name in ("any", "all"):
        rows[name] = (lambda x, n=name: getattr(torch, n)(x), b(3, 5))
        rows[f"{name}.dim"] = (lambda x, n=name: getattr(torch, n)(x, 1, keepdim=True), f(3, 5) > -1.9)
    rows["any.dims"] = (lambda x: torch.any(x, dim=(0, 2)), b(3, 5, 2))
    for name in ("max", "min"):
        rows[f"{name}.all"] = (lambda x, n=name: getattr(torch, n)(x), f(3, 5))
        rows[f"{name}.dim"] = (lambda x, n=name: getattr(torch, n)(x, 1), f(3, 5, 2))
    for name in ("argmax", "argmin"):
        rows[name] = (lambda x, n=name: getattr(torch, n)(x), f(3, 5))
        rows[f"{name}.dim"] = (lambda x, n=name: getattr(torch, n)(x, 1, keepdim=True), f(3, 5, 2))
    for name in ("var", "std"):
        rows[name] = (lambda x, n=name: getattr(torch, n)(x), f(3, 5))
        rows[f"{name}.dim"] = (lambda x, n=name: getattr(torch, n)(x, (0, 2), keepdim=True, correction=0), f(3, 5, 4))
    rows["var_mean"] = (lambda x: torch.var_mean(x, 1), f(3, 5))
    rows["logsumexp"] = (lambda x: torch.logsumexp(x, (0, 2)), f(3, 5, 4))
    for p in (0, 1, 2, 3, inf, -inf):
        rows[f"norm.{p}"] = (lambda x, p=p: torch.linalg.vector_norm(x, p, 1), f(3, 5, 4))
    rows["cumsum"] = (lambda x: x.cumsum(1), f(3, 5, 2))
    rows["cumsum.int"] = (lambda x: x.cumsum(0), i(5, 3, dtype=torch.int32))
    rows["diff"] = (lambda x: (x.diff(dim=1), x.diff(2, 0, prepend=x[:1])), f(3, 5))
    rows["cumprod"] = (lambda x: x.cumprod(1), f(3, 5))
    # Shapes.
    rows["view"] = (lambda x: x.view(5, -1), f(3, 5, 7))
    rows["reshape.zero"] = (lambda x: x.reshape(0, 4), torch.zeros(2, 0))
    rows["permute"] = (lambda x: x.permute(2, 0, -2), f(3, 5, 7))
    rows["unsqueeze"] = (lambda x: x.unsqueeze(-1).unsqueeze(0), f(3, 5))
    rows["squeeze"] = (lambda x: (x.squeeze(), x.squeeze(1), x.squeeze(0)), f(3, 1, 5, 1))
    rows["squeeze.dims"] = (lambda x: torch.squeeze(x, (1, 0)), f(3, 1, 5, 1))
    rows["expand"] = (lambda x: x.expand(2, -1, 4), f(3, 1))
    rows["repeat"] = (lambda x: x.repeat(2, 1, 3), f(3, 5))
    rows["repeat_interleave"] = (lambda x: x.repeat_interleave(3, 1), f(3, 5))
    rows["cat"] = (lambda x, y: torch.cat([x, y, x], -1), f(3, 5), f(3, 2))
    rows["cat.mixed"] = (lambda x, y: torch.cat([x, y]), f(3, 5), i(2, 5))
    rows["stack"] = (lambda x, y: torch.stack([x, y], 1), f(3, 5), f(3, 5))
    rows["split"] = (lambda x: x.split(2, 1), f(3, 5))
    rows["split_with_sizes"] = (lambda x: x.split([1, 3, 1], 1), f(3, 5))
    rows["chunk"] = (lambda x: x.chunk(3, 1), f(3, 7))
    rows["unbind"] = (lambda x: x.unbind(1), f(3, 4))
    rows["slice"] = (lambda x: x[:, 1:-1:2, -3:], f(3, 7, 5))
    rows["select"] = (lambda x: x[:, -2], f(3, 5, 2))
    rows["slice_scatter"] = (lambda x, y: aten.slice_scatter(x, y, 1, 1, None, 2), f(3, 6), f(3, 3))
    rows["select_scatter"] = (lambda x, y: aten.select_scatter(x, y, 1, -2), f(3, 6), f(3))
    rows["flip"] = (lambda x: x.flip(0, -1), f(3, 5, 2))
    rows["roll"] = (lambda x: x.roll((2, -1), (0, 1)), f(3, 5))
    rows["diagonal"] = (lambda x: (x.diagonal(1), x.diagonal(-1, 0, 2)), f(4, 5, 3))
    rows["as_strided"] = (lambda x: torch.as_strided(x, (3, 4), (2, 1), 1), f(5, 4))
    # Strides of the tensor itself: turned, and joined by reshape without a copy.
    rows["as_strided.turned"] = (lambda x: x.t().as_strided((3,), (1,), 2), f(3, 4))
    rows["as_strided.joined"] = (
        lambda x: x.view(8, 2, 2, 3).permute(1, 2, 0, 3).reshape(4, 8, 3).as_strided((4, 3, 4, 3), (3, 24, 12, 1)),
        f(8, 2, 6),
    )
    rows["unfold"] = (lambda x: x.unfold(1, 3, 2), f(2, 8, 3))
    rows["constant_pad_nd"] = (lambda x: F.pad(x, (1, 2, 0, -1), value=1.5), f(3, 5, 4))
    for mode in ("reflect", "replicate", "circular"):
        rows[f"pad.{mode}"] = (lambda x, m=mode: F.pad(x, (2, 1, 1, 0), mode=m), f(2, 3, 5, 4))
    rows["reflection_pad1d"] = (lambda x: aten.reflection_pad1d(x, [3, 1]), f(2, 3, 5))
    rows["reflection_pad3d"] = (lambda x: F.pad(x, (1, 1, 1, 0, 0, 2), mode="reflect"), f(1, 2, 4, 3, 5))
    rows["replication_pad3d"] = (lambda x: F.pad(x, (1, 1, 1, 0, 0, 2), mode="replicate"), f(1, 2, 4, 3, 5))
    rows["pixel_shuffle"] = (lambda x: F.pixel_shuffle(x, 2), f(2, 12, 3, 5))
    rows["pixel_unshuffle"] = (lambda x: F.pixel_unshuffle(x, 2), f(2, 3, 4, 6))
    rows["triu"] = (lambda x: (x.triu(1), x.tril(-1)), f(2, 4, 5))
    rows["meshgrid"] = (lambda x, y: torch.meshgrid(x, y, indexing="ij"), f(3), f(4))
    # Indexing.
    rows["index_select"] = (lambda x, n: x.index_select(1, n), f(3, 5, 2), i(7, low=0, high=5))
    rows["gather"] = (lambda x, n: x.gather(1, n), f(3, 5), i(2, 7, low=0, high=5))
    rows["embedding"] = (lambda n, w: F.embedding(n, w), i(2, 3, low=0, high=7), f(7, 4))
    rows["index"] = (lambda x, n: x[:, n], f(3, 5, 2), i(2, 3, low=-5, high=5))
    rows["index.two"] = (lambda x, n, m: x[n, :, m], f(4, 5, 6), i(3, low=0, high=4), i(3, low=0, high=6))
    rows["index.side"] = (lambda x, n, m: x[:, n, m], f(4, 5, 6), i(3, 1, low=-5, high=5), i(2, low=0, high=6))
    rows["index_put"] = (lambda x, n, v: x.index_put((n,), v), f(5, 3), torch.tensor([3, 0]), f(2, 3))
    rows["index_put.add"] = (lambda x, n, v: x.index_put((n,), v, accumulate=True), f(5, 3), torch.tensor([3, 3]), f(3))
    rows["index_put.mask"] = (lambda x, m: x.index_put((m,), torch.tensor(2.0)), f(5, 3), b(5, 3))
    rows["index_put.inner"] = (_set_inner, f(4, 5, 3), torch.tensor([3, 0]), f(4, 2, 3))
    rows["masked_scatter"] = (lambda x, m, s: x.masked_scatter(m, s), f(3, 5), b(3, 5), f(4, 5))
    rows["scatter.src"] = (lambda x, n, s: x.scatter(1, n, s), f(3, 5), torch.tensor([[0, 2], [4, 1]]), f(2, 3))
    rows["scatter.value"] = (lambda x, n: x.scatter(1, n, 9.0), f(3, 5), torch.tensor([[0, 2], [4, 1]]))
    rows["scatter_add"] = (lambda x, n, s: x.scatter_add(0, n, s), f(4, 3), i(5, 3, low=0, high=4), f(5, 3))
    for kind in ("sum", "prod", "mean", "amax", "amin"):
        for own in (True, False):
            rows[f"scatter_reduce.{kind}{own}"] = (
                lambda x, n, s, k=kind, o=own: x.scatter_reduce(0, n, s, k, include_self=o),
                f(4, 3),
                i(5, 3, low=0, high=4),
                f(5, 3),
            )
    rows["topk"] = (lambda x: x.topk(3, 1), f(4, 7))
    rows["topk.small"] = (lambda x: x.topk(2, 0, largest=False), f(4, 7))
    rows["sort"] = (lambda x: x.sort(1, descending=True), f(4, 7))
    rows["argsort"] = (lambda x: x.argsort(0), f(4, 7))
    rows["searchsorted"] = (lambda x, v: torch.searchsorted(x.sort().values, v), f(7), f(3, 4))
    rows["bucketize"] = (lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0]), right=True), f(3, 4))
    rows["one_hot"] = (lambda n: F.one_hot(n, 6), i(3, 4, low=0, high=6))
    rows["take"] = (lambda x, n: torch.take(x, n), f(3, 4), i(2, 5, low=-12, high=12))
    # Making.
    rows["arange"] = (lambda x: x + torch.arange(1, 8, 3), f(3))
    rows["full"] = (lambda x: x + torch.full((2, 3), 4), f(3))
    rows["full_like"] = (lambda x: torch.full_like(x, 4), i(3, 2))
    rows["zeros"] = (lambda x: x + torch.zeros(2, 3) + torch.ones(3) + torch.empty(0, 3).sum(), f(3))
    rows["scalar_tensor"] = (lambda x: x + torch.scalar_tensor(2.5), f(3))
    rows["linspace"] = (lambda x: x * torch.linspace(0, 1, 5), f(5))
    rows["eye"] = (lambda x: x @ torch.eye(4, 3), f(2, 4))
    rows["to"] = (lambda x: (x.to(torch.int32), x.double(), x.bool(), x.half()), f(3, 5))
    rows["to.int"] = (lambda x: (x.float(), x.to(torch.uint8), x.bool()), i(3, 5, low=0, high=9))
    rows["fill"] = (lambda x: x.clone().fill_(3.0), f(3, 5))
    rows["copy"] = (lambda x, y: aten.copy(x, y), f(3, 5), i(5))
    rows["clone"] = (lambda x: (x.clone(), aten.alias(x)), f(3))
    # Products and convolutions.
    rows["mm"] = (torch.mm, f(3, 5), f(5, 4))
    rows["bmm"] = (torch.bmm, f(2, 3, 5), f(2, 5, 4))
    rows["addmm"] = (lambda c, x, y: torch.addmm(c, x, y, beta=0.5, alpha=2), f(4), f(3, 5), f(5, 4))
    rows["matmul.stack"] = (torch.matmul, f(2, 1, 3, 5), f(4, 5, 6))
    rows["matmul.vector"] = (lambda x, y, z: (x @ y, y @ z, z @ z), f(3), f(3, 5), f(5))
    rows["linear.vector"] = (F.linear, f(2, 3, 5), f(5))
    rows["linear.vectors"] = (F.linear, f(5), f(5))
    rows["linear"] = (F.linear, f(2, 3, 5), f(4, 5), f(4))
    rows["einsum"] = (lambda x, y: torch.einsum("bij,bkj->bik", x, y), f(2, 3, 5), f(2, 4, 5))
    rows["einsum.outer"] = (lambda x, y: torch.einsum("ab,cb->acb", x, y), f(3, 2), f(4, 2))
    rows["cdist"] = (lambda x, y: torch.cdist(x, y, 1.0), f(2, 3, 5), f(2, 4, 5))
    rows["pdist"] = (lambda x: F.pdist(x, 3.0), f(4, 5))
    rows["conv1d"] = (lambda x, w: F.conv1d(x, w, stride=2, padding=1, dilation=2), f(2, 3, 17), f(4, 3, 3))
    rows["conv2d"] = (lambda x, w, c: F.conv2d(x, w, c, (2, 1), (1, 2)), f(2, 3, 9, 7), f(4, 3, 3, 5), f(4))
    rows["conv2d.groups"] = (lambda x, w: F.conv2d(x, w, groups=2, padding="same"), f(1, 4, 6, 5), f(6, 2, 2, 3))
    rows["conv2d.depthwise"] = (lambda x, w: F.conv2d(x, w, groups=5, padding=1), f(1, 5, 6, 5), f(5, 1, 3, 3))
    rows["conv3d"] = (lambda x, w: F.conv3d(x, w, padding=1), f(1, 2, 4, 5, 3), f(3, 2, 2, 3, 3))
    rows["conv_transpose1d"] = (
        lambda x, w: F.conv_transpose1d(x, w, stride=3, padding=1, output_padding=2),
        f(2, 3, 5),
        f(3, 4, 4),
    )
    rows["conv_transpose2d"] = (
        lambda x, w, c: F.conv_transpose2d(x, w, c, 2, 1, 1),
        f(1, 3, 4, 5),
        f(3, 2, 3, 3),
        f(2),
    )
    rows["conv_transpose2d.groups"] = (lambda x, w: F.conv_transpose2d(x, w, groups=2), f(1, 4, 4, 5), f(4, 3, 3, 2))
    rows["conv_transpose2d.dilated"] = (
        lambda x, w: F.conv_transpose2d(x, w, stride=2, dilation=2),
        f(1, 2, 4, 5),
        f(2, 3, 3, 2),
    )
    rows["conv2d.unbatched"] = (F.conv2d, f(3, 6, 5), f(2, 3, 3, 3))
    rows["im2col"] = (lambda x: F.unfold(x, (2, 3), padding=1, stride=2), f(2, 3, 7, 6))
    rows["col2im"] = (lambda x: F.fold(x, (5, 6), (2, 3), padding=(0, 1), stride=(1, 2)), f(2, 18, 12))
    # Pooling.
    rows["max_pool2d"] = (lambda x: F.max_pool2d(x, 3, 2, 1), f(2, 3, 9, 8))
    rows["max_pool2d.ceil"] = (lambda x: F.max_pool2d(x, (3, 2), 2, 0, 1, ceil_mode=True), f(1, 2, 8, 9))
    rows["max_pool2d.indices"] = (lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), f(2, 3, 7, 8))
    rows["max_pool1d"] = (lambda x: F.max_pool1d(x, 3, 2, dilation=2), f(2, 3, 13))
    rows["max_pool3d"] = (lambda x: F.max_pool3d(x, 2, 2, 1), f(1, 2, 5, 6, 7))
    rows["max_pool3d.indices"] = (lambda x: F.max_pool3d(x, 2, return_indices=True), f(1, 2, 4, 6, 4))
    for pad in (True, False):
        rows[f"avg_pool2d.{pad}"] = (lambda x, p=pad: F.avg_pool2d(x, 3, 2, 1, count_include_pad=p), f(2, 3, 9, 8))
    rows["avg_pool2d.ceil"] = (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), f(1, 2, 8, 8))
    rows["avg_pool2d.divisor"] = (lambda x: F.avg_pool2d(x, (2, 3), divisor_override=5), f(1, 2, 8, 8))
    rows["avg_pool1d"] = (lambda x: F.avg_pool1d(x, 3, 2, 1), f(2, 3, 9))
    rows["avg_pool3d"] = (lambda x: F.avg_pool3d(x, 2, 2), f(1, 2, 5, 6, 4))
    rows["adaptive_avg_pool1d"] = (lambda x: F.adaptive_avg_pool1d(x, 3), f(2, 3, 8))
    rows["_adaptive_avg_pool2d"] = (lambda x: F.adaptive_avg_pool2d(x, (3, None)), f(2, 3, 8, 7))
    rows["_adaptive_avg_pool3d"] = (lambda x: F.adaptive_avg_pool3d(x, (3, 2, 1)), f(1, 2, 8, 7, 3))
    rows["adaptive_max_pool2d"] = (lambda x: F.adaptive_max_pool2d(x, (3, 2)), f(2, 3, 8, 7))
    # Normalizations.
    rows["batch_norm"] = (
        lambda x, m, v, w, c: F.batch_norm(x, m, v.exp(), w, c),
        f(2, 3, 4, 5),
        f(3),
        f(3),
        f(3),
        f(3),
    )
    rows["batch_norm.plain"] = (lambda x, m, v: F.batch_norm(x, m, v.exp(), eps=1e-3), f(4, 3), f(3), f(3))
    rows["batch_norm.own"] = (lambda x: F.batch_norm(x, None, None, training=True), f(4, 3, 5))
    rows["layer_norm"] = (lambda x, w, c: F.layer_norm(x, (5,), w, c), f(2, 3, 5), f(5), f(5))
    rows["layer_norm.two"] = (lambda x: F.layer_norm(x, (3, 5)), f(2, 3, 5))
    rows["group_norm"] = (lambda x, w, c: F.group_norm(x, 2, w, c), f(2, 6, 3, 5), f(6), f(6))
    rows["instance_norm"] = (lambda x: F.instance_norm(x), f(2, 3, 4, 5))
    rows["local_response_norm"] = (lambda x: F.local_response_norm(x, 3), f(2, 7, 3))
    rows["rms_norm"] = (lambda x, w: F.rms_norm(x, (5,), w), f(2, 3, 5), f(5))
    # Attention.
    rows["_safe_softmax"] = (
        lambda x: torch.ops.aten._safe_softmax(torch.where(x[:, :1] > 0, -torch.inf, x), -1),
        f(9, 7),
    )
    rows["attention"] = (F.scaled_dot_product_attention, f(2, 3, 4, 5), f(2, 3, 6, 5), f(2, 3, 6, 7))
    rows["attention.mask"] = (
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
        f(2, 3, 4, 5),
        f(2, 3, 6, 5),
        f(2, 3, 6, 5),
        f(4, 6) > -1.5,
    )
    rows["attention.causal"] = (
        lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True, scale=0.3),
        f(2, 3, 4, 5),
    )
    # Images.
    for mode in ("nearest", "nearest-exact", "bilinear", "bicubic"):
        more = {} if "nearest" in mode else {"align_corners": False}
        rows[f"interpolate.{mode}"] = (lambda x, m=mode, k=more: F.interpolate(x, (7, 5), mode=m, **k), f(1, 2, 4, 6))
        rows[f"interpolate.{mode}_scale"] = (
            lambda x, m=mode, k=more: F.interpolate(x, scale_factor=(1.7, 0.6), mode=m, **k),
            f(1, 2, 5, 6),
        )
    rows["interpolate.corners"] = (
        lambda x: F.interpolate(x, (7, 5), mode="bilinear", align_corners=True),
        f(1, 2, 4, 6),
    )
    rows["interpolate.linear"] = (lambda x: F.interpolate(x, 7, mode="linear"), f(1, 2, 4))
    rows["interpolate.trilinear"] = (lambda x: F.interpolate(x, (3, 7, 2), mode="trilinear"), f(1, 2, 4, 3, 4))
    rows["interpolate.antialias"] = (lambda x: F.interpolate(x, (3, 4), mode="bilinear", antialias=True), f(1, 2, 9, 7))
    if hasattr(aten, "_upsample_lanczos2d_aa"):
        rows["interpolate.lanczos"] = (
            lambda x: F.interpolate(x, (3, 9), mode="lanczos", antialias=True),
            f(1, 2, 9, 7),
        )
    for mode in ("bilinear", "nearest", "bicubic"):
        for pad in ("zeros", "border", "reflection"):
            rows[f"grid_sample.{mode}_{pad}"] = (
                lambda x, g, m=mode, p=pad: F.grid_sample(x, g, m, p, align_corners=False),
                f(1, 2, 5, 6),
                f(1, 3, 4, 2, low=-1.3, high=1.3),
            )
    rows["grid_sample.corners"] = (lambda x, g: F.grid_sample(x, g, align_corners=True), f(1, 2, 5, 6), f(1, 3, 4, 2))
    rows.update(_complex_cases())
    rows.update(_own_name_cases())
    rows.update(_more_cases())
    return rows


def _own_name_cases() -> dict:
    """Core operators that models reach through others, called by their own names."""
    import torch

    f, i, _ = _make()
    aten = torch.ops.aten
    x, image = f(3, 5), f(2, 3, 5, 4)
    vectors = (f(3), f(3), f(3), f(3, low=0.5))
    return {
        "own._adaptive_avg_pool2d": (lambda a: aten._adaptive_avg_pool2d(a, [3, 2]), image),
        "own._adaptive_avg_pool3d": (lambda a: aten._adaptive_avg_pool3d(a, [3, 2, 1]), f(1, 2, 8, 7, 3)),
        "own._cdist_forward": (lambda a, c: aten._cdist_forward(a, c, 2.0, None), f(2, 3, 5), f(2, 4, 5)),
        "own._embedding_bag": (
            lambda n, w: aten._embedding_bag(w, n, torch.tensor([0, 2, 2]))[0], i(5, low=0, high=4), f(4, 3)),
        "own._local_scalar_dense": (lambda a, c: a + aten._local_scalar_dense(c), x, torch.tensor(2.5)),
        "own._log_softmax": (lambda a: aten._log_softmax(a, 1, False), x),
        "own._softmax": (lambda a: aten._softmax(a, -2, False), x),
        "own._native_batch_norm_legit": (
            lambda a, *v: aten._native_batch_norm_legit(a, *v, False, 0.1, 1e-5)[0], image, *vectors),
        "own._native_batch_norm_legit.no_stats": (
            lambda a, w, c: aten._native_batch_norm_legit.no_stats(a, w, c, True, 0.1, 1e-5), image, f(3), f(3)),
        "own._native_batch_norm_legit_no_training": (
            lambda a, *v: aten._native_batch_norm_legit_no_training(a, *v, 0.1, 1e-5)[0], image, *vectors),
        "own._pdist_forward": (lambda a: aten._pdist_forward(a, 2.0), f(4, 5)),
        "own._to_copy": (lambda a: (aten._to_copy(a, dtype=torch.float64), aten._to_copy(a, dtype=torch.int32)), x),
        "own.constant_pad_nd": (lambda a: aten.constant_pad_nd(a, [1, 2, 0, -1], 1.5), f(3, 5, 4)),
        "own.convolution": (
            lambda a, w, c: aten.convolution(a, w, c, [2, 1], [1, 0], [1, 2], False, [0, 0], 1),
            f(2, 3, 7, 8), f(4, 3, 3, 2), f(4)),
        "own.convolution.transposed": (
            lambda a, w: aten.convolution(a, w, None, [2], [1], [2], True, [1], 2), f(2, 4, 7), f(4, 3, 3)),
        "own.empty_strided": (lambda a: aten.empty_strided([3, 5], [5, 1]).copy_(a), x),
        "own.grid_sampler_2d": (lambda a, g: aten.grid_sampler_2d(a, g, 0, 0, False), f(1, 2, 5, 6), f(1, 3, 4, 2)),
        "own.native_dropout": (lambda a: aten.native_dropout(a, 0.5, False)[0], x),
        "own.native_group_norm": (
            lambda a, w, c: aten.native_group_norm(a, w, c, 2, 4, 15, 2, 1e-5), f(2, 4, 3, 5), f(4), f(4)),
        "own.native_layer_norm": (lambda a, w, c: aten.native_layer_norm(a, [5], w, c, 1e-5), f(2, 3, 5), f(5), f(5)),
        "own.reflection_pad2d": (lambda a: aten.reflection_pad2d(a, [1, 2, 2, 0]), image),
        "own.reflection_pad3d": (lambda a: aten.reflection_pad3d(a, [1, 2, 2, 0, 1, 1]), f(1, 2, 3, 5, 4)),
        "own.replication_pad2d": (lambda a: aten.replication_pad2d(a, [1, 2, 2, 0]), image),
        "own.replication_pad3d": (lambda a: aten.replication_pad3d(a, [1, 2, 2, 0, 1, 1]), f(1, 2, 3, 5, 4)),
        "own.sizes": (lambda a: a * a.numel() + a.stride(0) + a.storage_offset() + int(a.is_contiguous()), x),
        **{f"index_reduce.{kind}": (lambda a, v, k=kind: a.index_reduce(0, torch.tensor([0, 0, 2]), v, k), x,
                                    f(3, 5)) for kind in ("prod", "mean", "amax", "amin")},
        "made.windows": (
            lambda a: a * torch.hann_window(5) + torch.hamming_window(5, False, dtype=torch.float64)
            + torch.blackman_window(5) + torch.kaiser_window(5, True, 9.0) + torch.bartlett_window(5), x),
        "made.indices": (lambda a: (a[torch.tril_indices(3, 3, -1)[0]], torch.triu_indices(3, 4, 1)), x),
        "made.numbers": (lambda a: a * torch.fft.fftfreq(5, 0.5) + torch.fft.rfftfreq(8) + torch.logspace(0, 2, 5), x),
        "diagonal_scatter": (lambda a, v: torch.diagonal_scatter(a, v, 1), x, f(3)),
        "as_strided_scatter": (lambda a, v: torch.as_strided_scatter(a, v, (2, 2), (1, 2), 1), x, f(2, 2)),
        "embedding_bag.offsets": (
            lambda n, o, w: torch.nn.functional.embedding_bag(n, w, o, mode="sum"), i(5, low=0, high=4),
            torch.tensor([0, 2, 2]), f(4, 3)),
        "embedding_bag.last": (
            lambda n, o, w: torch.nn.functional.embedding_bag(n, w, o, include_last_offset=True), i(5, low=0, high=4),
            torch.tensor([0, 2, 2, 5]), f(4, 3)),
        "topk.number": (lambda a: a.topk(1), torch.tensor(1.5)),
        "put": (lambda a, v: (a.put(torch.tensor([1, -2]), v), a.put(torch.tensor([1, 1]), v, True)), x, f(2)),
        **{f"interpolate.{mode}_antialias_corners": (
            lambda a, m=mode: torch.nn.functional.interpolate(a, (9, 3), mode=m, antialias=True, align_corners=True),
            f(1, 2, 5, 6)) for mode in ("bilinear", "bicubic")},
        **{f"affine_grid.{corners}": (
            lambda t, c=corners: torch.nn.functional.affine_grid(t, (2, 3, 4, 1, 5), c), f(2, 3, 4))
           for corners in (True, False)},
    }  # fmt: skip


def _more_cases() -> dict:
    """Operators that are not of the core, in one form each."""
    import torch
    import torch.nn.functional as F

    f, i, b = _make()
    x, y, z = f(3, 5), f(3, 5, low=-1, high=3), f(3, 5, low=0.5, high=4)
    rows: dict = {}
    for name in (
        "erfc exp2 frac deg2rad rad2deg signbit sgn negative isfinite fix ravel fliplr flipud rot90 "
        "count_nonzero nonzero median aminmax zeros_like"
    ).split():
        rows[f"more.{name}"] = (getattr(torch, name), x)
    for name in "arccos arcsin arctanh".split():
        rows[f"more.{name}"] = (getattr(torch, name), f(7, low=-0.9, high=0.9))
    for name in "arcsinh arctan".split():
        rows[f"more.{name}"] = (getattr(torch, name), x)
    rows["more.arccosh"] = (torch.arccosh, f(7, low=1.1, high=9))
    for name in "fmax fmin hypot logaddexp".split():
        rows[f"more.{name}"] = (getattr(torch, name), x, y)
    rows["more.fmax_nan"] = (torch.fmax, torch.tensor([1.0, float("nan"), 2.0]), torch.tensor([0.5, 3.0, float("nan")]))
    rows["more.xlogy"] = (torch.xlogy, torch.cat([x, torch.zeros(1, 5)]), torch.cat([z, z[:1]]))
    rows["more.addcmul"] = (lambda a, c, d: torch.addcmul(a, c, d, value=0.7), x, y, f(5))
    rows["more.addcdiv"] = (lambda a, c, d: torch.addcdiv(a, c, d, value=-2), x, y, z)
    rows["more.lerp"] = (lambda a, c: torch.lerp(a, c, 0.3), x, y)
    rows["more.lerp_tensor"] = (torch.lerp, x, y, f(5, low=0, high=1))
    rows["more.rsub"] = (lambda a: torch.rsub(a, 3, alpha=2), x)
    rows["more.shift"] = (lambda a: (a << 2, a >> 1), i(3, 5))
    rows["more.bitwise_shift"] = (torch.bitwise_left_shift, i(3, 5), i(5, low=0, high=4))
    rows["more.bitwise_right_shift"] = (torch.bitwise_right_shift, i(3, 5), i(5, low=0, high=4))
    rows["more.dot"] = (torch.dot, f(7), f(7))
    rows["more.vdot"] = (torch.vdot, f(7), f(7))
    rows["more.inner"] = (torch.inner, x, f(4, 5))
    rows["more.outer"] = (torch.outer, f(3), f(4))
    rows["more.mv"] = (torch.mv, x, f(5))
    rows["more.bilinear"] = (F.bilinear, f(2, 3), f(2, 4), f(5, 3, 4), f(5))
    rows["more.diag"] = (torch.diag, f(4))
    rows["more.diag_of"] = (lambda a: torch.diag(a, 1), x)
    rows["more.diag_embed"] = (lambda a: torch.diag_embed(a, 1), x)
    for name in "hstack vstack dstack".split():
        rows[f"more.{name}"] = (lambda a, c, n=name: getattr(torch, n)([a, c]), x, y)
    rows["more.movedim"] = (lambda a: torch.movedim(a, (0, 2), (1, 0)), f(2, 3, 4))
    rows["more.narrow"] = (lambda a: a.narrow(1, 1, 3), x)
    rows["more.tensor_split_tensor"] = (lambda a: a.tensor_split(torch.tensor([2, 5]), 1), f(2, 7))
    rows["more.tensor_split_count"] = (lambda a: a.tensor_split(torch.tensor(3), 1), f(2, 7))
    rows["more.tensor_split"] = (lambda a: a.tensor_split(3, 1), f(2, 7))
    rows["more.tensor_split_at"] = (lambda a: a.tensor_split((2, 5), 1), f(2, 7))
    rows["more.unflatten"] = (lambda a: a.unflatten(1, (2, -1)), f(3, 8))
    rows["more.take_along_dim"] = (lambda a, n: torch.take_along_dim(a, n, 1), x, i(3, 2, low=0, high=5))
    rows["more.index_add"] = (lambda a, n, v: a.index_add(0, n, v, alpha=2), x, torch.tensor([2, 0]), f(2, 5))
    rows["more.index_add_late"] = (
        lambda a: a.index_add(0, (a[:, 0] > 0).nonzero()[:, 0], a[(a[:, 0] > 0).nonzero()[:, 0]]),
        x,
    )
    rows["more.index_copy"] = (lambda a, n, v: a.index_copy(1, n, v), x, torch.tensor([4, 0]), f(3, 2))
    rows["more.index_fill"] = (lambda a, n: a.index_fill(1, n, 7.0), x, torch.tensor([4, 0]))
    rows["more.isin"] = (torch.isin, i(3, 5), torch.tensor([1, -2, 3]))
    rows["more.kthvalue"] = (lambda a: torch.kthvalue(a, 2, 1), x)
    some = torch.tensor([0.2, 0.75, 1.0])
    rows["more.quantile"] = (lambda a: torch.quantile(a, some, 1), x)
    rows["more.quantile_all"] = (lambda a, q: torch.quantile(a, q, keepdim=True), x, some)
    rows["more.quantile_nan"] = (
        lambda a: torch.quantile(a, 0.4, 0, True),
        torch.tensor([[1.0, float("nan")], [2.0, 3.0]]),
    )
    for name in "lower higher midpoint nearest".split():
        rows[f"more.quantile_{name}"] = (lambda a, n=name: torch.quantile(a, some, 1, True, interpolation=n), x)
    rows["more.median_dim"] = (lambda a: torch.median(a, 1), x)
    rows["more.nansum"] = (torch.nansum, torch.tensor([[1.0, float("nan")], [2.0, 3.0]]))
    rows["more.std_mean"] = (lambda a: torch.std_mean(a, 1), x)
    rows["more.cosine_similarity"] = (F.cosine_similarity, x, y)
    rows["more.local_response_norm"] = (lambda a: F.local_response_norm(a, 3), f(2, 5, 4))
    rows["more.softmin"] = (lambda a: F.softmin(a, 1), x)
    for name in "softsign tanhshrink".split():
        rows[f"more.{name}"] = (getattr(F, name), x)
    rows["more.channel_shuffle"] = (lambda a: F.channel_shuffle(a, 3), f(2, 6, 4, 5))
    for rank in (1, 2, 3):
        sizes = (5, 6, 7)[:rank]
        rows[f"more.replication_pad{rank}d"] = (
            lambda a, r=rank: F.pad(a, (2, 1) * r, mode="replicate"),
            f(1, 2, *sizes),
        )
        rows[f"more.circular_pad{rank}d"] = (lambda a, r=rank: F.pad(a, (2, 1) * r, mode="circular"), f(1, 2, *sizes))
        rows[f"more.adaptive_max_pool{rank}d"] = (
            lambda a, r=rank: getattr(F, f"adaptive_max_pool{r}d")(a, 3),
            f(1, 2, *sizes),
        )
        rows[f"more.nearest_exact{rank}d"] = (
            lambda a, r=rank: F.interpolate(a, (7, 4, 9)[:r], mode="nearest-exact"),
            f(1, 2, *sizes),
        )
        rows[f"more.nearest{rank}d"] = (lambda a, r=rank: F.interpolate(a, (7, 4, 9)[:r]), f(1, 2, *sizes))
    rows["more.embedding_bag"] = (lambda n, w: F.embedding_bag(n, w, mode="sum"), i(3, 4, low=0, high=6), f(6, 5))
    rows["more.affine_grid"] = (lambda t: F.affine_grid(t, (2, 3, 4, 5), align_corners=False), f(2, 2, 3))
    rows.update(_linalg_cases())
    tied = torch.tensor([[1.0, 3.0, 3.0, float("nan"), 2.0], [0.0, -1.0, 0.0, 5.0, 5.0]])
    for name in ("cummax", "cummin"):
        call = getattr(torch, name)
        rows[f"{name}"] = (lambda a, c=call: c(a, 1), f(2, 7, 3))
        rows[f"{name}.tied"] = (lambda a, c=call: c(a, -1), tied)
        rows[f"{name}.int"] = (lambda a, c=call: c(a, 0), i(9, 4, dtype=torch.int32))
        rows[f"{name}.number"] = (lambda a, c=call: c(a, 0), torch.tensor(2.5))
    rows["logcumsumexp"] = (lambda a: torch.logcumsumexp(a, 1), f(3, 11, 2, low=-40, high=40))
    rows["logcumsumexp.special"] = (
        lambda a: torch.logcumsumexp(a, 0),
        torch.tensor([-float("inf"), -float("inf"), 1.0, float("inf"), 2.0]),
    )
    rows["logcumsumexp.double"] = (lambda a: torch.logcumsumexp(a, -1), f(3, 6).double())
    poles = torch.tensor([0.0, -0.0, -1.0, -3.0, 1.0, 2.0, float("inf"), float("nan"), -7.5, 1e-20, 170.0])
    rows["lgamma"] = (torch.lgamma, f(3, 7, low=-6, high=9))
    rows["lgamma.special"] = (torch.lgamma, poles)
    rows["lgamma.double"] = (torch.special.gammaln, f(3, 7, low=0.1, high=40).double())
    rows["lgamma.int"] = (torch.lgamma, i(5, low=1, high=9))
    rows["erfinv"] = (torch.erfinv, f(3, 7, low=-0.999, high=0.999))
    rows["erfinv.special"] = (torch.special.erfinv, torch.tensor([-1.0, 1.0, 0.0, 1.5, 1e-6, 0.99999, float("nan")]))
    rows["erfinv.double"] = (torch.erfinv, f(3, 7, low=-0.9999, high=0.9999).double())
    rows["bincount"] = (torch.bincount, i(11, low=0, high=5))
    rows["bincount.least"] = (lambda a: torch.bincount(a, minlength=9), i(11, low=0, high=5, dtype=torch.int32))
    rows["bincount.weights"] = (torch.bincount, i(7, low=0, high=5), f(7))
    rows["bincount.whole_weights"] = (torch.bincount, i(7, low=0, high=5), i(7))
    rows["bincount.none"] = (lambda a: torch.bincount(a, minlength=3), torch.zeros(0, dtype=torch.int64))
    rows["histc"] = (lambda a: torch.histc(a, 5, -1.5, 1), f(3, 9))
    rows["histc.ends"] = (lambda a: torch.histc(a, 4, 0, 3), torch.tensor([0.0, 3.0, 1.0, 2.0, 2.9, -1.0, 4.0, 3.0]))
    rows["histc.own"] = (lambda a: torch.histc(a, 7), f(23).double())
    rows["histc.flat"] = (lambda a: torch.histc(a, 3), torch.full((5,), 2.5))
    # PyTorch exports it for bfloat16 alone. Few rows and more of them, groups without rows.
    for count, ends in ((3, [1, 1, 3, 3]), (11, [3, 3, 8, 11]), (6, [0, 4, 4, 6])):
        rows[f"_grouped_mm.{count}"] = (
            lambda a, w, e=ends: F.grouped_mm(
                a.bfloat16(), w.bfloat16(), offs=torch.tensor(e, dtype=torch.int32)
            ).float(),
            f(count, 16),
            f(4, 16, 8),
        )
    rows["_grouped_mm.late"] = (
        lambda a, w, n: F.grouped_mm(
            a.bfloat16(), w.bfloat16().transpose(1, 2), offs=n.cumsum(0, dtype=torch.int32)
        ).float(),
        f(7, 8),
        f(3, 24, 8),
        torch.tensor([2, 0, 5]),
    )
    rows["more.new"] = (lambda a: (a.new_full((2, 3), 4.0), a.new_ones(2), a.new_zeros(3, 1)), x)
    return rows


def _linalg_cases() -> dict:
    """Determinants, inverses and systems of equations; matrices need exchanges of rows."""
    import torch

    f, _, _ = _make()
    linalg = torch.linalg
    square, stack = f(5, 5), f(2, 3, 4, 4) + 5 * torch.eye(4)[[1, 0, 3, 2]]
    zero_first = torch.tensor([[0.0, 2.0, 1.0], [3.0, 0.0, 1.0], [1.0, 4.0, 0.0]])
    positive = stack @ stack.mT + torch.eye(4)
    triangle = stack + 3 * torch.eye(4)
    rows: dict = {}
    for name, call in {
        "det": torch.det,
        "linalg_det": linalg.det,
        "inverse": torch.inverse,
        "linalg_inv": linalg.inv,
        "slogdet": torch.slogdet,
        "linalg_slogdet": linalg.slogdet,
        "linalg_inv_ex": lambda a: linalg.inv_ex(a)[0],
    }.items():
        rows[name] = (call, square)
        rows[f"{name}.stack"] = (call, stack.double())
        rows[f"{name}.exchanged"] = (call, zero_first)
    rows["det.singular"] = (torch.det, torch.tensor([[1.0, 0.0, 3.0], [2.0, 0.0, 6.0], [1.0, 0.0, 1.0]]))
    rows["det.one"] = (torch.det, f(2, 1, 1))
    rows["logdet"] = (torch.logdet, torch.stack([square, -square]))
    rows["linalg_solve"] = (linalg.solve, stack, f(2, 3, 4, 5))
    rows["linalg_solve.vectors"] = (linalg.solve, stack, f(2, 3, 4))
    rows["linalg_solve.vector"] = (linalg.solve, square, f(5))
    rows["linalg_solve.spread"] = (linalg.solve, stack, f(3, 4, 2))
    rows["linalg_solve.right"] = (lambda a, b: linalg.solve(a, b, left=False), stack, f(2, 3, 5, 4))
    rows["linalg_solve_ex"] = (lambda a, b: linalg.solve_ex(a, b)[0], square, f(5, 2))
    for upper in (True, False):
        rows[f"linalg_cholesky.{upper}"] = (lambda a, u=upper: linalg.cholesky(a, upper=u), positive)
        rows[f"cholesky.{upper}"] = (lambda a, u=upper: torch.cholesky(a, u), positive.double())
        for left in (True, False):
            for unit in (True, False):
                rows[f"linalg_solve_triangular.{upper}{left}{unit}"] = (
                    lambda a, b, u=upper, l=left, o=unit: linalg.solve_triangular(
                        a, b, upper=u, left=l, unitriangular=o
                    ),
                    triangle,
                    f(3, 4, 5) if left else f(3, 5, 4),
                )
        rows[f"triangular_solve.{upper}"] = (
            lambda a, b, u=upper: torch.triangular_solve(b, a, u, transpose=True)[0],
            triangle,
            f(2, 3, 4, 5),
        )
    rows["linalg_cholesky_ex"] = (lambda a: linalg.cholesky_ex(a)[0], positive[0, 0])
    return rows


def _complex_cases() -> dict:
    """Transforms and complex numbers, whose parts are the results."""
    import torch

    f, i, _ = _make()
    parts, whole = torch.view_as_real, torch.view_as_complex
    rows: dict = {}
    for norm in ("backward", "ortho", "forward"):
        rows[f"fft.{norm}"] = (lambda x, n=norm: parts(torch.fft.fft(x, norm=n)), f(3, 7))
        rows[f"ifft.{norm}"] = (lambda x, n=norm: parts(torch.fft.ifft(whole(x), dim=0, norm=n)), f(5, 3, 2))
        rows[f"rfft.{norm}"] = (lambda x, n=norm: parts(torch.fft.rfft(x, dim=1, norm=n)), f(2, 6, 3))
        rows[f"irfft.{norm}"] = (lambda x, n=norm: torch.fft.irfft(whole(x), 9, norm=n), f(3, 5, 2))
    rows["fft.longer"] = (lambda x: parts(torch.fft.fft(x, 9, 0)), f(5, 3))
    rows["fft.shorter"] = (lambda x: parts(torch.fft.fft(x, 4)), f(2, 7))
    rows["fft.int"] = (lambda x: parts(torch.fft.fft(x)), i(2, 5))
    rows["irfft.even"] = (lambda x: torch.fft.irfft(whole(x)), f(3, 5, 2))
    rows["fft2"] = (lambda x: parts(torch.fft.fft2(x)), f(2, 4, 5))
    rows["ifft2"] = (lambda x: parts(torch.fft.ifft2(whole(x), (3, 6))), f(2, 4, 5, 2))
    rows["rfft2"] = (lambda x: parts(torch.fft.rfft2(x, norm="ortho")), f(2, 4, 5))
    rows["irfft2"] = (lambda x: torch.fft.irfft2(whole(x), (4, 5)), f(2, 4, 3, 2))
    rows["fftn"] = (lambda x: torch.fft.fftn(x, dim=(1, 2)).real, f(2, 4, 5))
    rows["ifftn"] = (lambda x: parts(torch.fft.ifftn(whole(x))), f(2, 3, 4, 2))
    rows["rfftn"] = (lambda x: parts(torch.fft.rfftn(x, (3, 6))), f(2, 3, 4))
    rows["irfftn"] = (lambda x: torch.fft.irfftn(whole(x), dim=(0, 2)), f(2, 3, 4, 2))
    rows["_fft_c2c"] = (lambda x: parts(torch.ops.aten._fft_c2c(whole(x), [0, 1], 1, False)), f(3, 5, 2))
    rows["_fft_r2c"] = (lambda x: parts(torch.ops.aten._fft_r2c(x, [1, 0], 0, False)), f(3, 5))
    rows["_fft_r2c.half"] = (lambda x: parts(torch.ops.aten._fft_r2c(x, [0, 1], 2, True)), f(3, 5))
    rows["_fft_c2r"] = (lambda x: torch.ops.aten._fft_c2r(whole(x), [0, 1], 2, 7), f(3, 4, 2))
    rows["stft"] = (lambda x, w: parts(torch.stft(x, 8, 3, 6, w, center=False, return_complex=True)), f(2, 21), f(6))
    rows["stft.centered"] = (
        lambda x: parts(torch.stft(x, 8, normalized=True, onesided=False, window=torch.ones(8), return_complex=True)),
        f(21),
    )
    for name in ("add", "sub", "mul", "div"):
        rows[f"{name}.complex"] = (
            lambda x, y, n=name: parts(getattr(torch, n)(whole(x), whole(y))),
            f(3, 5, 2),
            f(5, 2, low=-1),
        )
        rows[f"{name}.complex_real"] = (lambda x, y, n=name: parts(getattr(torch, n)(whole(x), y)), f(3, 5, 2), f(3, 5))
    rows["add.complex_alpha"] = (lambda x: parts(torch.add(whole(x), whole(x), alpha=3)), f(3, 2))
    rows["mul.complex_number"] = (lambda x: parts(whole(x) * 2.5), f(3, 2))
    rows["abs.complex"] = (lambda x: whole(x).abs(), torch.cat([f(4, 2), f(4, 2) * 1e30, torch.zeros(1, 2)]))
    rows["angle.complex"] = (lambda x: whole(x).angle(), f(7, 2))
    rows["angle"] = (torch.angle, f(7))
    rows["imag"] = (lambda x: whole(x).imag + whole(x).real, f(7, 2))
    rows["conj"] = (lambda x: parts(whole(x).conj() * whole(x).transpose(0, 1)[:, 1:2]), f(3, 3, 2))
    rows["polar"] = (lambda x, y: parts(torch.polar(x, y)), f(3, 5), f(3, 5))
    rows["complex"] = (lambda x, y: parts(torch.complex(x, y)), f(3, 5), f(3, 5))
    rows["cat.complex"] = (
        lambda x: parts(torch.cat([whole(x), torch.stack([whole(x)[0], -whole(x)[1]])], -1)),
        f(2, 3, 2),
    )
    rows["split.complex"] = (lambda x: parts(whole(x).split(2, 1)[1].sum(0)), f(3, 5, 2))
    rows["rotary.complex"] = (
        lambda x, t: parts(whole(x.reshape(2, 3, 4, 2)) * torch.polar(torch.ones_like(t), t)).flatten(2),
        f(2, 3, 8),
        f(3, 4),
    )
    return rows


# Core operators that have no case, with the reason.
LEFT_OUT = {
    "_adaptive_avg_pool2d_backward": "PyTorch computes gradients",
    "avg_pool2d_backward": "PyTorch computes gradients",
    "convolution_backward": "PyTorch computes gradients",
    "embedding_dense_backward": "PyTorch computes gradients",
    "max_pool2d_with_indices_backward": "PyTorch computes gradients",
    "native_group_norm_backward": "PyTorch computes gradients",
    "native_layer_norm_backward": "PyTorch computes gradients",
    "resize_": "the additional elements are undefined",
    "rand": "compiled models do not generate random numbers",
    "randn": "compiled models do not generate random numbers",
    "randperm": "compiled models do not generate random numbers",
}

"""The cases of ``benchmarks.gpu.auto_scheduler``: layers of models that have templates, and operators without one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tvm import te, topi

# Convolutions of ResNet-50: channels, size, filters, window, stride.
RESNET50 = [
    (3, 224, 64, 7, 2), (64, 56, 64, 1, 1), (64, 56, 64, 3, 1), (64, 56, 256, 1, 1), (256, 56, 64, 1, 1),
    (256, 56, 128, 1, 1), (128, 56, 128, 3, 2), (128, 28, 512, 1, 1), (256, 56, 512, 1, 2), (512, 28, 128, 1, 1),
    (128, 28, 128, 3, 1), (512, 28, 256, 1, 1), (256, 28, 256, 3, 2), (256, 14, 1024, 1, 1), (512, 28, 1024, 1, 2),
    (1024, 14, 256, 1, 1), (256, 14, 256, 3, 1), (1024, 14, 512, 1, 1), (512, 14, 512, 3, 2), (512, 7, 2048, 1, 1),
    (1024, 14, 2048, 1, 2), (2048, 7, 512, 1, 1), (512, 7, 512, 3, 1)]  # fmt: skip
QUICK_RESNET50 = [RESNET50[n] for n in (0, 2, 3, 10, 15, 16, 22)]
# Matmuls of BERT-base with 128 tokens: m, n, k; and of its heads: heads, m, n, k.
BERT_DENSE = [(128, 768, 768), (128, 3072, 768), (128, 768, 3072)]
BERT_HEADS = [(12, 128, 128, 64), (12, 128, 64, 128)]

Shape = tuple[int, ...]


class Case(NamedTuple):
    """An operator: the shapes of its inputs, its function of tensors, the function with templates in its place, and
    the same in PyTorch."""

    name: str
    group: str
    shapes: Sequence[Shape]
    compute: Callable[..., Any]
    template: Callable[..., Any] | None
    torch: Callable[..., Any]
    dtype: str = "float32"


def convolution(channels: int, size: int, filters: int, window: int, stride: int) -> Case:
    pad = window // 2
    return Case(
        f"conv2d {channels}x{size} > {filters} {window}x{window}/{stride}", "resnet50",
        [(1, channels, size, size), (filters, channels, window, window)],
        lambda x, w: topi.nn.conv2d_nchw(x, w, stride, pad, 1),
        lambda x, w: topi.cuda.conv2d_nchw(x, w, stride, pad, 1),
        lambda t, x, w: t.nn.functional.conv2d(x, w, None, stride, pad))  # fmt: skip


def dense(rows: int, columns: int, terms: int, group: str = "bert") -> Case:
    return Case(
        f"dense {rows}x{columns}x{terms}", group, [(rows, terms), (columns, terms)], topi.nn.dense, topi.cuda.dense,
        lambda t, x, w: t.nn.functional.linear(x, w))  # fmt: skip


def batch_matmul(heads: int, rows: int, columns: int, terms: int) -> Case:
    return Case(
        f"batch_matmul {heads}x{rows}x{columns}x{terms}", "bert", [(heads, rows, terms), (heads, columns, terms)],
        topi.nn.batch_matmul, topi.cuda.batch_matmul, lambda t, x, w: t.matmul(x, w.transpose(1, 2)))  # fmt: skip


# -- half precision, on tensor cores ---------------------------------------------------------------------------------


def _rounded(product: Callable[..., Any]) -> Callable[..., Any]:
    """Return a matmul with float32 accumulators whose output is rounded, as in half-precision graphs."""
    return lambda x, w: topi.cast(product(x, w), "float16")


def half(case: Case, compute: Callable[..., Any], template: Callable[..., Any]) -> Case:
    return case._replace(name=f"{case.name} half", group="half", compute=_rounded(compute), template=_rounded(template),
                         dtype="float16")  # fmt: skip


def half_dense(rows: int, columns: int, terms: int) -> Case:
    return half(dense(rows, columns, terms), lambda x, w: topi.nn.dense(x, w, out_dtype="float32"),
                lambda x, w: topi.cuda.dense(x, w, out_dtype="float32"))  # fmt: skip


def half_batch_matmul(*sizes: int) -> Case:
    return half(batch_matmul(*sizes), lambda x, w: topi.nn.batch_matmul(x, w, out_dtype="float32"),
                lambda x, w: topi.cuda.batch_matmul(x, w, out_dtype="float32"))  # fmt: skip


def half_convolution(channels: int, size: int, filters: int, window: int) -> Case:
    """Return a convolution in NHWC."""
    pad = window // 2

    def torch(t: Any, x: Any, w: Any) -> Any:
        made = t.nn.functional.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), None, 1, pad)
        return made.permute(0, 2, 3, 1)

    plain = Case(
        f"conv2d NHWC {size}x{size}x{channels} > {filters} {window}x{window}",
        "half",
        [(1, size, size, channels), (window, window, channels, filters)],
        topi.nn.conv2d_nhwc,
        None,
        torch,
    )
    return half(plain, lambda x, w: topi.nn.conv2d_nhwc(x, w, 1, pad, 1, "float32"),
                lambda x, w: topi.cuda.conv2d_nhwc(x, w, 1, pad, 1, "float32"))  # fmt: skip


# -- operators without templates -----------------------------------------------------------------------------------


def _operator(name: str, shapes: Sequence[Shape], compute: Callable[..., Any], torch: Callable[..., Any]) -> Case:
    return Case(name, "operators", shapes, compute, None, torch)


def capsule(x: Any, w: Any) -> Any:
    """Return a convolution whose elements are 4x4 matrices."""
    images, height, width, _, _, channels = x.shape
    window, _, _, _, _, filters = w.shape
    ry, rx, rk, rc = (te.reduce_axis((0, n), name=name) for n, name in
                      ((window, "ry"), (window, "rx"), (4, "rk"), (channels, "rc")))  # fmt: skip
    padded = topi.nn.pad(x, [0, 1, 1, 0, 0, 0], [0, 1, 1, 0, 0, 0])
    return te.compute(
        (images, height, width, 4, 4, filters),
        lambda n, h, v, i, j, f: te.sum(
            padded[n, h + ry, v + rx, i, rk, rc] * w[ry, rx, rk, j, rc, f], axis=[ry, rx, rk, rc]),
        name="capsule")  # fmt: skip


def torch_capsule(t: Any, x: Any, w: Any) -> Any:
    padded = t.nn.functional.pad(x, (0, 0, 0, 0, 0, 0, 1, 1, 1, 1))
    windows = padded.unfold(1, 3, 1).unfold(2, 3, 1)
    return t.einsum("nhvikcyx,yxkjcf->nhvijf", windows, w)


def distances(a: Any, b: Any) -> Any:
    """Return the sums of absolute differences between all rows of two matrices."""
    k = te.reduce_axis((0, a.shape[1]), name="k")
    return te.compute((a.shape[0], b.shape[0]), lambda i, j: te.sum(te.abs(a[i, k] - b[j, k]), axis=k), name="distance")


def max_plus(a: Any, b: Any) -> Any:
    """Return a matmul in the max-plus semiring: maxima of sums."""
    k = te.reduce_axis((0, a.shape[1]), name="k")
    return te.compute((a.shape[0], b.shape[1]), lambda i, j: te.max(a[i, k] + b[k, j], axis=k), name="max_plus")


def bilinear(x: Any, w: Any, y: Any) -> Any:
    i, j = te.reduce_axis((0, x.shape[1]), name="ri"), te.reduce_axis((0, y.shape[1]), name="rj")
    return te.compute((x.shape[0], w.shape[0]),
                      lambda b, o: te.sum(x[b, i] * w[o, i, j] * y[b, j], axis=[i, j]), name="bilinear")  # fmt: skip


def correlation(left: Any, right: Any, shifts: int = 32) -> Any:
    """Return the correlation of the channels of two images, one of them shifted horizontally."""
    channels, height, width = left.shape
    c = te.reduce_axis((0, channels), name="c")
    padded = topi.nn.pad(right, [0, 0, shifts], [0, 0, 0])
    return te.compute((shifts, height, width),
                      lambda d, h, v: te.sum(left[c, h, v] * padded[c, h, v + shifts - d], axis=c),
                      name="correlation")  # fmt: skip


def torch_correlation(t: Any, left: Any, right: Any, shifts: int = 32) -> Any:
    width = left.shape[2]
    padded = t.nn.functional.pad(right, (shifts, 0))
    return t.stack([(left * padded[:, :, shifts - d : shifts - d + width]).sum(0) for d in range(shifts)])


def norms(x: Any) -> Any:
    """Return the Frobenius norms of matrices."""
    i, j = te.reduce_axis((0, x.shape[1]), name="i"), te.reduce_axis((0, x.shape[2]), name="j")
    total = te.compute((x.shape[0],), lambda b: te.sum(x[b, i, j] * x[b, i, j], axis=[i, j]), name="squares")
    return te.compute((x.shape[0],), lambda b: te.sqrt(total[b]), name="norm")


def channel_norm(x: Any) -> Any:
    """Return data normalized over the channels of each position, as by a layer norm over the second axis."""
    batch, channels, height, width = x.shape
    c, d = te.reduce_axis((0, channels), name="c"), te.reduce_axis((0, channels), name="d")
    shape = (batch, height, width)
    total = te.compute(shape, lambda n, h, w: te.sum(x[n, c, h, w], axis=c), name="total")
    squares = te.compute(shape, lambda n, h, w: te.sum(x[n, d, h, w] * x[n, d, h, w], axis=d), name="squares")
    scale = 1.0 / int(channels)

    def value(n: Any, k: Any, h: Any, w: Any) -> Any:
        mean = total[n, h, w] * scale
        return (x[n, k, h, w] - mean) * te.rsqrt(squares[n, h, w] * scale - mean * mean + 1e-5)

    return te.compute(x.shape, value, name="channel_norm")


def torch_channel_norm(t: Any, x: Any) -> Any:
    variance, mean = t.var_mean(x, dim=1, keepdim=True, correction=0)
    return (x - mean) * t.rsqrt(variance + 1e-5)


def operators() -> list[Case]:
    return [
        _operator("conv1d 64x256 > 128 3/2", [(1, 64, 256), (128, 64, 3)],
                  lambda x, w: topi.nn.conv1d_ncw(x, w, 2, 1, 1),
                  lambda t, x, w: t.nn.functional.conv1d(x, w, None, 2, 1)),
        _operator("conv1d dilated 16x128x1024 > 128 3 by 4", [(16, 128, 1024), (128, 128, 3)],
                  lambda x, w: topi.nn.conv1d_ncw(x, w, 1, 4, 4),
                  lambda t, x, w: t.nn.functional.conv1d(x, w, None, 1, 4, 4)),
        _operator("conv3d 64x8x28x28 > 64 3x3x3", [(1, 64, 8, 28, 28), (64, 64, 3, 3, 3)],
                  lambda x, w: topi.nn.conv3d_ncdhw(x, w, 1, 1, 1),
                  lambda t, x, w: t.nn.functional.conv3d(x, w, None, 1, 1)),
        _operator("capsule 16x16 4x4 of 32", [(1, 16, 16, 4, 4, 32), (3, 3, 4, 4, 32, 32)], capsule, torch_capsule),
        _operator("distances 1024x1024x64", [(1024, 64), (1024, 64)], distances, lambda t, a, b: t.cdist(a, b, p=1.0)),
        _operator("max plus 512x512x512", [(512, 512), (512, 512)], max_plus,
                  lambda t, a, b: (a[:, :, None] + b[None]).amax(1)),
        _operator("bilinear 64x64x128x128", [(64, 128), (64, 128, 128), (64, 128)], bilinear,
                  lambda t, x, w, y: t.nn.functional.bilinear(x, y, w)),
        _operator("correlation 64x96x160 by 32", [(64, 96, 160), (64, 96, 160)], correlation, torch_correlation),
        _operator("norms 64x256x256", [(64, 256, 256)], norms, lambda t, x: t.linalg.matrix_norm(x)),
        _operator("channel norm 8x192x28x28", [(8, 192, 28, 28)], channel_norm, torch_channel_norm),
    ]  # fmt: skip


def cases(groups: Sequence[str], is_quick: bool) -> list[Case]:
    found = []
    if "resnet50" in groups:
        found += [convolution(*shape) for shape in (QUICK_RESNET50 if is_quick else RESNET50)]
        found.append(dense(1, 1000, 2048, "resnet50"))
    if "bert" in groups:
        found += [dense(*shape) for shape in BERT_DENSE]
        found += [batch_matmul(*shape) for shape in (BERT_HEADS[:1] if is_quick else BERT_HEADS)]
    if "half" in groups:
        found += [half_dense(*shape) for shape in (*BERT_DENSE[:2], (1024, 1024, 1024))]
        found += [half_batch_matmul(*BERT_HEADS[0]), half_convolution(256, 64, 256, 1)]
        found += [] if is_quick else [half_dense(*BERT_DENSE[2]), half_convolution(64, 64, 64, 3)]
    if "operators" in groups:
        found += operators()
    return found


GROUPS = ("resnet50", "bert", "half", "operators")

__all__ = ["Case", "GROUPS", "cases"]

"""Converters of dense layers, embeddings, masks, and layers without effect in inference mode."""

from __future__ import annotations

import string

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr
from .table import Context, layer

_IDENTITY = (
    "Identity", "Dropout", "AlphaDropout", "GaussianDropout", "GaussianNoise", "ActivityRegularization",
)  # fmt: skip
# Augmentation layers have no effect in inference mode, but discard the mask. The first ones keep integer types, the
# others convert to float.
_KEEPING = (
    "MixUp", "RandomBrightness", "RandomColorDegeneration", "RandomColorJitter", "RandomContrast", "RandomGrayscale",
    "RandomHue", "RandomInvert", "RandomPosterization", "RandomSaturation",
)  # fmt: skip
_MAKING = (
    "AugMix", "CutMix", "RandAugment", "RandomElasticTransform", "RandomErasing", "RandomFlip", "RandomGaussianBlur",
    "RandomHeight", "RandomPerspective", "RandomRotation", "RandomSharpness", "RandomShear", "RandomTranslation",
    "RandomWidth", "RandomZoom",
)  # fmt: skip


@layer(*_IDENTITY, "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D", masked=True)
def identity(ctx, x):
    return x


@layer(*_KEEPING, *_MAKING)
def augmentation(ctx, x):
    return x if ctx.layer.kind in _KEEPING and ctx.version >= 3 else ctx.cast(x, ctx.compute_dtype)


@layer("Dense", masked=True)
def dense(ctx, x):
    return ctx.activated(ctx.biased(ctx.product(x, ctx.array("kernel"))))


@layer("Embedding")
def embedding(ctx, x):
    table = ctx.weight("embeddings")
    if ctx.get("mask_zero", False):
        ctx.result_mask = ctx.infer(relay.not_equal(x, ctx.like(0, x)))
    return relay.take(table, ctx.cast(x, "int32") if ctx.dtype(x) not in ("int32", "int64") else x, 0)


@layer("ReversibleEmbedding")
def reversible_embedding(ctx, x, reverse=False):
    if not reverse:
        return embedding(ctx, x)
    kernel = ctx.array("embeddings").T if ctx.get("tie_weights", True) else ctx.array("reverse_embeddings")
    out = ctx.product(x, kernel)
    cap = ctx.get("logit_soft_cap")
    if cap is not None:
        out = relay.multiply(relay.tanh(relay.divide(out, ctx.like(cap, x))), ctx.like(cap, x))
    return out


@layer("Masking")
def masking(ctx, x):
    counts = relay.not_equal(x, ctx.like(ctx.get("mask_value", 0.0), x))
    kept = ctx.infer(relay.any(counts, -1, True))
    ctx.result_mask = ctx.infer(relay.squeeze(kept, [ctx.rank(x) - 1]))
    return relay.where(kept, x, ctx.like(0, x))


# -- einsum -----------------------------------------------------------------------------------------------------------


def _letters(ctx: Context, equation: str, ranks: list[int]) -> tuple[list[str], str]:
    """Return the index letters of the operands and the output; ellipses are replaced by unused letters."""
    left, arrow, out = equation.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(ranks) or not arrow:
        raise TVMError(f"the einsum equation '{equation}' must contain '->' and {len(ranks)} operands")
    free = [c for c in string.ascii_letters if c not in equation]
    dots, full = "", []
    for part, rank in zip(parts, ranks):
        if "..." in part:
            missing = rank - len(part.replace("...", ""))
            names = "".join(free[:missing])
            dots = names if len(names) > len(dots) else dots
            part = part.replace("...", names[-missing:] if missing else "")
        if len(part) != rank or len(set(part)) != rank:
            raise TVMError(f"the einsum equation '{equation}' does not match an operand with {rank} dimensions")
        full.append(part)
    return full, out.replace("...", dots)


def einsum(ctx: Context, equation: str, a: RelayExpr, b: RelayExpr) -> RelayExpr:
    """Compute an einsum of two operands as one matmul."""
    (left, right), out = _letters(ctx, equation, [ctx.rank(a), ctx.rank(b)])
    a, left = _summed(ctx, a, left, right + out)
    b, right = _summed(ctx, b, right, left + out)
    shared = [c for c in left if c in right]
    batch = [c for c in shared if c in out]
    inner = [c for c in shared if c not in out]
    rows, columns = [c for c in left if c not in right], [c for c in right if c not in left]
    sizes = {**dict(zip(right, ctx.known_shape(b))), **dict(zip(left, ctx.known_shape(a)))}

    def count(letters):
        total = 1
        for c in letters:
            total *= sizes[c]
        return total

    def moved(e, letters, order):
        return relay.transpose(e, [letters.index(c) for c in order])

    x = relay.reshape(moved(a, left, [*batch, *rows, *inner]), (count(batch), count(rows), count(inner)))
    y = relay.reshape(moved(b, right, [*batch, *columns, *inner]), (count(batch), count(columns), count(inner)))
    if not batch:
        made = relay.nn.dense(relay.squeeze(x, [0]), relay.squeeze(y, [0]))
    else:
        made = relay.nn.batch_matmul(x, y)
    order = [*batch, *rows, *columns]
    if sorted(order) != sorted(out):
        raise TVMError(f"the output of the einsum equation '{equation}' does not match its operands")
    made = relay.reshape(made, tuple(sizes[c] for c in order))
    return ctx.infer(relay.transpose(made, [order.index(c) for c in out]))


def _summed(ctx: Context, e: RelayExpr, letters: str, kept: str) -> tuple[RelayExpr, str]:
    """Sum an operand over the letters that occur neither in the other operand nor in the output."""
    axes = [i for i, c in enumerate(letters) if c not in kept]
    if not axes:
        return e, letters
    return ctx.infer(relay.sum(e, axes)), "".join(c for c in letters if c in kept)


@layer("EinsumDense")
def einsum_dense(ctx, x):
    equation = ctx.get("equation")
    if not isinstance(equation, str):
        raise TVMError("the layer has no setting 'equation'")
    out = einsum(ctx, equation, x, ctx.weight("kernel"))
    if ctx.get("bias_axes") is not None:
        # The bias has a size of 1 for the other axes, so that it broadcasts.
        out = relay.add(out, ctx.weight("bias"))
    return ctx.activated(out)


__all__ = ["einsum"]

"""The benchmark kernels, scheduled with public primitives only."""

from __future__ import annotations

from tvm import te

# 256-bit vectors and 16 registers: blocks of 8 channels, 4 x 2 accumulators.
CONV_AVX2 = {"block": 8, "tile_w": 4, "tile_k": 2, "unroll_c": 8}


def conv2d_nchwc(channels=64, filters=64, size=56, kernel=3, block=16, tile_w=14, tile_k=2, unroll_c=4, parallel=True):
    """Return a direct convolution on blocked layouts: data [C/b, H, W, b], weight [K/b, C/b, R, S, b, b], output
    [K/b, H, W, b]."""
    padded = size + kernel - 1
    data = te.placeholder((channels // block, padded, padded, block), name="data")
    weight = te.placeholder((filters // block, channels // block, kernel, kernel, block, block), name="weight")
    co = te.reduce_axis((0, channels // block), "co")
    ci = te.reduce_axis((0, block), "ci")
    r = te.reduce_axis((0, kernel), "r")
    q = te.reduce_axis((0, kernel), "q")
    out = te.compute(
        (filters // block, size, size, block),
        lambda k, h, w, kb: te.sum(data[co, h + r, w + q, ci] * weight[k, co, r, q, ci, kb], axis=[co, r, q, ci]),
        name="out",
    )
    s = te.create_schedule(out.op)
    acc = s.cache_write(out, "local")
    k, rows, w, kb = s[out].op.axis
    ko, ki = s[out].split(k, factor=tile_k)
    wo, wi = s[out].split(w, factor=tile_w)
    s[out].reorder(ko, rows, wo, ki, wi, kb)
    s[out].vectorize(kb)
    s[out].unroll(ki)
    s[out].unroll(wi)
    s[acc].compute_at(s[out], wo)
    k, h, w, kb = s[acc].op.axis
    co, r, q, ci = s[acc].op.reduce_axis
    cio, cii = s[acc].split(ci, factor=unroll_c)
    s[acc].reorder(h, co, r, q, cio, cii, w, k, kb)
    s[acc].unroll(cii)
    s[acc].unroll(w)
    s[acc].unroll(k)
    s[acc].vectorize(kb)
    if parallel:
        s[out].parallel(s[out].fuse(ko, rows))
    return s, [data, weight, out]


def matmul(n=1024, tile_m=4, tile_n=64, vector=16, unroll_k=4, parallel=True):
    """Return a packed matmul: B is packed into column panels, and a register tile accumulates over all of K."""
    a = te.placeholder((n, n), name="A")
    b = te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), "k")
    packed = te.compute((n // tile_n, n, tile_n), lambda x, y, z: b[y, x * tile_n + z], name="packed")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * packed[j // tile_n, k, j % tile_n], axis=k), name="C")
    s = te.create_schedule(c.op)
    acc = s.cache_write(c, "local")
    i, j = s[c].op.axis
    jo, ji = s[c].split(j, factor=tile_n)
    io, ii = s[c].split(i, factor=tile_m)
    jio, jii = s[c].split(ji, factor=vector)
    s[c].reorder(jo, io, ii, jio, jii)
    s[c].vectorize(jii)
    s[c].unroll(jio)
    s[c].unroll(ii)
    s[acc].compute_at(s[c], io)
    i, j = s[acc].op.axis
    (k,) = s[acc].op.reduce_axis
    jo2, ji2 = s[acc].split(j, factor=vector)
    ko, ki = s[acc].split(k, factor=unroll_k)
    s[acc].reorder(ko, ki, i, jo2, ji2)
    s[acc].vectorize(ji2)
    s[acc].unroll(jo2)
    s[acc].unroll(i)
    s[acc].unroll(ki)
    x, y, z = s[packed].op.axis
    s[packed].vectorize(z)
    if parallel:
        s[c].parallel(jo)
        s[packed].parallel(x)
    return s, [a, b, c]

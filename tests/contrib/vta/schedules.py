"""The schedules of the published guides for the accelerator, with free sizes; NumPy computes the expected values."""

from __future__ import annotations

import numpy as np

import tvm
import vta
from tvm import te, topi

INT8 = np.iinfo("int8")


def quantized(res, env):
    """Shift, clip and cast a tensor of accumulators: the stages on the ALU and the output."""
    shr = te.compute(res.shape, lambda *i: res(*i) >> env.INP_WIDTH, name="res_shr")
    low = te.compute(res.shape, lambda *i: te.max(shr(*i), 0), "res_max")
    high = te.compute(res.shape, lambda *i: te.min(low(*i), (1 << (env.INP_WIDTH - 1)) - 1), "res_min")
    return [shr, low, high], te.compute(res.shape, lambda *i: high(*i).astype(env.inp_dtype), name="res")


def expected(res):
    return np.clip(res >> 8, 0, 127).astype("int8")


def threaded(s, out, axis, threads, outermost):
    """Distribute an axis over virtual threads; return the axis of one thread."""
    if threads == 1:
        return axis
    own, tx = s[out].split(axis, factor=threads)
    s[out].reorder(tx, outermost)
    s[out].bind(tx, te.thread_axis("cthread"))
    return own


def on_chip(s, env, inputs, weights, res, alu):
    s[inputs].set_scope(env.inp_scope)
    s[weights].set_scope(env.wgt_scope)
    for stage in (res, *alu):
        s[stage].set_scope(env.acc_scope)
    for stage in (inputs, weights):
        s[stage].pragma(s[stage].op.axis[0], env.dma_copy)
    for stage in alu:
        s[stage].pragma(s[stage].op.axis[0], env.alu)


def matmul(env, o, n, m, oc_block=1, ic_block=1, threads=1):
    """The schedule of an (o, n) by (m, n) matrix multiplication, in blocks of the accelerator; its arguments."""
    a = te.placeholder((o, n, env.BATCH, env.BLOCK_IN), env.inp_dtype, "A")
    b = te.placeholder((m, n, env.BLOCK_OUT, env.BLOCK_IN), env.wgt_dtype, "B")
    a_buf = te.compute(a.shape, lambda *i: a(*i), "A_buf")
    b_buf = te.compute(b.shape, lambda *i: b(*i), "B_buf")
    ko, ki = te.reduce_axis((0, n), "ko"), te.reduce_axis((0, env.BLOCK_IN), "ki")
    res = te.compute(
        (o, m, env.BATCH, env.BLOCK_OUT),
        lambda bo, co, bi, ci: te.sum(
            a_buf[bo, ko, bi, ki].astype(env.acc_dtype) * b_buf[co, ko, ci, ki].astype(env.acc_dtype), axis=[ko, ki]
        ),
        name="res_gem",
    )
    alu, out = quantized(res, env)
    s = te.create_schedule(out.op)
    on_chip(s, env, a_buf, b_buf, res, alu)
    bo, oc, bi, ci = s[out].op.axis
    oc_out, oc_in = s[out].split(oc, factor=oc_block)
    b_out, b_in = s[out].split(bo, factor=1)
    s[out].reorder(b_out, oc_out, b_in, oc_in, bi, ci)
    at = threaded(s, out, oc_out, threads, b_out)
    for stage in (res, *alu):
        s[stage].compute_at(s[out], at)
    gb, go, gbi, gci = s[res].op.axis
    ic_out, ic_in = s[res].split(ko, factor=ic_block)
    s[res].reorder(ic_out, gb, ic_in, go, gbi, gci, ki)
    s[a_buf].compute_at(s[res], ic_out)
    s[b_buf].compute_at(s[res], ic_out)
    s[res].tensorize(gbi, env.gemm)
    s[out].pragma(b_in, env.dma_copy)
    return s, [a, b, out]


def conv2d(env, ic, oc, size, kernel, pad, stride, oc_block=1, h_block=1, threads=1):
    """The schedule of a convolution of a square image with batch 1; channels are numbers of blocks."""
    data = te.placeholder((1, ic, size, size, env.BATCH, env.BLOCK_IN), env.inp_dtype, "data")
    weight = te.placeholder((oc, ic, kernel, kernel, env.BLOCK_OUT, env.BLOCK_IN), env.wgt_dtype, "kernel")
    data_buf = topi.nn.pad(data, [0, 0, pad, pad, 0, 0], name="data_buf")
    weight_buf = te.compute(weight.shape, lambda *i: weight(*i), "kernel_buf")
    k, ki = te.reduce_axis((0, ic), "ic"), te.reduce_axis((0, env.BLOCK_IN), "ic_tns")
    dy, dx = te.reduce_axis((0, kernel), "dy"), te.reduce_axis((0, kernel), "dx")
    out_size = (size + 2 * pad - kernel) // stride + 1
    res = te.compute(
        (1, oc, out_size, out_size, env.BATCH, env.BLOCK_OUT),
        lambda bo, co, i, j, bi, ci: te.sum(
            data_buf[bo, k, i * stride + dy, j * stride + dx, bi, ki].astype(env.acc_dtype)
            * weight_buf[co, k, dy, dx, ci, ki].astype(env.acc_dtype),
            axis=[k, dy, dx, ki],
        ),
        name="res_conv",
    )
    alu, out = quantized(res, env)
    s = te.create_schedule(out.op)
    on_chip(s, env, data_buf, weight_buf, res, alu)
    b, c, y, x, bi, ci = s[out].op.axis
    c_out, c_in = s[out].split(c, factor=oc_block)
    y_out, y_in = s[out].split(y, factor=h_block)
    s[out].reorder(b, c_out, y_out, c_in, y_in, x, bi, ci)
    threaded(s, out, c_out, threads, b)
    for stage in (res, *alu):
        s[stage].compute_at(s[out], y_out)
    gb, gc, gy, gx, gbi, gci = s[res].op.axis
    s[res].reorder(k, gb, gc, gy, dy, dx, gx, gbi, gci, ki)
    s[data_buf].compute_at(s[res], k)
    s[weight_buf].compute_at(s[res], k)
    s[res].tensorize(gbi, env.gemm)
    s[out].pragma(c_in, env.dma_copy)
    return s, [data, weight, out]


def random_inputs(args, rng):
    shapes = [(tuple(int(d) for d in t.shape), t.dtype) for t in args[:-1]]
    return [rng.integers(INT8.min, INT8.max + 1, shape).astype(dtype) for shape, dtype in shapes]


def build(s, args, name="main"):
    return vta.build(s, args, tvm.target.Target("ext_dev", host="llvm"), name=name)


def call(function, args, inputs):
    """Run a compiled function on the device and return the output."""
    device = tvm.ext_dev(0)
    out = tvm.nd.empty(tuple(int(d) for d in args[-1].shape), args[-1].dtype, device)
    function(*(tvm.nd.array(x, device) for x in inputs), out)
    return out.numpy()


def run(s, args, inputs):
    return call(build(s, args), args, inputs)


def matmul_result(a, b):
    return expected(np.einsum("onbi,mnji->ombj", a.astype("int32"), b.astype("int32")))


def conv2d_result(data, weight, pad, stride):
    wide = np.pad(data.astype("int32"), [(0, 0), (0, 0), (pad, pad), (pad, pad), (0, 0), (0, 0)])
    kernel = weight.shape[2]
    size = (wide.shape[2] - kernel) // stride + 1
    res = 0
    for y in range(kernel):
        for x in range(kernel):
            part = wide[:, :, y : y + size * stride : stride, x : x + size * stride : stride]
            part = part[:, :, :size, :size]
            res = res + np.einsum("nkhwbi,mkji->nmhwbj", part, weight[:, :, y, x].astype("int32"))
    return expected(res)

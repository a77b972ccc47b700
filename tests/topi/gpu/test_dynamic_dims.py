"""Kernels of GPUs whose sizes are not known while compiling: compiled once, they compute what NumPy does at any size,
on the emulator, in the tiles of static ones and with indices of 32 bits."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests import cuda_emulator
from tests.cuda_emulator.marks import needs_emulator
from tests.relay.symbolic_kernels import primitive
from tvm import relay
from tvm.ir.prim import BufferLoad, IntImm
from tvm.ir.visit import post_order
from tvm.relay.backend.te_compiler import MOST_ELEMENTS, KernelCompiler
from tvm.tir.stmt import AssertStmt, AttrStmt, BufferStore, IfThenElse


def typed(*shape, dtype="float16"):
    return relay.TensorType([relay.Any() if d is None else d for d in shape], dtype)


def kernel_of(build, types, arch="sm_80"):
    return KernelCompiler(tvm.target.Target(f"cuda -arch={arch}", host="llvm")).lower(primitive(build, types))


def body_of(kernel):
    return kernel.module[kernel.name].body


class OnEmulator:
    """A kernel built once and called with arrays of any sizes."""

    def __init__(self, build, types, arch="sm_80"):
        self.kernel = kernel_of(build, types, arch)
        with cuda_emulator.building():
            self.built = tvm.build(self.kernel.module, target=tvm.target.Target(f"cuda -arch={arch}", host="llvm"))

    def run(self, arrays, shape, dtype="float16"):
        return cuda_emulator.call(self.built, [*arrays, np.full(shape, 7, dtype)], self.kernel.name)[-1]


def close(got, wanted, digits=1e-2):
    wanted = wanted.astype("float32")
    most = max(float(np.abs(wanted).max(initial=0)), 1.0)
    np.testing.assert_allclose(got.astype("float32"), wanted, rtol=digits, atol=digits * most)


def halves(rng, *shape):
    return rng.standard_normal(shape).astype("float16")


def dense(x, w, b):
    return relay.nn.relu(relay.nn.matmul(x, w, units=64) + b)


DENSE = typed(None, None, 32), typed(32, 64), typed(64)


@needs_emulator
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_dense_layer_of_any_number_of_rows(arch, rng):
    made = OnEmulator(dense, DENSE, arch)
    w, b = halves(rng, 32, 64), halves(rng, 64)
    # The second is of another class of sizes; of an empty batch nothing is launched.
    for lead in ((1, 3), (3, 47), (0, 5)):
        x = halves(rng, *lead, 32)
        wanted = np.maximum(x.astype("float32") @ w.astype("float32") + b, 0)
        close(made.run([x, w, b], (*lead, 64)), wanted)


@needs_emulator
def test_batches_of_matmuls_whose_sizes_are_all_unknown(rng):
    made = OnEmulator(lambda a, b: relay.nn.batch_matmul(a, b, transpose_b=False),
                      (typed(None, None, None), typed(None, None, 24)))  # fmt: skip
    for count, m, k in ((2, 5, 3), (3, 33, 47)):
        a, b = halves(rng, count, m, k), halves(rng, count, k, 24)
        close(made.run([a, b], (count, m, 24)), a.astype("float32") @ b.astype("float32"))


@needs_emulator
def test_a_batch_known_on_one_side_alone_is_broadcast_where_the_other_is_one(rng):
    made = OnEmulator(relay.nn.batch_matmul, (typed(None, 8, 16), typed(2, 24, 16)))
    b = halves(rng, 2, 24, 16)
    for count in (1, 2):
        a = halves(rng, count, 8, 16)
        # Rows after those of a batch of one would be read if it were indexed by the batch.
        memory = np.concatenate([a, np.full((1, 8, 16), 7, "float16")])
        close(made.run([memory[:count], b], (2, 8, 24)), a.astype("float32") @ b.transpose(0, 2, 1).astype("float32"))


@needs_emulator
def test_a_matmul_reads_heads_of_unknown_number_and_length_in_place(rng):
    n, length = (tvm.tir.SizeVar(name, "int64") for name in ("n", "length"))

    def scores(x):
        parts = [relay.transpose(relay.reshape(p, (0, 0, 2, 16)), (0, 2, 1, 3)) for p in relay.split(x, 2, axis=2)]
        q, k = (relay.reshape(p, (-3, -2)) for p in parts)
        return relay.nn.batch_matmul(q, k)

    made = OnEmulator(scores, [relay.TensorType([n, length, 64], "float16")])
    for batch, rows in ((1, 16), (2, 19)):
        x = halves(rng, batch, rows, 64)
        q, k = (x[..., at : at + 32].reshape(batch, rows, 2, 16).transpose(0, 2, 1, 3) for at in (0, 32))
        wanted = q.astype("float32") @ k.transpose(0, 1, 3, 2).astype("float32")
        close(made.run([x], (2 * batch, rows, rows)), wanted.reshape(2 * batch, rows, rows))


@needs_emulator
def test_a_convolution_of_unknown_batch_and_image(rng):
    def conv(x, w):
        return relay.nn.relu(relay.nn.conv2d(x, w, strides=(2, 2), padding=(1, 1), channels=16, kernel_size=(3, 3),
                                             data_layout="NHWC", kernel_layout="HWIO"))  # fmt: skip

    made = OnEmulator(conv, (typed(None, None, None, 8), typed(3, 3, 8, 16)))
    w = halves(rng, 3, 3, 8, 16)
    for n, h, width in ((1, 7, 9), (3, 12, 10)):
        x = halves(rng, n, h, width, 8)
        wide = np.pad(x.astype("float32"), ((0, 0), (1, 1), (1, 1), (0, 0)))
        taps = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (1, 2))[:, ::2, ::2]
        wanted = np.maximum(np.einsum("nhwcyx,yxco->nhwo", taps, w.astype("float32")), 0)
        close(made.run([x, w], wanted.shape), wanted)


@needs_emulator
def test_softmax_of_rows_of_unknown_length_with_what_is_before_and_after_it(rng):
    n, length = (tvm.tir.SizeVar(name, "int64") for name in ("n", "length"))

    def masked(x, mask):
        scores = relay.reshape(x, (-4, -1, 2, 0, 0))
        wide = relay.cast(scores, "float32") + relay.expand_dims(relay.expand_dims(mask, 1), 1)
        return relay.reshape(relay.cast(relay.nn.softmax(wide), "float16"), (-3, -2))

    types = [relay.TensorType(s, d) for s, d in (([n * 2, length, length], "float16"), ([n, length], "float32"))]
    made = OnEmulator(masked, types)
    # One kernel computes all of it.
    assert str(made.kernel.module).count('launch_thread("blockIdx.x"') == 1
    for batch, rows in ((1, 3), (2, 150)):
        x = halves(rng, 2 * batch, rows, rows)
        mask = np.where(rng.random((batch, rows)) < 0.3, -30, 0).astype("float32")
        wide = x.reshape(batch, 2, rows, rows).astype("float32") + mask[:, None, None]
        e = np.exp(wide - wide.max(-1, keepdims=True))
        close(made.run([x, mask], x.shape), (e / e.sum(-1, keepdims=True)).reshape(x.shape))


def test_indices_are_of_32_bits_and_longer_tensors_are_refused_on_the_host():
    body = body_of(kernel_of(dense, DENSE))
    nodes = list(post_order(body))
    indices = [i.dtype for n in nodes if isinstance(n, (BufferLoad, BufferStore)) for i in n.indices]
    assert indices and not any(d.startswith("int64") for d in indices)
    refused = [n for n in nodes if isinstance(n, AssertStmt)]
    assert isinstance(body, AssertStmt) and all(str(MOST_ELEMENTS) in n.message.value for n in refused)


def test_each_class_of_sizes_has_tiles_of_its_own_and_the_host_chooses():
    types = typed(None, 512), typed(512, 512), typed(512)
    body = body_of(kernel_of(lambda x, w, b: relay.nn.matmul(x, w, units=512) + b, types, "sm_90a"))
    while not isinstance(body, IfThenElse):
        body = body.body
    threads = [n for n in post_order(body) if isinstance(n, AttrStmt) and n.attr_key == "thread_extent"]
    blocks = {n.value.value for n in threads if n.node.thread_tag == "threadIdx.x" and isinstance(n.value, IntImm)}
    assert {32, 128} <= blocks, "warps for few rows, warpgroups for many"

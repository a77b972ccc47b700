"""Kernels whose sizes are not known have the layouts and register tiles of static ones: they are compiled once, compute
what NumPy does at any size."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.relay.symbolic_kernels import SymbolicKernel, primitive
from tvm import relay
from tvm.ir.visit import post_order
from tvm.relay.op.nn.winograd import contrib_conv2d_winograd_nchwc
from tvm.topi.cpu import convolutions
from tvm.topi.nn.winograd import transform_filters
from tvm.topi.schedule.cpu import schedule_for

FLOATS = np.random.default_rng(3)


# One size for all tensors that have it.
BATCH = tvm.tir.SizeVar("batch", "int64")


def typed(*shape):
    return relay.TensorType([relay.Any() if d is None else d for d in shape], "float32")


def floats(*shape):
    return FLOATS.standard_normal(shape).astype("float32")


def checked(build, types):
    """The kernel of a function, compiled so that each index is checked when it runs."""
    with tvm.transform.PassContext(config={"tir.instrument_bound_checkers": True}):
        return kernel_of(build, types)


def kernel_of(build, types):
    return SymbolicKernel(primitive(build, types))


def network(batch, height=None, width=None):
    """Convolutions of all kinds with constant weights, between them what they are fused with."""
    rng = np.random.default_rng(5)

    def conv(data, filters, inside, size, **options):
        weight = relay.const(rng.standard_normal((filters, inside, size, size)).astype("float32") / (inside * size))
        out = relay.nn.conv2d(data, weight, kernel_size=(size, size), channels=filters, **options)
        return relay.nn.relu(out + relay.const(rng.standard_normal((filters, 1, 1)).astype("float32")))

    x = relay.var("x", typed(batch, 3, height, width))
    y = conv(x, 20, 3, 3, strides=2, padding=1)
    z = conv(y, 20, 1, 3, padding=1, groups=20)
    y = y + conv(z, 20, 20, 1)
    y = relay.nn.max_pool2d(conv(y, 32, 20, 3, padding=1), (3, 3), (2, 2), padding=(1, 1))
    y = conv(conv(y, 64, 32, 3, padding=1), 16, 64, 1)
    y = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(y))
    weight = relay.const(rng.standard_normal((10, 16)).astype("float32"))
    return tvm.IRModule.from_expr(relay.Function([x], relay.nn.softmax(relay.nn.dense(y, weight))))


def kernels(executable):
    return [name for name in executable.primitive_ops if "shape_func" not in name]


def compiled(mod):
    with tvm.transform.PassContext(opt_level=3):
        executable = relay.vm.compile(mod, "llvm")
    return executable, tvm.runtime.vm.VirtualMachine(executable, tvm.cpu())


@pytest.mark.slow("compiles kernels with dynamic shapes for many sizes")
def test_a_network_with_unknown_batch_has_the_kernels_of_the_static_one():
    (static, once), (dynamic, run) = compiled(network(1, 32, 32)), compiled(network(None, 32, 32))
    assert kernels(dynamic) == kernels(static)
    assert any("conv2d_NCHWc" in name for name in kernels(dynamic))
    data = floats(3, 3, 32, 32)
    wanted = np.concatenate([once.run(data[i : i + 1]).numpy() for i in range(3)])
    for part in (data, data[:1], data[:0]):
        np.testing.assert_allclose(run.run(part).numpy(), wanted[: len(part)], rtol=1e-4, atol=1e-5)


@pytest.mark.slow("compiles kernels with dynamic shapes for many sizes")
def test_a_network_takes_images_of_any_size():
    _, run = compiled(network(None, None, None))
    for size in ((1, 19, 27), (2, 33, 32)):
        data = floats(size[0], 3, *size[1:])
        wanted = relay.create_executor("debug", network(*size)).evaluate()(data)
        np.testing.assert_allclose(run.run(data).numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "size, stride, groups, channels, filters",
    [(1, 2, 1, 8, 8), (1, 1, 1, 8, 8), (1, 1, 1, 8, 4), (1, 1, 1, 12, 48), (3, 2, 1, 8, 12), (3, 1, 8, 8, 8),
     (3, 2, 8, 8, 8),
     # Sums so long that all pixels are one row, with and without padding.
     (3, 2, 1, 32, 12), (3, 1, 1, 32, 16), (1, 2, 1, 256, 8), (5, 3, 2, 24, 8)],
)  # fmt: skip
def test_convolutions_of_images_of_any_size_stay_within_their_data(size, stride, groups, channels, filters):
    weight = floats(filters, channels // groups, size, size)
    packed = weight.reshape(filters // 4, 4, channels // groups, size, size).transpose(0, 2, 3, 4, 1)
    inner = 1 if groups == channels else 4
    packed = packed.reshape(filters // 4, -1, inner, size, size, 4).transpose(0, 1, 3, 4, 2, 5)
    build = relay.nn.contrib_depthwise_conv2d_nchwc if groups == channels else relay.nn.contrib_conv2d_nchwc
    kernel = checked(
        lambda x, w: relay.nn.relu(
            build(
                x,
                w,
                (stride, stride),
                (size // 2,) * 2,
                groups=groups,
                kernel_size=(size, size),
                channels=filters,
                data_layout="NCHW4c",
                kernel_layout=f"OIHW{inner}i4o",
            )
        ),
        [typed(None, channels // 4, None, None, 4), typed(*packed.shape)],
    )
    for n, h, w in ((1, 1, 1), (2, 3, 8), (1, 9, 7), (0, 4, 5), (1, 10, 15), (2, 18, 29)):
        x = floats(n, channels, h, w)
        blocks = x.reshape(n, channels // 4, 4, h, w).transpose(0, 1, 3, 4, 2)
        (got,) = kernel.run(np.ascontiguousarray(blocks), np.ascontiguousarray(packed))
        wanted = np.maximum(convolution(x, weight, stride, size // 2, groups), 0)
        np.testing.assert_allclose(got.transpose(0, 1, 4, 2, 3).reshape(wanted.shape), wanted, rtol=1e-4, atol=1e-4)


def test_a_single_vector_of_filters_has_tiles_where_registers_are_many():
    size = tvm.te.size_var("w", "int64")
    data, weight = tvm.te.placeholder((1, 2, size, size, 16)), tvm.te.placeholder((1, 2, 1, 1, 16, 16))
    target = tvm.target.Target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512")
    out = convolutions.conv2d_NCHWc(data, weight, 1, 0, 1, "NCHW16c", "NCHW16c", target=target)
    with target:
        body = tvm.lower(schedule_for([out], target), [data, weight, out])["main"].body
    sums = [node for node in post_order(body) if isinstance(node, tvm.tir.Allocate)]
    # Each tile holds more pixels than the height that stands for one which is not known.
    assert sums and all(int(node.extents[0]) == 30 * 16 for node in sums)


@pytest.mark.slow("compiles kernels with dynamic shapes for many sizes")
@pytest.mark.parametrize("tile, batch, pad", [(2, None, 1), (4, 1, 1), (4, None, 0)])
def test_winograd_of_images_of_any_size_stays_within_its_data(tile, batch, pad):
    weight = floats(16, 8, 3, 3)
    packed = transform_filters(weight, tile, 4, 4, 2)
    kernel = checked(
        lambda x, w, y: relay.nn.relu(contrib_conv2d_winograd_nchwc(x, w, (pad, pad)) + y),
        [typed(batch, 2, None, None, 4), typed(*packed.shape), typed(1, 4, 1, 1, 4)],
    )
    bias = floats(1, 4, 1, 1, 4)
    sizes = ((1, 3, 3), (1, 4, 9), (1, 11, 6), (1, 17, 21), (3, 5, 14), (0, 4, 5), (2, 8, 3))
    for n, h, w in (size for size in sizes if batch is None or size[0] == batch):
        x = floats(n, 8, h, w)
        (got,) = kernel.run(np.ascontiguousarray(x.reshape(n, 2, 4, h, w).transpose(0, 1, 3, 4, 2)), packed, bias)
        plain = bias.transpose(0, 1, 4, 2, 3).reshape(1, 16, 1, 1)
        wanted = np.maximum(convolution(x, weight, 1, pad, 1) + plain, 0)
        np.testing.assert_allclose(got.transpose(0, 1, 4, 2, 3).reshape(wanted.shape), wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.slow("compiles kernels with dynamic shapes for many sizes")
def test_large_convolutions_of_images_of_any_size_use_winograd():
    weight = relay.const(floats(32, 32, 3, 3))

    def mod(*size):
        x = relay.var("x", typed(*size))
        return tvm.IRModule.from_expr(relay.Function([x], relay.nn.conv2d(x, weight, padding=(1, 1))))

    executable, machine = compiled(mod(None, 32, None, None))
    assert any("winograd" in name for name in kernels(executable))
    for size in ((1, 32, 30, 23), (2, 32, 7, 40)):
        data = floats(*size)
        wanted = convolution(data, weight.data.numpy(), 1, 1, 1)
        np.testing.assert_allclose(machine.run(data).numpy(), wanted, rtol=1e-3, atol=1e-2)


def convolution(x, weight, stride, pad, groups):
    """A convolution NCHW in NumPy."""
    filters, inside, size, _ = weight.shape
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), (2, 3))[:, :, ::stride, ::stride]
    parts = [
        np.einsum(
            "nchwij,ocij->nohw",
            windows[:, g * inside : (g + 1) * inside],
            weight[g * filters // groups : (g + 1) * filters // groups],
        )
        for g in range(groups)
    ]
    return np.concatenate(parts, 1)


@pytest.mark.slow("compiles kernels with dynamic shapes for many sizes")
@pytest.mark.parametrize("transpose_a, transpose_b", [(False, True), (True, False)])
def test_batches_of_products_of_any_size_agree_with_numpy(transpose_a, transpose_b):
    kernel = kernel_of(
        lambda x, y: relay.nn.batch_matmul(x, y, transpose_a=transpose_a, transpose_b=transpose_b),
        [typed(BATCH, None, None), typed(BATCH, None, None)],
    )
    for b, m, n, k in ((1, 1, 1, 1), (3, 5, 13, 9), (2, 8, 12, 16), (2, 17, 25, 7), (1, 3, 1, 0), (2, 0, 3, 4)):
        x, y = floats(b, m, k), floats(b, k, n)
        given = (np.swapaxes(x, 1, 2) if transpose_a else x), (np.swapaxes(y, 1, 2) if transpose_b else y)
        (got,) = kernel.run(*map(np.ascontiguousarray, given))
        np.testing.assert_allclose(got, x @ y, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n, k", [(64, None), (None, 64)])
def test_products_with_one_known_side_agree_with_numpy(n, k):
    kernel = kernel_of(
        lambda x, y: relay.nn.batch_matmul(x, y, transpose_b=k is not None),
        [typed(BATCH, None, k), typed(BATCH, n, k) if k else typed(BATCH, k, n)],
    )
    for b, m, free in ((1, 1, 1), (4, 6, 8), (2, 15, 31), (1, 9, 0)):
        x, y = floats(b, m, k or free), floats(b, k or free, n or free)
        (got,) = kernel.run(x, np.ascontiguousarray(np.swapaxes(y, 1, 2)) if k else y)
        np.testing.assert_allclose(got, x @ y, rtol=1e-4, atol=1e-4)


@pytest.mark.slow("compiles kernels with dynamic shapes for many sizes")
@pytest.mark.parametrize("rows", [1, None])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("n, k", [(None, 16), (24, None)])
def test_a_single_row_times_matrices_of_any_size_agrees_with_numpy(rows, n, k, transpose_b):
    kernel = checked(
        lambda x, y: relay.nn.relu(relay.nn.batch_matmul(x, y, transpose_b=transpose_b) * relay.const(0.5)),
        [typed(BATCH, rows, k), typed(BATCH, n, k) if transpose_b else typed(BATCH, k, n)],
    )
    # A tile of columns, the one that overlaps it, fewer than a tile, none.
    sizes = (3, 1, 64), (2, 1, 65), (1, 1, 127), (2, 1, 300), (2, 1, 5), (2, 1, 1), (2, 1, 0), (0, 1, 70), (2, 3, 70)
    for b, m, free in sizes:
        x, y = floats(b, rows or m, k or free), floats(b, k or free, n or free)
        (got,) = kernel.run(x, np.ascontiguousarray(np.swapaxes(y, 1, 2)) if transpose_b else y)
        np.testing.assert_allclose(got, np.maximum(x @ y * 0.5, 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("width, units", [(12, 24), (16, 22)])
def test_rows_of_a_product_with_packed_weights_may_be_any_number(width, units):
    k = 768
    weight = floats(units, k)
    padded = np.concatenate([weight, floats(2 * width - units, k)])
    panels = np.ascontiguousarray(padded.reshape(2, width, k).transpose(0, 2, 1))
    kernel = kernel_of(
        lambda x, w: relay.nn.contrib_dense_pack(x, w, f"NC{width}n", units), [typed(None, None, k), typed(2, k, width)]
    )
    for lead, rows in ((1, 1), (2, 3), (1, 4), (3, 5), (1, 17), (1, 0), (0, 2), (1, 401)):
        x = floats(lead, rows, k)
        (got,) = kernel.run(x, panels)
        np.testing.assert_allclose(got, x @ weight.T, rtol=1e-3, atol=1e-3)


@pytest.mark.slow("compiles a matmul with dynamic rows and runs it at many sizes")
@pytest.mark.parametrize("k", [64, 6144])
def test_columns_that_fill_no_panel_are_left_out_for_any_number_of_rows(k):
    weight = floats(23, k)
    whole = np.concatenate([weight, floats(1, k)])
    panels = np.ascontiguousarray(whole.reshape(2, 12, k).transpose(0, 2, 1))
    kernel = checked(
        lambda x, w: relay.nn.contrib_dense_pack(x, w, "NC12n", 23), [typed(None, None, k), typed(2, k, 12)]
    )
    for lead, rows in ((1, 1), (2, 3), (3, 5), (1, 17), (0, 2), (1, 130)):
        x = floats(lead, rows, k)
        (got,) = kernel.run(x, panels)
        np.testing.assert_allclose(got, x @ weight.T, rtol=1e-3, atol=1e-3)


def test_softmax_over_rows_of_any_length_is_one_loop_over_rows():
    kernel = kernel_of(relay.nn.softmax, [typed(None, None, None)])
    for shape in ((1, 1, 1), (3, 2, 7), (2, 5, 8), (1, 4, 131), (2, 0, 3), (2, 3, 0)):
        x = 10 * floats(*shape)
        e = np.exp(x - x.max(-1, keepdims=True)) if x.size else x
        (got,) = kernel.run(x)
        np.testing.assert_allclose(got, e / e.sum(-1, keepdims=True), rtol=1e-4, atol=1e-6)
    (loops,) = map(str, kernel.kernel.module.functions.values())
    assert loops.count("T.parallel") == 1

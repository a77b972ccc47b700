"""Depthwise convolutions of images whose size is not known: one kernel beside NumPy at every size."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.relay.symbolic_kernels import SymbolicKernel, primitive
from tvm import relay
from tvm.relay.backend.te_compiler import KernelCompiler
from tvm.relay.op.nn.packed import contrib_depthwise_conv2d_nchwc
from tvm.relay.symbolic import primitive_form

BLOCK, CHANNELS = 8, 16
SIZES = ((1, 1), (2, 6), (7, 7), (13, 8), (3, 13), (14, 14), (30, 15), (56, 20), (9, 57))


def blocked(array):
    n, c, h, w = array.shape
    return np.ascontiguousarray(array.reshape(n, c // BLOCK, BLOCK, h, w).transpose(0, 1, 3, 4, 2))


def expected(data, weight, stride, pads, dilation):
    """The sum over the taps of the window."""
    top, left, bottom, right = pads
    x = np.pad(data.astype("float64"), ((0, 0), (0, 0), (top, bottom), (left, right)))
    kh, kw = weight.shape[2:]
    height, width = ((x.shape[i] - (k - 1) * dilation - 1) // stride + 1 for i, k in ((2, kh), (3, kw)))
    total = np.zeros((*data.shape[:2], max(height, 0), max(width, 0)))
    for i in range(kh):
        for j in range(kw):
            rows = slice(i * dilation, i * dilation + (height - 1) * stride + 1, stride)
            columns = slice(j * dilation, j * dilation + (width - 1) * stride + 1, stride)
            total += x[:, :, rows, columns] * weight[None, :, 0, i, j, None, None]
    return total


class Layer:
    """A depthwise convolution with a bias and an activation, compiled once."""

    def __init__(self, kernel, stride, pads, dilation=1, height=None, width=None, batch=1, residual=False):
        rng = np.random.default_rng(kernel * 100 + stride)
        self.window = stride, pads, dilation
        self.weight = rng.standard_normal((CHANNELS, 1, kernel, kernel)).astype("float32")
        self.bias = rng.standard_normal((1, CHANNELS, 1, 1)).astype("float32")
        layouts = f"NCHW{BLOCK}c", f"OIHW1i{BLOCK}o"

        def build(data, weight, bias, *more):
            out = contrib_depthwise_conv2d_nchwc(
                data, weight, stride, pads, dilation, CHANNELS, CHANNELS, (kernel, kernel), *layouts
            )
            return relay.clip(relay.add(relay.add(out, bias), *more) if more else relay.add(out, bias), -1, 1.5)

        any_sizes = [relay.Any() if d is None else d for d in (batch, CHANNELS // BLOCK, height, width, BLOCK)]
        shapes = [any_sizes, (CHANNELS // BLOCK, 1, kernel, kernel, 1, BLOCK), (1, CHANNELS // BLOCK, 1, 1, BLOCK)]
        function = primitive(build, [relay.TensorType(s, "float32") for s in shapes + [any_sizes] * residual])
        self.kernel = SymbolicKernel(primitive_form(function).function)
        self.rng = rng

    def arguments(self, *shape):
        data = self.rng.standard_normal((shape[0], CHANNELS, *shape[1:])).astype("float32")
        weight = self.weight.reshape(CHANNELS // BLOCK, BLOCK, 1, *self.weight.shape[2:]).transpose(0, 2, 3, 4, 1)
        return data, [blocked(data), np.ascontiguousarray(weight[:, :, :, :, None]), blocked(self.bias)]

    def check(self, *shape):
        data, arguments = self.arguments(*shape)
        (got,) = self.kernel.run(*arguments)
        want = np.clip(expected(data, self.weight, *self.window) + self.bias, -1, 1.5)
        np.testing.assert_allclose(got, blocked(want), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("kernel", [2, 3, 5, 7])
def test_images_of_every_size(kernel, stride):
    layer = Layer(kernel, stride, (kernel // 2,) * 4)
    for size in SIZES:
        layer.check(1, *size)


@pytest.mark.parametrize("pads, dilation", [((0, 0, 0, 0), 1), ((0, 1, 2, 1), 1), ((2, 2, 2, 2), 2), ((1, 3, 0, 2), 3)])
def test_other_padding_and_dilation(pads, dilation):
    layer = Layer(3, 1, pads, dilation)
    reach = 2 * dilation + 1
    for height, width in SIZES:
        if height + pads[0] + pads[2] >= reach and width + pads[1] + pads[3] >= reach:
            layer.check(1, height, width)


@pytest.mark.parametrize("sizes", [{"batch": None}, {"height": 9}, {"width": 20}, {"batch": None, "width": 5}])
def test_some_sizes_are_known(sizes):
    layer = Layer(3, 2, (1, 1, 1, 1), **sizes)
    for height, width in SIZES:
        layer.check(3 if "batch" in sizes else 1, sizes.get("height", height), sizes.get("width", width))


def test_a_result_over_one_of_its_operands_is_computed_once():
    layer = Layer(3, 1, (1, 1, 1, 1), residual=True)
    for height, width in SIZES:
        data, arguments = layer.arguments(1, height, width)
        more = layer.rng.standard_normal(arguments[0].shape).astype("float32")
        together = tvm.nd.array(more)
        layer.kernel.library[layer.kernel.kernel.name](*map(tvm.nd.array, arguments), together, together)
        want = np.clip(blocked(expected(data, layer.weight, *layer.window) + layer.bias) + more, -1, 1.5)
        np.testing.assert_allclose(together.numpy(), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("height", [14, None])
def test_the_result_is_asked_for_where_lines_written_in_a_row_are_not_kept(height):
    types = [(1, 2, height or relay.Any(), height or relay.Any(), 4), (2, 1, 3, 3, 1, 4)]
    form = primitive(
        lambda x, w: relay.nn.relu(contrib_depthwise_conv2d_nchwc(x, w, 1, 1, 1, 8, 8, (3, 3), "NCHW4c", "OIHW1i4o")),
        [relay.TensorType(t, "float32") for t in types],
    )
    for target, has_hint in (
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1", True),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512", False),
    ):
        body = str(KernelCompiler(tvm.target.Target(target)).lower(primitive_form(form).function).module)
        assert ("prefetch" in body) == has_hint

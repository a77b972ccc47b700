"""Depthwise layers over open images that differ in their channels alone are one kernel, and compute what NumPy does."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.relay.symbolic_kernels import primitive
from tvm import relay
from tvm.relay.backend.any_blocks import shared_form
from tvm.relay.op.nn.packed import contrib_depthwise_conv2d_nchwc
from tvm.topi.testing import conv2d_nchw_python, depthwise_conv2d_python_nchw

RNG = np.random.default_rng(11)


def floats(*shape):
    return RNG.standard_normal(shape).astype("float32")


def typed(*shape):
    return relay.TensorType([relay.Any() if d is None else d for d in shape], "float32")


class Network:
    """Depthwise layers of other channels each, with a bias and an activation, between products of pixels."""

    def __init__(self, channels, height=None, width=None, stride=1):
        self.stride = stride
        self.weights = [(floats(c, 1, 3, 3), floats(c, 1, 1)) for c in channels]
        self.products = [floats(after, before, 1, 1) / before for before, after in zip(channels, channels[1:])]
        self.x = relay.var("x", typed(1, channels[0], height, width))

    def layers(self, x, depthwise, product):
        for i, (weight, bias) in enumerate(self.weights):
            x = depthwise(x, weight, bias)
            x = product(x, self.products[i]) if i < len(self.products) else x
        return x

    def compiled(self):
        def depthwise(x, weight, bias):
            count = weight.shape[0]
            out = relay.nn.conv2d(x, relay.const(weight), self.stride, 1, 1, count, count, (3, 3))
            return relay.clip(relay.add(out, relay.const(bias)), 0, 6)

        body = self.layers(self.x, depthwise, lambda x, w: relay.nn.conv2d(x, relay.const(w), kernel_size=(1, 1)))
        compiler = relay.vm.VMCompiler()
        with tvm.transform.PassContext(opt_level=3):
            compiler.lower(tvm.IRModule.from_expr(relay.Function([self.x], body)), "llvm")
            compiler.codegen()
        return compiler

    def expected(self, image):
        def depthwise(x, weight, bias):
            return np.clip(depthwise_conv2d_python_nchw(x, weight, self.stride, 1) + bias, 0, 6)

        return self.layers(image, depthwise, lambda x, w: conv2d_nchw_python(x, w, 1, 0))


def depthwise_kernels(compiler):
    return [k for k in compiler.kernels if "depthwise" in k.name]


@pytest.mark.parametrize("stride", [1, 2])
def test_layers_of_other_channels_share_a_kernel(stride):
    network = Network([16, 48, 32], stride=stride)
    compiler = network.compiled()
    assert len(depthwise_kernels(compiler)) == 1
    machine = tvm.runtime.vm.VirtualMachine(compiler.get_exec(), tvm.cpu())
    for height, width in ((1, 1), (7, 30), (33, 9), (16, 16)):
        image = floats(1, 16, height, width)
        got = machine.invoke("main", tvm.nd.array(image)).numpy()
        np.testing.assert_allclose(got, network.expected(image), rtol=1e-4, atol=1e-4)


def test_layers_over_images_of_a_known_size_have_kernels_of_their_own():
    assert len(depthwise_kernels(Network([16, 48], 12, 12).compiled())) == 2


def depthwise(data, kernel, channels=64):
    return contrib_depthwise_conv2d_nchwc(data, kernel, 1, 1, 1, channels, 64, (3, 3), "NCHW16c", "OIHW1i16o")


CASES = {
    "a value of a written shape": (lambda d, k, b: depthwise(d, k) + relay.broadcast_to(b, (1, 4, 1, 1, 16)), 4, None),
    "a known width": (lambda d, k, b: depthwise(d, k) + b, 4, 20),
    "filters of another number": (lambda d, k, b: depthwise(d, k, 32) + b, 2, None),
}


@pytest.mark.parametrize("name", CASES)
def test_a_number_of_blocks_that_matters_is_kept(name):
    build, blocks, width = CASES[name]
    types = [typed(None, blocks, None, width, 16), typed(4, 1, 3, 3, 1, 16), typed(1, 4, 1, 1, 16)]
    form = shared_form(primitive(build, types))
    assert [int(t.checked_type_.shape[i]) for t, i in zip(form.params, (1, 0, 1))] == [blocks, 4, 4]


def test_a_value_with_one_block_for_all_keeps_it():
    types = [typed(None, 4, None, None, 16), typed(4, 1, 3, 3, 1, 16), typed(1, 1, 1, 1, 16)]
    data, kernel, bias = (p.checked_type_.shape for p in
                          shared_form(primitive(lambda d, k, b: depthwise(d, k) + b, types)).params)  # fmt: skip
    assert data[1] is kernel[0] and isinstance(data[1], tvm.tir.SizeVar) and int(bias[1]) == 1

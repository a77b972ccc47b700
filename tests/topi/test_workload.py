"""Workloads of convolutions, and the blocks taken for those of which nothing is known."""

from __future__ import annotations

import math

import pytest

import tvm
from tvm import autotvm, te
from tvm.topi.generic.conv2d import fallback_schedule_cpu_1x1_int8, fallback_schedule_cpu_common_int8
from tvm.topi.nn.conv2d import _get_workload
from tvm.topi.nn.depthwise_conv2d import Workload
from tvm.topi.nn.depthwise_conv2d import _get_workload as depthwise_workload
from tvm.topi.testing import conv2d_nchw_python, dilate_python
from tvm.topi.x86 import conv2d_avx_common
from tvm.topi.x86 import depthwise_conv2d as x86_depthwise


@pytest.mark.parametrize("padding", [0, (1, 2), (0, 1, 2, 3), "SAME", "VALID"])
@pytest.mark.parametrize("stride, dilation", [(1, 1), (2, 1), (1, 2), (3, 2)])
def test_a_workload_has_the_sizes_of_the_convolution(rng, padding, stride, dilation):
    x, w = rng.normal(size=(2, 6, 9, 11)), rng.normal(size=(10, 6, 3, 2))
    data, kernel = te.placeholder(x.shape, name="data"), te.placeholder(w.shape, name="kernel")
    got = _get_workload(data, kernel, (stride, stride), padding, dilation, "float32")
    wanted = conv2d_nchw_python(x, dilate_python(w, (1, 1, dilation, dilation)), stride, padding).shape
    assert (got.out_height, got.out_width) == wanted[2:]
    assert (got.in_filter, got.groups, got.out_filter, got.kernel_h, got.kernel_w) == (6, 1, 10, 3, 2)


def test_layouts_name_the_same_workload():
    def place(*shape):
        return te.placeholder(shape, name="t")

    rest = (1, 1, 1, "float32")
    conv = [
        _get_workload(place(2, 8, 5, 6), place(12, 4, 3, 3), *rest),
        _get_workload(place(2, 5, 6, 8), place(3, 3, 4, 12), *rest, "NHWC"),
        _get_workload(place(5, 6, 8, 2), place(3, 3, 4, 12), *rest, "HWCN"),
    ]
    assert conv[0] == conv[1] == conv[2] and conv[0].groups == 2
    depthwise = [
        depthwise_workload(place(2, 8, 5, 6), place(8, 2, 3, 3), *rest),
        depthwise_workload(place(2, 5, 6, 8), place(3, 3, 8, 2), *rest, "NHWC"),
        depthwise_workload(place(2, 2, 5, 6, 4), place(4, 1, 3, 3, 1, 4), *rest, "NCHWc"),
    ]
    assert depthwise[0] == depthwise[1] == depthwise[2] and depthwise[0].out_filter == 16
    assert isinstance(depthwise[0], Workload)
    with pytest.raises(tvm.TVMError, match="unsupported layout 'CHWN' for a workload; expected NCHW"):
        _get_workload(place(2, 8, 5, 6), place(12, 4, 3, 3), *rest, "CHWN")


@pytest.mark.parametrize("channels, filters, width", [(3, 64, 224), (64, 7, 31), (17, 13, 37), (512, 512, 7)])
def test_blocks_divide_the_sizes_they_block(channels, filters, width):
    data, kernel = te.placeholder((1, channels, 8, width)), te.placeholder((filters, channels, 3, 3))
    workload = _get_workload(data, kernel, 1, 1, 1, "float32")
    for blocks in (conv2d_avx_common._fallback_schedule, x86_depthwise._fallback_schedule):
        with tvm.target.Target("llvm"):
            config = autotvm.get_config()
            blocks(config, workload)
        for knob, size in (("tile_ic", channels), ("tile_oc", filters), ("tile_ow", width)):
            assert math.prod(config[knob].size) == size
        assert config["tile_ow"].size[-1] <= 31 and config["unroll_kw"].val is False


def test_blocks_of_dot_products_have_the_size_of_the_instruction():
    data, kernel = te.placeholder((1, 32, 8, 20), "uint8"), te.placeholder((48, 32, 1, 1), "int8")
    workload = _get_workload(data, kernel, 1, 0, 1, "int32")
    for blocks in (fallback_schedule_cpu_common_int8, fallback_schedule_cpu_1x1_int8):
        config = autotvm.get_config()
        blocks(config, workload, 16, 4)
        assert config["tile_ic"].size == [8, 4] and config["tile_oc"].size == [3, 16]
        assert math.prod(config["tile_ow"].size) == 20
    assert config["tile_oh"].val == 1
    with pytest.raises(tvm.TVMError, match="48 channels out are not a multiple of 32"):
        fallback_schedule_cpu_common_int8(config, workload, 32, 4)

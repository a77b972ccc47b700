"""8-bit convolutions and dense layers with C functions: exact in every layout, on random shapes."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import te, topi
from tvm.relay.op.nn.byte_layout import channel_taps, interleaved
from tvm.target import Target
from tvm.topi.cpu import byte_functions, byte_windows
from tvm.topi.schedule.cpu import schedule_for

# The targets of portable C, the DSP extension and Helium. All of them are compiled for this machine, where the
# functions use their portable form; tests/micro/templates/test_emulated_boards.py runs the instructions.
TARGETS = ("c", "c -mcpu=cortex-m4", "c -mcpu=cortex-m55")
LIMITS = {"int8": (-128, 128), "uint8": (0, 256)}


class Case:
    """A random layer: its tensors, its expected output, and its inputs."""

    def __init__(self, rng: np.random.Generator, kind: str, target: str, number: int):
        kernels = byte_functions.byte_kernels(Target(target))
        assert kernels is not None
        self.target, self.kind = Target(target), kind
        dtype = kernels.data[number % len(kernels.data)]
        self.low, self.high = LIMITS[dtype]
        # Half of the cases have extreme values only.
        self.values = rng.integers if number % 2 else lambda low, high, size: rng.choice([low, high - 1], size)
        channels, filters = (int(n) for n in rng.integers(1, 18, 2))
        if kind == "dense":
            self.dense(kernels, int(rng.integers(1, 4)), channels * 5, filters, dtype)
        else:
            self.convolution(rng, kernels, channels, filters, dtype)

    def dense(self, kernels, rows: int, terms: int, units: int, dtype: str) -> None:
        x, w = self.values(self.low, self.high, (rows, terms)), self.values(-128, 128, (units, terms))
        packed = interleaved(w.astype("int8"), kernels).data.numpy()
        self.inputs, self.expected = (x.astype(dtype), packed), x.astype("int64") @ w.astype("int64").T
        data, weight = (te.placeholder(a.shape, str(a.dtype), name=n) for a, n in zip(self.inputs, ("data", "weight")))
        self.tensors = [data, weight, byte_windows.dense_int8(data, weight, self.target)]

    def convolution(self, rng, kernels, channels: int, filters: int, dtype: str) -> None:
        window, strides, dilation = (tuple(int(n) for n in rng.integers(1, top, 2)) for top in (4, 4, 3))
        padding = tuple(int(n) for n in rng.integers(0, 3, 4))
        reach = [(k - 1) * d + 1 for k, d in zip(window, dilation)]
        size = [int(rng.integers(max(1, k - p - q), 9)) for k, p, q in zip(reach, padding[:2], padding[2:])]
        x = self.values(self.low, self.high, (int(rng.integers(1, 3)), *size, channels))
        pad_value = int(rng.integers(self.low, self.high))
        around = ((0, 0), padding[::2], padding[1::2], (0, 0))
        wide = np.pad(x, around, constant_values=pad_value).astype("int64")
        rows, columns = ((n - k) // s + 1 for n, k, s in zip(wide.shape[1:3], reach, strides))
        is_depthwise = self.kind == "depthwise"
        w = self.values(-128, 128, (*window, channels, 1 if is_depthwise else filters))
        total = np.zeros((x.shape[0], rows, columns, channels if is_depthwise else filters), "int64")
        for i, j in np.ndindex(*window):
            top, left = i * dilation[0], j * dilation[1]
            part = wide[:, top:, left:][:, :: strides[0], :: strides[1]][:, :rows, :columns]
            total += part * w[i, j, :, 0] if is_depthwise else part @ w[i, j].astype("int64")
        form = w.reshape(-1, w.shape[-1]).T if not is_depthwise else w.reshape(-1, channels).T
        form = form.astype("int8")
        packed = (channel_taps(form) if is_depthwise else interleaved(form, kernels)).data.numpy()
        self.inputs, self.expected = (x.astype(dtype), packed), total
        data, weight = (te.placeholder(a.shape, str(a.dtype), name=n) for a, n in zip(self.inputs, ("data", "weight")))
        made = byte_windows.depthwise_conv2d_NHWC_int8 if is_depthwise else byte_windows.conv2d_NHWC_int8
        out = made(data, weight, window, strides, padding, dilation, pad_value, target=self.target)
        self.tensors = [data, weight, out]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["conv2d", "depthwise", "dense"])
def test_random_layers_are_exact(kind, target):
    rng = np.random.default_rng(np.random.randint(1 << 31))
    cases = [Case(rng, kind, target, number) for number in range(8)]
    module = tvm.IRModule()
    for number, case in enumerate(cases):
        with case.target:
            schedule = schedule_for([case.tensors[2]], case.target)
            module.update(tvm.lower(schedule, case.tensors, name=f"layer_{number}"))
    text = str(module)
    assert text.count("tvm_taps" if kind == "depthwise" else "tvm_dots") >= len(cases)
    built = tvm.build(module, target="c")
    for number, case in enumerate(cases):
        out = tvm.nd.empty(case.expected.shape, "int32")
        built[f"layer_{number}"](*(tvm.nd.array(a) for a in case.inputs), out)
        np.testing.assert_array_equal(out.numpy(), case.expected)


def test_a_convolution_of_single_pixels_reads_its_data_in_place():
    """No patch is copied if the window is one pixel and no term is missing."""

    def lowered(channels: int, padding: int) -> str:
        data = te.placeholder((1, 4, 4, channels), "int8", name="data")
        weight = te.placeholder((1, -(-channels // 4), 1, 4, 4), "int8", name="weight")
        out = byte_windows.conv2d_NHWC_int8(data, weight, 1, 1, padding, 1, target=Target("c"))
        return str(tvm.lower(schedule_for([out], Target("c")), [data, weight, out]))

    assert "patch" not in lowered(8, 0) and "patch" in lowered(8, 1) and "patch" in lowered(7, 0)


@pytest.mark.parametrize("terms, block", [(1, 1), (9, 9), (16, 16), (24, 12), (27, 9), (40, 10), (34, 16), (64, 16)])
def test_blocks_of_vectors_have_few_unused_lanes(terms, block):
    kernels = byte_functions.byte_kernels(Target("c -mcpu=cortex-m55"))
    assert kernels is not None and kernels.block(terms) == block


def test_weights_that_do_not_fit_are_rejected():
    data = te.placeholder((1, 4, 4, 8), "int8", name="data")

    def weight(*shape):
        return te.placeholder(shape, "int8", name="weight")

    with pytest.raises(tvm.TVMError, match=r"filters of 72 terms need weights \(o/f, blocks, 1, f, terms\), got"):
        topi.nn.conv2d_NHWC_int8(data, weight(1, 17, 1, 4, 4), 3, 1, 1, 1)
    with pytest.raises(tvm.TVMError, match=r"8 channels and 9 taps need weights \(c/f, taps, f\), got \(2, 8, 4\)"):
        topi.nn.depthwise_conv2d_NHWC_int8(data, weight(2, 8, 4), 3, 1, 1, 1)
    with pytest.raises(tvm.TVMError, match="conv2d_NHWC_int8: data must have 4 dimensions"):
        topi.nn.conv2d_NHWC_int8(te.placeholder((4, 8), "int8"), weight(1, 2, 1, 4, 4), 1, 1, 0, 1)

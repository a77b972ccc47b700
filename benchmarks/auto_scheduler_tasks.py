"""AutoScheduler tasks for benchmarks: the layers of ResNet-50, and other layers to learn cost-model weights from.

The tasks need only NumPy and llvmlite: no model file is read.
"""

from __future__ import annotations

from typing import Any

from tvm import auto_scheduler, te, topi
from tvm.testing import auto_scheduler as workloads

# Height and width, input and output channels, filter size and stride of each convolution of ResNet-50.
RESNET50 = (
    (224, 3, 64, 7, 2),
    (56, 64, 64, 1, 1),
    (56, 64, 64, 3, 1),
    (56, 64, 256, 1, 1),
    (56, 256, 64, 1, 1),
    (56, 256, 128, 1, 1),
    (56, 128, 128, 3, 2),
    (28, 128, 512, 1, 1),
    (56, 256, 512, 1, 2),
    (28, 512, 128, 1, 1),
    (28, 128, 128, 3, 1),
    (28, 512, 256, 1, 1),
    (28, 256, 256, 3, 2),
    (14, 256, 1024, 1, 1),
    (28, 512, 1024, 1, 2),
    (14, 1024, 256, 1, 1),
    (14, 256, 256, 3, 1),
    (14, 1024, 512, 1, 1),
    (14, 512, 512, 3, 2),
    (7, 512, 2048, 1, 1),
    (14, 1024, 2048, 1, 2),
    (7, 2048, 512, 1, 1),
    (7, 512, 512, 3, 1),
)
# Convolutions of other sizes, in NCHW and NHWC, to learn weights from.
OTHERS = (
    (112, 32, 16, 1, 1),
    (112, 16, 96, 1, 1),
    (56, 24, 144, 1, 1),
    (28, 192, 32, 1, 1),
    (14, 384, 64, 1, 1),
    (14, 96, 576, 1, 1),
    (7, 960, 320, 1, 1),
    (128, 3, 32, 3, 2),
    (96, 16, 24, 5, 1),
    (72, 32, 48, 3, 1),
    (36, 80, 96, 3, 1),
    (40, 48, 64, 3, 2),
    (18, 160, 192, 3, 1),
    (20, 128, 160, 3, 1),
    (9, 320, 256, 3, 1),
    (10, 256, 384, 1, 1),
    (12, 640, 160, 1, 1),
    (64, 40, 80, 1, 2),
    (17, 192, 224, 3, 1),
    (8, 448, 384, 3, 1),
)
PRODUCTS = ((128, 768, 768), (128, 3072, 768), (96, 512, 640), (1, 1280, 1000), (384, 384, 384), (16, 1024, 512))
DEPTHWISE = ((112, 32, 3, 1), (56, 144, 3, 2), (28, 192, 3, 1), (14, 576, 5, 1), (7, 960, 3, 1))
ROWS = ((128, 768), (64, 3000), (1000, 50))


@auto_scheduler.register_workload
def benchmark_conv2d(size: int, channels: int, filters: int, side: int, stride: int, layout: str = "NCHW") -> list[Any]:
    """Return a convolution with same padding, a bias and a ReLU."""
    is_last = layout == "NHWC"
    data = te.placeholder((1, size, size, channels) if is_last else (1, channels, size, size), name="data")
    shape = (side, side, channels, filters) if is_last else (filters, channels, side, side)
    weight = te.placeholder(shape, name="weight")
    bias = te.placeholder((1, 1, 1, filters) if is_last else (1, filters, 1, 1), name="bias")
    convolve = topi.nn.conv2d_nhwc if is_last else topi.nn.conv2d_nchw
    out = convolve(data, weight, stride, side // 2, 1, "float32")
    return [data, weight, bias, topi.nn.relu(topi.add(out, bias))]


@auto_scheduler.register_workload
def benchmark_depthwise(size: int, channels: int, side: int, stride: int) -> list[Any]:
    data = te.placeholder((1, channels, size, size), name="data")
    weight = te.placeholder((channels, 1, side, side), name="weight")
    out = topi.nn.depthwise_conv2d_nchw(data, weight, stride, side // 2, 1)
    return [data, weight, topi.nn.relu(out)]


@auto_scheduler.register_workload
def benchmark_dense(rows: int, terms: int, columns: int) -> list[Any]:
    data, weight = te.placeholder((rows, terms), name="data"), te.placeholder((columns, terms), name="weight")
    bias = te.placeholder((columns,), name="bias")
    return [data, weight, bias, topi.add(topi.nn.dense(data, weight), bias)]


def task(function: Any, *args: Any, target: Any = "llvm") -> Any:
    return auto_scheduler.SearchTask(func=function, args=args, target=target)


def resnet50_tasks(target: Any = "llvm") -> list[Any]:
    layers = [task(benchmark_conv2d, *layer, target=target) for layer in RESNET50]
    return [*layers, task(benchmark_dense, 1, 2048, 1000, target=target)]


def training_tasks(target: Any = "llvm") -> list[Any]:
    """Return tasks that are not layers of ResNet-50."""
    layouts = ("NCHW", "NHWC")
    return [
        *(task(benchmark_conv2d, *layer, layouts[n % 2], target=target) for n, layer in enumerate(OTHERS)),
        *(task(benchmark_dense, *sizes, target=target) for sizes in PRODUCTS),
        *(task(workloads.matmul_auto_scheduler_test, *sizes, target=target) for sizes in PRODUCTS[::2]),
        *(task(benchmark_depthwise, *sizes, target=target) for sizes in DEPTHWISE),
        *(task(workloads.softmax_nm_auto_scheduler_test, *sizes, target=target) for sizes in ROWS),
        task(workloads.max_pool2d_auto_scheduler_test, 1, 56, 56, 64, 1, target=target),
        task(workloads.min_nm_auto_scheduler_test, 64, 4096, target=target),
    ]

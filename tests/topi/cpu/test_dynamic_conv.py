"""Convolutions of images whose size is not known: one kernel beside NumPy at every size."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.relay.symbolic_kernels import SymbolicKernel, primitive
from tvm import relay
from tvm.ir.prim import Div, FloorDiv, FloorMod, IntImm, Mod
from tvm.ir.subst import variables
from tvm.ir.visit import post_order
from tvm.relay.backend.te_compiler import KernelCompiler
from tvm.relay.op.nn.packed import contrib_conv2d_nchwc
from tvm.relay.op.nn.winograd import contrib_conv2d_winograd_nchwc
from tvm.relay.symbolic import primitive_form
from tvm.target import Target
from tvm.tir.stmt import Allocate, For
from tvm.topi.cpu import conv2d, convolutions, winograd_any_image
from tvm.topi.cpu.machine import Machine
from tvm.topi.nn.winograd import transform_filters

BLOCK = 4
SIZES = ((1, 1), (1, 3), (2, 6), (7, 7), (13, 8), (3, 13), (14, 14), (15, 20), (5, 57))


def blocked(array):
    n, c, h, w = array.shape
    return np.ascontiguousarray(array.reshape(n, c // BLOCK, BLOCK, h, w).transpose(0, 1, 3, 4, 2))


def packed(weight):
    o, i, kh, kw = weight.shape
    return np.ascontiguousarray(
        weight.reshape(o // BLOCK, BLOCK, i // BLOCK, BLOCK, kh, kw).transpose(0, 2, 4, 5, 3, 1)
    )


def expected(data, weight, stride, pads, dilation):
    """The sum over the taps of the window, group by group."""
    top, left, bottom, right = pads
    x = np.pad(data.astype("float64"), ((0, 0), (0, 0), (top, bottom), (left, right)))
    kh, kw = weight.shape[2:]
    height, width = ((x.shape[i] - (k - 1) * dilation - 1) // stride + 1 for i, k in ((2, kh), (3, kw)))
    groups = data.shape[1] // weight.shape[1]
    weights = np.split(weight, groups)
    total = np.zeros((data.shape[0], weight.shape[0], height, width))
    for i in range(kh):
        for j in range(kw):
            rows = slice(i * dilation, i * dilation + (height - 1) * stride + 1, stride)
            columns = slice(j * dilation, j * dilation + (width - 1) * stride + 1, stride)
            parts = np.split(x[:, :, rows, columns], groups, 1)
            total += np.concatenate([np.einsum("nihw,oi->nohw", p, w[:, :, i, j]) for p, w in zip(parts, weights)], 1)
    return total


class Layer:
    """A convolution with a bias and an activation, compiled once."""

    def __init__(
        self, channels, filters, kernel=1, stride=1, pads=(0, 0, 0, 0), dilation=1, groups=1, batch=1, residual=False
    ):
        self.rng = rng = np.random.default_rng(channels * 1000 + filters + kernel)
        self.channels, self.window = channels, (stride, pads, dilation)
        self.weight = rng.standard_normal((filters, channels // groups, kernel, kernel)).astype("float32")
        self.bias = rng.standard_normal((1, filters, 1, 1)).astype("float32")
        layouts = f"NCHW{BLOCK}c", f"OIHW{BLOCK}i{BLOCK}o"

        def build(data, weight, bias, *more):
            out = contrib_conv2d_nchwc(
                data, weight, stride, pads, dilation, groups, filters, (kernel, kernel), *layouts
            )
            return relay.nn.relu(relay.add(relay.add(out, bias), *more) if more else relay.add(out, bias))

        unknown, height, width = (tvm.tir.SizeVar(name, "int64") for name in ("batch", "height", "width"))
        image = [unknown if batch is None else batch, channels // BLOCK, height, width, BLOCK]
        shapes = [image, packed(self.weight).shape, blocked(self.bias).shape, *[image] * residual]
        function = primitive(build, [relay.TensorType(s, "float32") for s in shapes])
        self.kernel = SymbolicKernel(primitive_form(function).function)

    def arguments(self, batch, height, width):
        data = self.rng.standard_normal((batch, self.channels, height, width)).astype("float32")
        return data, [blocked(data), packed(self.weight), blocked(self.bias)]

    def check(self, *shape):
        data, arguments = self.arguments(*shape)
        (got,) = self.kernel.run(*arguments)
        want = np.maximum(expected(data, self.weight, *self.window) + self.bias, 0)
        np.testing.assert_allclose(got, blocked(want), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("channels, filters", [(4, 4), (8, 32), (24, 20), (64, 12), (160, 64), (384, 640)])
def test_pixels_alone(channels, filters):
    """Tiles of pixels, those of rows that share their weights and those of many weights among them."""
    layer = Layer(channels, filters)
    for size in SIZES:
        layer.check(1, *size)


@pytest.mark.parametrize("given", [
    {"kernel": 3, "stride": 2, "pads": (1, 1, 1, 1)}, {"kernel": 3, "pads": (2, 2, 2, 2), "dilation": 2},
    {"kernel": 3, "stride": 3, "pads": (1, 0, 2, 3)}, {"kernel": 2, "stride": 2, "pads": (1, 1, 0, 0)},
    {"stride": 2}, {"stride": 3, "pads": (0, 1, 1, 0)}, {"kernel": 5, "stride": 2, "pads": (2, 2, 2, 2)},
])  # fmt: skip
@pytest.mark.parametrize("channels", [8, 64, 256])
def test_windows_and_strides(channels, given):
    """Short sums go by rows, long ones by pixels of the whole image."""
    layer = Layer(channels, 24, **given)
    reach = (given.get("kernel", 1) - 1) * given.get("dilation", 1) + 1
    top, left, bottom, right = given.get("pads", (0, 0, 0, 0))
    for height, width in SIZES:
        if height + top + bottom >= reach and width + left + right >= reach:
            layer.check(1, height, width)


@pytest.mark.parametrize("given", [{}, {"kernel": 3, "stride": 2, "pads": (1, 1, 1, 1)}])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_images_and_groups(groups, given):
    layer = Layer(64, 32, groups=groups, batch=None, **given)
    for batch, size in ((1, (7, 7)), (2, (3, 2)), (3, (15, 14)), (0, (4, 4))):
        layer.check(batch, *size)


@pytest.mark.parametrize("channels, order", [(16, None), (512, None), (128, "pixels"), (256, "filters")])
def test_a_result_over_one_of_its_operands_is_computed_once(monkeypatch, channels, order):
    """As on this machine, or with tasks of single tiles whose products have operands in memory."""
    if order:
        orders(monkeypatch, 1 << 12, 1 << 20 if order == "pixels" else 1 << 15)
    layer = Layer(channels, channels, batch=None, residual=True)
    for height, width in SIZES:
        data, arguments = layer.arguments(2, height, width)
        more = layer.rng.standard_normal(arguments[0].shape).astype("float32")
        together = tvm.nd.array(more)
        layer.kernel.library[layer.kernel.kernel.name](*map(tvm.nd.array, arguments), together, together)
        want = np.maximum(blocked(expected(data, layer.weight, *layer.window) + layer.bias) + more, 0)
        np.testing.assert_allclose(together.numpy(), want, rtol=1e-3, atol=1e-3)


def image_types(dims, filters, *more):
    """The types of a 1x1 convolution over blocks of four channels, and of images beside its result."""
    n, c, h, w = dims
    weight = (filters // BLOCK, c // BLOCK, 1, 1, BLOCK, BLOCK)
    images = [(m, c // BLOCK, y, x, BLOCK) for m, c, y, x in ((n, c, h, w), *more)]
    return [relay.TensorType(s, "float32") for s in (images[0], weight, *images[1:])]


def point(channels, filters):
    layouts = f"NCHW{BLOCK}c", f"OIHW{BLOCK}i{BLOCK}o"
    return lambda x, w: contrib_conv2d_nchwc(x, w, 1, (0, 0, 0, 0), 1, 1, filters, (1, 1), *layouts)


BATCH, HEIGHT, WIDTH = (tvm.tir.SizeVar(name, "int64") for name in ("batch", "height", "width"))


@pytest.mark.parametrize("dims, beside, copies", [
    ((BATCH, HEIGHT, WIDTH), (BATCH, HEIGHT, WIDTH), True), ((1, HEIGHT, WIDTH), (1, HEIGHT, WIDTH), True),
    ((BATCH, HEIGHT, WIDTH), (1, HEIGHT, WIDTH), True), ((BATCH, 3, WIDTH), (BATCH, 3, WIDTH), True),
    ((BATCH, WIDTH, WIDTH), (BATCH, WIDTH, WIDTH), True), ((BATCH, HEIGHT, WIDTH), (BATCH, 1, 1), True),
    ((BATCH, HEIGHT, WIDTH), (BATCH, 1, WIDTH), False), ((BATCH, HEIGHT, WIDTH), (1, HEIGHT, 1), False),
    ((WIDTH, HEIGHT, WIDTH), (1, 1, 1), False),
])  # fmt: skip
@pytest.mark.parametrize("target", ["llvm", "c"])
def test_few_pixels(dims, beside, copies, target):
    """Images of one pixel up to more than a tile, beside images that are added. Those of fewer than a tile are copied
    where nothing else depends on their size."""
    channels, filters = 8, 20
    types = image_types((dims[0], channels, *dims[1:]), filters, (beside[0], filters, *beside[1:]))
    conv = point(channels, filters)
    function = primitive_form(primitive(lambda x, w, b: relay.nn.relu(relay.add(conv(x, w), b)), types)).function
    kernel = SymbolicKernel(function, target)
    assert copies == any("copying_pixels" in v.name_hint for v in kernel.kernel.module.get_global_vars())
    rng = np.random.default_rng(9)
    weight = rng.standard_normal((filters, channels, 1, 1)).astype("float32")
    sizes = [(n, h, w) for n in (1, 2) for h, w in [(1, w) for w in range(1, 19)] + [(5, 1), (3, 2), (3, 3), (4, 4)]]
    for n, h, w in [*sizes, (0, 1, 1), (2, 0, 3), (3, 2, 7)]:
        value = {BATCH: n, HEIGHT: h, WIDTH: w}
        shape, more = ([value.get(d, d) for d in s] for s in (dims, beside))
        x = rng.standard_normal((shape[0], channels, *shape[1:])).astype("float32")
        b = rng.standard_normal((more[0], filters, *more[1:])).astype("float32")
        (got,) = kernel.run(blocked(x), packed(weight), blocked(b))
        want = np.maximum(expected(x, weight, 1, (0, 0, 0, 0), 1) + b, 0)
        np.testing.assert_allclose(got, blocked(want), rtol=1e-4, atol=1e-4)


X86 = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512")


def orders(monkeypatch, l1_bytes, l2_bytes):
    """Kernels are scheduled as for a machine with operands in memory and such caches; the orders of loops that are
    chosen for images of unknown size."""
    chosen = []
    begin, choose = Machine.__init__, conv2d.flat_tasks

    def of_operands(self, target):
        begin(self, target)
        self.has_memory_operands, self.has_lane_operands, self.loads_pairs = True, False, False
        self.registers, self.l1_bytes, self.l2_bytes, self.threads = 32, l1_bytes, l2_bytes, 2

    def noted(x, tile, machine):
        chosen.append((choose(x, tile, machine)[0], tile[1:]))
        return choose(x, tile, machine)

    monkeypatch.setattr(Machine, "__init__", of_operands)
    monkeypatch.setattr(conv2d, "flat_tasks", noted)
    return chosen


@pytest.mark.parametrize("channels, filters, caches, want", [
    (128, 16, (1 << 15, 1 << 20), ("pixels", (14, 2))), (256, 48, (1 << 15, 1 << 20), ("pixels", (14, 2))),
    (128, 40, (1 << 12, 1 << 15), ("filters", (14, 2))), (512, 8, (1 << 12, 1 << 15), ("filters", (14, 2))),
    (1024, 8, (1 << 12, 1 << 16), ("pixels", (14, 2))),
    (64, 32, (1 << 15, 1 << 20), ("rows", (6, 4))), (128, 12, (1 << 15, 1 << 20), ("pixels", (9, 3))),
])  # fmt: skip
def test_orders_of_tasks_with_operands_in_memory(monkeypatch, channels, filters, caches, want):
    """Images of fewer pixels than a tile, of whole tiles, and of one pixel more or less."""
    chosen = orders(monkeypatch, *caches)
    layer = Layer(channels, filters, batch=None)
    for batch, size in ((1, (1, 13)), (2, (7, 7)), (1, (14, 14)), (1, (5, 17)), (3, (3, 5)), (1, (1, 99)), (0, (2, 2))):
        layer.check(batch, *size)
    assert set(chosen) == {want}


@pytest.mark.parametrize("caches, want", [((1 << 15, 1 << 20), "rows"), ((1 << 12, 1 << 20), "pixels"),
                                          ((1 << 12, 1 << 14), "filters")])  # fmt: skip
def test_orders_of_tasks_whose_pixels_have_addresses(monkeypatch, caches, want):
    chosen = orders(monkeypatch, *caches)
    monkeypatch.setattr(convolutions, "conv2d_NCHWc_gathered", None)
    layer = Layer(32, 32, batch=None, kernel=3, stride=2, pads=(1, 1, 1, 1))
    for batch, size in ((1, (1, 13)), (2, (7, 7)), (1, (14, 14)), (3, (3, 5)), (1, (2, 99))):
        layer.check(batch, *size)
    assert {order for order, _ in chosen} == {want}


@pytest.mark.parametrize("channels, given, caches, want", [
    (288, {"stride": 2}, (1 << 15, 1 << 20), "pixels"), (288, {"stride": 2}, (1 << 12, 1 << 14), "filters"),
    (320, {"stride": 3, "pads": (0, 1, 2, 0)}, (1 << 12, 1 << 14), "filters"),
    (256, {"pads": (1, 0, 0, 2)}, (1 << 12, 1 << 14), "filters"),
])  # fmt: skip
def test_gathered_elements(monkeypatch, channels, given, caches, want):
    """The elements of pixels whose places do not follow from each other, padded and for whole tiles."""
    chosen, calls, gather = orders(monkeypatch, *caches), [], convolutions.conv2d_NCHWc_gathered

    def counted(*arguments):
        calls.append(arguments)
        return gather(*arguments)

    monkeypatch.setattr(convolutions, "conv2d_NCHWc_gathered", counted)
    layer = Layer(channels, 32, batch=None, **given)
    for batch, size in ((1, (4, 13)), (2, (7, 7)), (1, (14, 14)), (3, (4, 5)), (1, (4, 99)), (0, (5, 5))):
        layer.check(batch, *size)
    assert calls and {order for order, _ in chosen} == {want}


@pytest.mark.parametrize("given", [{"stride": 2}, {"kernel": 3, "stride": 2, "pads": (1, 1, 1, 1)}, {}])
@pytest.mark.parametrize("caches", [(1 << 15, 1 << 20), (1 << 12, 1 << 14)])
def test_loops_and_memory_of_no_images_divide_by_no_size(monkeypatch, given, caches):
    """Whole numbers are not divided by zero on x86: how many iterations there are is known before."""
    orders(monkeypatch, *caches)
    layer = Layer(288, 32, batch=None, **given)
    extents = []
    for function in layer.kernel.kernel.module.functions.values():
        for node in post_order(function.body):
            extents += [node.extent] if isinstance(node, For) else node.extents if isinstance(node, Allocate) else []
    before = [e for e in extents if all(isinstance(v, tvm.tir.SizeVar) for v in variables(e))]
    sizes = [n for e in before for n in post_order(e) if isinstance(n, (FloorDiv, FloorMod, Div, Mod))]
    assert sizes and all(isinstance(n.b, IntImm) for n in sizes)
    for batch, size in ((1, (0, 5)), (0, (5, 5)), (2, (5, 0))):
        layer.check(batch, *size)


def assembly_of(blocks, filters, window, stride):
    """The lines of the assembly for x86 of an open convolution of so many blocks of 16 channels."""
    layouts = "NCHW16c", "OIHW16i16o"
    height, width = (tvm.tir.SizeVar(name, "int64") for name in ("height", "width"))
    shapes = [1, blocks, height, width, 16], (filters // 16, blocks, window, window, 16, 16)
    types = [relay.TensorType(shape, "float32") for shape in shapes]
    where = stride, (window // 2,) * 4, 1, 1, filters, (window, window)
    function = primitive(lambda x, w: contrib_conv2d_nchwc(x, w, *where, *layouts), types)
    kernel = KernelCompiler(X86).lower(primitive_form(function).function)
    return tvm.build(kernel.module, target=X86).get_source("asm").splitlines()


@pytest.mark.usual_code
def test_code_of_operands_in_memory():
    """The loop over channels of an open 1x1 convolution loads every second element by two multiplications."""
    products = [line for line in assembly_of(12, 64, window=1, stride=1) if "vfmadd" in line and "{1to16}" in line]
    assert len(products) >= 28
    assert not [line for line in products if ",%r" in line.replace(" ", "").partition("{")[0].partition("(")[2]]


def test_tiles_of_winograd_where_vectors_are_long(usual_machine):
    """Of many channels and filters direct convolution reads fewer weights, and images are small; beside few filters
    they need not be."""
    # Another target than the global one, which keeps the features of the machine that it was first used on.
    machine = Machine(Target(str(X86)))
    sizes = {c: winograd_any_image.plan(c, c, (16, 16), machine) for c in (64, 128, 256, 512)}
    assert sizes == {64: (4, 2), 128: (4, 2), 256: (4, 2), 512: None}
    assert winograd_any_image.plan(512, 128, (16, 16), machine) is not None
    assert [winograd_any_image.run_length(c, machine) for c in (64, 128, 256, 512)] == [12, 10, 10, 14]


@pytest.mark.usual_code
@pytest.mark.parametrize("channels, filters", [(32, 32), (64, 64), (128, 128), (256, 256), (512, 128), (1024, 32)])
def test_winograd_of_any_image_has_runs_for_any_number_of_channels(channels, filters):
    height, width = (tvm.tir.SizeVar(name, "int64") for name in ("height", "width"))
    tile, vectors = winograd_any_image.plan(channels, filters, (16, 16), Machine(X86)) or (2, 2)
    shape = (filters // 16 // vectors, tile + 2, tile + 2, channels // 16, 16, vectors, 16)
    types = [relay.TensorType(s, "float32") for s in ([1, channels // 16, height, width, 16], shape)]
    function = primitive(lambda x, w: contrib_conv2d_winograd_nchwc(x, w, (1, 1)), types)
    kernel = KernelCompiler(X86).lower(primitive_form(function).function)
    assert "vfmadd" in tvm.build(kernel.module, target=X86).get_source("asm")


@pytest.mark.parametrize("shared, classes", [(1 << 20, 1), (16, 0)], ids=["one run is shared", "all are shared"])
def test_filters_of_winograd_that_exceed_the_cache(monkeypatch, shared, classes):
    """Matrix after matrix where threads share filters: images of one run, of several, and none."""
    chosen, begin, choose = [], Machine.__init__, winograd_any_image.WinogradOfAnyImage.choose

    def with_small_cache(self, target):
        begin(self, target)
        self.l2_bytes, self.threads = 1 << 12, 2

    def noted(self, op, machine):
        chosen.append(choose(self, op, machine))
        return chosen[-1]

    monkeypatch.setattr(Machine, "__init__", with_small_cache)
    monkeypatch.setattr(winograd_any_image, "is_short", lambda machine: False)
    monkeypatch.setattr(winograd_any_image, "MIN_SHARED_FILTERS", shared)
    monkeypatch.setattr(winograd_any_image.WinogradOfAnyImage, "choose", noted)
    rng = np.random.default_rng(4)
    weight = rng.standard_normal((32, 8, 3, 3)).astype("float32")
    filters = transform_filters(weight, 2, 4, 4, 2)
    shapes = (relay.Any(), 2, relay.Any(), relay.Any(), 4), filters.shape
    types = [relay.TensorType(shape, "float32") for shape in shapes]
    with tvm.transform.PassContext(config={"tir.instrument_bound_checkers": True}):
        kernel = SymbolicKernel(
            primitive(lambda x, w: relay.nn.relu(contrib_conv2d_winograd_nchwc(x, w, (1, 1))), types)
        )
    for n, h, w in ((1, 3, 3), (1, 1, 1), (1, 4, 9), (1, 17, 21), (3, 5, 14), (2, 2, 2), (0, 4, 5)):
        data = rng.standard_normal((n, 8, h, w)).astype("float32")
        (got,) = kernel.run(blocked(data), filters)
        wanted = np.maximum(expected(data, weight, 1, (1, 1, 1, 1), 1), 0)
        np.testing.assert_allclose(got.transpose(0, 1, 4, 2, 3).reshape(wanted.shape), wanted, rtol=1e-3, atol=1e-3)
    # All groups of a task, matrix after matrix, where threads share them; else group after group.
    orders_of = [(config["outer"], config["groups"]) for config in chosen]
    groups = 32 // 8
    assert orders_of == ([("groups", groups)] * classes + [("matrices", groups // 2)])


@pytest.mark.usual_code
def test_code_of_pixels_with_addresses_of_their_own():
    """The loop over channels adds nothing to the addresses of pixels and loads none of them."""
    lines = assembly_of(32, 512, window=3, stride=2)
    products = [i for i, line in enumerate(lines) if "vfmadd" in line]
    assert len(products) == 40
    body = lines[products[0] : products[-1]]
    assert sum("vbroadcastss" in line for line in body) >= 18
    assert not [line for line in body if "rsp" in line or "add" in line.split()[0] and "vfmadd" not in line]

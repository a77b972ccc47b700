"""What follows products in transformers done by their kernels: residuals in single precision, activations, masks."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import tvm
import tvm.testing
from tests import cuda_emulator as emulator
from tests.cuda_emulator.marks import needs_compiler, needs_emulator
from tests.topi.gpu import test_gemm, test_tensor_cores, test_warpgroup
from tests.topi.gpu.test_tensor_cores import cuda, drawn
from tvm import te, topi
from tvm.topi.gpu import gemm, tensor_cores

F = "float32"
KINDS = ("residual", "gelu", "mask")
error_function = np.vectorize(math.erf)


class Case:
    """A product (three times for a mask), what follows it, values, and what NumPy makes of them in double precision."""

    def __init__(self, kind: str, sizes: tuple[int, int, int], dtype: str, rng):
        m, n, k = sizes
        lead = (3,) if kind == "mask" else ()
        self.kind, self.dtype = kind, dtype
        x, y = drawn(rng, (*lead, m, k), dtype), drawn(rng, (*lead, k, n), dtype)
        product = x.astype("float64") @ y.astype("float64")
        self.values = [x, y] if kind == "gelu" else [x, y, drawn(rng, (m, n), F)]
        if kind == "residual":
            self.wanted = product + self.values[2]
        elif kind == "gelu":
            self.wanted = product * (error_function(product / math.sqrt(2)) + 1) * 0.5
        else:
            self.wanted = product * 0.125 + self.values[2]
        # Rounded to halves in between; sums of either sign cancel, so the largest one is the measure.
        close = 1e-5 if dtype == F else 2e-3 if dtype == "float16" else 2e-2
        self.limit = close * max(float(np.abs(product).max()), 1.0)

    def tensors(self) -> list[te.Tensor]:
        """The inputs and the result."""
        held = [te.placeholder(v.shape, str(v.dtype), name) for v, name in zip(self.values, ("x", "y", "z"))]
        make = topi.cuda.batch_matmul if self.kind == "mask" else topi.cuda.matmul
        turned = {"transpose_a": False, "transpose_b": False}
        sums = make(*held[:2], out_dtype=F, **turned)
        y = topi.cast(topi.cast(sums, self.dtype), F) if self.dtype != F else sums
        if self.kind == "residual":
            y = topi.add(y, held[2])
        elif self.kind == "gelu":
            y = topi.multiply(topi.multiply(y, topi.add(topi.erf(topi.divide(y, math.sqrt(2))), 1.0)), 0.5)
        else:
            y = topi.add(topi.multiply(y, 0.125), held[2])
        return [*held, y]

    def built(self, target):
        with target:
            tensors = self.tensors()
            schedule = topi.schedule.schedule_for(tensors[-1:], target)
            return tvm.build(schedule, tensors, target, name="f")

    def check(self, got) -> None:
        np.testing.assert_allclose(got.astype("float64"), self.wanted, rtol=1e-5, atol=self.limit)

    def arrays(self) -> list[np.ndarray]:
        return [*self.values, np.full(self.wanted.shape, np.nan, F)]


def some_sizes(rng) -> tuple[int, int, int]:
    """Of whole copies, or of any size."""
    m, n, k = (int(x) for x in rng.integers(16, 90, 3))
    return (m, -(-n // 8) * 8, -(-k // 8) * 8) if rng.integers(2) else (m, n, k)


@needs_emulator
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("kind", KINDS)
def test_on_tensor_cores(kind, dtype, rng, monkeypatch):
    monkeypatch.setattr(tensor_cores.TEMPLATE, "choose", test_tensor_cores.any_configuration(rng))
    case = Case(kind, some_sizes(rng), dtype, rng)
    with emulator.building():
        built = case.built(cuda())
    assert "tvm_fragment_product" in built.imported_modules[0].get_source()
    case.check(emulator.call(built, case.arrays(), "f")[-1])


@needs_emulator
@pytest.mark.parametrize("split_k", [1, 3])
def test_by_warpgroups(split_k, rng, monkeypatch):
    config = test_warpgroup.a_configuration(split_k=split_k, stages=3)
    monkeypatch.setattr(tensor_cores.TEMPLATE, "choose", lambda sizes, machine: dict(config))
    case = Case("residual", (70, 72, 400), "float16", rng)
    with emulator.building():
        built = case.built(cuda("sm_90a"))
    assert "wgmma.mma_async" in built.imported_modules[0].get_source()
    case.check(emulator.call(built, case.arrays(), "f")[-1])


@needs_emulator
@pytest.mark.parametrize("kind", KINDS)
def test_of_single_precision_on_cuda(kind, rng, monkeypatch):
    monkeypatch.setattr(gemm.TEMPLATE, "choose", test_gemm.any_configuration(rng))
    case = Case(kind, some_sizes(rng), F, rng)
    with emulator.building():
        built = case.built(cuda())
    case.check(emulator.call(built, case.arrays(), "f")[-1])


@tvm.testing.requires_opencl
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("free", [False, True])
def test_of_single_precision_on_opencl(kind, free, rng, monkeypatch):
    if free:
        monkeypatch.setattr(gemm.TEMPLATE, "choose", test_gemm.any_configuration(rng))
    case = Case(kind, some_sizes(rng), F, rng)
    built = case.built(tvm.target.Target("opencl", host="llvm"))
    arrays = [tvm.nd.array(v, tvm.cl(0)) for v in case.arrays()]
    built(*arrays)
    case.check(arrays[-1].numpy())


@needs_emulator
@pytest.mark.parametrize("kind", ["residual", "gelu"])
@pytest.mark.parametrize("dtype", ["float16", F])
@pytest.mark.parametrize("rows, columns", [(70, 1000), (67, 1021)])
def test_parts_of_many_sums(kind, dtype, rows, columns, rng, monkeypatch):
    """Neighbours are added up together where whole vectors are."""
    for template, config in (
        (tensor_cores, {"tile": (32, 32), "warps": (2, 2), "block_k": 16, "stages": 2, "split_k": 3}),
        (gemm, {"tile": (8, 8), "threads": (8, 8), "block_k": 8, "split_k": 3}),
    ):
        monkeypatch.setattr(template.TEMPLATE, "choose", lambda sizes, machine, config=config: dict(config))
    case = Case(kind, (rows, columns, 48), dtype, rng)
    with emulator.building():
        built = case.built(cuda())
    product, total = kernels(built.imported_modules[0].get_source())
    read = re.findall(r"\*\(const (float[24])\*\)\(T_matmul_(?:part|product_rf)", total)
    assert read == (["float4"] if columns == 1000 else [])
    case.check(emulator.call(built, case.arrays(), "f")[-1])


# The text


def kernels(text: str) -> list[str]:
    return text.split('extern "C"')[1:]


def test_residuals_are_read_as_vectors_by_tensor_cores(rng, monkeypatch):
    monkeypatch.setattr(tensor_cores.TEMPLATE, "choose", test_tensor_cores.a_configuration())
    (kernel,) = kernels(Case("residual", (70, 72, 96), "float16", rng).built(cuda()).imported_modules[0].get_source())
    assert re.findall(r"\*\(const (\w+)\*\)\(z", kernel) == ["float4"]
    assert re.findall(r"\*\((\w+)\*\)\(T_add", kernel) == ["float4"]


@pytest.mark.parametrize("tile, columns, vector", [((8, 8), 64, "float4"), ((4, 2), 64, "float2"), ((8, 8), 66, None)])
def test_residuals_are_read_as_vectors_in_single_precision(tile, columns, vector, rng, monkeypatch):
    config = {"tile": tile, "threads": (8, 8), "block_k": 8, "split_k": 1}
    monkeypatch.setattr(gemm.TEMPLATE, "choose", lambda sizes, machine: dict(config))
    (kernel,) = kernels(Case("residual", (70, columns, 40), F, rng).built(cuda()).imported_modules[0].get_source())
    for kind, name in (("const (float[24])", "z"), ("(float[24])", "T_add")):
        assert set(re.findall(rf"\*\({kind}\*\)\({name}", kernel)) == ({vector} if vector else set())


@needs_compiler
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float16", F])
def test_nothing_is_kept_in_local_memory(kind, dtype, rng):
    ptx = Case(kind, (70, 72, 96), dtype, rng).built(cuda()).imported_modules[0].get_source("ptx")
    assert ".local" not in ptx

"""Sorting by many threads: runs that blocks sort, merged along diagonals; against NumPy's stable sort."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
import tvm.testing
from tests.topi.gpu.test_together import results, threads_of
from tests.topi.test_sort import order
from tvm import te, topi

SORTED_BY_A_BLOCK = 1792


def kinds_of_data(rng, n: int) -> dict[str, np.ndarray]:
    """Lines that are hard on one way of sorting or another."""
    steps = np.arange(n, dtype="float32")
    special = rng.choice(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0], "float32"), n)
    return {
        "any": rng.normal(size=n).astype("float32"),
        "few values": rng.integers(0, 3, n).astype("float32"),
        "equal": np.full(n, 2.5, "float32"),
        "sorted": steps,
        "reversed": steps[::-1].copy(),
        "special": special,
        "NaN": np.full(n, np.nan, "float32"),
        "two runs": np.concatenate([steps[n // 2 :], steps[: n // 2]]),
    }


@tvm.testing.requires_opencl
@pytest.mark.parametrize(
    "n, up",
    [(1, True), (7, False), (97, True), (SORTED_BY_A_BLOCK, False), (SORTED_BY_A_BLOCK + 1, True), (7001, False)],
)
def test_every_kind_of_data(n, up, rng):
    kinds = kinds_of_data(rng, n)
    data = np.stack(list(kinds.values()))
    values, places = results([data], lambda t: topi.cuda.topk(t, 0, 1, "both", up, "int32"))
    wanted = order(data, 1, up)
    for line, name in enumerate(kinds):
        np.testing.assert_array_equal(places[line], wanted[line], err_msg=name)
    # Zeros of both signs are equal, and keep theirs.
    np.testing.assert_array_equal(
        values.view("int32"), np.take_along_axis(data, wanted, 1).view("int32"), err_msg="values"
    )


@tvm.testing.requires_opencl
@pytest.mark.parametrize("shape, axis", [((2, 4001, 2), 1), ((4001, 3), 0), ((300, 5), 1)])
def test_every_axis(shape, axis, rng):
    data = rng.integers(-9, 10, shape).astype("int32")
    (places,) = results([data], lambda t: topi.cuda.argsort(t, None, axis, True, "int64"))
    np.testing.assert_array_equal(places, order(data, axis))
    (values,) = results([data], lambda t: topi.cuda.sort(t, axis, False))
    np.testing.assert_array_equal(values, np.flip(np.sort(data, axis), axis))


@tvm.testing.requires_opencl
@pytest.mark.parametrize("dtype", ["int8", "uint64", "float16", "float64", "bool"])
def test_types_of_every_width(dtype, rng):
    data = rng.integers(0, 2 if dtype == "bool" else 100, (2, 2003)).astype(dtype)
    values, places = results([data], lambda t: topi.cuda.topk(t, 0, 1, "both", True, "int32"))
    np.testing.assert_array_equal(places, order(data, 1))
    np.testing.assert_array_equal(values, np.sort(data, 1))


@tvm.testing.requires_opencl
@pytest.mark.parametrize("k", [1, SORTED_BY_A_BLOCK, 3000])
def test_runs_keep_no_more_than_is_asked_for(k, rng):
    data = rng.integers(0, 500, (2, 9001)).astype("float32")
    values, places = results([data], lambda t: topi.cuda.topk(t, k, 1, "both", False, "int64"))
    wanted = order(data, 1, False)[:, :k]
    np.testing.assert_array_equal(places, wanted)
    np.testing.assert_array_equal(values, np.take_along_axis(data, wanted, 1))


@tvm.testing.requires_opencl
@pytest.mark.parametrize("n", [50, 4003])
def test_only_valid_elements_are_sorted(n, rng):
    data = rng.integers(0, 9, (6, n)).astype("float32")
    counts = np.array([0, 1, n // 2, n - 1, n, n + 5], "int32")
    (places,) = results([data, counts], lambda t, c: topi.cuda.argsort(t, c, 1, False, "int32"))
    for row, own, count in zip(data, places, counts):
        count = min(count, n)
        np.testing.assert_array_equal(own[:count], order(row[:count], 0, False))
        np.testing.assert_array_equal(own[count:], np.arange(count, n))


@tvm.testing.requires_opencl
def test_one_program_for_lines_of_any_length(rng):
    target, device = tvm.target.Target("opencl", host="llvm"), tvm.cl(0)
    with target:
        rows, n = te.var("rows"), te.var("n")
        given = te.placeholder((rows, n), "float32")
        made = topi.cuda.topk(given, 0, 1, "both", False, "int32")
        built = tvm.build(topi.schedule.schedule_for(made, target), [given, *made], target)
    for shape in ((1, 1), (3, 5), (2, SORTED_BY_A_BLOCK), (1, SORTED_BY_A_BLOCK + 1), (2, 5003), (0, 5), (5, 0)):
        data = rng.integers(0, 99, shape).astype("float32")
        outs = [tvm.nd.empty(shape, dtype, device) for dtype in ("float32", "int32")]
        built(tvm.nd.array(data, device), *outs)
        wanted = order(data, 1, False)
        np.testing.assert_array_equal(outs[1].numpy(), wanted)
        np.testing.assert_array_equal(outs[0].numpy(), np.take_along_axis(data, wanted, 1))


def test_a_long_line_has_many_threads_and_two_kernels():
    with tvm.target.Target("cuda"):
        assert threads_of(topi.cuda.sort(te.placeholder((1000,)))) == [256], "one block sorts it"
        lines = threads_of(topi.cuda.sort(te.placeholder((100, 20)), 1))
        assert lines == [512], "runs of 4 threads, 64 of them to a block"
        kernels = threads_of(topi.cuda.sort(te.placeholder((1_000_000,))))
        assert len(kernels) == 2 and max(kernels) >= 100_000

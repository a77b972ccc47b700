"""Running states of the tests, and comparing them with plain loops."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import tvm
from tests.quick_code import quick_code
from tvm import auto_scheduler, te


@auto_scheduler.register_workload
def products_of_matrices(count: int, terms: int, rows: int, columns: int) -> list[Any]:
    """Sums of products of small matrices: no row of the result fills a vector."""
    a = te.placeholder((terms, rows, columns), name="a")
    b = te.placeholder((terms, count, columns, columns), name="b")
    c, k = te.reduce_axis((0, terms), name="c"), te.reduce_axis((0, columns), name="k")
    return [a, b, te.compute((count, rows, columns), lambda o, i, j: te.sum(a[c, i, k] * b[c, o, k, j], axis=[c, k]))]


def arrays_of(dag: Any, seed: int) -> list[np.ndarray]:
    """Numbers for all arguments: from -1 to 1, and small whole ones of the type."""
    generator = np.random.default_rng(seed)
    return [_numbers(generator, [int(d) for d in t.shape], t.dtype) for t in dag.tensors]


def _numbers(generator: np.random.Generator, shape: list[int], dtype: str) -> np.ndarray:
    if "int" in dtype:
        return generator.integers(0 if dtype.startswith("u") else -128, 127, shape, dtype=dtype)
    return generator.uniform(-1, 1, shape).astype(getattr(ml_dtypes, dtype, dtype))


def run(dag: Any, state: Any, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """All arguments after a state was run on them."""
    schedule, args = dag.apply_steps_from_state(state)
    return run_schedule(schedule, args, arrays)


def run_schedule(schedule: Any, args: list[Any], arrays: list[np.ndarray]) -> list[np.ndarray]:
    with quick_code():
        function = tvm.build(schedule, args, "llvm")
    given = [tvm.nd.array(array) for array in arrays]
    function(*given)
    return [array.numpy() for array in given]


def assert_computes_the_same(dag: Any, state: Any, seed: int = 0, rtol: float = 1e-4) -> None:
    """A state and plain loops leave the same arguments."""
    arrays = arrays_of(dag, seed)
    expected, got = run(dag, dag.get_init_state(), arrays), run(dag, state, arrays)
    for a, b in zip(got, expected):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-4)

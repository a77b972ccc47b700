"""Schedules, with no template behind them, compiled and run in worker processes, and compared with a reference."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import te
from tvm.runtime.measure.files import difference
from tvm.runtime.measure.worker import example
from tvm.tuning.candidate import TimeIsUp, argument_info, compile_text, lower_to_text, run_code, time_limit
from tvm.tuning.reference import reference_outputs
from tvm.tuning.workers import Failure, shared_pool

N, K, M = 17, 5, 9
TARGET = tvm.target.Target("llvm")


def matmul(sign: int = 1):
    a, b = te.placeholder((N, K), name="a"), te.placeholder((K, M), name="b")
    k = te.reduce_axis((0, K), name="k")
    c = te.compute((N, M), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    out = te.compute((N, M), lambda i, j: sign * c[i, j], name="out")
    schedule = te.create_schedule(out.op)
    outer, inner = schedule[out].split(out.op.axis[0], factor=4)
    schedule[c].compute_at(schedule[out], outer)
    schedule[out].vectorize(out.op.axis[1])
    return schedule, [a, b, out]


def outputs_of(schedule, args) -> bytes:
    pool, info = shared_pool(2), argument_info(args)
    code = compile_text(pool, lower_to_text(schedule, args, TARGET), 60.0)
    assert not isinstance(code, Failure), code
    options = {"number": 1, "repeat": 3, "outputs": True}
    answer = run_code(pool, TARGET.get_target_device_type(), info, code, 60.0, options)
    assert not isinstance(answer, Failure) and len(answer[0]["costs"]) == 3 and min(answer[0]["costs"]) > 0, answer
    return answer[1]


def test_a_schedule_computes_in_a_worker_what_numpy_does():
    schedule, args = matmul()
    found = np.frombuffer(outputs_of(schedule, args), "float32")
    a, b = (example(shape, dtype, n) for n, (shape, dtype) in enumerate(argument_info(args)[:2]))
    np.testing.assert_allclose(found[-N * M :].reshape(N, M), a @ b, rtol=1e-5)


@pytest.mark.parametrize("sign, differs", [(1, False), (-1, True)])
def test_results_are_compared_with_the_schedule_without_moves(sign, differs):
    schedule, args = matmul()
    info = argument_info(args)
    reference = reference_outputs(shared_pool(2), schedule, args, info)
    assert bool(difference(info, outputs_of(*matmul(sign)), reference)) == differs


def test_code_that_computes_for_too_long_is_stopped():
    with pytest.raises(TimeIsUp, match="lowering took longer than 0.05 s"), time_limit(0.05):
        while True:
            pass

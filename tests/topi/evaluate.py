"""Runs operators on arrays: one module for all outputs of a group of cases, with the default schedule."""

from __future__ import annotations

import numpy as np

import tvm
from tests import on_target
from tests.quick_code import quick_code
from tvm import te
from tvm.topi import schedule as topi_schedule


def evaluate(arrays, function, dtypes=None, schedule_for=None):
    """The outputs (one array or a list) of ``function`` of placeholders shaped like ``arrays``."""
    arrays = [np.asarray(array) for array in arrays]
    names = dtypes or [str(array.dtype) for array in arrays]
    inputs = [te.placeholder(a.shape, d, name=f"in{n}") for n, (a, d) in enumerate(zip(arrays, names))]
    return run(inputs, function(*inputs), arrays, schedule_for=schedule_for)


def run(inputs, made, arrays, shapes=None, schedule_for=None):
    """Results of what was made, by a CPU where code for the target can only be compiled."""
    single = isinstance(made, te.Tensor)
    outputs = [made] if single else list(made)
    target, device = on_target.target(), on_target.device()
    if schedule_for is None and not on_target.is_cpu():
        schedule_for = topi_schedule.schedule_for
    if schedule_for is None:
        schedule = te.create_schedule(list(dict.fromkeys(t.op for t in outputs)))
    else:
        schedule = schedule_for(outputs, target)
    with quick_code():
        function = tvm.build(schedule, [*inputs, *outputs], target)
    if on_target.only_compiles():
        schedule = te.create_schedule(list(dict.fromkeys(t.op for t in outputs)))
        function, device = tvm.build(schedule, [*inputs, *outputs], "llvm"), tvm.cpu(0)
    shapes = shapes or [tuple(int(d) for d in t.shape) for t in outputs]
    given = [tvm.nd.array(array, device) for array in arrays]
    results = [tvm.nd.empty(shape, t.dtype, device) for shape, t in zip(shapes, outputs)]
    function(*given, *results)
    values = [r.numpy() for r in results]
    return values[0] if single else values


def check(arrays, cases, rtol=1e-5, atol=1e-6):
    """``cases`` maps a label to (operator on tensors, its NumPy reference on arrays); all are built as one module."""
    labels = list(cases)
    got = evaluate(arrays, lambda *t: [cases[label][0](*t) for label in labels])
    for label, value in zip(labels, got):
        with np.errstate(all="ignore"):
            wanted = np.asarray(cases[label][1](*arrays))
        assert value.shape == wanted.shape, f"{label}: shape {value.shape}, expected {wanted.shape}"
        same(value, wanted, label, rtol, atol)


def same(value, wanted, label, rtol=1e-5, atol=1e-6):
    if value.dtype.kind in "iub":
        np.testing.assert_array_equal(value, wanted, err_msg=str(label))
    else:
        if wanted.dtype.kind in "iubf" and value.dtype.kind == "f":
            assert value.dtype == wanted.dtype, f"{label}: type {value.dtype}, expected {wanted.dtype}"
        np.testing.assert_allclose(
            value.astype("float64"), wanted.astype("float64"), rtol=rtol, atol=atol, err_msg=str(label)
        )

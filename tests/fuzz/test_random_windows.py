"""Operators with windows refuse attributes without meaning, and compute the others as NumPy does."""

from __future__ import annotations

import os

import numpy as np
import pytest

import tvm
from tests.fuzz.windows import Draw, Refused
from tvm import relay
from tvm.contrib import graph_executor

CASES = int(os.environ.get("TVM_FUZZ_CASES", "500"))
BATCH = 250


def _variables(call):
    return [relay.var(f"x{i}", shape=a.shape) for i, a in enumerate(call.arrays)]


def _expected(call):
    try:
        return call.wanted()
    except Refused:
        return None


@pytest.mark.parametrize("batch", range((CASES + BATCH - 1) // BATCH))
def test_type_inference_refuses_what_has_no_meaning_and_shapes_the_rest(batch, seed):
    met = {True: 0, False: 0}
    for number in range(BATCH):
        call = Draw(seed * 1000 + batch * BATCH + number, 0.1).call()
        label = f"case {number} of batch {batch}: {call.label}"
        want, variables = _expected(call), _variables(call)
        function = relay.Function(variables, call.build(*variables))
        try:
            got = relay.transform.InferTypeLocal(function.body)
        except tvm.TVMError as problem:
            assert want is None, f"{label}: {problem}"
        else:
            assert want is not None, f"{label}: accepted as {got}"
            assert tuple(map(int, got.shape)) == want.shape, label
        met[want is None] += 1
    assert min(met.values()) > BATCH // 10, "the cases are one-sided"


@pytest.mark.parametrize("batch", range((CASES // 20 + BATCH - 1) // BATCH))
def test_windows_give_the_numbers_of_numpy(batch, seed):
    draw = Draw(seed + batch, 0.0)
    fields, feeds, wanted = [], {}, []
    while len(fields) < 16:
        call = draw.call()
        want = _expected(call)
        if want is None:
            continue
        own = [relay.var(f"x{len(feeds) + i}", shape=a.shape) for i, a in enumerate(call.arrays)]
        feeds.update(zip(own, call.arrays))
        fields.append(call.build(*own))
        wanted.append((call.label, want))
    mod = tvm.IRModule.from_expr(relay.Function(list(feeds), relay.Tuple(fields)))
    module = graph_executor.GraphModule(relay.build(mod, "llvm")["default"](tvm.cpu()))
    module.run(**{v.name_hint: a for v, a in feeds.items()})
    for i, (label, want) in enumerate(wanted):
        np.testing.assert_allclose(module.get_output(i).numpy(), want, rtol=1e-5, atol=1e-4, err_msg=label)

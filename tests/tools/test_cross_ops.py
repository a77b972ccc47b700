"""The operators that ``python -m tools test cross --ops`` runs on other machines, a few of them on this one."""

from __future__ import annotations

import sys
from pathlib import Path

import tvm
from tvm import relay
from tvm.contrib import graph_executor

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import cross_ops


def here(mod, inputs):
    with tvm.transform.PassContext(opt_level=3):
        library = relay.build(mod, target="llvm")
    model = graph_executor.GraphModule(library["default"](tvm.cpu()))
    model.run(**inputs)
    return model.get_output(0).numpy()


def test_operators_of_the_sample_are_what_numpy_says(seed):
    known = cross_ops.cases()
    for name in cross_ops.sample(list(known), 4, seed):
        worst = cross_ops.difference(known[name], here, seed)
        assert worst == 0 if known[name].exact else worst <= 1e-5, name


def test_a_sample_goes_through_all_operators():
    names = [str(number) for number in range(9)]
    assert cross_ops.sample(names, 20, 1) == names
    assert {name for seed in range(40) for name in cross_ops.sample(names, 2, seed)} == set(names)

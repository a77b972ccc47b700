"""The examples in the docstrings of public names run and give what they show."""

from __future__ import annotations

import doctest
from pathlib import Path

import numpy as np
import onnx
import pytest

import tvm
import tvm.contrib.relay_viz
import tvm.contrib.utils
import tvm.relay.dataflow_pattern
from tvm import autotvm, relay, te, topi
from tvm.contrib import graph_executor
from tvm.driver import tvmc

ROOT = Path(__file__).resolve().parents[2]
# What a reader of the reference has imported.
IMPORTED = {
    "autotvm": autotvm, "graph_executor": graph_executor, "np": np, "onnx": onnx, "relay": relay, "te": te,
    "topi": topi, "tvm": tvm, "tvmc": tvmc,
}  # fmt: skip
# The names a newcomer meets first; each has an example.
CENTRAL = """
    te.placeholder te.var te.compute te.reduce_axis te.create_schedule te.thread_axis te.extern te.scan
    te.comm_reducer te.if_then_else te.Stage.split te.Stage.tile te.Stage.reorder te.Stage.vectorize te.Stage.parallel
    te.Stage.unroll te.Stage.fuse te.Stage.compute_at te.Stage.compute_inline te.Stage.bind te.Schedule.cache_write
    te.Schedule.cache_read te.Schedule.rfactor lower build relay.var relay.const relay.build relay.frontend.from_onnx
    relay.op.nn.conv2d relay.op.nn.dense relay.InferType relay.transform.FoldConstant relay.transform.FuseOps
    relay.transform.ConvertLayout relay.transform.ToMixedPrecision relay.transform.Sequential
    contrib.graph_executor.GraphModule autotvm.template autotvm.get_config target.Target topi.nn.conv2d topi.nn.dense
    topi.nn.softmax topi.sum runtime.Module runtime.NDArray runtime.register_func tir.stmt_functor.post_order_visit
    tir.stmt_functor.substitute arith.Analyzer ir.structural_equal driver.tvmc.compile
""".split()


@pytest.fixture
def examples(monkeypatch) -> dict[str, str]:
    """The docstrings with examples by name, those of methods of public classes too."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import public_names

    found = {}
    for public in public_names.public_names():
        found[public.path] = public.value.__doc__ or ""
        if public.is_class:
            for name, method in vars(public.value).items():
                found[f"{public.path}.{name}"] = getattr(method, "__doc__", None) or ""
    return {name.removeprefix("tvm."): doc for name, doc in found.items() if ">>> " in doc}


def test_central_names_have_an_example(examples):
    assert [name for name in CENTRAL if name not in examples] == []


def test_examples_of_public_names_run(examples):
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False)
    said: list[str] = []
    for name, doc in examples.items():
        runner.run(parser.get_doctest(doc, dict(IMPORTED), name, None, 0), out=said.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)

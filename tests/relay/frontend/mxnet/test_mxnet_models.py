"""Networks of the model zoos, with few channels, against what MXNet made of them (networks.npz)."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np
from mxnet_networks import NETWORKS, build
from mxnet_writer import params_bytes

import tvm
from tests.relay.frontend.mxnet.operator_cases import compare
from tvm import relay
from tvm.contrib import graph_executor
from tvm.ir.type import TupleType
from tvm.relay.frontend import from_mxnet
from tvm.relay.infer import infer_module


@cache
def _expected() -> dict[str, list[np.ndarray]]:
    out: dict[str, list[np.ndarray]] = {}
    with np.load(Path(__file__).with_name("networks.npz")) as found:
        for key in found:
            out.setdefault(key.partition("|")[0], []).append(found[key])
    return out


def _imported(name: str):
    symbol, params, feeds = build(name)
    shapes = {k: v.shape for k, v in feeds.items()}
    return from_mxnet(symbol, shapes, arg_params=params_bytes(params)), params, feeds


def test_every_network_has_its_inputs_its_weights_and_the_types_of_its_outputs():
    for name in NETWORKS:
        (module, weights), params, feeds = _imported(name)
        assert set(weights) == {n.partition(":")[2] for n in params}
        assert {p.name_hint for p in module["main"].params} == {*feeds, *weights}
        result = infer_module(module)["main"].checked_type_.ret_type
        got = list(result.fields) if isinstance(result, TupleType) else [result]
        assert [t.concrete_shape for t in got] == [v.shape for v in _expected()[name]], name


def test_a_network_gives_what_mxnet_gave(rng):
    """One of them, which the seed chooses; all of them where all cases are run."""
    names = sorted(NETWORKS) if os.environ.get("TVM_CONFORMANCE_CASES") else [str(rng.choice(sorted(NETWORKS)))]
    for name in names:
        (module, weights), _, feeds = _imported(name)
        runner = graph_executor.GraphModule(relay.build(module, "llvm", params=weights)["default"](tvm.cpu()))
        runner.run(**feeds)
        wanted = _expected()[name]
        if name == "ssd":
            # MXNet leaves numbers in rows that are no detection.
            wanted = [np.where(w[..., :1] == -1, np.float32(-1), w) for w in wanted]
        compare([runner.get_output(i).numpy() for i in range(runner.get_num_outputs())], wanted, 1e-4)

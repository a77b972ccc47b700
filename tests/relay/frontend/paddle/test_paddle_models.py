"""Whole networks: those of PaddlePaddle's zoos with seeded weights (networks.npz). Real files are among the networks of
../test_trained_networks.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from paddle_networks import feeds, networks, weights
from paddle_writer import write

from tests.relay.frontend.paddle.operator_cases import compare, run
from tvm.relay.frontend import from_paddle


def _check(name: str, folder: Path) -> None:
    net = networks()[name]
    path = write(folder, name, net.program, weights(net.program))
    module, params = from_paddle(path, {"x": net.shape})
    assert not params
    compare(run(module, feeds(net.dtype, net.shape)), net.expected, 2e-4)


@pytest.mark.slow("imports, compiles and runs a whole network")
def test_a_network_gives_what_paddle_gave(tmp_path, rng):
    """Every seed has another one; TVM_CONFORMANCE_CASES=all has all of them."""
    names = sorted(networks())
    for name in names if os.environ.get("TVM_CONFORMANCE_CASES") else [str(rng.choice(names))]:
        _check(name, tmp_path)


def test_networks_are_imported_with_open_batches(tmp_path):
    for name in ("mobilenet_v3_small", "encoder", "reader"):
        net = networks()[name]
        module, _ = from_paddle(write(tmp_path, name, net.program, weights(net.program)))
        assert not hasattr(module["main"].params[0].type_annotation.shape[0], "value")

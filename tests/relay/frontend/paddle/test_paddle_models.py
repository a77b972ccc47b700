"""Whole networks: those of PaddlePaddle's zoos with seeded weights (networks.npz), and real files with the outputs of
PaddlePaddle beside them, in shared/models/formats beside the checkout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from model_files import model_file
from paddle_networks import feeds, networks, weights
from paddle_writer import write

from tests.relay.frontend.paddle.operator_cases import compare, run
from tvm.relay.frontend import from_onnx, from_paddle


def _check(name: str, folder: Path) -> None:
    net = networks()[name]
    path = write(folder, name, net.program, weights(net.program))
    module, params = from_paddle(path, {"x": net.shape})
    assert not params
    compare(run(module, feeds(net.dtype, net.shape)), net.expected, 2e-4)


@pytest.mark.slow("imports, compiles and runs a whole network")
def test_a_network_gives_what_paddle_gave(tmp_path, rng):
    """Every seed has another one."""
    _check(str(rng.choice(sorted(networks()))), tmp_path)


@pytest.mark.slow("imports, compiles and runs a whole network")
@pytest.mark.parametrize("name", sorted(networks()))
def test_every_network_gives_what_paddle_gave(name, tmp_path):
    _check(name, tmp_path)


def test_networks_are_imported_with_open_batches(tmp_path):
    for name in ("mobilenet_v3_small", "encoder", "reader"):
        net = networks()[name]
        module, _ = from_paddle(write(tmp_path, name, net.program, weights(net.program)))
        assert not hasattr(module["main"].params[0].type_annotation.shape[0], "value")


@pytest.mark.slow("imports, compiles and runs a whole network")
@pytest.mark.parametrize(("name", "onnx"), [
    ("ch_ppocr_mobile_v2_cls_infer", "ppocr_cls.onnx"), ("ch_PP-OCRv4_det_infer", "ppocr_v4_det.onnx"),
])  # fmt: skip
def test_a_real_model_gives_what_paddle_gave_and_what_its_onnx_form_gives(name, onnx):
    files, original = model_file(f"formats/paddle/{name}"), model_file(f"onnx/{onnx}")
    with np.load(files / "inference.npz") as found:
        given = {k[3:]: found[k] for k in found if k.startswith("in_")}
        wanted = [found[k] for k in found if k.startswith("out_")]
    shapes = {k: v.shape for k, v in given.items()}
    got = run(from_paddle(files / "inference.pdmodel", shapes)[0], given)
    compare(got, wanted, 1e-4)
    compare(run(from_onnx(str(original), shapes)[0], given), got, 1e-4)

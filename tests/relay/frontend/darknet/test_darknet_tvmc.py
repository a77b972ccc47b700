"""Networks of DarkNet on the command line."""

from __future__ import annotations

import numpy as np
import pytest
from darknet_cases import written

from tvm.driver.tvmc.errors import TVMCException
from tvm.driver.tvmc.frontends import DarknetFrontend, guess_frontend, load_model
from tvm.driver.tvmc.main import _main


def files(folder):
    text, net, data = written("maxpool/stride 1")
    (folder / "net.cfg").write_text(text)
    (folder / "net.weights").write_bytes(net.weights())
    return str(folder / "net.cfg"), net, data


def test_a_configuration_is_compiled_with_the_weights_beside_it_and_run(tmp_path):
    cfg, net, data = files(tmp_path)
    assert isinstance(guess_frontend(cfg), DarknetFrontend)
    np.savez(tmp_path / "in.npz", data=data)
    package, outputs = str(tmp_path / "model.tar"), str(tmp_path / "out.npz")
    assert _main(["compile", "--target", "llvm", "--output", package, cfg]) == 0
    assert not _main(["run", "--inputs", str(tmp_path / "in.npz"), "--outputs", outputs, package])
    np.testing.assert_allclose(np.load(outputs)["output_0"], net.results[-1], rtol=1e-6)


def test_the_weights_travel_with_the_configuration(tmp_path):
    cfg, net, _ = files(tmp_path)
    assert DarknetFrontend().companions(cfg) == {"net.weights": net.weights()}


def test_what_is_wrong_is_said_in_words(tmp_path):
    cfg, _, _ = files(tmp_path)
    with pytest.raises(TVMCException, match="the network has no input 'x'; its input is data"):
        load_model(cfg, shape_dict={"x": [1]})
    assert load_model(cfg, shape_dict={"data": [2, 3, 7, 9]}).mod["main"].params
    (tmp_path / "net.weights").unlink()
    with pytest.raises(TVMCException, match=r"net.weights is missing in the folder of net.cfg"):
        load_model(cfg)

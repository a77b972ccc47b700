"""Symbols of MXNet on the command line."""

from __future__ import annotations

import numpy as np
import pytest
from mxnet_writer import Net, params_bytes

from tvm.driver.tvmc.errors import TVMCException
from tvm.driver.tvmc.frontends import MxnetFrontend, guess_frontend, load_model
from tvm.driver.tvmc.main import _main


def files(folder):
    net = Net(3)
    symbol = net.symbol(net.op("Activation", net.dense(net.var("data"), 6, 4), act_type="relu"))
    (folder / "net-symbol.json").write_text(symbol)
    (folder / "net-0003.params").write_bytes(params_bytes(net.params))
    return str(folder / "net-symbol.json"), list(net.params.values())


def test_a_symbol_is_compiled_with_the_parameters_beside_it_and_run(tmp_path, rng):
    path, (weight, bias) = files(tmp_path)
    x = rng.uniform(-1, 1, (2, 6)).astype("float32")
    np.savez(tmp_path / "in.npz", data=x)
    package, outputs = str(tmp_path / "model.tar"), str(tmp_path / "out.npz")
    assert _main(["compile", "--target", "llvm", "--input-shapes", "data:[2,6]", "--output", package, path]) == 0
    assert not _main(["run", "--inputs", str(tmp_path / "in.npz"), "--outputs", outputs, package])
    np.testing.assert_allclose(np.load(outputs)["output_0"], np.maximum(x @ weight.T + bias, 0), rtol=1e-5, atol=1e-5)


def test_a_symbol_is_known_by_its_content_whatever_its_ending(tmp_path):
    path, _ = files(tmp_path)
    assert isinstance(guess_frontend(path), MxnetFrontend)
    (tmp_path / "net").write_bytes((tmp_path / "net-symbol.json").read_bytes())
    assert isinstance(guess_frontend(str(tmp_path / "net")), MxnetFrontend)


def test_the_parameters_of_the_last_step_travel_with_the_symbol(tmp_path):
    path, _ = files(tmp_path)
    (tmp_path / "net-0012.params").write_bytes(b"last")
    (tmp_path / "net-more-0099.params").write_bytes(b"of another model")
    assert MxnetFrontend().companions(path) == {"net-0012.params": b"last"}


def test_what_is_wrong_is_said_in_words(tmp_path):
    path, _ = files(tmp_path)
    with pytest.raises(TVMCException, match="the model has no input 'x'; its inputs are data"):
        load_model(path, shape_dict={"x": [1, 6]})
    words = r"""the shape of input 'data', which .* is unknown; specify it: --input-shapes "data:\[...\]"$"""
    with pytest.raises(TVMCException, match=words):
        load_model(path)
    other = (tmp_path / "net-0003.params").rename(tmp_path / "weights.params")
    assert sorted(load_model(path, shape_dict={"data": [1, 6]}, weights=str(other)).params)
    other.rename(tmp_path / "net-0003.params")
    (tmp_path / "net-0003.params").rename(tmp_path / "other")
    with pytest.raises(TVMCException, match="parameter file net-0000.params not found next to net-symbol.json"):
        load_model(path, shape_dict={"data": [1, 6]})
    (tmp_path / "net-0003.params").symlink_to(tmp_path / "other")
    with pytest.raises(TVMCException, match="must be a regular file in the model's folder and not a link"):
        load_model(path, shape_dict={"data": [1, 6]})

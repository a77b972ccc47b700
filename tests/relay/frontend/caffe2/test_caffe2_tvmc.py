"""Caffe2 models on the command line."""

from __future__ import annotations

import numpy as np
import pytest
from caffe2_cases import CASES, NETWORKS
from caffe2_writer import add, conformance, nets

from tvm.driver.tvmc.errors import TVMCException
from tvm.driver.tvmc.frontends import Caffe2Frontend, TensorflowFrontend, guess_frontend, load_model
from tvm.driver.tvmc.main import _main
from tvm.relay.frontend.caffe2.schema import FILES


@pytest.fixture
def folder(tmp_path):
    init, predict = nets(CASES["FC"])
    (tmp_path / "fc_init_net.pb").write_bytes(init)
    (tmp_path / "fc_predict_net.pb").write_bytes(predict)
    return tmp_path


@pytest.mark.parametrize("name", ["fc_init_net.pb", "fc_predict_net.pb"])
def test_either_net_stands_for_the_model(folder, name):
    path = str(folder / name)
    assert isinstance(guess_frontend(path), Caffe2Frontend)
    assert sorted(load_model(path, shape_dict={"x0": (3, 4)}).params) == ["w0", "w1"]
    other = {"fc_init_net.pb", "fc_predict_net.pb"} - {name}
    assert set(Caffe2Frontend().companions(path)) == other


def test_a_net_without_the_other_one_is_refused_in_words(folder):
    (folder / "fc_init_net.pb").unlink()
    with pytest.raises(TVMCException, match="expected the regular file fc_init_net.pb"):
        load_model(str(folder / "fc_predict_net.pb"), model_format="caffe2")
    (folder / "net.pb").write_bytes(b"x")
    with pytest.raises(TVMCException, match="init and predict in their names"):
        load_model(str(folder / "net.pb"), model_format="caffe2")
    assert isinstance(guess_frontend(str(folder / "net.pb")), TensorflowFrontend)


def test_an_input_filled_with_one_number_has_no_shape_and_is_asked_for_as_tvmc_takes_it(tmp_path):
    init, predict = (FILES.messages["Net"]() for _ in range(2))
    add(init, "ConstantFill", [], ["data"], shape=[1])
    add(predict, "Relu", ["data"], ["y"])
    predict.external_input.append("data")
    (tmp_path / "init_net.pb").write_bytes(init.SerializeToString())
    (tmp_path / "predict_net.pb").write_bytes(predict.SerializeToString())
    path = str(tmp_path / "init_net.pb")
    words = r"""does not specify the shape of input 'data'; specify it: --input-shapes "data:\[...\]"$"""
    with pytest.raises(TVMCException, match=words):
        load_model(path)
    assert load_model(path, shape_dict={"data": (2, 3)}).mod["main"].params[0].type_annotation.concrete_shape == (2, 3)


def test_compile_and_run(tmp_path):
    case = NETWORKS["shufflenet"]()
    init, predict = nets(case)
    (tmp_path / "init_net.pb").write_bytes(init)
    (tmp_path / "predict_net.pb").write_bytes(predict)
    np.savez(tmp_path / "in.npz", **case.feeds)
    package, outputs = str(tmp_path / "model.tar"), str(tmp_path / "out.npz")
    shapes = ["--input-shapes", "data:[1,12,17,15]"]
    assert _main(["compile", "--target", "llvm", *shapes, "--output", package, str(tmp_path / "predict_net.pb")]) == 0
    assert not _main(["run", "--inputs", str(tmp_path / "in.npz"), "--outputs", outputs, package])
    wanted = conformance().cases_module("caffe2").expected()["shufflenet"][0]
    np.testing.assert_allclose(np.load(outputs)["output_0"], wanted, rtol=1e-4, atol=1e-5)

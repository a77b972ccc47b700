"""Models with partitions on RPC servers: their kernels come from a library on the server, or from the client."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.plain_codegen import network, plainc
from tvm import relay, rpc
from tvm.contrib import graph_executor
from tvm.relay.op.contrib import partition_for


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The exported model, the library of its kernels, an input and the output."""
    package, folder = plainc(), tmp_path_factory.mktemp("partitions")
    mod, function = network(np.random.default_rng(7))
    value = np.random.default_rng(8).standard_normal((3, 7)).astype("float32")
    relay.build(partition_for("plainc", mod), "llvm").export_library(str(folder / "model.so"))
    return str(folder / "model.so"), package.build_library(str(folder)), value, function(value)


def check(session, model) -> None:
    session.upload(model[0])
    module = graph_executor.GraphModule(session.load_module("model.so")["default"](session.cpu()))
    module.run(x=tvm.nd.array(model[2], session.cpu()))
    np.testing.assert_allclose(module.get_output(0).numpy(), model[3], rtol=1e-5)


def test_a_variable_of_the_server_names_the_library(c_server, model):
    server = c_server(TVM_KERNEL_LIBRARIES=model[1])
    with rpc.connect(server.host, server.port) as session:
        check(session, model)


def test_a_client_sends_the_library(c_server, model):
    server = c_server()
    with rpc.connect(server.host, server.port) as session:
        session.upload(model[1], "kernels.so")
        session.upload(model[0])
        module = graph_executor.GraphModule(session.load_module("model.so")["default"](session.cpu()))
        with pytest.raises(tvm.TVMError, match="kernel 'plainc.dense_relu' is not registered"):
            module.run(x=tvm.nd.array(model[2], session.cpu()))
        session.get_function("runtime.load_kernel_library")("./kernels.so")
        check(session, model)

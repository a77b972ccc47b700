"""Names in generated C."""

from __future__ import annotations

import pytest

import tvm
from tvm.relay.backend import name_transforms as names


@pytest.mark.parametrize("transform, name, expected", [
    (names.to_c_function_style, "TVMGen_net_run", "TVMGenNetRun"),
    (names.to_c_variable_style, "TVMGen_Net_inputs", "tvmgen_net_inputs"),
    (names.to_c_constant_style, "TVM_net_size", "TVM_NET_SIZE"),
    (names.prefix_name, ["net", "Run"], "TVM_net_Run"),
    (names.prefix_generated_name, "net", "TVMGen_net"),
    (names.sanitize_name, "conv/1:0-é", "conv_1_0__"),
])  # fmt: skip
def test_a_name_of_each_kind(transform, name, expected):
    assert transform(name) == expected


@pytest.mark.parametrize("transform, name, message", [
    (names.to_c_function_style, "net", "Function not TVM prefixed: 'net'"),
    (names.to_c_variable_style, "", "Variable name is empty"),
    (names.to_c_constant_style, "net", "Constant not TVM prefixed"),
    (names.prefix_name, [], "Name segments empty"),
    (names.prefix_name, ["net", ""], "Name segment is empty"),
    (names.prefix_generated_name, "", "Name is empty"),
    (names.sanitize_name, "", "Name is empty"),
])  # fmt: skip
def test_names_that_cannot_be_are_refused(transform, name, message):
    with pytest.raises(tvm.TVMError, match=message):
        transform(name)

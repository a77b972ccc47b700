"""Support levels: those of Apache TVM's documentation, and 10 where it has none."""

from __future__ import annotations

import pytest

from tvm import relay


@pytest.mark.parametrize("names, level", [
    ("log exp sqrt rsqrt tanh nn.relu", 1), ("nn.conv2d nn.max_pool2d", 2), ("ceil floor trunc round abs negative", 3),
    ("sum maximum", 4), ("image.resize2d", 5), ("nn.contrib_conv2d_NCHWc qnn.add", 10),
])  # fmt: skip
def test_levels_of_operators(names, level):
    assert {relay.op.get(name).support_level for name in names.split()} == {level}

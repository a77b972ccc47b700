"""ATen operators from a trace and from an exported program against PyTorch, on odd shapes and several element types."""

from __future__ import annotations

import os
import random
import warnings

import pytest

torch = pytest.importorskip("torch")

from tests.relay.frontend.pytorch.cases import LEFT_OUT, core_cases
from tests.relay.frontend.pytorch.support import check
from tvm.relay.frontend.pytorch.table import find

ROWS = core_cases()
# Everywhere a few, in full with `make test-torch`.
SAMPLE = None if os.environ.get("TVM_TEST_TORCH") else 8
NAMES = sorted(ROWS) if SAMPLE is None else random.Random(0).sample(sorted(ROWS), SAMPLE)


class Case(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


@pytest.mark.parametrize("way", ["trace", "export"])
@pytest.mark.parametrize("name", NAMES)
def test_an_operator_gives_what_pytorch_gives(name, way):
    function, *inputs = ROWS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(Case(function), inputs, way, level=0)


def test_every_core_operator_has_a_converter_or_a_reason():
    missing = []
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        overloads = getattr(packet, "overloads", None)
        if overloads is None or name in LEFT_OUT:
            continue
        for overload in overloads():
            if torch.Tag.core in getattr(packet, overload).tags and find(name, overload) is None:
                missing.append(f"{name}.{overload}")
    assert not missing

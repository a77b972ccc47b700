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
# Everywhere a few, in full with `python -m tools test torch`.
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
    # dir(torch.ops.aten) has only what was used before; the schemas have everything.
    names = {s.name.removeprefix("aten::") for s in torch._C._jit_get_all_schemas() if s.name.startswith("aten::")}
    core = []
    for name in sorted(names):
        packet = getattr(torch.ops.aten, name, None)
        tags = {o: getattr(packet, o).tags for o in packet.overloads()} if packet is not None else {}
        core += [(name, overload) for overload, found in tags.items() if torch.Tag.core in found]
    assert len(core) > 150
    assert not [pair for pair in core if pair[0] not in LEFT_OUT and find(*pair) is None]

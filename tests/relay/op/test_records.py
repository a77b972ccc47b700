"""Every operator's record is complete."""

from __future__ import annotations

import pytest

import tvm
from tvm import relay
from tvm.ir.op import OPS
from tvm.relay.op.record import OpPattern

RELAY = [name for name in sorted(OPS.names()) if "TOpPattern" in OPS[name].attrs and "type_rule" in OPS[name].attrs]


def test_there_are_many_operators():
    assert len(RELAY) > 200


@pytest.mark.parametrize("fact", ["type_rule", "description", "inputs", "computation", "pattern"])
def test_records_are_complete(fact):
    holds = {
        "type_rule": lambda record: callable(record.attrs.get("type_rule")),
        "description": lambda record: record.description.strip().endswith("."),
        "inputs": lambda record: isinstance(record.attrs["num_inputs"], int),
        "computation": lambda record: any(
            callable(record.attrs.get(way)) for way in ("compute", "expand", "to_static")
        ),
        "pattern": lambda record: (
            record.attrs["TOpPattern"] in {v for k, v in vars(OpPattern).items() if not k.startswith("_")}
        ),
    }[fact]
    missing = [name for name in RELAY if not holds(OPS[name])]
    assert not missing, f"without {fact}: {missing}"


def test_paths_of_tvm():
    assert relay.op.get("nn.relu") is relay.op.op.get("nn.relu") is tvm.ir.Op.get("nn.relu")
    assert relay.op.nn.nn.conv2d is relay.nn.conv2d
    assert relay.op.transform.scatter_nd is relay.op.scatter_nd
    assert relay.op.tensor.concatenate is relay.concatenate
    assert relay.op.op.OpPattern.ELEMWISE == 0


def test_facts_can_be_added():
    made = relay.op.op.register("test.relay_op_new", "For this test.")
    try:
        with pytest.raises(tvm.TVMError, match="Operator test.relay_op_new is registered before"):
            relay.op.op.register("test.relay_op_new")
        relay.op.op.register_pattern("test.relay_op_new", OpPattern.INJECTIVE)
        relay.op.op.register_stateful("test.relay_op_new", True)
        assert made.get_attr("TOpPattern") == 2 and made.get_attr("TOpIsStateful") is True
    finally:
        OPS.remove("test.relay_op_new")


def test_pattern_tables():
    from tvm.relay.op.contrib.register import get_pattern_table, register_pattern_table

    @register_pattern_table("a compiler of the tests")
    def table():
        return [("name", None)]

    assert get_pattern_table("a compiler of the tests") == [("name", None)]
    assert get_pattern_table("unknown") is None

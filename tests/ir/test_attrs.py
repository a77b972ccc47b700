"""Attribute records and making nodes by type key."""

from __future__ import annotations

import pytest

from tvm.error import TVMError
from tvm.ir import make_node
from tvm.ir.attrs import Attrs, DictAttrs
from tvm.ir.pass_config import UnrollLoopConfig
from tvm.ir.prim import IntImm


def test_a_record_is_read_by_name_and_as_a_mapping():
    record = UnrollLoopConfig(auto_max_step=4)
    assert record.auto_max_step == 4 == record["auto_max_step"] == record.get_int("auto_max_step")
    assert dict(record.items())["auto_max_depth"] == 8 and "explicit_unroll" in record and len(record) == 5
    assert record.get("nothing", 3) == 3 and list(record) == record.keys()
    with pytest.raises(KeyError, match="has no attribute 'nothing'; it has: auto_max_step"):
        record["nothing"]


def test_fields_tell_type_and_default():
    fields = {f.name: f.type_info for f in UnrollLoopConfig.list_field_info()}
    assert fields["auto_max_step"] == "int, default=0"

    class Padding(Attrs):
        sizes: tuple
        name: str = "pad"

    assert Padding.list_field_info()[0].type_info == "tuple"
    assert Padding([1, 2]).get_int_tuple("sizes") == (1, 2) and Padding([1]).get_str("name") == "pad"


def test_dictionary_attributes():
    attrs = DictAttrs({"a": 1}, b="x")
    assert attrs["a"] == attrs.a == 1 and attrs.get("c") is None and "b" in attrs and len(attrs) == 2
    assert list(attrs) == ["a", "b"] and dict(attrs) == {"a": 1, "b": "x"}
    with pytest.raises(AttributeError, match="no attribute 'c'"):
        attrs.c


def test_nodes_are_made_by_type_key():
    node = make_node("IntImm", dtype="int32", value=10, span=None)
    assert isinstance(node, IntImm) and node.value == 10
    attrs = make_node("DictAttrs", x=1, name="xyz", padding=(0, 2))
    assert isinstance(attrs, DictAttrs) and attrs.x.value == 1 and attrs.name == "xyz"
    assert attrs["padding"][1].value == 2


@pytest.mark.parametrize(
    ("key", "fields", "message"),
    [
        ("IntIm", {}, "unknown node type 'IntIm'; did you mean 'IntImm'"),
        ("IntImm", {"dtype": "int32", "val": 3}, "IntImm has no field 'val'; did you mean 'value'"),
        ("tir.Add", {"a": 1}, r"cannot create tir.Add from the fields \['a'\]"),
    ],
)
def test_making_nodes_refuses_unknown_keys_and_fields(key, fields, message):
    with pytest.raises(TVMError, match=message):
        make_node(key, **fields)

"""The node machinery: fields, children, rebuilding, type keys."""

from __future__ import annotations

import copy
import os
import subprocess
import sys

import pytest

from tvm.ir.node import NODE_TYPES, Node, to_tuple
from tvm.ir.prim import Add, IterVar, PrimExpr, Range, Select, Var, const
from tvm.tir.stmt import Evaluate, For, IfThenElse, SeqStmt


def test_fields_become_slots_and_arguments():
    x = Var("x", "int32")
    node = Add(x, 1)
    assert node._fields == ("a", "b")
    assert node.a is x and node.b.value == 1
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        node.other = 3
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'b'"):
        Add(x)


def test_children_are_expressions_and_statements_but_not_data():
    x = Var("x", "int32")
    loop = For(x, 0, 4, 0, Evaluate(x))
    assert x not in [c for c in loop.children() if c is x]
    assert [type(c).__name__ for c in loop.children()] == ["IntImm", "IntImm", "Evaluate"]
    assert IfThenElse(x < 1, Evaluate(1)).children()[-1].value.value == 1
    assert len(SeqStmt((Evaluate(1), Evaluate(2))).children()) == 2


def test_map_children_keeps_the_object_when_nothing_changes():
    x, y = Var("x", "int32"), Var("y", "int32")
    node = Select(x < y, x, y)
    assert node.map_children(lambda n: n) is node
    swapped = node.map_children(lambda n: y if n is x else n)
    assert swapped.true_value is y and swapped.condition is node.condition


def test_replace_copies_and_keeps_the_object_when_nothing_changes():
    x = Var("x", "int32")
    loop = For(x, 0, 4, 0, Evaluate(x), annotations={"a": 1})
    assert loop.replace(body=loop.body) is loop
    new = loop.replace(extent=const(8, "int32"))
    assert new.extent.value == 8 and new.body is loop.body and new.annotations == {"a": 1} and loop.extent.value == 4


def test_copies_are_the_node_itself():
    node = Var("x", "int32") + 1
    assert copy.copy(node) is node and copy.deepcopy([node])[0] is node


def test_type_keys_are_unique():
    assert NODE_TYPES["tir.Add"] is Add
    with pytest.raises(ValueError, match="'tir.Add' is already registered"):

        class Again(Node, key="tir.Add"):
            pass


def test_inherited_fields_come_first_and_defaults_are_kept():
    class First(Node):
        one: PrimExpr

    class Second(First):
        two: tuple[PrimExpr]
        three: int = 7

    node = Second(1, (2, 3))
    assert Second._fields == ("one", "two", "three")
    assert node.three == 7 and [c.value for c in node.children()] == [1, 2, 3]


def test_to_tuple_of_lists_single_values_and_none():
    assert to_tuple(None) == () and to_tuple([1, 2]) == (1, 2) and to_tuple("ab") == ("ab",) and to_tuple(5) == (5,)


def test_axes_and_ranges_convert_their_bounds():
    axis = IterVar((0, 10), "i", IterVar.DataPar)
    assert axis.dom.extent.value == 10 and axis.var.name == "i" and axis.dtype == "int32"
    assert Range(3).min.value == 0 and Range(2, 10).extent.value == 8
    assert Range.from_min_extent(2, 10).extent.value == 10
    with pytest.raises(TypeError, match="a Range or a pair"):
        IterVar(7, "i", 0)


def test_nodes_refuse_writes_when_debugging():
    code = (
        "import tvm.ir.primop\nfrom tvm.ir.prim import Var\ne = Var('x', 'int32') + 1\n"
        "try:\n    e.a = 1\nexcept AttributeError as error:\n    print(error)"
    )
    env = {**os.environ, "TVM_DEBUG": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
    assert "nodes are immutable; use replace()" in out


def test_script_and_show_give_the_text(capsys):
    node = Var("x", "int32") + 1
    node.show()
    assert capsys.readouterr().out.strip() == node.script().strip() == str(node).strip()


def node_classes(cls=Node):
    for sub in cls.__subclasses__():
        yield sub
        yield from node_classes(sub)


def test_every_annotation_names_something_and_was_understood_when_the_class_was_made():
    """A misspelt class, or one that says only later that it is followed, would be data that no traversal reaches."""
    import builtins
    import re

    import tvm.relay.dataflow_pattern  # noqa: F401
    from tvm.ir.node import _field_kind

    for cls in node_classes():
        kinds = {name: kind for name, kind, _ in cls._field_specs}
        known = vars(sys.modules[cls.__module__])
        for field, annotation in cls.__dict__.get("__annotations__", {}).items():
            words = re.findall(r"[A-Za-z_]\w*", annotation)
            unknown = [w for w in words if w not in known and not hasattr(builtins, w)]
            assert not unknown, f"{cls.__module__}.{cls.__name__}.{field}: no {unknown[0]} is known there"
            assert kinds[field] == _field_kind(annotation), f"{cls.__name__}.{field}"


def test_a_new_ir_says_of_its_classes_what_is_followed_and_compared():
    from tvm.ir.structural import structural_equal

    class Tile(Node):
        _followed = True
        _compared = "axis! size"

        axis: Var
        size: int
        note: str = ""

    class Nest(Node):
        outer: Tile
        inner: tuple[Tile, ...] = ()
        bound: Tile | None = None

    i, j = Var("i", "int32"), Var("j", "int32")
    first, second = Tile(i, 4, "a"), Tile(j, 4, "b")
    nest = Nest(first, (second,), first)
    assert nest.children() == [first, second, first] and first.children() == []
    assert structural_equal(first, second) and not structural_equal(first, Tile(i, 5))
    assert nest.map_children(lambda tile: second).children() == [second, second, second]

"""Modules: functions by name, types, attributes."""

from __future__ import annotations

import pytest

import tvm.ir
import tvm.ir.base
import tvm.ir.expr
import tvm.ir.function
import tvm.ir.type_relation
from tvm import relay
from tvm.ir import Constructor, GlobalTypeVar, GlobalVar, GlobalVarSupply, IRModule, NameSupply, TypeData
from tvm.tir.function import PrimFunc
from tvm.tir.stmt import Evaluate


def func(value=0, **attrs):
    return PrimFunc([], Evaluate(value), attrs=attrs)


def test_functions_are_found_by_name_and_variable():
    f, var = func(), GlobalVar("f")
    mod = IRModule({var: f, "g": func(1)})
    assert mod["f"] is f and mod[var] is f and mod[GlobalVar("f")] is f
    assert "f" in mod and GlobalVar("g") in mod and "h" not in mod and len(mod) == 2
    assert mod.get_global_var("f") is var and [v.name_hint for v in mod.get_global_vars()] == ["f", "g"]
    with pytest.raises(ValueError, match="the module has no function 'ff'; did you mean 'f'"):
        mod["ff"]
    with pytest.raises(ValueError, match="it is empty"):
        IRModule()["f"]


def test_setting_replaces_by_name_and_keeps_the_variable():
    mod = IRModule({"f": func()})
    var, new = mod.get_global_var("f"), func(2)
    mod["f"] = new
    mod.update_func(GlobalVar("f"), new)
    assert mod["f"] is new and list(mod) == [var]
    mod.update(IRModule({"g": func(3)}))
    mod.update({"h": func(4)})
    assert [v.name_hint for v in mod] == ["f", "g", "h"]
    del mod["g"]
    assert "g" not in mod


def test_attributes_make_a_new_module():
    mod = IRModule({"f": func()}, attrs={"a": 1})
    new = mod.with_attr("b", 2)
    assert new.get_attr("b") == 2 and new.get_attr("a") == 1 and mod.get_attr("b") is None
    assert new["f"] is mod["f"] and new.without_attr("a").get_attr("a") is None
    clone = mod.clone()
    clone["g"] = func()
    assert "g" not in mod and mod._move() is mod


def test_from_expr_names_the_function():
    assert "main" in IRModule.from_expr(func()) and "named" in IRModule.from_expr(func(global_symbol="named"))
    mod = IRModule.from_expr(func(), functions={"other": func(1)})
    assert [v.name_hint for v in mod.get_global_vars()] == ["main", "other"]


def test_types_and_constructors():
    header = GlobalTypeVar("List")
    nil = Constructor("Nil", (), header, 1)
    cons = Constructor("Cons", (), header, 2)
    mod = IRModule()
    mod[header] = TypeData(header, (), (nil, cons))  # which numbers the constructors
    assert header in mod and mod[header].constructors == (nil, cons)
    assert mod.get_type("List") == (header, nil, cons) and mod.get_constructor(cons.tag) is cons
    assert mod.get_global_type_var("List") is header and mod.get_global_type_vars() == [header]
    with pytest.raises(ValueError, match="no type 'Tree'; it has: List"):
        mod.get_global_type_var("Tree")
    with pytest.raises(ValueError, match="no constructor with tag 9"):
        mod.get_constructor(9)


def test_text_of_a_module_names_its_functions(capsys):
    mod = IRModule({"f": func(7)})
    mod.show()
    assert "def f(" in mod.script() and mod.astext() == str(mod) and "def f(" in capsys.readouterr().out


def test_name_supply_gives_each_name_once():
    names = NameSupply("lib")
    assert [names.fresh_name("f") for _ in range(3)] == ["lib_f", "lib_f_1", "lib_f_2"]
    assert names.reserve_name("f_3") == "lib_f_3" and names.fresh_name("f") == "lib_f_4"
    assert names.contains_name("f") and not names.contains_name("f", add_prefix=False)
    assert names.fresh_name("g", add_prefix=False) == "g"


def test_global_var_supply_avoids_names_of_modules():
    mod = IRModule({"f": func()})
    supply = GlobalVarSupply(mod)
    assert supply.fresh_global("f").name_hint == "f_1"
    assert supply.unique_global_for("f") is mod.get_global_var("f")
    with pytest.raises(ValueError, match="two functions are named 'f'"):
        supply.reserve_global(GlobalVar("f"))


def test_the_classic_names_are_there():
    names = """Array Attrs BaseExpr BaseFunc CallingConv ConstantMemoryPools ConstantPoolInfo Constructor DictAttrs
        EnvFunc FuncType GlobalTypeVar GlobalVar IRModule IncompleteType Map Node Op PointerType PoolInfo
        PoolInfoProperties
        PrimExpr PrimType Range RelayExpr RelayRefType SourceName Span SequentialSpan TensorAffineType TensorType
        TupleAffineType TupleType Type TypeCall TypeConstraint TypeData TypeKind TypeRelation TypeVar
        WorkspaceMemoryPools WorkspacePoolInfo assert_structural_equal load_json make_node register_intrin_lowering
        register_op_attr save_json structural_equal structural_hash transform instrument diagnostics""".split()
    assert [n for n in names if not hasattr(tvm.ir, n)] == []
    assert tvm.ir.expr.GlobalVar is GlobalVar and tvm.ir.base.save_json is tvm.ir.save_json
    assert tvm.ir.function.CallingConv.C_PACKED_FUNC == 1 and tvm.ir.type_relation.TypeCall is tvm.ir.TypeCall


def test_what_a_module_defines_is_a_list_of_pairs():
    mod = IRModule({"f": func(), "g": func(1)})
    for made in (mod, mod.clone(), tvm.transform.Sequential([])(mod), tvm.ir.load_json(tvm.ir.save_json(mod))):
        assert [var.name_hint for var, _ in made.functions.items()] == ["f", "g"]
        var, function = made.functions.items()[0]
        assert var.name_hint == "f" and function is made["f"]
    mod = tvm.relay.parse('#[version = "0.0.5"]\ntype Box { Empty }\ndef @main() { 1 }')
    assert mod.type_definitions.items()[0][0].name_hint == "Box"


def test_an_expression_given_to_a_module_becomes_a_function():
    x = relay.var("x", shape=(2,))
    mod = tvm.IRModule()
    mod["main"] = relay.exp(x)
    assert isinstance(mod["main"], relay.Function) and list(mod["main"].params) == [x]


def test_tags_tell_constructors_of_different_types_apart():
    def module(*names):
        mod = IRModule()
        for name in names:
            header = GlobalTypeVar(name)
            constructors = [Constructor(f"{name}{i}", [], header) for i in range(3)]
            mod[header] = TypeData(header, [], constructors)
        return mod

    mod = module("First", "Second")
    constructors = [c for data in mod.type_definitions.values() for c in data.constructors]
    assert len({c.tag for c in constructors}) == 6
    assert all(mod.get_constructor(c.tag) is c for c in constructors)
    first = [c.tag for c in constructors[:3]]
    assert first == [first[0], first[0] + 1, first[0] + 2]
    # A type has the same tags in another module.
    assert [c.tag for c in module("Other", "First").type_definitions.items()[1][1].constructors] == first

"""Types, containers, pools, environment functions, spans and diagnostics."""

from __future__ import annotations

import pytest

from tvm.error import DiagnosticError
from tvm.ir import (
    Array,
    ConstantPoolInfo,
    EnvFunc,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    Map,
    PointerType,
    PoolInfoProperties,
    PrimType,
    SequentialSpan,
    SourceName,
    Span,
    TensorAffineType,
    TensorType,
    TupleAffineType,
    TupleType,
    TypeCall,
    TypeKind,
    TypeVar,
    WorkspaceMemoryPools,
    WorkspacePoolInfo,
    env_func,
    load_json,
    save_json,
    structural_equal,
)
from tvm.ir.diagnostics import Diagnostic, DiagnosticContext, DiagnosticLevel, override_renderer, render_text
from tvm.ir.prim import Any_, Var
from tvm.ir.span import render_place


def test_types_compare_by_content():
    assert PrimType("int32") == PrimType("int32") != PrimType("int64")
    assert PointerType(PrimType("int8"), "shared") != PointerType(PrimType("int8"))
    assert TupleType([PrimType("bool")]) == TupleType((PrimType("bool"),))
    assert TensorType((2, 3), "int8") == TensorType([2, 3], "int8") != TensorType((3, 2), "int8")
    assert hash(TensorType((2, 3))) == hash(TensorType((2, 3)))
    n, m = Var("n", "int32"), Var("m", "int32")
    assert TensorType((n,)) == TensorType((n,)) != TensorType((m,))
    assert TensorType((n * 2 + m, 3)) == TensorType((n * 2 + m, 3)) != TensorType((m * 2 + n, 3))
    assert hash(TensorType((n * 2,))) == hash(TensorType((n * 2,))) and TensorType((n * 2,)) != TensorType((n,))
    assert TensorType((Any_(), 3)) == TensorType((Any_(), 3)) != TensorType((n, 3))
    assert FuncType([PrimType("int32")], PrimType("bool")) == FuncType([PrimType("int32")], PrimType("bool"))


def test_named_types_are_themselves_only():
    a, b = TypeVar("a"), TypeVar("a")
    assert a == a and a != b and a.kind == TypeKind.Type
    assert structural_equal(FuncType([a], a, [a]), FuncType([b], b, [b]), map_free_vars=True)
    assert isinstance(a(PrimType("int32")), TypeCall) and isinstance(GlobalTypeVar("T")(a), TypeCall)
    assert IncompleteType() != IncompleteType()


def test_tensor_type_shape_and_size():
    kind = TensorType((2, 3), "float16")
    assert kind.concrete_shape == (2, 3) and int(kind.size) == 6 and TensorType(4).concrete_shape == (4,)
    with pytest.raises(ValueError, match="not constant: n"):
        TensorType((Var("n", "int32"),)).concrete_shape


def test_containers_are_plain():
    assert Array([1, 2]) == (1, 2) and isinstance((), Array) and isinstance([], Array) and not isinstance({}, Array)
    assert Map({"a": 1}) == {"a": 1} and isinstance({}, Map) and not isinstance((), Map)


def test_memory_pools():
    pool = WorkspacePoolInfo("sram", ["t"], PoolInfoProperties(size_hint_bytes=1024))
    assert pool.size_hint_bytes == 1024 and pool.targets == ("t",)
    assert WorkspacePoolInfo("dram", []).size_hint_bytes == -1
    assert WorkspaceMemoryPools([pool]).pools == (pool,)
    assert ConstantPoolInfo("flash", []).constant_info_array == ()


def test_affine_types():
    one = TensorAffineType(0.5, 3, "int8", 1)
    assert (one.scale, one.zero_point, one.dtype, one.axis) == (0.5, 3, "int8", 1)
    assert TupleAffineType([one]).types == (one,)


def test_environment_functions_are_looked_up_when_used(monkeypatch):
    known = {"test.twice": lambda x: 2 * x}
    monkeypatch.setattr(env_func.FIND_FUNCTION, "function", known.get)
    f = EnvFunc.get("test.twice")
    assert f(4) == 8 and f.func is known["test.twice"]
    assert structural_equal(f, EnvFunc.get("test.twice"))
    with pytest.raises(ValueError, match=r"no global function is named 'test\.none'"):
        EnvFunc.get("test.none")


def test_spans_compare_and_merge():
    a, b = Span(SourceName("f"), 1, 1, 2, 5), Span("f", 3, 4, 1, 9)
    assert a.merge(b) == Span("f", 1, 4, 2, 9) and str(a) == "f:1:2"
    with pytest.raises(ValueError, match="'f' and 'g' cannot be merged"):
        a.merge(Span("g", 1, 1, 1, 1))
    both = SequentialSpan([a, SequentialSpan([b, None]), None])
    assert both.spans == (a, b) and both == SequentialSpan([a, b])


def test_a_place_is_underlined():
    text = render_place("first\nlet x = y;\nlast", Span("f.relay", 2, 2, 9, 10), "y is not defined")
    assert text == "error: y is not defined\n --> f.relay:2:9\n2 |  let x = y;\n  |          ^"
    many = render_place("ab\ncd", Span("f", 1, 2, 2, 2), "m", "note")
    assert many.splitlines()[2:] == ["1 |  ab", "  |   ^", "2 |  cd", "  |  ^"]


def test_diagnostics_are_collected_and_raised_together():
    ctx = DiagnosticContext(None, sources={"f": "a + b"})
    ctx.emit(Diagnostic(DiagnosticLevel.WARNING, None, "careful"))
    shown = []
    override_renderer(lambda c: shown.append(render_text(c)))
    try:
        quiet = DiagnosticContext(None)
        quiet.emit(ctx.diagnostics[0])
        quiet.render()
        assert shown == ["warning: careful"]
    finally:
        override_renderer(None)
    ctx.emit(Diagnostic(DiagnosticLevel.ERROR, Span("f", 1, 1, 5, 6), "b is wrong"))
    ctx.emit(Diagnostic(DiagnosticLevel.ERROR, Span("g", 1, 1, 5, 6), "more"))
    with pytest.raises(DiagnosticError, match=r"b is wrong \(and 1 more\)"):
        ctx.render()
    assert "1 |  a + b\n  |      ^" in render_text(ctx) and "error: more (at g:1:5)" in render_text(ctx)


def test_a_place_may_be_of_no_source():
    place = Span(None, 1, 2, 3, 4)
    assert place.source_name is None and load_json(save_json(place)).source_name is None
    context = DiagnosticContext(None)
    context.emit(Diagnostic(DiagnosticLevel.ERROR, place, "wrong"))
    assert "wrong" in render_text(context)


def test_a_size_computed_from_an_unknown_one_is_unknown():
    n = Var("n", "int64")
    shape = TensorType((Any_() // 4, Any_() + Any_(), n * 2, 3)).shape
    assert [isinstance(d, Any_) for d in shape] == [True, True, False, False]

"""Visitors, mutators and what can be asked of graphs."""

from __future__ import annotations

import pytest

import tvm
from tvm import relay
from tvm.ir import structural_equal
from tvm.relay import analysis


def deep(count: int):
    x = relay.var("x", shape=(2,))
    y = x
    for i in range(count):
        y = relay.nn.relu(y) if i % 2 else relay.tanh(y)
    return x, y


def test_visitors_of_users_reach_deep_graphs():
    class Count(relay.ExprVisitor):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def visit_call(self, call):
            self.calls += 1
            super().visit_call(call)

    x, y = deep(5000)
    work = Count()
    work.visit(relay.Function([x], y))
    assert work.calls == 5000


def test_mutators_of_users_rebuild_deep_graphs_and_keep_sharing():
    class Swap(relay.ExprMutator):
        def visit_call(self, call):
            new = super().visit_call(call)
            return relay.exp(new.args[0]) if new.op.name == "tanh" else new

    x, y = deep(5000)
    got = Swap().visit(relay.Function([x], y + y))
    assert analysis.list_op_freqs(tvm.IRModule.from_expr(got)) == {"exp": 2500, "nn.relu": 2500, "add": 1}
    assert got.body.args[0] is got.body.args[1]


def test_a_mutator_that_changes_nothing_gives_the_same_object():
    x, y = deep(10)
    f = relay.Function([x], y)
    assert relay.ExprMutator().visit(f) is f
    ref = relay.RefCreate(relay.const(1.0))
    prelude = relay.prelude.Prelude()
    for e in (ref, relay.RefRead(ref), relay.RefWrite(ref, relay.const(2.0)), prelude.mod[prelude.map]):
        assert relay.ExprMutator().visit(e) is e


def test_variables_of_an_expression():
    x, y, v = relay.var("x", shape=(2,)), relay.var("y", shape=(2,)), relay.Var("v")
    f = relay.Function([x], relay.Let(v, x + y, v * y))
    assert analysis.free_vars(f) == [y]
    assert set(analysis.bound_vars(f)) == {x, v}
    assert set(analysis.all_vars(f)) == {x, y, v}


def test_type_variables():
    a, b = relay.TypeVar("a"), relay.TypeVar("b")
    x = relay.Var("x", a)
    f = relay.Function([x, relay.Var("y", b)], x, a, [a])
    assert set(analysis.all_type_vars(f)) == {a, b}
    assert analysis.bound_type_vars(f) == [a] and analysis.free_type_vars(f) == [b]


def test_well_formed_graphs_define_variables_once_and_use_them_inside():
    x, v = relay.var("x", shape=()), relay.Var("v")
    assert analysis.well_formed(relay.Let(v, x, v))
    assert not analysis.well_formed(relay.Let(v, x, relay.Let(v, x, v)))
    assert not analysis.well_formed(relay.Tuple([relay.Let(v, x, v), v]))


def test_multiplications_are_counted_by_hand():
    x, w = relay.var("x", shape=(1, 4, 8, 8)), relay.var("w", shape=(6, 4, 3, 3))
    c = relay.nn.conv2d(x, w, padding=(1, 1))
    d = relay.nn.dense(relay.nn.batch_flatten(c), relay.var("d", shape=(10, 384)))
    f = tvm.IRModule.from_expr(relay.Function(analysis.free_vars(d), d))
    f = relay.transform.InferType()(f)["main"]
    assert analysis.get_total_mac_number(f) == 6 * 8 * 8 * 4 * 9 + 10 * 384
    assert analysis.count_layers(f, ["nn.conv2d", "nn.dense"]) == 2
    assert analysis.count_layers(tvm.IRModule({"main": f}), ["nn.conv2d", "nn.dense"]) == 2


def test_operands_are_visited_first_and_once():
    x = relay.var("x", shape=(2,))
    y = relay.exp(x)
    seen = []
    analysis.post_order_visit(y + y, seen.append)
    names = [getattr(n, "name", type(n).__name__) for n in seen if not isinstance(n, relay.Call)]
    assert names.count("exp") == 1 and seen.index(x) < seen.index(y)


def test_fused_functions_and_calibration_data():
    x = relay.var("x", shape=(2,))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.exp(relay.nn.relu(x))))
    assert len(analysis.extract_fused_functions(mod)) == 1
    text = "def @f(%x: float32) -> float32 { negative(%x) } def @main(%x: float32) { @f(%x) }"
    called = relay.parse(text)
    got = analysis.get_calibration_data(called, {"x": 3.0})
    f = called.get_global_var("f")
    assert list(got) == [f] and got[f]["inputs"][0].numpy() == 3 and got[f]["outputs"][0].numpy() == -3


def test_one_expression_can_be_taken_out():
    x = relay.var("x", shape=(2, 3))
    part = relay.split(relay.nn.relu(x), indices_or_sections=1, axis=0)
    steps = [relay.nn.relu(x), part.astuple(), part[0], relay.Tuple([part[0], x])]
    steps.append(relay.concatenate(steps[-1], 0))
    mod = tvm.IRModule.from_expr(steps[-1])
    for number, wanted in enumerate(steps):
        taken = analysis.extract_intermediate_expr(mod, number)["main"].body
        assert structural_equal(taken, wanted, True), number
    with pytest.raises(ValueError, match="extract_intermdeiate_expr: expression 5 is out of range; @main has 5"):
        analysis.extract_intermediate_expr(mod, 5)


def test_a_call_graph_counts_who_names_whom():
    f, g, h = (relay.GlobalVar(n) for n in "fgh")
    x, y, z, w = (relay.var(n, shape=(2,)) for n in "xyzw")
    mod = tvm.IRModule({f: relay.Function([x], x + x), g: relay.Function([y], f(y) * f(y))})
    mod[h] = relay.Function([z], relay.If(relay.const(True), g(z), h(z)), z.type_annotation)
    mod["main"] = relay.Function([w], h(f(w)))
    graph = analysis.CallGraph(mod)
    assert [graph.ref_count(v) for v in (f, g, "h", "main")] == [2, 1, 2, 0]
    assert [graph.global_call_count(v) for v in (f, g, h, "main")] == [0, 1, 2, 2]
    assert [graph.is_recursive(v) for v in (f, g, h, "main")] == [False, False, True, False]
    assert graph.module is mod and "@g: #refs = 1, calls\n  @f" in str(graph)
    with pytest.raises(ValueError, match="no function 'k'"):
        graph.ref_count("k")


def test_functions_that_come_to_call_themselves_are_found_in_long_and_crossing_calls():
    """Functions call those of the next numbers, and two cycles share none of the functions between them."""
    names = [relay.GlobalVar(f"f{i}") for i in range(3000)]
    calls = {i: [i + 1] for i in range(2999)} | {2999: []}
    calls[20] += [10, 40]
    calls[31] += [30]
    calls[50] += [50]
    mod = tvm.IRModule()
    for i, called in calls.items():
        x = relay.var("x", shape=(2,))
        body = x
        for c in called:
            body = names[c](body)
        mod[names[i]] = relay.Function([x], body, x.type_annotation)
    expected = {*range(10, 21), 30, 31, 50}
    assert analysis.CallGraph(mod).recursive == {f"f{i}" for i in expected}


def test_unmatched_cases_are_patterns_of_what_is_left():
    mod = tvm.IRModule()
    relay.prelude.Prelude(mod)
    _, cons, nil = mod.get_type("List")
    v, any_ = relay.var("v"), relay.PatternWildcard()
    two = relay.PatternConstructor(cons, [any_, relay.PatternConstructor(cons, [any_, any_])])
    none = relay.PatternConstructor(nil, [])

    def left(*patterns):
        return analysis.unmatched_cases(relay.Match(v, [relay.Clause(p, v) for p in patterns]), mod)

    assert left(two, any_) == [] and isinstance(left()[0], relay.PatternWildcard)
    one, empty = left(two)
    assert one.constructor is cons and one.patterns[1].constructor is nil and empty.constructor is nil
    assert left(two, none, relay.PatternConstructor(cons, [any_, none])) == []
    pair = relay.PatternTuple([none, relay.PatternVar(v)])
    (case,) = left(pair)
    assert isinstance(case, relay.PatternTuple) and case.patterns[0].constructor is cons
    with pytest.raises(tvm.error.DiagnosticError, match="the data type of Nil is unknown; pass the module"):
        analysis.unmatched_cases(relay.Match(v, [relay.Clause(none, v)]))


def test_mutators_keep_the_names_of_functions():
    name = relay.GlobalVar("f")
    assert relay.ExprMutator().visit(name) is relay.ExprMutator().visit_global_id(name) is name


def test_variables_come_in_the_order_they_are_read():
    x, y, z, w = (relay.var(n) for n in "xyzw")
    inner = relay.Let(z, relay.Tuple([y, w]), relay.Tuple([z, x]))
    function = relay.Function([x, y], inner)
    assert analysis.bound_vars(function) == [x, y, z]
    assert analysis.all_vars(function) == [x, y, z, w]
    mod = tvm.IRModule()
    relay.prelude.Prelude(mod)
    _, cons, nil = mod.get_type("List")
    pair = relay.PatternConstructor(cons, [relay.PatternVar(x), relay.PatternVar(y)])
    match = relay.Match(nil(), [relay.Clause(relay.PatternWildcard(), z), relay.Clause(pair, w)])
    assert analysis.bound_vars(match) == [x, y] and analysis.all_vars(match) == [z, x, y, w]

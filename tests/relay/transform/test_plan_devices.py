"""Where expressions run: what a mark reaches, and where values are copied."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.relay import random_graphs
from tests.relay.two_devices import mark_at_random
from tvm import relay
from tvm.ir.visit import post_order
from tvm.relay.transform.plan_devices import plan_function

on = relay.annotation.on_device


def planned(body, default=1, params=None):
    """The planned function of an expression, and its copies as texts."""
    mod = relay.transform.InferType()(
        tvm.IRModule.from_expr(relay.Function(params or relay.analysis.free_vars(body), body))
    )
    plan = plan_function(mod["main"], default)
    assert not any(isinstance(n, relay.Call) and n.op.name == "on_device" for n in post_order(plan.function))
    copies = [n for n in post_order(plan.function) if isinstance(n, relay.Call) and n.op.name == "device_copy"]
    return plan, [f"{c.attrs.src_device} -> {c.attrs.dst_device}" for c in copies]


def variables(count, shape=(5, 7)):
    return [relay.var(name, shape=shape) for name in "abcd"[:count]]


def places(plan):
    """Device types of the operators in the order of execution, and of the parameters."""
    calls = [n for n in post_order(plan.function) if isinstance(n, relay.Call)]
    return [(n.op.name, plan.devices[id(n)]) for n in calls], [plan.devices[id(p)] for p in plan.function.params]


def test_a_mark_holds_for_the_operator_and_what_it_reads():
    a, b, c, d = variables(4)
    plan, copies = planned(on(a + b, tvm.opencl()) - (c + d), params=[a, b, c, d])
    assert copies == ["opencl(0) -> cpu(0)"]
    assert places(plan) == ([("add", 4), ("device_copy", 1), ("add", 1), ("subtract", 1)], [4, 4, 1, 1])
    plan, copies = planned(on(relay.exp(relay.tanh(a)), "opencl"))
    assert copies == [] and places(plan) == ([("tanh", 4), ("exp", 4)], [4]) and plan.used() == [4]


def test_what_no_mark_reaches_runs_on_the_default_device():
    a, b = variables(2)
    plan, copies = planned(relay.exp(on(relay.tanh(a), "cpu")) + b, default=2)
    assert copies == ["cpu(0) -> cuda(0)"]
    assert places(plan) == ([("tanh", 1), ("device_copy", 2), ("exp", 2), ("add", 2)], [1, 2])


def test_a_value_is_copied_once_for_all_readers_of_a_device():
    (a,) = variables(1)
    shared = on(relay.tanh(a), "cpu")
    body = on(relay.exp(shared), "opencl") + on(relay.sin(shared), "opencl") + shared
    plan, copies = planned(body)
    assert sorted(copies) == ["cpu(0) -> opencl(0)", "opencl(0) -> cpu(0)", "opencl(0) -> cpu(0)"]


def test_an_operator_whose_readers_disagree_runs_on_the_default_device():
    (a,) = variables(1)
    shared = relay.tanh(a)
    body = relay.Tuple([on(relay.exp(shared), "opencl"), on(relay.sin(shared), "cuda")])
    plan, copies = planned(body)
    assert sorted(copies) == ["cpu(0) -> cuda(0)", "cpu(0) -> opencl(0)"]
    assert list(plan.function.attrs["result_devices"]) == [4, 2]


def test_a_parameter_that_two_devices_read_lies_on_the_default_one():
    (a,) = variables(1)
    plan, copies = planned(on(relay.exp(a), "opencl") + on(relay.sin(a), "cpu"))
    assert sorted(copies) == ["cpu(0) -> opencl(0)", "opencl(0) -> cpu(0)"] and places(plan)[1] == [1]


def test_constants_are_not_copied():
    (a,) = variables(1)
    weight = relay.const(np.ones((5, 7), "float32"))
    _, copies = planned(on(a + weight, "opencl") * weight)
    assert copies == ["opencl(0) -> cpu(0)"]


def test_the_fields_of_a_tuple_are_copied_one_by_one():
    (a,) = variables(1, (4, 6))
    parts = relay.split(relay.exp(a), 2, 1)
    whole = on(relay.concatenate(on(parts.astuple(), "cpu"), 0), "opencl")
    assert planned(whole)[1] == ["cpu(0) -> opencl(0)"] * 2
    field = on(relay.tanh(on(parts[1], "cpu")), "opencl")
    assert planned(field)[1] == ["cpu(0) -> opencl(0)"]
    both = on(relay.concatenate([on(parts[0], "cpu"), relay.exp(parts[0])], 0), "opencl")
    assert planned(both)[1] == ["cpu(0) -> opencl(0)"]


def test_a_copy_that_is_written_out_stays_and_places_what_is_around_it():
    a, b = variables(2)
    copy = relay.op.device_copy(relay.exp(a), tvm.opencl(), tvm.cpu())
    plan, copies = planned(relay.tanh(copy) + b)
    assert copies == ["opencl(0) -> cpu(0)"]
    assert places(plan) == ([("exp", 4), ("device_copy", 1), ("tanh", 1), ("add", 1)], [4, 1])
    assert planned(relay.exp(relay.op.device_copy(a, "cpu", "cpu")))[1] == []


def test_a_mark_of_the_result_reaches_its_reader():
    (a,) = variables(1)
    plan, copies = planned(relay.exp(on(relay.tanh(a), "opencl", constrain_result=True)))
    assert copies == [] and plan.used() == [4]
    plan, copies = planned(relay.exp(on(relay.tanh(a), "opencl", constrain_result=True, constrain_body=False)))
    assert copies == [] and plan.used() == [4]


@pytest.mark.parametrize("case", range(20))
def test_planning_twice_changes_nothing_and_results_stay(case, seed):
    mod, values = random_graphs.graph(seed * 1000 + case)
    marked = mark_at_random(mod, np.random.default_rng([seed, case]), ("cpu", "opencl", "cuda"))
    once = relay.transform.PlanDevices(None)(marked)
    assert not random_graphs.close(random_graphs.interpret(once, values), random_graphs.interpret(mod, values))
    tvm.ir.assert_structural_equal(relay.transform.PlanDevices(None)(once), once)
    plan = plan_function(once["main"], 1)
    for node in post_order(plan.function.body):
        if isinstance(node, relay.Call) and node.op.name != "device_copy":
            operands = [n for n in node.args if id(n) in plan.devices]
            assert all(plan.devices[id(n)] == plan.devices[id(node)] for n in operands)


def test_a_tuple_is_copied_field_by_field():
    a, b = relay.var("a", shape=(2, 3)), relay.var("b", shape=(1, 3))
    body = relay.concatenate(on(relay.Tuple([relay.exp(a), relay.tanh(b)]), "opencl"), 0)
    mod = relay.transform.PlanDevices(None)(tvm.IRModule.from_expr(relay.Function([a, b], on(body, "cpu"))))
    copies = [n for n in post_order(mod["main"]) if isinstance(n, relay.Call) and n.op.name == "device_copy"]
    assert len(copies) == 2 and all(isinstance(n.checked_type, relay.TensorType) for n in copies)
    values = [np.full((2, 3), 0.5, "float32"), np.full((1, 3), 0.25, "float32")]
    (found,) = random_graphs.interpret(mod, values)
    np.testing.assert_allclose(found, np.concatenate([np.exp(values[0]), np.tanh(values[1])]), rtol=1e-6)


def test_wrong_marks_are_refused():
    (a,) = variables(1)
    with pytest.raises(tvm.TVMError, match=r"'cuda\(1\)': the device index must be 0"):
        planned(on(relay.exp(a), tvm.cuda(1)))
    with pytest.raises(ValueError, match="unknown device type 'moon'"):
        planned(on(relay.exp(a), "moon"))
    with pytest.raises(ValueError, match="'cuda and more' is not a device"):
        on(relay.exp(a), "cuda and more")
    branch = relay.If(relay.const(True), on(a, "cuda"), a)
    with pytest.raises(tvm.TVMError, match="unsupported expression If in the graph; graph executors support only"):
        planned(branch)
    config = tvm.target.make_compilation_config(tvm.transform.PassContext(), ["llvm"])
    mod = tvm.IRModule.from_expr(on(relay.exp(a), "cuda"))
    with pytest.raises(tvm.TVMError, match="no target of this build runs on devices of type 2"):
        relay.transform.PlanDevices(config)(mod)


def test_marks_name_devices_in_every_form():
    (a,) = variables(1)
    virtual = tvm.target.VirtualDevice(tvm.opencl(), "opencl")
    for device in ("opencl", "opencl:0", tvm.opencl(), 4, virtual, "cl"):
        assert planned(on(relay.exp(a), device))[0].used() == [4], device


def config_of(default):
    ctx = tvm.transform.PassContext(config={"relay.fallback_device_type": default})
    return tvm.target.make_compilation_config(ctx, ["llvm", "opencl"])


def test_planned_functions_say_where_their_parameters_and_results_lie():
    a, b, c = variables(3)
    mod = tvm.IRModule.from_expr(relay.Function([a, b, c], on(a + b, "cpu") * c))
    func = relay.transform.PlanDevices(config_of(4))(mod)["main"]
    assert [p.virtual_device_.device_type_int for p in func.params] == [1, 1, 4]
    assert func.virtual_device_.device_type_int == 4 and func.virtual_device_.target.kind.name == "opencl"
    assert func.attrs == {} and [p.virtual_device_ for p in (a, b, c)] == [None] * 3
    copy = func.body.args[0]
    assert copy.op.name == "device_copy" and copy.args[0].op.name == "on_device" and copy.args[0].attrs.constrain_result
    found = tvm.get_global_func("relay.transform.RecoverVirtualDeviceMap")(mod, func)
    assert {getattr(getattr(e, "op", e), "name", "?"): d.device_type for e, d in found.items()} == {
        "?": 4, "add": 1, "on_device": 1, "device_copy": 4, "multiply": 4,
    }  # fmt: skip


def test_places_of_parameters_and_results_in_text_hold():
    text = """
    def @main(%a {virtual_device=meta[VirtualDevice][0]}: Tensor[(5, 7), float32], %b: Tensor[(5, 7), float32],
              virtual_device=meta[VirtualDevice][1]) {
      %0 = exp(%a);
      %1 = device_copy(%0, src_virtual_device=meta[VirtualDevice][0], dst_virtual_device=meta[VirtualDevice][1]);
      %2 = add(%1, %b);
      negative(on_device(%2, virtual_device=meta[VirtualDevice][0]))
    }"""
    table = {"VirtualDevice": [tvm.target.VirtualDevice(tvm.opencl()), tvm.target.VirtualDevice(tvm.cpu())]}
    mod = relay.parse(text, "places", None, table)
    steps = [("exp", 4), ("device_copy", 1), ("device_copy", 4), ("add", 4), ("device_copy", 1), ("negative", 1)]
    assert places(plan_function(mod["main"], 2)) == (steps, [4, 4])
    with pytest.raises(tvm.error.DiagnosticError, match="virtual_device"):
        relay.parse("def @main(%a {device=1}: float32) { %a }")


def test_a_function_that_is_changed_keeps_the_place_of_its_results():
    (a,) = variables(1)
    func = relay.Function([a], relay.exp(a))
    func.virtual_device_ = place = tvm.target.VirtualDevice(tvm.opencl())
    assert func.replace(body=a).virtual_device_ is place
    assert func.map_children(lambda child: relay.tanh(child)).virtual_device_ is place


def test_marks_and_copies_have_virtual_devices():
    (a,) = variables(1)
    mark = on(a, "cuda")
    place = mark.attrs.virtual_device
    assert (place.device_type_int, place.virtual_device_id, place.target, place.memory_scope) == (2, 0, None, "")
    assert mark.attrs.constrain_body and not mark.attrs.constrain_result
    assert on(a, tvm.target.VirtualDevice(tvm.opencl(1))).attrs.virtual_device.virtual_device_id == 1
    copy = relay.device_copy(a, "cpu", tvm.cuda(0))
    assert copy.attrs.src_virtual_device.device_type_int == 1 and copy.attrs.dst_virtual_device.device_type_int == 2
    with pytest.raises(AttributeError, match="no attribute 'virtual_device'"):
        relay.nn.softmax(a).attrs.virtual_device
    for build in (lambda: on(a, "bogus"), lambda: relay.device_copy(a, "cpu", "bogus")):
        with pytest.raises(ValueError, match="unknown device type 'bogus'"):
            build()

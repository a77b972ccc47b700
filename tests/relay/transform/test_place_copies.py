"""PlanDevices beyond straight graphs: bindings, functions, data types, references and explicit memory."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.ir.visit import post_order

HOST = tvm.target.Target("llvm")
CPU_TARGET, GPU_TARGET = HOST.with_host(HOST), tvm.target.Target("cuda -arch=sm_80", host=HOST)
CPU, GPU = tvm.target.VirtualDevice(tvm.cpu(), CPU_TARGET), tvm.target.VirtualDevice(tvm.cuda(), GPU_TARGET)
SCOPE_A, SCOPE_B = (tvm.target.VirtualDevice(tvm.cpu(), CPU_TARGET, memory_scope=s) for s in ("scopeA", "scopeB"))
TABLE = {"VirtualDevice": [CPU, GPU, SCOPE_A, SCOPE_B], "relay.Constant": [relay.const(np.array([2, 3]), "int64")]}
T = "Tensor[(5, 7), float32]"


def parsed(text, base=None):
    """A module; ``@cpu``, ``@gpu``, ``@a`` and ``@b`` in braces stand for devices and T for a type of tensors."""
    for k, name in enumerate(("cpu", "gpu", "a", "b")):
        text = text.replace(f"<{name}>", f"virtual_device=meta[VirtualDevice][{k}]")
    text = text.replace("<cpu to gpu>", "src_virtual_device=meta[VirtualDevice][0],"
                        " dst_virtual_device=meta[VirtualDevice][1]")  # fmt: skip
    return relay.parse(re.sub(r"(: |-> |\()T\b", rf"\1{T}", text), "places", base, TABLE)


def config():
    ctx = tvm.transform.PassContext(config={"relay.fallback_device_type": 2})
    return tvm.target.make_compilation_config(ctx, [CPU_TARGET, GPU_TARGET])


def devices(mod):
    """The device types of parameters and results of all functions, in order."""
    found = []
    for _, func in sorted(mod.functions.items(), key=lambda item: item[0].name_hint):
        for node in post_order(func):
            if isinstance(node, relay.Function):
                places = [*(p.virtual_device_ for p in node.params), node.virtual_device_]
                found.append([(p.device_type_int, p.memory_scope) for p in places])
    return found


def check(text, expected, base=None):
    """The planned module is the expected one, and planning it again changes nothing."""
    wanted = parsed(expected, base)
    for source in (parsed(text, base), wanted):
        got = relay.transform.InferType()(relay.transform.PlanDevices(config())(source))
        tvm.ir.assert_structural_equal(got, wanted, True)
        assert devices(got) == devices(wanted)
    return got


def test_without_marks_everything_is_on_the_default_device():
    check("def @main(%x: T, %y: T) { multiply(exp(%x), %y) }",
          "def @main(%x {<gpu>}: T, %y {<gpu>}: T, <gpu>) { multiply(exp(%x), %y) }")  # fmt: skip


def test_each_mark_of_a_shared_value_has_its_own_copy():
    check("""def @main(%x: T) {
               %0 = exp(%x);
               multiply(on_device(%0, <cpu>), on_device(%0, <cpu>))
             }""",
          """def @main(%x {<cpu>}: T, <gpu>) {
               %0 = exp(%x);
               %1 = on_device(%0, <cpu>, constrain_result=True);
               %2 = on_device(%0, <cpu>, constrain_result=True);
               multiply(device_copy(%1, <cpu to gpu>), device_copy(%2, <cpu to gpu>))
             }""")  # fmt: skip


def test_the_uses_of_a_variable_place_its_value():
    check("""def @main(%x: T, %y: T) {
               let %a = exp(%x);
               let %b = tanh(%y);
               multiply(on_device(%a, <cpu>), %b)
             }""",
          """def @main(%x {<cpu>}: T, %y {<gpu>}: T, <gpu>) {
               let %a = on_device(exp(%x), <cpu>, constrain_result=True);
               let %b = on_device(tanh(%y), <gpu>, constrain_result=True);
               multiply(device_copy(%a, <cpu to gpu>), %b)
             }""")  # fmt: skip


def test_a_function_that_is_marked_inside_places_its_arguments_and_the_readers_of_its_result():
    check("""def @main(%x: T, %y: T) {
               let %f = fn (%a) { on_device(exp(%a), <cpu>) };
               multiply(%f(%x), %y)
             }""",
          """def @main(%x {<cpu>}: T, %y {<cpu>}: T, <cpu>) {
               let %f = fn (%a {<cpu>}, <cpu>) { exp(%a) };
               multiply(%f(%x), %y)
             }""")  # fmt: skip


def test_a_mark_of_a_call_places_the_function():
    check("""def @main(%x: T, %y: T) {
               let %f = fn (%a) { exp(%a) };
               multiply(on_device(%f(%x), <cpu>), %y)
             }""",
          """def @main(%x {<cpu>}: T, %y {<gpu>}: T, <gpu>) {
               let %f = fn (%a {<cpu>}, <cpu>) { exp(%a) };
               %0 = on_device(%f(%x), <cpu>, constrain_result=True);
               multiply(device_copy(%0, <cpu to gpu>), %y)
             }""")  # fmt: skip


def test_devices_follow_functions_of_functions():
    check("""def @main(%x: T, %y: T) {
               let %twice = fn (%g: fn (T) -> T) {
                 fn (%a: T) { add(%g(on_device(%a, <cpu>)), %x) }
               };
               let %h = fn (%b: T) { exp(%b) };
               %0 = %twice(%h);
               subtract(%x, %0(%y))
             }""",
          """def @main(%x {<gpu>}: T, %y {<cpu>}: T, <gpu>) {
               let %twice = fn (%g {<gpu>}: fn (T) -> T, <gpu>) {
                 fn (%a {<cpu>}: T, <gpu>) { add(%g(device_copy(%a, <cpu to gpu>)), %x) }
               };
               let %h = fn (%b {<gpu>}: T, <gpu>) { exp(%b) };
               %0 = %twice(%h);
               subtract(%x, %0(%y))
             }""")  # fmt: skip


def test_a_function_in_a_tuple_is_on_the_device_of_the_tuple():
    check("""def @main(%x: T, %y: T) {
               let %f = fn (%a: T, %b: T) { multiply(%a, on_device(%b, <cpu>)) };
               let %t = (%f, %x);
               %0 = %t.0;
               %0(%t.1, %y)
             }""",
          """def @main(%x {<cpu>}: T, %y {<cpu>}: T, <cpu>) {
               let %f = fn (%a {<cpu>}: T, %b {<cpu>}: T, <cpu>) { multiply(%a, %b) };
               let %t = on_device((%f, %x), <cpu>, constrain_result=True);
               %0 = %t.0;
               %0(%t.1, %y)
             }""")  # fmt: skip


def test_both_branches_and_the_condition_are_on_one_device():
    check("""def @main(%x: bool, %y: T, %z: T) {
               let %f = fn (%a: T) { add(%a, on_device(%y, <cpu>, constrain_result=True)) };
               let %g = fn (%b: T) { subtract(%b, %y) };
               let %h = if (%x) { %f } else { %g };
               %h(%z)
             }""",
          """def @main(%x {<cpu>}: bool, %y {<cpu>}: T, %z {<cpu>}: T, <cpu>) {
               let %f = fn (%a {<cpu>}: T, <cpu>) { add(%a, %y) };
               let %g = fn (%b {<cpu>}: T, <cpu>) { subtract(%b, %y) };
               let %h = on_device(if (%x) { %f } else { %g }, <cpu>, constrain_result=True);
               %h(%z)
             }""")  # fmt: skip


def test_devices_of_a_global_function_reach_its_callers():
    check("""def @f(%a: T, %b: T) -> T { add(%a, on_device(%b, <cpu>)) }
             def @main(%x: T, %y: T) -> T { @f(%y, %x) }""",
          """def @f(%a {<gpu>}: T, %b {<cpu>}: T, <gpu>) -> T { add(%a, device_copy(%b, <cpu to gpu>)) }
             def @main(%x {<cpu>}: T, %y {<gpu>}: T, <gpu>) -> T { @f(%y, %x) }""")  # fmt: skip


def test_what_a_reference_holds_is_on_its_device():
    check("""def @main(%x: T, %y: T) {
               let %r = ref(%x);
               ref_write(%r, on_device(%y, <cpu>));
               add(%x, ref_read(%r))
             }""",
          """def @main(%x {<gpu>}: T, %y {<cpu>}: T, <gpu>) {
               let %r = on_device(ref(%x), <gpu>, constrain_result=True);
               on_device(ref_write(%r, device_copy(%y, <cpu to gpu>)), <gpu>, constrain_result=True);
               add(%x, ref_read(%r))
             }""")  # fmt: skip


def test_all_fields_of_a_data_type_are_on_one_device():
    kind = "type Tree[A] { Node(A, Tree[A]), Leaf, }\n"
    check(kind + """def @main(%x: T, %y: T) {
               %0 = Node(on_device(%y, <cpu>, constrain_result=True), Leaf);
               let %t = Node(%x, %0);
               match? (%t) { Node(%z, _) => exp(%z) }
             }""",
          kind + """def @main(%x {<cpu>}: T, %y {<cpu>}: T, <cpu>) {
               %0 = Node(%y, Leaf);
               let %t = on_device(Node(%x, %0), <cpu>, constrain_result=True);
               match? (%t) { Node(%z, _) => exp(%z) }
             }""")  # fmt: skip


def test_the_field_of_a_marked_tuple_is_copied_and_not_the_tuple():
    check("""def @main(%x: Tensor[(4, 6), float32]) {
               let %t = split(%x, indices_or_sections=2);
               %0 = on_device(%t, <cpu>);
               on_device(exp(%0.1), <gpu>)
             }""",
          """def @main(%x {<cpu>}: Tensor[(4, 6), float32], <gpu>) {
               let %t = on_device(split(%x, indices_or_sections=2), <cpu>, constrain_result=True);
               %0 = on_device(%t.1, <cpu>, constrain_result=True);
               exp(device_copy(%0, <cpu to gpu>))
             }""")  # fmt: skip


def test_a_free_mark_is_where_a_copy_between_memories_may_be():
    check("""def @f(%x {<b>}: T, <b>) -> T { %x }
             def @main(%p {<cpu>}: T, %q {<a>}: T, <a>) {
               %0 = @f(on_device(%p, <cpu>, constrain_body=False));
               %1 = @f(on_device(%q, <cpu>, constrain_body=False));
               on_device(add(%0, %1), <cpu>, constrain_body=False)
             }""",
          """def @f(%x {<b>}: T, <b>) -> T { %x }
             def @main(%p {<b>}: T, %q {<a>}: T, <a>) {
               %0 = @f(%p);
               %1 = @f(device_copy(%q, src_virtual_device=meta[VirtualDevice][2],
                                   dst_virtual_device=meta[VirtualDevice][3]));
               device_copy(on_device(add(%0, %1), <b>, constrain_result=True),
                           src_virtual_device=meta[VirtualDevice][3], dst_virtual_device=meta[VirtualDevice][2])
             }""")  # fmt: skip


@pytest.mark.parametrize(
    "before, after",
    [
        ("def @main(%x: Tensor[(?, ?), float32]) { vm.shape_of(on_device(%x, <gpu>, constrain_result=True)) }",
         "def @main(%x {<gpu>}: Tensor[(?, ?), float32], <cpu>) { vm.shape_of(%x) }"),
        ("def @main(%n: int64, %m: int64) { memory.alloc_storage(%n, %m, <gpu>) }",
         "def @main(%n {<cpu>}: int64, %m {<cpu>}: int64, <gpu>) { memory.alloc_storage(%n, %m, <gpu>) }"),
        ("""def @main(%s: Storage[]) {
              memory.alloc_tensor(%s, 0, meta[relay.Constant][0], const_shape=meta[relay.Constant][0], assert_shape=[])
            }""",
         """def @main(%s {<gpu>}: Storage[], <gpu>) {
              %0 = on_device(0, <cpu>, constrain_result=True);
              %1 = on_device(meta[relay.Constant][0], <cpu>, constrain_result=True);
              memory.alloc_tensor(%s, %0, %1, const_shape=meta[relay.Constant][0], assert_shape=[])
            }"""),
        ("""def @main(%x: Tensor[(6), float32]) {
              vm.reshape_tensor(%x, meta[relay.Constant][0], newshape=[2, 3])
            }""",
         """def @main(%x {<gpu>}: Tensor[(6), float32], <gpu>) {
              %0 = on_device(meta[relay.Constant][0], <cpu>, constrain_result=True);
              vm.reshape_tensor(%x, %0, newshape=[2, 3])
            }"""),
    ],
    ids=["shape_of", "alloc_storage", "alloc_tensor", "reshape_tensor"],
)  # fmt: skip
def test_sizes_and_shapes_are_on_the_host(before, after):
    core = tvm.IRModule()
    core.import_from_std("core.rly")
    check(before, after, core)


def test_a_fused_function_is_one_operator():
    a, b = relay.var("a", shape=(2,)), relay.var("b", shape=(2,))
    fused = relay.Function([a, b], relay.exp(a) + b).with_attr("Primitive", 1)
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    body = relay.Call(fused, [relay.annotation.on_device(relay.tanh(x), "cpu"), y])
    mod = relay.transform.PlanDevices(config())(tvm.IRModule.from_expr(relay.Function([x, y], body)))
    assert [p.virtual_device_.device_type_int for p in mod["main"].params] == [1, 2]
    assert mod["main"].body.args[0].op.name == "device_copy"
    assert [p.virtual_device_ for p in mod["main"].body.op.params] == [None, None]
    assert mod["main"].body.op.body.op.name == "add"


def rejected(text, message):
    with pytest.raises(tvm.TVMError, match=message):
        relay.transform.PlanDevices(config())(parsed(text))


def test_contradictions_that_no_copy_resolves_are_rejected():
    rejected("def @f(%a {<a>}: T, <b>) -> T { %a }\ndef @main(%x: T) -> T { @f(%x) }",
             r"the result of a function is required on cpu\(0\) \(scopeA\) and on cpu\(0\) \(scopeB\)")  # fmt: skip
    rejected("""def @main(%x: T) {
                  let %f = fn (%r {<gpu>}: ref(T), <gpu>) { ref_read(%r) };
                  let %q = on_device(ref(%x), <cpu>);
                  %f(%q)
                }""", r"type ref.* on cpu\(0\) is used on cuda\(0\); only tensors can be copied")  # fmt: skip


def test_all_expressions_of_a_planned_function_have_a_device():
    mod = parsed("""def @main(%x {<cpu>}: T, %y {<gpu>}: T, <gpu>) {
                      let %a = on_device(exp(%x), <cpu>, constrain_result=True);
                      multiply(device_copy(%a, <cpu to gpu>), %y)
                    }""")
    found = tvm.get_global_func("relay.transform.RecoverVirtualDeviceMap")(mod, mod["main"])
    names = {getattr(e, "name_hint", None) or getattr(getattr(e, "op", e), "name", type(e).__name__): d.device_type
             for e, d in found.items()}  # fmt: skip
    assert names == {"x": 1, "y": 2, "a": 1, "exp": 1, "on_device": 1, "device_copy": 2, "multiply": 2, "Let": 2,
                     "Function": 2}  # fmt: skip


def test_the_devices_of_a_planned_function_are_found_by_the_numbers_of_its_expressions():
    mod = parsed("def @main(%x: T, %y: T) { multiply(on_device(exp(%x), <cpu>), %y) }")
    planned = relay.transform.CapturePostDfsIndexInSpans()(relay.transform.PlanDevices(config())(mod))
    assert devices(planned) == [[(1, ""), (2, ""), (2, "")]]
    found = tvm.get_global_func("relay.transform.RecoverVirtualDeviceMap")(planned, planned["main"])
    # The operators are 2 to 5; exp, on_device, device_copy, multiply and the function follow.
    assert {e.span.line: d.device_type for e, d in found.items()} == {0: 1, 1: 2, 6: 1, 7: 1, 8: 2, 9: 2, 10: 2}

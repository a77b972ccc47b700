"""relay.vm: programs with control flow, closures and data, compiled."""

from __future__ import annotations

import time

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.error import TVMError
from tvm.runtime import vm
from tvm.runtime.container import ADT
from tvm.runtime.profiler_vm import VirtualMachineProfiler


def machine(program, **options) -> vm.VirtualMachine:
    mod = relay.parse(program) if isinstance(program, str) else program
    return vm.VirtualMachine(relay.vm.compile(mod, "llvm", **options), tvm.cpu())


def with_prelude(text: str) -> tvm.IRModule:
    mod = tvm.IRModule()
    mod.import_from_std("prelude.rly")
    return relay.parse(text, init_module=mod)


def test_a_straight_model_is_compiled_as_for_the_graph_executor(rng):
    x, w = relay.var("x", shape=(4, 8)), relay.var("w", shape=(16, 8))
    body = relay.nn.relu(relay.nn.dense(x, w)) + relay.const(1.0)
    mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.Tuple([body, relay.reshape(body, (64,))])))
    a, b = rng.random((4, 8), dtype="float32"), rng.random((16, 8), dtype="float32")
    exe = relay.vm.compile(mod, "llvm", params={"w": b})
    graph = relay.build(mod, "llvm", params={"w": b})
    assert sorted(exe.primitive_ops) == sorted({k.name for k in graph.kernels})
    got, flat = vm.VirtualMachine(exe, tvm.cpu()).run(a)
    np.testing.assert_allclose(got.numpy(), np.maximum(a @ b.T, 0) + 1, rtol=1e-5)
    np.testing.assert_array_equal(flat.numpy(), got.numpy().reshape(-1))


@pytest.mark.parametrize("way", ["machine", "module"])
def test_code_is_brought_into_memory_for_the_first_machine(way):
    x = relay.var("x", shape=(relay.Any(),))
    exe = relay.vm.compile(tvm.IRModule.from_expr(relay.Function([x], relay.exp(x) + x)), "llvm")
    assert not exe.lib._loaded
    if way == "machine":
        result = vm.VirtualMachine(exe, tvm.cpu()).run(np.zeros(3, "float32"))
    else:
        run = exe.mod["vm_load_executable"]()
        run["init"](tvm.cpu().device_type, 0, vm.VirtualMachine.POOLED_ALLOCATOR)
        run["set_input"]("main", tvm.nd.array(np.zeros(3, "float32")))
        result = run["invoke"]("main")
    assert exe.lib._loaded
    np.testing.assert_array_equal(result.numpy(), np.ones(3))


def test_lists_are_mapped_folded_and_zipped():
    mod = with_prelude("""
    def @main(%xs: List[Tensor[(2), float32]], %ys: List[Tensor[(2), float32]], %zero: Tensor[(2), float32]) {
      let %twice = @map(fn (%x: Tensor[(2), float32]) { %x * 2f }, %xs);
      let %sum = @foldl(fn (%a: Tensor[(2), float32], %p: (Tensor[(2), float32], Tensor[(2), float32])) {
        %a + %p.0 * %p.1 }, %zero, @zip(%xs, %ys));
      (%twice, %sum)
    }
    """)

    def cons(values):
        made = ADT(1)
        for v in reversed(values):
            made = ADT(0, [np.array([v, v + 1], "float32"), made])
        return made

    twice, total = machine(mod).run(cons([1, 2, 3]), cons([10, 20]), np.zeros(2, "float32"))
    found = []
    while len(twice):
        found.append(twice[0].numpy().tolist())
        twice = twice[1]
    assert found == [[2, 4], [4, 6], [6, 8]]
    assert total.numpy().tolist() == [1 * 10 + 2 * 20, 2 * 11 + 3 * 21]


def test_lists_are_as_long_as_memory_allows_and_are_freed_in_linear_time():
    mod = with_prelude("""
    def @count(%n: int32, %so_far: List[int32]) -> List[int32] {
      if (%n == 0) { %so_far } else { @count(%n - 1, Cons(%n, %so_far)) }
    }
    def @main(%n: int32) { @sum(@map(fn (%x: int32) { %x * 2 }, @count(%n, Nil))) }
    """)
    run = machine(mod)
    assert run.run(10000).numpy() == 10000 * 10001
    begin = time.process_time()
    del run
    # Searching all free blocks for each of them took nine seconds.
    assert time.process_time() - begin < 1


def test_functions_call_each_other():
    text = """
    def @even(%n: int32) -> bool { if (%n == 0) { True } else { @odd(%n - 1) } }
    def @odd(%n: int32) -> bool { if (%n == 0) { False } else { @even(%n - 1) } }
    def @main(%n: int32) { @even(%n) }
    """
    run = machine(text)
    assert [bool(run.run(n).numpy()) for n in (0, 1, 10, 10001)] == [True, False, True, False]


def test_a_local_function_calls_itself_and_sees_what_is_around_it():
    text = """
    def @main(%start: int32, %step: Tensor[(3), float32]) {
      let %again = fn (%n: int32, %x: Tensor[(3), float32]) -> Tensor[(3), float32] {
        if (%n == 0) { %x } else { %again(%n - 1, %x + %step) }
      };
      %again(%start, %step)
    }
    """
    run = machine(text)
    got = run.run(10000, np.array([1, 2, 3], "float32")).numpy()
    np.testing.assert_array_equal(got, np.array([1, 2, 3], "float32") * 10001)
    # Every step takes over the frame and the memory of the one before.
    assert run.module["get_memory"]() < 4096


@pytest.mark.parametrize("level", [0, 3])
def test_closures_are_values(level):
    text = """
    def @add(%x: float32) -> fn (float32) -> float32 { fn (%y: float32) -> float32 { %x + %y } }
    def @twice(%f: fn (float32) -> float32) -> fn (float32) -> float32 { fn (%z: float32) -> float32 { %f(%f(%z)) } }
    def @main(%c: bool, %x: float32) {
      let %f = if (%c) { @add(%x) } else { @twice(@add(%x)) };
      (%f(1f), @twice(%f)(1f), %f)
    }
    """
    with tvm.transform.PassContext(opt_level=level):
        run = machine(text)
    one, two, function = run.run(True, np.float32(10))
    assert (one.numpy(), two.numpy()) == (11, 21) and isinstance(function, vm.Closure)
    one, two, _ = run.run(False, np.float32(10))
    assert (one.numpy(), two.numpy()) == (21, 41)


def test_constructors_and_functions_of_the_module_are_values():
    mod = with_prelude("""
    type Box { Empty, Full(int32), }
    def @double(%x: int32) -> int32 { %x * 2 }
    def @apply(%f: fn (int32) -> int32, %x: int32) -> int32 { %f(%x) }
    def @main(%x: int32) { (@apply(@double, %x), @map(Full, Cons(%x, Nil))) }
    """)
    doubled, boxes = machine(mod).run(4)
    assert doubled.numpy() == 8
    tags = [mod.get_type(name)[number].tag for name, number in (("List", 1), ("Box", 2))]
    assert [boxes.tag, boxes[0].tag] == tags and boxes[0][0].numpy() == 4


def test_patterns_nest_and_the_first_that_fits_counts():
    mod = with_prelude("""
    def @main(%a: (int32, List[Option[int32]])) {
      match? (%a) {
        (%n, Cons(Some(%x), Cons(None, _))) => %n + %x,
        (%n, Cons(Some(%x), _)) => %n * %x,
        (_, Cons(_, %rest)) => 0 - 1,
      }
    }
    """)
    run = machine(mod)

    def some(x):
        return ADT(0, [x])

    none, nil = ADT(1), ADT(1)
    assert run.run((5, ADT(0, [some(3), ADT(0, [none, nil])]))).numpy() == 8
    assert run.run((5, ADT(0, [some(3), nil]))).numpy() == 15
    assert run.run((5, ADT(0, [none, nil]))).numpy() == -1
    with pytest.raises(TVMError, match="no clause of a match expression matches"):
        run.run((5, nil))


def test_tuples_of_tuples_are_arguments_and_results():
    pair = relay.TupleType([relay.TensorType((2,)), relay.TensorType((2,))])
    t = relay.Var("t", relay.TupleType([pair, relay.TensorType((2,))]))
    inner = relay.TupleGetItem(t, 0)
    body = relay.Tuple([relay.concatenate(inner, axis=0), relay.Tuple([relay.TupleGetItem(inner, 1), t])])
    a, b, c = (np.array([k, k + 1], "float32") for k in (1, 3, 5))
    joined, (second, whole) = machine(tvm.IRModule.from_expr(relay.Function([t], body))).run(((a, b), c))
    assert joined.numpy().tolist() == [1, 2, 3, 4] and second.numpy().tolist() == [3, 4]
    assert whole[0][0].numpy().tolist() == [1, 2] and whole[1].numpy().tolist() == [5, 6]


def test_a_loop_as_relay_builds_it(rng):
    i, x = relay.var("i", shape=(), dtype="int32"), relay.var("x", shape=(2, 4))
    w = rng.random((4, 4), dtype="float32")
    loop = relay.loops.while_loop(
        lambda i, x: relay.less(i, relay.const(5)), [i, x],
        lambda i, x: (i + relay.const(1), relay.tanh(relay.nn.dense(x, relay.const(w)))),
    )  # fmt: skip
    start = relay.var("start", shape=(2, 4))
    result = relay.TupleGetItem(loop(relay.const(0), start), 1)
    run = machine(tvm.IRModule.from_expr(relay.Function([start], result)))
    want = value = rng.random((2, 4), dtype="float32")
    for _ in range(5):
        want = np.tanh(want @ w.T)
    np.testing.assert_allclose(run.run(value).numpy(), want, rtol=1e-5, atol=1e-6)


def test_a_module_without_main_has_an_entry_for_each_function():
    run = machine("def @f(%x: int32) -> int32 { %x + 1 }\ndef @g(%x: int32) -> int32 { @f(%x) * 2 }")
    assert run.invoke("f", 4).numpy() == 5 and run.invoke("g", 4).numpy() == 10


def test_kernels_with_a_name_are_called_as_such():
    x = relay.var("x", shape=(3,))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], relay.exp(x) + x)))
    named = relay.transform.ToANormalForm()(relay.transform.FuseOps(0)(mod))
    inlined = relay.transform.InlinePrimitives()(named)
    assert "let" in str(named) and len(str(inlined)) <= len(str(named))
    value = np.array([0, 1, 2], "float32")
    np.testing.assert_allclose(machine(named).run(value).numpy(), np.exp(value) + value, rtol=1e-5)


def test_functions_that_were_lifted_before_are_lifted_again():
    text = """
    def @main(%n: int32, %x: Tensor[(2), float32]) {
      let %again = fn (%i: int32, %s: Tensor[(2), float32]) -> Tensor[(2), float32] {
        let %more = fn (%y: Tensor[(2), float32]) -> Tensor[(2), float32] { %y + %x };
        if (%i == %n) { %s } else { %again(%i + 1, %more(%s)) }
      };
      %again(0, %x)
    }
    """
    mod = relay.transform.InferType()(relay.parse(text))
    lifted = relay.transform.LambdaLift()(mod)
    again = relay.transform.LambdaLift()(lifted)
    value = np.array([1, 2], "float32")
    for one in (mod, lifted, again):
        assert machine(one).run(3, value).numpy().tolist() == [4, 8]


def test_functions_for_another_compiler_are_functions_like_any_other():
    x, y = relay.var("x", shape=(3,)), relay.var("y", shape=(3,))
    inner = relay.Function([y], relay.exp(y)).with_attr("Composite", "other.exp")
    outer = relay.Function([x], inner(x) + x).with_attr("Compiler", "other").with_attr("Primitive", 1)
    mod = tvm.IRModule({"other_0": outer.with_attr("global_symbol", "other_0")})
    z = relay.var("z", shape=(3,))
    mod["main"] = relay.Function([z], relay.If(relay.sum(z) > relay.const(1.0), mod.get_global_var("other_0")(z), z))
    with pytest.warns(UserWarning, match="no code generator is registered for 'other'"):
        run = machine(mod)
    for value in (np.zeros(3, "float32"), np.ones(3, "float32")):
        want = np.exp(value) + value if value.sum() > 1 else value
        np.testing.assert_allclose(run.run(value).numpy(), want, rtol=1e-6)


def test_what_is_not_needed_is_not_computed():
    text = """
    def @main(%c: bool, %x: Tensor[(3), float32]) {
      let %unused = exp(%x);
      let %once = tanh(%x);
      if (%c) { %once } else { %x }
    }
    """
    exe = relay.vm.compile(relay.parse(text), "llvm")
    assert not any("exp" in name for name in exe.primitive_ops)


def test_an_exported_program_runs_from_its_file(tmp_path):
    text = """
    def @down(%n: int32, %x: Tensor[(3), float32]) -> Tensor[(3), float32] {
      if (%n == 0) { %x } else { @down(%n - 1, %x + 2f) }
    }
    def @main(%n: int32, %zero: Tensor[(3), float32]) { @down(%n, %zero) }
    """
    exe = relay.vm.compile(relay.parse(text), "llvm", params={"zero": np.zeros(3, "float32")})
    exe.mod.export_library(tmp_path / "lib.so")
    loaded = tvm.runtime.load_module(str(tmp_path / "lib.so"))
    assert loaded.type_key == "VMExecutable"
    kept = vm.VirtualMachine(loaded, tvm.cpu()).run(4)
    del loaded
    assert kept.numpy().tolist() == [8, 8, 8]
    code, lib = exe.save()
    lib.export_library(tmp_path / "kernels.so")
    again = vm.Executable.load_exec(bytes(code), tvm.runtime.load_module(str(tmp_path / "kernels.so")))
    assert vm.VirtualMachine(again, tvm.cpu()).run(2).numpy().tolist() == [4, 4, 4]


def test_the_profiler_counts_the_kernels_of_all_steps():
    text = """
    def @down(%n: int32) -> int32 { if (%n == 0) { %n } else { @down(%n - 1) } }
    def @main(%n: int32) { @down(%n) }
    """
    run = VirtualMachineProfiler(relay.vm.compile(relay.parse(text), "llvm"), tvm.cpu())
    calls = run.profile(5).calls
    assert sum("subtract" in c["Name"] for c in calls) == 5 and sum("equal" in c["Name"] for c in calls) == 6


def test_the_compiler_works_step_by_step():
    x, w = relay.var("x", shape=(2,)), relay.var("w", shape=(2,))
    mod = tvm.IRModule.from_expr(relay.Function([x, w], x * w))
    compiler = relay.vm.VMCompiler()
    with pytest.raises(TVMError, match="no module has been lowered"):
        compiler.codegen()
    with pytest.raises(TVMError, match="call lower and codegen first"):
        compiler.get_exec()
    compiler.set_params({"w": np.array([3, 4], "float32")})
    assert list(compiler.get_params()) == ["w"]
    compiler.lower(mod, "llvm")
    compiler.codegen()
    run = vm.VirtualMachine(compiler.get_exec(), tvm.cpu())
    assert run.run(np.array([1, 2], "float32")).numpy().tolist() == [3, 8]
    optimized, params = relay.vm.optimize(mod, "llvm", params={"w": np.array([3, 4], "float32")})
    assert len(optimized["main"].params) == 1 and list(params) == ["w"]


def test_what_is_no_module_is_refused_in_words():
    with pytest.raises(TVMError, match="expected an IRModule, got str"):
        relay.vm.compile("def @main", "llvm")


@pytest.mark.parametrize("held", [lambda bits: bits, tvm.nd.array, lambda bits: np.stack([bits, bits])[1]])
def test_uint16_is_the_bits_of_a_bfloat16_input(held):
    x = relay.var("x", shape=(2, 3), dtype="bfloat16")
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.cast(x + x, "float32")))
    values = np.array([[1.5, -2.25, 3.0], [0.0, 1024.0, -0.5]], "float32")
    bits = (values.view("uint32") >> 16).astype("uint16")
    taken = machine(mod)
    np.testing.assert_array_equal(taken.run(held(bits)).numpy(), 2 * values)
    taken.set_one_input("main", "x", held(bits))
    np.testing.assert_array_equal(taken.run().numpy(), 2 * values)
    with pytest.raises(TVMError, match="has elements of type int16, but the model expects bfloat16"):
        taken.run(bits.view("int16"))

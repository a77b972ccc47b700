"""relay.vm: functions that end with a call of themselves run in one frame, and compute what is fixed once."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tvm
from tests.relay.random_programs import plain, shapes
from tvm import relay
from tvm.runtime.container import ADT
from tvm.runtime.vm import VirtualMachine


def parsed(text):
    return relay.parse('#[version = "0.0.5"]\n' + text)


def compiled(mod):
    exe = relay.vm.compile(mod, "llvm")
    return exe, VirtualMachine(exe, tvm.cpu())


def check(text, *cases):
    """The machine computes what the interpreter does; the bytecode of each function by its name."""
    mod = parsed(text)
    exe, machine = compiled(mod)
    debug = relay.create_executor("debug", mod).evaluate()
    for case in cases:
        got, want = machine.run(*case), debug(*case)
        assert shapes(got) == shapes(want) and plain(got) == plain(want)
    return {part.split("(")[0]: part for part in re.split(r"VM Function\[\d+\]: ", exe.bytecode)[1:]}


def numbers(*shape):
    return (np.arange(np.prod(shape, dtype=int)).reshape(shape) * 7 % 11 - 4).astype("int32")


@pytest.mark.parametrize("again", [
    "%b, %c, %a", "%b, %a, %c", "%c, %c, %a", "%a, %a, %a", "%b, %c, add(%a, %b)", "%a, add(%a, %c), %b",
    "7, %a, 7", "%c, add(%b, 1), %a",
])  # fmt: skip
def test_arguments_take_the_places_of_parameters_at_once(again):
    code = check(f"""
    def @f(%n: int32, %a: int32, %b: int32, %c: int32) -> (int32, int32, int32) {{
      if (greater(%n, 0)) {{ @f(subtract(%n, 1), {again}) }} else {{ (%a, %b, %c) }}
    }}
    def @main(%n: int32, %a: int32, %b: int32, %c: int32) {{ @f(%n, %a, %b, %c) }}
    """, *[(n, 1, 20, 300) for n in range(5)])  # fmt: skip
    assert "goto" in code["f"] and "invoke dst" not in code["f"]


def test_a_function_calls_itself_at_its_end_and_elsewhere():
    """Each call that is no jump has registers of its own."""
    text = """
    def @ackermann(%m: int32, %n: int32) -> int32 {
      if (equal(%m, 0)) { add(%n, 1) } else {
        if (equal(%n, 0)) { @ackermann(subtract(%m, 1), 1) } else {
          @ackermann(subtract(%m, 1), @ackermann(%m, subtract(%n, 1)))
        }
      }
    }
    def @main(%m: int32, %n: int32) -> int32 { @ackermann(%m, %n) }
    """
    code = check(text, (0, 3), (1, 2), (2, 3))["ackermann"]
    assert code.count("goto") == 2 and code.count("invoke dst") == 1


LOOP = """
def @loop(%i: int32, %h: Tensor[(?, 3), int32], %x: Tensor[(?, 3), int32]) -> Tensor[(?, 3), int32] {{
  if (greater(%i, 0)) {{ {step} @loop(subtract(%i, 1), %9, %x) }} else {{ %h }}
}}
def @main(%i: int32, %h: Tensor[(?, 3), int32], %x: Tensor[(?, 3), int32]) -> Tensor[(?, 3), int32] {{
  {call}
}}
"""
CALL = "@loop(%i, add(%x, %h), %x)"


def written(step, call=CALL):
    return LOOP.format(step=step, call=call)


def test_shapes_that_steps_do_not_change_are_computed_once():
    step = "%1 = concatenate((%h, %x), axis=0); %2 = multiply(%1, %1); %9 = add(sum(%2, axis=[0], keepdims=True), %h);"
    cases = [(n, numbers(rows, 3), numbers(rows, 3)) for rows in (1, 4) for n in (0, 1, 3)]
    code = check(written(step), *cases)["loop"]
    once = code[code.index("shape_of") : code.index("load_consti", code.index("shape_of"))]
    assert once.count("shape_func") == code.count("shape_func") == 1
    assert code.count("shape_of") == once.count("shape_of")


def test_shapes_that_steps_change_are_computed_in_each():
    step = "%1 = concatenate((%h, %x), axis=0); %9 = multiply(%1, %1);"
    cases = [(n, numbers(rows, 3), numbers(rows, 3)) for rows in (1, 4) for n in (0, 1, 3)]
    check(written(step), *cases)


def test_a_branch_of_a_step_computes_its_shapes_when_it_is_first_taken():
    step = """%9 = if (equal(%i, 2)) { add(%h, sum(concatenate((%h, %x), axis=0), axis=[0], keepdims=True)) }
              else { if (equal(%i, 1)) { multiply(%h, %x) } else { subtract(%x, %h) } };"""
    check(written(step), *[(n, numbers(rows, 3), numbers(rows, 3)) for rows in (1, 4) for n in range(6)])


def test_a_loop_refuses_sizes_in_its_first_step():
    """Sizes that contradict its operators, which a loop of no steps has not looked at."""
    text = """
    def @loop(%i: int32, %h: Tensor[(?, ?), int32], %x: Tensor[(?, ?), int32]) -> Tensor[(?, ?), int32] {
      if (greater(%i, 0)) {
        %1 = sum(concatenate((%h, %x), axis=1), axis=[1], keepdims=True); @loop(subtract(%i, 1), add(%h, %1), %x)
      } else { %h }
    }
    def @main(%i: int32, %h: Tensor[(?, ?), int32], %x: Tensor[(?, ?), int32]) { @loop(%i, %h, %x) }
    """
    check(text, (3, numbers(2, 3), numbers(2, 1)), (0, numbers(2, 3), numbers(5, 1)))
    _, machine = compiled(parsed(text))
    with pytest.raises(tvm.TVMError, match="concatenate"):
        machine.run(1, numbers(2, 3), numbers(5, 1))


def test_a_loop_is_called_with_other_sizes_again():
    """What is fixed in one call of a loop is not in the next."""
    step = "%1 = concatenate((%h, %x), axis=0); %9 = add(sum(multiply(%1, %1), axis=[0], keepdims=True), %h);"
    call = f"%0 = {CALL}; %1 = concatenate((%x, %h), axis=0); add(sum(%0, axis=[0]), sum(@loop(%i, %1, %1), axis=[0]))"
    text = written(step, call).replace("-> Tensor[(?, 3), int32] {\n  %0", "{\n  %0")
    check(text, *[(n, numbers(rows, 3), numbers(rows, 3)) for rows in (1, 4) for n in (0, 1, 3)])


def test_memory_does_not_follow_the_number_of_steps():
    step = "%1 = concatenate((%h, %x), axis=0); %2 = multiply(%1, %1); %9 = add(sum(%2, axis=[0], keepdims=True), %h);"
    used = []
    for steps in (2, 50, 400):
        _, machine = compiled(parsed(written(step)))
        machine.run(steps, numbers(300, 3), numbers(300, 3))
        used.append(machine.module["get_memory"]())
    assert used[0] == used[1] == used[2]


def test_a_closure_that_calls_itself_at_its_end_jumps():
    code = check("""
    def @main(%n: int32, %x: Tensor[(?), int32]) {
      let %loop = fn (%i: int32, %s: Tensor[(?), int32]) -> Tensor[(?), int32] {
        if (less(%i, %n)) { %loop(add(%i, 1), add(multiply(%s, %x), %i)) } else { %s }
      };
      let %value = %loop;
      %value(0, %x)
    }
    """, *[(n, numbers(size)) for n in (0, 1, 4) for size in (1, 5, 0)])  # fmt: skip
    (inner,) = (part for name, part in code.items() if name != "main")
    assert "goto" in inner and "invoke dst" not in inner and "invoke_closure" not in inner


def test_clauses_of_a_match_jump():
    mod = parsed("""
    type L { Cons(int32, L), Nil }
    def @sum(%xs: L, %s: int32) -> int32 {
      match? (%xs) { Cons(%x, %rest) => @sum(%rest, add(%s, %x)), Nil => %s }
    }
    def @main(%xs: L) -> int32 { @sum(%xs, 0) }
    """)
    exe, machine = compiled(mod)
    xs = ADT(1)
    for i in range(1000):
        xs = ADT(0, [i, xs])
    assert machine.run(xs).numpy() == 499500 and exe.bytecode.count("goto") == 1

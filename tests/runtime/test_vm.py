"""The virtual machine on code written by hand: every instruction, what is refused, saving and loading."""

from __future__ import annotations

import gc
import random
import struct

import numpy as np
import pytest

import tvm
from tvm import te
from tvm.error import TVMError
from tvm.runtime import vm
from tvm.runtime.container import ADT
from tvm.runtime.vm_code import VERSION, Code, ConstantSlot, Function, Param, dtype_word, instruction, seal, to_words

FLOAT = dtype_word("float32")


@pytest.fixture(scope="module")
def library():
    """out = a + b and out = a - 1 on three numbers, and a scalar a - 1 of int32."""
    a, b = te.placeholder((3,), name="a"), te.placeholder((3,), name="b")
    added = te.compute((3,), lambda i: a[i] + b[i], name="added")
    n = te.placeholder((), "int32", name="n")
    less = te.compute((), lambda: n() - 1, name="less")
    parts = [
        tvm.lower(te.create_schedule(added.op), [a, b, added], name="add"),
        tvm.lower(te.create_schedule(less.op), [n, less], name="less"),
    ]
    whole = tvm.IRModule()
    for part in parts:
        whole.update(part)
    return tvm.build(whole, target="llvm")


def machine(code: Code, library=None, constants=None, **options) -> vm.VirtualMachine:
    exe = vm.Executable.load_exec(seal(to_words(code)), library)
    exe.load_late_bound_consts_from_map(constants or {})
    return vm.VirtualMachine(exe, tvm.cpu(), **options)


def one_function(params: str, registers: int, *lines, **more) -> Code:
    names = [Param(n) for n in params.split()]
    return Code(functions=[Function("main", names, registers, list(lines))], **more)


def i(name, *operands):
    return instruction(name, *operands)


def three(*values):
    return np.array(values, "float32")


def adding() -> Code:
    """main(a, b) = a + b, in storage of the machine."""
    return one_function(
        "a b", 5,
        i("load_consti", 2, 64),
        i("alloc_storage", 3, 2, 64, FLOAT, 0),
        i("alloc_tensor", 4, 3, 16, FLOAT, [3]),
        i("invoke_packed", 0, 1, [0, 1, 4]),
        i("kill_register", [2, 3]),
        i("ret", 4),
        kernels=["add"],
    )  # fmt: skip


def test_a_kernel_writes_a_tensor_in_storage_of_the_machine(library):
    run = machine(adding(), library)
    assert run.run(three(1, 2, 3), b=three(10, 20, 30)).numpy().tolist() == [11, 22, 33]
    run.set_one_input("main", "a", three(0, 0, 0))
    run.set_one_input("main", b=three(5, 6, 7))
    assert run.invoke("main").numpy().tolist() == [5, 6, 7]
    run.invoke_stateful("main")
    assert [o.numpy().tolist() for o in run.get_outputs()] == [[5, 6, 7]]
    out = tvm.nd.array(np.zeros(3, "float32"))
    run.invoke_with_outputs("main", {"a": three(1, 1, 1), "b": three(1, 2, 3)}, [out])
    assert out.numpy().tolist() == [2, 3, 4]
    assert run.get_input_index("b") == 1 and run.get_input_index("c") == -1
    assert run.benchmark(tvm.cpu(), three(1, 2, 3), three(1, 2, 3), repeat=2, number=1).mean > 0
    assert run.benchmark(tvm.cpu(), three(1, 2, 3), three(1, 2, 3), repeat=2, number=1, end_to_end=True).mean > 0


@pytest.mark.parametrize("memory", ["pooled", "naive", {tvm.cpu(): "naive"}])
def test_results_outlive_later_runs_and_the_machine(library, memory):
    run = machine(adding(), library, memory_cfg=memory)
    kept = [run.run(three(k, k, k), three(1, 2, 3)) for k in range(5)]
    held = run.module["get_memory"]()
    del run
    gc.collect()
    assert [k.numpy().tolist() for k in kept] == [[k + 1, k + 2, k + 3] for k in range(5)]
    assert held == 5 * 64


def test_a_pool_needs_no_more_than_the_largest_run():
    """Storage of a size that the caller gives: the pool has at most what was in use at once."""
    code = one_function(
        "n",
        3,
        i("alloc_storage", 1, 0, 64, dtype_word("uint8"), 0),
        i("alloc_tensor_reg", 2, 1, 0, 0, dtype_word("uint8")),
        i("ret", 2),
    )
    run = machine(code)
    draw = random.Random(1)
    largest = 0
    for _ in range(300):
        size = draw.randint(1, 1 << 20)
        largest = max(largest, size)
        assert run.run(np.array([size], "int64")).shape == (size,)
        assert run.module["get_memory"]() <= 1.13 * max(largest, 64)


def of_size(run, size: int):
    """What a machine gives that makes a tensor of the size it is given."""
    return run.run(np.array([size], "int64"))


def address(array) -> int:
    return np.from_dlpack(array).ctypes.data


def test_free_blocks_become_one_where_none_of_them_was_enough():
    """The layers of a network: each is in use together with the next one alone. After a run that gave blocks back they
    have parts of one block, at one end and the other in turn."""
    code = one_function(
        "n",
        3,
        i("alloc_storage", 1, 0, 64, dtype_word("uint8"), 0),
        i("alloc_tensor_reg", 2, 1, 0, 0, dtype_word("uint8")),
        i("ret", 2),
    )
    run = machine(code)

    def layers() -> list[int]:
        """Where the layers begin."""
        first = of_size(run, 3 << 20)
        second = of_size(run, 3 << 20)
        begins = [address(first), address(second)]
        del first
        third = of_size(run, 6 << 20)
        return [*begins, address(third)]

    layers()
    most = 9 << 20
    first, second, third = layers()
    assert run.module["get_memory"]() == most + most // 8
    assert first == third and second == first + most + most // 8 - (3 << 20)
    assert layers() == [first, second, third] and run.module["get_memory"]() == most + most // 8
    # A block of as much does not help what is not in use by then: it is not made again for that.
    of_size(run, 8 << 20)
    assert run.module["get_memory"]() == most + most // 8


def test_a_large_block_is_parted_for_smaller_ones_and_one_again_after_them():
    """Memory that a large run has left serves smaller ones: nothing is given back and asked for anew."""
    code = one_function(
        "n",
        3,
        i("alloc_storage", 1, 0, 64, dtype_word("uint8"), 0),
        i("alloc_tensor_reg", 2, 1, 0, 0, dtype_word("uint8")),
        i("ret", 2),
    )
    run = machine(code)
    of_size(run, 1 << 20)
    held = run.module["get_memory"]()
    assert held == 1 << 20
    parts = [of_size(run, size) for size in (600_000, 200_000, 100_000)]
    assert run.module["get_memory"]() == held
    for number, part in enumerate(parts):
        part.copyfrom(np.full(part.shape, number + 1, "uint8"))
    assert [set(part.numpy().tolist()) for part in parts] == [{1}, {2}, {3}]
    del parts[1]
    parts.append(of_size(run, 150_000))
    assert run.module["get_memory"]() == held
    del part, parts
    whole = of_size(run, 1 << 20)
    assert run.module["get_memory"]() == held
    whole.copyfrom(np.full(whole.shape, 7, "uint8"))
    kept = [whole]
    del whole, run
    gc.collect()
    assert set(kept[0].numpy().tolist()) == {7}


def test_calls_of_ten_thousand_nested_functions_and_a_hundred_thousand_in_tail_position(library):
    """down(n) = 0 if n == 0 else down(n - 1), in tail position and not."""

    def counting(registers, *ending):
        return Function("down", [Param("n")], registers, [
            i("load_consti", 1, 0), i("if", 0, 1, 5, 7), i("ret", 0),
            i("load_consti", 2, 4), i("alloc_storage", 3, 2, 64, FLOAT, 0),
            i("alloc_tensor", 4, 3, 0, dtype_word("int32"), []), i("invoke_packed", 0, 1, [0, 4]),
            i("kill_register", [2, 3]), *ending,
        ])  # fmt: skip

    tail = Code(kernels=["less"], functions=[counting(6, i("invoke", 5, 0, [4]), i("ret", 5))])
    assert machine(tail, library).invoke("down", np.int32(100_000)).numpy() == 0
    nested = Code(kernels=["less"], functions=[counting(7, i("invoke", 5, 0, [4]), i("move", 6, 5), i("ret", 6))])
    run = machine(nested, library)
    assert run.invoke("down", np.int32(10000)).numpy() == 0
    endless = Code(functions=[Function("f", [], 1, [i("invoke", 0, 0, []), i("move", 0, 0), i("ret", 0)])])
    with pytest.raises(TVMError, match="nested deeper"):
        machine(endless).invoke("f")


def test_data_closures_and_fields():
    code = Code(functions=[
        Function("main", [Param("x"), Param("y")], 6, [
            i("alloc_data", 2, 7, [0, 1]), i("get_tag", 3, 2), i("alloc_data", 4, 0, [2, 3]),
            i("alloc_closure", 5, 1, [4]), i("invoke_closure", 5, 5, [0]), i("ret", 5)]),
        Function("pair", [Param("held"), Param("given")], 3, [
            i("alloc_data", 2, 1, [0, 1]), i("ret", 2)]),
        Function("write", [Param("x"), Param("y")], 4, [
            i("alloc_data", 2, 0, [0]), i("move", 3, 2), i("set_field", 3, 0, 1), i("get_field", 3, 2, 0),
            i("ret", 3)]),
        Function("closure", [], 1, [i("alloc_closure", 0, 1, []), i("ret", 0)]),
        Function("apply", [Param("f"), Param("x")], 2, [i("invoke_closure", 0, 0, [1, 1]), i("ret", 0)]),
    ])  # fmt: skip
    run = machine(code)
    got = run.run(three(1, 2, 3), three(4, 5, 6))
    assert isinstance(got, ADT) and got.tag == 1
    (inner, tag), given = got
    assert inner.tag == 7 and tag == 7
    assert [f.numpy().tolist() for f in inner] == [[1, 2, 3], [4, 5, 6]] and given.numpy().tolist() == [1, 2, 3]
    assert run.invoke("write", 1, 2).numpy() == 2
    closure = run.invoke("closure")
    assert isinstance(closure, vm.Closure)
    applied = run.invoke("apply", closure, ADT(3, [three(9, 9, 9)]))
    assert applied.tag == 1 and applied[0].tag == 3
    with pytest.raises(TVMError, match="to another executable"):
        machine(code).invoke("apply", closure, 1)
    assert run.invoke("apply", closure, [three(1, 1, 1), (1, 2.5, True)])[1][1][1].numpy() == 2.5


def test_data_is_as_deep_as_it_is_long():
    nested = ADT(1)
    for k in range(5_000):
        nested = ADT(0, [k, nested])
    code = one_function("x", 1, i("ret", 0))
    got = machine(code).run(nested)
    for k in reversed(range(5_000)):
        assert got.tag == 0 and got[0].numpy() == k
        got = got[1]
    assert got.tag == 1 and len(got) == 0


def test_shapes_reshapes_constants_and_copies():
    code = one_function(
        "x", 6, i("shape_of", 1, 0), i("load_const", 2, 0), i("reshape_tensor", 3, 0, 2), i("device_copy", 4, 3, 0, 0),
        i("alloc_data", 5, 0, [1, 3, 4, 2]), i("ret", 5), constants=[ConstantSlot("shape")],
    )  # fmt: skip
    run = machine(code, constants={"shape": np.array([3, -1], "int64")})
    shape, reshaped, copied, constant = run.run(np.arange(6, dtype="float32").reshape(2, 3))
    assert shape.numpy().tolist() == [2, 3] and reshaped.numpy().tolist() == [[0, 1], [2, 3], [4, 5]]
    reshaped.copyfrom(np.zeros((3, 2), "float32"))
    assert copied.numpy().tolist() == [[0, 1], [2, 3], [4, 5]]
    # A constant that is a result belongs to the caller.
    constant.copyfrom(np.array([0, 0], "int64"))
    assert run.run(np.zeros((2, 3), "float32"))[1].shape == (3, 2)


@pytest.mark.parametrize("lines, what", [
    ([i("ret", 1)], "ret"),
    ([i("get_field", 1, 0, 0), i("ret", 1)], "expected an ADT value, but the register contains a tensor"),
    ([i("get_tag", 1, 1), i("ret", 1)], "the register contains no value"),
    ([i("alloc_data", 1, 0, []), i("get_field", 1, 1, 0), i("ret", 1)], "with 0 fields has no field 0"),
    ([i("invoke_closure", 1, 0, []), i("ret", 1)], "expected a closure"),
    ([i("alloc_closure", 1, 0, []), i("invoke_closure", 1, 1, []), i("ret", 1)], "with 1 parameters is called with 0"),
    ([i("alloc_tensor", 1, 0, 0, FLOAT, [3]), i("ret", 1)], "expected storage"),
    ([i("load_consti", 1, 4), i("alloc_storage", 1, 1, 64, FLOAT, 0), i("alloc_tensor", 1, 1, 0, FLOAT, [17]),
      i("ret", 1)], "do not fit in a storage"),
    ([i("load_consti", 1, -4), i("alloc_storage", 1, 1, 64, FLOAT, 0), i("ret", 1)], "storage size -4 is negative"),
    ([i("load_consti", 1, 1 << 60), i("alloc_storage", 1, 1, 64, FLOAT, 0), i("ret", 1)], "bytes"),
    ([i("if", 0, 0, 5, 5), i("ret", 0)], "expected a tensor of integers"),
    ([i("fatal")], "no clause of a match"),
    ([i("invoke_packed", 0, 0, [0]), i("ret", 0)], "add"),
])  # fmt: skip
def test_what_cannot_be_done_is_an_error_and_the_machine_goes_on(library, lines, what):
    code = one_function("x", 2, *lines, kernels=["add"])
    code.functions.append(Function("same", [Param("x")], 1, [i("ret", 0)]))
    run = machine(code, library)
    if what == "ret":
        with pytest.raises(TVMError, match="empty or a storage"):
            run.run(three(1, 2, 3))
    else:
        with pytest.raises(TVMError, match=what):
            run.run(three(1, 2, 3))
    assert run.invoke("same", three(1, 2, 3)).numpy().tolist() == [1, 2, 3]


@pytest.mark.parametrize("lines, what", [
    ([], "does not end in"),
    ([i("move", 0, 0)], "does not end in"),
    ([i("ret", 2)], "invalid operand"),
    ([i("move", -1, 0), i("ret", 0)], "invalid operand"),
    ([i("goto", 1)], "does not lead to the start of an instruction|leaves its function"),
    ([i("goto", 2)], "leaves its function"),
    ([i("goto", -1)], "leaves its function"),
    ([i("move", 0, 0), i("goto", -2)], "does not lead to the start of an instruction"),
    ([i("if", 0, 0, 5, -(1 << 63)), i("ret", 0)], "leaves its function"),
    ([i("load_const", 0, 0), i("ret", 0)], "invalid operand"),
    ([i("invoke", 0, 1, [0]), i("ret", 0)], "invalid operand"),
    ([i("invoke", 0, 0, []), i("ret", 0)], "wrong number of arguments"),
    ([i("alloc_closure", 0, 0, [0, 0]), i("ret", 0)], "too many values"),
    ([i("invoke_packed", 0, 1, [0]), i("ret", 0)], "invalid operand"),
    ([i("alloc_storage", 0, 0, 64, FLOAT, 1), i("ret", 0)], "invalid operand"),
    ([i("alloc_storage", 0, 0, 128, FLOAT, 0), i("ret", 0)], "alignment"),
    ([i("alloc_tensor", 0, 0, 0, 0, [1]), i("ret", 0)], "invalid operand"),
    ([i("alloc_tensor", 0, 0, 0, FLOAT, [-1]), i("ret", 0)], "invalid operand"),
    ([i("alloc_tensor", 0, 0, 2, FLOAT, [1]), i("ret", 0)], "the offset of a tensor"),
    ([i("get_field", 0, 0, -1), i("ret", 0)], "invalid operand"),
])  # fmt: skip
def test_code_that_names_what_is_not_there_is_refused_before_it_runs(lines, what):
    with pytest.raises(TVMError, match=f"the file is damaged: .*({what})"):
        machine(one_function("x", 2, *lines))


def test_a_saved_executable_runs_elsewhere_and_damage_is_seen(library, tmp_path):
    code = adding()
    code.constants = [ConstantSlot("w")]
    code.functions[0].code.insert(0, i("load_const", 1, 0))
    exe = vm.Executable.load_exec(seal(to_words(code)), library)
    exe.load_late_bound_consts_from_map({"w": three(7, 8, 9)})
    saved, lib = exe.save()
    again = vm.Executable.load_exec(saved, lib)
    assert vm.VirtualMachine(again, tvm.cpu()).run(three(1, 1, 1), three(0, 0, 0)).numpy().tolist() == [8, 9, 10]
    exe.mod.export_library(tmp_path / "whole.so")
    loaded = tvm.runtime.load_module(str(tmp_path / "whole.so"))
    run = vm.VirtualMachine(loaded, tvm.cpu())
    assert run.run(three(1, 1, 1), b=three(0, 0, 0)).numpy().tolist() == [8, 9, 10]
    other = bytearray(saved)
    other[8:16] = struct.pack("<Q", VERSION + 1)
    with pytest.raises(TVMError, match=f"version {VERSION + 1}, but this runtime reads version {VERSION}"):
        vm.Executable.load_exec(other, lib)
    for at in (20, 40, len(saved) // 2, len(saved) - 1):
        other = bytearray(saved)
        other[at] ^= 1
        with pytest.raises(TVMError, match="damaged"):
            vm.Executable.load_exec(other, lib)
    with pytest.raises(TVMError, match="damaged|no executable"):
        vm.Executable.load_exec(saved[:-5], lib)
    with pytest.raises(TVMError, match="not an executable of the virtual machine"):
        vm.Executable.load_exec(b"something else that is long enough", lib)
    with pytest.raises(TVMError, match="no library was given"):
        vm.VirtualMachine(vm.Executable.load_exec(saved, None), tvm.cpu())


def test_large_constants_are_bound_late(tmp_path):
    code = one_function(
        "",
        3,
        i("load_const", 0, 0),
        i("load_const", 1, 1),
        i("alloc_data", 2, 0, [0, 1]),
        i("ret", 2),
        constants=[ConstantSlot("small"), ConstantSlot("large")],
    )
    exe = vm.Executable.load_exec(seal(to_words(code)), None)
    exe.load_late_bound_consts_from_map({"small": three(1, 2, 3), "large": np.arange(100, dtype="float32")})
    exe.move_late_bound_consts(tmp_path / "large.params", 64)
    saved, lib = exe.save()
    assert len(saved) < 1000
    again = vm.Executable.load_exec(saved, lib)
    assert "large bound late" in again.constants and "float32[3]" in again.stats
    with pytest.raises(TVMError, match="late-bound constant 'large' has not been loaded"):
        vm.VirtualMachine(again, tvm.cpu())
    again.load_late_bound_consts(tmp_path / "large.params")
    assert [r.shape for r in vm.VirtualMachine(again, tvm.cpu()).run()] == [(3,), (100,)]
    other = vm.Executable.load_exec(saved, lib).mod
    other["load_late_bound_consts"](str(tmp_path / "large.params"))
    assert vm.VirtualMachine(other, tvm.cpu()).run()[1].shape == (100,)
    with pytest.raises(TVMError, match="not have a constant named 'other'"):
        again.load_late_bound_consts_from_map({"other": three(1, 2, 3)})


def test_an_executable_says_what_it_is_made_of(library):
    exe = vm.Executable.load_exec(seal(to_words(adding())), library)
    assert exe.globals == ["main"] and exe.primitive_ops == ["add"]
    assert exe.get_function_params("main") == ["a", "b"] and exe.function_arity("main") == 2
    assert "3: invoke_packed kernel=add, outputs=1, args=[%0, %1, %4]" in exe.bytecode
    assert "main(a, b)" in exe.bytecode and "VM PackedFunc[0]: add" in exe.primitives
    assert "cpu" in exe.virtual_devices and "Instructions: 6" in exe.stats
    with pytest.raises(ValueError, match="no function 'other'; it has main"):
        exe.get_function_params("other")


def test_wrong_uses_are_refused_in_words(library):
    exe = vm.Executable.load_exec(seal(to_words(adding())), library)
    run = vm.VirtualMachine(exe, tvm.cpu())
    with pytest.raises(TVMError, match="has no function 'other'"):
        run.invoke("other", 1)
    with pytest.raises(TVMError, match="takes 2 arguments, got 1"):
        run.run(three(1, 2, 3))
    with pytest.raises(TypeError, match="'c' of function 'main' is not a parameter; its parameters are a, b"):
        run.run(c=1)
    with pytest.raises(TypeError, match="'b' of function 'main' is missing"):
        run.run(a=three(1, 2, 3))
    with pytest.raises(TVMError, match="input 'a' of function 'main' has not been set"):
        vm.VirtualMachine(exe, tvm.cpu()).invoke("main")
    with pytest.raises(TVMError, match="does not have the shape"):
        inputs = {"a": three(1, 2, 3), "b": three(1, 2, 3)}
        run.invoke_with_outputs("main", inputs, [tvm.nd.array(np.zeros(2, "float32"))])
    with pytest.raises(ValueError, match="unknown allocator 'pool'"):
        vm.VirtualMachine(exe, tvm.cpu(), "pool")
    with pytest.raises(TypeError, match="expected a Device"):
        vm.VirtualMachine(exe, "cpu")
    with pytest.raises(TypeError, match="expected an Executable or a Module"):
        vm.VirtualMachine("exe", tvm.cpu())


def test_the_profiler_names_kernels_and_their_shapes(library):
    from tvm.runtime.profiler_vm import VirtualMachineProfiler, enabled

    assert enabled()
    run = VirtualMachineProfiler(vm.Executable.load_exec(seal(to_words(adding())), library), tvm.cpu())
    report = run.profile(three(1, 2, 3), three(1, 2, 3))
    assert [c["Name"] for c in report.calls] == ["add"]
    assert report.calls[0]["Argument Shapes"] == "float32[3], float32[3], float32[3]"
    assert "Executor: VM" in str(report)


def test_the_machine_is_found_by_its_classic_name():
    assert tvm.runtime.__getattr__("vm") is vm
    with pytest.raises(AttributeError, match="has no attribute 'vn'"):
        _ = tvm.runtime.vn

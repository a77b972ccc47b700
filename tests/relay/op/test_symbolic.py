"""Operators with unknown sizes beside their static forms: one kernel and one shape function for all sizes.

A part of the rows is tried in each run, another with each commit; ``python -m tools test symbolic`` tries all of them.
"""

from __future__ import annotations

import itertools
import os
import random

import numpy as np
import pytest
from symbolic_cases import ROWS, SIZES, array, unknown_type
from test_dynamic_shapes import CASES as DYNAMIC

import tvm
from tests.relay.symbolic_kernels import SymbolicKernel, primitive, static_results
from tvm import relay
from tvm.ir.op import OPS

# How many rows are tried in a run that does not try all.
SAMPLE = 8
# Operators that have no row, and why.
REFUSED = {
    "sparse_fill_empty_rows": "kernels of several operators with variable sizes; tests/relay/op/test_sparse.py",
    "annotation.checkpoint": "a mark in the graph, gone before kernels are made",
    "annotation.compiler_begin": "a mark in the graph, gone before kernels are made",
    "annotation.compiler_end": "a mark in the graph, gone before kernels are made",
    "annotation.stop_fusion": "a mark in the graph, gone before kernels are made",
    "on_device": "a mark in the graph, gone before kernels are made",
    "device_copy": "a copy that the executor does",
    "memory.alloc_storage": "compiling it is rejected; tests/relay/op/test_memory.py",
    "memory.alloc_tensor": "compiling it is rejected; tests/relay/op/test_memory.py",
    "memory.kill": "compiling it is rejected; tests/relay/op/test_memory.py",
    "vm.invoke_tvm_op": "compiling it is rejected; tests/relay/op/test_memory.py",
    "vm.shape_func": "compiling it is rejected; tests/relay/op/test_memory.py",
    "vm.shape_of": "compiled as shape_of; tests/relay/op/test_memory.py",
    "vm.reshape_tensor": "its sizes are attributes",
    "broadcast_to": "its sizes are attributes; dyn.broadcast_to has unknown ones",
    "image.decode": "its sizes are in the file; tests/runtime/test_image_files.py",
    "dyn.image.resize2d": "its region of interest is a tensor, which the resize with variable sizes reads",
    "dyn.nn.upsampling": "its sizes are those of nn.upsampling, rounded from factors that are tensors",
    "dyn.nn.upsampling3d": "its sizes are those of nn.upsampling3d, rounded from factors that are tensors",
    "random.multinomial": "its sizes are attributes",
    "random.normal": "its sizes are attributes",
    "random.threefry_generate": "its sizes are attributes",
    "random.threefry_split": "its state has a known size",
    "random.uniform": "its sizes are attributes",
    "nn.contrib_conv1d_NCWc": "made by AlterOpLayout for known sizes only",
    "nn.contrib_conv2d_NCHWc_int8": "made by AlterOpLayout for known sizes only",
    "nn.contrib_depthwise_conv2d_NCHWc_int8": "made by AlterOpLayout for known sizes only",
    "nn.contrib_conv2d_NHWC_int8": "made by AlterOpLayout for known sizes only",
    "nn.contrib_depthwise_conv2d_NHWC_int8": "made by AlterOpLayout for known sizes only",
    "nn.contrib_conv2d_transpose_NCHWc": "made by AlterOpLayout for known sizes only",
    "nn.contrib_conv2d_winograd_planes": "made by AlterOpLayout for known sizes only",
    "nn.contrib_conv2d_winograd_tiles": "made for searches, of known sizes only",
    "nn.contrib_conv3d_NCDHWc": "made by AlterOpLayout for known sizes only",
}


def chosen(everything, count):
    if os.environ.get("TVM_TEST_ALL_SYMBOLIC"):
        return everything
    return random.Random(os.environ.get("TVM_TEST_SEED", "1")).sample(everything, count)


@pytest.mark.parametrize("name", chosen(sorted(ROWS), SAMPLE))
def test_a_kernel_for_all_sizes_gives_what_static_kernels_give(name):
    build, specs = ROWS[name]
    rng = np.random.default_rng(7)
    kernel = SymbolicKernel(primitive(build, [unknown_type(s) for s in specs]))
    for sizes in SIZES:
        arrays = [array(s, sizes, rng) for s in specs]
        try:
            wanted = static_results(build, arrays)
        except (tvm.TVMError, TypeError, ValueError):
            # Sizes that the static form refuses.
            with pytest.raises(tvm.TVMError, match="does not hold"):
                kernel.shapes(*arrays)
            continue
        for got, want in zip(kernel.run(*arrays), wanted, strict=True):
            assert got.shape == want.shape and got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_loops_that_a_choice_was_taken_out_of_have_narrow_indices():
    """The rows of a padded image: two loops over the columns with one variable, each in a branch."""
    test_a_kernel_for_all_sizes_gives_what_static_kernels_give("nn.contrib_conv2d_winograd_NCHWc")


@pytest.mark.parametrize("name", chosen(sorted(ROWS), SAMPLE // 2))
def test_the_virtual_machine_runs_an_operator_at_any_size(name):
    build, specs = ROWS[name]
    rng = np.random.default_rng(7)
    function = primitive(build, [unknown_type(s) for s in specs])
    mod = tvm.IRModule.from_expr(relay.Function(function.params, function.body))
    with tvm.transform.PassContext(opt_level=3):
        run = relay.create_executor("vm", mod).evaluate()
    for sizes in SIZES:
        arrays = [array(s, sizes, rng) for s in specs]
        try:
            wanted = static_results(build, arrays)
        except (tvm.TVMError, TypeError, ValueError):
            # Both refuse, each in words of its own.
            with pytest.raises(tvm.TVMError, match=r"\w+ \w+"):
                run(*arrays)
            continue
        got = run(*arrays)
        for one, want in zip([got] if hasattr(got, "numpy") else got, wanted, strict=True):
            assert one.shape == want.shape and one.dtype == want.dtype
            np.testing.assert_allclose(one.numpy(), want, rtol=1e-4, atol=1e-5)


def shared_letters(specs):
    """Unknown sizes that several inputs have."""
    letters = [letter for spec in specs for letter in set(spec.partition(":")[0].split()) if letter.isalpha()]
    return sorted({letter for letter in letters if letters.count(letter) > 1})


@pytest.mark.parametrize("name", chosen(sorted(n for n, row in ROWS.items() if shared_letters(row[1])), 2))
def test_inputs_that_do_not_go_together_are_refused_or_stay_within_bounds(name):
    build, specs = ROWS[name]
    rng = np.random.default_rng(7)
    with tvm.transform.PassContext(config={"tir.instrument_bound_checkers": True}):
        kernel = SymbolicKernel(primitive(build, [unknown_type(s) for s in specs]))
    for letter in shared_letters(specs):
        for number, by in itertools.product(range(len(specs)), (2, -1)):
            sizes = [{**SIZES[0], letter: SIZES[0][letter] + by * (i == number)} for i in range(len(specs))]
            arrays = [array(s, own, rng) for s, own in zip(specs, sizes)]
            try:
                kernel.run(*arrays)
            except tvm.TVMError as problem:
                assert "OUT OF BOUNDS" not in str(problem)


def test_every_operator_has_a_row_or_a_reason():
    records = {name for name in OPS.names() if {"TOpPattern", "type_rule"} <= OPS[name].attrs.keys()}
    records = {name for name in records if not name.startswith(("test.", "qnn."))}
    tried = set(ROWS) | {name.partition(" ")[0] for name in DYNAMIC}
    assert not records - tried - REFUSED.keys()
    assert not (REFUSED.keys() | tried) - records


CONTRADICTIONS = {
    "nn.dense": ([(2, 3), (4, 5)], "operator nn.dense: features: shape_1.1. == n1 does not hold"),
    "nn.batch_matmul": ([(2, 3, 4), (3, 5, 4)], "operator nn.batch_matmul: dimensions that are equal, or one"),
    "concatenate": ([(2, 3, 2), (3, 3, 2), (2, 3, 2)], "operator concatenate: equal sizes along axis 0"),
    "add": ([(2, 3), (2, 4)], "operator add: dimensions that are equal, or one of them 1"),
    "nn.conv2d": ([(1, 3, 0, 9), (4, 3, 3, 3)], "operator nn.conv2d: padded data that holds the kernel"),
    "reshape": ([(2, 3, 5)], "argument 0"),
    "nn.mirror_pad": ([(2, 0)], "operator nn.mirror_pad: at least 1 elements for SYMMETRIC padding by 1"),
    "image.resize2d": ([(1, 3, 0, 9)], "operator image.resize2d: an image with elements"),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_sizes_that_contradict_the_model_are_refused_with_the_operator(name):
    build, specs = ROWS[name]
    shapes, words = CONTRADICTIONS[name]
    kernel = SymbolicKernel(primitive(build, [unknown_type(s) for s in specs]))
    with pytest.raises(tvm.TVMError, match=words):
        kernel.shapes(*[np.zeros(s, "float32") for s in shapes])


def test_sizes_that_operators_take_for_equal_are_one_variable():
    unknown = relay.TensorType([relay.Any(), relay.Any()])
    kernel = SymbolicKernel(primitive(relay.nn.dense, [unknown, unknown]))
    x, w = kernel.kernel.function.params
    assert x.checked_type.shape[1] is w.checked_type.shape[1]

"""The tests that run every operator of Relay: all samples of the suite have them (``tests/sampling.py``).

A test of the table fails when it stops using one of its operators. ``tests/relay/op/test_edge_values.py`` checks that
every operator is either tried there or in the table.
"""

from __future__ import annotations

import pytest

# Most operators run in these tests, all of which a sample has; they check what they try themselves.
EDGE_VALUES = "tests/relay/op/test_edge_values.py"
# The other operators: the test that runs them, with its case.
TABLE = {
    "auto_scheduler/test_winograd.py::test_a_kernel_without_a_record_goes_the_way_of_templates":
        "nn.contrib_conv2d_winograd_tiles",
    "relay/op/test_cpu_layout.py::test_a_single_element_between_convolutions[bias0]":
        "nn.contrib_conv2d_NCHWc",
    "relay/op/test_cpu_layout.py::test_data_is_rearranged_at_the_edges_only":
        "nn.contrib_depthwise_conv2d_NCHWc",
    "relay/op/test_dynamic.py::test_factors_of_upsampling_may_be_inputs_that_turn_out_to_be_constants":
        "dyn.nn.upsampling dyn.nn.upsampling3d",
    "relay/op/test_dynamic.py::test_fourier_transforms": "dft stft",
    "relay/op/test_dynamic.py::test_known_shapes_are_found[resize]": "dyn.image.resize2d",
    "relay/op/test_dynamic_shapes.py::test_one_kernel_serves_all_sizes[argwhere]": "argwhere",
    **{f"relay/op/test_dynamic_shapes.py::test_one_kernel_serves_all_sizes[{name}]": name for name in (
        "dyn.broadcast_to dyn.checked dyn.expand_dims dyn.full dyn.nn.pad dyn.one_hot dyn.reshape dyn.sparse_to_dense "
        "dyn.squeeze dyn.strided_slice dyn.tile dyn.topk").split()},
    "relay/op/test_image_vision.py::test_anchors_and_reorder":
        "vision.multibox_prior vision.multibox_transform_loc vision.yolo_reorg",
    "relay/op/test_image_vision.py::test_crops_and_dilation": "image.crop_and_resize image.dilation2d",
    "relay/op/test_image_vision.py::test_grids": "image.affine_grid image.grid_sample",
    "relay/op/test_image_vision.py::test_proposals_without_moves_are_the_anchors_with_the_highest_scores":
        "vision.proposal",
    "relay/op/test_image_vision.py::test_regions_as_onnx": "vision.roi_align vision.roi_pool",
    "relay/op/test_image_vision.py::test_resizes_along_one_and_three_dimensions": "image.resize1d image.resize3d",
    "relay/op/test_image_vision.py::test_resize2d_as_onnx[linear-linear]": "image.resize2d",
    "relay/op/test_image_vision.py::test_suppression_as_onnx":
        "vision.all_class_non_max_suppression vision.get_valid_counts vision.non_max_suppression",
    "relay/op/test_memory.py::test_a_tensor_in_storage_has_the_shape_that_is_given":
        "memory.alloc_storage memory.alloc_tensor memory.kill",
    "relay/op/test_memory.py::test_explicit_memory_is_not_compiled[vm.invoke_tvm_op]": "vm.invoke_tvm_op",
    "relay/op/test_memory.py::test_explicit_memory_is_not_compiled[vm.shape_func]": "vm.shape_func",
    "relay/op/test_memory.py::test_shapes_and_reshapes_are_compiled": "vm.reshape_tensor vm.shape_of",
    "relay/op/test_nn.py::test_correlation": "nn.correlation",
    "relay/op/test_nn.py::test_deformable_without_displacement_is_a_convolution": "nn.deformable_conv2d",
    "relay/op/test_nn.py::test_packed_convolutions_equal_plain_ones": "nn.contrib_dense_pack",
    "relay/op/test_nn.py::test_space_and_depth": "nn.dilate",
    "relay/op/test_sparse.py::test_empty_rows_are_filled[no value-False-vm]": "sparse_fill_empty_rows",
    "relay/op/test_symbolic.py::test_loops_that_a_choice_was_taken_out_of_have_narrow_indices":
        "nn.contrib_conv2d_winograd_NCHWc",
    "relay/op/test_tensor.py::test_integers_wrap_and_divide[int32]":
        "bitwise_and bitwise_not bitwise_or bitwise_xor left_shift right_shift trunc_divide trunc_mod",
    "relay/op/test_tensor.py::test_fixed_point_multiply": "fixed_point_multiply",
    "relay/op/test_tensor.py::test_logic": "logical_and logical_not logical_or logical_xor",
    "relay/op/test_tensor.py::test_marks_are_the_identity": "annotation.compiler_begin annotation.compiler_end",
    "relay/op/test_transform.py::test_gathers_and_scatters": "sparse_reshape sparse_to_dense",
    "relay/op/test_transform.py::test_order_and_sums": "unique",
    "relay/op/test_transform.py::test_random_numbers_repeat_and_differ":
        "random.multinomial random.normal random.threefry_generate random.threefry_split random.uniform",
    "relay/qnn/test_qnn.py::test_functions_of_quantized_tensors": "qnn.leaky_relu qnn.softmax",
    "relay/qnn/test_qnn.py::test_joined_and_pooled": "qnn.avg_pool2d qnn.concatenate",
    "relay/qnn/test_qnn.py::test_products_of_integers": "qnn.batch_matmul qnn.conv2d qnn.conv2d_transpose",
    "relay/qnn/test_qnn.py::test_quantize_and_dequantize": "qnn.simulated_dequantize qnn.simulated_quantize",
    "relay/qnn/test_qnn.py::test_requantize_along_an_axis": "fixed_point_multiply_per_axis",
    "relay/quantize/test_weights.py::test_a_dense_layer_computes_with_the_integers[1-rows0-64-64-4-32]":
        "nn.contrib_dense_nbits",
    "relay/transform/cpu/test_integer_matmuls.py::test_a_convolution_of_one_filter_is_exact[qnn-size0]":
        "nn.contrib_conv2d_NCHWc_int8",
    "relay/transform/cpu/test_integer_matmuls.py::test_depthwise_layers_between_products_of_bytes_are_exact":
        "nn.contrib_depthwise_conv2d_NCHWc_int8",
    "relay/transform/cpu/test_narrow_constants.py::test_quantized_convolutions_read_8_bit_data[int8-NHWC]":
        "nn.contrib_conv2d_NHWC_int8 nn.contrib_depthwise_conv2d_NHWC_int8",
    "relay/transform/test_winograd.py::test_which_convolutions_of_a_gpu_are_rewritten"
    "[{'channels': 256, 'filters': 256, 'size': 56, 'padding': (1, 1)}-True]": "nn.contrib_conv2d_winograd_planes",
    "runtime/test_image_files.py::test_files_without_losses_give_the_pixels_they_were_written_from[BMP]":
        "image.decode",
    "topi/cpu/test_blocked.py::test_convolutions_agree_with_their_definition"
    "[data0-kernel0-strides0-padding0-dilation0]": "nn.contrib_conv1d_NCWc",
    "topi/cpu/test_blocked.py::test_convolutions_agree_with_their_definition"
    "[data5-kernel5-strides5-padding5-dilation5]": "nn.contrib_conv3d_NCDHWc",
    "topi/cpu/test_blocked.py::test_transposed_convolutions_agree_with_their_definition"
    "[data2-kernel2-strides2-padding2-extra2]": "nn.contrib_conv2d_transpose_NCHWc",
}  # fmt: skip
TESTS_OF_OPERATORS = {f"tests/{test}": names.split() for test, names in TABLE.items()}
FILES = {EDGE_VALUES, *(test.partition("::")[0] for test in TESTS_OF_OPERATORS)}
# Of the cases that differ in the type of the elements alone a sample has those of one type.
OTHER_TYPES = ("[int8]", "[int64]", "[uint8]")


def runs_operators(test: str) -> bool:
    """Whether every sample has a test, given its name with the case."""
    return test in TESTS_OF_OPERATORS or (test.startswith(EDGE_VALUES) and not test.endswith(OTHER_TYPES))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item):
    """A test of the table infers the type of its operators, which every graph needs before it is compiled."""
    names = TESTS_OF_OPERATORS.get(item.nodeid)
    if names is None:
        return (yield)
    from tvm.ir.op import OPS

    seen: set[str] = set()
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            rule = OPS[name].attrs["type_rule"]
            patch.setitem(OPS[name].attrs, "type_rule", lambda *a, n=name, rule=rule: (seen.add(n), rule(*a))[1])
        made = yield
    assert seen == set(names), f"without the operators that tests/every_operator.py has for it: {set(names) - seen}"
    return made

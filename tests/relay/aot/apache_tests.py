"""The tests of Apache TVM 0.14 for ahead-of-time compilation, memory planning and microcontrollers.

Each line is the name of a test there, and a test here for the same behaviour, or "-" and the reason why the behaviour
does not hold. Tests that need boards, SDKs or simulators of vendors as a whole are not listed.
"""

from __future__ import annotations

from typing import NamedTuple

_AOT = "tests/relay/backend/aot"
_ALGO = "tests/tir/usmp/algo/test_algorithms.py"
_API = "tests/micro/project_api"
_SHORT = {
    "crt": "tests/relay/aot/test_crt.py", "cpp": "tests/relay/aot/test_cpp.py",
    "facts": "tests/relay/aot/test_metadata.py",
    "lower": "tests/relay/aot/test_lower_main.py", "models": f"{_AOT}/test_models.py", "plain": f"{_AOT}/test_plain.py",
    "write": f"{_AOT}/test_write.py", "memory": "tests/relay/transform/test_used_memory.py", "algo": _ALGO,
    "analysis": "tests/tir/usmp/analysis/test_analysis.py", "offsets": "tests/tir/usmp/transform/test_transform.py",
    "io": "tests/tir/usmp/transform/test_create_io_allocates.py", "utils": "tests/tir/usmp/test_utils.py",
    "planner": "tests/tir/usmp/test_planner.py", "mlf": "tests/micro/test_model_library_format.py",
    "operator": "tests/micro/test_mlf_operator.py", "server": f"{_API}/test_server.py",
    "client": f"{_API}/test_client.py", "transport": "tests/micro/test_transport.py",
}  # fmt: skip

_BYOC = "- needs the code generator ccompiler"
_PACKED = "- kernels take data pointers only"
_HOOKS = "- devices have no hooks"

_GROUPS = {
    "relay/aot": f"""
test_error_c_interface_with_packed_api crt::test_the_c_interface_requires_data_pointers
test_conv_with_params crt::test_graphs
test_add_with_params crt::test_graphs
test_conv2d crt::test_graphs
test_packed_global_variables crt::test_no_function_has_a_packed_twin
test_concatenate crt::test_graphs
test_nested_tuples crt::test_graphs
test_tuple_getitem crt::test_graphs
test_id crt::test_graphs
test_add_const crt::test_graphs
test_mul_param crt::test_graphs
test_subtract crt::test_graphs
test_tuple_output crt::test_graphs
test_mobilenet models::test_a_model
test_byoc_microtvm {_BYOC}
test_byoc_microtvm_multiple_subgraphs {_BYOC}
test_add_name_mangling_with_params crt::test_graphs
test_multiple_models crt::test_graphs
test_quant_mobilenet_tfl models::test_a_model
test_transpose crt::test_operators_that_are_not_fused_do_not_overwrite_their_inputs
test_name_sanitiser crt::test_graphs
test_name_sanitiser_name_clash - names that are equal in C become unique in place of an error
test_deprecated_target_arguments - targets have no options of executors
test_aot_codegen_backend_alloc_workspace_calls - plain C has no calls that allocate memory
test_constants_alignment crt::test_the_alignment_of_constants
test_output_tensor_names crt::test_outputs_have_the_names_of_the_attribute
test_workspace_calculation crt::test_the_plan_of_a_network_needs_no_more_than_with_apache_tvm
test_workspace_calculation_cmsis_nn - needs CMSIS-NN
test_aot_codegen_checks_returns crt::test_a_kernel_that_can_fail_ends_the_run
test_aot_uses_anf - graphs are not converted to A-normal form
usmp:test_synthetic crt::test_a_network_runs_with_each_algorithm
usmp:test_memory_planning crt::test_the_plan_of_a_network_needs_no_more_than_with_apache_tvm
usmp:test_conv2d crt::test_graphs
usmp:test_byoc_microtvm {_BYOC}
usmp:test_tflite_model_u1_usecase algo::test_model_files_need_no_more_than_with_a_published_algorithm
usmp:test_tflite_model_u3_usecase_single_external_pool crt::test_pools_of_the_program
usmp:test_tflite_model_u3_usecase_conv2d_var_cons crt::test_pools_of_the_program
usmp:test_tflite_model_u3_usecase_var_cons_ext_pools crt::test_pools_of_the_program
usmp:test_tflite_model_u3_usecase_two_external_pools crt::test_pools_of_the_program
usmp:test_two_models_with_a_single_external_pool crt::test_two_models_share_one_pool
usmp:test_tflite_model_u4_usecase_single_external_pool crt::test_pools_of_the_program
usmp:test_tflite_model_u4_usecase_two_external_pools crt::test_pools_of_the_program
usmp:test_incompatible_interface_api_errors crt::test_inputs_in_pools_require_the_c_interface
cpp:test_error_c_interface cpp::test_the_c_interface_is_rejected
cpp:test_conv2d cpp::test_an_exported_network
cpp:test_mobilenet write::test_a_convolutional_network
cpp:test_module_list cpp::test_the_names_of_models_and_the_devices
cpp:test_create_executor cpp::test_create_executor
cpp:test_pass_wrong_device_arg cpp::test_the_names_of_models_and_the_devices
test_device_api_hooks_unpacked_api {_HOOKS}
test_without_device_api_unpacked_api lower::test_two_inputs
test_without_device_api_packed_api {_PACKED}
test_create_function_metadata_workspace_allocate_only facts::test_memory_of_the_main_function
test_create_function_metadata_constant_allocate_only facts::test_memory_of_the_main_function
test_create_function_metadata_constant_pool_only facts::test_memory_of_the_main_function
test_create_function_metadata_workspace_pool_only facts::test_memory_of_the_main_function
test_create_function_metadata_all_single_func facts::test_memory_of_the_main_function
test_create_function_metadata_workspace_multi_funcs facts::test_memory_of_other_functions
test_create_executor_metadata_single_func facts::test_the_interface
test_create_executor_metadata_no_usmp facts::test_the_interface
test_single_call_cpacked {_PACKED}
test_single_call_packed {_PACKED}
test_single_call_unpacked lower::test_one_call
test_constant lower::test_a_constant
test_copy_to_output lower::test_an_input_is_copied_to_the_output
test_two_calls lower::test_two_calls
lower_main:test_tuple_output lower::test_two_outputs
test_tuple_intermediate lower::test_a_tuple_between_two_calls
test_multi_input lower::test_two_inputs
test_let_binding lower::test_lets
test_let_binding_branch lower::test_lets
test_device_hooks {_HOOKS}
test_external_calls - needs CMSIS-NN
test_internal_calls plain::test_the_text_is_plain_and_readable
test_tensorized_calls - needs the simulator of Corstone-300
test_simple memory::test_a_chain_of_functions_holds_two_values_at_a_time
test_multiple_functions memory::test_a_chain_of_functions_holds_two_values_at_a_time
test_mixed_data_types memory::test_element_types_and_tuples_count
test_parallel_function_call memory::test_values_that_are_read_later_are_live
test_composite_inner_function memory::test_a_composite_function_inside_a_primitive_function
""",
    "usmp": """
test_no_pool_error algo::test_programs_that_do_not_fit
test_name_based_ordering algo::test_random_programs_with_two_pools_give_equal_valid_plans_twice
test_linear algo::test_a_chain_in_two_pools
test_fanout algo::test_a_residual_block
test_custom_algo planner::test_options_and_custom_algorithms
hill_climb:test_bounded algo::test_random_programs_with_two_pools_give_equal_valid_plans_twice
hill_climb:test_intervals algo::test_lists_whose_optimum_is_their_pressure
hill_climb:test_random_intervals algo::test_the_default_is_never_above_a_published_algorithm
analysis:test_linear analysis::test_a_chain_of_operators
test_parallel_serial_mixed_for_loops analysis::test_memory_inside_a_parallel_loop_belongs_to_each_task
test_inception_structure analysis::test_a_residual_block
test_multiple_calls_to_same_primfunc analysis::test_a_function_called_twice_has_two_lifetimes
test_mobilenet_subgraph offsets::test_a_chain_in_two_pools
test_resnet_subgraph offsets::test_a_residual_block
test_tensor_intrin offsets::test_an_access_pointer_keeps_its_form
io:test_mobilenet_subgraph io::test_inputs_and_outputs_of_calls
test_create_pool_info utils::test_pools
test_create_buffer_info utils::test_buffers
test_create_pool_allocation utils::test_places
test_create_array_buffer_info utils::test_the_list_of_an_analysis
""",
    "micro": f"""
test_aot_packed_call {_PACKED}
test_export_operator_model_library_format operator::test_a_module_of_functions
test_export_multiple_operator_model_library_format operator::test_modules_that_an_archive_cannot_contain
test_export_model_library_format_c mlf::test_the_memory_of_an_ahead_of_time_model
test_export_model_library_format_llvm mlf::test_the_storage_of_a_graph
test_export_model_library_format_workspace mlf::test_the_memory_of_an_ahead_of_time_model
test_export_non_dso_exportable mlf::test_models_that_an_archive_cannot_contain
test_export_byoc_c_module {_BYOC}
test_multiple_relay_modules_same_module_name mlf::test_several_models_in_one_archive
test_multiple_relay_modules_graph mlf::test_several_models_in_one_archive
test_multiple_relay_modules_c mlf::test_several_models_in_one_archive
test_multiple_relay_modules_aot_graph mlf::test_several_models_in_one_archive
test_output_name_single crt::test_outputs_have_the_names_of_the_attribute
test_output_names_many crt::test_outputs_have_the_names_of_the_attribute
test_template_files - the C runtime needs no configuration templates
test_server_info_query client::test_requests_of_a_server
test_server_info_query_wrong_tvm_version server::test_errors_keep_their_class_and_traceback
test_server_info_query_wrong_protocol_version client::test_replies_that_break_the_protocol
test_base_test_handler server::test_errors_are_replies_and_the_server_goes_on
test_build client::test_requests_of_a_server
test_flash client::test_requests_of_a_server
test_open_transport client::test_requests_of_a_server
test_close_transport client::test_requests_of_a_server
test_read_transport client::test_requests_of_a_server
test_write_transport client::test_requests_of_a_server
test_method_raises_error server::test_errors_keep_their_class_and_traceback
test_method_not_found server::test_errors_are_replies_and_the_server_goes_on
test_extra_param server::test_errors_are_replies_and_the_server_goes_on
test_missing_param server::test_errors_are_replies_and_the_server_goes_on
test_incorrect_param_type server::test_errors_are_replies_and_the_server_goes_on
test_invalid_request server::test_errors_are_replies_and_the_server_goes_on
test_default_project_options server::test_options
test_modified_project_options server::test_options
test_transport_logger transport::test_calls_are_logged_and_passed_on
test_micro_tuning_with_meta_schedule - needs MetaSchedule
""",
}


class Tied(NamedTuple):
    """A test of Apache TVM: the test here (file, name), or the reason why its behaviour does not hold."""

    name: str
    here: tuple[str, str] | None
    reason: str = ""


def _tied(line: str) -> Tied:
    name, _, rest = line.partition(" ")
    if rest.startswith("- "):
        return Tied(name, None, rest[2:])
    file, _, test = rest.partition("::")
    return Tied(name, (_SHORT[file], test))


GROUPS = {group: [_tied(line) for line in text.strip().splitlines()] for group, text in _GROUPS.items()}

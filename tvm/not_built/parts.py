"""The modules that are not implemented, and their names that published programs use."""

from __future__ import annotations

from typing import NamedTuple


class Part(NamedTuple):
    """A module: its feature, its names, its decorators, and its functions that report whether the feature is
    available."""

    feature: str
    names: str = ""
    decorators: str = ""
    questions: str = ""


def _library(feature: str, names: str = "", questions: str = "") -> Part:
    return Part(f"the library {feature}", names, questions=questions)


_AUTO_SCHEDULER = "this part of AutoScheduler"
_META_SCHEDULE = "MetaSchedule"
_MICRO = "microTVM"
_STM32 = "code for STM32Cube.AI"
_RPC = "RPC to another machine"
_QUANTIZE_STEPS = "the steps of quantization one by one (relay.quantize.quantize does them)"
_SCHEDULE = "scheduling of TIR (tir.Schedule)"
_BUILDER = "the builder of TVMScript"
_PARSER = "reading TVMScript"
_SPARSE = "the conversion to sparse weights of convolutions"

PARTS: dict[str, Part] = {
    "tvm.auto_scheduler": Part(
        _AUTO_SCHEDULER,
        "get_shape_from_rewritten_layout remove_index_check rewrite_compute_body rewrite_tensor_shape",
    ),
    "tvm.meta_schedule": Part(
        _META_SCHEDULE,
        "ApplyHistoryBest Database ExtractedTask MeasureCandidate Profiler TaskRecord TaskScheduler TuneConfig"
        " TuneContext compile_relay extract_tasks is_meta_schedule_enabled tune_relay tune_te tune_tir",
        "derived_object",
    ),
    **{
        f"tvm.meta_schedule.{name}": Part(_META_SCHEDULE)
        for name in "arg_info builder cost_model database feature_extractor measure_callback mutator postproc"
        " relay_integration runner schedule schedule_rule search_strategy space_generator task_scheduler"
        " tir_integration tune tune_context".split()
    },
    "tvm.meta_schedule.testing": Part(_META_SCHEDULE, "te_workload space_generation schedule_rule"),
    "tvm.meta_schedule.utils": Part(_META_SCHEDULE, "", "derived_object"),
    "tvm.micro": Part(_MICRO, "CompileError"),
    # Users start gdb with the program of a project; sessions with a debugger need a second connection to the board.
    "tvm.micro.debugger": Part(
        "starting gdb for programs of microcontrollers",
        "Debugger DebuggerFactory GdbDebugger GdbRemoteDebugger GdbTransportDebugger RpcDebugger launch_debugger"
        " stop_debugger",
    ),
    # Code for the closed runtime library of STM32Cube.AI; the header of the C interface is the open alternative.
    "tvm.micro.contrib": Part(_STM32),
    "tvm.micro.contrib.stm32": Part(_STM32, "CodeEmitter"),
    "tvm.micro.contrib.stm32.emitter": Part(_STM32, "CodeEmitter get_input_tensor_name get_output_tensor_name"),
    "tvm.rpc": Part(_RPC, "with_minrpc"),
    "tvm.rpc.minrpc": Part(_RPC, "find_minrpc_server_libpath with_minrpc"),
    "tvm.rpc.proxy": Part(_RPC, "websocket_proxy_server"),
    "tvm.rpc.server_ios_launcher": Part(_RPC, "RPCServerMode ServerIOSLauncher ServerIOSContextManager"),
    "tvm.relay.quantize": Part(
        _QUANTIZE_STEPS,
        "get_calibration_info realize quantize_context partition annotate calibrate",
    ),
    "tvm.relay.quantize._annotate": Part(_QUANTIZE_STEPS, "QAnnotateKind attach_simulated_quantize"),
    "tvm.relay.quantize._calibrate": Part(_QUANTIZE_STEPS, "calibrate"),
    "tvm.relay.frontend": Part(
        "the importer",
        "from_oneflow",
    ),
    "tvm.relay.frontend.pytorch_utils": Part(
        "the importer of PyTorch",
        "rewrite_batched_nms_with_max_out_size rewrite_nms_to_batched_nms rewrite_scatter_to_gather",
    ),
    "tvm.relay.backend.graph_executor_codegen": Part(
        "the steps of relay.build one by one (relay.build does them)", "GraphExecutorCodegen"
    ),
    "tvm.relay.backend.te_compiler": Part(
        "the choice of an implementation from outside",
        "CCacheKey CCacheValue LoweredOutput lower_call",
    ),
    "tvm.relay.testing.tf": Part(
        "the importer of TensorFlow",
        "AddShapesToGraphDef NodeLookup ProcessGraphDefParam convert_to_list do_tf_sample get_config get_workload"
        " get_workload_official get_workload_ptb pick_from_weight vmobj_to_list",
    ),
    "tvm.relay.testing.tflite": Part("the importer of TensorFlow Lite", "TFLiteModel"),
    "tvm.script": Part(_PARSER, "from_source parse parse_macro", "ir_module"),
    "tvm.script.ir": Part(_PARSER, "module_attrs module_global_infos lookup_vdevice vdevice", "ir_module"),
    "tvm.script.ir_builder": Part(_BUILDER, "IRBuilder IRBuilderFrame"),
    "tvm.script.ir_builder.tir": Part(_BUILDER),
    "tvm.script.ir_builder.ir": Part(_BUILDER),
    "tvm.script.parser": Part(_PARSER, "from_source parse", "ir_module"),
    "tvm.script.tir": Part(
        _PARSER,
        "Assert Else If LetStmt Range Then While alloc_buffer allocate allocate_const attr axis block block_attr"
        " buffer_decl buffer_store comm_reducer decl_buffer env_thread evaluate func_attr func_name grid index_map init"
        " launch_thread llvm_lookup_intrinsic_id match_buffer meta_var parallel prefetch preflattened_buffer reads"
        " realize serial static_assert target thread_binding tvm_call_cpacked tvm_call_packed"
        " tvm_call_packed_lowered unroll var vectorized where writes",
        "macro prim_func",
    ),
    "tvm.script.relax": Part("Relax", "", "function"),
    "tvm.tir.schedule": Part(
        _SCHEDULE,
        "BlockRV BlockScope DepKind Dependency ExprRV Instruction InstructionKind LoopRV Schedule ScheduleError"
        " ScheduleState StmtSRef Trace",
    ),
    "tvm.tir.schedule.analysis": Part(_SCHEDULE, "get_auto_tensorize_mapping_info suggest_index_map"),
    "tvm.tir.schedule.block_scope": Part(_SCHEDULE, "BlockScope StmtSRef"),
    "tvm.tir.schedule.schedule": Part(_SCHEDULE, "Schedule ScheduleError"),
    "tvm.tir.schedule.state": Part(_SCHEDULE, "CachedFlags ScheduleDebugMask ScheduleState"),
    "tvm.tir.schedule.testing": Part(_SCHEDULE, "assert_structural_equal_ignore_global_symbol verify_trace_roundtrip"),
    "tvm.tir.schedule.trace": Part(_SCHEDULE, "Trace"),
    "tvm.tir.tensor_intrin": Part(_SCHEDULE),
    **{
        f"tvm.tir.tensor_intrin.{name}": Part(_SCHEDULE)
        for name in ("arm_cpu", "cuda", "dot_product_common", "hexagon", "rocm", "x86")
    },
    "tvm.utils": Part(
        "roofline analysis",
        "estimate_peak_bandwidth estimate_peak_fma_flops roofline_analysis roofline_from_existing",
    ),
    "tvm.utils.roofline": Part("roofline analysis", "SaveLoweredTIR roofline_analysis"),
    "tvm.utils.roofline.cuda": Part("roofline analysis"),
    "tvm.utils.roofline.x86": Part("roofline analysis", "estimate_peak_fma_vector_flops"),
    "tvm.te": Part("differentiation of tensor expressions", "gradient"),
    "tvm.topi.hls": Part(
        "the set of schedules for HLS",
        " ".join(
            f"schedule_{name}"
            for name in "adaptive_pool batch_norm bitserial_conv2d_nchw bitserial_conv2d_nhwc bitserial_dense broadcast"
            " conv1d_ncw conv1d_transpose_ncw conv2d_NCHWc conv2d_hwcn conv2d_nchw conv2d_nhwc conv2d_transpose_nchw"
            " dense depthwise_conv2d_nchw depthwise_conv2d_nhwc elemwise injective pool reduce softmax".split()
        ),
    ),
    **{
        f"tvm.topi.{device}": Part(
            "this way to compute the operator", names + " " + " ".join(f"schedule_{name}" for name in names.split())
        )
        for device, names in {
            "cuda": "batch_matmul_cublas batch_matmul_int8 batch_matmul_tensorcore conv2d_NCHWc_int8 conv2d_cudnn"
            " conv2d_hwnc_tensorcore conv2d_nhwc_tensorcore conv2d_nhwc_winograd_direct conv2d_nhwc_winograd_tensorcore"
            " conv3d_cudnn conv3d_ncdhw_winograd conv3d_ndhwc_tensorcore dense_cublas dense_int8 dense_tensorcore"
            " depthwise_conv2d_backward_input_nhwc depthwise_conv2d_backward_weight_nhwc"
            " group_conv2d_NCHWc_int8 matmul_cublas sparse_conv2d sparse_dense"
            " sparse_dense_padded sort_thrust argsort_thrust topk_thrust",
            "x86": "batch_matmul_cblas batch_matmul_mkl conv2d_NCHWc_int8 conv2d_nchw_int8 dense_cblas dense_int8"
            " dense_mkl dense_mkldnn sparse_conv2d sparse_dense",
            "arm_cpu": "bitserial_conv2d_nchw bitserial_conv2d_nhwc bitserial_dense conv2d_NCHWc_int8"
            " compute_conv2d_NHWC_quantized_interleaved compute_conv2d_NHWC_quantized_native"
            " conv2d_NHWC_quantized_interleaved conv2d_NHWC_quantized_native conv2d_nchw_winograd_nnpack"
            " conv2d_nhwc_dsp depthwise_conv2d_nhwc_dsp",
            "generic": "binarize_pack binary_dense bitserial_conv2d_nhwc bitserial_dense"
            " conv2d_NHWC_quantized_interleaved conv2d_NHWC_quantized_native conv2d_nchw_int8"
            " lstm sparse_dense",
            "rocm": "batch_matmul_rocblas conv2d_nchw_miopen dense_rocblas",
        }.items()
    },
    "tvm.contrib.coreml_runtime": _library("Core ML", "CoreMLModule create"),
    "tvm.contrib.cublas": _library("cuBLAS", "batch_matmul matmul"),
    "tvm.contrib.cublaslt": _library("cuBLASLt", "matmul"),
    "tvm.contrib.cudnn": _library(
        "cuDNN",
        "conv_backward_data conv_backward_filter conv_dgrad_shape conv_forward conv_output_shape log_softmax softmax",
        "exists",
    ),
    "tvm.contrib.cutlass": _library("CUTLASS", "finalize_modules num_cutlass_partitions", "has_cutlass"),
    "tvm.contrib.dnnl": _library("oneDNN", "dnnl_conv2d matmul"),
    "tvm.contrib.edgetpu_runtime": _library("of the Edge TPU", "EdgeTPUModule create"),
    "tvm.contrib.emcc": Part("the toolchain Emscripten", "create_tvmjs_wasm"),
    "tvm.contrib.ethosu": Part("the code generator for Ethos-U"),
    "tvm.contrib.hexagon": Part("the code generator for Hexagon"),
    "tvm.contrib.miopen": _library("MIOpen", "conv2d_forward log_softmax softmax"),
    "tvm.contrib.mkl": _library("MKL", "batch_matmul matmul matmul_u8s8s32"),
    "tvm.contrib.mps": _library("Metal Performance Shaders", "conv2d matmul"),
    "tvm.contrib.ndk": Part("the Android toolchain", "create_shared create_staticlib get_global_symbol_section_map"),
    "tvm.contrib.nnpack": _library(
        "NNPACK",
        "config convolution_inference convolution_inference_weight_transform"
        " convolution_inference_without_weight_transform fully_connected_inference",
        "is_available",
    ),
    "tvm.contrib.rocblas": _library("rocBLAS", "batch_matmul matmul"),
    "tvm.contrib.rocm": Part("the toolchain ROCm", "find_lld find_rocm_path have_matrixcore rocm_link"),
    "tvm.contrib.sdaccel": Part("the toolchain SDAccel", "compile_vhls"),
    "tvm.contrib.stackvm": Part("the toolchain of stackvm", "build"),
    "tvm.contrib.target": Part("another compiler's runtime"),
    **{
        f"tvm.contrib.target.{name}": Part(f"the compiler {title}", questions=question)
        for name, title, question in (
            ("coreml", "Core ML", ""),
            ("onnx", "ONNX", ""),
            ("vitis_ai", "Vitis AI", "vitis_ai_available"),
        )
    },
    "tvm.contrib.tf_op": Part("the operator of TensorFlow", "OpModule TensorFunc"),
    "tvm.contrib.tflite_runtime": _library("of TensorFlow Lite", "TFLiteModule create"),
    "tvm.contrib.thrust": _library("Thrust", "", "can_use_rocthrust can_use_thrust maybe_warn"),
    "tvm.contrib.torch": Part("the bridge to C++", "GraphModule PyTorchTVMModule TraceTvmModule VMModule"),
    "tvm.contrib.torch.pytorch_tvm": Part("the bridge to C++", "PyTorchTVMModule TVM_ASSETS"),
    "tvm.contrib.xcode": Part("the toolchain Xcode", "compile_coreml compile_metal create_dylib popen_test_rpc xcrun"),
    "tvm.relay.op": Part("the operator debug", "debug"),
    "tvm.relay.analysis.sparse_conv2d": Part(_SPARSE, "convert process_params"),
    "tvm.relay.data_dep_optimization": Part(_SPARSE, "bsr_conv2d"),
    "tvm.topi.sparse.utils": Part(
        "this part of sparse networks",
        "convert_model_dense_to_sparse deepspeed_bsr random_sparse_dense_params sparse_sketch_rules",
    ),
    "tvm.relay.op.nn": Part(
        "the operator",
        "bitpack bitserial_conv2d bitserial_dense contrib_conv2d_gemm_weight_transform"
        " contrib_conv2d_gemm_without_weight_transform contrib_conv3d_winograd_weight_transform"
        " contrib_conv3d_winograd_without_weight_transform",
    ),
    "tvm.topi.nn": Part(
        "the operator",
        "binarize_pack binary_dense bitpack bitserial_conv2d_nchw bitserial_conv2d_nhwc"
        " bitserial_dense depthwise_conv2d_backward_input_nhwc"
        " depthwise_conv2d_backward_weight_nhwc lstm"
        " sparse_add sparse_conv2d sparse_transpose",
    ),
    "tvm.topi.nn.conv2d": Part("the helper", "conv2d_infer_layout"),
    "tvm.topi.nn.depthwise_conv2d": Part("the helper", "depthwise_conv2d_infer_layout"),
    "tvm.topi.x86.conv2d_avx_1x1": Part("the helper", "_fallback_schedule"),
    "tvm.topi.cuda.conv3d_winograd": Part("Winograd's algorithm for 3-D convolutions", "_infer_tile_size"),
    "tvm.te.autodiff": Part("differentiation of tensor expressions", "gradient"),
    "tvm.contrib.peak": Part("the measuring of peaks", "measure_bandwidth_all_types measure_compute_all_types"),
    "tvm.relay.testing": Part("differentiation of graphs (models are compiled for inference)", "check_grad"),
    "tvm.relay.transform": Part(
        "the pass",
        "BatchingOps CollagePartition"
        " InlineCompilerFunctionsBoundTo InlineComposites"
        " MarkCompilerFunctionsAsExtern MetaScheduleLayoutRewrite"
        " OutlineCompilerFunctionsWithExistingGlobalSymbols RemoveStandaloneReshapes SimplifyExprPostAlterOp"
        " SimplifyFCTranspose to_cps un_cps",
    ),
    "tvm.relay.analysis": Part("the analysis", "AnnotatedRegionSet"),
    "tvm.tir.transform": Part(
        "the pass",
        "BF16Legalize DefaultGPUSchedule ExtractPrimFuncConstants FP8ComputeLegalize"
        " FP8StorageLegalize HoistExpression HoistedConditionals HoistedLetBindings InferFragment"
        " InjectPTXLDG32 InjectPermutedLayout InjectSoftwarePipeline InstallDebugSpans"
        " LegalizePackedCalls LiftAttrScope LiftThreadBinding LowerAsyncDMA LowerAutoCopy LowerCrossThreadReduction"
        " LowerVtcmAlloc ManifestSharedMemoryLocalStage ReduceBranchingThroughOvercompute"
        " RemoveStoreUndef RemoveWeightLayoutRewriteBlock RenormalizeSplitPattern TextureFlatten"
        " TransformMmaBufferLayout UnifyThreadBinding UseAssumeToReduceBranches",
    ),
    "tvm.testing.runner": Part(_RPC, "local_run rpc_run"),
    **{
        f"tvm.relay.op.contrib.{name}": Part(f"the compiler {title}", names, questions=questions)
        for name, title, names, questions in (
            (
                "arm_compute_lib",
                "Arm Compute Library",
                "partition_for_arm_compute_lib",
                "is_arm_compute_runtime_enabled",
            ),
            ("bnns", "BNNS", "partition_for_bnns", ""),
            ("clml", "OpenCLML", "CLMLGenSrc partition_for_clml preprocess_module", "is_clml_runtime_enabled"),
            ("cmsisnn", "CMSIS-NN", "partition_for_cmsisnn", "enabled"),
            ("cublas", "cuBLAS", "partition_for_cublas", ""),
            ("cudnn", "cuDNN", "partition_for_cudnn", ""),
            ("cutlass", "CUTLASS", "partition_for_cutlass", ""),
            ("ethosn", "Ethos-N", "partition_for_ethosn", "ethosn_available"),
            ("ethosu", "Ethos-U", "partition_for_ethosu", ""),
            ("libtorch", "LibTorch", "torchop", ""),
            ("mrvl", "Marvell", "partition_for_mrvl", ""),
            (
                "tensorrt",
                "TensorRT",
                "get_tensorrt_target partition_for_tensorrt",
                "is_tensorrt_compiler_enabled is_tensorrt_runtime_enabled",
            ),
            ("uma", "UMA", "", "uma_available"),
            ("vitis_ai", "Vitis AI", "partition_for_vitis_ai", ""),
        )
    },
}

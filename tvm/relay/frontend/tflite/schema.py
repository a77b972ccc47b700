"""The TFLite format: the tables of the file with the fields that the importer reads, and the values of enums.

Flatbuffers number fields by their order; a field that is not read is written as ``_``.
"""

from __future__ import annotations

# Operator names; the index of a name is its enum value.
OPERATORS = """
ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP FLOOR
FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC LSH_PROJECTION LSTM
MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS
SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER BATCH_TO_SPACE_ND
SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE BIDIRECTIONAL_SEQUENCE_RNN
EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM ARG_MAX MINIMUM LESS NEG PADV2
GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG
SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT
UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU
SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2 ADD_N GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE
MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH IF WHILE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5
SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO
RFFT2D CONV_3D IMAG REAL COMPLEX_ABS HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL
CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE
RANDOM_UNIFORM MULTINOMIAL GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX
UNSORTED_SEGMENT_SUM ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT STABLEHLO_LOGISTIC STABLEHLO_ADD
STABLEHLO_DIVIDE STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM STABLEHLO_RESHAPE STABLEHLO_CLAMP STABLEHLO_CONCATENATE
STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CONVOLUTION STABLEHLO_SLICE STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE STABLEHLO_ABS
STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR STABLEHLO_LOG STABLEHLO_MINIMUM STABLEHLO_NEGATE
STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER STABLEHLO_RSQRT STABLEHLO_SELECT STABLEHLO_SUBTRACT STABLEHLO_TANH
STABLEHLO_SCATTER STABLEHLO_COMPARE STABLEHLO_CONVERT STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE
STABLEHLO_PAD STABLEHLO_IOTA STABLEHLO_DOT_GENERAL STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE
STABLEHLO_GATHER STABLEHLO_TRANSPOSE DILATE STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW STABLEHLO_COMPOSITE
STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT STABLEHLO_CASE
""".split()

# The types of the union of options, by enum value; "Options" is appended to get the full name.
OPTION_TYPES = """
NONE Conv2D DepthwiseConv2D ConcatEmbeddings LSHProjection Pool2D SVDF RNN FullyConnected Softmax Concatenation Add
L2Norm LocalResponseNormalization LSTM ResizeBilinear Call Reshape SkipGram SpaceToDepth EmbeddingLookupSparse Mul Pad
Gather BatchToSpaceND SpaceToBatchND Transpose Reducer Sub Div Squeeze SequenceRNN StridedSlice Exp TopKV2 Split
LogSoftmax Cast Dequantize MaximumMinimum ArgMax Less Neg PadV2 Greater GreaterEqual LessEqual Select Slice
TransposeConv SparseToDense Tile ExpandDims Equal NotEqual Shape Pow ArgMin FakeQuant Pack LogicalOr OneHot LogicalAnd
LogicalNot Unpack FloorDiv Square ZerosLike Fill BidirectionalSequenceLSTM BidirectionalSequenceRNN
UnidirectionalSequenceLSTM FloorMod Range ResizeNearestNeighbor LeakyRelu SquaredDifference MirrorPad Abs SplitV
Unique ReverseV2 AddN GatherNd Cos Where Rank ReverseSequence MatrixDiag Quantize MatrixSetDiag HardSwish If While
DepthToSpace NonMaxSuppressionV4 NonMaxSuppressionV5 ScatterNd SelectV2 Densify SegmentSum BatchMatMul Cumsum CallOnce
BroadcastTo Rfft2d Conv3D Hashtable HashtableFind HashtableImport HashtableSize VarHandle ReadVariable AssignVariable
Random Bucketize Gelu DynamicUpdateSlice UnsortedSegmentProd UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentSum
ATan2 Sign Bitcast BitwiseXor RightShift
""".split()

TENSOR_TYPES = """
float32 float16 int32 uint8 int64 string bool int16 complex64 int8 float64 complex128 uint64 resource variant uint32
uint16 int4 bfloat16 int2 uint4 float8_e4m3fn float8_e5m2
""".split()

ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")

# The tables of the file.
TABLES = {
    "Model": "version:u32 operator_codes:[OperatorCode] subgraphs:[SubGraph] _ buffers:[Buffer]",
    "OperatorCode": "deprecated_builtin_code:i8 custom_code:str version:i32=1 builtin_code:i32",
    "SubGraph": "tensors:[Tensor] inputs:[i32] outputs:[i32] operators:[Operator] name:str",
    "Tensor": "shape:[i32] type:i8 buffer:u32 name:str quantization:QuantizationParameters is_variable:bool"
    " sparsity:SparsityParameters"
    " shape_signature:[i32] has_rank:bool _ external_buffer:u32",
    "QuantizationParameters": "_ _ scale:[f32] zero_point:[i64] details_type:u8 _ quantized_dimension:i32",
    "SparsityParameters": "traversal_order:[i32] block_map:[i32] dim_metadata:[DimensionMetadata]",
    "DimensionMetadata": "format:i8 dense_size:i32 array_segments_type:u8 array_segments:at array_indices_type:u8"
    " array_indices:at",
    "Int32Vector": "values:[i32]",
    "Uint16Vector": "values:[u16]",
    "Uint8Vector": "values:[u8]",
    "Operator": "opcode_index:u32 inputs:[i32] outputs:[i32] builtin_options_type:u8 builtin_options:at"
    " custom_options:[bytes] _ _ intermediates:[i32] large_custom_options_offset:u64"
    " large_custom_options_size:u64 builtin_options_2_type:u8",
    "Buffer": "data:[bytes] offset:u64 size:u64",
}

_FUSED = "fused_activation:i8"
_DILATION = "dilation_w:i32=1 dilation_h:i32=1"
# Options of operators, by type name without "Options"; types that are not listed have no fields.
OPTIONS = {
    "Conv2D": f"padding:i8 stride_w:i32 stride_h:i32 {_FUSED} {_DILATION} quantized_bias_type:i8",
    "Conv3D": f"padding:i8 stride_d:i32 stride_w:i32 stride_h:i32 {_FUSED} dilation_d:i32=1 {_DILATION}",
    "Pool2D": f"padding:i8 stride_w:i32 stride_h:i32 filter_width:i32 filter_height:i32 {_FUSED}",
    "DepthwiseConv2D": f"padding:i8 stride_w:i32 stride_h:i32 depth_multiplier:i32 {_FUSED} {_DILATION}",
    "TransposeConv": f"padding:i8 stride_w:i32 stride_h:i32 {_FUSED}",
    "FullyConnected": f"{_FUSED} weights_format:i8 keep_num_dims:bool asymmetric_quantize_inputs:bool"
    " quantized_bias_type:i8",
    "Softmax": "beta:f32",
    "Concatenation": f"axis:i32 {_FUSED}",
    "Add": f"{_FUSED} pot_scale_int16:bool=1",
    "Sub": f"{_FUSED} pot_scale_int16:bool=1",
    "Mul": _FUSED,
    "Div": _FUSED,
    "L2Norm": _FUSED,
    "LocalResponseNormalization": "radius:i32 bias:f32 alpha:f32 beta:f32",
    "UnidirectionalSequenceLSTM": f"{_FUSED} cell_clip:f32 proj_clip:f32 time_major:bool"
    " asymmetric_quantize_inputs:bool diagonal:bool",
    "BidirectionalSequenceLSTM": f"{_FUSED} cell_clip:f32 proj_clip:f32 merge_outputs:bool time_major:bool=1",
    "SequenceRNN": f"time_major:bool {_FUSED} asymmetric_quantize_inputs:bool",
    "ResizeBilinear": "_ _ align_corners:bool half_pixel_centers:bool",
    "ResizeNearestNeighbor": "align_corners:bool half_pixel_centers:bool",
    "Reshape": "new_shape:[i32]",
    "SpaceToDepth": "block_size:i32",
    "DepthToSpace": "block_size:i32",
    "Gather": "axis:i32 batch_dims:i32",
    "Reducer": "keep_dims:bool",
    "Squeeze": "squeeze_dims:[i32]",
    "Split": "num_splits:i32",
    "SplitV": "num_splits:i32",
    "StridedSlice": "begin_mask:i32 end_mask:i32 ellipsis_mask:i32 new_axis_mask:i32 shrink_axis_mask:i32 offset:bool",
    "Cast": "in_data_type:i8 out_data_type:i8",
    "ArgMax": "output_type:i8",
    "ArgMin": "output_type:i8",
    "Shape": "out_type:i8",
    "FakeQuant": "min:f32 max:f32 num_bits:i32 narrow_range:bool",
    "Pack": "values_count:i32 axis:i32",
    "OneHot": "axis:i32",
    "Unpack": "num:i32 axis:i32",
    "LeakyRelu": "alpha:f32",
    "MirrorPad": "mode:i8",
    "ReverseSequence": "seq_dim:i32 batch_dim:i32",
    "BatchMatMul": "adj_x:bool adj_y:bool asymmetric_quantize_inputs:bool",
    "Cumsum": "exclusive:bool reverse:bool",
    "Gelu": "approximate:bool",
    "Bucketize": "boundaries:[f32]",
    "SVDF": f"rank:i32 {_FUSED} asymmetric_quantize_inputs:bool",
    "RNN": f"{_FUSED} asymmetric_quantize_inputs:bool",
    "LSTM": f"{_FUSED} cell_clip:f32 proj_clip:f32 kernel_type:i8 asymmetric_quantize_inputs:bool",
    "If": "then_subgraph_index:i32 else_subgraph_index:i32",
    "While": "cond_subgraph_index:i32 body_subgraph_index:i32",
    "CallOnce": "init_subgraph_index:i32",
    "VarHandle": "container:str shared_name:str",
}

# The types of options of operators whose option type has another name than the operator.
_OPTIONS_OF = {
    "SVDF": "SVDF", "RNN": "RNN", "LSTM": "LSTM", "CONV_3D_TRANSPOSE": "Conv3D",
    "CONV_2D": "Conv2D", "CONV_3D": "Conv3D", "DEPTHWISE_CONV_2D": "DepthwiseConv2D", "AVERAGE_POOL_2D": "Pool2D",
    "MAX_POOL_2D": "Pool2D", "L2_POOL_2D": "Pool2D", "L2_NORMALIZATION": "L2Norm", "BATCH_MATMUL": "BatchMatMul",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "UnidirectionalSequenceLSTM", "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNN",
    "BIDIRECTIONAL_SEQUENCE_LSTM": "BidirectionalSequenceLSTM",
    **dict.fromkeys("MEAN SUM REDUCE_MAX REDUCE_MIN REDUCE_PROD REDUCE_ANY REDUCE_ALL".split(), "Reducer"),
}  # fmt: skip


def options_of(operator: str) -> str:
    """Return the type of the options of an operator."""
    return _OPTIONS_OF.get(operator) or "".join(part.capitalize() for part in operator.split("_"))


__all__ = ["ACTIVATIONS", "OPERATORS", "OPTIONS", "OPTION_TYPES", "TABLES", "TENSOR_TYPES", "options_of"]

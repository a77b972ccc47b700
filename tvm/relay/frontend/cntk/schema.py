"""The schemas of CNTK's file formats: the protobuf messages of CNTK 2, and the node fields of the older binary
format."""

from __future__ import annotations

from ..common.protobuf import Schema

MESSAGES = """
Shape: shape_dim 1* uint64
Axis: static_axis_idx 1 int32, name 2 string, is_ordered_dynamic_axis 3 bool
Floats: value 1* float
Doubles: value 1* double
Bytes: value 1 bytes
Ints: value 1* sint32
Array: data_type 1 int32, storage_format 2 int32, shape 3 Shape, float_values 4 Floats, double_values 5 Doubles, \
bytes_value 6 Bytes, sint32_values 7 Ints
Vector: value 1* Value
Pair: key 1 string, value 2 Value
Dictionary: version 1 uint64, data 2* Pair
Value: version 1 uint64, value_type 2 int32, bool_value 3 bool, int_value 4 int32, size_t_value 5 uint64, \
float_value 6 float, double_value 7 double, string_value 8 string, nd_shape_value 9 Shape, axis_value 10 Axis, \
vector_value 11 Vector, dictionary_value 12 Dictionary, nd_array_view_value 13 Array
"""
FILES = Schema("cntk", MESSAGES)
# The element types of arrays and variables.
DTYPES = {1: "float32", 2: "float64", 4: "float16", 5: "int8", 6: "int16"}
# The kinds of variables.
INPUT, OUTPUT, PARAMETER, CONSTANT, PLACEHOLDER = range(5)

# The operators of CNTK 2; the position in the list is the operator's number.
_OPERATORS = """Negate Sigmoid Tanh ReLU Exp Log Sqrt Floor Abs Reciprocal Softmax Hardmax TransposeAxes Where Slice
Dropout Reshape Pooling SumAll Plus Minus ElementTimes Equal NotEqual Less LessEqual Greater GreaterEqual PackedIndex
GatherPacked ScatterPacked Times TransposeTimes Convolution SquaredError CrossEntropyWithSoftmax ClassificationError
PastValue FutureValue ReduceElements BatchNormalization Clip Select Splice Combine RandomSample
RandomSampleInclusionFrequency ROIPooling Logistic OptimizedRNNStack ReconcileDynamicAxis LogSoftmax LogPlus CosDistance
Sin Cos Pass Block Unpooling LambdaRank NDCG EditDistanceError NoOp LabelsToGraph StopGradient ELU ForwardBackward
CosDistanceWithNegativeSamples OneHot Pow ToSequence ToSequenceLike UnpackSequence Assign Gather StableSigmoid
RandomDistribution Sinh Cosh UnpackBatch ToBatch Asin Acos Pad Crop Atanh Asinh TopK Squeeze ConstantOp
LatticeSequenceWithSoftmax Cast EyeLike CustomProxyOp StraightThrough Tan Atan ConvolutionSequenceShape"""
OPERATORS = dict(enumerate(_OPERATORS.split()))

# -- the binary format ------------------------------------------------------------------------------------------------

# Node fields: name, type, and the first file version that has the field.
_WINDOW = (
    ("kernelShape", "shape", 5), ("mapCount", "shape", 5), ("strides", "shape", 5), ("sharing", "bools", 5),
    ("autoPadding", "bools", 5), ("lowerPad", "shape", 5), ("upperPad", "shape", 5), ("poolKind", "i32", 5),
    ("imageLayout", "i32", 5), ("maxTempMemSizeInSamples", "u64", 5), ("transpose", "bool", 9),
    ("outputShape", "shape", 20), ("ceilOutDim", "bool", 21), ("includePad", "bool", 23),
)  # fmt: skip
_OLD_WINDOW = (("width", "u32", 0), ("imageLayout", "u32", 0), ("height", "u64", 0), ("strideX", "u64", 0),
               ("strideY", "u64", 0))  # fmt: skip
_PRODUCT = (("outputRank", "u64", 3), ("inferInputRankToMap", "i32", 12))
_RANDOM = (("rngSeed", "u32", 16, 16), ("rngSeed", "u64", 17), ("rngOffset", "u64", 16))
_KEPT = (("hasComputed", "bool", 0), ("value", "matrix", 0))
FIELDS: dict[str, tuple] = {
    "Convolution": (*_WINDOW, ("convolution2D", "bool", 5), ("dilation", "shape", 18)),
    "Pooling": _WINDOW,
    "MaxUnpooling": _WINDOW,
    "MaxPooling": _OLD_WINDOW,
    "AveragePooling": _OLD_WINDOW,
    "Times": _PRODUCT,
    "TransposeTimes": _PRODUCT,
    "Dropout": _RANDOM,
    "ROIPooling": (("roiOutputShape", "shape", 0), ("poolKind", "i32", 26), ("spatialScale", "f64", 26)),
    "Reshape": (("beginAxis", "i32", 0), ("endAxis", "i32", 0), ("newShape", "shape", 0)),
    "RowStack": (("spliceDim", "i32", 3),),
    "RowRepeat": (("count", "u64", 0),),
    "Mean": _KEPT,
    "InvStdDev": _KEPT,
    "Where": (("axisName", "text", 11),),
    "UnpackSequence": (("padding", "f32", 0), ("sequenceUnpackSuppressMaskOutput", "bool", 0)),
    "ToSequence": (("axisName", "text", 0),),
    "Crop": (("xOffset", "f64", 0), ("yOffset", "f64", 0)),
}
# Node types without fields.
PLAIN = frozenset(
    """
Abs Acos Asin Asinh Atan Atanh Cast ClassificationError Clip CosDistance Cosh Cosine CrossEntropy
CrossEntropyWithSoftmax DiagTimes DynamicAxis ElementTimes Equal ErrorPrediction Exp ExponentialLinearUnit Floor
Gather GatherPacked Greater GreaterEqual Hardmax If Less LessEqual Log LogPlus LogSoftmax Logistic Minus Negate
NotEqual PackedIndex Pass PerDimMeanVarDeNormalization PerDimMeanVarNormalization Plus Pow Reciprocal
ReconcileDynamicAxis RectifiedLinear Scale Sigmoid Sin Sinh Softmax Sqrt SquareError StableSigmoid StopGradient
StraightThrough SumColumnElements SumElements Tan Tanh
""".split()
)
# Maps operator names of the binary format to those of CNTK 2.
RENAMED = {"RectifiedLinear": "ReLU", "Cosine": "Cos", "TransposeDimensions": "TransposeAxes", "If": "Select",
           "SumElements": "SumAll", "SquareError": "SquaredError", "ErrorPrediction": "ClassificationError",
           "RowStack": "Splice", "MaxUnpooling": "Unpooling", "MaxPooling": "Pooling", "AveragePooling": "Pooling",
           "Scale": "ElementTimes", "ExponentialLinearUnit": "ELU", "DiagTimes": "ElementTimes"}  # fmt: skip
# Maps the input order of the binary format to that of CNTK 2 where the two differ.
REORDERED = {"Clip": (2, 0, 1), "GatherPacked": (1, 0)}

__all__ = ["CONSTANT", "DTYPES", "FIELDS", "FILES", "INPUT", "OPERATORS", "OUTPUT", "PARAMETER", "PLACEHOLDER", "PLAIN",
           "RENAMED", "REORDERED"]  # fmt: skip

"""The protobuf schema of Core ML files: models, pipelines, features and ML programs. ``layer_schema.py`` has the
layers.

``common/protobuf.py`` describes the notation. Enums are numbers.
"""

from __future__ import annotations

from ..common.protobuf import Schema
from .layer_schema import LAYER_MESSAGES

_MODELS = """
Model: specificationVersion 1 int32, description 2 ModelDescription, isUpdatable 10 bool, \
pipelineClassifier 200 PipelineWrapper, pipelineRegressor 201 PipelineWrapper, pipeline 202 Pipeline, \
glmRegressor 300 Empty, supportVectorRegressor 301 Empty, treeEnsembleRegressor 302 Empty, \
neuralNetworkRegressor 303 NeuralNetwork, bayesianProbitRegressor 304 Empty, glmClassifier 400 Empty, \
supportVectorClassifier 401 Empty, treeEnsembleClassifier 402 Empty, neuralNetworkClassifier 403 Classifier, \
kNearestNeighborsClassifier 404 Empty, neuralNetwork 500 NeuralNetwork, itemSimilarityRecommender 501 Empty, \
mlProgram 502 Program, customModel 555 Empty, linkedModel 556 Empty, classConfidenceThresholding 560 Empty, \
oneHotEncoder 600 Empty, imputer 601 Empty, featureVectorizer 602 Empty, dictVectorizer 603 Empty, scaler 604 Empty, \
categoricalMapping 606 Empty, normalizer 607 Empty, arrayFeatureExtractor 609 Empty, \
nonMaximumSuppression 610 Empty, identity 900 Empty, textClassifier 2000 Empty, wordTagger 2001 Empty, \
visionFeaturePrint 2002 Empty, soundAnalysisPreprocessing 2003 Empty, gazetteer 2004 Empty, \
wordEmbedding 2005 Empty, audioFeaturePrint 2006 Empty, serializedModel 3000 Empty
Pipeline: models 1* Model, names 2* string
PipelineWrapper: pipeline 1 Pipeline
ModelDescription: input 1* FeatureDescription, output 10* FeatureDescription, state 13* FeatureDescription, \
predictedFeatureName 11 string, predictedProbabilitiesName 12 string, defaultFunctionName 21 string
FeatureDescription: name 1 string, type 3 FeatureType
FeatureType: int64Type 1 Empty, doubleType 2 Empty, stringType 3 Empty, imageType 4 ImageFeatureType, \
multiArrayType 5 ArrayFeatureType, dictionaryType 6 Empty, sequenceType 7 Empty, stateType 8 Empty, \
isOptional 1000 bool
ImageFeatureType: width 1 int64, height 2 int64, colorSpace 3 int32
ArrayFeatureType: shape 1* int64, dataType 2 int32, intDefaultValue 41 int32, floatDefaultValue 51 float, \
doubleDefaultValue 61 double
Empty:
"""

_PROGRAMS = """
Program: version 1 int64, functions 2* FunctionPair
FunctionPair: key 1 string, value 2 Function
Function: inputs 1* NamedValueType, opset 2 string, block_specializations 3* BlockPair
BlockPair: key 1 string, value 2 Block
Block: inputs 1* NamedValueType, outputs 2* string, operations 3* Operation
Argument: arguments 1* Binding
Binding: name 1 string, value 2 Value
Operation: type 1 string, inputs 2* ArgumentPair, outputs 3* NamedValueType, blocks 4* Block, attributes 5* ValuePair
ArgumentPair: key 1 string, value 2 Argument
ValuePair: key 1 string, value 2 Value
NamedValueType: name 1 string, type 2 ValueType
ValueType: tensorType 1 TensorType, listType 2 Empty, tupleType 3 Empty, dictionaryType 4 Empty, stateType 5 Empty
TensorType: dataType 1 int32, rank 2 int64, dimensions 3* Dimension
Dimension: constant 1 KnownSize, unknown 2 OpenSize
KnownSize: size 1 uint64
OpenSize: variadic 1 bool
Value: type 2 ValueType, immediateValue 3 Immediate, blobFileValue 5 BlobPlace
Immediate: tensor 1 TensorValue, tuple 2 ListValue, list 3 ListValue, dictionary 4 Empty
BlobPlace: fileName 1 string, offset 2 uint64
TensorValue: floats 1 Floats, ints 2 Ints, bools 3 Bools, strings 4 Strings, longInts 5 LongInts, bytes 7 Bytes
Floats: values 1* float
Ints: values 1* int32
LongInts: values 1* int64
Bools: values 1* bool
Strings: values 1* string
Bytes: values 1 bytes
ListValue: values 1* Value
"""

# The element types of ML program values, of array features and of the weights file. Integers of fewer than 8 bits are
# named by their number of bits.
VALUE_TYPES = {1: "bool", 2: "string", 10: "float16", 11: "float32", 12: "float64", 13: "bfloat16", 21: "int8",
               22: "int16", 23: "int32", 24: "int64", 25: "int4", 31: "uint8", 32: "uint16", 33: "uint32", 34: "uint64",
               35: "uint4", 36: "uint2", 37: "uint1", 38: "uint6", 39: "uint3"}  # fmt: skip
FEATURE_TYPES = {65568: "float32", 65600: "float64", 131104: "int32", 131080: "int8", 65552: "float16"}
BLOB_TYPES = {1: "float16", 2: "float32", 3: "uint8", 4: "int8", 5: "bfloat16", 6: "int16", 7: "uint16", 8: "int4",
              9: "uint1", 10: "uint2", 11: "uint4", 12: "uint3", 13: "uint6", 14: "int32",
              15: "uint32"}  # fmt: skip
# The color spaces of images.
GRAYSCALE, RGB, BGR, GRAYSCALE_HALF = 10, 20, 30, 40

FILES = Schema("coreml", _MODELS.rstrip() + _PROGRAMS.rstrip() + LAYER_MESSAGES)
parse = FILES.parse

__all__ = ["BGR", "BLOB_TYPES", "FEATURE_TYPES", "FILES", "GRAYSCALE", "GRAYSCALE_HALF", "RGB", "VALUE_TYPES", "parse"]

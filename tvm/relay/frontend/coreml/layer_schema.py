"""The protobuf schema of neural network layers. Layers with equal parameters share a message."""

LAYER_MESSAGES = """
NeuralNetwork: layers 1* Layer, preprocessing 2* Preprocessing, arrayInputShapeMapping 5 int32, \
imageInputShapeMapping 6 int32
ImageScaler: channelScale 10 float, blueBias 20 float, greenBias 21 float, redBias 22 float, grayBias 30 float
MeanImage: meanImage 1* float
Preprocessing: featureName 1 string, scaler 10 ImageScaler, meanImage 11 MeanImage
Alpha: alpha 1 float
AlphaBeta: alpha 1 float, beta 2 float
ActivationPReLU: alpha 1 WeightParams
ActivationParametricSoftplus: alpha 1 WeightParams, beta 2 WeightParams
ActivationParams: linear 5 AlphaBeta, ReLU 10 Empty, leakyReLU 15 Alpha, thresholdedReLU 20 Alpha, \
PReLU 25 ActivationPReLU, tanh 30 Empty, scaledTanh 31 AlphaBeta, sigmoid 40 Empty, sigmoidHard 41 AlphaBeta, \
ELU 50 Alpha, softsign 60 Empty, softplus 70 Empty, parametricSoftplus 71 ActivationParametricSoftplus
Layer: name 1 string, input 2* string, output 3* string, convolution 100 Convolution, pooling 120 Pooling, \
activation 130 ActivationParams, innerProduct 140 InnerProduct, embedding 150 Embedding, batchnorm 160 Batchnorm, \
mvn 165 MeanVarianceNormalize, l2normalize 170 Epsilon, softmax 175 Empty, lrn 180 LRN, crop 190 Crop, \
padding 200 Padding, upsample 210 Upsample, resizeBilinear 211 ResizeBilinear, cropResize 212 CropResize, \
unary 220 UnaryFunction, add 230 Alpha, multiply 231 Alpha, average 240 Empty, scale 245 Scale, bias 250 Bias, \
max 260 Empty, min 261 Empty, dot 270 DotProduct, reduce 280 Reduce, loadConstant 290 LoadConstant, \
reshape 300 Reshape, flatten 301 Mode, permute 310 Permute, concat 320 Concat, split 330 Split, \
sequenceRepeat 340 SequenceRepeat, reorganizeData 345 ReorganizeData, slice 350 Slice, \
simpleRecurrent 400 SimpleRecurrent, gru 410 GRU, uniDirectionalLSTM 420 UniDirectionalLSTM, \
biDirectionalLSTM 430 BiDirectionalLSTM, custom 500 Empty, copy 600 Empty, branch 605 Branch, loop 615 Loop, \
loopBreak 620 Empty, loopContinue 625 Empty, rangeStatic 635 RangeStatic, rangeDynamic 640 RangeDynamic, \
clip 660 Clip, ceil 665 Empty, floor 670 Empty, sign 680 Empty, round 685 Empty, exp2 700 Empty, sin 710 Empty, \
cos 715 Empty, tan 720 Empty, asin 730 Empty, acos 735 Empty, atan 740 Empty, sinh 750 Empty, cosh 755 Empty, \
tanh 760 Empty, asinh 770 Empty, acosh 775 Empty, atanh 780 Empty, erf 790 Empty, gelu 795 Mode, equal 815 Alpha, \
notEqual 820 Alpha, lessThan 825 Compared, lessEqual 827 Compared, greaterThan 830 Compared, \
greaterEqual 832 Compared, logicalOr 840 Empty, logicalXor 845 Empty, logicalNot 850 Empty, logicalAnd 855 Empty, \
modBroadcastable 865 Empty, minBroadcastable 870 Empty, maxBroadcastable 875 Empty, addBroadcastable 880 Empty, \
powBroadcastable 885 Empty, divideBroadcastable 890 Empty, floorDivBroadcastable 895 Empty, \
multiplyBroadcastable 900 Empty, subtractBroadcastable 905 Empty, tile 920 Tile, stack 925 Axis, gather 930 Axis, \
scatter 935 ScatterAxis, gatherND 940 Empty, scatterND 945 Mode, softmaxND 950 Axis, gatherAlongAxis 952 Axis, \
scatterAlongAxis 954 ScatterAxis, reverse 960 Reverse, reverseSeq 965 ReverseSeq, splitND 975 SplitND, \
concatND 980 ConcatND, transpose 985 Transpose, sliceStatic 995 SliceStatic, sliceDynamic 1000 SliceDynamic, \
slidingWindows 1005 SlidingWindows, topK 1015 TopK, argMin 1020 ArgReduce, argMax 1025 ArgReduce, \
embeddingND 1040 EmbeddingND, batchedMatmul 1045 BatchedMatMul, getShape 1065 Empty, \
loadConstantND 1070 LoadConstant, fillLike 1080 Fill, fillStatic 1085 FillStatic, fillDynamic 1090 Fill, \
broadcastToLike 1100 Empty, broadcastToStatic 1105 Sizes, broadcastToDynamic 1110 Empty, squeeze 1120 Squeeze, \
expandDims 1125 Axes, flattenTo2D 1130 Axis, reshapeLike 1135 Empty, reshapeStatic 1140 TargetShape, \
reshapeDynamic 1145 Empty, rankPreservingReshape 1150 TargetShape, constantPad 1155 ConstantPadding, \
randomNormalLike 1170 Empty, randomNormalStatic 1175 Empty, randomNormalDynamic 1180 Empty, \
randomUniformLike 1190 Empty, randomUniformStatic 1195 Empty, randomUniformDynamic 1200 Empty, \
randomBernoulliLike 1210 Empty, randomBernoulliStatic 1215 Empty, randomBernoulliDynamic 1220 Empty, \
categoricalDistribution 1230 Empty, reduceL1 1250 ReduceAxes, reduceL2 1255 ReduceAxes, reduceMax 1260 ReduceAxes, \
reduceMin 1265 ReduceAxes, reduceSum 1270 ReduceAxes, reduceProd 1275 ReduceAxes, reduceMean 1280 ReduceAxes, \
reduceLogSum 1285 ReduceAxes, reduceSumSquare 1290 ReduceAxes, reduceLogSumExp 1295 ReduceAxes, \
whereNonZero 1313 Empty, matrixBandPart 1315 MatrixBandPart, lowerTriangular 1320 Diagonal, \
upperTriangular 1325 Diagonal, whereBroadcastable 1330 Empty, layerNormalization 1350 LayerNormalization, \
NonMaximumSuppression 1400 NonMaximumSuppression, oneHot 1450 OneHot, cumSum 1455 CumSum, \
clampedReLU 1460 AlphaBeta, argSort 1461 ArgSort, pooling3d 1465 Pooling3D, globalPooling3d 1466 PoolingType, \
sliceBySize 1470 SliceBySize, convolution3d 1471 Convolution3D
Branch: ifBranch 1 NeuralNetwork, elseBranch 2 NeuralNetwork
Loop: maxLoopIterations 1 uint64, conditionVar 2 string, conditionNetwork 3 NeuralNetwork, \
bodyNetwork 4 NeuralNetwork
Compared: alpha 2 float
BorderAmounts: borderAmounts 10* EdgeSizes
EdgeSizes: startEdgeSize 1 uint64, endEdgeSize 2 uint64
ValidPadding: paddingAmounts 1 BorderAmounts
SamePadding: asymmetryMode 1 int32
Sampling: samplingMethod 1 int32
BoxCoordinatesMode: boxMode 1 int32
WeightParams: floatValue 1* float, float16Value 2 bytes, rawValue 30 bytes, int8RawValue 31 bytes, \
quantization 40 QuantizationParams
QuantizationParams: numberOfBits 1 uint64, linearQuantization 101 LinearQuantizationParams, \
lookupTableQuantization 102 LookUpTableQuantizationParams
LinearQuantizationParams: scale 1* float, bias 2* float
LookUpTableQuantizationParams: floatValue 1* float
Convolution: outputChannels 1 uint64, kernelChannels 2 uint64, nGroups 10 uint64, kernelSize 20* uint64, \
stride 30* uint64, dilationFactor 40* uint64, valid 50 ValidPadding, same 51 SamePadding, isDeconvolution 60 bool, \
hasBias 70 bool, weights 90 WeightParams, bias 91 WeightParams, outputShape 100* uint64
Convolution3D: outputChannels 1 int32, inputChannels 2 int32, nGroups 10 int32, kernelDepth 20 int32, \
kernelHeight 21 int32, kernelWidth 22 int32, strideDepth 31 int32, strideHeight 32 int32, strideWidth 33 int32, \
dilationDepth 40 int32, dilationHeight 41 int32, dilationWidth 42 int32, hasBias 50 bool, weights 60 WeightParams, \
bias 61 WeightParams, paddingType 70 int32, customPaddingFront 80 int32, customPaddingBack 81 int32, \
customPaddingTop 82 int32, customPaddingBottom 83 int32, customPaddingLeft 84 int32, customPaddingRight 85 int32, \
isDeconvolution 86 bool, outputShape 87* uint64
InnerProduct: inputChannels 1 uint64, outputChannels 2 uint64, hasBias 10 bool, weights 20 WeightParams, \
bias 21 WeightParams, int8DynamicQuantize 22 bool
Embedding: inputDim 1 uint64, outputChannels 2 uint64, hasBias 10 bool, weights 20 WeightParams, bias 21 WeightParams
EmbeddingND: vocabSize 1 uint64, embeddingSize 2 uint64, hasBias 3 bool, weights 20 WeightParams, \
bias 21 WeightParams
Batchnorm: channels 1 uint64, computeMeanVar 5 bool, instanceNormalization 6 bool, epsilon 10 float, \
gamma 15 WeightParams, beta 16 WeightParams, mean 17 WeightParams, variance 18 WeightParams
Pooling: type 1 int32, kernelSize 10* uint64, stride 20* uint64, valid 30 ValidPadding, same 31 SamePadding, \
includeLastPixel 32 CompletePadding, avgPoolExcludePadding 50 bool, globalPooling 60 bool
CompletePadding: paddingAmounts 10* uint64
Pooling3D: type 1 int32, kernelDepth 2 int32, kernelHeight 3 int32, kernelWidth 4 int32, strideDepth 5 int32, \
strideHeight 6 int32, strideWidth 7 int32, paddingType 15 int32, customPaddingFront 8 int32, \
customPaddingBack 9 int32, customPaddingTop 10 int32, customPaddingBottom 11 int32, customPaddingLeft 12 int32, \
customPaddingRight 13 int32, countExcludePadding 14 bool
PoolingType: type 1 int32
Padding: constant 1 Fill, reflection 2 Empty, replication 3 Empty, paddingAmounts 10 BorderAmounts
Fill: value 1 float
Concat: sequenceConcat 100 bool
LRN: alpha 1 float, beta 2 float, localSize 3 uint64, k 4 float
Split: nOutputs 1 uint64
UnaryFunction: type 1 int32, alpha 2 float, epsilon 3 float, shift 4 float, scale 5 float
Upsample: scalingFactor 1* uint64, fractionalScalingFactor 7* float, mode 5 int32, linearUpsampleMode 6 int32
ResizeBilinear: targetSize 1* uint64, mode 2 Sampling
CropResize: targetSize 1* uint64, normalizedCoordinates 2 bool, mode 3 Sampling, \
boxIndicesMode 4 BoxCoordinatesMode, spatialScale 5 float
Bias: shape 1* uint64, bias 2 WeightParams
Scale: shapeScale 1* uint64, scale 2 WeightParams, hasBias 3 bool, shapeBias 4* uint64, bias 5 WeightParams
LoadConstant: shape 1* uint64, data 2 WeightParams
Epsilon: epsilon 1 float
Mode: mode 1 int32
Reshape: targetShape 1* int64, mode 2 int32
Permute: axis 1* uint64
ReorganizeData: mode 1 int32, blockSize 2 uint64
Slice: startIndex 1 int64, endIndex 2 int64, stride 3 uint64, axis 4 int32
Reduce: mode 1 int32, epsilon 2 float, axis 3 int32
Crop: cropAmounts 1 BorderAmounts, offset 5* uint64
DotProduct: cosineSimilarity 1 bool
MeanVarianceNormalize: acrossChannels 1 bool, normalizeVariance 2 bool, epsilon 3 float
SequenceRepeat: nRepetitions 1 uint64
SimpleRecurrent: inputVectorSize 1 uint64, outputVectorSize 2 uint64, activation 10 ActivationParams, \
sequenceOutput 15 bool, hasBiasVector 20 bool, weightMatrix 30 WeightParams, recursionMatrix 31 WeightParams, \
biasVector 32 WeightParams, reverseInput 100 bool
GRU: inputVectorSize 1 uint64, outputVectorSize 2 uint64, activations 10* ActivationParams, sequenceOutput 15 bool, \
hasBiasVectors 20 bool, updateGateWeightMatrix 30 WeightParams, resetGateWeightMatrix 31 WeightParams, \
outputGateWeightMatrix 32 WeightParams, updateGateRecursionMatrix 50 WeightParams, \
resetGateRecursionMatrix 51 WeightParams, outputGateRecursionMatrix 52 WeightParams, \
updateGateBiasVector 70 WeightParams, resetGateBiasVector 71 WeightParams, outputGateBiasVector 72 WeightParams, \
reverseInput 100 bool
LSTMParams: sequenceOutput 10 bool, hasBiasVectors 20 bool, forgetBias 30 bool, hasPeepholeVectors 40 bool, \
coupledInputAndForgetGate 50 bool, cellClipThreshold 60 float
LSTMWeightParams: inputGateWeightMatrix 1 WeightParams, forgetGateWeightMatrix 2 WeightParams, \
blockInputWeightMatrix 3 WeightParams, outputGateWeightMatrix 4 WeightParams, \
inputGateRecursionMatrix 20 WeightParams, forgetGateRecursionMatrix 21 WeightParams, \
blockInputRecursionMatrix 22 WeightParams, outputGateRecursionMatrix 23 WeightParams, \
inputGateBiasVector 40 WeightParams, forgetGateBiasVector 41 WeightParams, blockInputBiasVector 42 WeightParams, \
outputGateBiasVector 43 WeightParams, inputGatePeepholeVector 60 WeightParams, \
forgetGatePeepholeVector 61 WeightParams, outputGatePeepholeVector 62 WeightParams
UniDirectionalLSTM: inputVectorSize 1 uint64, outputVectorSize 2 uint64, activations 10* ActivationParams, \
params 15 LSTMParams, weightParams 20 LSTMWeightParams, reverseInput 100 bool
BiDirectionalLSTM: inputVectorSize 1 uint64, outputVectorSize 2 uint64, activationsForwardLSTM 10* ActivationParams, \
activationsBackwardLSTM 11* ActivationParams, params 15 LSTMParams, weightParams 20* LSTMWeightParams
Transpose: axes 1* uint64
BatchedMatMul: transposeA 1 bool, transposeB 2 bool, weightMatrixFirstDimension 5 uint64, \
weightMatrixSecondDimension 6 uint64, hasBias 7 bool, weights 8 WeightParams, bias 9 WeightParams, \
int8DynamicQuantize 10 bool
ConcatND: axis 1 int64, interleave 2 bool
Axis: axis 1 int64
Reverse: reverseDim 1* bool
ReverseSeq: batchAxis 1 int64, sequenceAxis 2 int64
FillStatic: value 1 float, targetShape 2* uint64
MatrixBandPart: numLower 1 int64, numUpper 2 int64
Diagonal: k 1 int64
Sizes: targetShape 1* uint64
ScatterAxis: axis 1 int64, mode 2 int32
TargetShape: targetShape 1* int64
ConstantPadding: value 1 float, padAmounts 2* uint64, padToGivenOutputSizeMode 3 bool
ReduceAxes: axes 1* int64, keepDims 2 bool, reduceAll 3 bool
Axes: axes 1* int64
Squeeze: axes 1* int64, squeezeAll 2 bool
TopK: axis 1 int64, K 2 uint64, useBottomK 3 bool
ArgReduce: axis 1 int64, removeDim 2 bool
SplitND: axis 1 int64, numSplits 2 uint64, splitSizes 3* uint64
Clip: minVal 1 float, maxVal 2 float
SliceStatic: beginIds 1* int64, beginMasks 2* bool, endIds 3* int64, endMasks 4* bool, strides 5* int64, \
squeezeMasks 6* bool
SliceDynamic: beginMasks 2* bool, endIds 3* int64, endMasks 4* bool, strides 5* int64, squeezeMasks 6* bool
Tile: reps 1* uint64
RangeStatic: endValue 1 float, startValue 2 float, stepSizeValue 3 float
RangeDynamic: startValue 2 float, stepSizeValue 3 float
SlidingWindows: axis 1 int64, windowSize 2 uint64, step 3 uint64
LayerNormalization: normalizedShape 1* int64, eps 2 float, gamma 3 WeightParams, beta 4 WeightParams
NonMaximumSuppression: iouThreshold 1 float, scoreThreshold 2 float, maxBoxes 3 uint64, perClassSuppression 4 bool
ArgSort: axis 1 int64, descending 2 bool
SliceBySize: size 2 int64, axis 3 int64
Classifier: layers 1* Layer, preprocessing 2* Preprocessing, arrayInputShapeMapping 5 int32, \
imageInputShapeMapping 6 int32, labelProbabilityLayerName 200 string
OneHot: oneHotVectorSize 1 uint64, axis 2 int64, onValue 3 float, offValue 4 float
CumSum: axis 1 int64, excludeFinalSum 2 bool, reverse 3 bool
"""

# The first field number of layer types. Lower field numbers are the layer's name, inputs and outputs.
FIRST_KIND = 100

__all__ = ["FIRST_KIND", "LAYER_MESSAGES"]

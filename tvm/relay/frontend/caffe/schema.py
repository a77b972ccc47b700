"""The protobuf schema of weights files, and the layer types of the older (V1) format."""

from __future__ import annotations

from ..common.protobuf import Schema

FILES = Schema(
    "caffe",
    """
Shape: dim 1* int64
Blob: num 1 int32, channels 2 int32, height 3 int32, width 4 int32, data 5* float, shape 7 Shape, \
double_data 8* double, raw_data_type 10 int32, raw_data 12 bytes
Layer: name 1 string, type 2 string, blobs 7* Blob
OldLayer: name 4 string, type 5 int32, blobs 6* Blob
Net: name 1 string, layers 2* OldLayer, layer 100* Layer
""",
)

# The element types of blobs in raw bytes (`raw_data_type`).
RAW_TYPES = {0: "<f8", 1: "<f4", 2: "<f2"}
# V1 layer types (`layers` with upper-case types): the enum value, the old name and the new name.
OLD_TYPES = {
    0: ("NONE", ""), 1: ("ACCURACY", "Accuracy"), 2: ("BNLL", "BNLL"), 3: ("CONCAT", "Concat"),
    4: ("CONVOLUTION", "Convolution"), 5: ("DATA", "Data"), 6: ("DROPOUT", "Dropout"),
    7: ("EUCLIDEAN_LOSS", "EuclideanLoss"), 8: ("FLATTEN", "Flatten"), 9: ("HDF5_DATA", "HDF5Data"),
    10: ("HDF5_OUTPUT", "HDF5Output"), 11: ("IM2COL", "Im2col"), 12: ("IMAGE_DATA", "ImageData"),
    13: ("INFOGAIN_LOSS", "InfogainLoss"), 14: ("INNER_PRODUCT", "InnerProduct"), 15: ("LRN", "LRN"),
    16: ("MULTINOMIAL_LOGISTIC_LOSS", "MultinomialLogisticLoss"), 17: ("POOLING", "Pooling"), 18: ("RELU", "ReLU"),
    19: ("SIGMOID", "Sigmoid"), 20: ("SOFTMAX", "Softmax"), 21: ("SOFTMAX_LOSS", "SoftmaxWithLoss"),
    22: ("SPLIT", "Split"), 23: ("TANH", "TanH"), 24: ("WINDOW_DATA", "WindowData"), 25: ("ELTWISE", "Eltwise"),
    26: ("POWER", "Power"), 27: ("SIGMOID_CROSS_ENTROPY_LOSS", "SigmoidCrossEntropyLoss"),
    28: ("HINGE_LOSS", "HingeLoss"), 29: ("MEMORY_DATA", "MemoryData"), 30: ("ARGMAX", "ArgMax"),
    31: ("THRESHOLD", "Threshold"), 32: ("DUMMY_DATA", "DummyData"), 33: ("SLICE", "Slice"), 34: ("MVN", "MVN"),
    35: ("ABSVAL", "AbsVal"), 36: ("SILENCE", "Silence"), 37: ("CONTRASTIVE_LOSS", "ContrastiveLoss"),
    38: ("EXP", "Exp"), 39: ("DECONVOLUTION", "Deconvolution"),
}  # fmt: skip
NEW_NAMES = {**dict(OLD_TYPES.values()), **{str(k): new for k, (_, new) in OLD_TYPES.items()}}
# Layer types whose outputs are the inputs of the network at inference.
SOURCES = ("Input", "Data", "ImageData", "MemoryData", "HDF5Data", "WindowData", "AnnotatedData", "VideoData")
# Parameter fields that only affect training or select an implementation. They do not change the outputs.
FOR_TRAINING = {
    "weight_filler",
    "bias_filler",
    "scale_filler",
    "filler",
    "engine",
    "force_nd_im2col",
    "moving_average_fraction",
    "dropout_ratio",
    "scale_train",
    "stable_prod_grad",
    "debug_info",
    "save_output_param",
}

__all__ = ["FILES", "FOR_TRAINING", "NEW_NAMES", "OLD_TYPES", "RAW_TYPES", "SOURCES"]

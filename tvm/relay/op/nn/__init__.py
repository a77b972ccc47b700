"""Operators of neural networks."""

from .convolution import conv1d, conv2d, conv3d
from .dense import batch_flatten, batch_matmul, bias_add, dense, matmul
from .normalization import batch_norm, relu, softmax
from ..transform import pad
from .pooling import avg_pool2d, global_avg_pool2d, global_max_pool2d, max_pool2d


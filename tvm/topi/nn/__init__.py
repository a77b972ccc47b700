"""Operators of neural networks."""

from .convolution import (
    conv,
    conv1d,
    conv1d_ncw,
    conv1d_nwc,
    conv2d,
    conv2d_hwcn,
    conv2d_nchw,
    conv2d_nhwc,
    conv3d_ncdhw,
    conv3d_ndhwc,
    depthwise_conv2d_nchw,
    depthwise_conv2d_nhwc,
    group_conv2d_nchw,
    group_conv2d_nhwc,
)
from .dense import batch_matmul, dense, matmul
from .elemwise import leaky_relu, prelu, relu
from .pad import mirror_pad, pad
from .pooling import (
    adaptive_pool,
    adaptive_pool1d,
    adaptive_pool3d,
    global_pool,
    pool1d,
    pool2d,
    pool3d,
)
from .softmax import fast_softmax, log_softmax, softmax
from .utils import get_pad_tuple, get_pad_tuple1d, get_pad_tuple3d

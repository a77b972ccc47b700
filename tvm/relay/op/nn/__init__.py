"""Neural network operators."""

from ...expr import Constant, Expr, const
from .activation import dropout, dropout_raw, fast_softmax, leaky_relu, log_softmax, prelu, relu, softmax
from .convolution import conv1d, conv2d, conv3d
from .dense import batch_flatten, batch_matmul, bias_add, dense, matmul, sparse_dense
from .nbits import contrib_dense_nbits
from .normalization import (
    batch_norm,
    cross_entropy,
    cross_entropy_with_logits,
    group_norm,
    instance_norm,
    l2_normalize,
    layer_norm,
    lrn,
    nll_loss,
)
from .byte_conv import contrib_conv2d_nhwc_int8, contrib_depthwise_conv2d_nhwc_int8
from .packed import contrib_conv2d_nchwc, contrib_dense_pack, contrib_depthwise_conv2d_nchwc
from .pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    global_avg_pool1d,
    global_avg_pool2d,
    global_avg_pool3d,
    global_max_pool1d,
    global_max_pool2d,
    global_max_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from .space import (
    batch_to_space_nd,
    correlation,
    deformable_conv2d,
    depth_to_space,
    dilate,
    fifo_buffer,
    mirror_pad,
    pad,
    space_to_batch_nd,
    space_to_depth,
    upsampling,
    upsampling3d,
)
from .transposed import conv1d_transpose, conv2d_transpose, conv3d_transpose
from . import nn, packed_nd
from .winograd import contrib_conv2d_winograd_nchwc
from ....not_built import name_of as _name_of


def __getattr__(name: str):
    return _name_of(__name__, name)

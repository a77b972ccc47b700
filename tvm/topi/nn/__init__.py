"""Neural network operators."""

# A module and a function have this name; the name refers to the function.
from .conv2d import conv2d
from . import depthwise_conv2d, mapping
from ..layer_hooks import (
    batch_matmul_legalize,
    conv2d_alter_layout,
    conv2d_legalize,
    conv2d_transpose_legalize,
    conv3d_alter_layout,
    dense_alter_layout,
    dense_legalize,
    matmul_legalize,
)
from .convolution import (
    conv,
    conv1d,
    conv1d_ncw,
    conv1d_nwc,
    conv2d_hwcn,
    conv2d_nchw,
    conv2d_nhwc,
    conv3d_ncdhw,
    conv3d_ndhwc,
    depthwise_conv2d_nchw,
    depthwise_conv2d_nhwc,
    group_conv1d_ncw,
    group_conv1d_nwc,
    group_conv2d_nchw,
    group_conv2d_nhwc,
)
from .deformable import correlation_nchw, deformable_conv2d_nchw, deformable_conv2d_nhwc
from .dense import batch_matmul, dense, matmul
from .elemwise import leaky_relu, prelu, relu
from .nbits import dense_nbits
from .normalization import (
    l2_normalize,
    layer_norm,
    lrn,
    nll_loss,
    scale_shift_nchw,
    scale_shift_nchwc,
    scale_shift_nhwc,
)
from .norms import batch_norm, group_norm, instance_norm, rms_norm
from .blocked import conv2d_transpose_blocked, conv_blocked
from .byte_windows import conv2d_NHWC_int8, dense_int8, depthwise_conv2d_NHWC_int8
from .packed import (
    conv2d_NCHWc,
    conv2d_NCHWc_int8,
    dense_pack,
    depthwise_conv2d_NCHWc,
    depthwise_conv2d_NCHWc_int8,
)
from .pad import mirror_pad, pad
from .pool_grad import pool_grad
from .pooling import (
    adaptive_pool,
    adaptive_pool1d,
    adaptive_pool3d,
    global_pool,
    pool1d,
    pool2d,
    pool3d,
)
from .qnn import (
    SQNN_CODE_TO_DTYPE,
    SQNN_DISABLE,
    SQNN_DTYPE_TO_CODE,
    SQNN_INT8,
    SQNN_INT32,
    SQNN_UINT8,
    simulated_dequantize,
    simulated_quantize,
)
from .softmax import fast_softmax, log_softmax, softmax
from .space import (
    batch_to_space_nd,
    depth_to_space,
    dilate,
    fifo_buffer,
    flatten,
    space_to_batch_nd,
    space_to_depth,
)
from .sparse import sparse_dense
from .transposed import (
    conv1d_transpose_ncw,
    conv2d_transpose_nchw,
    conv3d_transpose_ncdhw,
    conv_transpose,
    group_conv2d_transpose_nchw,
)
from .upsampling import upsampling, upsampling3d
from .utils import get_pad_tuple, get_pad_tuple1d, get_pad_tuple3d
from .winograd import conv2d_winograd_NCHWc, conv2d_winograd_nchw
from .winograd_tiles import conv2d_winograd_tiles
from ..descriptions import describe as _describe
from ...not_built import name_of as _name_of

_describe(list(globals().values()), "tvm.topi")


def __getattr__(name: str):
    return _name_of(__name__, name)

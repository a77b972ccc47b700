"""NumPy reference implementations of the operators, and schedules for tests."""

from .common import (
    compare_numpy_tvm,
    dispatch,
    get_broadcast_schedule,
    get_conv2d_nchw_implement,
    get_elemwise_schedule,
    get_injective_schedule,
    get_reduce_schedule,
)
from .conv_python import (
    conv1d_ncw_python,
    conv1d_transpose_ncw_python,
    conv2d_hwcn_python,
    conv2d_nchw_python,
    conv2d_nhwc_python,
    conv2d_transpose_nchw_python,
    conv2d_transpose_nhwc_python,
    conv3d_ncdhw_python,
    conv3d_ndhwc_python,
    conv3d_transpose_ncdhw_python,
    conv_python,
    conv_transpose_python,
    correlation_nchw_python,
    deformable_conv2d_nchw_python,
    deformable_conv2d_nhwc_python,
    depthwise_conv2d_python_nchw,
    depthwise_conv2d_python_nchwc,
    depthwise_conv2d_python_nhwc,
)
from .grid_sample_python import affine_grid_python, grid_sample_python
from .indexing_python import (
    gather_nd_python,
    gather_python,
    matrix_set_diag,
    one_hot,
    searchsorted_ref,
    sequence_mask,
    strided_set_python,
    strided_slice_python,
)
from .nn_python import (
    adaptive_pool,
    batch_matmul,
    batch_to_space_nd_python,
    depth_to_space_python,
    dilate_python,
    l2_normalize_python,
    log_softmax_python,
    lrn_python,
    nll_loss,
    pool_grad_nchw,
    poolnd_python,
    softmax_python,
    space_to_batch_nd_python,
    space_to_depth_python,
)
from .norm_python import (
    batch_norm,
    dense,
    group_norm_python,
    instance_norm_python,
    layer_norm_python,
    rms_norm_python,
    slice_axis_python,
)
from .resize_python import crop_and_resize_python, resize1d_python, resize2d_python, resize3d_python
from .roi_python import reorg_python, roi_align_nchw_python, roi_align_nhwc_python, roi_pool_nchw_python

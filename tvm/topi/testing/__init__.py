"""NumPy references of the operators, and schedules for tests."""

from .common import (
    dispatch,
    get_broadcast_schedule,
    get_conv2d_nchw_implement,
    get_elemwise_schedule,
    get_injective_schedule,
    get_reduce_schedule,
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
from .resize_python import crop_and_resize_python, resize1d_python, resize2d_python, resize3d_python
from .roi_python import reorg_python, roi_align_nchw_python, roi_align_nhwc_python, roi_pool_nchw_python

"""Detection operators: non-maximum suppression, region pooling and anchors."""

from . import rcnn, ssd
from .nms import all_class_non_max_suppression, get_valid_counts, non_max_suppression
from .rcnn import proposal, roi_align_nchw, roi_align_nhwc, roi_pool, roi_pool_nchw
from .reorg import reorg
from .ssd import multibox_detection, multibox_prior, multibox_transform_loc
from ..descriptions import describe as _describe

_describe(list(globals().values()), "tvm.topi")

"""Apache TVM's names of operators and schedules for x86. They are aliases of the CPU implementations, which adapt to
the processor's features."""

from __future__ import annotations

from .. import generic, nn
from ..faces import face
from ..nn import depthwise_conv2d_nchw
from ..vision import roi_align_nchw
from . import dense_alter_op


def dense_dynamic(A, B, bias, dtype):
    """A dense layer with a dynamic batch size."""
    return nn.dense(A, B, bias, dtype)


globals().update({name: getattr(generic, name) for name in generic.__all__})
schedule_dense_dynamic = generic.schedule_dense

__getattr__ = face(__name__)

__all__ = [*generic.__all__, "dense_dynamic", "depthwise_conv2d_nchw", "roi_align_nchw", "schedule_dense_dynamic"]

"""``tvm.topi.cuda.reduction``: the schedule of reductions, under TVM's path."""

from . import schedule_reduce

__all__ = ["schedule_reduce"]

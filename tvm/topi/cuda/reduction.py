"""``tvm.topi.cuda.reduction``: the schedule of reductions, at Apache TVM's module path."""

from . import schedule_reduce

__all__ = ["schedule_reduce"]

"""``tvm.topi.cuda.injective``: schedules of what is computed element by element, under TVM's path."""

from . import schedule_broadcast, schedule_elemwise, schedule_injective

__all__ = ["schedule_broadcast", "schedule_elemwise", "schedule_injective"]

"""``tvm.topi.cuda.injective``: schedules of elementwise and injective operations, at Apache TVM's module path."""

from . import schedule_broadcast, schedule_elemwise, schedule_injective

__all__ = ["schedule_broadcast", "schedule_elemwise", "schedule_injective"]

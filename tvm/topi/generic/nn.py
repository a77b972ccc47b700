"""``tvm.topi.generic.nn``: schedules of neural network operators, at Apache TVM's module path."""

from . import *  # noqa: F403

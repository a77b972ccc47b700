"""``tvm.topi.generic.nn``: schedules of the operators of neural networks, under TVM's path."""

from . import *  # noqa: F403

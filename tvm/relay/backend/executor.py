"""``tvm.relay.backend.executor``: the choice of an executor, under TVM's path."""

from .options import Executor

__all__ = ["Executor"]

"""``tvm.relay.backend.executor``: the choice of an executor under the module path of Apache TVM."""

from .options import Executor

__all__ = ["Executor"]

"""``tvm.relay.backend.graph_executor_factory``: a compiled model under a deprecated module path of Apache TVM."""

from .executor_factory import GraphExecutorFactoryModule

__all__ = ["GraphExecutorFactoryModule"]

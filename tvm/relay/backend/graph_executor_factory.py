"""``tvm.relay.backend.graph_executor_factory``: a compiled model, under TVM's older path."""

from .executor_factory import GraphExecutorFactoryModule

__all__ = ["GraphExecutorFactoryModule"]

"""``tvm.relay.function``: functions of graphs, under TVM's path."""

from .expr import Function
from .with_fields import FunctionWithFields

__all__ = ["Function", "FunctionWithFields"]

"""``tvm.relay.function``: Relay functions under the module path of Apache TVM."""

from .expr import Function
from .with_fields import FunctionWithFields

__all__ = ["Function", "FunctionWithFields"]

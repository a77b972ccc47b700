"""``tvm.relay.backend.interpreter``: the Relay interpreter under the module path of Apache TVM."""

from ..interpreter import Closure, ConstructorValue, Executor, Interpreter, RefValue

__all__ = ["Closure", "ConstructorValue", "Executor", "Interpreter", "RefValue"]

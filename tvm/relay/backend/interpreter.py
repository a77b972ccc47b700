"""``tvm.relay.backend.interpreter``: running graphs directly, under TVM's path."""

from ..interpreter import Closure, ConstructorValue, Executor, Interpreter, RefValue

__all__ = ["Closure", "ConstructorValue", "Executor", "Interpreter", "RefValue"]

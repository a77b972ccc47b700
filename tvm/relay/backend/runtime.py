"""``tvm.relay.backend.runtime``: the choice of a runtime, under TVM's path."""

from .options import Runtime

__all__ = ["Runtime"]

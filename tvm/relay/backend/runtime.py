"""``tvm.relay.backend.runtime``: the choice of a runtime under the module path of Apache TVM."""

from .options import Runtime

__all__ = ["Runtime"]

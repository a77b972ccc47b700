"""``tvm.topi.x86.dense_alter_op``: dense layers with blocked weights, at Apache TVM's module path."""

from ..layer_hooks import x86_dense_alter_layout as _alter_dense_layout

__all__ = ["_alter_dense_layout"]

"""Finding operators and adding facts to their records, under TVM's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir.op import OPS, Op, register_intrin_lowering, register_op, register_op_attr
from .record import OpPattern

__all__ = ["Op", "OpPattern", "get", "register", "register_intrin_lowering", "register_op_attr"]


def get(op_name: str) -> Op:
    """The operator of this name."""
    return Op.get(op_name)


def register(op_name: str, describe: str = "") -> Op:
    """A new operator; the existing one if the name is known."""
    return OPS.get(op_name) or register_op(op_name, describe)


def _fact(key: str, doc: str) -> Callable[..., Any]:
    def set_fact(op_name: str, value: Any = None, level: int = 10) -> Any:
        return register_op_attr(op_name, key, value, level)

    set_fact.__doc__ = doc
    return set_fact


def register_pattern(op_name: str, pattern: int, level: int = 10) -> Any:
    """How the operator may be fused."""
    return _pattern(op_name, pattern, level)


_pattern = _fact("TOpPattern", "How the operator may be fused.")
register_stateful = _fact("TOpIsStateful", "Whether calls of the operator do more than give a result.")
register_legalize = _fact(
    "FTVMLegalize", "``(attrs, inputs, types) -> expression``: the operator in a form a target has."
)
register_alter_op_layout = _fact(
    "FTVMAlterOpLayout", "``(attrs, inputs, tinfos, out_type) -> expression`` in another layout."
)
register_convert_op_layout = _fact(
    "FTVMConvertOpLayout", "``(attrs, inputs, tinfos, desired_layouts) -> expression`` in the layouts asked for."
)
register_infer_correct_layout = _fact("FInferCorrectLayout", "``(attrs, new_in, old_in, old_types) -> layouts``.")
register_gradient = _fact("FPrimalGradient", "``(call, gradient) -> gradients of the inputs``.")
register_shape_func = _fact("FShapeFunc", "Computes the shape of the result when running.")
register_mixed_precision_conversion = _fact("FTVMMixedPrecisionConversionType", "The operator in half precision.")
register_external_compiler = _fact("target.compiler", "Whether another compiler takes the operator.")

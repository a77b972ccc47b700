"""Look up operators and register their attributes, under the names of Apache TVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...docstring import docstring
from ...error import TVMError
from ...ir.op import OPS, Op, register_intrin_lowering, register_op, register_op_attr
from ...not_built import name_of
from .implementation import OpImplementation, OpSpecialization, OpStrategy
from .record import OpPattern

__all__ = ["Op", "OpImplementation", "OpPattern", "OpSpecialization", "OpStrategy", "get", "register",
           "register_intrin_lowering", "register_op_attr"]  # fmt: skip


def get(op_name: str) -> Op:
    """Return the operator with this name.

    Parameters
    ----------
    op_name : str
        The name of the operator.

    Returns
    -------
    Op
        The operator.
    """
    return Op.get(op_name)


def register(op_name: str, describe: str = "") -> Op:
    """Register a new operator.

    Its output type is defined with ``add_type_rel``, its computation with ``register_compute``, and its fusion pattern
    with ``register_pattern``.

    Parameters
    ----------
    op_name : str
        The name of the operator.
    describe : str, optional
        A one-sentence description.

    Returns
    -------
    Op
        The new operator.

    Raises
    ------
    TVMError
        An operator with this name is already registered.
    """
    if op_name in OPS:
        raise TVMError(f"Operator {op_name} is registered before")
    return register_op(op_name, describe)


_FACT = [
    ("op_name", "str", "The name of the operator."),
    ("value", "object, optional", "The function or value; without it, a decorator is returned."),
    ("level", "int, optional", "A value set before at a higher level stays."),
]


def _fact(key: str, doc: str) -> Callable[..., Any]:
    def set_fact(op_name: str, value: Any = None, level: int = 10) -> Any:
        return register_op_attr(op_name, key, value, level)

    set_fact.__doc__ = docstring(doc, _FACT, "callable\n    The value, or a decorator where there is none.")
    return set_fact


def register_pattern(op_name: str, pattern: int, level: int = 10) -> Any:
    """Register the fusion pattern of an operator.

    Parameters
    ----------
    op_name : str
        The name of the operator.
    pattern : int
        A value of ``OpPattern``.
    level : int, optional
        The priority; a value registered with a higher level is kept.

    Returns
    -------
    callable
        The value; without it, a decorator.
    """
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


def register_shape_func(op_name: str, data_dependent: Any, shape_func: Any = None, level: int = 10) -> Any:
    """Register the function that computes the output shapes of an operator at run time.

    Parameters
    ----------
    op_name : str
        The name of the operator.
    data_dependent : bool or list of bool
        Whether the shapes depend on the values of the inputs or only on their shapes; a list has one value per input.
    shape_func : callable, optional
        ``(attrs, inputs, out_ndims) -> list of tensors``; without it, a decorator is returned.
    level : int, optional
        The priority; a value registered with a higher level is kept.

    Returns
    -------
    callable
        The function; without it, a decorator.
    """
    register_op_attr(op_name, "TShapeDataDependent", data_dependent, level)
    return register_op_attr(op_name, "FShapeFunc", shape_func, level)


register_mixed_precision_conversion = _fact("FTVMMixedPrecisionConversionType", "The operator in half precision.")
register_fake_quantization_to_integer = _fact(
    "FTVMFakeQuantizationToInteger",
    "``(call, affine types) -> [expression, TensorAffineType]``: the operator over integers. The types are those of "
    "the call's inputs and of its result; ``NotImplementedError`` leaves the operator in float.",
)
register_optional_fake_quantization_to_integer = _fact(
    "FTVMOptionalFakeQuantizationToInteger",
    "As ``register_fake_quantization_to_integer``, used where ``optional_qnn_ops`` names the operator.",
)
register_external_compiler = _fact("target.compiler", "Whether another compiler takes the operator.")
register_compute = _fact("FTVMCompute", "``(attrs, inputs, out_type) -> list of tensors``.")
register_schedule = _fact("FTVMSchedule", "``(attrs, outs, target) -> schedule`` of kernels the operator leads.")
register_strategy = _fact("FTVMStrategy", "``(attrs, inputs, out_type, target) -> OpStrategy``.")


def _by_pattern(op_name: str, level: int = 10) -> None:
    """Schedule an operator by the pattern of its computation, the default for operators without a schedule.

    Parameters
    ----------
    op_name : str
        The name of the operator.
    level : int, optional
        Ignored; accepted for compatibility.

    Raises
    ------
    TVMError
        There is no operator with this name.
    """
    if not isinstance(op_name, str) or op_name not in OPS:
        raise TVMError(f"operator '{op_name}' is not registered")
    OPS[op_name].reset_attr("FTVMSchedule")


register_injective_schedule = register_broadcast_schedule = register_reduce_schedule = _by_pattern


def __getattr__(name: str) -> Any:
    return name_of(__name__, name)

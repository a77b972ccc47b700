"""Finding operators and adding facts to their records, under TVM's names."""

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
    """The operator of this name.

    Parameters
    ----------
    op_name : str
        The name of the operator.

    Returns
    -------
    Op
    """
    return Op.get(op_name)


def register(op_name: str, describe: str = "") -> Op:
    """A new operator. Its ``add_type_rel`` and ``register_compute`` say what it gives, ``register_pattern`` how it is
    fused.

    Parameters
    ----------
    op_name : str
        The name of the operator.
    describe : str, optional
        A sentence about it.

    Returns
    -------
    Op

    Raises
    ------
    TVMError
        An operator of that name is registered.
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
    """How the operator may be fused.

    Parameters
    ----------
    op_name : str
        The name of the operator.
    pattern : int
        A value of ``OpPattern``.
    level : int, optional
        A value set before at a higher level stays.

    Returns
    -------
    callable
        The value, or a decorator where there is none.
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
    """The function that computes the shapes of an operator's results when running.

    Parameters
    ----------
    op_name : str
        The name of the operator.
    data_dependent : bool or list of bool
        Whether it computes them from the values of the inputs, or from their shapes; a list says it of each input.
    shape_func : callable, optional
        ``(attrs, inputs, out_ndims) -> list of tensors``; without it, a decorator is returned.
    level : int, optional
        A value set before at a higher level stays.

    Returns
    -------
    callable
        The function, or a decorator where there is none.
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
    """Schedule the operator by what its computation is, as every operator without a schedule of its own.

    Parameters
    ----------
    op_name : str
        The name of the operator.
    level : int, optional
        Taken for programs that pass it.

    Raises
    ------
    TVMError
        No operator has that name.
    """
    if not isinstance(op_name, str) or op_name not in OPS:
        raise TVMError(f"operator '{op_name}' is not registered")
    OPS[op_name].reset_attr("FTVMSchedule")


register_injective_schedule = register_broadcast_schedule = register_reduce_schedule = _by_pattern


def __getattr__(name: str) -> Any:
    return name_of(__name__, name)

"""Facts of quantized operators, under TVM's names."""

from __future__ import annotations

from typing import Any

from ....ir.op import register_op_attr


def register_qnn_legalize(op_name: str, legal_op: Any = None, level: int = 10) -> Any:
    """Set the rule by which ``qnn.transform.Legalize`` replaces an operator.

    Parameters
    ----------
    op_name : str
        The name of the operator.
    legal_op : callable, optional
        ``(attrs, inputs, types) -> expression or None``, where types are those of the inputs and of the output;
        without it, a decorator is returned.
    level : int, optional
        A rule set before at a higher level stays.

    Returns
    -------
    callable
        The rule, or a decorator where there is none.
    """
    return register_op_attr(op_name, "FTVMQnnLegalize", legal_op, level)


def register_qnn_canonicalize(op_name: str, legal_op: Any = None, level: int = 10) -> Any:
    """Set the rule by which ``qnn.transform.CanonicalizeOps`` writes an operator with plain ones.

    Parameters
    ----------
    op_name : str
        The name of the operator.
    legal_op : callable, optional
        ``(attrs, inputs, types) -> expression or None``, as of ``register_qnn_legalize``.
    level : int, optional
        A rule set before at a higher level stays.

    Returns
    -------
    callable
        The rule, or a decorator where there is none.
    """
    return register_op_attr(op_name, "FTVMQnnCanonicalize", legal_op, level)


__all__ = ["register_qnn_canonicalize", "register_qnn_legalize"]

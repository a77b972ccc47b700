"""Registration of rules of quantized operators, under the names of Apache TVM."""

from __future__ import annotations

from typing import Any

from ....ir.op import register_op_attr


def register_qnn_legalize(op_name: str, legal_op: Any = None, level: int = 10) -> Any:
    """Register the rule by which ``qnn.transform.Legalize`` replaces an operator.

    Parameters
    ----------
    op_name : str
        The name of the operator.
    legal_op : callable, optional
        A function ``(attrs, inputs, types)`` that returns an expression or None; ``types`` includes the output type;
        without it, a decorator is returned.
    level : int, optional
        The priority: an existing rule with a higher level is kept.

    Returns
    -------
    callable
        The rule, or a decorator if no rule is given.
    """
    return register_op_attr(op_name, "FTVMQnnLegalize", legal_op, level)


def register_qnn_canonicalize(op_name: str, legal_op: Any = None, level: int = 10) -> Any:
    """Register the rule by which ``qnn.transform.CanonicalizeOps`` lowers an operator to plain operators.

    Parameters
    ----------
    op_name : str
        The name of the operator.
    legal_op : callable, optional
        A function ``(attrs, inputs, types)`` that returns an expression or None, as in ``register_qnn_legalize``.
    level : int, optional
        The priority: an existing rule with a higher level is kept.

    Returns
    -------
    callable
        The rule, or a decorator if no rule is given.
    """
    return register_op_attr(op_name, "FTVMQnnCanonicalize", legal_op, level)


__all__ = ["register_qnn_canonicalize", "register_qnn_legalize"]

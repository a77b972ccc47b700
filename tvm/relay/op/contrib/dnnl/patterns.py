"""The patterns of oneDNN: convolutions and matmuls with the operators that oneDNN computes in the same pass."""

from __future__ import annotations

from ....dataflow_pattern import is_constant, is_op, wildcard
from .describe import CONVOLUTIONS, MATMULS, supports

supported_post_elts = ["nn.relu", "tanh", "sigmoid", "clip", "nn.leaky_relu", "gelu", None]


def append_eltwise_ops(op, eltwise):
    """Append an elementwise operator to a pattern.

    Parameters
    ----------
    op : DFPattern
        The pattern.
    eltwise : str or None
        An element of ``supported_post_elts``.

    Returns
    -------
    DFPattern
    """
    if eltwise is None:
        return op
    if eltwise != "gelu":
        return is_op(eltwise)(op)
    scaled = is_op("divide")(op, is_constant()) | is_op("multiply")(op, is_constant())
    total = is_op("add")(is_op("erf")(scaled), is_constant())
    outer = is_op("multiply")(is_op("multiply")(op, total), is_constant())
    return outer | is_op("multiply")(op, is_op("multiply")(total, is_constant()))


def _product(name, constant=True):
    return is_op(name)(wildcard(), is_constant() if constant else wildcard())


def _biased(op):
    return is_op("nn.bias_add")(op, is_constant()) | is_op("add")(op, is_constant())


def make_conv_pattern(conv_name, with_bias=True, with_eltwise=None):
    """Return the pattern of a convolution with a bias and an elementwise operator.

    Parameters
    ----------
    conv_name : str
        The operator.
    with_bias : bool, optional
        Whether a bias is added.
    with_eltwise : str, optional
        The elementwise operator.

    Returns
    -------
    DFPattern
    """
    conv = _product(conv_name)
    return append_eltwise_ops(_biased(conv) if with_bias else conv, with_eltwise)


def make_conv_bias_sum_relu_pattern(conv_type, has_relu=True):
    """Return the pattern of a convolution with a bias, the addition of another tensor, and ReLU.

    Parameters
    ----------
    conv_type : str
        The operator.
    has_relu : bool, optional
        Whether the pattern ends with ReLU.

    Returns
    -------
    DFPattern
    """
    total = is_op("add")(_biased(_product(conv_type)), wildcard())
    return is_op("nn.relu")(total) if has_relu else total


def make_dense_pattern(with_bias=True, with_eltwise=None):
    """Return the pattern of ``nn.dense`` with a bias and an elementwise operator.

    Parameters
    ----------
    with_bias : bool, optional
        Whether a bias is added.
    with_eltwise : str, optional
        The elementwise operator.

    Returns
    -------
    DFPattern
    """
    dense = _product("nn.dense", constant=False)
    return append_eltwise_ops(_biased(dense) if with_bias else dense, with_eltwise)


def make_dense_bias_sum_pattern():
    """Return the pattern of ``nn.dense`` with a bias and the addition of another tensor.

    Returns
    -------
    DFPattern
    """
    return is_op("add")(_biased(_product("nn.dense", constant=False)), wildcard())


def make_qnn_conv2d_pattern():
    """Return the pattern of ``qnn.conv2d`` with a bias, a requantization and ``clip``, where all but the convolution
    and the requantization are optional.

    Returns
    -------
    DFPattern
    """
    return _quantized("qnn.conv2d")


def make_qnn_dense_pattern():
    """Return the pattern of ``qnn.dense`` with a bias, a requantization and ``clip``, as ``make_qnn_conv2d_pattern``.

    Returns
    -------
    DFPattern
    """
    return _quantized("qnn.dense")


def _quantized(name):
    product = is_op(name)(wildcard(), *(is_constant() for _ in range(5)))
    requantized = is_op("qnn.requantize")(product | _biased(product), *(is_constant() for _ in range(4)))
    return requantized.optional(is_op("clip"))


def make_dnnl_pattern(op_name, with_bias, with_eltwise):
    """Return the entry of the pattern table for an operator.

    Parameters
    ----------
    op_name : str
        The operator: a convolution or a matmul.
    with_bias : bool
        Whether a bias is added.
    with_eltwise : str or None
        The elementwise operator.

    Returns
    -------
    tuple of str, DFPattern and callable
    """
    base = op_name.replace("nn.", "dnnl.", 1)
    name = base + ("_bias" if with_bias else "") + (f"_{with_eltwise.split('.')[-1]}" if with_eltwise else "")
    if op_name in CONVOLUTIONS:
        return name, make_conv_pattern(op_name, with_bias, with_eltwise), supports
    product = _product(op_name, constant=False)
    return name, append_eltwise_ops(_biased(product) if with_bias else product, with_eltwise), supports


def pattern_table():
    """Return the patterns of oneDNN; longer ones come first.

    Returns
    -------
    list of tuple
        The name, the pattern and the check of each pattern.
    """
    table = [
        ("dnnl.qnn.conv2d", make_qnn_conv2d_pattern(), supports),
        ("dnnl.qnn.dense", make_qnn_dense_pattern(), supports),
    ]
    sums = []
    for name in CONVOLUTIONS:
        base = name.replace("nn.", "dnnl.", 1)
        table.append((f"{base}_bias_sum_relu", make_conv_bias_sum_relu_pattern(name), supports))
        table.append((f"{base}_bias_sum", make_conv_bias_sum_relu_pattern(name, False), supports))
        plain = is_op("add")(_product(name), wildcard())
        sums += [(f"{base}_sum_relu", is_op("nn.relu")(plain), supports), (f"{base}_sum", plain, supports)]
    table.append(("dnnl.dense_bias_sum", make_dense_bias_sum_pattern(), supports))
    names = (*CONVOLUTIONS, *MATMULS)
    # A sum matches a bias too, which is faster as a bias.
    table += [make_dnnl_pattern(name, True, eltwise) for name in names for eltwise in supported_post_elts]
    table += sums
    table += [make_dnnl_pattern(name, False, eltwise) for name in names for eltwise in supported_post_elts if eltwise]
    return table


__all__ = [
    "append_eltwise_ops",
    "make_conv_bias_sum_relu_pattern",
    "make_conv_pattern",
    "make_dense_bias_sum_pattern",
    "make_dense_pattern",
    "make_dnnl_pattern",
    "make_qnn_conv2d_pattern",
    "make_qnn_dense_pattern",
    "pattern_table",
    "supported_post_elts",
]

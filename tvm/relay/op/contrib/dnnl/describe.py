"""Operators and composite functions as nodes for the oneDNN engine (``csrc/dnnl``).

``describe`` returns the attributes of a node, or None if oneDNN does not support the call. It is both the rule that
selects operators and the writer of attributes, so the two agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .....ir.op import Op
from .....ir.visit import post_order
from ....expr import Call, Constant, Function, RelayExpr, Var

# An operation of an epilogue: its name and two numbers, or its name and the other operand.
Operation = tuple[str, Any, Any]

ELTWISE: dict[str, str] = {
    "nn.relu": "relu",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
    "exp": "exp",
    "abs": "abs",
    "sqrt": "sqrt",
    "log": "log",
    "clip": "clip",
    "nn.leaky_relu": "relu",
}
BINARY = ("add", "multiply", "subtract", "maximum", "minimum")
CONVOLUTIONS = tuple(f"nn.conv{n}d" for n in (1, 2, 3))
MATMULS = ("nn.dense", "nn.batch_matmul", "nn.matmul")
QUANTIZED = ("qnn.conv2d", "qnn.dense")
COMPUTE = (*CONVOLUTIONS, *MATMULS, *QUANTIZED)


def name_of(e: RelayExpr) -> str:
    """Return the name of the operator of a call; empty for another expression."""
    return e.op.name if isinstance(e, Call) and isinstance(e.op, Op) else ""


def shape_of(e: RelayExpr) -> tuple[int, ...]:
    """Return the static shape of a tensor."""
    return tuple(int(d) for d in e.checked_type_.shape)


def dtype_of(e: RelayExpr) -> str:
    """Return the data type of a tensor; empty for a tuple."""
    return str(getattr(e.checked_type_, "dtype", ""))


def is_float(*tensors: RelayExpr) -> bool:
    """Return whether all expressions are float32 tensors with one to twelve static dimensions, none of them empty."""
    for e in tensors:
        dims = getattr(e.checked_type_, "shape", ())
        if dtype_of(e) != "float32" or not 1 <= len(dims) <= 6:
            return False
        try:
            if min(int(d) for d in dims) < 1:
                return False
        except TypeError:
            return False
    return True


# ---- epilogues ----


def gelu_operand(call: RelayExpr) -> RelayExpr | None:
    """Return ``x`` of ``x * (1 + erf(x / sqrt(2))) * 0.5``, in any order of the products; None for another
    expression."""
    if name_of(call) != "multiply":
        return None
    for half, product in _both(call):
        if not (_is_scalar(half, 0.5) and name_of(product) == "multiply"):
            continue
        for x, total in _both(product):
            erf = (
                next((e for one, e in _both(total) if _is_scalar(one, 1.0)), None) if name_of(total) == "add" else None
            )
            if erf is not None and name_of(erf) == "erf" and _is_scaled(erf.args[0], x):
                return x
    return None


def _both(call: Any) -> list[tuple[Any, Any]]:
    return [(call.args[0], call.args[1]), (call.args[1], call.args[0])]


def _is_scalar(e: RelayExpr, value: float) -> bool:
    return (
        isinstance(e, Constant) and e.data.numpy().size == 1 and abs(float(e.data.numpy().reshape(())) - value) < 1e-5
    )


def _is_scaled(e: Any, x: RelayExpr) -> bool:
    """Return whether an expression is ``x / sqrt(2)``."""
    if name_of(e) == "divide":
        return e.args[0] is x and _is_scalar(e.args[1], 2**0.5)
    return name_of(e) == "multiply" and any(a is x and _is_scalar(c, 0.5**0.5) for a, c in _both(e))


def chain(root: RelayExpr) -> tuple[Call, list[Operation]] | None:
    """Return the convolution or matmul that a composite function starts with, and the operations after it in execution
    order. The first operand that leads to a convolution or matmul continues the chain."""
    name = name_of(root)
    if not isinstance(root, Call):
        return None
    if name in COMPUTE:
        return root, []
    inner = gelu_operand(root)
    candidates: list[tuple[RelayExpr, Operation]] = []
    if inner is not None:
        candidates.append((inner, ("gelu", 0, 0)))
    elif name in ELTWISE:
        candidates.append((root.args[0], eltwise(root)))
    elif name == "nn.bias_add":
        candidates.append((root.args[0], ("bias_add", root, root.args[1])))
    elif name == "qnn.requantize":
        candidates.append((root.args[0], ("requantize", root, None)))
    elif name in BINARY:
        candidates.append((root.args[0], (name, root, root.args[1])))
        if name != "subtract":
            candidates.append((root.args[1], (name, root, root.args[0])))
    for operand, operation in candidates:
        found = chain(operand)
        if found is not None:
            return found[0], [*found[1], operation]
    return None


def eltwise(call: Call) -> Operation:
    """Return the operation of an elementwise operator."""
    name = name_of(call)
    if name == "clip":
        return "clip", float(call.attrs.a_min), float(call.attrs.a_max)
    if name == "nn.leaky_relu":
        return "relu", float(call.attrs.alpha), 0
    return ELTWISE[name], 0, 0


# ---- nodes ----


class _Node:
    """The attributes of a node while they are collected. ``index`` returns the input of an operand."""

    def __init__(self, index: Callable[[RelayExpr], int]):
        self.index = index
        self.attrs: dict[str, Any] = {}

    def role(self, name: str, e: RelayExpr) -> None:
        self.attrs[name] = self.index(e)


def describe(call: Call) -> dict[str, Any] | None:
    """Return the attributes of the node of a call of an operator or composite function.

    Parameters
    ----------
    call : Call
        The call, with types.

    Returns
    -------
    dict of str to object, or None
        None if oneDNN does not support the call.
    """
    if isinstance(call.op, Function):
        params: list[RelayExpr] = list(call.op.params)
        inputs = [*params, *(e for e in post_order(call.op.body) if isinstance(e, Constant))]
        positions = {id(e): i for i, e in enumerate(inputs)}
        return described(call.op.body, lambda e: positions[id(e)])
    if name_of(call) in COMPUTE:
        positions = {id(e): i for i, e in reversed(list(enumerate(call.args)))}
        return described(call, lambda e: positions[id(e)])
    return single(call)


def supports(call: RelayExpr) -> bool:
    """Return whether oneDNN supports an operator, or a pattern that ends with this call."""
    return described(call, lambda e: 0) is not None


def described(root: RelayExpr, index: Callable[[RelayExpr], int]) -> dict[str, Any] | None:
    """Return the attributes of a convolution or matmul with its epilogue."""
    found = chain(root)
    if found is None:
        return None
    main, operations = found
    node = _Node(index)
    quantized = name_of(main) in QUANTIZED
    write = _convolution if name_of(main) in (*CONVOLUTIONS, "qnn.conv2d") else _matmul
    if not quantized and not is_float(*main.args, main) or not write(node, main):
        return None
    axis = node.attrs.pop("axis")
    operations = _take_bias(node, main, operations, axis)
    if quantized:
        rest = _quantization(node, main, operations)
        if rest is None:
            return None
        operations = rest
    return node.attrs if _write_epilogue(node, main, operations) else None


def _take_bias(node: _Node, main: Call, operations: list[Operation], axis: int) -> list[Operation]:
    """Make an addition of a constant for each channel the bias."""
    if operations and operations[0][0] in ("bias_add", "add") and isinstance(operations[0][2], (Constant, Var)):
        name, call, bias = operations[0]
        out, shape = shape_of(main), shape_of(bias)
        if name == "bias_add":
            fits = int(call.attrs.axis) % len(out) == axis
        else:
            wide = (1,) * (len(out) - len(shape)) + shape
            fits = len(wide) == len(out) and all(d == (out[i] if i == axis else 1) for i, d in enumerate(wide))
        if fits and isinstance(bias, Constant):
            node.role("bias", bias)
            return operations[1:]
    return operations


def _write_epilogue(node: _Node, main: Call, operations: Sequence[Operation]) -> bool:
    out, values = shape_of(main), []
    for name, first, second in operations:
        if name in ("bias_add", "requantize"):
            return False
        if name not in BINARY:
            values += [name, first, second]
            continue
        if not is_float(second) or shape_of(first) != out or len(shape_of(second)) > len(out):
            return False
        values += [name, node.index(second), 0]
    node.attrs["epilogue"] = values
    return True


def _convolution(node: _Node, call: Call) -> bool:
    attrs, data, weights = call.attrs, call.args[0], call.args[1]
    n = len(shape_of(data)) - 2
    spatial = "DHW"[3 - n :]
    if sorted(attrs.data_layout) != sorted("NC" + spatial) or sorted(attrs.kernel_layout) != sorted("OI" + spatial):
        return False
    if str(attrs.out_layout or attrs.data_layout) != attrs.data_layout or not isinstance(weights, Constant):
        return False
    groups = int(attrs.groups)
    kernel, channel = shape_of(weights), attrs.data_layout.index("C")
    inputs, outputs = shape_of(data)[channel], shape_of(call)[channel]
    if kernel[attrs.kernel_layout.index("O")] != outputs or kernel[attrs.kernel_layout.index("I")] * groups != inputs:
        return False
    padding = [int(p) for p in attrs.padding]
    node.role("weights", weights)
    node.attrs |= {
        "kind": "convolution",
        "axis": channel,
        "strides": list(attrs.strides),
        "dilation": list(attrs.dilation),
        "pad_begin": padding[:n],
        "pad_end": padding[n:],
        "groups": groups,
        "data_layout": str(attrs.data_layout),
        "kernel_layout": str(attrs.kernel_layout),
    }
    return len(padding) == 2 * n


def _matmul(node: _Node, call: Call) -> bool:
    name, first, second = name_of(call), call.args[0], call.args[1]
    a, b = shape_of(first), shape_of(second)
    if (
        len(a) != len(b)
        or len(a) < 2
        or first is second
        or any(x != y and 1 not in (x, y) for x, y in zip(a[:-2], b[:-2]))
    ):
        return False
    transpose_first = bool(getattr(call.attrs, "transpose_a", False)) if name != "qnn.dense" else False
    transpose_second = (
        bool(getattr(call.attrs, "transpose_b", False)) if name not in ("nn.dense", "qnn.dense") else True
    )
    node.role("weights", second)
    node.attrs |= {
        "kind": "matmul",
        "axis": len(a) - 1,
        "transpose_first": transpose_first,
        "transpose_second": transpose_second,
    }
    return True


def _quantization(node: _Node, main: Call, operations: list[Operation]) -> list[Operation] | None:
    """Write the scales and zero points of a quantized operator and its requantization; return the epilogue."""
    if not operations or operations[0][0] != "requantize":
        return None
    requantize = operations[0][1]
    data, weights, input_zero, kernel_zero = main.args[:4]
    _, scales, zero, output_scale, output_zero = requantize.args
    given = (weights, input_zero, kernel_zero, scales, zero, output_scale, output_zero)
    if not all(isinstance(e, Constant) for e in given) or any(e.data.numpy().any() for e in (kernel_zero, zero)):
        return None
    outputs = dtype_of(requantize)
    if dtype_of(data) not in ("int8", "uint8") or dtype_of(weights) != "int8" or outputs not in ("int8", "uint8"):
        return None
    single = [input_zero, output_scale, output_zero]
    channels = (
        shape_of(main)[node.attrs.get("data_layout", "NC").index("C")]
        if "data_layout" in node.attrs
        else shape_of(main)[-1]
    )
    if any(e.data.numpy().size != 1 for e in single) or scales.data.numpy().size not in (1, channels):
        return None
    for name, e in zip(("input_zero", "scales", "output_scale", "output_zero"), (input_zero, scales, *single[1:])):
        node.role(name, e)
    # The epilogue computes with values from which the output's zero point has not been added yet.
    shift = int(output_zero.data.numpy().reshape(()))
    rest: list[Operation] = []
    for name, first, second in operations[1:]:
        if name != "clip":
            return None
        rest.append((name, first - shift, second - shift))
    return rest


def single(call: Call) -> dict[str, Any] | None:
    """Return the attributes of the node of an operator other than convolution and matmul."""
    name = name_of(call)
    if not is_float(*call.args, call):
        return None
    if name in ELTWISE:
        return {"kind": "eltwise", "epilogue": list(eltwise(call))}
    if name in BINARY:
        first, second = call.args
        fits = shape_of(first) == shape_of(call) and len(shape_of(second)) <= len(shape_of(first))
        return {"kind": "binary", "epilogue": [name, 1, 0]} if fits else None
    if name in ("nn.softmax", "nn.log_softmax"):
        axis = int(call.attrs.axis) % len(shape_of(call))
        return {"kind": "softmax", "softmax_axis": axis, "log": name == "nn.log_softmax"}
    return _pool(call) if "_pool" in name else None


def _pool(call: Call) -> dict[str, Any] | None:
    attrs, name, data = call.attrs, name_of(call), shape_of(call.args[0])
    n, layout = len(data) - 2, str(attrs.layout)
    if sorted(layout) != sorted("NC" + "DHW"[3 - n :]) or str(attrs.out_layout or layout) != layout:
        return None
    spatial = [i for i, letter in enumerate(layout) if letter not in "NC"]
    if "global" in name:
        window = [data[i] for i in spatial]
        strides, dilation, before, after = [1] * n, [1] * n, [0] * n, [0] * n
    else:
        window, strides, dilation = list(attrs.pool_size), list(attrs.strides), list(attrs.dilation)
        before, after = [int(p) for p in attrs.padding[:n]], [int(p) for p in attrs.padding[n:]]
    kind = "max"
    if "avg" in name:
        counts_padding = "global" not in name and bool(attrs.count_include_pad)
        kind = "avg_with_padding" if counts_padding else "avg"
        if "global" not in name and (attrs.ceil_mode or any(d != 1 for d in dilation)):
            return None
    outputs = [shape_of(call)[i] for i in spatial]
    spans = [(k - 1) * d + 1 for k, d in zip(window, dilation)]
    sizes = [data[i] for i in spatial]
    # With ceil_mode the last window may extend beyond the padding.
    needed = [(o - 1) * s + k - x - b for o, s, k, x, b in zip(outputs, strides, spans, sizes, before)]
    after = [max(a, b) for a, b in zip(after, needed)]
    if any(p >= k for p, k in zip((*before, *after), (*spans, *spans))):
        return None
    return {
        "kind": "pool",
        "pool": kind,
        "layout": layout,
        "window": window,
        "strides": strides,
        "dilation": dilation,
        "pad_begin": before,
        "pad_end": after,
    }


__all__ = [
    "BINARY",
    "COMPUTE",
    "CONVOLUTIONS",
    "ELTWISE",
    "MATMULS",
    "QUANTIZED",
    "describe",
    "name_of",
    "single",
    "supports",
]

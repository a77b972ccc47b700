"""Matmul operators, bias addition and flattening."""

from __future__ import annotations

from .... import te, topi
from ....ir.tensor_type import TensorType
from ....topi.assumptions import agree
from ..record import BROADCAST, INJECTIVE, OUT_ELEMWISE_FUSABLE, call, op
from ..rules import broadcast_dims, dims, normalize_axis, product, tensor


def _same(a, b, what: str) -> None:
    if not agree(a, b, what):
        raise TypeError(f"{what}: the left operand has {a}, the right operand {b}")


def _dense_type(attrs, types):
    data, weight = tensor(types[0], "the data"), tensor(types[1], "the weight")
    x, w = dims(data), dims(weight)
    if len(w) != 2 or not x:
        raise TypeError(f"the weight must be a matrix (units, features), got shape {w}")
    _same(x[-1], w[1], "features")
    if attrs.units is not None and not agree(int(attrs.units), w[0], "units against rows of the weight"):
        raise TypeError(f"units is {attrs.units}, but the weight has {w[0]} rows")
    return TensorType((*x[:-1], w[0]), attrs.out_dtype or data.dtype)


def matmul_macs(attrs, types, out) -> int:
    """Return the number of multiply-adds: each output element sums over the reduction axis."""
    return product(dims(out)) * dims(types[0])[-2 if getattr(attrs, "transpose_a", False) else -1]


def _dense_inputs(attrs, types):
    data = tensor(types[0], "the data")
    if attrs.units is None:
        raise TypeError("the type of the weight is unknown; give units, or annotate it")
    return [data, TensorType((int(attrs.units), dims(data)[-1]), data.dtype)]


def _dense_compute(attrs, inputs, out, dense=topi.nn.dense):
    return (
        dense(inputs[0], inputs[1], None, out.dtype)
        if len(inputs[0].shape) > 1
        else te.compute(out.shape, *_vector(inputs, out))
    )


def _vector(inputs, out):
    k = te.reduce_axis((0, inputs[0].shape[0]), "k")
    return (lambda j: te.sum(inputs[0][k].astype(out.dtype) * inputs[1][j, k].astype(out.dtype), axis=k), "T_dense")


@op(
    "nn.dense",
    2,
    pattern=OUT_ELEMWISE_FUSABLE,
    contraction="matmul",
    macs=matmul_macs,
    type_rule=_dense_type,
    infer_inputs=_dense_inputs,
    compute=_dense_compute,
)
def dense(data, weight, units=None, out_dtype=""):
    """Compute the matmul of the data and the transposed weight.

    Examples
    --------
    >>> x, w = relay.var("x", shape=(2, 8)), relay.var("w", shape=(4, 8))
    >>> mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.nn.dense(x, w)))
    >>> mod["main"].ret_type
    Tensor[(2, 4), float32]
    """
    return call("nn.dense", data, weight, units=units, out_dtype=out_dtype)


def _matmul_type(attrs, types):
    a, b = tensor(types[0]), tensor(types[1])
    x, y = dims(a), dims(b)
    if len(x) < 2 or len(y) != 2:
        raise TypeError(f"expected a tensor of rank 2 or more and a matrix, got shapes {x} and {y}")
    m, k = (x[-1], x[-2]) if attrs.transpose_a else (x[-2], x[-1])
    k2, n = (y[1], y[0]) if attrs.transpose_b else (y[0], y[1])
    _same(k, k2, "columns against rows")
    return TensorType((*x[:-2], m, n), attrs.out_dtype or a.dtype)


def _matmul_inputs(attrs, types):
    data = tensor(types[0], "the data")
    if attrs.units is None:
        raise TypeError("the type of the second matrix is unknown; give units, or annotate it")
    k, n = dims(data)[-2 if attrs.transpose_a else -1], int(attrs.units)
    return [data, TensorType((n, k) if attrs.transpose_b else (k, n), data.dtype)]


@op(
    "nn.matmul",
    2,
    pattern=OUT_ELEMWISE_FUSABLE,
    contraction="matmul",
    macs=matmul_macs,
    type_rule=_matmul_type,
    infer_inputs=_matmul_inputs,
    compute=lambda attrs, inputs, out, matmul=topi.nn.matmul: matmul(
        inputs[0], inputs[1], None, out.dtype, attrs.transpose_a, attrs.transpose_b
    ),
)
def matmul(tensor_a, tensor_b, units=None, out_dtype="", transpose_a=False, transpose_b=False):
    """Compute the matmul of two matrices, each of which may be transposed."""
    return call(
        "nn.matmul",
        tensor_a,
        tensor_b,
        units=units,
        out_dtype=out_dtype,
        transpose_a=transpose_a,
        transpose_b=transpose_b,
    )


def _batch_matmul_type(attrs, types):
    a, b = tensor(types[0]), tensor(types[1])
    x, y = dims(a), dims(b)
    if len(x) != 3 or len(y) != 3:
        raise TypeError(f"both operands must have rank 3, got shapes {x} and {y}")
    m, k = (x[2], x[1]) if attrs.transpose_a else (x[1], x[2])
    k2, n = (y[2], y[1]) if attrs.transpose_b else (y[1], y[2])
    _same(k, k2, "columns against rows")
    if isinstance(x[0], int) and isinstance(y[0], int) and x[0] != y[0] and 1 not in (x[0], y[0]):
        raise TypeError(f"batch sizes {x[0]} and {y[0]} do not match")
    return TensorType((*broadcast_dims(x[:1], y[:1]), m, n), attrs.out_dtype or a.dtype)


@op(
    "nn.batch_matmul",
    2,
    pattern=OUT_ELEMWISE_FUSABLE,
    contraction="matmul",
    macs=matmul_macs,
    type_rule=_batch_matmul_type,
    compute=lambda attrs, inputs, out, batch_matmul=topi.nn.batch_matmul: batch_matmul(
        inputs[0], inputs[1], None, out.dtype, attrs.transpose_a, attrs.transpose_b
    ),
)
def batch_matmul(tensor_a, tensor_b, out_dtype="", transpose_a=False, transpose_b=True):
    """Compute a batched matmul of tensors of rank 3."""
    return call(
        "nn.batch_matmul", tensor_a, tensor_b, out_dtype=out_dtype, transpose_a=transpose_a, transpose_b=transpose_b
    )


@op(
    "nn.sparse_dense",
    4,
    pattern=OUT_ELEMWISE_FUSABLE,
    compute=lambda attrs, inputs, out, product=topi.nn.sparse_dense: product(*inputs, attrs.sparse_lhs),
)
def sparse_dense(dense_mat, sparse_mat, sparse_lhs=False):
    """Compute the matmul of a dense and a sparse matrix.

    The result is dense_mat . S^T, or S . dense_mat^T with ``sparse_lhs``. The sparse matrix S is in CSR or BSR format.
    """
    if hasattr(sparse_mat, "indptr"):
        sparse_mat = (sparse_mat.data, sparse_mat.indices, sparse_mat.indptr)
    data, indices, indptr = sparse_mat
    return call("nn.sparse_dense", dense_mat, data, indices, indptr, sparse_lhs=bool(sparse_lhs))


def _bias_type(attrs, types):
    data, bias = tensor(types[0], "the data"), tensor(types[1], "the bias")
    x = dims(data)
    axis = normalize_axis(attrs.axis, len(x))
    if len(dims(bias)) != 1:
        raise TypeError(f"the bias must be a vector, got shape {dims(bias)}")
    _same(x[axis], dims(bias)[0], f"length along axis {axis}")
    return data


def _bias_inputs(attrs, types):
    data = tensor(types[0], "the data")
    return [data, TensorType((dims(data)[normalize_axis(attrs.axis, len(dims(data)))],), data.dtype)]


def _bias_compute(attrs, inputs, out):
    data, bias = inputs
    axis = normalize_axis(attrs.axis, len(data.shape))
    return te.compute(data.shape, lambda *i: data(*i) + bias(i[axis]), name="T_bias_add", tag="broadcast")


@op("nn.bias_add", 2, pattern=BROADCAST, type_rule=_bias_type, infer_inputs=_bias_inputs, compute=_bias_compute)
def bias_add(data, bias, axis=1):
    """Add a bias vector along an axis."""
    return call("nn.bias_add", data, bias, axis=int(axis))


def _flatten_type(attrs, types):
    x = dims(tensor(types[0]))
    return TensorType((x[0], product(x[1:])), types[0].dtype)


def _flatten_compute(attrs, inputs, out):
    return topi.reshape(inputs[0], out.shape)


@op(
    "nn.batch_flatten",
    1,
    pattern=INJECTIVE,
    type_rule=_flatten_type,
    compute=_flatten_compute,
    reshape_only=True,
    moves_only=True,
)
def batch_flatten(data):
    """Flatten all dimensions except the first into one."""
    return call("nn.batch_flatten", data)

"""Tensor intrinsics for CUDA instructions."""

from __future__ import annotations

from ... import te, tir
from ...error import TVMError
from ...te.tensor_intrin import TensorIntrin

# The number of int8 elements that the instruction multiplies at once.
BYTES = 4


def dp4a(
    x_scope: str = "local", y_scope: str = "local", z_scope: str = "local", dtypes: tuple[str, str] = ("int8", "int8")
) -> TensorIntrin:
    """The ``dp4a`` intrinsic for ``tensorize``: the sum of four int8 or uint8 products, added to a 32-bit integer.

    Parameters
    ----------
    x_scope : str, optional
        The storage scope of the left operand.
    y_scope : str, optional
        The storage scope of the right operand.
    z_scope : str, optional
        The storage scope of the accumulator.
    dtypes : tuple of str, optional
        The types of the operands, both ``int8`` or both ``uint8``. The accumulator is int32 or uint32 accordingly.

    Returns
    -------
    TensorIntrin

    Raises
    ------
    TVMError
        The operands have other types: both must be ``int8`` or both ``uint8``.
    """
    if tuple(dtypes) not in (("int8", "int8"), ("uint8", "uint8")):
        raise TVMError(f"dp4a: operands must be both int8 or both uint8, got {dtypes[0]} and {dtypes[1]}")
    sums = "int32" if dtypes[0] == "int8" else "uint32"
    x, y = (te.placeholder((BYTES,), dtype, name) for name, dtype in zip("xy", dtypes))
    k = te.reduce_axis((0, BYTES), name="rc")
    z = te.compute((1,), lambda i: te.sum(x[k].astype(sums) * y[k].astype(sums), axis=k), name="z")

    def bodies(ins, outs):
        words = [tensor.vload([0], f"{tensor.dtype}x{BYTES}") for tensor in ins]

        def added_to(total):
            return outs[0].vstore([0], tir.call_pure_extern(sums, "__dp4a", *words, total))

        zero = tir.const(0, sums)
        return added_to(zero), outs[0].vstore([0], zero), added_to(outs[0].vload([0]))

    # Words of four int8 elements are read at once.
    binds = {
        tensor: tir.decl_buffer(
            tensor.shape,
            tensor.dtype,
            tensor.op.name,
            scope=scope,
            data_alignment=BYTES,
            offset_factor=BYTES if tensor is not z else 1,
        )
        for tensor, scope in ((x, x_scope), (y, y_scope), (z, z_scope))
    }
    return te.decl_tensor_intrin(z.op, bodies, "dp4a", binds=binds)


__all__ = ["dp4a"]

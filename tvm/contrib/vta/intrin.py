"""The tensor intrinsic of the GEMM core."""

from __future__ import annotations

from typing import Any

from ... import te, tir


def gemm(env: Any, mock: bool = False) -> Any:
    """Declare the multiplication of a (BATCH, BLOCK_IN) matrix by a transposed (BLOCK_OUT, BLOCK_IN) matrix.

    Parameters
    ----------
    env : Environment
        The sizes, types and memories.
    mock : bool
        Whether the intrinsic has no effect.

    Returns
    -------
    TensorIntrin
        The intrinsic, whose statement writes one micro-op.
    """
    wgt = te.placeholder((env.BLOCK_OUT, env.BLOCK_IN), env.wgt_dtype, name=env.wgt_scope)
    inp = te.placeholder((env.BATCH, env.BLOCK_IN), env.inp_dtype, name=env.inp_scope)
    k = te.reduce_axis((0, env.BLOCK_IN), name="k")
    out = te.compute(
        (env.BATCH, env.BLOCK_OUT),
        lambda i, j: te.sum(inp[i, k].astype(env.acc_dtype) * wgt[j, k].astype(env.acc_dtype), axis=[k]),
        name="out",
    )

    def layout(tensor: Any, scope: str) -> Any:
        lanes = int(tensor.shape[0]) * int(tensor.shape[1])
        return tir.decl_buffer(
            tensor.shape, tensor.dtype, scope, scope=scope, offset_factor=lanes, data_alignment=lanes
        )

    def statements(ins: Any, outs: Any) -> Any:
        if mock:
            return (tir.Evaluate(0),) * 3
        update = (outs[0].access_ptr("rw", "int32"), ins[0].access_ptr("r", "int32"), ins[1].access_ptr("r", "int32"))
        reset = (outs[0].access_ptr("w", "int32"), 0, 0)
        return tuple(
            micro_op(env, env.dev.vta_push_uop, tir.call_extern("int32", "VTAUopPush", 0, is_reset, *places, 0, 0, 0))
            for is_reset, places in ((0, update), (1, reset), (0, update))
        )

    binds = {inp: layout(inp, env.inp_scope), wgt: layout(wgt, env.wgt_scope), out: layout(out, env.acc_scope)}
    return te.decl_tensor_intrin(out.op, statements, name="GEMM", binds=binds)


def micro_op(env: Any, push: Any, call: Any) -> Any:
    """Return the statement that writes a micro-op, in the scopes of the compute module and of a micro-op kernel.

    Parameters
    ----------
    env : Environment
        The environment.
    push : StringImm
        The C function that pushes the instruction of the kernel.
    call : PrimExpr
        The call that records the micro-op.

    Returns
    -------
    Stmt
        The statement.
    """
    body = call if isinstance(call, tir.Stmt) else tir.Evaluate(call)
    kernel = tir.AttrStmt(env.dev.vta_axis, "coproc_uop_scope", push, body)
    queue = tir.const(env.dev.get_task_qid(env.dev.QID_COMPUTE), "int32")
    return tir.AttrStmt(env.dev.vta_axis, "coproc_scope", queue, kernel)

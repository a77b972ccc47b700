# %% [markdown]
# # Reductions, scans and intrinsics
#
# This tutorial uses reductions, scans, user-defined intrinsics and `tensorize`, for users who know
# {doc}`first_program`.

# %%
import numpy as np

import tvm
import tvm.testing
from tvm import te, tir

# %% [markdown]
# ## A user-defined reduction
#
# `te.sum` and `te.max` are commutative reductions. `te.comm_reducer` creates others: this one returns the largest
# element and its index.

# %%
largest = te.comm_reducer(
    lambda x, y: (te.if_then_else(x[1] >= y[1], x[0], y[0]), te.if_then_else(x[1] >= y[1], x[1], y[1])),
    lambda place, value: (tir.const(-1, place), te.min_value(value)),
    name="largest",
)
n = te.var("n")
A = te.placeholder((n,), name="A")
k = te.reduce_axis((0, n), "k")
place, value = te.compute((1,), lambda _: largest((k.var, A[k]), axis=k), name="place")
s = te.create_schedule(place.op)
find = tvm.build(s, [A, place, value], "llvm", name="find")

data = np.array([3, 1, 4, 1, 5, 9, 2, 6], "float32")
where, what = tvm.nd.empty((1,), "int32"), tvm.nd.empty((1,))
find(tvm.nd.array(data), where, what)
print(f"largest is {what.numpy()[0]} at {where.numpy()[0]}")
assert where.numpy()[0] == data.argmax()

# %% [markdown]
# ## rfactor: a vectorized sum
#
# In a long sum, each addition depends on the previous one. `rfactor` computes sixteen independent partial sums, which
# a vector register holds.

# %%
total = te.compute((1,), lambda _: te.sum(A[k], axis=k), name="total")
s = te.create_schedule(total.op)
chunk, lane = s[total].split(s[total].op.reduce_axis[0], factor=16)
partial = s.rfactor(total, lane)
s[partial].reorder(s[partial].op.reduce_axis[0], s[partial].op.axis[0])
s[partial].vectorize(s[partial].op.axis[0])
print(tvm.lower(s, [A, total], simple_mode=True))
add_up = tvm.build(s, [A, total], "llvm", name="add_up")
for length in (1, 16, 1000):
    numbers = np.random.rand(length).astype("float32")
    out = tvm.nd.empty((1,))
    add_up(tvm.nd.array(numbers), out)
    tvm.testing.assert_allclose(out.numpy()[0], numbers.sum(), rtol=1e-4)

# %% [markdown]
# ## scan: recurrences
#
# In a scan, a row may read the rows before it. This scan computes cumulative sums of columns:

# %%
m = te.var("m")
X = te.placeholder((m, n), name="X")
state = te.placeholder((m, n), name="state")
init = te.compute((1, n), lambda _, i: X[0, i], name="init")
update = te.compute((m, n), lambda t, i: state[t - 1, i] + X[t, i], name="update")
running = te.scan(init, update, state, inputs=[X])
s = te.create_schedule(running.op)
sums = tvm.build(s, [X, running], "llvm", name="sums")
table = np.arange(12, dtype="float32").reshape(4, 3)
out = tvm.nd.empty(table.shape)
sums(tvm.nd.array(table), out)
print(out.numpy())
np.testing.assert_array_equal(out.numpy(), table.cumsum(axis=0))

# %% [markdown]
# ## A user-defined intrinsic
#
# An intrinsic is a TIR operator with a lowering rule for a target. This one multiplies halves of its operands.

# %%
tvm.ir.register_op_attr("tir.half_product", "TCallEffectKind", tir.CallEffectKind.Pure)


def lower_half_product(call):
    return call.args[0] * call.args[1] * tir.const(0.25, call.dtype)


tvm.ir.register_intrin_lowering("tir.half_product", target="llvm", f=lower_half_product, level=99)
P = te.compute((n,), lambda i: tir.call_intrin("float32", "tir.half_product", A[i], A[i]), name="P")
f = tvm.build(te.create_schedule(P.op), [A, P], "llvm", name="f")
out = tvm.nd.empty(data.shape)
f(tvm.nd.array(data), out)
np.testing.assert_allclose(out.numpy(), data * data / 4)

# %% [markdown]
# ## tensorize: replace loops by a kernel
#
# `decl_tensor_intrin` declares the formula of a kernel and how to call it. `tensorize` checks that the loops compute
# this formula and replaces them by the call; other loops are rejected with an error. The kernel here computes four
# row sums and is written with `ir_builder`; it could also be an instruction of the machine.

# %%
ROWS = 4


def row_sums():
    a = te.placeholder((ROWS, 8), name="a")
    kk = te.reduce_axis((0, 8), "kk")
    c = te.compute((ROWS,), lambda i: te.sum(a[i, kk], axis=kk), name="c")
    source = tir.decl_buffer(a.shape, a.dtype, name="source", offset_factor=1, strides=[te.var("row"), 1])
    target = tir.decl_buffer(c.shape, c.dtype, name="target", offset_factor=1, strides=[1])

    def kernel(ins, outs):
        def reset():
            builder = tir.ir_builder.create()
            for i in range(ROWS):
                builder.emit(outs[0].vstore(i, tir.const(0.0, "float32")))
            return builder.get()

        def update():
            builder = tir.ir_builder.create()
            for i in range(ROWS):
                row = outs[0].vload(i)
                for j in range(8):
                    row = row + ins[0].vload([i, j])
                builder.emit(outs[0].vstore(i, row))
            return builder.get()

        return None, reset(), update()

    return te.decl_tensor_intrin(c.op, kernel, name="row_sums", binds={a: source, c: target})


M = te.placeholder((16, 32), name="M")
kr = te.reduce_axis((0, 32), "kr")
R = te.compute((16,), lambda i: te.sum(M[i, kr], axis=kr), name="R")
s = te.create_schedule(R.op)
outer, inner = s[R].split(R.op.axis[0], factor=ROWS)
k_outer, k_inner = s[R].split(R.op.reduce_axis[0], factor=8)
s[R].reorder(outer, k_outer, inner, k_inner)
s[R].tensorize(inner, row_sums())
f = tvm.build(s, [M, R], "llvm", name="f")
matrix = np.random.rand(16, 32).astype("float32")
out = tvm.nd.empty((16,))
f(tvm.nd.array(matrix), out)
tvm.testing.assert_allclose(out.numpy(), matrix.sum(axis=1), rtol=1e-5)
print("the kernel returns the sums of the rows")

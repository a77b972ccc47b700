# %% [markdown]
# # Schedules, step by step
#
# One formula, a matrix product, with six schedules. Nothing of what is computed changes; each step only changes the
# loops. The loops are printed after each step, and at the end the speed of all of them is plotted.

# %%
import os

import numpy as np
from plot import bars

import tvm
import tvm.testing
from tvm import te

QUICK = "TVM_TUTORIAL_QUICK" in os.environ
N = 64 if QUICK else 512
BLOCK = 32

A = te.placeholder((N, N), name="A")
B = te.placeholder((N, N), name="B")
k = te.reduce_axis((0, N), "k")
C = te.compute((N, N), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")

# %% [markdown]
# Each schedule is checked against NumPy before it is timed, so a fast wrong one cannot win.

# %%
rng = np.random.default_rng(0)
x, y = rng.random((N, N), "float32"), rng.random((N, N), "float32")
speed = {}


def measure(step, schedule, arguments):
    function = tvm.build(schedule, arguments, "llvm", name="matmul")
    a, b, c = tvm.nd.array(x), tvm.nd.array(y), tvm.nd.empty((N, N))
    function(a, b, c)
    tvm.testing.assert_allclose(c.numpy(), x @ y, rtol=1e-4)
    evaluate = function.time_evaluator(function.entry_name, tvm.cpu(), number=1, repeat=1 if QUICK else 5)
    speed[step] = 2 * N**3 / evaluate(a, b, c).min / 1e9


def show(schedule, arguments):
    """The loops, without what every program begins with."""
    lines = str(tvm.lower(schedule, arguments, simple_mode=True)).splitlines()
    start = next(n for n, line in enumerate(lines) if line.strip().startswith(("for ", "with ", "packed =")))
    print("\n".join(line[8:] for line in lines[start:]))


# %% [markdown]
# ## As written
#
# Three loops. For each element of the result a row of `A` is multiplied with a column of `B`, and a column is spread
# over all of the memory of `B`.

# %%
s = te.create_schedule(C.op)
show(s, [A, B, C])
measure("as written", s, [A, B, C])

# %% [markdown]
# ## Blocks
#
# `tile` cuts the result into blocks of 32 x 32, and `split` the sum into pieces of four. What a block needs fits the
# cache, and is used many times before it leaves it.

# %%
s = te.create_schedule(C.op)
io, jo, ii, ji = s[C].tile(C.op.axis[0], C.op.axis[1], BLOCK, BLOCK)
ko, ki = s[C].split(C.op.reduce_axis[0], factor=4)
s[C].reorder(io, jo, ko, ki, ii, ji)
show(s, [A, B, C])
measure("blocks", s, [A, B, C])

# %% [markdown]
# ## Vectors
#
# The innermost loop runs along a row of `B` and of the result, which lie in memory one after the other: it becomes
# vector instructions.

# %%
s[C].vectorize(ji)
show(s, [A, B, C])
measure("vectors", s, [A, B, C])

# %% [markdown]
# ## Loop order
#
# With the rows of the block outside of the sum's inner piece, an element of `A` stays in a register while it is used.

# %%
s = te.create_schedule(C.op)
io, jo, ii, ji = s[C].tile(C.op.axis[0], C.op.axis[1], BLOCK, BLOCK)
ko, ki = s[C].split(C.op.reduce_axis[0], factor=4)
s[C].reorder(io, jo, ko, ii, ki, ji)
s[C].vectorize(ji)
measure("loop order", s, [A, B, C])

# %% [markdown]
# ## A write cache
#
# `cache_write` makes a stage of the block itself. It is computed where the block begins, added up in memory of its
# own, and written to the result once.

# %%
s = te.create_schedule(C.op)
cache = s.cache_write(C, "local")
io, jo, ii, ji = s[C].tile(C.op.axis[0], C.op.axis[1], 4, BLOCK)
s[C].vectorize(ji)
s[cache].compute_at(s[C], jo)
row, column = s[cache].op.axis
(ks,) = s[cache].op.reduce_axis
s[cache].reorder(ks, row, column)
s[cache].unroll(row)
s[cache].vectorize(column)
show(s, [A, B, C])
measure("write cache", s, [A, B, C])

# %% [markdown]
# ## Threads
#
# Rows of blocks do not depend on each other: they are shared among the threads.

# %%
s[C].parallel(io)
measure("threads", s, [A, B, C])

# %% [markdown]
# ## What each step gave
#
# Measured on the machine that built this page, while it may have done other things too: compare the bars, not the
# numbers with those of another machine.

# %%
bars(f"float32 matrix product, {N} x {N}", speed, "GFLOPS")

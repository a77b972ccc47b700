# %% [markdown]
# # Schedules, step by step
#
# This tutorial optimizes a matmul with six schedules, for users who know {doc}`first_program`. Each step changes the
# loops and not the result. You will print the loops and plot the speed of each step.

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
# Each schedule is compared with NumPy before it is timed.

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
    """Print the loops without the header of the program."""
    lines = str(tvm.lower(schedule, arguments, simple_mode=True)).splitlines()
    start = next(n for n, line in enumerate(lines) if line.strip().startswith(("for ", "with ", "packed =")))
    print("\n".join(line[8:] for line in lines[start:]))


# %% [markdown]
# ## No schedule
#
# The program has three loops. For each element of the output, it multiplies a row of `A` with a column of `B`. The
# elements of a column are far apart in memory.

# %%
s = te.create_schedule(C.op)
show(s, [A, B, C])
measure("as written", s, [A, B, C])

# %% [markdown]
# ## Blocking
#
# `tile` divides the output into 32 x 32 blocks, and `split` divides the reduction into pieces of four. The operands
# of a block fit into the cache and are reused there.

# %%
s = te.create_schedule(C.op)
io, jo, ii, ji = s[C].tile(C.op.axis[0], C.op.axis[1], BLOCK, BLOCK)
ko, ki = s[C].split(C.op.reduce_axis[0], factor=4)
s[C].reorder(io, jo, ko, ki, ii, ji)
show(s, [A, B, C])
measure("blocks", s, [A, B, C])

# %% [markdown]
# ## Vectorization
#
# The innermost loop runs along a row of `B` and of the output, which are contiguous: it becomes vector instructions.

# %%
s[C].vectorize(ji)
show(s, [A, B, C])
measure("vectors", s, [A, B, C])

# %% [markdown]
# ## Loop order
#
# With the rows of the block outside of the inner reduction loop, an element of `A` stays in a register while it is
# reused.

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
# `cache_write` adds a stage for the block. The stage accumulates in local memory and is written to the output once.

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
# Rows of blocks are independent, so that threads can compute them in parallel.

# %%
s[C].parallel(io)
measure("threads", s, [A, B, C])

# %% [markdown]
# ## Speed of each step
#
# The times are from the machine that built this page, which may have had other work: compare the bars with each
# other, not with numbers from another machine.

# %%
bars(f"float32 matmul, {N} x {N}", speed, "GFLOPS")

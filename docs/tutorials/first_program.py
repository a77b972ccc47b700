# %% [markdown]
# # A first tensor program
#
# A tensor program says *what* is computed: a formula for each element of the result. How its loops run is said
# separately, by a schedule. This page adds two vectors, looks at the loops, changes them, and calls the result.

# %%
import numpy as np

import tvm
from tvm import te

n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.placeholder((n,), name="B")
C = te.compute(A.shape, lambda i: A[i] + B[i], name="C")

# %% [markdown]
# `n` is a variable: the program is compiled once and serves vectors of every length. `te.compute` takes the shape of
# the result and a function from an index to the element there. Nothing has been computed yet.
#
# A schedule of `C` begins as the plainest loops there are. `tvm.lower` shows them.

# %%
s = te.create_schedule(C.op)
print(tvm.lower(s, [A, B, C], simple_mode=True))

# %% [markdown]
# ## Changing the loops
#
# The loop is cut into pieces of 64 elements; the pieces are shared among threads, and the elements of a piece are to
# be done with vector instructions. Since `n` need not be a multiple of 64, every element is guarded, and what is
# guarded stays a loop.

# %%
outer, inner = s[C].split(C.op.axis[0], factor=64)
s[C].parallel(outer)
s[C].vectorize(inner)
print(tvm.lower(s, [A, B, C], simple_mode=True))

# %% [markdown]
# With a length that 64 divides there is nothing to guard, and the inner loop becomes one operation on 64 lanes.


# %%
def added(length):
    """A schedule of the sum of two vectors of this length, and its tensors."""
    A = te.placeholder((length,), name="A")
    B = te.placeholder((length,), name="B")
    C = te.compute(A.shape, lambda i: A[i] + B[i], name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], factor=64)
    s[C].parallel(outer)
    s[C].vectorize(inner)
    return s, [A, B, C]


print(tvm.lower(*added(1024), simple_mode=True))

# %% [markdown]
# ## Building and calling
#
# `tvm.build` makes machine code. `llvm` stands for the CPU it runs on.

# %%
add = tvm.build(s, [A, B, C], target="llvm", name="add")
a = tvm.nd.array(np.random.rand(1000).astype("float32"))
b = tvm.nd.array(np.random.rand(1000).astype("float32"))
c = tvm.nd.empty((1000,))
add(a, b, c)
np.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())
print(c.numpy()[:4], "=", a.numpy()[:4], "+", b.numpy()[:4])

# %% [markdown]
# The compiled function checks what it is given, and says what is wrong.

# %%
try:
    add(a, b, tvm.nd.empty((999,)))
except tvm.TVMError as error:
    print(error)

# %% [markdown]
# ## Keeping it
#
# The module can be saved and loaded, from Python or from C, on a machine that has the runtime and not the compiler.

# %%
add.export_library("add.so")
again = tvm.runtime.load_module("add.so")
again["add"](a, b, c)
np.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())
print("the loaded module computes the same")

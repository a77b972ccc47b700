# %% [markdown]
# # A GPU
#
# This tutorial generates GPU kernels from tensor expressions, for users who know {doc}`first_program`. The code is
# generated on any machine; running it needs an OpenCL device.
#
# On a GPU, loops become blocks of threads. The computation is the same as on a CPU; the schedule binds loops to the
# hardware indices of blocks and threads.

# %%
import numpy as np

import tvm
from tvm import te

n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.placeholder((n,), name="B")
C = te.compute((n,), lambda i: A[i] + B[i], name="C")
s = te.create_schedule(C.op)
block, thread = s[C].split(C.op.axis[0], factor=64)
s[C].bind(block, te.thread_axis("blockIdx.x"))
s[C].bind(thread, te.thread_axis("threadIdx.x"))
print(tvm.lower(s, [A, B, C], simple_mode=True))

# %% [markdown]
# ## The kernel as OpenCL
#
# The module has two parts: host code that checks the arguments and launches the kernel, and the imported device
# module with the kernel.

# %%
add = tvm.build(s, [A, B, C], tvm.target.Target("opencl", host="llvm"), name="add")
(kernel,) = add.imported_modules
print(kernel.get_source())

# %% [markdown]
# For NVIDIA GPUs use the target `cuda`; `cuda -arch=sm_80` names the architecture. With `pip install '.[cuda]'`,
# NVRTC compiles the kernels, also on machines without a GPU.
#
# ## Shared memory
#
# The threads of a block share fast memory. `cache_read` copies a tile of an input to shared memory; the compiler
# inserts the barrier between writing and reading the tile.

# %%
N = 64
X = te.placeholder((N, N), name="X")
Y = te.compute((N, N), lambda i, j: X[j, i], name="Y")
s = te.create_schedule(Y.op)
tile = s.cache_read(X, "shared", [Y])
i, j = Y.op.axis
io, jo, ii, ji = s[Y].tile(i, j, 16, 16)
s[Y].bind(io, te.thread_axis("blockIdx.y"))
s[Y].bind(jo, te.thread_axis("blockIdx.x"))
ty, tx = te.thread_axis((0, 16), "threadIdx.y"), te.thread_axis((0, 16), "threadIdx.x")
s[Y].bind(ii, ty)
s[Y].bind(ji, tx)
s[tile].compute_at(s[Y], jo)
row, column = s[tile].op.axis
s[tile].bind(row, ty)
s[tile].bind(column, tx)
transpose = tvm.build(s, [X, Y], tvm.target.Target("opencl", host="llvm"), name="transpose")
source = transpose.imported_modules[0].get_source()
print(source[source.index("__kernel") :])
assert "barrier" in source

# %% [markdown]
# ## Run the kernel

# %%
device = tvm.device("opencl", 0)
if device.exist:
    x = np.random.rand(N, N).astype("float32")
    out = tvm.nd.empty((N, N), device=device)
    transpose(tvm.nd.array(x, device), out)
    np.testing.assert_array_equal(out.numpy(), x.T)
    print("ran on", device.device_name)
else:
    print("this machine has no OpenCL device")

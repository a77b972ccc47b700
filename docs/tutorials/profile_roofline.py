# %% [markdown]
# # Read a profile and a roofline
#
# This tutorial shows where the time of a model goes and how close each kernel is to the peak of the machine, for
# users who optimize models.

# %%
import os

import numpy as np
from plot import bars

import tvm
from tvm import relay
from tvm.contrib.debugger import debug_executor

QUICK = "TVM_TUTORIAL_QUICK" in os.environ
SIZE = 16 if QUICK else 56
rng = np.random.default_rng(0)


def layer(data, inputs, outputs, kernel):
    weight = relay.const((rng.random((outputs, inputs, kernel, kernel), "float32") - 0.5) * 0.1)
    return relay.nn.relu(relay.nn.conv2d(data, weight, padding=kernel // 2, kernel_size=(kernel, kernel)))


x = relay.var("x", shape=(1, 64, SIZE, SIZE))
wide = layer(x, 64, 64, 3)
narrow = layer(wide, 64, 256, 1)
out = relay.nn.softmax(relay.nn.batch_flatten(relay.nn.global_avg_pool2d(narrow)))
mod = tvm.IRModule.from_expr(relay.Function([x], out))

# %% [markdown]
# ## The profile
#
# The debug executor runs one kernel at a time. Each row of the report is one kernel, which may contain several fused
# operators.

# %%
with tvm.transform.PassContext(opt_level=3):
    library = relay.build(mod, target="llvm")
run = debug_executor.create(library.get_graph_json(), library.get_lib(), tvm.cpu())
for name, value in library.get_params().items():
    run.set_input(name, value)
run.set_input("x", rng.random((1, 64, SIZE, SIZE), "float32"))
report = run.profile()
print(report)

# %% [markdown]
# ## Time by kernel

# %%
times = {}
for call in report.calls:
    times[str(call["Name"]).removeprefix("tvmgen_default_fused_")] = call["Duration (us)"].value
bars("microseconds of each kernel", times, "us")

# %% [markdown]
# ## The roofline
#
# Arithmetic or memory bandwidth limits a kernel. Its *intensity* is the number of operations per byte moved. If the
# intensity is below the balance of the machine (peak operations divided by peak bandwidth), memory limits the kernel;
# otherwise arithmetic does. The shapes of the two convolutions determine both numbers.

# %%
POINTS = SIZE * SIZE


def intensity(inputs, outputs, kernel):
    operations = 2 * inputs * outputs * kernel * kernel * POINTS
    moved = 4 * (inputs * POINTS + outputs * POINTS + inputs * outputs * kernel * kernel)
    return operations, operations / moved


for name, shape in {"3x3, 64 to 64": (64, 64, 3), "1x1, 64 to 256": (64, 256, 1)}.items():
    operations, ratio = intensity(*shape)
    print(f"{name}: {operations / 1e6:.1f} million operations, {ratio:.1f} for each byte")

# %% [markdown]
# The 3x3 convolution executes several times more operations per byte than the 1x1 convolution. Arithmetic limits it,
# and the compiler may use Winograd's algorithm, which needs fewer multiplications (the name of the kernel contains
# it). Memory bandwidth limits the 1x1 convolution. `tvmc run --profile` prints the same table for a package. `tvmc
# tune --report page.html` writes a page with the share of the peak that each task reaches. {doc}`../performance`
# lists such numbers for whole models.

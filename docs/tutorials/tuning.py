# %% [markdown]
# # Tune a template
#
# This tutorial tunes a matmul with AutoTVM, for users who write templates. A template is a schedule with open
# choices, *knobs*. A tuner measures values of the knobs on the machine and writes records. `tvmc tune` does the same
# for every kernel of a model ({doc}`../tuning`).

# %%
import logging
import os

import numpy as np
from plot import bars

import tvm
from tvm import autotvm, te

QUICK = "TVM_TUTORIAL_QUICK" in os.environ
N = 64 if QUICK else 512
TRIALS = 4 if QUICK else 24
logging.getLogger("autotvm").setLevel(logging.ERROR)


@autotvm.template("tutorial/matmul")
def matmul(n):
    A = te.placeholder((n, n), name="A")
    B = te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), "k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    cfg = autotvm.get_config()
    row, column = C.op.axis
    cfg.define_split("tile_row", row, num_outputs=2, filter=lambda e: e.size[-1] <= 16)
    cfg.define_split("tile_column", column, num_outputs=2, filter=lambda e: 8 <= e.size[-1] <= 64)
    cache = s.cache_write(C, "local")
    ro, ri = cfg["tile_row"].apply(s, C, row)
    co, ci = cfg["tile_column"].apply(s, C, column)
    s[C].reorder(ro, co, ri, ci)
    s[C].vectorize(ci)
    s[C].parallel(ro)
    s[cache].compute_at(s[C], co)
    r, c = s[cache].op.axis
    (ks,) = s[cache].op.reduce_axis
    s[cache].reorder(ks, r, c)
    s[cache].unroll(r)
    s[cache].vectorize(c)
    return s, [A, B, C]


# %% [markdown]
# ## The search space
#
# A task is a template with its arguments. Running the template once collects its knobs.

# %%
task = autotvm.task.create("tutorial/matmul", args=(N,), target="llvm")
print(task.config_space)

# %% [markdown]
# ## The search
#
# Candidates are built and measured in worker processes: a candidate that crashes or takes too long costs only its
# trial. Every result is appended to a record file.

# %%
tried = []


def remember(tuner, inputs, results):
    tried.extend(task.flop / r.costs[0] / 1e9 if r.error_no == 0 else 0.0 for r in results)


option = autotvm.measure_option(autotvm.LocalBuilder(), autotvm.LocalRunner(number=3, repeat=1))
tuner = autotvm.tuner.RandomTuner(task)
tuner.tune(n_trial=TRIALS, measure_option=option, callbacks=[remember, autotvm.callback.log_to_file("records.json")])
best = tuner.best_config
print("best:", best)

# %%
kept = sorted(tried, reverse=True)
bars(
    "speed of the candidates",
    {"best": kept[0], "a quarter are above": kept[len(kept) // 4], "median": kept[len(kept) // 2], "worst": kept[-1]},
    "GFLOPS",
)

# %% [markdown]
# ## Use the records
#
# Inside `apply_history_best`, the template uses the best recorded choice.

# %%
with autotvm.apply_history_best("records.json"):
    with tvm.target.Target("llvm"):
        s, arguments = matmul(N)
function = tvm.build(s, arguments, "llvm", name="matmul")
x = np.random.rand(N, N).astype("float32")
out = tvm.nd.empty((N, N))
function(tvm.nd.array(x), tvm.nd.array(x), out)
np.testing.assert_allclose(out.numpy(), x @ x, rtol=1e-3)
print("the tuned matmul equals NumPy")

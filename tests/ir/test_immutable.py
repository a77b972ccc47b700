"""Nodes are not written to: ``TVM_DEBUG=1`` refuses it, and a compile under it shows that the compiler does not."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

COMPILE = """
import numpy, tvm
from tvm import te
n = te.var("n")
A = te.placeholder((n, 64), name="A")
B = te.compute((n, 64), lambda i, j: A[i, j] * 2.0 + 1.0, name="B")
k = te.reduce_axis((0, 64), name="k")
C = te.compute((n,), lambda i: te.sum(B[i, k], axis=k), name="C")
s = te.create_schedule(C.op)
cache = s.cache_read(A, "global", [B])
outer, inner = s[C].split(C.op.axis[0], 8)
s[C].parallel(outer)
s[B].compute_at(s[C], inner)
s[cache].compute_at(s[C], inner)
s[B].vectorize(s[B].split(B.op.axis[1], 16)[1])
f = tvm.build(s, [A, C], "llvm")
x = numpy.random.rand(20, 64).astype("float32")
out = tvm.nd.empty((20,))
f(tvm.nd.array(x), out)
numpy.testing.assert_allclose(out.numpy(), (x * 2 + 1).sum(1), rtol=1e-4)
"""


def run(program: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "TVM_DEBUG": "1"}
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)


def test_compiling_writes_to_no_node():
    done = run(COMPILE)
    assert done.returncode == 0, done.stderr


COMPILE_A_GRAPH = """
import numpy, tvm
from tvm import relay
x, w = relay.var("x", shape=(2, 8)), relay.const(numpy.ones((4, 8), "float32"))
pair = relay.split(relay.nn.relu(relay.nn.dense(x, w)), 2, axis=1)
module = tvm.IRModule.from_expr(relay.Function([x], pair[0] + pair[1]))
with tvm.transform.PassContext(opt_level=3):
    library = relay.build(module, "llvm")
run = tvm.contrib.graph_executor.GraphModule(library["default"](tvm.cpu()))
run.run(x=numpy.ones((2, 8), "float32"))
assert (run.get_output(0).numpy() == 16).all()
"""


@pytest.mark.slow("starts an interpreter that compiles with every node watched")
def test_compiling_a_graph_writes_to_types_alone():
    done = run(COMPILE_A_GRAPH)
    assert done.returncode == 0, done.stderr

"""Kernels with unknown sizes beside their static forms: both are compiled here and run on the same arrays."""

from __future__ import annotations

import numpy as np

import tvm
from tests.quick_code import quick_code
from tvm import relay
from tvm.relay.backend.from_relay import post_order_calls
from tvm.relay.backend.shape_func import NOTHING, VALUE, shape_function
from tvm.relay.backend.te_compiler import KernelCompiler
from tvm.relay.build_module import _fuse, optimize
from tvm.relay.expr import TupleWrapper
from tvm.relay.symbolic import flatten_type
from tvm.relay.transform.expand_ops import ExpandOps
from tvm.relay.transform.name_sizes import NameSizes
from tvm.relay.transform.simplify_inference import SimplifyInference
from tvm.runtime.container import ADT
from tvm.target import Target


def primitive(build, types):
    """The typed function of ``build(*variables)``."""
    variables = [relay.var(f"x{i}", t) for i, t in enumerate(types)]
    made = build(*variables)
    made = made.astuple() if isinstance(made, TupleWrapper) else made
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(variables, made)))
    # Operators without a computation of their own are those they consist of.
    return ExpandOps()(SimplifyInference()(mod))["main"].with_attr("Primitive", 1)


class SymbolicKernel:
    """A fused function with unknown sizes, compiled once: ``shapes(*arrays)`` and ``run(*arrays)``."""

    def __init__(self, function, target="llvm"):
        self.kernel = KernelCompiler(Target(target)).lower(function)
        self.shape_func = shape_function(function, f"shape_func_{self.kernel.name}")
        mod = tvm.IRModule()
        mod.update(self.kernel.module)
        mod.update(self.shape_func.module)
        with quick_code():
            self.library = tvm.build(mod, target=target)
        self.types = flatten_type(function.body.checked_type)

    def shapes(self, *arrays):
        """The shapes of the results, as the shape function says."""
        taken = [(a, mode) for a, mode in zip(arrays, self.shape_func.inputs, strict=True) if mode != NOTHING]
        given = [a if mode == VALUE else np.array(a.shape, "int64") for a, mode in taken]
        outs = [tvm.nd.array(np.full(rank, -7, "int64")) for rank in self.shape_func.ranks]
        self.library[self.shape_func.name](*map(tvm.nd.array, given), *outs)
        return [tuple(o.numpy().tolist()) for o in outs]

    def run(self, *arrays):
        """The results, in memory of the shapes that the shape function gives."""
        outs = [tvm.nd.array(np.full(s, 77).astype(t.dtype)) for s, t in zip(self.shapes(*arrays), self.types)]
        self.library[self.kernel.name](*map(tvm.nd.array, arrays), *outs)
        return [o.numpy() for o in outs]


def static_results(build, arrays):
    """The results of the static form, operator by operator."""
    function = primitive(build, [relay.TensorType(a.shape, str(a.dtype)) for a in arrays])
    with quick_code():
        got = relay.create_executor("debug").evaluate(function)(*arrays)
    return [o.numpy() for o in (got if isinstance(got, (list, ADT)) else [got])]


def run_graph(mod, arrays, target="llvm", compiled=None):
    """The results of a straight graph whose sizes are unknown: the graph passes and fusion as a build has them, then
    each kernel with its shape function. ``compiled`` keeps the kernels for another run."""
    compiled = {} if compiled is None else compiled
    if "main" not in compiled:
        target = Target(target)
        named = NameSizes()(mod)
        with target:
            optimized, _ = optimize(named, target)
            compiled["main"] = _fuse(optimized, target, tvm.transform.PassContext.current())["main"]
    main = compiled["main"]
    values = dict(zip(map(id, main.params), map(np.asarray, arrays)))
    for node in post_order_calls(main.body):
        if id(node) in values:
            continue
        if isinstance(node, relay.Constant):
            values[id(node)] = node.data.numpy()
        elif isinstance(node, relay.Tuple):
            values[id(node)] = [values[id(f)] for f in node.fields]
        elif isinstance(node, relay.TupleGetItem):
            values[id(node)] = values[id(node.tuple_value)][node.index]
        else:
            values[id(node)] = _called(node, values, compiled)
    result = values[id(main.body)]
    return result if isinstance(result, list) else [result]


def _called(node, values, compiled):
    given = []
    for arg in node.args:
        value = values[id(arg)]
        given += value if isinstance(value, list) else [value]
    if id(node.op) not in compiled:
        compiled[id(node.op)] = SymbolicKernel(node.op)
    got = compiled[id(node.op)].run(*given)
    return got if isinstance(node.checked_type, relay.TupleType) else got[0]

"""A code generator that writes C: element-wise sums, differences and products of float32 arrays of one shape.

It is registered under the name ``ccompiler``, which published scripts use.
"""

from __future__ import annotations

import math

import tvm
from tvm import relay
from tvm.relay.backend.external import c_source_module

_OPERATORS = {"add": "+", "subtract": "-", "multiply": "*"}

_FUNCTION = """\
#include <tvm_runtime.h>
{declarations}
TVM_DLL int {symbol}(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, void *self) {{
{pointers}
  for (int64_t i = 0; i < {elements}; ++i) {{
{statements}
  }}
  return 0;
}}
"""


def compile_partition(function: relay.Function) -> tvm.runtime.Module:
    """The module of a partition: one loop that computes all its outputs."""
    symbol = str(function.attrs["global_symbol"])
    elements = math.prod(int(d) for d in function.params[0].checked_type.shape)
    names: dict[relay.Expr, str] = {}
    constants, pointers, statements = {}, [], []

    def pointer(name: str, address: str) -> None:
        pointers.append(f"  float *{name} = {address};")

    for i, param in enumerate(function.params):
        names[param] = f"in{i}[i]"
        pointer(f"in{i}", f"TVMTensorData(args[{i}].v_handle)")

    def visit(node) -> None:
        if isinstance(node, relay.Constant):
            key = f"{symbol}_const_{len(constants)}"
            constants[key] = node.data
            pointer(f"k{len(constants)}", f"(float *){key}")
            names[node] = f"k{len(constants)}[i]"
        elif isinstance(node, relay.Call):
            a, b = (names[arg] for arg in node.args)
            names[node] = f"v{len(statements)}"
            statements.append(f"    float {names[node]} = {a} {_OPERATORS[node.op.name]} {b};")

    relay.analysis.post_order_visit(function.body, visit)
    outputs = function.body.fields if isinstance(function.body, relay.Tuple) else [function.body]
    for i, output in enumerate(outputs):
        pointer(f"out{i}", f"TVMTensorData(args[{len(function.params) + i}].v_handle)")
        statements.append(f"    out{i}[i] = {names[output]};")
    source = _FUNCTION.format(
        symbol=symbol,
        elements=elements,
        declarations="\n".join(f"extern const unsigned long long {name}[];" for name in constants),
        pointers="\n".join(pointers),
        statements="\n".join(statements),
    )
    return c_source_module(source, [symbol], constants)


def register() -> None:
    tvm.register_func("relay.ext.ccompiler", compile_partition, override=True)

"""Programs and buffer lists for tests of the memory planner."""

from __future__ import annotations

import random

import tvm
from tvm import tir
from tvm.ir.memory_pools import PoolInfoProperties, WorkspacePoolInfo
from tvm.ir.module import GlobalVar
from tvm.ir.prim import Call, Var
from tvm.tir import decl_buffer
from tvm.tir.buffer import Buffer
from tvm.tir.function import PrimFunc
from tvm.tir.stmt import Allocate, BufferStore, Evaluate, For, ForKind, Stmt, seq
from tvm.tir.stmt_functor import ir_transform
from tvm.tir.usmp.utils import CANDIDATE_MEMORY_POOL_ATTR, BufferInfo

SIZES = {"int8": 1, "uint8": 1, "int16": 2, "int32": 4, "float32": 4}


def pool(name="global_workspace", size=-1, targets=()):
    return WorkspacePoolInfo(name, targets, PoolInfoProperties(size_hint_bytes=size))


# Statements


def buffer(name, size, dtype="int8"):
    return decl_buffer((size,), dtype, name)


def allocate(memory: Buffer, body, annotations=None):
    return Allocate(memory.data, memory.dtype, memory.shape, True, body, annotations)


def copy(to: Buffer, *sources: Buffer, extent=4):
    """A loop that writes ``to`` and reads the sources."""
    i = Var("i", "int32")
    value = sum((tir.Cast(to.dtype, source[i]) for source in sources), tir.const(1, to.dtype))
    return loop(BufferStore(to, value, (i,)), extent, i)


def loop(body, extent=4, var=None, kind=ForKind.SERIAL):
    return For(Var("o", "int32") if var is None else var, 0, extent, kind, body)


def call(name, *pointers):
    """A call of a function by its name; buffers are passed as pointers."""
    args = [p.data if isinstance(p, Buffer) else p for p in pointers]
    return Evaluate(tir.call_extern("int32", name, *args))


def direct(var: GlobalVar, *pointers):
    """A call of a function of the module."""
    return Evaluate(Call("int32", var, [p.data if isinstance(p, Buffer) else p for p in pointers]))


def function(name, params, body: Stmt, target="c", **attrs):
    return PrimFunc(
        params, body, attrs={"global_symbol": name, "target": tvm.target.Target(target), "tir.noalias": True, **attrs}
    )


def with_pools(mod, pools):
    """Annotate all allocations with these candidate pools."""

    def annotate(stmt):
        if isinstance(stmt, (Allocate, tir.AllocateConst)):
            return stmt.replace(annotations={**(stmt.annotations or {}), CANDIDATE_MEMORY_POOL_ATTR: tuple(pools)})
        return None

    return mod.map_functions(lambda var, f: f.with_body(ir_transform(f.body, None, annotate)))


# Operators of published networks, with their memory


def pointwise(name, *params):
    """A kernel without memory of its own: reads all parameters but the last, which it writes."""
    return function(name, list(params), copy(params[-1], *params[:-1]))


def convolution(name, padded, accumulator, source, *weights_and_output, inner=False):
    """A kernel that pads its input, then computes sums for each pixel in an accumulator."""
    *weights, output = weights_and_output
    sums = seq(copy(accumulator, padded, *weights), copy(output, accumulator))
    pixels = loop(allocate(accumulator, loop(sums, 3) if inner else sums))
    body = allocate(padded, seq(copy(padded, source), pixels))
    return function(name, [source, *weights, output], body)


def linear_structure():
    """Cast, convolution and pooling in a chain."""
    pooled = buffer("tensor_2", 200704, "uint8")
    conv = "tvmgen_default_fused_nn_conv2d_add_fixed_point_multiply_clip_cast"
    cast, pooling = "tvmgen_default_fused_cast_subtract", "tvmgen_default_fused_nn_max_pool2d_cast"
    source, output = buffer("placeholder_28", 802816, "uint8"), buffer("T_cast_6", 177, "int16")
    sid_9, sid_8 = buffer("sid_9", 301056), buffer("sid_8", 802816)
    calls = seq(
        call(cast, Var("input", "handle"), param("p0"), sid_9),
        call(conv, sid_9, param("p1"), param("p2"), sid_8),
        call(pooling, sid_8, Var("output", "handle")),
    )
    main_in, main_out = Var("input", "handle"), Var("output", "handle")
    calls = tir.stmt_functor.substitute(calls, lambda v: {"input": main_in, "output": main_out}.get(v.name))
    return tvm.IRModule({
        cast: pointwise(cast, buffer("placeholder_2", 150528, "uint8"), buffer("placeholder_3", 1, "int16"),
                        buffer("T_subtract", 452, "int16")),
        conv: convolution(conv, buffer("PaddedInput_7", 157323, "int16"), buffer("Conv2dOutput_7", 64, "int32"),
                          buffer("placeholder_62", 150528, "int16"), buffer("placeholder_63", 9408, "int16"),
                          buffer("placeholder_64", 64, "int32"), buffer("T_cast_20", 289, "uint8")),
        pooling: function(pooling, [source, output], allocate(pooled, seq(copy(pooled, source), copy(output, pooled)))),
        "__tvm_main__": function("__tvm_main__", [main_in, main_out], allocate(sid_9, allocate(sid_8, calls))),
    })  # fmt: skip


def param(name):
    return Call("handle", tvm.ir.Op.get("tir.lookup_param"), (tir.StringImm(name),))


def resnet_structure():
    """A block of a residual network: the first result is read by the last operator."""
    cast = "tvmgen_default_fused_cast"
    sizes = {"": 360000, "_1": 379456, "_2": 360000, "_3": 360000}
    functions = {cast: pointwise(cast, buffer("a", 360000, "uint8"), buffer("b", 64, "int32"), buffer("c", 215))}
    for suffix, size in sizes.items():
        name = f"tvmgen_default_conv2d{suffix}"
        given = [buffer("source", 360000, "int16"), buffer("weights", 4096, "int16"), buffer("bias", 64, "int32")]
        if suffix == "_3":
            given.append(buffer("added", 1440000, "int32"))
        functions[name] = convolution(
            name, buffer(f"PaddedInput{suffix}", size, "int16"), buffer(f"Conv2dOutput{suffix}", 64, "int32"),
            *given, buffer("result", 215, "int16"), inner=suffix in ("_2", "_3"),
        )  # fmt: skip
    main_in, main_out = Var("input", "handle"), Var("output", "handle")
    sid = {n: buffer(f"sid_{n}", 5760000 if n == 6 else 720000) for n in (2, 6, 7, 8)}
    body = seq(
        call(cast, main_in, param("p0"), sid[2]),
        call("tvmgen_default_conv2d", sid[2], param("p3"), param("p4"), sid[8]),
        call("tvmgen_default_conv2d_1", sid[8], param("p5"), param("p6"), sid[7]),
        call("tvmgen_default_conv2d_2", sid[7], param("p7"), param("p8"), sid[6]),
        call("tvmgen_default_conv2d_3", sid[2], param("p1"), param("p2"), sid[6], main_out),
    )
    for memory in reversed(sid.values()):
        body = allocate(memory, body)
    functions["__tvm_main__"] = function("__tvm_main__", [main_in, main_out], body)
    return tvm.IRModule(functions)


# Lists of buffers


def buffers_of(intervals, alignment=1, pools=None):
    """A buffer for each (first, last, size), with the conflicts of their intervals."""
    pools = [pool()] if pools is None else pools
    made = [BufferInfo(str(i), size, pools, alignment) for i, (_, _, size) in enumerate(intervals)]
    for one, (a, b, _) in zip(made, intervals):
        one.set_conflicts(
            other for other, (c, d, _) in zip(made, intervals) if other is not one and a <= d and c <= b
        )  # fmt: skip
    return made


def random_intervals(numbers: random.Random, count, largest=65535):
    made = []
    for _ in range(count):
        first = numbers.randrange(count)
        made.append((first, first + numbers.randrange(1, max(2, count // 3)), numbers.randrange(1, largest)))
    return made


def peak(allocations, of_pool=None):
    """The bytes that a plan uses in a pool, or in all of them."""
    return max(
        (place.byte_offset + b.size_bytes for b, place in allocations.items()
         if of_pool is None or place.pool_info is of_pool), default=0,
    )  # fmt: skip

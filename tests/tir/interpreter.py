"""A reference interpreter of TIR over NumPy: slow, plain, independent of code generation.

``run(func, *arguments)`` executes a PrimFunc at any stage of lowering; arrays are changed in place. Arithmetic is done
in the type of each expression, so integers wrap as in compiled code. An access outside its memory raises IndexError.
"""

from __future__ import annotations

import math

import numpy as np

from tvm.dtype import element, info
from tvm.ir import prim
from tvm.tir import stmt as S
from tvm.tir.buffer import Buffer


class AssertionFailed(Exception):
    """An AssertStmt whose condition was false."""


class Returned(Exception):
    """``tir.ret``: carries the value out of the function."""

    def __init__(self, value):
        self.value = value


def numpy_dtype(dtype: str):
    base = element(dtype)
    if base == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype("bool" if base == "bool" else base)


def _floor_div(a, b):
    return a // b


def _trunc_div(a, b):
    if np.issubdtype(np.asarray(a).dtype, np.integer):
        quotient = np.abs(np.asarray(a).astype("O")) // np.abs(np.asarray(b).astype("O"))
        sign = np.where((np.asarray(a) < 0) == (np.asarray(b) < 0), 1, -1)
        return np.asarray(quotient * sign).astype(np.asarray(a).dtype)[()]
    return a / b


def _trunc_mod(a, b):
    return np.fmod(a, b)


BINARY = {
    prim.Add: lambda a, b: a + b,
    prim.Sub: lambda a, b: a - b,
    prim.Mul: lambda a, b: a * b,
    prim.Div: _trunc_div,
    prim.Mod: _trunc_mod,
    prim.FloorDiv: _floor_div,
    prim.FloorMod: lambda a, b: a % b,
    prim.Min: np.minimum,
    prim.Max: np.maximum,
    prim.EQ: lambda a, b: a == b,
    prim.NE: lambda a, b: a != b,
    prim.LT: lambda a, b: a < b,
    prim.LE: lambda a, b: a <= b,
    prim.GT: lambda a, b: a > b,
    prim.GE: lambda a, b: a >= b,
}

UNARY = {
    "exp": np.exp, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin, "cos": np.cos, "tan": np.tan, "tanh": np.tanh, "exp2": np.exp2,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "round": np.round, "nearbyint": np.round, "fabs": np.abs, "isnan": np.isnan, "isinf": np.isinf,
    "isfinite": np.isfinite, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh,
    "cosh": np.cosh, "bitwise_not": np.invert, "likely": lambda x: x, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "erf": np.vectorize(math.erf),
}  # fmt: skip

PAIRS = {
    "pow": np.power, "fmod": np.fmod, "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor, "shift_left": np.left_shift, "shift_right": np.right_shift, "atan2": np.arctan2,
    "hypot": np.hypot, "copysign": np.copysign, "nextafter": np.nextafter,
}  # fmt: skip


class Memory:
    """The elements behind a data variable; ``mins`` are set while a BufferRealize is in force."""

    def __init__(self, array: np.ndarray, mins=None):
        self.array = array
        self.mins = mins


class Interpreter:
    """``externs`` maps names of packed and extern functions to Python callables; ``order`` permutes parallel loops."""

    def __init__(self, externs=None, order=None, module=None):
        self.externs = externs or {}
        self.order = order
        self.module = module
        self.values: dict = {}
        self.memory: dict = {}
        self.synced = 0
        # Whether a minimum or maximum met a NaN: either operand may come back then.
        self.undecided = False

    # Expressions ------------------------------------------------------------------------------------------------
    def eval(self, e):
        handler = EXPR.get(type(e))
        if handler is not None:
            return handler(self, e)
        function = BINARY.get(type(e))
        if function is None:
            raise NotImplementedError(f"the interpreter does not know {type(e).__name__}")
        with np.errstate(all="ignore"):
            value = self.cast(function(self.eval(e.a), self.eval(e.b)), e.dtype)
        if function in (np.minimum, np.maximum) and np.any(value != value):
            self.undecided = True
        return value

    def cast(self, value, dtype):
        if info(dtype).is_handle:
            return value
        kind = numpy_dtype(dtype)
        with np.errstate(all="ignore"):
            return np.asarray(value).astype(kind)[()]

    def index(self, buffer: Buffer, indices, memory: Memory):
        """The positions in ``memory.array`` an access touches: a scalar or an array of lanes."""
        at = [self.eval(i) for i in indices]
        if memory.mins is not None:
            at = [i - m for i, m in zip(at, memory.mins)]
            for i, extent in zip(at, memory.array.shape):
                self.inside(buffer, i, extent)
            return tuple(np.asarray(i, "int64") for i in at)
        offset = np.asarray(self.eval(buffer.elem_offset), "int64")
        if buffer.strides:
            flat = offset + sum(np.asarray(i, "int64") * int(self.eval(s)) for i, s in zip(at, buffer.strides))
        else:
            flat = np.asarray(0, "int64")
            for i, extent in zip(at, buffer.shape):
                flat = flat * int(self.eval(extent)) + np.asarray(i, "int64")
            flat = flat + offset
        self.inside(buffer, flat, memory.array.size)
        return flat

    def inside(self, buffer, position, extent):
        if np.any(np.asarray(position) < 0) or np.any(np.asarray(position) >= extent):
            raise IndexError(f"{buffer.name}: position {position} is outside 0..{extent - 1}")

    def storage(self, buffer: Buffer) -> Memory:
        if buffer in self.memory:
            return self.memory[buffer]
        memory = self.memory.get(buffer.data)
        if memory is None and isinstance(self.values.get(buffer.data), Memory):
            memory = self.values[buffer.data]
        if memory is None:
            raise KeyError(f"buffer {buffer.name} has no memory here")
        kind = numpy_dtype(buffer.dtype)
        if memory.mins is None and memory.array.dtype != kind:
            return Memory(memory.array.view(kind))
        return memory

    def load(self, e):
        memory = self.storage(e.buffer)
        flat = memory.array if memory.mins is not None else memory.array.reshape(-1)
        return self.cast(flat[self.index(e.buffer, e.indices, memory)], e.dtype)

    def call(self, e):
        name = getattr(e.op, "name", None)
        if name is None:
            function = self.module[e.op]
            return self.invoke(function, [self.eval(a) for a in e.args])
        name = name.removeprefix("tir.")
        if name in SPECIAL:
            return SPECIAL[name](self, e)
        with np.errstate(all="ignore"):
            if name in UNARY:
                return self.cast(UNARY[name](self.eval(e.args[0])), e.dtype)
            if name in PAIRS:
                return self.cast(PAIRS[name](self.eval(e.args[0]), self.eval(e.args[1])), e.dtype)
        raise NotImplementedError(f"the interpreter does not know the intrinsic {name}")

    def if_then_else(self, e):
        condition = self.eval(e.args[0])
        if np.ndim(condition) == 0:
            value = self.eval(e.args[1] if condition else e.args[2])
            lanes = info(e.dtype).lanes
            return np.broadcast_to(value, (lanes,)) if lanes > 1 and np.ndim(value) == 0 else value
        return np.where(condition, self.eval(e.args[1]), self.eval(e.args[2]))

    def extern(self, e):
        name = e.args[0].value
        if name not in self.externs:
            raise NotImplementedError(f"no extern function '{name}' was given to the interpreter")
        got = self.externs[name](*[self.eval(a) for a in e.args[1:]])
        return 0 if got is None else self.cast(got, e.dtype)

    def access_ptr(self, e):
        memory = self.memory[e.args[1]]
        start, extent = int(self.eval(e.args[2])), int(self.eval(e.args[3]))
        return memory.array.reshape(-1)[start : start + extent]

    def make_array(self, e):
        data, shape, strides = e.args[0], self.eval(e.args[1]), e.args[2]
        array = self.memory[data].array.reshape(-1)
        offset = int(self.eval(e.args[5]))
        if prim.IntImm is type(strides):
            size = int(np.prod(shape, dtype="int64"))
            return array[offset : offset + size].reshape(shape)
        steps = [s * array.itemsize for s in self.eval(strides)]
        return np.lib.stride_tricks.as_strided(array[offset:], shape, steps)

    def address_of(self, e):
        """An address is not an access: it may lie outside."""
        load = e.args[0]
        return ("address", self.storage(load.buffer), [np.ravel(self.eval(i))[0] for i in load.indices])

    # Statements -------------------------------------------------------------------------------------------------
    def exec(self, s):
        handler = STMT.get(type(s))
        if handler is None:
            raise NotImplementedError(f"the interpreter does not know the statement {type(s).__name__}")
        handler(self, s)

    def loop(self, s):
        low, extent = int(self.eval(s.min)), int(self.eval(s.extent))
        steps = range(low, low + extent)
        if s.kind in (S.ForKind.PARALLEL, S.ForKind.THREAD_BINDING) and self.order is not None:
            steps = self.order(list(steps))
        kind = numpy_dtype(s.loop_var.dtype).type
        for i in steps:
            self.values[s.loop_var] = kind(i)
            self.exec(s.body)

    def store(self, s):
        memory = self.storage(s.buffer)
        value = self.eval(s.value)
        if memory.mins is not None:
            memory.array[self.index(s.buffer, s.indices, memory)] = value
        else:
            memory.array.reshape(-1)[self.index(s.buffer, s.indices, memory)] = value

    def branch(self, s):
        if self.eval(s.condition):
            self.exec(s.then_case)
        elif s.else_case is not None:
            self.exec(s.else_case)

    def let(self, s):
        self.values[s.var] = self.eval(s.value)
        self.exec(s.body)

    def repeat(self, s):
        while self.eval(s.condition):
            self.exec(s.body)

    def check(self, s):
        if not self.eval(s.condition):
            raise AssertionFailed(getattr(s.message, "value", str(s.message)))
        self.exec(s.body)

    def allocate(self, s):
        size = int(np.prod([int(self.eval(e)) for e in s.extents], dtype="int64")) * info(s.dtype).lanes
        self.memory[s.buffer_var] = Memory(_garbage(size, s.dtype))
        self.exec(s.body)

    def constant(self, s):
        data = s.data_or_idx
        data = data.numpy() if hasattr(data, "numpy") else np.asarray(data)
        self.memory[s.buffer_var] = Memory(np.array(data).reshape(-1))
        self.exec(s.body)

    def realize(self, s):
        mins = [int(self.eval(r.min)) for r in s.bounds]
        shape = [int(self.eval(r.extent)) for r in s.bounds]
        size = int(np.prod(shape, dtype="int64"))
        self.memory[s.buffer] = Memory(_garbage(size, s.buffer.dtype).reshape(shape), mins)
        self.exec(s.body)

    def attribute(self, s):
        if s.attr_key in ("thread_extent", "virtual_thread"):
            var = s.node.var
            if var in self.values and s.attr_key == "thread_extent":
                self.exec(s.body)
                return
            steps = list(range(int(self.eval(s.value))))
            for i in self.order(steps) if self.order is not None else steps:
                self.values[var] = numpy_dtype(var.dtype).type(i)
                self.exec(s.body)
            del self.values[var]
            return
        self.exec(s.body)

    def block(self, s):
        if not self.eval(s.predicate):
            return
        block = s.block
        reducing_from_start = True
        for axis, value in zip(block.iter_vars, s.iter_values):
            got = self.eval(value)
            self.values[axis.var] = got
            if axis.iter_type == prim.IterVar.CommReduce and int(got) != int(self.eval(axis.dom.min)):
                reducing_from_start = False
        self.declare_blocks(block)
        if block.init is not None and reducing_from_start:
            self.exec(block.init)
        self.exec(block.body)

    def declare_blocks(self, block):
        for buffer in block.alloc_buffers:
            if buffer not in self.memory:
                shape = [int(self.eval(e)) for e in buffer.shape]
                size = int(np.prod(shape, dtype="int64"))
                self.memory[buffer] = Memory(_garbage(size, buffer.dtype).reshape(shape), [0] * len(shape))

    # Functions --------------------------------------------------------------------------------------------------
    def bind_shape(self, buffer: Buffer, array: np.ndarray):
        for want, got in zip(buffer.shape, array.shape):
            if isinstance(want, prim.Var):
                self.values.setdefault(want, numpy_dtype(want.dtype).type(got))
        for want, got in zip(buffer.strides, array.strides):
            if isinstance(want, prim.Var):
                self.values.setdefault(want, numpy_dtype(want.dtype).type(got // array.itemsize))
        if isinstance(buffer.elem_offset, prim.Var):
            self.values.setdefault(buffer.elem_offset, numpy_dtype(buffer.elem_offset.dtype).type(0))

    def invoke(self, func, arguments):
        if len(arguments) != len(func.params):
            raise TypeError(f"expected {len(func.params)} arguments, got {len(arguments)}")
        for param, value in zip(func.params, arguments):
            if param in func.buffer_map:
                buffer = func.buffer_map[param]
                self.bind_shape(buffer, value)
                if value.dtype.name == "bool":
                    value = value.view("int8")
                span = value
                if buffer.strides and not value.flags.c_contiguous:
                    size = 1 + sum((n - 1) * s for n, s in zip(value.shape, value.strides)) // value.itemsize
                    span = np.lib.stride_tricks.as_strided(value, (size,), (value.itemsize,))
                elif not value.flags.c_contiguous:
                    raise ValueError(f"{buffer.name}: the interpreter wants compact arrays")
                self.memory[buffer.data] = Memory(span.reshape(-1))
            elif isinstance(value, np.ndarray) and value.ndim:
                self.memory[param] = Memory(value.reshape(-1))
            elif isinstance(value, Memory):
                self.memory[param] = value
            else:
                self.values[param] = self.cast(value, param.dtype)
        try:
            self.exec(func.body)
        except Returned as done:
            return done.value
        return None


def _garbage(size: int, dtype: str) -> np.ndarray:
    """Memory as it comes: a value that shows when it is read before it is written."""
    kind = numpy_dtype("int8" if element(dtype) == "bool" else dtype)
    out = np.empty(size, kind)
    out.view("int8")[...] = 0x5B
    if kind.kind == "f":
        out[...] = np.nan
    return out


def _let_expr(self, e):
    self.values[e.var] = self.eval(e.value)
    return self.eval(e.body)


def _ramp(self, e):
    base, stride = self.eval(e.base), self.eval(e.stride)
    return self.cast(base + np.arange(e.lanes) * stride, e.dtype)


def _broadcast(self, e):
    value = self.eval(e.value)
    return np.tile(value, e.lanes) if np.ndim(value) else np.full(e.lanes, value)


def _shuffle(self, e):
    flat = np.concatenate([np.atleast_1d(self.eval(v)) for v in e.vectors])
    got = flat[[int(self.eval(i)) for i in e.indices]]
    return got[0] if len(got) == 1 else got


def _select(self, e):
    condition = self.eval(e.condition)
    if np.ndim(condition) == 0:
        return self.eval(e.true_value if condition else e.false_value)
    return np.where(condition, self.eval(e.true_value), self.eval(e.false_value))


def _variable(self, e):
    if e in self.values:
        return self.values[e]
    if e in self.memory:
        return self.memory[e]
    raise KeyError(f"variable {e.name} has no value here")


def _return(self, e):
    raise Returned(self.eval(e.args[0]))


def _literal(self, e):
    return numpy_dtype(e.dtype).type(e.value)


EXPR = {
    prim.Var: _variable,
    prim.SizeVar: _variable,
    prim.IntImm: _literal,
    prim.FloatImm: _literal,
    prim.StringImm: lambda self, e: e.value,
    prim.Cast: lambda self, e: self.cast(self.eval(e.value), e.dtype),
    prim.Not: lambda self, e: np.logical_not(self.eval(e.a)),
    prim.And: lambda self, e: _logical(self, e, np.logical_and, False),
    prim.Or: lambda self, e: _logical(self, e, np.logical_or, True),
    prim.Select: _select,
    prim.Ramp: _ramp,
    prim.Broadcast: _broadcast,
    prim.Shuffle: _shuffle,
    prim.Call: lambda self, e: self.call(e),
    prim.Let: _let_expr,
    prim.BufferLoad: lambda self, e: self.load(e),
}


def _logical(self, e, function, stops):
    a = self.eval(e.a)
    if np.ndim(a) == 0 and bool(a) is stops:
        return a
    return function(a, self.eval(e.b))


SPECIAL = {
    "if_then_else": lambda self, e: self.if_then_else(e),
    "call_extern": lambda self, e: self.extern(e),
    "call_pure_extern": lambda self, e: self.extern(e),
    "tvm_call_packed": lambda self, e: self.extern(e),
    "tvm_call_cpacked": lambda self, e: self.extern(e),
    "tvm_access_ptr": lambda self, e: self.access_ptr(e),
    "tvm_stack_make_array": lambda self, e: self.make_array(e),
    "tvm_stack_make_shape": lambda self, e: [int(self.eval(a)) for a in e.args],
    "address_of": lambda self, e: self.address_of(e),
    "prefetch": lambda self, e: self.eval(e.args[0]) and 0,
    "tvm_storage_sync": lambda self, e: 0,
    "ret": _return,
    "fma": lambda self, e: self.cast(self.eval(e.args[0]) * self.eval(e.args[1]) + self.eval(e.args[2]), e.dtype),
    "reinterpret": lambda self, e: np.asarray(self.eval(e.args[0])).view(numpy_dtype(e.dtype))[()],
    "assume": lambda self, e: 0,
}

STMT = {
    S.For: Interpreter.loop,
    S.BufferStore: Interpreter.store,
    S.IfThenElse: Interpreter.branch,
    S.LetStmt: Interpreter.let,
    S.While: Interpreter.repeat,
    S.AssertStmt: Interpreter.check,
    S.Allocate: Interpreter.allocate,
    S.AllocateConst: Interpreter.constant,
    S.BufferRealize: Interpreter.realize,
    S.AttrStmt: Interpreter.attribute,
    S.SeqStmt: lambda self, s: [self.exec(x) for x in s.seq],
    S.Evaluate: lambda self, s: self.eval(s.value),
    S.DeclBuffer: lambda self, s: self.exec(s.body),
    S.Prefetch: lambda self, s: None,
    S.BlockRealize: Interpreter.block,
    S.Block: lambda self, s: (self.declare_blocks(s), self.exec(s.body)),
}


def run(func, *arguments, externs=None, order=None, module=None):
    """Execute ``func`` on NumPy arrays (changed in place) and scalars; gives what the function returned."""
    return Interpreter(externs, order, module).invoke(func, list(arguments))

"""MakePackedAPI: generate a packed function that checks its arguments and calls the raw function.

``NAME`` becomes two functions. ``NAME_compute_`` takes data pointers, scalars and the size variables of its buffers,
and returns a status. ``NAME`` has the packed signature. It checks the number, type code, type, shape, strides and
device of the arguments, and calls the raw function. A size variable gets its value from the first argument that
contains it; the sizes of later arguments are compared with this value.

Two intrinsics are used only here. ``tir.tvm_check_tensor(function, name, index, value, code, type_annotation, device
type, alignment, ndim, shape..., number of strides, strides...)`` returns a non-zero status if the runtime rejects the
tensor; -1 stands for any extent or stride. ``tir.tvm_raise_value(text, value)`` sets the last error to the text
followed by the value and returns -1.
"""

from __future__ import annotations

from typing import Any

from ...dtype import info
from ...error import TVMError
from ...ir import primop
from ...ir.module import GlobalVar, IRModule
from ...ir.op import Op, register_op
from ...ir.prim import BufferLoad, Call, IntImm, PrimExpr, StringImm, Var, const
from ...ir.subst import variables
from ...ir.type import PointerType, PrimType
from ...ir.visit import post_order, rewrite
from ..buffer import Buffer, type_annotation
from ..function import PrimFunc
from ..intrinsics import CallEffectKind
from ..stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    seq,
)
from .statement import StmtRewriter, is_call


def _register(name: str, operands: int) -> Op:
    effect = CallEffectKind.UpdateState
    return register_op("tir." + name, num_inputs=operands, TCallEffectKind=effect, TScriptPrinterName=name)


CHECK_TENSOR = _register("tvm_check_tensor", -1)
RAISE_VALUE = _register("tvm_raise_value", 2)

# Fields of tvm_struct_get and tvm_struct_set.
ARRAY_ADDRESS, ARRAY_DATA, ARRAY_SHAPE, ARRAY_STRIDES, ARRAY_NDIM = 0, 1, 2, 3, 4
ARRAY_TYPE_CODE, ARRAY_TYPE_BITS, ARRAY_TYPE_LANES, ARRAY_BYTE_OFFSET = 5, 6, 7, 8
ARRAY_DEVICE_ID, ARRAY_DEVICE_TYPE, VALUE_CONTENT = 9, 10, 12

# Calling conventions of a PrimFunc, as in the attribute "calling_conv".
DEFAULT, C_PACKED, DEVICE_KERNEL = 0, 1, 2

# Type codes of packed values.
INT, UINT, FLOAT, HANDLE, NULL, TENSOR, NDARRAY, BOOL = 0, 1, 2, 3, 4, 7, 13, 15

COMPUTE_SUFFIX = "_compute_"


def struct_get(dtype: str, pointer: PrimExpr, index, field: int) -> PrimExpr:
    return Call(dtype, Op.get("tir.tvm_struct_get"), (pointer, const(index, "int32"), const(field, "int32")))


def ret(value: PrimExpr) -> Stmt:
    return Evaluate(Call("int32", Op.get("tir.ret"), (value,)))


def raise_value(text: str, value: PrimExpr) -> Stmt:
    """Return from the function with an error message that ends in ``value``."""
    return ret(Call("int32", RAISE_VALUE, (StringImm(text), primop.cast("int64", value))))


def handle_to(dtype: str, name: str) -> Var:
    return Var(name, PointerType(PrimType(dtype)))


def array_over(data: Var, dtype: str) -> Buffer:
    return Buffer(data, dtype, (const(1, "int32"),), (), const(0, "int32"), data.name)


def is_data_pointer(param: Var) -> bool:
    return isinstance(param.type_annotation, PointerType)


def device_type_of(func: PrimFunc) -> int:
    target = func.attrs.get("target")
    if target is None:
        return 1
    kind = getattr(target, "get_target_device_type", None)
    if callable(kind):
        return int(kind())
    return int(getattr(getattr(target, "kind", None), "device_type", 1) or 1)


class Entry:
    """The checks and bindings of a packed function, in order."""

    def __init__(self, func: PrimFunc, name: str):
        self.func = func
        self.name = name
        self.args = Var("args", "handle")
        self.type_codes = handle_to("int32", "type_codes")
        self.num_args = Var("num_args", "int32")
        self.out_value = Var("out_ret_value", "handle")
        self.out_code = handle_to("int32", "out_ret_tcode")
        self.resource = Var("resource_handle", "handle")
        self.codes = array_over(self.type_codes, "int32")
        self.bound: set[Var] = set()
        self.order: list[Var] = []
        self.data: dict[Var, PrimExpr] = {}  # Data pointers, which are only passed to the raw function
        self.steps: list[Any] = []  # Statements, and (var, value) pairs that open a let
        self.device_type = device_type_of(func)
        self.device_id: Var | None = None if self.device_type == 1 else Var("device_id", "int32")

    def let(self, var: Var, value: PrimExpr) -> Var:
        self.steps.append((var, value))
        return var

    def refuse_if(self, condition: PrimExpr, text: str, value: PrimExpr) -> None:
        self.steps.append(IfThenElse(condition, raise_value(text, value)))

    def bind(self, var: Var, value: PrimExpr) -> None:
        self.bound.add(var)
        self.order.append(var)
        self.let(var, value)

    # Type codes, tensors and data pointers are not bound to variables: one let per argument would nest the body too
    # deeply.
    def code_of(self, index: int) -> PrimExpr:
        return BufferLoad(self.codes, (const(index, "int32"),))

    def value_of(self, index: int, dtype: str = "handle") -> PrimExpr:
        return struct_get(dtype, self.args, index, VALUE_CONTENT)

    def label(self, index: int, name: str) -> str:
        return f"{self.name}: argument {index} ({name}): "

    # Scalars --------------------------------------------------------------------------------------------------
    def scalar(self, index: int, param: Var) -> None:
        kind = info(param.dtype)
        code = self.code_of(index)
        label = self.label(index, param.name)
        whole = self.value_of(index, "int64")
        if kind.is_handle:
            number = primop.logical_or(code <= 2, primop.equal(code, BOOL))
            self.refuse_if(number, label + "expected a handle, got type code ", code)
            value = self.value_of(index)
            self.bind(param, self.data_pointer(value, code) if is_data_pointer(param) else value)
        elif kind.is_float:
            good = primop.logical_or(primop.equal(code, FLOAT), primop.equal(code, INT))
            self.refuse_if(primop.logical_not(good), label + f"expected {param.dtype}, got type code ", code)
            real = self.value_of(index, "float64")
            value = Call(
                "float64", Op.get("tir.if_then_else"), (primop.equal(code, FLOAT), real, primop.cast("float64", whole))
            )
            self.bind(param, primop.cast(param.dtype, value))
        else:
            good = primop.logical_or(primop.equal(code, INT), primop.equal(code, BOOL))
            self.refuse_if(primop.logical_not(good), label + f"expected {param.dtype}, got type code ", code)
            value = whole
            if not kind.is_bool and kind.bits < 64:
                wide = self.let(Var(f"{param.name}_value", "int64"), whole)
                low = 0 if kind.code == "uint" else -(1 << (kind.bits - 1))
                high = (1 << kind.bits) - 1 if kind.code == "uint" else (1 << (kind.bits - 1)) - 1
                outside = primop.logical_or(wide < const(low, "int64"), wide > const(high, "int64"))
                self.refuse_if(outside, label + f"expected a value that fits {param.dtype}, got ", wide)
                value = wide
            self.bind(param, primop.cast(param.dtype, value))

    def data_pointer(self, given: PrimExpr, code: PrimExpr) -> PrimExpr:
        """Read a data pointer from a pointer argument or from a tensor argument."""
        offset = primop.cast("int64", struct_get("uint64", given, 0, ARRAY_BYTE_OFFSET))
        data = struct_get("handle", given, 0, ARRAY_DATA)
        data = Call("handle", Op.get("tir.handle_add_byte_offset"), (data, offset))
        tensor = primop.logical_or(primop.equal(code, TENSOR), primop.equal(code, NDARRAY))
        return Call("handle", Op.get("tir.if_then_else"), (tensor, data, given))

    # Tensors --------------------------------------------------------------------------------------------------
    def known(self, e: PrimExpr) -> PrimExpr | None:
        """Return ``e`` as an int64 if every variable in it already has a value."""
        if isinstance(e, IntImm):
            return const(e.value, "int64")
        if all(v in self.bound for v in variables(e)):
            return primop.cast("int64", e)
        return None

    def check_tensor(self, index: int, buffer: Buffer) -> bool:
        """Emit the check of a tensor; return False if a part of its shape has no value yet."""
        anything = const(-1, "int64")
        shape = [self.known(e) for e in buffer.shape]
        strides = [self.known(s) for s in buffer.strides]
        complete = all(e is not None for e in shape + strides)
        args = (
            StringImm(self.name), StringImm(buffer.name), const(index, "int32"), self.value_of(index),
            self.code_of(index),
            type_annotation(buffer.dtype), const(self.device_type, "int32"),
            const(info(buffer.dtype).bytes, "int32"), const(len(shape), "int32"),
            *(anything if e is None else e for e in shape), const(len(strides), "int32"),
            *(anything if e is None else e for e in strides),
        )  # fmt: skip
        self.steps.append(IfThenElse(primop.not_equal(Call("int32", CHECK_TENSOR, args), 0), ret(const(-1, "int32"))))
        return complete

    def tensor(self, index: int, buffer: Buffer) -> bool:
        tensor = self.value_of(index)
        complete = self.check_tensor(index, buffer)
        if not complete:
            self.bind_sizes(index, buffer, tensor)
        self.bind_data(buffer, tensor)
        if self.device_id is not None:
            self.bind_device(index, buffer, tensor)
        return complete

    def bind_device(self, index: int, buffer: Buffer, tensor: PrimExpr) -> None:
        """Bind the device of the first tensor and check that all other tensors are on the same device."""
        found = struct_get("int32", tensor, 0, ARRAY_DEVICE_ID)
        if self.device_id not in self.bound:
            self.bind(self.device_id, found)
            return
        text = "expected the device of the first array, got device number "
        self.refuse_if(primop.not_equal(found, self.device_id), self.label(index, buffer.name) + text, found)

    def bind_sizes(self, index: int, buffer: Buffer, tensor: PrimExpr) -> None:
        shape = None
        if any(isinstance(e, Var) and e not in self.bound for e in (*buffer.shape, *buffer.strides)):
            shape = array_over(handle_to("int64", f"{buffer.name}_shape"), "int64")
            self.let(shape.data, struct_get("handle", tensor, 0, ARRAY_SHAPE))
        for i, extent in enumerate(buffer.shape):
            if isinstance(extent, Var) and extent not in self.bound:
                found = BufferLoad(shape, (const(i, "int32"),))
                self.bind_size(extent, found, self.label(index, buffer.name) + f"shape[{i}]")
        if not any(isinstance(s, Var) and s not in self.bound for s in buffer.strides):
            return
        strides = array_over(handle_to("int64", f"{buffer.name}_strides"), "int64")
        self.let(strides.data, struct_get("handle", tensor, 0, ARRAY_STRIDES))
        dense: PrimExpr = const(1, "int64")
        values: list[PrimExpr] = []
        for i in reversed(range(len(buffer.strides))):
            null = Call("bool", Op.get("tir.isnullptr"), (strides.data,))
            given = BufferLoad(strides, (const(i, "int32"),))
            extent = BufferLoad(shape, (const(i, "int32"),))
            value = Call("int64", Op.get("tir.if_then_else"), (null, dense, given))
            if buffer.buffer_type == "auto_broadcast":
                one = primop.equal(extent, const(1, "int64"))
                value = Call("int64", Op.get("tir.if_then_else"), (one, const(0, "int64"), value))
            values.append(value)
            dense = dense * extent
        for i, (stride, value) in enumerate(zip(buffer.strides, reversed(values))):
            if isinstance(stride, Var) and stride not in self.bound:
                self.bind_size(stride, value, self.label(index, buffer.name) + f"strides[{i}]")

    def bind_size(self, var: Var, found: PrimExpr, what: str) -> None:
        if var.dtype == "int64":
            self.bind(var, found)
            return
        wide = self.let(Var(f"{var.name}_size", "int64"), found)
        limit = (1 << (info(var.dtype).bits - 1)) - 1
        self.refuse_if(
            wide > const(limit, "int64"), f"{what} is bound to the {var.dtype} variable {var.name}, got ", wide
        )
        self.bind(var, primop.cast(var.dtype, wide))

    def bind_data(self, buffer: Buffer, tensor: PrimExpr) -> None:
        data = struct_get("handle", tensor, 0, ARRAY_DATA)
        offset = primop.cast("int64", struct_get("uint64", tensor, 0, ARRAY_BYTE_OFFSET))
        size = info(buffer.dtype).bytes * info(buffer.dtype).lanes
        if isinstance(buffer.elem_offset, Var) and buffer.elem_offset not in self.bound:
            elements = primop.div(offset, const(size, "int64"))
            self.bind(buffer.elem_offset, primop.cast(buffer.elem_offset.dtype, elements))
        else:
            start = primop.cast("int64", buffer.elem_offset) * size
            data = Call("handle", Op.get("tir.handle_add_byte_offset"), (data, primop.subtract(offset, start)))
        self.data[buffer.data] = data

    # The packed function --------------------------------------------------------------------------------------
    def collect(self) -> None:
        params = self.func.params
        words = "argument" if len(params) == 1 else "arguments"
        text = f"{self.name}: expected {len(params)} {words}, got "
        self.refuse_if(primop.not_equal(self.num_args, len(params)), text, self.num_args)
        for index, param in enumerate(params):
            if param not in self.func.buffer_map:
                self.scalar(index, param)
        again = []
        for index, param in enumerate(params):
            buffer = self.func.buffer_map.get(param)
            if buffer is not None and not self.tensor(index, buffer):
                again.append((index, buffer))
        for index, buffer in again:
            if has_repeats(buffer):
                if not self.check_tensor(index, buffer):
                    parts = (*buffer.shape, *buffer.strides)
                    missing = [v.name for e in parts for v in variables(e) if v not in self.bound]
                    raise TVMError(
                        f"{self.name}: the shape of {buffer.name} uses {', '.join(missing)}, but no argument binds it; "
                        "pass it as an argument"
                    )

    def build(self, call: PrimExpr) -> PrimFunc:
        body: Stmt = ret(call)
        for step in reversed(self.steps):
            body = LetStmt(step[0], step[1], body) if isinstance(step, tuple) else seq(step, body)
        params = (self.args, self.type_codes, self.num_args, self.out_value, self.out_code, self.resource)
        attrs = {k: v for k, v in self.func.attrs.items() if k in ("target", "tir.is_entry_func")}
        attrs.update({"global_symbol": self.name, "calling_conv": C_PACKED})
        return PrimFunc(params, body, PrimType("int32"), {}, attrs)


def has_repeats(buffer: Buffer) -> bool:
    """Return whether the shape must be checked after its variables are bound: one occurs twice or inside an
    expression."""
    parts = [e for e in (*buffer.shape, *buffer.strides) if not isinstance(e, IntImm)]
    return any(not isinstance(e, Var) for e in parts) or len({id(e) for e in parts}) != len(parts)


def undefined_variables(body: Stmt, defined) -> list[Var]:
    known, nodes = set(defined), list(post_order(body))
    for n in nodes:
        if isinstance(n, For):
            known.add(n.loop_var)
        elif isinstance(n, (LetStmt,)) or type(n).__name__ == "Let":
            known.add(n.var)
        elif isinstance(n, (Allocate, AllocateConst)):
            known.add(n.buffer_var)
        elif isinstance(n, AttrStmt) and n.attr_key in ("thread_extent", "virtual_thread"):
            known.add(n.node.var)
    out: dict[Var, None] = {}
    for n in nodes:
        if isinstance(n, Var) and n not in known:
            out[n] = None
        elif isinstance(n, (BufferLoad, BufferStore)) and n.buffer.data not in known:
            out[n.buffer.data] = None
    return list(out)


def returned_values(body: Stmt, entry: Entry) -> Stmt | None:
    """Return the body with each ``ret(value)`` storing the value as the packed return value, or None without
    ``ret``. A number that the body returns is a value and never a status."""
    found = False
    parallel = (n for n in post_order(body) if isinstance(n, For) and n.kind is ForKind.PARALLEL)
    if any(is_call(inner, "tir.ret") for loop in parallel for inner in post_order(loop.body)):
        raise TVMError(f"{entry.name}: tir.ret cannot be used in parallel scope, where it ends only one task")

    def post(node):
        nonlocal found
        if not (isinstance(node, Evaluate) and is_call(node.value, "tir.ret")):
            return None
        found = True
        value = node.value.args[0]
        kind = info(value.dtype)
        code = FLOAT if kind.is_float else HANDLE if kind.is_handle else INT
        if not kind.is_handle:
            value = primop.cast("float64" if kind.is_float else "int64", value)
        place = (entry.out_value, const(0, "int32"), const(VALUE_CONTENT, "int32"))
        put = Call("int32", Op.get("tir.tvm_struct_set"), (*place, value))
        store = BufferStore(array_over(entry.out_code, "int32"), const(code, "int32"), (const(0, "int32"),))
        return seq(Evaluate(put), store, ret(const(0, "int32")))

    new = rewrite(body, post)
    return new if found else None


def on_device(body: Stmt, entry: Entry) -> Stmt:
    """Return the body after a call that selects the device; the device is also recorded for allocations."""
    if entry.device_id is None:
        return body
    kind = const(entry.device_type, "int32")
    device: PrimExpr = entry.device_id
    if entry.device_id not in entry.bound:
        device = const(0, "int32")
    args = (StringImm("__tvm_set_device"), kind, device)
    choose = Evaluate(Call("int32", Op.get("tir.tvm_call_packed"), args))
    zero = const(0, "int32")
    return AttrStmt(zero, "device_id", device, AttrStmt(zero, "device_type", kind, seq(choose, body)))


def make_packed_api(func: PrimFunc) -> tuple[PrimFunc, PrimFunc]:
    """Return the raw function and the packed function of a PrimFunc."""
    name = str(func.attrs["global_symbol"])
    entry = Entry(func, name)
    entry.collect()
    pointers = [func.buffer_map[p].data for p in func.params if p in func.buffer_map]
    scalars = [p for p in func.params if p not in func.buffer_map]
    given = set(pointers) | set(scalars)
    sizes = [v for v in entry.order if v not in given]
    raw_params = list(dict.fromkeys(pointers + scalars + sizes))
    body = on_device(func.body, entry)
    returned = returned_values(body, entry)
    if returned is not None:
        body = returned
        raw_params += [entry.out_value, entry.out_code]
    missing = undefined_variables(body, raw_params)
    if missing:
        names = ", ".join(v.name for v in missing)
        raise TVMError(
            f"{name}: {names} {'is' if len(missing) == 1 else 'are'} used but not bound by any argument; add the "
            "tensors or variables that contain it to the arguments"
        )
    attrs = {**func.attrs, "global_symbol": name + COMPUTE_SUFFIX, "calling_conv": DEFAULT}
    attrs.pop("tir.is_entry_func", None)
    raw = PrimFunc(raw_params, seq(body, ret(const(0, "int32"))), PrimType("int32"), {}, attrs)
    given = tuple(entry.data.get(p, p) for p in raw_params)
    call = Call("int32", GlobalVar(name + COMPUTE_SUFFIX), given)
    return raw, entry.build(call)


def is_public(func: Any) -> bool:
    """Return whether a function gets a packed function."""
    if not isinstance(func, PrimFunc) or "global_symbol" not in func.attrs:
        return False
    if func.attrs.get("calling_conv", DEFAULT) != DEFAULT:
        return False
    made = str(func.attrs["global_symbol"]).endswith(COMPUTE_SUFFIX) and func.ret_type == PrimType("int32")
    return not (made and not func.buffer_map)


class RawCalls(StmtRewriter):
    """A rewriter that redirects calls of functions in the module to their raw functions and returns their errors. A
    call may pass size variables after the arguments, in the order in which the raw function takes them."""

    def __init__(self, caller: str, callees: dict[str, PrimFunc], raw: dict[str, PrimFunc]):
        self.caller = caller
        self.callees = callees
        self.raw = raw

    def on_Evaluate(self, node: Evaluate) -> Stmt:
        call = node.value
        if not (type(call) is Call and isinstance(call.op, GlobalVar) and call.op.name_hint in self.callees):
            return node
        callee = self.callees[call.op.name_hint]
        name = str(callee.attrs["global_symbol"])
        if len(call.args) == len(self.raw[call.op.name_hint].params) > len(callee.params):
            return self.checked(name, call.args)
        if len(call.args) != len(callee.params):
            raise TVMError(
                f"{self.caller}: {name} takes {len(callee.params)} arguments, but the call passes {len(call.args)}"
            )
        given = dict(zip(callee.params, call.args))
        pointers = [given[p] for p in callee.params if p in callee.buffer_map]
        scalars = [given[p] for p in callee.params if p not in callee.buffer_map]
        sizes = {v for b in callee.buffer_map.values() for e in (*b.shape, *b.strides) for v in variables(e)}
        if sizes - set(callee.params):
            names = ", ".join(sorted(v.name for v in sizes - set(callee.params)))
            raise TVMError(
                f"{self.caller}: {name} reads the sizes {names} from its tensor arguments; pass them after the "
                "arguments to call it directly"
            )
        return self.checked(name, (*pointers, *scalars))

    def checked(self, name: str, args: tuple[PrimExpr, ...]) -> Stmt:
        raw = Call("int32", GlobalVar(name + COMPUTE_SUFFIX), args)
        return IfThenElse(primop.not_equal(raw, 0), ret(const(-1, "int32")))


def make_packed_api_module(mod: IRModule) -> IRModule:
    new = IRModule(None, mod.type_definitions, mod.attrs)
    public = {var.name_hint: func for var, func in mod.functions.items() if is_public(func)}
    made = {name: make_packed_api(func) for name, func in public.items()}
    raws = {name: raw for name, (raw, _) in made.items()}
    for var, func in mod.functions.items():
        calls = RawCalls(var.name_hint, public, raws)
        if var.name_hint not in public:
            new[var] = func.replace(body=calls.stmt(func.body)) if isinstance(func, PrimFunc) else func
            continue
        raw, entry = made[var.name_hint]
        # Calls are rewritten last: an original `ret` returns a value, the `ret` of a failed call returns a status.
        new[GlobalVar(raw.attrs["global_symbol"])] = raw.replace(body=calls.stmt(raw.body))
        new[var] = entry
    return new

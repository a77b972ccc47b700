"""Interface of host C code to the runtime: structs, calls through its function table, packed calls and parallel
loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...dtype import dlpack_parts, info
from ...error import TVMError
from ...ir.prim import Call, IntImm, PrimExpr, StringImm, Var
from ...tir.stmt import AttrStmt, For, LetStmt, Stmt, no_op
from ..region import APART, PIECES, RANGES, is_worth_sharing, outer_variables, without_allocations
from . import expr as c_expr
from . import stmt as c_stmt
from .like import CLike
from .names import bare, clean, quoted

TABLE = "__tvm_runtime_table"
CONTEXT = "__tvm_module_ctx"

# The structs of the arguments of packed functions.
ARRAY_RECORDS = """\
typedef struct { int32_t device_type; int32_t device_id; } DLDevice;
typedef struct { uint8_t code; uint8_t bits; uint16_t lanes; } DLDataType;
typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} DLTensor;
typedef union { int64_t v_int64; double v_float64; void* v_handle; const char* v_str; } TVMValue;
"""
# The structs of the runtime interface that generated code uses.
RECORDS = (
    ARRAY_RECORDS
    + """\
typedef struct { int32_t num_task; void* sync_handle; } TVMParallelGroupEnv;
typedef struct {
  const char* function;
  const char* argument;
  DLDataType dtype;
  int32_t ndim;
  const int64_t* shape;
  const int64_t* strides;
  int32_t device_type;
  int32_t alignment;
} TVMTensorSpec;
typedef struct {
  uint32_t abi_version;
  uint32_t size;
  void (*set_last_error)(const char* message);
  int32_t (*func_call)(void* function, TVMValue* args, int32_t* codes, int32_t count, TVMValue* ret, int32_t* ret_code);
  int32_t (*get_func_from_env)(void* module_context, const char* name, void** out);
  int32_t (*parallel_launch)(int32_t (*body)(int32_t, TVMParallelGroupEnv*, void*), void* closure, int32_t tasks);
  int32_t (*parallel_barrier)(int32_t task, TVMParallelGroupEnv* environment);
  void* (*alloc_workspace)(int32_t device_type, int32_t device_id, uint64_t size, int32_t type_code, int32_t bits);
  int32_t (*free_workspace)(int32_t device_type, int32_t device_id, void* pointer);
  int32_t (*raise_argument_error)(const char* function, int32_t index, const char* what);
  int32_t (*check_tensor)(const void* spec, int32_t index, TVMValue value, int32_t code, const DLTensor** out);
  int32_t (*parallel_for)(int32_t (*body)(int32_t, TVMParallelGroupEnv*, void*), void* closure, int64_t extent);
  int32_t (*raise_value)(const char* text, int64_t value);
} TVMRuntimeTable;
"""
)

# Fields of DLTensor by the numbers of tvm_struct_get and tvm_struct_set: the member and its dtype.
FIELDS = {
    1: ("data", "handle"),
    2: ("shape", "handle"),
    3: ("strides", "handle"),
    4: ("ndim", "int32"),
    5: ("dtype.code", "uint8"),
    6: ("dtype.bits", "uint8"),
    7: ("dtype.lanes", "uint16"),
    8: ("byte_offset", "uint64"),
    9: ("device.device_id", "int32"),
    10: ("device.device_type", "int32"),
}
ADDRESS, VALUE = 0, 12
_POINTER_CASTS = {"shape": "(int64_t*)", "strides": "(int64_t*)"}


def runtime_call(slot: str, *arguments: str) -> str:
    return f"{TABLE}->{slot}({', '.join(arguments)})"


def _number(node: PrimExpr, what: str) -> int:
    if not isinstance(node, IntImm):
        raise TVMError(f"{what} must be a literal, got {node}")
    return node.value


def _value_member(dtype: str) -> tuple[str, str]:
    """Return the member of TVMValue that passes a value of ``dtype`` to a packed function, and the dtype of this
    member."""
    kind = info(dtype)
    if kind.is_handle:
        return "v_handle", "handle"
    return ("v_float64", "float64") if kind.is_float else ("v_int64", "int64")


def _member(p: CLike, node: Call, dtype: str, what: str) -> tuple[str, str]:
    """Return the member that a tvm_struct_get or tvm_struct_set accesses, as text, and its dtype."""
    field = _number(node.args[2], f"the field of {what}")
    base, index = p.value(node.args[0]), bare(p.value(node.args[1]))
    if field == VALUE:
        member, kind = _value_member(dtype)
        return f"((TVMValue*){base})[{index}].{member}", kind
    if field not in FIELDS:
        raise TVMError(f"{what}: unknown field number {field}")
    member, kind = FIELDS[field]
    return f"((DLTensor*){base})[{index}].{member}", kind


def _struct_get(p: CLike, node: Call) -> str:
    if _number(node.args[2], "the field of tvm_struct_get") == ADDRESS:
        return f"((void*)((DLTensor*){p.value(node.args[0])} + {p.value(node.args[1])}))"
    text, kind = _member(p, node, node.dtype, "tvm_struct_get")
    return c_expr.convert(p, kind, node.dtype, text)


def _struct_set(p: CLike, node: Call) -> str:
    given = node.args[3]
    place, kind = _member(p, node, given.dtype, "tvm_struct_set")
    if kind == "handle" and isinstance(given, IntImm) and given.value == 0:
        text = "0"
    else:
        text = bare(c_expr.convert(p, given.dtype, kind, p.value(given)))
    cast = _POINTER_CASTS.get(place.rpartition(".")[2], "")
    p.line(f"{place} = {cast}{text};")
    return "0"


_STACK_TYPES = {"shape": "int64_t", "arg_value": "TVMValue", "arg_tcode": "int32_t", "array": "DLTensor"}


def _stack_alloca(p: CLike, node: Call) -> str:
    kind = node.args[0].value if isinstance(node.args[0], StringImm) else ""
    count = max(_number(node.args[1], "the size of tvm_stack_alloca"), 1)
    if kind not in _STACK_TYPES:
        raise TVMError(f"tvm_stack_alloca: unknown kind '{kind}'; use one of {', '.join(_STACK_TYPES)}")
    name = p.fresh(kind)
    p.line(f"{_STACK_TYPES[kind]} {name}[{count}];")
    return name


# Packed calls


def _return_unless(p: CLike, call: str) -> None:
    """Print a return from the function for the case that a call of the runtime fails."""
    p.line(f"if ({call} != 0) {p.fail()}")


def _packed_arguments(p: CLike, node: Call) -> tuple[str, str, str]:
    values, codes = p.value(node.args[1]), p.value(node.args[2])
    begin, end = _number(node.args[3], "the begin of the arguments"), _number(node.args[4], "their end")
    return f"(TVMValue*){values} + {begin}", f"(int32_t*){codes} + {begin}", str(end - begin)


def _packed_result(p: CLike, node: Call, result: str) -> str:
    if node.dtype in ("void", ""):
        return "0"
    member, kind = _value_member(node.dtype)
    return c_expr.convert(p, kind, node.dtype, f"{result}.{member}")


def _return_value_address(p: CLike) -> tuple[str, str]:
    value, code = p.fresh("ret_value"), p.fresh("ret_code")
    p.line(f"TVMValue {value};")
    p.line(f"int32_t {code};")
    return value, code


def _call_traced(p: CLike, node: Call) -> str:
    """Print a packed call whose value is its last argument if the function returns nothing."""
    value, code = _call_packed_at(p, node)
    values, _, count = _packed_arguments(p, node)
    # 4 is the type code of a missing return value.
    p.line(f"if ({code} == 4) {value} = ({values})[{int(count) - 1}];")
    return _packed_result(p, node, value)


def _call_packed(p: CLike, node: Call) -> str:
    return _packed_result(p, node, _call_packed_at(p, node)[0])


def _call_packed_at(p: CLike, node: Call) -> tuple[str, str]:
    """Print the call; return the variables of its return value and type code."""
    name = node.args[0]
    if isinstance(name, StringImm):
        function = p.source.packed_handle(name.value, p.taken)
        find = runtime_call("get_func_from_env", CONTEXT, quoted(name.value), f"&{function}")
        p.line(f"if ({function} == 0 && {find} != 0) {p.fail()}")
    else:
        function = p.value(name)
    arguments = _packed_arguments(p, node)
    value, code = _return_value_address(p)
    _return_unless(p, runtime_call("func_call", function, *arguments, f"&{value}", f"&{code}"))
    return value, code


def _call_cpacked(p: CLike, node: Call) -> str:
    callee = node.args[0]
    if not isinstance(callee, StringImm):
        raise TVMError(f"tvm_call_cpacked: the first argument must be the name of a C function, got {callee}")
    arguments = _packed_arguments(p, node)
    resource = "0"
    if len(node.args) > 5 and not isinstance(node.args[5], IntImm):
        resource = bare(p.value(node.args[5]))
    name = callee.value
    row = p.source.signatures.get(name)
    types = ("void*", "int32_t*", "int32_t", "void*", "int32_t*", "void*")
    function = row.name if row is not None else p.source.extern(name, "int32_t", types)
    value, code = _return_value_address(p)
    _return_unless(p, f"{function}({', '.join(arguments)}, &{value}, &{code}, {resource})")
    return _packed_result(p, node, value)


# Checked arguments


def _int64_array(p: CLike, items: tuple[PrimExpr, ...], hint: str) -> tuple[str, bool]:
    """Return an array of int64 values and whether it is constant: a constant for literals, else an array that is filled
    on the stack."""
    if not items:
        return "0", True
    texts = [bare(c_expr.convert(p, i.dtype, "int64", p.value(i))) for i in items]
    rows = f"[{len(items)}] = {{{', '.join(texts)}}}"
    if all(isinstance(i, IntImm) for i in items):
        return p.source.constant(hint, "static const int64_t", rows, p.taken), True
    name = p.fresh(hint)
    p.line(f"const int64_t {name}{rows};")
    return name, False


def _check_tensor(p: CLike, node: Call) -> str:
    function, name, index, given, code, annotation, device, alignment, ndim = node.args[:9]
    rank = _number(ndim, "the rank of tvm_check_tensor")
    count = _number(node.args[9 + rank], "the number of strides")
    label = clean(name.value)
    shape, fixed_shape = _int64_array(p, node.args[9 : 9 + rank], f"{label}_shape")
    strides, fixed_strides = _int64_array(p, node.args[10 + rank : 10 + rank + count], f"{label}_strides")
    dtype = ", ".join(str(part) for part in dlpack_parts(annotation.dtype))
    numbers = [bare(p.value(x)) for x in (device, alignment)]
    spec = [quoted(function.value), quoted(name.value), f"{{{dtype}}}", str(rank), shape, strides, *numbers]
    text = f" = {{{', '.join(spec)}}}"
    if fixed_shape and fixed_strides and isinstance(device, IntImm) and isinstance(alignment, IntImm):
        record = p.source.constant(f"{label}_spec", "static const TVMTensorSpec", text, p.taken)
    else:
        record = p.fresh(f"{label}_spec")
        p.line(f"const TVMTensorSpec {record}{text};")
    value, out = p.fresh("value"), p.fresh("tensor")
    p.line(f"const TVMValue {value} = {{.v_handle = {bare(p.value(given))}}};")
    p.line(f"const DLTensor* {out};")
    return runtime_call("check_tensor", f"&{record}", bare(p.value(index)), value, bare(p.value(code)), f"&{out}")


def _raise_value(p: CLike, node: Call) -> str:
    text, number = node.args
    words = quoted(text.value) if isinstance(text, StringImm) else f"(const char*){p.value(text)}"
    return runtime_call("raise_value", words, bare(c_expr.convert(p, number.dtype, "int64", p.value(number))))


def _alloc_workspace(p: CLike, node: Call) -> str:
    return runtime_call("alloc_workspace", *(bare(p.value(a)) for a in _operands(node)))


def _free_workspace(p: CLike, node: Call) -> str:
    return runtime_call("free_workspace", *(bare(p.value(a)) for a in _operands(node)))


def _free_own_workspace(p: CLike, node: Call) -> str:
    p.held = {var: statement for var, statement in p.held.items() if var is not node.args[2]}
    return _free_workspace(p, node)


def _let(p: CLike, stmt: LetStmt) -> Stmt:
    """Print a let. Workspace is freed at the end of its scope and before every early return."""
    body, source = c_stmt.let(p, stmt), stmt.value
    if isinstance(source, Call) and getattr(source.op, "name", "") == "tir.TVMBackendAllocWorkspace":
        device = [bare(p.value(number)) for number in source.args[:2]]
        p.held[stmt.var] = runtime_call("free_workspace", *device, p.value(stmt.var)) + ";"
    return body


def _operands(node: Call) -> tuple[PrimExpr, ...]:
    return node.args[1:] if node.args and isinstance(node.args[0], StringImm) else node.args


CALLS: dict[str, Callable[[CLike, Call], str]] = {
    "tir.tvm_struct_get": _struct_get,
    "tir.tvm_struct_set": _struct_set,
    "tir.tvm_stack_alloca": _stack_alloca,
    "tir.tvm_call_packed_lowered": _call_packed,
    "tir.tvm_call_trace_packed_lowered": _call_traced,
    "tir.tvm_call_cpacked_lowered": _call_cpacked,
    "tir.tvm_check_tensor": _check_tensor,
    "tir.tvm_raise_value": _raise_value,
    "tir.TVMBackendAllocWorkspace": _alloc_workspace,
    "tir.TVMBackendFreeWorkspace": _free_own_workspace,
    "extern.TVMBackendAllocWorkspace": _alloc_workspace,
    "extern.TVMBackendFreeWorkspace": _free_workspace,
}


# Parallel loops: the body becomes a separate function, which the runtime calls once per task


class Region(NamedTuple):
    """The state inside a parallel region. ``split``: the tasks share a parallel loop here; ``strided``: a task executes
    every n-th iteration instead of a range; ``counted``: iterations are distributed in chunks (see region.py)."""

    split: bool
    strided: bool
    counted: bool


class Captured(NamedTuple):
    var: Var
    type_text: str
    outer: str
    is_array: bool


def parallel_loop(p: CLike, stmt: For) -> None:
    region = p.parallel
    if region is None:
        _launch(p, stmt, lambda inner: _share(inner, stmt), counted=not p.strided_next and is_worth_sharing(stmt))
    elif region.split:
        _share(p, stmt)
    else:
        # A parallel loop inside a loop that already runs in parallel.
        c_stmt.serial_loop(p, stmt)


def _launch_point(p: CLike, stmt: AttrStmt) -> None:
    if p.parallel is not None:
        raise TVMError(f"{p.name}: parallel_launch_point must not be inside a parallel region")
    body, shared = without_allocations(stmt.body)
    for allocation in shared:
        p.stmt(allocation.replace(body=no_op()))
    _launch(p, body, lambda inner: inner.stmt(body), counted=False)


def _barrier_after(p: CLike, stmt: AttrStmt) -> None:
    if p.parallel is None or not p.parallel.split:
        raise TVMError(f"{p.name}: parallel_barrier_when_finish needs an enclosing parallel_launch_point")
    p.stmt(stmt.body)
    _return_unless(p, runtime_call("parallel_barrier", "task", "environment"))


def _stride_pattern(p: CLike, stmt: AttrStmt) -> None:
    region = p.parallel
    if region is None:
        p.strided_next = True
        p.stmt(stmt.body)
        p.strided_next = False
        return
    p.parallel = region._replace(strided=True)
    p.stmt(stmt.body)
    p.parallel = region


def _parallel_if(p: CLike, stmt: AttrStmt) -> None:
    """Run the loop as one task in this thread if the condition is false."""
    if p.parallel is None:
        p.tasks_next = f"!({p.value(stmt.value)})"
    p.stmt(stmt.body)
    p.tasks_next = "0"


def _share(p: CLike, stmt: For) -> None:
    """Print the part of a parallel loop that this task executes."""
    region = p.parallel
    first, _ = c_stmt.loop_bounds(p, stmt)
    p.begin(stmt.extent)
    extent = p.value(stmt.extent)
    p.end()
    own = p.scalar_type(stmt.loop_var.dtype)
    p.parallel = region._replace(split=False)
    if region.strided:
        end = f"{first} + {extent}"
        c_stmt.counted_loop(p, stmt, f"{first} + task", end, "tasks")
    elif region.counted:
        _take_pieces(p, stmt, first, extent)
    else:
        begin, end = p.fresh("begin"), p.fresh("end")
        start = "" if first == "0" else f"{first} + "
        p.line(f"const {own} {begin} = {start}({own})((int64_t){extent} * task / tasks);")
        p.line(f"const {own} {end} = {start}({own})((int64_t){extent} * (task + 1) / tasks);")
        c_stmt.counted_loop(p, stmt, begin, end)
    p.parallel = region


def _take_pieces(p: CLike, stmt: For, first: str, extent: str) -> None:
    """Execute the first half of this task's range, then chunks of this and the other ranges until none is left."""
    names = ("extent", "ranges", "turn", "range", "low", "high", "own", "piece", "at", "stop")
    whole, ranges, turn, index, low, high, own, piece, at, stop = map(p.fresh, names)
    kind = p.scalar_type(stmt.loop_var.dtype)
    start = "" if first == "0" else f"{first} + "
    few = f"tasks <= {RANGES}"
    p.line(f"const int64_t {whole} = {bare(extent)}, {ranges} = {few} ? tasks : {RANGES};")
    p.open(f"for (int64_t {turn} = 0; {turn} < {ranges}; ++{turn}) {{")
    p.line(f"const int64_t {index} = (task + {turn}) % {ranges};")
    p.line(f"const int64_t {low} = {whole} * {index} / {ranges}, {high} = {whole} * ({index} + 1) / {ranges};")
    half = f"{few} ? ({high} - {low} + 1) / 2 : 0"
    p.line(f"const int64_t {own} = tasks == 1 ? {high} - {low} : {half};")
    takers = f"(tasks * (int64_t){PIECES} / {ranges})"
    p.line(f"const int64_t {piece} = {high} - {low} > {own} ? ({high} - {low} - {own} - 1) / {takers} + 1 : 1;")
    p.line(f"int64_t {at} = {low}, {stop} = {turn} == 0 && {few} ? {low} + {own} : {low};")
    p.open("for (;;) {")
    c_stmt.counted_loop(p, stmt, f"{start}({kind}){at}", f"{start}({kind}){stop}")
    p.line(f"{at} = {low} + {own} + __atomic_fetch_add(&taken[{index} * {APART // 4}], 1, __ATOMIC_RELAXED) * {piece};")
    p.line(f"if ({at} >= {high}) break;")
    p.line(f"{stop} = {at} + {piece} < {high} ? {at} + {piece} : {high};")
    p.close()
    p.close()


def captured_variables(p: CLike, stmt: Stmt) -> list[Captured]:
    """Return the variables of the enclosing function that ``stmt`` uses, in order of first use."""
    out = []
    for var in outer_variables(stmt):
        array = p.arrays.get(id(var))
        if array is not None:
            out.append(Captured(var, p.variable_type(var) + "*", array, True))
        else:
            out.append(Captured(var, p.variable_type(var), p.value(var), False))
    return out


def _launch(p: CLike, stmt: Stmt, write_body: Callable[[CLike], None], counted: bool) -> None:
    """Generate the functions for ``stmt`` and run them on all threads."""
    captured = captured_variables(p, stmt)
    name = p.source.name(f"{p.name.removesuffix('_compute_')}_parallel", p.taken)
    task = p.source.name(f"{name}_task", p.taken)
    inner = type(p)(p.source, name)
    inner.pointees, inner.private, inner.ranges = p.pointees, p.private, p.ranges.copy()
    inner.parallel = Region(True, p.strided_next, counted)
    for word in ("task", "tasks", "environment", "taken"):
        inner.taken[word] = True
    parameters, members = ["int32_t task", "int32_t tasks", "TVMParallelGroupEnv* environment"], []
    if counted:
        parameters.append("int32_t* taken")
        counts = p.fresh("taken")
        p.line(f"int32_t {counts}[{RANGES * APART // 4}] = {{0}};")
        members.append(("int32_t*", "taken", counts))
    for item in captured:
        promise = f" {p.restrict}" if item.var in p.private and item.type_text.endswith("*") else ""
        own = inner.bind(item.var)
        if item.is_array:
            inner.arrays[id(item.var)] = own
        parameters.append(f"{item.type_text}{promise} {own}")
        members.append((item.type_text, own, item.outer))
    write_body(inner)
    inner.line("return 0;")
    head = f"static int32_t {name}({', '.join(parameters)}) {{"
    p.source.functions.append("\n".join([head, *inner.lines, "}", "", *_unpacker(name, task, members), ""]))
    closure = "0"
    if members:
        closure = p.fresh("closure")
        p.line(f"struct {name}_closure {closure} = {{{', '.join(outer for _, _, outer in members)}}};")
        closure = "&" + closure
    _return_unless(p, runtime_call("parallel_launch", task, closure, p.tasks_next))


def _unpacker(name: str, task: str, members: list[tuple[str, str, str]]) -> list[str]:
    """Print the struct of captured variables and the function that the runtime calls, which unpacks the struct."""
    lines, passed = [], ["task", "environment->num_task", "environment"]
    if members:
        lines.append(f"struct {name}_closure {{ {' '.join(f'{kind} {own};' for kind, own, _ in members)} }};")
    lines.append(f"static int32_t {task}(int32_t task, TVMParallelGroupEnv* environment, void* closure) {{")
    passed += [f"((const struct {name}_closure*)closure)->{own}" for _, own, _ in members]
    if not members:
        lines.append("  (void)closure;")
    lines += [f"  return {name}({', '.join(passed)});", "}"]
    return lines


STATEMENTS = {LetStmt: _let}

ATTRIBUTES = {
    "pragma_parallel_launch_point": _launch_point,
    "pragma_parallel_barrier_when_finish": _barrier_after,
    "pragma_parallel_if": _parallel_if,
    "pragma_parallel_stride_pattern": _stride_pattern,
}

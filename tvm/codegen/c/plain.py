"""The back end for plain C99: functions that call only memcpy, memset and math.h, for programs without the runtime.

Loops run serially on the calling thread. The caller passes all workspace memory. A function that cannot fail returns
void.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from ...dtype import element, info
from ...error import TVMError
from ...ir.module import GlobalVar
from ...ir.prim import BufferLoad, Call, IntImm, PrimExpr, StringImm, Var
from ...ir.visit import pre_order
from ...tir.function import PrimFunc
from ...tir.stmt import AllocateConst, AttrStmt, BufferStore, For, LetStmt, Stmt
from . import call as c_call
from . import helpers as c_helpers
from . import stmt as c_stmt
from .byte_runs import ByteRun, byte_run
from .like import CLike
from .names import bare, clean
from .source import comment

# Attributes of a function: the comment above it, whether it is static, and whether it cannot fail.
COMMENT, LOCAL, INFALLIBLE = "comment", "local", "infallible"

HEAD = """\
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif
#if defined(__GNUC__)
#define TVM_ALIGNED(bytes) __attribute__((aligned(bytes)))
#define TVM_MAY_ALIAS __attribute__((may_alias))
#else
#define TVM_ALIGNED(bytes)
#define TVM_MAY_ALIAS
#endif
"""

_TYPED_HELPERS = {
    **c_helpers.BY_TYPE,
    "clz": """static inline int32_t {name}({T} x) {
  {U} v = ({U})x;
  int32_t count = {bits};
  while (v != 0) {
    v = ({U})(v >> 1);
    count--;
  }
  return count;
}""",
    "atomic_add": """static inline {T} {name}({T}* place, {T} amount) {
  const {T} old = *place;
  *place = ({T})(old + amount);
  return old;
}""",
    **{
        name: f"""/* {about}, which wraps around. */
static inline {{T}} {{name}}({{T}} a, {{T}} b) {{ return ({{T}})(({{U}})a {operator} ({{U}})b); }}"""
        for name, operator, about in (
            ("add", "+", "Sum"),
            ("subtract", "-", "Difference"),
            ("multiply", "*", "Product"),
        )
    },
    "alias": "typedef {T} TVM_MAY_ALIAS {name};",
}

# Runtime calls in lowered functions that plain C rejects.
_RUNTIME_CALLS = (
    "tir.tvm_call_packed_lowered", "tir.tvm_call_cpacked_lowered", "tir.tvm_call_trace_packed_lowered",
    "tir.tvm_stack_alloca", "tir.TVMBackendAllocWorkspace", "tir.TVMBackendFreeWorkspace",
)  # fmt: skip
# The number of array elements that are converted to text at a time.
_CHUNK = 1 << 16
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2}


def _atomic_add(p: CLike, node: Call) -> str:
    place, amount = p.value(node.args[0]), p.value(node.args[1])
    dtype = node.args[1].dtype
    return f"{p.source.typed_helper('atomic_add', dtype)}(({p.scalar_type(dtype)}*){place}, {bare(amount)})"


def _refuse_runtime(p: CLike, node: Call) -> str:
    raise TVMError(
        f"{p.name}: plain C does not support {node.op.name.removeprefix('tir.')}, which needs the runtime; "
        "compile for runtime cpp"
    )


def _no_prefetch(p: CLike, node: Call) -> str:
    return "0"


def _add_byte_offset(p: CLike, node: Call) -> str:
    base, offset = node.args
    text = p.value(base)
    if not (isinstance(base, Var) and p.pointees.get(base) in ("uint8", "int8")):
        text = f"(char*){text}"
    steps = str(offset.value) if isinstance(offset, IntImm) else p.value(offset)
    return f"({text} + {steps})"


def _loop(p: CLike, stmt: For) -> Stmt | None:
    """Print a loop, or a call of memcpy or memset if its body copies or fills consecutive bytes."""
    found = byte_run(stmt)
    if found is None or isinstance(found.source, BufferLoad) and not _are_apart(p, found):
        return CLike.statements[For](p, stmt)
    loads = [found.source] if isinstance(found.source, BufferLoad) else []
    p.begin(found.start, *(load.indices[0] for load in loads))
    p.mark_indices((found.start, *(load.indices[0] for load in loads)))
    target = bare(c_call.element_address(p, found.buffer, found.start))
    sources = [bare(c_call.element_address(p, load.buffer, load.indices[0])) for load in loads]
    if sources:
        p.line(f"memcpy({target}, {sources[0]}, {found.size});")
    else:
        p.line(f"memset({target}, {found.source}, {found.size});")
    p.end()
    return None


def _are_apart(p: CLike, run: ByteRun) -> bool:
    """Return whether source and destination of a copy cannot overlap."""
    assert isinstance(run.source, BufferLoad)
    pair = {run.buffer.data, run.source.buffer.data}
    return len(pair) == 2 and bool(pair & p.private)


def _allocate_const(p: CLike, stmt: AllocateConst) -> Stmt:
    var, dtype = stmt.buffer_var, element(stmt.dtype)
    assert isinstance(p, PlainC)
    rows = constant_rows(p, dtype, stmt.data_or_idx)
    size = max(math.prod(int(extent) for extent in stmt.extents), 1)
    after = f"[{size}] TVM_ALIGNED({p.constant_alignment}) = {{\n  " + ",\n  ".join(rows) + "\n}"
    name = p.source.constant(var.name, f"static const {p.memory_type(dtype)}", after, p.taken)
    c_stmt.own_memory(p, var, stmt.dtype)
    p.read_only.add(var)
    p.bind(var, name)
    return stmt.body


def constant_rows(p: CLike, dtype: str, data: Any) -> list[str]:
    """Return the elements of an array as lines of C literals, without a comma after the last one. An empty array
    becomes a single zero, because C has no empty initializers."""
    numbers = constant_texts(p, dtype, data)
    return [", ".join(numbers[i : i + 12]) for i in range(0, len(numbers), 12)] or ["0"]


def constant_bytes(dtype: str) -> int:
    """Return the size of one array element in bytes."""
    return info(dtype).bytes


def constant_texts(p: CLike, dtype: str, data: Any) -> list[str]:
    """Return the elements of an array as C literals in their shortest exact form."""
    array = data.numpy() if hasattr(data, "numpy") else data
    numbers = array.ravel()
    kind = info(dtype)
    if kind.is_integer and kind.bits < 64 and not kind.is_bool:
        least = -(1 << (kind.bits - 1))
        suffix = p.suffixes.get(dtype, "")
        return [f"{x}{suffix}" if x != least or kind.bits < 32 else p.literal(dtype, x) for x in numbers.tolist()]
    if dtype not in ("float32", "float64"):
        return [p.literal(dtype, number) for number in numbers.tolist()]
    suffix, texts = p.suffixes.get(dtype, ""), []
    # NumPy prints the shortest decimal number that rounds to the given float.
    for start in range(0, numbers.size, _CHUNK):
        texts += numbers[start : start + _CHUNK].astype("U").tolist()
    special = {"inf": p.infinity, "-inf": f"(-{p.infinity})", "nan": p.not_a_number, "-nan": p.not_a_number}
    return [special.get(text) or text + suffix for text in texts]


class PlainC(CLike):
    """The printer of C99. The only compiler extension is the alignment of arrays; a macro makes it empty for compilers
    without it."""

    restrict: ClassVar[str] = "restrict"
    alignment: ClassVar[str] = ""
    unroll_line: ClassVar[str] = ""
    reserved: ClassVar[frozenset[str]] = frozenset(("TVM_ALIGNED", "TVM_MAY_ALIAS"))
    typed_helpers: ClassVar[dict[str, str]] = _TYPED_HELPERS
    calls: ClassVar[dict[str, Callable]] = {
        **CLike.calls,
        "tir.atomic_add": _atomic_add,
        "tir.prefetch": _no_prefetch,
        "tir.handle_add_byte_offset": _add_byte_offset,
        "tir.address_of": c_call.address_of,
        **dict.fromkeys(_RUNTIME_CALLS, _refuse_runtime),
    }
    statements: ClassVar[dict[type, Callable]] = {**CLike.statements, For: _loop, AllocateConst: _allocate_const}
    constant_alignment: ClassVar[int] = 16

    @classmethod
    def aligned(cls, alignment: int) -> type[PlainC]:
        """Return a subclass that aligns constants to ``alignment`` bytes."""
        return type(cls.__name__, (cls,), {"constant_alignment": alignment})

    def __init__(self, source: Any, name: str, result: str = "int32_t"):
        super().__init__(source, name, result)
        # Pointers through which the function does not write.
        self.read_only: set[Var] = set()
        # The pointer arguments of calls of imported functions (by name) that the functions only read.
        self.constant_parameters: dict[str, set[int]] = {}
        # The operator of each expression text that ``operation`` returned.
        self.operators: dict[str, str] = {}

    # Functions ------------------------------------------------------------------------------------------------

    @classmethod
    def result_type(cls, function: PrimFunc) -> str:
        return "void" if function.attrs.get(INFALLIBLE) else super().result_type(function)

    @classmethod
    def qualifier(cls, function: PrimFunc) -> str:
        return "static " if function.attrs.get(LOCAL) else ""

    @classmethod
    def heading(cls, symbol: str, name: str, function: PrimFunc) -> list[str]:
        text = function.attrs.get(COMMENT)
        return [f"/* {comment(str(text))} */"] if text else super().heading(symbol, name, function)

    def look_at(self, params: Iterable[Var], body: Stmt) -> None:
        params = list(params)
        super().look_at(params, body)
        for node in pre_order(body):
            if isinstance(node, AttrStmt) and node.attr_key == "pragma_import_c" and isinstance(node.value, StringImm):
                self.constant_parameters.update(_constant_parameters(c_stmt.read_import(node.value.value)))
        aliases = {n.var: n.value for n in pre_order(body) if isinstance(n, LetStmt) and n.var.dtype == "handle"}
        pointers = {v for v in params if v.dtype == "handle"} | set(aliases)
        self.read_only = pointers - self._written(body, aliases)
        self.unused = set(params) - _used(body)

    def _written(self, body: Stmt, aliases: Mapping[Var, PrimExpr]) -> set[Var]:
        """Return the pointers through which the function or a callee writes, directly or through an alias."""
        found: set[Var] = set()
        definitions = {id(value) for value in aliases.values()}
        for node in pre_order(body):
            if isinstance(node, BufferStore):
                found.add(node.buffer.data)
            elif isinstance(node, Call) and id(node) not in definitions:
                constant = self._constant_arguments(node)
                found.update(v for i, a in enumerate(node.args) if i not in constant for v in _pointers(a))
        pending = [var for var in found if var in aliases]
        while pending:
            for var in _pointers(aliases[pending.pop()]) - found:
                found.add(var)
                pending += [var] if var in aliases else []
        return found

    def _constant_arguments(self, call: Call) -> set[int]:
        """Return the indices of the pointer arguments that a call only reads."""
        if isinstance(call.op, GlobalVar):
            row = self.source.signatures.get(call.op.name_hint)
            return {i for i, kind in enumerate(row.parameters) if kind.startswith("const ")} if row else set()
        name = call.args[0].value if call.args and isinstance(call.args[0], StringImm) else ""
        return {2} if name == "memcpy" else self.constant_parameters.get(name, set())

    def parameter(self, var: Var, restricted: bool) -> str:
        text = super().parameter(var, restricted)
        if var in self.unused:
            self.line(f"(void){self.names[var]};")
        return text

    def pointer_type(self, var: Var) -> str:
        return f"const {super().pointer_type(var)}" if var in self.read_only else super().pointer_type(var)

    def view(self, var: Var, name: str, dtype: str) -> str:
        text = super().view(var, name, dtype)
        return text.replace("((", "((const ", 1) if var in self.read_only else text

    def finished(self) -> list[str]:
        """Return the lines of the function without unused temporary constants, which cause compiler warnings. A value
        that both branches of a conditional use is computed before it, and simplification may remove all its uses."""
        lines: list[str] = []
        for line in reversed(self.lines):
            found = _TEMPORARY.match(line)
            if found is None or _is_used(found["name"], len(found["indent"]), reversed(lines)):
                lines.append(line)
            elif "(" in found["value"]:
                # The call may have side effects, so it stays.
                lines.append(f"{found['indent']}(void)({found['value']});")
        return lines[::-1]

    # Expressions ----------------------------------------------------------------------------------------------

    def operation(self, x: str, operator: str, y: str) -> str:
        """Return the C expression of an arithmetic operation. Operands need no parentheses where C precedence gives
        the same grouping."""
        own = _PRECEDENCE[operator]
        left = x[1:-1] if _PRECEDENCE.get(self.operators.get(x, ""), 0) >= own else x
        right = y[1:-1] if _PRECEDENCE.get(self.operators.get(y, ""), 0) > own else y
        text = f"({left} {operator} {right})"
        self.operators[text] = operator
        return text

    def wrapping(self, operator: str, dtype: str, x: str, y: str) -> str:
        name = {"+": "add", "-": "subtract", "*": "multiply"}[operator]
        return f"{self.source.typed_helper(name, dtype)}({bare(x)}, {bare(y)})"

    def named(self, var: Var) -> str:
        """Return a comment with the original name of a variable if its C name is more than a spelling of it."""
        return "" if self.names[var] == clean(var.name) else super().named(var)


# The declaration of a temporary constant that the printer generated.
_TEMPORARY = re.compile(r"(?P<indent> +)const \w+ (?P<name>t\d*) = (?P<value>.*);$")


def _is_used(name: str, indent: int, lines: Iterable[str]) -> bool:
    """Return whether the lines after a declaration use its name before the block ends."""
    word = re.compile(rf"\b{name}\b")
    for line in lines:
        if len(line) - len(line.lstrip()) < indent:
            return False
        if word.search(line):
            return True
    return False


# The definition of a function without pointers to functions among its parameters.
_DEFINITION = re.compile(r"\b(?P<name>\w+)\((?P<parameters>[^()]*)\) *\{")


def _constant_parameters(source: str) -> dict[str, set[int]]:
    """Return the positions of arguments of call_extern that the functions of C source only read. Argument 0 is the name
    of the function."""
    return {
        found["name"]: {i for i, text in enumerate(found["parameters"].split(","), 1) if "const " in text}
        for found in _DEFINITION.finditer(source)
    }


def _pointers(node: PrimExpr) -> set[Var]:
    """Return the pointer variables from which an address is computed."""
    if isinstance(node, Var):
        return {node}
    name = getattr(node.op, "name", "") if isinstance(node, Call) else ""
    if name == "tir.address_of":
        return {node.args[0].buffer.data}
    return _pointers(node.args[0]) if name == "tir.handle_add_byte_offset" else set()


def _used(body: Stmt) -> set[Var]:
    """Return the variables that a statement uses, including the data pointers of buffers."""
    found: set[Var] = set()
    for node in pre_order(body):
        if isinstance(node, Var):
            found.add(node)
        elif isinstance(node, (BufferLoad, BufferStore)):
            found.add(node.buffer.data)
    return found


__all__ = ["COMMENT", "HEAD", "INFALLIBLE", "LOCAL", "PlainC", "constant_bytes", "constant_rows"]

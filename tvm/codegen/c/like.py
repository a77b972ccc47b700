"""Statements and expressions as text of the C family.

``CLike`` prints one function. A language of the family is a subclass: most differences are in the tables at the top of
the class (types, qualifiers, barriers, names of functions), the others are methods with short default implementations.
Node printers are in tables too (``expressions``, ``calls``, ``statements``, ``attributes``), which a subclass extends
with ``{**CLike.calls, ...}``.

Expressions are printed inline. A subexpression that is used twice, or that would make a line too long, is first
assigned to a constant. Vectors are printed as short loops over their lanes, which C compilers vectorize.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from ...arith.ranges import Ranges
from ...dtype import element, info
from ...error import TVMError
from ...ir.prim import (
    Add,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    FloatImm,
    IntImm,
    Let,
    Mul,
    PrimExpr,
    Ramp,
    SizeVar,
    StringImm,
    Sub,
    Var,
)
from ...ir.primop import round_float, wrap_int
from ...ir.type import PointerType, PrimType, TupleType
from ...ir.visit import post_order, pre_order
from ...tir.function import PrimFunc
from ...tir.stmt import BufferStore
from ..llvm.types import bfloat_bits, half_bits
from . import call as c_call
from . import expr as c_expr
from . import helpers as c_helpers
from . import stmt as c_stmt
from . import vector as c_vector
from .names import bare, clean, unique
from .source import Source, comment

# Nesting depth at which recursion is replaced by a bottom-up traversal.
_DEEP = 40
# Longer expressions are assigned to a variable.
_LONG = 120
_LEAVES = (IntImm, FloatImm, StringImm, Var, SizeVar)


class CLike:
    """A printer for one function; the class attributes describe the language."""

    language: ClassVar[str] = "c"
    scalar_types: ClassVar[dict[str, str]] = {
        "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t",
        "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t",
        "float32": "float", "float64": "double", "bool": "_Bool", "handle": "void*",
        # 16-bit floats are stored as their bits; arithmetic on them uses float32.
        "float16": "uint16_t", "bfloat16": "uint16_t",
    }  # fmt: skip
    bool_memory: ClassVar[str] = "int8_t"
    # Suffixes of literals.
    suffixes: ClassVar[dict[str, str]] = {"uint32": "U", "int64": "LL", "uint64": "ULL", "float32": "f"}
    infinity: ClassVar[str] = "INFINITY"
    not_a_number: ClassVar[str] = "NAN"
    # 16-bit float types that the language supports in arithmetic.
    native_16_bit_floats: ClassVar[frozenset[str]] = frozenset()
    # Vector dtypes that are loaded and stored with one access: dtype -> type. Empty if loops over lanes are sufficient.
    vector_types: ClassVar[dict[str, str]] = {}
    function_qualifier: ClassVar[str] = ""
    local_function: ClassVar[str] = "static "
    restrict: ClassVar[str] = "__restrict__"
    # The qualifiers of the declaration of a buffer, and of a pointer to a buffer, by storage scope.
    scopes: ClassVar[dict[str, str]] = {}
    pointer_scopes: ClassVar[dict[str, str]] = {}
    alignment: ClassVar[str] = " __attribute__((aligned(64)))"
    # Thread axes: tag -> expression. Barriers: scope -> statement.
    thread_axes: ClassVar[dict[str, str]] = {}
    barriers: ClassVar[dict[str, str]] = {}
    # The pragmas before unrolled loops and before loops over lanes.
    unroll_line: ClassVar[str] = "#pragma GCC unroll {count}"
    lane_line: ClassVar[str] = ""
    stack_limit: ClassVar[int] = 1 << 20
    # Float functions: intrinsic -> name; the float32 functions have a suffix.
    math_functions: ClassVar[dict[str, str]] = c_call.LIBRARY_FUNCTIONS
    single_suffix: ClassVar[str] = "f"
    # Reserved names of the language, in addition to those of C.
    reserved: ClassVar[frozenset[str]] = frozenset()
    # Helper functions that the source defines: by operation and type, by name, and for reinterpreting bits.
    typed_helpers: ClassVar[dict[str, str]] = c_helpers.BY_TYPE
    fixed_helpers: ClassVar[dict[str, str]] = c_helpers.FIXED
    bits_helper: ClassVar[str] = c_helpers.BITS

    expressions: ClassVar[dict[type, Callable]] = {
        **c_expr.EXPRESSIONS,
        **c_vector.EXPRESSIONS,
        Call: c_call.emit_call,
    }
    calls: ClassVar[dict[str, Callable]] = c_call.CALLS
    statements: ClassVar[dict[type, Callable]] = c_stmt.STATEMENTS
    attributes: ClassVar[dict[str, Callable]] = c_stmt.ATTRIBUTES

    def __init__(self, source: Source, name: str, result: str = "int32_t"):
        self.source = source
        self.name = name
        self.result = result
        self.lines: list[str] = []
        self.indent = 1
        self.depth = 0
        self.lane: str | None = None
        self.parallel: Any = None
        self.strided_next = False
        # The number of tasks of the next parallel loop; 0 lets the runtime choose.
        self.tasks_next = "0"
        self.ranges = Ranges()
        # Texts of nodes, names of variables, and arrays that contain vectors, each with the order of insertion.
        self.memo: dict[int, str] = {}
        self.arrays: dict[int, str] = {}
        self.names: dict[Var, str] = {}
        self.taken: dict[str, bool] = {}
        self._counts: dict[str, int] = {}
        self._log: list[tuple[dict, Any]] = []
        self._block_log: list[tuple[dict, Any]] = []
        self._marks: list[tuple[int, int]] = []
        # The current expressions: the number of uses of each node, the sums that are indices, and the order of side
        # effects.
        self.uses: dict[int, int] = {}
        self.plain: set[int] = set()
        self.strict = False
        self._roots: list[tuple] = []
        # Element types of pointers; None if memory is accessed with several types.
        self.pointees: dict[Var, str | None] = {}
        self.private: set[Var] = set()
        # Workspace to free on an early return: pointer variable -> statement that frees it.
        self.held: dict[Var, str] = {}

    # Types ----------------------------------------------------------------------------------------------------

    @classmethod
    def scalar_type(cls, dtype: str) -> str:
        """Return the type of a scalar value."""
        if dtype in ("void", ""):
            return "void"
        text = cls.scalar_types.get(dtype)
        if text is None:
            raise TVMError(f"the {cls.language} back end does not support values of type {dtype}")
        return text

    @classmethod
    def memory_type(cls, dtype: str) -> str:
        """Return the type of an element in memory."""
        return cls.bool_memory if dtype == "bool" else cls.scalar_type(dtype)

    def pointer_type(self, var: Var) -> str:
        """Return the type of a pointer variable."""
        dtype = self.pointees.get(var)
        scope = self.pointer_scopes.get(storage_scope(var), "")
        return scope + ("void*" if dtype is None else f"{self.memory_type(dtype)}*")

    def variable_type(self, var: Var) -> str:
        if var.dtype == "handle":
            return self.pointer_type(var)
        return self.scalar_type(element(var.dtype))

    def literal(self, dtype: str, number) -> str:
        """Return a scalar constant."""
        kind = info(dtype)
        if kind.is_bool:
            return "1" if number else "0"
        if kind.is_handle:
            return "((void*)0)"
        if kind.is_float:
            return self._float_literal(dtype, float(number))
        number = wrap_int(int(number), dtype)
        suffix = self.suffixes.get(dtype, "")
        if number == -(1 << (kind.bits - 1)) and kind.is_int and kind.bits >= 32:
            # The decimal digits without the sign would not fit the type.
            return f"({number + 1}{suffix} - 1)"
        return f"{number}{suffix}"

    def _float_literal(self, dtype: str, number: float) -> str:
        if dtype in ("float16", "bfloat16") and dtype not in self.native_16_bit_floats:
            return f"0x{(half_bits if dtype == 'float16' else bfloat_bits)(number):04x}"
        number = round_float(number, dtype)
        if number != number:
            return self.not_a_number
        if number in (float("inf"), float("-inf")):
            return self.infinity if number > 0 else f"(-{self.infinity})"
        text = repr(number)
        if info(dtype).bits < 64:
            text = next(t for t in (f"{number:.{n}g}" for n in (6, 7, 8, 9)) if round_float(float(t), dtype) == number)
        if not any(c in text for c in ".en"):
            text += ".0"
        return text + self.suffixes.get(dtype, "")

    # Lines and blocks -----------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append("  " * self.indent + text)

    def open(self, text: str) -> None:
        """Begin a block; ``text`` ends in a brace. Names declared in the block are out of scope after ``close``."""
        self.line(text)
        self.enter_block()
        self.indent += 1

    def close(self, text: str = "}") -> None:
        self.indent -= 1
        self.leave_block()
        self.line(text)

    def enter_block(self) -> None:
        self._marks.append((len(self._log), len(self._block_log)))

    def leave_block(self) -> None:
        memo, block = self._marks.pop()
        _unwind(self._log, memo)
        _unwind(self._block_log, block)

    def branch(self, node: PrimExpr) -> tuple[list[str], str]:
        """Evaluate a node under a condition: return the statements it needs and its text."""
        outer, self.lines = self.lines, []
        self.enter_block()
        self.indent += 1
        text = self.value(node)
        self.indent -= 1
        self.leave_block()
        lines, self.lines = self.lines, outer
        return lines, text

    def fresh(self, hint: str) -> str:
        """Return a name that is not visible at the current position."""
        name = hint
        while name in self.taken or name in self.source.taken:
            # Numbers are not reused, because the search for the next free number would become slow.
            number = self._counts[hint] = self._counts.get(hint, 0) + 1
            name = f"{hint}{'_' if hint[-1:].isdigit() else ''}{number}"
        self.taken[name] = True
        self._block_log.append((self.taken, name))
        return name

    def release(self, name: str) -> None:
        """Release a name that was not printed."""
        self.taken.pop(name, None)

    def bind(self, var: Var, name: str | None = None) -> str:
        """Assign a C name to a variable for the rest of the block."""
        if name is None:
            name = unique(clean(var.name), _Both(self.taken, self.source.taken))
            self.taken[name] = True
            self._block_log.append((self.taken, name))
        self.names[var] = name
        self._block_log.append((self.names, var))
        return name

    def named(self, var: Var) -> str:
        """Return a comment for a declaration: the original name of the variable, if it differs from the C name."""
        return "" if self.names[var] == var.name else f" /* {comment(var.name)} */"

    # Expressions ----------------------------------------------------------------------------------------------

    def begin(self, *roots: PrimExpr) -> None:
        """Analyze the expressions of a statement before they are printed."""
        self._roots.append((self.uses, self.plain, self.strict, len(self._log)))
        uses: dict[int, int] = {}
        plain: set[int] = set()
        effects: list[Call] = []
        reads: list[PrimExpr] = []
        seen: set[int] = set()
        for root in roots:
            uses[id(root)] = uses.get(id(root), 0) + 1
            for node in post_order(root):
                if id(node) in seen:
                    continue
                seen.add(id(node))
                for child in node.children():
                    uses[id(child)] = uses.get(id(child), 0) + 1
                kind = type(node)
                if kind is BufferLoad:
                    mark_index(plain, node.indices)
                    reads.append(node)
                elif kind is Call:
                    if c_expr.reads_state(node):
                        reads.append(node)
                    elif c_expr.has_effect(node) and not c_expr.is_return(node):
                        effects.append(node)
                    if getattr(node.op, "name", "") == "tir.tvm_access_ptr":
                        mark_index(plain, node.args[2:3])
        self.uses, self.plain, self.strict = uses, plain, _order_matters(effects, reads)

    def end(self) -> None:
        self.uses, self.plain, self.strict, mark = self._roots.pop()
        _unwind(self._log, mark)

    def put(self, table: dict, key: Any, text: str) -> None:
        table[key] = text
        self._log.append((table, key))

    def last_value(self, node: PrimExpr) -> str:
        """Return the value of the last node of a statement; a call then needs no variable."""
        if type(node) is Call and not self.strict and self.uses.get(id(node), 0) == 1 and id(node) not in self.memo:
            return c_call.emit_call(self, node)
        return self.value(node)

    def value(self, node: PrimExpr) -> str:
        """Return the text of the value of a node; in a loop over lanes, that of the current lane."""
        got = self.memo.get(id(node))
        if got is not None:
            return got
        handler = self.expressions.get(type(node))
        if handler is None:
            raise TVMError(f"the {self.language} back end cannot emit {type(node).__name__}: {node}")
        if type(node) in _LEAVES:
            return handler(self, node)
        if self.depth >= _DEEP:
            return self._bottom_up(node)
        self.depth += 1
        text = handler(self, node)
        self.depth -= 1
        if self._wants_name(node, text):
            text = self.temporary(node.dtype, text)
        self.put(self.memo, id(node), text)
        return text

    def _wants_name(self, node: PrimExpr, text: str) -> bool:
        if text.isidentifier() or text.isdigit() or node.dtype in ("void", ""):
            return False
        if self.uses.get(id(node), 0) > 1 or len(text) > _LONG:
            return True
        if type(node) is Call and c_expr.has_effect(node):
            return True
        return self.strict and (type(node) is BufferLoad or (type(node) is Call and c_expr.reads_state(node)))

    def temporary(self, dtype: str, text: str) -> str:
        """Return the name of a constant with the value ``text``."""
        name = self.fresh("t")
        kind = self.scalar_type(element(dtype))
        self.line(f"{kind} {name} = {bare(text)};" if kind.endswith("*") else f"const {kind} {name} = {bare(text)};")
        return name

    def named_value(self, node: PrimExpr) -> str:
        """Evaluate a node here and return its value as a name or literal."""
        text = self.value(node)
        if text.isidentifier() or type(node) in _LEAVES:
            return text
        name = self.temporary(node.dtype, text)
        self.put(self.memo, id(node), name)
        return name

    def _bottom_up(self, root: PrimExpr) -> str:
        """Evaluate operands before their users without recursion, because expressions can be deep."""
        depth, self.depth = self.depth, 0
        for node in post_order(root, self.memo, c_expr.eager_operands):
            if type(node) not in _LEAVES:
                self.value(node)
        self.depth = depth
        return self.value(root)

    def evaluate(self, node: PrimExpr) -> None:
        """Print an expression for its side effect."""
        self.begin(node)
        if isinstance(node, Call):
            text = c_call.emit_call(self, node)
            if text.endswith(")"):
                self.line(bare(text) + ";")
        elif isinstance(node, Let):
            self.open("{")
            self.value(node)
            self.close()
        elif node.dtype not in ("void", "handle") and info(node.dtype).lanes > 1:
            self.lay_out(node)
        elif not isinstance(node, _LEAVES):
            self.line(f"(void){self.value(node)};")
        self.end()

    # Functions ------------------------------------------------------------------------------------------------

    @classmethod
    def result_type(cls, function: PrimFunc) -> str:
        """Return the C return type of a function: its declared return type, or an int32 status without one."""
        kind = function.ret_type
        if isinstance(kind, PrimType) and kind.dtype not in ("void", ""):
            return cls.scalar_type(kind.dtype)
        if kind is None or isinstance(kind, (PrimType, TupleType)):
            return cls.scalar_type("int32")
        raise TVMError(f"the {cls.language} back end cannot return a value of type {kind}")

    @classmethod
    def qualifier(cls, function: PrimFunc) -> str:
        """Return the declaration specifiers of a function, such as ``static``."""
        return cls.function_qualifier

    @classmethod
    def heading(cls, symbol: str, name: str, function: PrimFunc) -> list[str]:
        """Return the comment lines above a function: its symbol if it differs from its name in C."""
        return [] if name == symbol else [f"/* {comment(symbol)} */"]

    def look_at(self, params: Iterable[Var], body) -> None:
        """Determine the element type of each pointer, from its type and from its uses in the body."""
        views: dict[Var, set[str]] = {}
        for node in pre_order(body):
            if type(node) is Call and node.args and isinstance(node.args[0], StringImm):
                # It may be an external function, so no variable gets its name.
                self.source.taken.add(node.args[0].value)
            if isinstance(node, (BufferLoad, BufferStore)):
                views.setdefault(node.buffer.data, set()).add(element(node.buffer.dtype))
        for var, seen in views.items():
            declared = pointee(var)
            kinds = seen if declared is None else seen | {declared}
            self.pointees[var] = min(kinds) if len({self.memory_type(k) for k in kinds}) == 1 else None
        for var in params:
            if var.dtype == "handle" and var not in self.pointees:
                self.pointees[var] = pointee(var)

    def parameter(self, var: Var, restricted: bool) -> str:
        """Return the declaration of a parameter."""
        name = self.bind(var)
        kind = self.variable_type(var)
        if var.dtype == "handle" and restricted:
            self.private.add(var)
            return f"{kind} {self.restrict} {name}"
        return f"{kind} {name}"

    def mark_indices(self, indices: Iterable[PrimExpr]) -> None:
        mark_index(self.plain, indices)

    def declared_pointee(self, var: Var) -> str | None:
        return pointee(var)

    def storage_scope(self, var: Var) -> str:
        return storage_scope(var)

    def parallel_loop(self, stmt):
        """Print a parallel loop; the default is a serial loop."""
        c_stmt.serial_loop(self, stmt)

    def report(self, message: str) -> None:
        """Record the error message of an early return."""

    def fail(self) -> str:
        """Return the statement that leaves the function after an error."""
        leave = "return;" if self.result == "void" else "return -1;"
        return f"{{ {' '.join(reversed(self.held.values()))} {leave} }}" if self.held else leave

    def finished(self) -> list[str]:
        """Return the lines of the finished function body."""
        return self.lines

    def operation(self, x: str, operator: str, y: str) -> str:
        """Return the C expression of an arithmetic operation, in parentheses."""
        return f"({x} {operator} {y})"

    def wrapping(self, operator: str, dtype: str, x: str, y: str) -> str:
        """Return the C expression of an operation on signed integers that wraps around."""
        wide = self.scalar_type(f"u{dtype}")
        return f"({self.scalar_type(dtype)})(({wide}){x} {operator} ({wide}){y})"

    def conversion(self, source: str, target: str, text: str) -> str:
        return c_expr.convert(self, source, target, text)

    def binary(self, operator: str, dtype: str, x: str, y: str, exact: bool = False) -> str:
        return c_expr.arithmetic(self, operator, dtype, x, y, exact)

    def lay_out(self, node: PrimExpr, hint: str = "v") -> str:
        """Return the name of an array with the lanes of a vector."""
        return c_vector.materialise(self, node, hint)

    def stmt(self, stmt) -> None:
        c_stmt.emit(self, stmt)

    # Memory ---------------------------------------------------------------------------------------------------

    def view(self, var: Var, name: str, dtype: str) -> str:
        """Return memory that is accessed with several types; the compiler must not use type-based alias analysis on
        it."""
        alias = self.source.typed_helper("alias", "int8" if dtype == "bool" else dtype)
        return f"(({self.pointer_scopes.get('', '')}{alias}*){name})"

    def is_wide(self, dtype: str, buffer, index: PrimExpr) -> bool:
        """Return whether a vector is loaded or stored with one access."""
        return dtype in self.vector_types and c_vector.contiguous_base(index, buffer.dtype) is not None

    def load_wide(self, array: str, dtype: str, buffer, index: PrimExpr) -> None:
        kind = self.vector_types[dtype]
        self.line(f"*({kind}*){array} = *({kind}*)({c_vector.first_address(self, buffer, index)});")

    def store_wide(self, array: str, dtype: str, buffer, index: PrimExpr) -> None:
        kind = self.vector_types[dtype]
        self.line(f"*({kind}*)({c_vector.first_address(self, buffer, index)}) = *({kind}*){array};")

    def copy_bytes(self, target: str, source: str, size: int) -> None:
        self.line(f"memcpy({target}, {source}, {size});")


class _Both:
    """A container that contains the names of two collections."""

    def __init__(self, first, second):
        self.first, self.second = first, second

    def __contains__(self, name: str) -> bool:
        return name in self.first or name in self.second


def _unwind(log: list[tuple[dict, Any]], mark: int) -> None:
    while len(log) > mark:
        table, key = log.pop()
        table.pop(key, None)


def _order_matters(effects: list[Call], reads: list[PrimExpr]) -> bool:
    """Return whether the expression reads state outside the operands of its only call with a side effect; the order of
    evaluation then matters."""
    if len(effects) != 1:
        return len(effects) > 1
    operands = {id(node) for node in pre_order(effects[0])}
    return any(id(node) not in operands for node in reads)


def mark_index(plain: set[int], indices: Iterable[PrimExpr]) -> None:
    """Mark the sums and products in an index: they cannot overflow, because they are positions in memory."""
    stack = list(indices)
    while stack:
        node = stack.pop()
        if id(node) in plain:
            continue
        if isinstance(node, (Add, Sub, Mul)):
            plain.add(id(node))
            stack.append(node.a)
            stack.append(node.b)
        elif isinstance(node, Ramp):
            plain.add(id(node))
            stack.append(node.base)
        elif isinstance(node, Broadcast) or (isinstance(node, Cast) and info(node.value.dtype).is_integer):
            plain.add(id(node))
            stack.append(node.value)


def storage_scope(var: Var) -> str:
    kind = var.type_annotation
    return (kind.storage_scope if isinstance(kind, PointerType) else "") or "global"


def pointee(var: Var) -> str | None:
    """Return the element type with which a pointer variable is declared."""
    kind = var.type_annotation
    if isinstance(kind, PointerType) and isinstance(kind.element_type, PrimType):
        dtype = kind.element_type.dtype
        if dtype not in ("void", "", "handle"):
            return element(dtype)
    return None

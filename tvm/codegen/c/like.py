"""Statements and expressions as text of the C family.

``CLike`` writes one function. A language of the family is a subclass of it: most of what differs is in the tables at
the top of the class (types, qualifiers, barriers, names of functions), the rest are methods with short default bodies.
How each node is written is in tables too (``expressions``, ``calls``, ``statements``, ``attributes``), which a subclass
extends by ``{**CLike.calls, ...}``.

Expressions become text in place; a part used twice, or one that would make a line too long, becomes a constant of its
own first. Vectors are written lane by lane in short loops, which compilers turn into vector instructions.
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

# Nesting at which evaluation stops recursing and visits operands bottom-up instead.
_DEEP = 40
# Text longer than this gets a name.
_LONG = 120
_LEAVES = (IntImm, FloatImm, StringImm, Var, SizeVar)


class CLike:
    """Writes one function; the class attributes are the language."""

    language: ClassVar[str] = "c"
    scalar_types: ClassVar[dict[str, str]] = {
        "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t",
        "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t",
        "float32": "float", "float64": "double", "bool": "_Bool", "handle": "void*",
        # Sixteen-bit floats are kept as their bits; arithmetic on them goes through float32.
        "float16": "uint16_t", "bfloat16": "uint16_t",
    }  # fmt: skip
    bool_memory: ClassVar[str] = "int8_t"
    # Literals: what follows the digits.
    suffixes: ClassVar[dict[str, str]] = {"uint32": "U", "int64": "LL", "uint64": "ULL", "float32": "f"}
    infinity: ClassVar[str] = "INFINITY"
    not_a_number: ClassVar[str] = "NAN"
    # Sixteen-bit float types the language computes with itself.
    native_halves: ClassVar[frozenset[str]] = frozenset()
    # Vector dtypes that are loaded and stored as one: dtype -> type. Empty where loops over lanes do as well.
    vector_types: ClassVar[dict[str, str]] = {}
    function_qualifier: ClassVar[str] = ""
    local_function: ClassVar[str] = "static "
    restrict: ClassVar[str] = "__restrict__"
    # The qualifiers of the declaration of a buffer, and of a pointer to one, by storage scope.
    scopes: ClassVar[dict[str, str]] = {}
    pointer_scopes: ClassVar[dict[str, str]] = {}
    alignment: ClassVar[str] = " __attribute__((aligned(64)))"
    # Thread axes: tag -> expression; barriers: scope -> statement.
    thread_axes: ClassVar[dict[str, str]] = {}
    barriers: ClassVar[dict[str, str]] = {}
    # The pragmas before loops that are unrolled, and before loops over lanes.
    unroll_line: ClassVar[str] = "#pragma GCC unroll {count}"
    lane_line: ClassVar[str] = ""
    stack_limit: ClassVar[int] = 1 << 20
    # Functions of floats: intrinsic -> name; float32 forms have the suffix.
    math_functions: ClassVar[dict[str, str]] = c_call.LIBRARY_FUNCTIONS
    single_suffix: ClassVar[str] = "f"
    # Names that stand for something in the language, beside those of C.
    reserved: ClassVar[frozenset[str]] = frozenset()
    # Functions the text defines for itself: by operation for a type, by name, and the bits of one type as another.
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
        # How many tasks the next parallel loop is for; 0 leaves it to the runtime.
        self.tasks_next = "0"
        self.ranges = Ranges()
        # Texts of nodes, names of variables, arrays that hold vectors: each with the order entries were made in.
        self.memo: dict[int, str] = {}
        self.arrays: dict[int, str] = {}
        self.names: dict[Var, str] = {}
        self.taken: dict[str, bool] = {}
        self._counts: dict[str, int] = {}
        self._log: list[tuple[dict, Any]] = []
        self._block_log: list[tuple[dict, Any]] = []
        self._marks: list[tuple[int, int]] = []
        # The expressions being written: how often each node is used, which sums are indices, and the order of effects.
        self.uses: dict[int, int] = {}
        self.plain: set[int] = set()
        self.strict = False
        self._roots: list[tuple] = []
        # Element types of pointers; None where memory is seen as several types.
        self.pointees: dict[Var, str | None] = {}
        self.private: set[Var] = set()
        # Workspace to give back when the function is left early: the pointer's variable, the statement that does it.
        self.held: dict[Var, str] = {}

    # Types ----------------------------------------------------------------------------------------------------

    @classmethod
    def scalar_type(cls, dtype: str) -> str:
        """The type of a value with one lane."""
        if dtype in ("void", ""):
            return "void"
        text = cls.scalar_types.get(dtype)
        if text is None:
            raise TVMError(f"the {cls.language} back end has no values of type {dtype}")
        return text

    @classmethod
    def memory_type(cls, dtype: str) -> str:
        """The type an element has in memory."""
        return cls.bool_memory if dtype == "bool" else cls.scalar_type(dtype)

    def pointer_type(self, var: Var) -> str:
        """The type of a pointer variable."""
        dtype = self.pointees.get(var)
        scope = self.pointer_scopes.get(storage_scope(var), "")
        return scope + ("void*" if dtype is None else f"{self.memory_type(dtype)}*")

    def variable_type(self, var: Var) -> str:
        if var.dtype == "handle":
            return self.pointer_type(var)
        return self.scalar_type(element(var.dtype))

    def literal(self, dtype: str, number) -> str:
        """A constant with one lane."""
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
            # The digits alone would not fit the type.
            return f"({number + 1}{suffix} - 1)"
        return f"{number}{suffix}"

    def _float_literal(self, dtype: str, number: float) -> str:
        if dtype in ("float16", "bfloat16") and dtype not in self.native_halves:
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
        """Begin a block; ``text`` ends in a brace. What is declared inside is not known after ``close``."""
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
        """The value of a node that is evaluated under a condition: the lines it needs first, and its text."""
        outer, self.lines = self.lines, []
        self.enter_block()
        self.indent += 1
        text = self.value(node)
        self.indent -= 1
        self.leave_block()
        lines, self.lines = self.lines, outer
        return lines, text

    def fresh(self, hint: str) -> str:
        """A name not used where the text stands."""
        name = hint
        while name in self.taken or name in self.source.taken:
            # Numbers are not used again, or finding the next one would take longer and longer.
            number = self._counts[hint] = self._counts.get(hint, 0) + 1
            name = f"{hint}{'_' if hint[-1:].isdigit() else ''}{number}"
        self.taken[name] = True
        self._block_log.append((self.taken, name))
        return name

    def release(self, name: str) -> None:
        """Give back a name that was not written."""
        self.taken.pop(name, None)

    def bind(self, var: Var, name: str | None = None) -> str:
        """Give a variable its name in C, for the rest of the block."""
        if name is None:
            name = unique(clean(var.name), _Both(self.taken, self.source.taken))
            self.taken[name] = True
            self._block_log.append((self.taken, name))
        self.names[var] = name
        self._block_log.append((self.names, var))
        return name

    def named(self, var: Var) -> str:
        """What a declaration says beside the name: how the program calls the variable, where that differs."""
        return "" if self.names[var] == var.name else f" /* {comment(var.name)} */"

    # Expressions ----------------------------------------------------------------------------------------------

    def begin(self, *roots: PrimExpr) -> None:
        """Look at the expressions of a statement before they are written."""
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
        """The value of a node that is the last of its statement: a call need not be given a name."""
        if type(node) is Call and not self.strict and self.uses.get(id(node), 0) == 1 and id(node) not in self.memo:
            return c_call.emit_call(self, node)
        return self.value(node)

    def value(self, node: PrimExpr) -> str:
        """The text of a node's value; in a loop over lanes, of one lane of it."""
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
        """A constant with the value of ``text``."""
        name = self.fresh("t")
        kind = self.scalar_type(element(dtype))
        self.line(f"{kind} {name} = {bare(text)};" if kind.endswith("*") else f"const {kind} {name} = {bare(text)};")
        return name

    def named_value(self, node: PrimExpr) -> str:
        """The value of a node as a name or literal, evaluated here."""
        text = self.value(node)
        if text.isidentifier() or type(node) in _LEAVES:
            return text
        name = self.temporary(node.dtype, text)
        self.put(self.memo, id(node), name)
        return name

    def _bottom_up(self, root: PrimExpr) -> str:
        """Evaluate operands before their users without recursion, however deep the expression."""
        depth, self.depth = self.depth, 0
        for node in post_order(root, self.memo, c_expr.eager_operands):
            if type(node) not in _LEAVES:
                self.value(node)
        self.depth = depth
        return self.value(root)

    def evaluate(self, node: PrimExpr) -> None:
        """Write an expression for its effect."""
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
        """Functions return a status unless their type says otherwise."""
        kind = function.ret_type
        if isinstance(kind, PrimType) and kind.dtype not in ("void", ""):
            return cls.scalar_type(kind.dtype)
        if kind is None or isinstance(kind, (PrimType, TupleType)):
            return cls.scalar_type("int32")
        raise TVMError(f"the {cls.language} back end cannot return a value of type {kind}")

    @classmethod
    def qualifier(cls, function: PrimFunc) -> str:
        """What the declaration of a function begins with."""
        return cls.function_qualifier

    @classmethod
    def heading(cls, symbol: str, name: str, function: PrimFunc) -> list[str]:
        """The comment above a function: its symbol, where that is not its name in C."""
        return [] if name == symbol else [f"/* {comment(symbol)} */"]

    def look_at(self, params: Iterable[Var], body) -> None:
        """Decide what each pointer points to, from its type and from how the body uses it."""
        views: dict[Var, set[str]] = {}
        for node in pre_order(body):
            if type(node) is Call and node.args and isinstance(node.args[0], StringImm):
                # It may be a function from outside: no variable takes its name.
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
        """The declaration of a parameter."""
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
        """A parallel loop, where the language has no other way to run it."""
        c_stmt.serial_loop(self, stmt)

    def report(self, message: str) -> None:
        """Say why the function is left with an error."""

    def fail(self) -> str:
        """The statement that leaves the function after an error."""
        leave = "return;" if self.result == "void" else "return -1;"
        return f"{{ {' '.join(reversed(self.held.values()))} {leave} }}" if self.held else leave

    def finished(self) -> list[str]:
        """The lines of the function, once all are written."""
        return self.lines

    def operation(self, x: str, operator: str, y: str) -> str:
        """An arithmetic operation as an operand of others."""
        return f"({x} {operator} {y})"

    def conversion(self, source: str, target: str, text: str) -> str:
        return c_expr.convert(self, source, target, text)

    def binary(self, operator: str, dtype: str, x: str, y: str, exact: bool = False) -> str:
        return c_expr.arithmetic(self, operator, dtype, x, y, exact)

    def lay_out(self, node: PrimExpr, hint: str = "v") -> str:
        """The name of an array with the lanes of a vector."""
        return c_vector.materialise(self, node, hint)

    def stmt(self, stmt) -> None:
        c_stmt.emit(self, stmt)

    # Memory ---------------------------------------------------------------------------------------------------

    def view(self, var: Var, name: str, dtype: str) -> str:
        """Memory that is also seen as another type: the compiler must not conclude anything from the types."""
        alias = self.source.typed_helper("alias", "int8" if dtype == "bool" else dtype)
        return f"(({self.pointer_scopes.get('', '')}{alias}*){name})"

    def is_wide(self, dtype: str, buffer, index: PrimExpr) -> bool:
        """Whether a vector is loaded or stored as a whole."""
        return dtype in self.vector_types and c_vector.contiguous_base(index, buffer.dtype) is not None

    def load_wide(self, array: str, dtype: str, buffer, index: PrimExpr) -> None:
        kind = self.vector_types[dtype]
        self.line(f"*({kind}*){array} = *({kind}*)({c_vector.first_place(self, buffer, index)});")

    def store_wide(self, array: str, dtype: str, buffer, index: PrimExpr) -> None:
        kind = self.vector_types[dtype]
        self.line(f"*({kind}*)({c_vector.first_place(self, buffer, index)}) = *({kind}*){array};")

    def copy_bytes(self, target: str, source: str, size: int) -> None:
        self.line(f"memcpy({target}, {source}, {size});")


class _Both:
    """Whether a name is in either of two collections."""

    def __init__(self, first, second):
        self.first, self.second = first, second

    def __contains__(self, name: str) -> bool:
        return name in self.first or name in self.second


def _unwind(log: list[tuple[dict, Any]], mark: int) -> None:
    while len(log) > mark:
        table, key = log.pop()
        table.pop(key, None)


def _order_matters(effects: list[Call], reads: list[PrimExpr]) -> bool:
    """Whether something is read that is no operand of the only call with an effect: it has to stay where it is."""
    if len(effects) != 1:
        return len(effects) > 1
    operands = {id(node) for node in pre_order(effects[0])}
    return any(id(node) not in operands for node in reads)


def mark_index(plain: set[int], indices: Iterable[PrimExpr]) -> None:
    """The sums and products an index is made of do not overflow: they are places in memory."""
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
    """The element type a pointer variable is declared with."""
    kind = var.type_annotation
    if isinstance(kind, PointerType) and isinstance(kind.element_type, PrimType):
        dtype = kind.element_type.dtype
        if dtype not in ("void", "", "handle"):
            return element(dtype)
    return None

"""Convert Relay functions to functions of the virtual machine.

A line of a function is either an operator or a VM step: a call, a branch or an ADT operation. Operators are collected
in the open region until one of their values is needed. Regions are compiled as separate models, whose outputs are
stored in registers.
"""

from __future__ import annotations

from typing import Any

from ....error import TVMError
from ....ir.adt import Constructor
from ....ir.module import GlobalVar, IRModule
from ....ir.tensor_type import TensorType
from ....ir.type import TupleType, Type
from ....runtime.vm_code import Function as MachineFunction
from ...adt import Match, Pattern, PatternConstructor, PatternTuple, PatternVar
from ...checked_type import with_derived_type, with_type
from ...expr import Call, Constant, Function, If, Let, RefCreate, RefRead, RefWrite, RelayExpr, Tuple, TupleGetItem, Var
from ...scopes import Block
from ...size_values import plain, same_size
from ...symbolic import named_sizes
from ..te_compiler import flatten_type
from .assembler import Assembler, Label, Tables
from .caller_sizes import with_sizes_of_callers
from .lines import Lines, is_computed, without_lets
from .region import ProgramWriter, Region, RegionCompiler
from .sizes import type_words


class Slot:
    """A value in a register, or a pending value of the open region (``expr``). ``holders`` counts the values and lines
    that still need it."""

    __slots__ = ("type", "register", "expr", "holders")

    def __init__(self, t: Type, register: int = -1, expr: RelayExpr | None = None):
        self.type, self.register, self.expr, self.holders = t, register, expr, 0


class Group:
    """A tuple whose fields are known, or a closure of the global function ``function``. It is allocated only when it is
    needed."""

    __slots__ = ("parts", "function")

    def __init__(self, parts: list[Any], function: str | None = None):
        self.parts, self.function = parts, function


Value = Slot | Group | Constant | Constructor


def slots(value: Value) -> list[Slot]:
    """Return the slots of a value."""
    found: list[Slot] = []
    stack = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, Slot):
            found.append(one)
        elif isinstance(one, Group):
            stack.extend(one.parts)
    return found


class FunctionWriter:
    """Writes one function of a module without inner functions. A tail call of the function itself becomes a jump to its
    start with new parameter values."""

    def __init__(self, module: ModuleWriter, name: str, function: Function):
        self.module, self.name = module, name
        self.params = list(function.params)
        self.body = function.body
        self.lines = Lines(self.body)
        types = [p.checked_type_ or p.type_annotation for p in self.params]
        self.again = tail_calls(name, module.is_closure(name), self.body)
        self.out = Assembler(module.tables, [p.name_hint for p in self.params], type_words(types), bool(self.again))
        # Parameters whose shape is equal in all steps.
        self.fixed = [p for i, p in enumerate(self.params) if all(_same_shape(p, a[i]) for a in self.again.values())]
        self.values: dict[int, Value] = {}
        self.region = Region()
        self.waiting: list[Slot] = []
        # Slots that the pending operators read.
        self.read: list[Slot] = []

    def write(self) -> MachineFunction:
        for number, param in enumerate(self.params):
            self.bind(param, Slot(param.checked_type_ or param.type_annotation, number))
        self.block(self.lines.top, self.body, None)
        return self.out.finish(self.name)

    # ---- values and how long they are needed ----

    def bind(self, e: RelayExpr, value: Value) -> None:
        """Set the value of an expression, which is kept until its last use."""
        self.values[id(e)] = value
        self.hold(value, self.lines.uses.get(id(e), 0))

    def hold(self, value: Value, times: int) -> None:
        for slot in slots(value):
            slot.holders += times
            if not slot.holders and slot.register >= 0:
                self.out.release(slot.register)
                slot.register = -1

    def value(self, e: RelayExpr) -> Value:
        """Return the value of an expression that has been emitted."""
        e = without_lets(e)
        if isinstance(e, (Constant, Constructor)):
            return e
        if isinstance(e, GlobalVar):
            return Group([], e.name_hint)
        if id(e) not in self.values:
            name = f"%{e.name_hint}" if isinstance(e, Var) else type(e).__name__
            raise TVMError(f"{name} is used before it is defined")
        return self.values[id(e)]

    def used(self, e: RelayExpr) -> None:
        """Record one use of an expression."""
        e = without_lets(e)
        if id(e) in self.values:
            self.hold(self.values[id(e)], -1)

    # ---- registers ----

    def load(self, value: Value, made: list[int]) -> int:
        """Return the register of a value. Registers allocated for it are appended to ``made``, and released after
        use."""
        if isinstance(value, Slot):
            if value.expr is not None:
                self.compute_waiting()
            return value.register
        if isinstance(value, Constant):
            register = self.out.load_constant(self.module.tables.constant(value.data))
        else:
            register = self.load_group(value, made)
        made.append(register)
        return register

    def load_group(self, value: Group | Constructor, made: list[int]) -> int:
        if isinstance(value, Constructor):
            register = self.out.register()
            self.out.write("alloc_closure", register, self.module.constructor(value), [])
            return register
        parts = [self.load(p, made) for p in value.parts]
        register = self.out.register()
        if value.function is None:
            self.out.write("alloc_data", register, 0, parts)
        else:
            self.out.write("alloc_closure", register, self.module.number(value.function), parts)
        return register

    def operands(self, values: list[Value]) -> tuple[list[int], list[int]]:
        """Return the registers of values, and those that were allocated for this purpose."""
        made: list[int] = []
        return [self.load(v, made) for v in values], made

    def release(self, made: list[int]) -> None:
        for register in made:
            self.out.release(register)

    def result(self, e: RelayExpr, register: int) -> None:
        """Bind an expression to a register that contains its value."""
        slot = Slot(e.checked_type_, register)
        self.bind(e, slot)

    # ---- regions ----

    def compute(self, e: Call) -> None:
        """Add an operator to the open region."""
        expr = Call(e.op, tuple(self.in_region(self.value(a)) for a in e.args), e.attrs, e.type_args, e.span)
        self.wait(e, expr)
        for a in e.args:
            self.used(a)

    def wait(self, e: RelayExpr, expr: RelayExpr) -> None:
        slot = Slot(e.checked_type_, -1, with_type(expr, e.checked_type_))
        self.waiting.append(slot)
        self.bind(e, slot)

    def in_region(self, value: Value) -> RelayExpr:
        """Return a value as an operand for operators of the open region."""
        if isinstance(value, Constant):
            return value
        if isinstance(value, Group):
            return with_derived_type(Tuple(tuple(self.in_region(p) for p in value.parts)))
        if not isinstance(value, Slot):
            raise TVMError(f"an operator has the constructor {value.name_hint} as an operand; operands must be tensors")
        if value.expr is not None:
            return value.expr
        return self.param(value)

    def param(self, slot: Slot) -> RelayExpr:
        if isinstance(slot.type, TupleType):
            fields = [self.field(slot, i) for i in range(len(slot.type.fields))]
            return with_type(Tuple(tuple(self.param(f) for f in fields)), slot.type)
        if not isinstance(slot.type, TensorType):
            raise TVMError(f"an operator has an operand of type {slot.type}; operands must be tensors")
        slot.holders += 1
        self.read.append(slot)
        return self.region.param(slot.register, slot.type)

    def field(self, slot: Slot, index: int) -> Slot:
        """Load a field of a tuple into a new register."""
        register = self.out.register()
        self.out.write("get_field", register, slot.register, index)
        return Slot(slot.type.fields[index], register)

    def compute_waiting(self) -> None:
        """Compile the open region and emit its kernels. Values that are no longer needed are not computed."""
        wanted = [s for s in self.waiting if s.holders > 0]
        region, waiting, read = self.region, self.waiting, self.read
        self.region, self.waiting, self.read = Region(), [], []
        if wanted:
            self.out.drop_dead()
            registers, params = region.read([s.expr for s in wanted])
            regions = self.module.regions
            program, entry = regions.program(params, [s.expr for s in wanted])
            fixed = {slot.register for p in self.fixed for slot in slots(self.values[id(p)])}
            results = iter(ProgramWriter(self.out, program, registers, regions.shapes, entry, fixed).write())
            for slot in wanted:
                slot.register = self.joined(slot.type, results)
        for slot in waiting:
            slot.expr = None
        for slot in read:
            self.hold(slot, -1)

    def joined(self, t: Type, results: Any) -> int:
        """Return the register of an output, assembled from its tensors."""
        if isinstance(t, TensorType):
            return next(results)
        parts = [next(results) for _ in flatten_type(t)]
        register = self.out.register()
        self.out.write("alloc_data", register, 0, parts)
        self.release(parts)
        return register

    # ---- blocks ----

    def block(self, block: Block, root: RelayExpr, into: int | None) -> None:
        """Emit the lines of a block, and return its value or move it into a register."""
        last = without_lets(root)
        for e in self.lines.of(block):
            if into is None and e is last and self.tail(e):
                return
            self.line(e)
        made: list[int] = []
        register = self.load(self.value(root), made)
        if into is None:
            self.out.write("ret", register)
        else:
            self.out.write("move", into, register)
        self.used(root)
        self.release(made)
        self.forget_waiting()

    def forget_waiting(self) -> None:
        """Discard the operators that are pending at the end of a block, whose values are unused."""
        for slot in self.read:
            self.hold(slot, -1)
        self.region, self.waiting, self.read = Region(), [], []

    def tail(self, e: RelayExpr) -> bool:
        """Emit the last line of a function if it returns by itself; return whether it does."""
        if isinstance(e, If):
            self.branch(e, None)
        elif isinstance(e, Match):
            self.match(e, None)
        elif id(e) in self.again:
            registers, made = self.operands([self.value(a) for a in self.again[id(e)]])
            self.release(made)
            self.uses_over([*e.args, e.op])
            self.out.start_again(registers)
            self.forget_waiting()
        else:
            return False
        return True

    def line(self, e: RelayExpr) -> None:
        if isinstance(e, Let):
            self.bind(e.var, self.value(e.value))
            self.used(e.value)
        elif is_computed(e):
            self.compute(e)
        elif isinstance(e, Tuple):
            self.bind(e, Group([self.value(f) for f in e.fields]))
            self.uses_over(e.fields)
        else:
            self.step(e)

    def uses_over(self, operands: Any) -> None:
        for operand in operands:
            self.used(operand)

    def step(self, e: RelayExpr) -> None:
        """Emit an expression that is a VM step."""
        if isinstance(e, TupleGetItem):
            self.get_item(e)
        elif isinstance(e, Call):
            self.call(e)
        elif isinstance(e, (If, Match)):
            register = self.out.register()
            (self.branch if isinstance(e, If) else self.match)(e, register)
            self.result(e, register)
        elif isinstance(e, (RefCreate, RefRead, RefWrite)):
            self.reference(e)
        else:
            raise TVMError(f"the virtual machine does not support {type(e).__name__}")

    def get_item(self, e: TupleGetItem) -> None:
        value = self.value(e.tuple_value)
        if isinstance(value, Group):
            self.bind(e, value.parts[e.index])
        elif isinstance(value, Slot) and value.expr is not None:
            self.wait(e, TupleGetItem(value.expr, e.index))
        else:
            self.result(e, self.field(value, e.index).register)
        self.used(e.tuple_value)

    # ---- calls ----

    def call(self, e: Call) -> None:
        if isinstance(e.op, Constructor):
            registers, made = self.operands([self.value(a) for a in e.args])
            register = self.out.register()
            self.out.write("alloc_data", register, e.op.tag, registers)
        elif isinstance(e.op, GlobalVar) and self.module.is_closure(e.op.name_hint):
            self.bind(e, Group([self.value(a) for a in e.args], e.op.name_hint))
            return self.uses_over(e.args)
        else:
            register, made = self.invoke(e)
        self.release(made)
        self.uses_over([*e.args, e.op])
        self.result(e, register)

    def invoke(self, e: Call) -> tuple[int, list[int]]:
        callee = self.value(e.op)
        arguments = [self.value(a) for a in e.args]
        if isinstance(callee, Group) and callee.function is not None:
            registers, made = self.operands([*callee.parts, *arguments])
            self.out.drop_dead()
            result = self.out.register()
            self.out.write("invoke", result, self.module.number(callee.function), registers)
        else:
            registers, made = self.operands([callee, *arguments])
            self.out.drop_dead()
            result = self.out.register()
            self.out.write("invoke_closure", result, registers[0], registers[1:])
        return result, made

    def reference(self, e: RelayExpr) -> None:
        """Emit a reference, represented as an ADT value with one mutable field."""
        operands = e.children()
        registers, made = self.operands([self.value(o) for o in operands])
        register = self.out.register()
        if isinstance(e, RefCreate):
            self.out.write("alloc_data", register, 0, registers)
        elif isinstance(e, RefRead):
            self.out.write("get_field", register, registers[0], 0)
        else:
            self.out.write("set_field", registers[0], 0, registers[1])
            self.out.write("alloc_data", register, 0, [])
        self.release(made)
        self.uses_over(operands)
        self.result(e, register)

    # ---- branches ----

    def test(self, register: int, wanted: int, otherwise: Label) -> None:
        """Continue if a register contains the number ``wanted``, else jump to ``otherwise``."""
        number, here = self.out.load(wanted), Label()
        self.out.write("if", register, number, here, otherwise)
        self.out.release(number)
        self.out.place(here)

    def branch(self, e: If, into: int | None) -> None:
        self.compute_waiting()
        (cond,), made = self.operands([self.value(e.cond)])
        otherwise, end = Label(), Label()
        self.test(cond, 1, otherwise)
        self.release(made)
        self.used(e.cond)
        yes, no = self.lines.inner[id(e)]
        dead = self.out.dead()
        self.inside(yes, e.true_branch, into, end)
        self.out.place(otherwise)
        self.out.begin_branch(dead)
        self.inside(no, e.false_branch, into, None)
        self.out.place(end)

    def inside(self, block: Block, root: RelayExpr, into: int | None, end: Label | None) -> None:
        self.block(block, root, into)
        self.out.begin_branch([])
        if into is not None and end is not None:
            self.out.write("goto", end)

    def match(self, e: Match, into: int | None) -> None:
        self.compute_waiting()
        (data,), made = self.operands([self.value(e.data)])
        end, dead = Label(), self.out.dead()
        for clause, block in zip(e.clauses, self.lines.inner[id(e)]):
            following, held = Label(), []
            self.out.begin_branch(dead)
            self.pattern(clause.lhs, data, following, held)
            self.inside(block, clause.rhs, into, end)
            self.release(held)
            self.out.place(following)
        self.out.write("fatal")
        self.out.place(end)
        self.release(made)
        self.used(e.data)

    def pattern(self, pattern: Pattern, data: int, otherwise: Label, held: list[int]) -> None:
        """Continue if the value in a register matches a pattern, with its parts bound to the pattern variables."""
        if isinstance(pattern, PatternVar):
            register = self.out.register()
            self.out.write("move", register, data)
            return self.bind(pattern.var, Slot(pattern.var.checked_type_ or pattern.var.type_annotation, register))
        if isinstance(pattern, PatternConstructor):
            tag = self.out.register()
            self.out.write("get_tag", tag, data)
            self.test(tag, pattern.constructor.number, otherwise)
            self.out.release(tag)
        if isinstance(pattern, (PatternConstructor, PatternTuple)):
            for index, part in enumerate(pattern.patterns):
                if _looks_at(part, self.lines.uses):
                    register = self.out.register()
                    self.out.write("get_field", register, data, index)
                    self.pattern_field(part, register, otherwise, held)

    def pattern_field(self, part: Pattern, register: int, otherwise: Label, held: list[int]) -> None:
        if isinstance(part, PatternVar):
            return self.bind(part.var, Slot(part.var.checked_type_ or part.var.type_annotation, register))
        held.append(register)
        self.pattern(part, register, otherwise, held)


def tail_calls(name: str, is_closure: bool, body: RelayExpr) -> dict[int, list[RelayExpr]]:
    """Return the arguments of the tail calls of a function to itself, by the id of the call. For a closure the captured
    values come first."""
    found: dict[int, list[RelayExpr]] = {}
    stack = [body]
    while stack:
        e = without_lets(stack.pop())
        if isinstance(e, If):
            stack += [e.true_branch, e.false_branch]
        elif isinstance(e, Match):
            stack += [clause.rhs for clause in e.clauses]
        elif isinstance(e, Call):
            held, callee = (e.op.args, e.op.op) if is_closure and isinstance(e.op, Call) else ((), e.op)
            if is_closure == isinstance(e.op, Call) and isinstance(callee, GlobalVar) and callee.name_hint == name:
                found[id(e)] = [*held, *e.args]
    return found


def _same_shape(param: Var, argument: RelayExpr) -> bool:
    """Return whether an argument provably has the shape of the parameter."""
    own, given = param.checked_type_ or param.type_annotation, argument.checked_type_
    if not isinstance(own, TensorType) or not isinstance(given, TensorType) or len(own.shape) != len(given.shape):
        return False
    return all(same_size(plain(a), plain(b)) for a, b in zip(own.shape, given.shape))


def _looks_at(pattern: Pattern, uses: dict[int, int]) -> bool:
    """Return whether a pattern reads the value that it is matched with."""
    if isinstance(pattern, PatternVar):
        return uses.get(id(pattern.var), 0) > 0
    return isinstance(pattern, (PatternConstructor, PatternTuple))


class ModuleWriter:
    """Converts the functions of a module to functions of an executable."""

    def __init__(self, mod: IRModule, tables: Tables, regions: RegionCompiler):
        self.mod = mod
        self.functions = {v.name_hint: f for v, f in mod.functions.items() if isinstance(f, Function)}
        self.tables = tables
        self.regions = regions
        self.code = tables.code
        self._constructors: dict[str, Constructor] = {}

    def number(self, name: str) -> int:
        """Return the index of a function, which may be emitted later."""
        return self.tables.functions.setdefault(name, len(self.tables.functions))

    def is_closure(self, name: str) -> bool:
        """Return whether a function returns a closure over its parameters. The parameters then come before those of the
        closure."""
        function = self.functions[name]
        return bool(function.attrs.get("Closure")) and isinstance(function.body, Function)

    def constructor(self, made: Constructor) -> int:
        """Return the index of a function that constructs an ADT value, for constructors used as values."""
        name = f"constructor {made.belong_to.name_hint}.{made.name_hint}"
        self._constructors[name] = made
        return self.number(name)

    def write(self, entries: list[str]) -> None:
        """Emit the entry functions and all functions that they use."""
        for name in entries:
            self.number(name)
        self.functions.update(with_sizes_of_callers(self.mod, entries))
        written: dict[int, MachineFunction] = {}
        while len(written) < len(self.tables.functions):
            for name, number in list(self.tables.functions.items()):
                if number not in written:
                    written[number] = self._function(name)
        self.code.functions = [written[n] for n in range(len(written))]

    def _function(self, name: str) -> MachineFunction:
        if name in self._constructors:
            return self._constructor(name)
        function = self.functions[name]
        if self.is_closure(name):
            inner = function.body
            function = Function([*function.params, *inner.params], inner.body, inner.ret_type)
        # Other functions get dynamic dimensions, since a function that is a value can be called with any shape.
        return FunctionWriter(self, name, named_sizes(function, self.mod, typed=True)).write()

    def _constructor(self, name: str) -> MachineFunction:
        made = self._constructors[name]
        out = Assembler(self.tables, [f"field{i}" for i in range(len(made.inputs))])
        register = out.register()
        out.write("alloc_data", register, made.tag, list(range(len(made.inputs))))
        out.write("ret", register)
        return out.finish(name)


__all__ = ["ModuleWriter"]

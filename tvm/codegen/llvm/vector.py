"""Arithmetic on LLVM values with Python operators, for formulas of functions such as exp."""

from __future__ import annotations

from ...dtype import info, with_lanes
from .builder import Builder


class Value:
    """An operand with its dtype. Operators emit instructions; a Python number is converted to a constant of the
    type."""

    __slots__ = ("b", "dtype", "text")

    def __init__(self, b: Builder, dtype: str, text: str):
        self.b, self.dtype, self.text = b, dtype, text

    @property
    def type_text(self) -> str:
        return self.b.types[self.dtype]

    def of(self, dtype: str, text: str) -> Value:
        return Value(self.b, with_lanes(dtype, info(self.dtype).lanes), text)

    def constant(self, number) -> Value:
        return Value(self.b, self.dtype, self.b.types.literal(self.dtype, number))

    def _other(self, other) -> str:
        return other.text if isinstance(other, Value) else self.constant(other).text

    def _binary(self, integer: str, floating: str, other) -> Value:
        opcode = floating if info(self.dtype).is_float else integer
        return Value(self.b, self.dtype, self.b.op(f"{opcode} {self.type_text} {self.text}, {self._other(other)}"))

    def __add__(self, other) -> Value:
        return self._binary("add", "fadd", other)

    def __sub__(self, other) -> Value:
        return self._binary("sub", "fsub", other)

    def __mul__(self, other) -> Value:
        return self._binary("mul", "fmul", other)

    def __truediv__(self, other) -> Value:
        return self._binary("sdiv", "fdiv", other)

    def __and__(self, other) -> Value:
        return self._binary("and", "and", other)

    def __or__(self, other) -> Value:
        return self._binary("or", "or", other)

    def __xor__(self, other) -> Value:
        return self._binary("xor", "xor", other)

    def __lshift__(self, other) -> Value:
        return self._binary("shl", "shl", other)

    def __rshift__(self, other) -> Value:
        """Return the arithmetic shift to the right."""
        return self._binary("ashr", "ashr", other)

    def __neg__(self) -> Value:
        return Value(self.b, self.dtype, self.b.op(f"fneg {self.type_text} {self.text}"))

    def _compare(self, integer: str, floating: str, other) -> Value:
        word = f"fcmp {floating}" if info(self.dtype).is_float else f"icmp {integer}"
        return self.of("bool", self.b.op(f"{word} {self.type_text} {self.text}, {self._other(other)}"))

    def less(self, other) -> Value:
        return self._compare("slt", "olt", other)

    def greater(self, other) -> Value:
        return self._compare("sgt", "ogt", other)

    def equal(self, other) -> Value:
        return self._compare("eq", "oeq", other)

    def differs(self, other) -> Value:
        return self._compare("ne", "une", other)

    def is_nan(self) -> Value:
        return self._compare("ne", "uno", self)

    def invert(self) -> Value:
        return self ^ 1

    def choose(self, yes, no) -> Value:
        """Return ``yes`` if this flag is set, else ``no``; at least one of them is a Value."""
        model = yes if isinstance(yes, Value) else no
        x, y = model._other(yes), model._other(no)
        kind = model.type_text
        return Value(self.b, model.dtype, self.b.op(f"select {self.type_text} {self.text}, {kind} {x}, {kind} {y}"))

    def bits(self) -> Value:
        """Convert between a float and the integer with the same bits."""
        kind = info(self.dtype)
        new = self.of(f"int{kind.bits}" if kind.is_float else f"float{kind.bits}", "")
        new.text = self.b.op(f"bitcast {self.type_text} {self.text} to {new.type_text}")
        return new

    def convert(self, dtype: str) -> Value:
        from_float, to_float = info(self.dtype).is_float, info(dtype).is_float
        new = self.of(dtype, "")
        if from_float and to_float:
            opcode = "fpext" if info(dtype).bits > info(self.dtype).bits else "fptrunc"
        elif to_float:
            opcode = "sitofp"
        elif from_float:
            opcode = "fptosi"
        else:
            have, want = info(self.dtype).bits, info(dtype).bits
            opcode = "trunc" if have > want else "zext" if info(self.dtype).is_bool else "sext"
        new.text = self.b.op(f"{opcode} {self.type_text} {self.text} to {new.type_text}")
        return new

    def intrinsic(self, name: str, *others) -> Value:
        texts = [self.text] + [self._other(o) for o in others]
        kind = self.type_text
        function = self.b.module.intrinsic(name, kind, len(texts))
        arguments = ", ".join(f"{kind} {t}" for t in texts)
        return Value(self.b, self.dtype, self.b.op(f"call {kind} {function}({arguments})"))

    def absolute(self) -> Value:
        return self.intrinsic("fabs")

    def with_sign_of(self, other: Value) -> Value:
        return self.intrinsic("copysign", other)

    def times_plus(self, factor, term) -> Value:
        """Return self * factor + term, fused if the processor supports it."""
        if self.b.module.cpu.has_fma:
            return self.intrinsic("fma", factor, term)
        return self * factor + term

    def polynomial(self, coefficients) -> Value:
        """Return c0 * x^n + ... + cn; coefficients are given from the highest power."""
        total: Value = self.constant(coefficients[0])
        for coefficient in coefficients[1:]:
            total = total.times_plus(self, coefficient)
        return total

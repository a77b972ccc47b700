"""Executables of the virtual machine as Python objects: instructions, functions, and the serialized form.

``csrc/src/vm/read.c`` reads and checks the serialized form; it contains the same table of operands.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..error import TVMError
from ._lib import checksum
from .ndarray import dtype_text, dtype_triple

MAGIC = b"TVMVMEXE"
VERSION = 3
_HEADER = struct.Struct("<8sQQQ")


class Form(NamedTuple):
    """An instruction: its name, its operands as letters, and the names of the operands.

    The letters: ``d`` written register, ``r`` read register, ``i`` integer, ``u`` non-negative integer, ``f`` function,
    ``c`` constant, ``p`` kernel, ``v`` device, ``t`` data type, ``j`` jump relative to the start of the instruction,
    ``R`` list of registers, ``U`` list of integers."""

    name: str
    operands: str
    names: tuple[str, ...]


def _form(name: str, operands: str = "", names: str = "") -> Form:
    return Form(name, operands, tuple(names.split()))


FORMS: tuple[Form, ...] = (
    _form("move", "dr", "dst from"),
    _form("ret", "r", "result"),
    _form("invoke", "dfR", "dst func args"),
    _form("invoke_closure", "drR", "dst closure args"),
    _form("invoke_packed", "puR", "kernel outputs args"),
    _form("alloc_tensor", "drutU", "dst storage offset dtype shape"),
    _form("alloc_tensor_reg", "drurt", "dst storage offset shape dtype"),
    _form("alloc_data", "diR", "dst tag fields"),
    _form("alloc_closure", "dfR", "dst func captured"),
    _form("get_field", "dru", "dst object index"),
    _form("if", "rrjj", "test target true false"),
    _form("load_const", "dc", "dst const"),
    _form("goto", "j", "to"),
    _form("get_tag", "dr", "dst object"),
    _form("load_consti", "di", "dst value"),
    _form("fatal"),
    _form("alloc_storage", "drutv", "dst size alignment dtype device"),
    _form("shape_of", "dr", "dst tensor"),
    _form("reshape_tensor", "drr", "dst tensor shape"),
    _form("device_copy", "drvv", "dst tensor from_device to_device"),
    _form("kill_register", "R", "registers"),
    _form("set_field", "rur", "object index value"),
)
OPCODES = {form.name: number for number, form in enumerate(FORMS)}

Operand = int | tuple[int, ...]


class Instruction(NamedTuple):
    """An opcode and its operands, in the order of its form; jump distances are in words."""

    opcode: int
    operands: tuple[Operand, ...]

    @property
    def form(self) -> Form:
        return FORMS[self.opcode]

    @property
    def length(self) -> int:
        """The number of words of the instruction."""
        return 1 + sum(1 + len(o) if isinstance(o, tuple) else 1 for o in self.operands)


def instruction(name: str, *operands: Operand | Sequence[int]) -> Instruction:
    """An instruction from its name and operands.

    Parameters
    ----------
    name : str
        The name, as in ``FORMS``.
    operands : int or list of int
        The operands.

    Returns
    -------
    Instruction
    """
    opcode = OPCODES[name]
    if len(operands) != len(FORMS[opcode].operands):
        raise ValueError(f"{name} takes the operands {', '.join(FORMS[opcode].names)}; got {len(operands)} operands")
    return Instruction(opcode, tuple(o if isinstance(o, int) else tuple(o) for o in operands))


def dtype_word(dtype: str) -> int:
    """Encode a data type as one word."""
    code, bits, lanes = dtype_triple(dtype)
    return code | bits << 8 | lanes << 16


def dtype_of_word(word: int) -> str:
    return dtype_text((word & 0xFF, word >> 8 & 0xFF, word >> 16))


@dataclass
class Param:
    """A parameter of a function: name, device index, and tensor type (data type and shape), None for other types.

    A negative dimension is dynamic; equal values below -1 denote equal dimensions."""

    name: str
    device: int = 0
    type: tuple[int, ...] = ()


@dataclass
class Function:
    """A function of an executable."""

    name: str
    params: list[Param]
    registers: int
    code: list[Instruction]


@dataclass
class ConstantSlot:
    """A constant without its array: its name and its device index."""

    name: str
    device: int = 0


@dataclass
class Code:
    """An executable without its constants and kernels: device types (the first is the host), functions, and the names
    of kernels and constants."""

    devices: list[int] = field(default_factory=lambda: [1])
    kernels: list[str] = field(default_factory=list)
    constants: list[ConstantSlot] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)


# ---- serialization as words ----


def _text_words(text: str) -> Iterator[int]:
    raw = text.encode()
    yield len(raw)
    yield from struct.unpack(f"<{(len(raw) + 7) // 8}q", raw.ljust((len(raw) + 7) // 8 * 8, b"\0"))


def instruction_words(code: Sequence[Instruction]) -> Iterator[int]:
    for one in code:
        yield one.opcode
        for operand in one.operands:
            if isinstance(operand, tuple):
                yield len(operand)
                yield from operand
            else:
                yield operand


def _function_words(function: Function) -> Iterator[int]:
    yield from _text_words(function.name)
    yield len(function.params)
    for param in function.params:
        yield from _text_words(param.name)
        yield param.device
        yield len(param.type)
        yield from param.type
    yield function.registers
    words = list(instruction_words(function.code))
    yield len(words)
    yield from words


def _words(code: Code) -> Iterator[int]:
    yield len(code.devices)
    yield from code.devices
    yield len(code.kernels)
    for name in code.kernels:
        yield from _text_words(name)
    yield len(code.constants)
    for slot in code.constants:
        yield from _text_words(slot.name)
        yield slot.device
    yield len(code.functions)
    for function in code.functions:
        yield from _function_words(function)


def to_words(code: Code) -> bytes:
    """Serialize an executable as words."""
    words = list(_words(code))
    return struct.pack(f"<{len(words)}q", *words)


def seal(words: bytes) -> bytearray:
    """Return the serialized form of an executable without constants."""
    return bytearray().join(sealed_parts(words))


def sealed_parts(words: bytes, *constants: bytes | memoryview, in_library: bool = False) -> list[bytes | memoryview]:
    """Return the serialized form in parts: a header with version and checksum, the words, and the serialized constants.

    ``in_library``: the checksum does not cover the constants, because the library file has its own checksum."""
    # Constants may be gigabytes, so they are not copied.
    sealed = [struct.pack("<Q", len(words) // 8), words, *constants]
    return [struct.pack("<8sQQ", MAGIC, VERSION, checksum(sealed[:2] if in_library else sealed)), *sealed]


def header_size() -> int:
    """Return the number of bytes before the words of the serialized form."""
    return _HEADER.size


class _Reader:
    def __init__(self, words: Sequence[int]):
        self.words = words
        self.at = 0

    def word(self) -> int:
        self.at += 1
        return self.words[self.at - 1]

    def text(self) -> str:
        size = self.word()
        count = (size + 7) // 8
        raw = struct.pack(f"<{count}q", *self.words[self.at : self.at + count])
        self.at += count
        return raw[:size].decode("utf-8", "replace")

    def many(self, read) -> list:
        return [read() for _ in range(self.word())]

    def function(self) -> Function:
        name = self.text()
        params = self.many(lambda: Param(self.text(), self.word(), tuple(self.many(self.word))))
        registers = self.word()
        end = self.word() + self.at
        code = []
        while self.at < end:
            code.append(self.instruction())
        return Function(name, params, registers, code)

    def instruction(self) -> Instruction:
        opcode = self.word()
        kinds = FORMS[opcode].operands
        return Instruction(opcode, tuple(tuple(self.many(self.word)) if k in "RU" else self.word() for k in kinds))


def from_words(words: bytes) -> Code:
    """Parse the words of an executable, which the C runtime has checked."""
    if len(words) % 8:
        raise TVMError("the size of an executable must be a multiple of eight bytes")
    reader = _Reader(struct.unpack(f"<{len(words) // 8}q", words))
    return Code(
        reader.many(reader.word),
        reader.many(reader.text),
        reader.many(lambda: ConstantSlot(reader.text(), reader.word())),
        reader.many(reader.function),
    )


# ---- printing ----


def _operand_text(kind: str, value: Operand, code: Code, target: dict[int, int], at: int) -> str:
    if kind in "RU":
        return f"[{', '.join(f'%{v}' if kind == 'R' else str(v) for v in value)}]"
    if kind in "dr":
        return f"%{value}"
    if kind == "f":
        return code.functions[value].name
    if kind == "p":
        return code.kernels[value]
    if kind == "t":
        return dtype_of_word(value)
    return f"->{target[at + value]}" if kind == "j" else str(value)


def function_text(function: Function, code: Code) -> str:
    """Format the instructions of a function, one numbered instruction per line; jumps show the target number."""
    starts, at = [], 0
    for one in function.code:
        starts.append(at)
        at += one.length
    numbers = {start: i for i, start in enumerate(starts)}
    lines = [
        f"VM Function[{code.functions.index(function)}]: {function.name}({', '.join(p.name for p in function.params)})",
        f"# reg file size = {function.registers}",
        f"# instruction count = {len(function.code)}",
    ]
    for number, (start, one) in enumerate(zip(starts, function.code)):
        parts = [
            f"{name}={_operand_text(kind, value, code, numbers, start)}"
            for kind, name, value in zip(one.form.operands, one.form.names, one.operands)
        ]
        lines.append(f"{number:3}: {one.form.name} {', '.join(parts)}".rstrip())
    return "\n".join(lines) + "\n"


__all__ = [
    "Code",
    "ConstantSlot",
    "FORMS",
    "Form",
    "Function",
    "Instruction",
    "OPCODES",
    "Param",
    "dtype_of_word",
    "dtype_word",
    "from_words",
    "function_text",
    "header_size",
    "instruction",
    "instruction_words",
    "seal",
    "to_words",
]

"""Inline PTX as C++: every ``asm`` statement of a CUDA text becomes calls of the emulator, instruction by instruction.

The operands are those the statement names by number, so a wrong number in a text gives wrong results here too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ASM = re.compile(r"\basm(?:\s+volatile)?\s*\(")
_LABEL = re.compile(r"^([A-Za-z_$][\w$]*):")
# Types of registers that a statement declares for itself.
_REGISTERS = {"pred": "bool", "b16": "unsigned short", "f16": "unsigned short", "b32": "unsigned", "u32": "unsigned",
              "s32": "int", "f32": "float", "b64": "emu_word", "u64": "emu_word", "f64": "double"}  # fmt: skip
_COMPARED = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "neu": "!="}
_SIGNS = {"add": "+", "sub": "-", "mul": "*"}


class Unknown(Exception):
    """An instruction the emulator does not have."""


class Instruction(NamedTuple):
    words: tuple[str, ...]  # the parts of its name
    operands: tuple[str, ...]  # C++ expressions; those in braces are separated by newlines

    def list(self, index: int) -> list[str]:
        return self.operands[index].split("\n")

    def has(self, word: str) -> bool:
        return word in self.words


def split(text: str, separator: str) -> list[str]:
    """``text`` cut at ``separator`` outside of brackets and strings."""
    parts, depth, start, quoted = [], 0, 0, False
    for i, c in enumerate(text):
        if c == '"' and text[i - 1 : i] != "\\":
            quoted = not quoted
        elif quoted:
            continue
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == separator and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [*parts, text[start:]]


def end_of(text: str, start: int) -> int:
    """The place of the bracket that closes the one before ``start``."""
    depth, quoted = 1, False
    for i in range(start, len(text)):
        c = text[i]
        if c == '"' and text[i - 1] != "\\":
            quoted = not quoted
        elif not quoted and c in "()":
            depth += 1 if c == "(" else -1
            if depth == 0:
                return i
    raise Unknown("an asm statement without an end")


# Floating-point numbers


def _value(kind: str, text: str) -> str:
    """The number in a register."""
    return {"f16": f"emu_float_of_half({text})", "bf16": f"emu_float_of_bfloat({text})"}.get(kind, f"({text})")


def _rounded(kind: str, text: str) -> str:
    """A register's bits of a number."""
    table = {"f16": f"emu_half_of({text})", "bf16": f"emu_bfloat_of({text})", "tf32": f"emu_tf32_of({text})"}
    return table.get(kind, f"({text})")


def _convert(i: Instruction) -> str:
    to, source = i.words[-2], i.words[-1]
    whole = {"s32": "int", "u32": "unsigned", "s64": "long long", "u64": "unsigned long long"}
    text = f"(double)({whole[source]})({i.operands[1]})" if source in whole else _value(source, i.operands[1])
    if to == "tf32":
        return f"emu_set({i.operands[0]}, emu_bits(emu_tf32_of({text})));"
    if to == "f16x2" or to == "bf16x2":
        kind = to.removesuffix("x2")
        high, low = (_rounded(kind, x) for x in i.operands[1:3])
        return f"{i.operands[0]} = (unsigned){high} << 16 | {low};"
    return f"{i.operands[0]} = {_rounded(to, text)};"


def _arithmetic(i: Instruction) -> str:
    kind = i.words[-1]
    if kind.endswith("x2"):
        halves = [_operation(i, kind[:-2], [f"(unsigned short)(({x}) >> {shift})" for x in i.operands[1:]])
                  for shift in (16, 0)]  # fmt: skip
        return f"{i.operands[0]} = (unsigned){halves[0]} << 16 | {halves[1]};"
    return f"{i.operands[0]} = {_operation(i, kind, list(i.operands[1:]))};"


def _operation(i: Instruction, kind: str, operands: list[str]) -> str:
    values = [_value(kind, x) for x in operands]
    name = i.words[0]
    if name == "fma":
        text = f"fma((double){values[0]}, (double){values[1]}, (double){values[2]})"
    elif name in ("min", "max"):
        text = f"f{name}f({values[0]}, {values[1]})"
        if i.has("NaN"):
            text = f'(isnan({values[0]}) || isnan({values[1]}) ? __builtin_nanf("") : {text})'
    elif name == "neg":
        text = f"-{values[0]}"
    elif name == "abs":
        text = f"fabsf({values[0]})"
    else:
        text = f"{values[0]} {_SIGNS[name]} {values[1]}"
    return _rounded(kind, f"({text})")


def _function(name: str) -> Callable[[Instruction], str]:
    return lambda i: f"{i.operands[0]} = {_rounded(i.words[-1], f'{name}({_value(i.words[-1], i.operands[1])})')};"


def _compare(i: Instruction) -> str:
    left, right = (_value(i.words[-1], x) for x in i.operands[1:3])
    return f"{i.operands[0]} = {left} {_COMPARED[i.words[1]]} {right};"


def _select(i: Instruction) -> str:
    result, first, second, condition = i.operands
    return f"{result} = {condition} ? {first} : {second};"


def _move(i: Instruction) -> str:
    whole = i.list(1)
    if len(whole) == 2:
        low, high = (f"(unsigned)(unsigned short)({x})" for x in whole)
        return f"{i.operands[0]} = {low} | {high} << 16;"
    parts = i.list(0)
    if len(parts) == 2:
        return f"{parts[0]} = (unsigned short)({whole[0]}); {parts[1]} = (unsigned short)(({whole[0]}) >> 16);"
    return f"{i.operands[0]} = {whole[0]};"


# Copies and barriers


def _copy(i: Instruction) -> str:
    if i.words[2] == "bulk":
        place, source, size, barrier = i.operands[:4]
        return f"emu_copy_bulk({place}, (const void*)({source}), {size}, {barrier});"
    if i.words[2] == "commit_group":
        return "emu_copy_commit();"
    if i.words[2] in ("wait_group", "wait_all"):
        return f"emu_copy_wait({i.operands[0] if i.operands[0] else 0});"
    if i.words[2] == "mbarrier":
        return f"emu_mbarrier_copies({i.operands[0]}, {int(i.has('noinc'))});"
    place, source, size = i.operands[:3]
    count = i.operands[3] if len(i.operands) > 3 else size
    return f"emu_copy_async({place}, (const void*)({source}), {size}, {count});"


def _barrier(i: Instruction) -> str:
    what = i.words[1]
    if what == "init":
        return f"emu_mbarrier_init({i.operands[0]}, {i.operands[1]});"
    if what == "arrive":
        bytes_ = i.operands[2] if i.has("expect_tx") else "0"
        return f"emu_mbarrier_arrive({i.operands[1]}, {bytes_});"
    if what == "try_wait" and i.has("parity"):
        return f"{i.operands[0]} = emu_mbarrier_wait({i.operands[1]}, {i.operands[2]});"
    raise Unknown(".".join(i.words))


# Matrices


def _shape(i: Instruction) -> str:
    found = next(re.fullmatch(r"m(\d+)n(\d+)k(\d+)", w) for w in i.words if re.match(r"m\d+n\d+k\d+$", w))
    return ", ".join(found.groups())


def _registers(name: str, values: list[str] | int) -> str:
    if isinstance(values, int):
        return f"emu_word {name}[{values}] = {{}};"
    return f"emu_word {name}[] = {{{', '.join(f'emu_bits({v})' for v in values)}}};"


def _results(name: str, places: list[str]) -> str:
    return " ".join(f"emu_set({place}, {name}[{n}]);" for n, place in enumerate(places))


def _ldmatrix(i: Instruction) -> str:
    places = i.list(0)
    count = int(next(w for w in i.words if re.fullmatch(r"x[124]", w))[1:])
    if count != len(places) or "m8n8" not in i.words or i.words[-1] != "b16":
        raise Unknown(".".join(i.words))
    call = f"emu_load_matrices(emu_y, {count}, {int(i.has('trans'))}, {i.operands[1]}, __LINE__);"
    return f"{{ {_registers('emu_y', count)} {call} {_results('emu_y', places)} }}"


def _mma(i: Instruction) -> str:
    if i.words[1] == "sp":
        raise Unknown("mma.sp")
    kinds = [w for w in i.words[-6:] if re.fullmatch(r"(f|bf|tf|s|u|b)\d+", w)]
    if i.words[4:6] != ("row", "col"):
        raise Unknown(".".join(i.words) + ": fragments are row by col")
    d, a, b, c = (i.list(n) for n in range(4))
    parts = [_registers("emu_d", len(d)), *(_registers(f"emu_{n}", x) for n, x in zip("abc", (a, b, c)))]
    facts = f'{_shape(i)}, "{".".join(kinds)}", {int(i.has("satfinite"))}'
    call = f"emu_product({facts}, emu_d, emu_a, emu_b, emu_c, __LINE__);"
    return f"{{ {' '.join(parts)} {call} {_results('emu_d', d)} }}"


def _fragments(i: Instruction) -> str:
    column = [int(w == "col") for w in i.words if w in ("row", "col")]
    if i.words[1] == "load":
        places = i.list(0)
        stride = i.operands[2] if len(i.operands) > 2 else "0"
        call = (f"emu_fragment_load({'abc'.index(i.words[2])}, {column[0]}, {_shape(i)}, \"{i.words[-1]}\", emu_y, "
                f"{len(places)}, (const void*)({i.operands[1]}), {stride}, __LINE__);")  # fmt: skip
        return f"{{ {_registers('emu_y', len(places))} {call} {_results('emu_y', places)} }}"
    if i.words[1] == "store":
        values = i.list(1)
        call = (f"emu_fragment_store({column[0]}, {_shape(i)}, \"{i.words[-1]}\", emu_x, {len(values)}, "
                f"(void*)({i.operands[0]}), {i.operands[2]}, __LINE__);")  # fmt: skip
        return f"{{ {_registers('emu_x', values)} {call} }}"
    kinds = [w for w in i.words if re.fullmatch(r"(f|bf|tf|s|u)\d+", w)]
    # Products of f16 name the types of their sums only.
    kinds = [kinds[0], "f16", "f16", kinds[1]] if len(kinds) == 2 else kinds
    d, a, b, c = (i.list(n) for n in range(4))
    parts = [_registers("emu_d", len(d)), *(_registers(f"emu_{n}", x) for n, x in zip("abc", (a, b, c)))]
    sized = ", ".join(f"emu_{n}, {len(x)}" for n, x in zip("dabc", (d, a, b, c)))
    call = f'emu_fragment_product({column[0]}, {column[1]}, {_shape(i)}, "{".".join(kinds)}", {sized}, __LINE__);'
    return f"{{ {' '.join(parts)} {call} {_results('emu_d', d)} }}"


def _warpgroup(i: Instruction) -> str:
    what = i.words[1]
    if what == "fence":
        return "emu_group_fence(__LINE__);"
    if what == "commit_group":
        return "emu_group_commit(__LINE__);"
    if what == "wait_group":
        return f"emu_group_wait({i.operands[0]}, __LINE__);"
    kinds = i.words[-3:]
    if what != "mma_async" or i.has("sp") or kinds[0] != "f32" or kinds[1] != kinds[2] or "\n" in i.operands[1]:
        raise Unknown(".".join(i.words))
    sums, (a, b, keep, *scales) = i.list(0), i.operands[1:]
    if scales[:2] != ["1", "1"]:
        raise Unknown(f"wgmma with the factors {scales[:2]}")
    turned = scales[2:] or ["0", "0"]
    places = ", ".join(f"&({x})" for x in sums)
    call = (f'emu_group_product({_shape(i)}, "{kinds[1]}", emu_d, {len(sums)}, {a}, {b}, {keep}, {turned[0]}, '
            f"{turned[1]}, __LINE__);")  # fmt: skip
    return f"{{ float* emu_d[] = {{{places}}}; {call} }}"


def _fence(i: Instruction) -> str:
    return "emu_proxy_fence();" if i.words[1:3] == ("proxy", "async") else ""


INSTRUCTIONS: dict[str, Callable[[Instruction], str]] = {
    "cvt": _convert,
    **dict.fromkeys(("add", "sub", "mul", "fma", "min", "max", "neg", "abs"), _arithmetic),
    "ex2": _function("exp2f"),
    "lg2": _function("log2f"),
    "tanh": _function("tanhf"),
    "rcp": _function("1.0f / "),
    "rsqrt": _function("rsqrtf"),
    "sqrt": _function("sqrtf"),
    "setp": _compare,
    "selp": _select,
    "mov": _move,
    "cp": _copy,
    "mbarrier": _barrier,
    "ldmatrix": _ldmatrix,
    "mma": _mma,
    "wmma": _fragments,
    "wgmma": _warpgroup,
    "fence": _fence,
    "membar": lambda i: "",
    # Kernels of the emulator run one after the other.
    "griddepcontrol": lambda i: "",
    "bra": lambda i: f"goto {i.operands[0]};",
}


# Statements


class Statement:
    """One asm statement: its instructions, and the expressions of its operands."""

    def __init__(self, text: str, number: int):
        parts = split(text, ":")
        self.template = "".join(_STRING.findall(parts[0])).replace("\\n", " ").replace("\\t", " ")
        self.template = self.template.replace("%=", str(number))
        self.values: list[str] = []
        for part in parts[1:3]:
            for operand in split(part, ","):
                if operand.strip():
                    head = _STRING.match(operand.strip())
                    if head is None:
                        raise Unknown(f"operand {operand.strip()}")
                    self.values.append(operand.strip()[head.end() :].strip())

    def operand(self, text: str) -> str:
        text = text.strip()
        if text.startswith("{"):
            return "\n".join(self.operand(x) for x in split(text[1:-1], ","))
        if text.startswith("["):
            text = text[1:-1]
        return re.sub(r"%(\d+)", lambda m: f"({self.values[int(m.group(1))]})", text)

    def lines(self) -> str:
        out = []
        for part in self.template.split(";"):
            text = part.strip()
            while text[:1] in ("{", "}"):
                text = text[1:].strip()
            label = _LABEL.match(text)
            if label:
                out.append(f"{label.group(1)}:;")
                text = text[label.end() :].strip()
                text = text.lstrip("}").strip()
            if text:
                out.append(self.instruction(text))
        return "{ " + " ".join(out) + " }"

    def instruction(self, text: str) -> str:
        guard = ""
        if text.startswith("@"):
            condition, _, text = text[1:].partition(" ")
            guard = f"if ({condition}) "
            text = text.strip()
        name, _, rest = text.partition(" ")
        words = tuple(name.replace("::", ".").split("."))
        if words[:2] == ("", "reg"):
            kind, _, names = rest.strip().partition(" ")
            return f"{_REGISTERS[kind.strip('.')]} {names};"
        function = INSTRUCTIONS.get(words[0])
        if function is None:
            raise Unknown(name)
        operands = tuple(self.operand(x) for x in split(rest, ","))
        return guard + function(Instruction(words, operands))


def translate(text: str) -> str:
    """``text`` without asm statements, on the same lines."""
    out, at, number = [], 0, 0
    for found in iter(lambda: _ASM.search(text, at), None):
        end = end_of(text, found.end())
        number += 1
        code = text[found.end() : end]
        out.append(text[at : found.start()] + Statement(code, number).lines() + "\n" * code.count("\n"))
        # The semicolon after the statement stays: an empty statement.
        at = end + 1
    return "".join(out) + text[at:]

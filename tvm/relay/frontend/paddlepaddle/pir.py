"""Read programs of PaddlePaddle 3 (``inference.json``), whose values are numbered and whose operands are positional.

They are converted to the records of the older format, with the operator names of ``pir_names.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ....error import TVMError
from .pir_names import names_of
from .program import Block, Operator, Program, Variable
from .schema import LOD_TENSOR, NUMBERS, Named

MAGIC = "pir"
# The supported format versions. Version 0 was written by a pre-release.
_VERSIONS = range(8)
_TYPES = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16", "i8": "int8", "ui8": "uint8",
          "i16": "int16", "i32": "int32", "i64": "int64", "bool": "bool"}  # fmt: skip
# The value number of a missing operand.
_NOTHING = 0
_MARKS = ("stop_gradient", "persistable", "struct_name", "op_callstack", "place")


def _element(number: str) -> int:
    """Return the number of an element type in the older format, or -1 for an unspecified one."""
    return NUMBERS.get(number, -1)


def _attribute(found: dict) -> Any:
    """Convert an attribute to a Python value."""
    kind, data = found["#"].partition(".")[2], found["D"] if "D" in found else found.get("VD")
    if kind == "a_array":
        return [_attribute(part) for part in data]
    if kind == "a_dtype":
        return _element(data)
    if kind == "a_scalar":
        return data[-1] if isinstance(data, list) else data
    if kind == "a_intarray":
        return [int(v) for v in data]
    if kind in ("a_f32", "a_f64") and isinstance(data, str):
        return float(data)
    return data


def _tensor(found: dict) -> tuple[str, tuple[int, ...]]:
    """Return the element type and the shape of a tensor type."""
    element, dims = found["D"][:2]
    return _TYPES.get(element["#"].partition(".")[2].removeprefix("t_"), "float32"), tuple(int(d) for d in dims)


class _Reader:
    """Converts the operators of a program to operators of the older format."""

    def __init__(self, operators: list[dict]):
        self.names: dict[int, str | list[str]] = {}
        self.constants: dict[int, Any] = {}
        self.variables: dict[str, Variable] = {}
        self.operators: list[Operator] = []
        self.blocks: list[Block] = []
        self.feeds: list[str] = []
        self.fetches: list[tuple[int, str]] = []
        for place, found in enumerate(operators):
            self.convert(found, f"operator {place}")

    def convert(self, found: dict, place: str) -> None:
        kind = found["#"]
        if kind == "p":
            self.name(found["O"], found["A"][3], persistable=True)
            return
        dialect, _, kind = kind.partition(".")
        attrs = {a["N"]: _attribute(a["AT"]) for a in found["A"] if a["N"] not in _MARKS}
        own = getattr(self, f"_{kind}", None) if dialect == "0" or kind in _PLAIN else None
        if own is not None:
            own(found, attrs)
        elif found.get("regions"):
            raise TVMError(f"{place}: {kind} with nested blocks is not supported")
        else:
            self.operator(kind, found, attrs, place)

    # -- values ---------------------------------------------------------------------------------------------------

    def name(self, result: dict, name: str, persistable: bool = False) -> str | list[str]:
        """Assign names to an operator's output: one name, or a list for a vector of tensors."""
        kind = result["TT"]
        if kind["#"].endswith("t_vec"):
            names = [f"{name}.{k}" for k in range(len(kind["D"]))]
            for own, part in zip(names, kind["D"]):
                self.declare(own, part, persistable)
            self.names[result["%"]] = names
            return names
        self.declare(name, kind, persistable)
        self.names[result["%"]] = name
        return name

    def declare(self, name: str, kind: dict, persistable: bool) -> None:
        if kind["#"].endswith(("t_dtensor", "t_tensor")):
            dtype, dims = _tensor(kind)
            self.variables[name] = Variable(name, persistable, LOD_TENSOR, NUMBERS[dtype], dims)

    def value(self, operand: dict) -> str | list[str]:
        number = operand["%"]
        if number not in self.names:
            raise TVMError(f"the value {number} is used before its definition")
        return self.names[number]

    def number(self, operand: dict) -> Any:
        """Return the value of an operand that was an attribute: a constant, or the variable that provides it."""
        if operand["%"] in self.constants:
            return self.constants[operand["%"]]
        found = self.value(operand)
        return [Named(n) for n in found] if isinstance(found, list) else Named(found)

    # -- operators ------------------------------------------------------------------------------------------------

    def operator(self, kind: str, found: dict, attrs: dict[str, Any], place: str) -> None:
        row = names_of(kind)
        attrs = {**{row.renamed.get(k, k): v for k, v in attrs.items()}, **row.implied}
        inputs: dict[str, list[str]] = {}
        for target, operand in _paired(row.operands, found["I"], kind, place):
            if operand["%"] == _NOTHING or target == "_":
                continue
            attribute, _, otherwise = target.removeprefix(".").partition("|")
            if target.startswith(".") and (not otherwise or operand["%"] in self.constants):
                attrs[attribute] = self.number(operand)
            else:
                value = self.value(operand)
                inputs[otherwise or target] = value if isinstance(value, list) else [value]
        results = {}
        for target, result in _paired(row.results, found["O"], kind, place):
            name = self.name(result, f"{kind}_{result['%']}")
            if target != "_":
                results[target] = name if isinstance(name, list) else [name]
        self.operators.append(Operator(row.kind, inputs, results, place, attrs))

    # -- branches and loops -------------------------------------------------------------------------------------------

    def add(self, kind: str, inputs: dict[str, list[str]], outputs: dict[str, list[str]], **attrs: Any) -> None:
        self.operators.append(Operator(kind, inputs, outputs, kind, attrs))

    def assign(self, sources: list[str], targets: list[str]) -> None:
        for source, target in zip(sources, targets, strict=True):
            self.add("assign", {"X": [source]}, {"Out": [target]})

    def inner(self, region: dict, targets: list[str], arguments: list[str]) -> int:
        """Convert a region to a new block, which assigns the yielded values to ``targets``.

        Return the number of the block.
        """
        (block,) = region["blocks"]
        outer, self.operators = self.operators, []
        known = dict(self.names)
        self.names.update((part["#"], name) for part, name in zip(block["args"], arguments, strict=True))
        *body, last = block["ops"]
        for place, found in enumerate(body):
            self.convert(found, f"operator {place} of {block['#']}")
        yielded = [str(self.value(operand)) for operand in last["I"]]
        # A yielded value may itself be a target, so assign through temporaries.
        kept = [f"{target}.next" for target in targets]
        self.assign(yielded, kept)
        self.assign(kept, targets)
        self.blocks.append(Block(len(self.blocks) + 1, {}, self.operators))
        self.operators, self.names = outer, known
        return len(self.blocks)

    def _if(self, found, attrs) -> None:
        condition, results = str(self.value(found["I"][0])), found["O"]
        names = [f"if_{result['%']}" for result in results]
        other = f"{condition}.not_{len(self.blocks)}"
        self.add("logical_not", {"X": [condition]}, {"Out": [other]})
        chosen = []
        for region, test in zip(found["regions"], (condition, other), strict=True):
            chosen.append([f"{name}.{len(chosen)}" for name in names])
            block = self.inner(region, chosen[-1], [])
            self.add(
                "conditional_block", {"Cond": [test]}, {"Out": chosen[-1]}, sub_block=block, is_scalar_condition=True
            )
        mask = f"{condition}.mask_{len(self.blocks)}"
        self.add("cast", {"X": [condition]}, {"Out": [mask]}, out_dtype=NUMBERS["int32"])
        for result, name, then, otherwise in zip(results, names, *chosen):
            self.add("select_input", {"Mask": [mask], "X": [otherwise, then]}, {"Out": [name]})
            self.name(result, name)

    def _while(self, found, attrs) -> None:
        condition, *given = [str(self.value(operand)) for operand in found["I"]]
        names = [f"while_{len(self.blocks)}_{k}" for k in range(len(given) + 1)]
        self.assign([condition, *given], names)
        block = self.inner(found["regions"][0], names, names[1:])
        self.add("while", {"Condition": names[:1], "X": names}, {"Out": names[1:]}, sub_block=block)
        for result, name in zip(found["O"], names[1:], strict=True):
            self.name(result, name)

    # -- structural operators ------------------------------------------------------------------------------------------

    def _data(self, found, attrs) -> None:
        self.feeds.append(str(attrs["name"]))
        self.name(found["O"][0], self.feeds[-1])

    _feed = _data

    def _fetch(self, found, attrs) -> None:
        name = self.value(found["I"][0])
        if not isinstance(name, str):
            raise TVMError("an output is a list of tensors; stack it into one tensor")
        self.fetches.append((int(attrs.get("col", len(self.fetches))), name))

    _shadow_output = _fetch

    def _full(self, found, attrs) -> None:
        """Convert a fill operator. A scalar is also recorded as a constant, because it may replace an attribute."""
        result, shape, value = found["O"][0], attrs["shape"], attrs["value"]
        whole = _tensor(result["TT"])[0] not in ("float32", "float64", "float16", "bfloat16")
        name = self.name(result, f"full_{result['%']}")
        if shape in ([], [1]):
            self.constants[result["%"]] = int(value) if whole else value
        self.operators.append(Operator("fill_constant", {}, {"Out": [str(name)]}, str(name), {
            "shape": shape, "value": float(value), "dtype": attrs["dtype"]}))  # fmt: skip

    def _full_int_array(self, found, attrs) -> None:
        result, values = found["O"][0], attrs["value"]
        name = self.name(result, f"full_int_array_{result['%']}")
        self.constants[result["%"]] = values
        self.operators.append(Operator("assign_value", {}, {"Out": [str(name)]}, str(name), {
            "shape": [len(values)], "values": values, "dtype": attrs["dtype"]}))  # fmt: skip

    def _combine(self, found, attrs) -> None:
        given = [operand["%"] for operand in found["I"]]
        self.names[found["O"][0]["%"]] = [str(self.value(operand)) for operand in found["I"]]
        if all(number in self.constants for number in given):
            values = [self.constants[number] for number in given]
            self.constants[found["O"][0]["%"]] = [v[0] if isinstance(v, list) and len(v) == 1 else v for v in values]

    def _split(self, found, attrs) -> None:
        for result, name in zip(found["O"], self.value(found["I"][0]), strict=True):
            self.names[result["%"]] = name

    def _slice(self, found, attrs) -> None:
        self.names[found["O"][0]["%"]] = self.value(found["I"][0])[int(attrs["index"])]

    def _set_parameter(self, found, attrs) -> None:
        """Ignore an operator that only training needs."""


# Structural operators of the main dialect, which compute nothing.
_PLAIN = ("data", "feed", "fetch", "full", "full_int_array", "if", "shadow_output", "while")


def _paired(names: list[str], found: list[dict], kind: str, place: str) -> Iterator[tuple[str, dict]]:
    """Pair operands or outputs with their older names.

    Additional outputs, which older programs do not have, are dropped.
    """
    if len(found) > len(names) and any("TT" not in part for part in found):
        raise TVMError(f"{place} ({kind}) has {len(found)} operands, but only {len(names)} are supported")
    yield from zip(names, found)


def read_program(data: bytes, what: str) -> tuple[Program, list[str], list[str]]:
    """Read a program. Return it with the names of its inputs and outputs."""
    try:
        found = json.loads(data)
        head = found["base_code"]
        if head["magic"] != MAGIC or head["version"] not in _VERSIONS:
            raise TVMError(f"{what}: version {head['version']} of {head['magic']!r} is not supported")
        (region,) = found["program"]["regions"]
        (block,) = region["blocks"]
        reader = _Reader(block["ops"])
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as problem:
        raise TVMError(f"{what} is corrupt, or it is not a PaddlePaddle 3 program ({type(problem).__name__}: "
                       f"{problem})") from problem  # fmt: skip
    if not reader.operators:
        raise TVMError(f"{what}: the program has no operators")
    program = Program([Block(0, reader.variables, reader.operators), *reader.blocks])
    return program, reader.feeds, [name for _, name in sorted(reader.fetches, key=lambda row: row[0])]


__all__ = ["read_program"]

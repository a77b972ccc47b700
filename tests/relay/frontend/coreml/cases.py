"""Cases of operations and layers: small models that are compiled in groups, each result against NumPy."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from coreml_writer import NetworkWriter, ProgramWriter, run


class Case(NamedTuple):
    """An operation or a layer on some data, and what it gives. ``settings`` are constants."""

    name: str
    feeds: dict[str, Any]
    wanted: list[Any]
    settings: dict[str, Any]
    tolerance: float


GROUPS: dict[str, list[Case]] = {}


class Group:
    """Cases that are compiled together. ``kind`` is ``program``, ``layers``, or ``old`` for the networks whose inputs
    have five dimensions."""

    def __init__(self, name: str, kind: str):
        self.kind = kind
        self.rows: list[Case] = []
        GROUPS[f"{kind} {name}"] = self.rows

    def add(self, name: str, wanted: Any, *inputs: np.ndarray, tolerance: float = 1e-5, **arguments: Any) -> None:
        """Arrays are inputs of the model; other arguments are constants. An array that shall be a constant is wrapped
        as ``Fixed``."""
        feeds = dict(enumerate(inputs)) if self.kind != "program" else {}
        settings = {}
        for key, value in arguments.items():
            is_data = (
                isinstance(value, np.ndarray) or isinstance(value, list) and value and isinstance(value[0], np.ndarray)
            )
            if self.kind == "program" and is_data:
                feeds[key] = value
            else:
                settings[key] = value.array if isinstance(value, Fixed) else value
        self.rows.append(
            Case(name, feeds, list(wanted) if isinstance(wanted, (list, tuple)) else [wanted], settings, tolerance)
        )


class Fixed:
    """An array that is a constant of the program."""

    def __init__(self, array: Any):
        self.array = np.asarray(array)


def _program(rows: list[Case]) -> tuple[Any, dict]:
    writer, feeds = ProgramWriter(), {}
    for number, case in enumerate(rows):
        arguments: dict[str, Any] = {}
        for key, value in case.feeds.items():
            refs = []
            for i, array in enumerate(value if isinstance(value, list) else [value]):
                name = f"in_{number}_{key}_{i}"
                feeds[name] = array
                refs.append(writer.input(name, array.shape, str(array.dtype)))
            arguments[key] = refs if isinstance(value, list) else refs[0]
        made = writer.op(case.name.split("/")[0], len(case.wanted), **arguments, **case.settings)
        for name in made if isinstance(made, list) else [made]:
            writer.output(name)
    return writer.bytes(), feeds


def _network(rows: list[Case], exact: bool) -> tuple[Any, dict]:
    writer, feeds = NetworkWriter(exact), {}
    for number, case in enumerate(rows):
        names = []
        for i, array in case.feeds.items():
            name = f"in_{number}_{i}"
            feeds[name] = array.astype("float32")
            names.append(writer.input(name, array.shape))
        made = writer.layer(case.name.split("/")[0], names, len(case.wanted), **case.settings)
        for name, wanted in zip(made if isinstance(made, list) else [made], case.wanted):
            shape = np.shape(wanted)
            # Older networks describe channels alone, or channels, height and width.
            writer.output(name, shape if exact else shape[-1:] if len(shape) < 4 else shape[-3:])
    return writer.bytes(), feeds


def run_together(group: str, rows: list[Case]) -> list:
    """What cases of a group give as one compiled model, an array for each result of each case."""
    model, feeds = _program(rows) if group.startswith("program") else _network(rows, group.startswith("layers"))
    return run(model, feeds)


@cache
def results(group: str) -> list:
    """What all cases of a group give."""
    return run_together(group, GROUPS[group])


def check(group: str, number: int) -> None:
    """One case of a group."""
    rows = GROUPS[group]
    first = sum(len(c.wanted) for c in rows[:number])
    compare(group, rows[number], results(group)[first:])


def check_each_operator(group: str, rng: np.random.Generator) -> None:
    """A case of each operator of a group, drawn at random."""
    by_operator: dict[str, list[Case]] = {}
    for case in GROUPS[group]:
        by_operator.setdefault(case.name.split("/")[0], []).append(case)
    chosen = [rows[int(rng.integers(len(rows)))] for rows in by_operator.values()]
    found = run_together(group, chosen)
    for case in chosen:
        compare(group, case, found)
        del found[: len(case.wanted)]


def compare(group: str, case: Case, found: list) -> None:
    """The first of these arrays are the results of the case."""
    for got, wanted in zip(found, case.wanted):
        wanted = np.asarray(wanted)
        if group.startswith("layers"):
            wanted = wanted.reshape(wanted.shape or (1,))
        assert got.shape == wanted.shape, f"{case.name}: the shape is {got.shape}, {wanted.shape} is wanted"
        if wanted.dtype.kind in "biu" and got.dtype.kind in "biu":
            np.testing.assert_array_equal(got, wanted, case.name)
        else:
            np.testing.assert_allclose(
                got.astype("float64"), wanted.astype("float64"), case.tolerance, case.tolerance, err_msg=case.name
            )

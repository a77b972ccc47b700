"""Features against programs: extents of loops, arithmetic and touched bytes are those of what is lowered."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

import tvm
from tests.auto_scheduler.test_evolution import breeder_of
from tvm.auto_scheduler import HardwareParams
from tvm.auto_scheduler.state_features import NAMES, FeatureExtractor
from tvm.ir import prim
from tvm.ir.visit import post_order
from tvm.tir.stmt import BufferStore, For, SeqStmt

STATES = 3


def stores(function: Any) -> list[tuple[BufferStore, dict[Any, int]]]:
    """The stores of a program, each with the loops around it."""
    found, todo = [], [(function.body, {})]
    while todo:
        node, loops = todo.pop()
        if isinstance(node, For):
            loops = {**loops, node.loop_var: int(node.extent)}
        if isinstance(node, BufferStore):
            found.append((node, loops))
        elif not isinstance(node, prim.PrimExpr):
            parts = node.seq if isinstance(node, SeqStmt) else list(node.children())
            todo += [(part, loops) for part in parts]
    return found


def value_of(index: Any, grid: dict[Any, np.ndarray]) -> np.ndarray:
    """An index for all iterations at once."""
    known: dict[int, Any] = {}
    operators = {
        prim.Add: np.add,
        prim.Sub: np.subtract,
        prim.Mul: np.multiply,
        prim.FloorDiv: np.floor_divide,
        prim.FloorMod: np.mod,
        prim.Min: np.minimum,
        prim.Max: np.maximum,
    }
    for node in post_order(index):
        if isinstance(node, prim.Var):
            known[id(node)] = grid[node]
        elif isinstance(node, prim.IntImm):
            known[id(node)] = np.int64(node.value)
        else:
            known[id(node)] = operators[type(node)](known[id(node.a)], known[id(node.b)])
    return known[id(index)]


def counted(node: BufferStore, loops: dict[Any, int]) -> dict[str, float]:
    """Arithmetic on floats, and bytes of distinct elements, of all iterations of a store."""
    nodes, runs = list(post_order(node.value)), math.prod(loops.values())
    floats = [n for n in nodes if isinstance(n, prim.PrimExpr) and "float" in n.dtype]
    axes = dict(zip(loops, np.meshgrid(*(np.arange(extent) for extent in loops.values()), indexing="ij")))
    touched: dict[Any, set] = {}
    for access in (node, *(n for n in nodes if isinstance(n, prim.BufferLoad))):
        places = np.stack([np.broadcast_to(value_of(i, axes), list(loops.values())).ravel() for i in access.indices])
        touched.setdefault(access.buffer, set()).update(map(tuple, places.T))
    return {
        "multiply operations": runs * sum(isinstance(n, prim.Mul) for n in floats),
        "add operations": runs * sum(isinstance(n, (prim.Add, prim.Sub)) for n in floats),
        "iterations": runs,
        "unique bytes": 4 * sum(len(places) for places in touched.values()),
    }


@pytest.mark.parametrize("name", ["matmul", "two products", "shared operand", "long reduction"])
def test_features_are_those_of_lowered_programs(name, seed):
    breeder = breeder_of(name, random.Random(seed))
    extractor = FeatureExtractor(breeder.dag, HardwareParams(num_cores=4, target="llvm"))
    for _ in range(STATES):
        state = breeder.random().state
        rows = np.exp2(extractor.rows(state).astype("float64")) - 1
        schedule, args = breeder.dag.apply_steps_from_state(state)
        with tvm.transform.PassContext(config={"tir.disable_vectorize": True}):
            function = tvm.lower(schedule, args, simple_mode=True)["main"]
        # What starts a reduction is no term of it.
        found = [
            counted(*one) for one in stores(function) if not isinstance(one[0].value, (prim.FloatImm, prim.IntImm))
        ]
        for kind in ("multiply operations", "add operations", "iterations"):
            got, wanted = rows[:, NAMES.index(kind)].sum(), sum(one[kind] for one in found)
            np.testing.assert_allclose(got, wanted, rtol=1e-4, err_msg=f"{kind} of\n{state}")
        if all(stage.attach is None for stage in state.stages):
            bytes_touched = sorted(one["unique bytes"] for one in found)
            np.testing.assert_allclose(
                sorted(rows[:, NAMES.index("unique bytes")]), bytes_touched, rtol=1e-4, err_msg=str(state)
            )

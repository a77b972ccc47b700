"""The estimates of the templates beside what was measured on a GPU."""

from __future__ import annotations

import itertools
import json
import pathlib

import pytest

import tvm
from tvm.topi.gpu import gemm, tensor_cores, winograd
from tvm.topi.gpu.gemm import Sizes
from tvm.topi.gpu.machine import Machine

MEASURED = pathlib.Path(__file__).parents[3] / "benchmarks/results/gpu-matmul-configurations-h200-2026-11-15.json"
PRODUCTS = [row["details"] for row in json.loads(MEASURED.read_text())["rows"]]
# The template, bytes of a number, and numbers of one copy of a left operand along the sum and a right one across it.
KINDS = {"float32": (gemm, 4, (1, 4)), "float16": (tensor_cores, 2, (1, 1))}


def sizes_of(product) -> Sizes:
    _, size, copies = KINDS[product["kind"]]
    rows, columns, terms = product["size"]
    return Sizes(1, rows, columns, terms, size, copies)


def name_of(product) -> str:
    return "-".join([product["kind"], product["target"].split("=")[-1], "x".join(map(str, product["size"]))])


def is_large(product) -> bool:
    return min(product["size"]) >= 1024


@pytest.mark.parametrize("product", PRODUCTS, ids=name_of)
def test_what_is_picked_takes_little_longer_than_the_best_that_was_measured(product):
    template, sizes = KINDS[product["kind"]][0].TEMPLATE, sizes_of(product)
    machine = Machine(tvm.target.Target(product["target"]))
    taken = {}
    for row in product["rows"]:
        taken[tuple(tuple(x) if isinstance(x, list) else x for x in row[:-1])] = row[-1]
    table = template.space(sizes, machine)
    assert list(table) == product["knobs"]
    known = [dict(zip(table, values)) for values in itertools.product(*table.values()) if values in taken]
    assert len(known) == len(taken)
    picked = min(known, key=lambda config: template.cost(sizes, machine, config))
    assert taken[tuple(picked.values())] <= (1.05 if is_large(product) else 1.1) * min(taken.values())
    chosen = template.choose(sizes, machine)
    if tuple(chosen.values()) in taken:
        assert chosen == picked


def test_warpgroups_multiply_where_they_were_measured_to_be_faster():
    machine = Machine(tvm.target.Target("cuda -arch=sm_90a"))
    best = {name_of(product): min(row[-1] for row in product["rows"]) for product in PRODUCTS}
    both = [product for product in PRODUCTS if product["target"].endswith("sm_90a") and not is_large(product)]
    assert len(both) == 8
    for product in both:
        assert best[name_of(product)] < best[name_of({**product, "target": "cuda -arch=sm_90"})]
        assert tensor_cores.TEMPLATE.choose(sizes_of(product), machine)["warpgroup"]
    assert "warpgroup" not in tensor_cores.TEMPLATE.choose(Sizes(1, 1, 4096, 4096, 2), machine)


def test_estimated_cycles_of_large_products_are_those_that_were_measured():
    """At the clock of the GPU under such work, within a fifth."""
    for product in PRODUCTS:
        if min(product["size"]) < 2048:
            continue
        template, sizes = KINDS[product["kind"]][0].TEMPLATE, sizes_of(product)
        machine = Machine(tvm.target.Target(product["target"]))
        cycles = template.cost(sizes, machine, template.choose(sizes, machine))
        clock = {"float32": 1980, "float16": 1700}[product["kind"]]
        assert 0.8 < cycles / clock / min(row[-1] for row in product["rows"]) < 1.25


# What is chosen for sizes (batch, m, n, k, bytes of an element): tile, warps, block_k, stages and split_k; whether by
# warpgroups, None where there are none for the sizes; and the estimated cycles.
CHOICES = {
    ("sm_75", (1, 128, 3072, 768, 2)): (((64, 32), (2, 2), 64, 2, 2), None, 33162),
    ("sm_80", (1, 128, 768, 768, 2)): (((32, 32), (2, 2), 64, 3, 4), None, 7442),
    ("sm_80", (1, 128, 768, 3072, 2)): (((64, 32), (2, 2), 64, 3, 8), None, 14584),
    ("sm_80", (1, 1024, 1024, 1024, 2)): (((64, 64), (2, 2), 64, 3, 1), None, 31304),
    ("sm_80", (12, 128, 64, 128, 2)): (((16, 16), (2, 2), 32, 4, 1), None, 2143),
    ("sm_80", (1, 49, 2048, 512, 2)): (((32, 16), (2, 2), 64, 3, 1), None, 6562),
    ("sm_80", (1, 3136, 64, 576, 2)): (((32, 16), (2, 2), 64, 3, 1), None, 7295),
    ("sm_80", (1, 1, 1000, 2048, 2)): (((16, 32), (1, 2), 64, 2, 32), None, 5159),
    ("sm_80", (1, 17, 33, 65, 2)): (((16, 16), (1, 1), 32, 3, 1), None, 1806),
    ("sm_80", (3, 100, 70, 5000, 2)): (((32, 32), (4, 1), 32, 3, 24), None, 11404),
    ("sm_80", (1, 196, 1024, 256, 4)): (((16, 16), (1, 4), 32, 3, 1), None, 8088),
    ("sm_90a", (1, 128, 768, 768, 2)): (((64, 64), (1, 1), 64, 8, 1), True, 4792),
    ("sm_90a", (1, 128, 768, 3072, 2)): (((64, 64), (1, 1), 64, 8, 4), True, 8590),
    ("sm_90a", (1, 1024, 1024, 1024, 2)): (((64, 128), (1, 1), 64, 6, 1), True, 8808),
    ("sm_90a", (12, 128, 64, 128, 2)): (((16, 16), (2, 2), 32, 4, 1), False, 2143),
    ("sm_90a", (1, 49, 2048, 512, 2)): (((64, 64), (1, 1), 64, 8, 1), True, 3489),
    ("sm_90a", (1, 3136, 64, 576, 2)): (((64, 64), (1, 1), 64, 8, 1), True, 3815),
    ("sm_90a", (1, 1, 1000, 2048, 2)): (((16, 32), (1, 4), 64, 2, 32), None, 4762),
    ("sm_90a", (1, 17, 33, 65, 2)): (((16, 16), (1, 1), 32, 3, 1), None, 1806),
    ("sm_90a", (3, 100, 70, 5000, 2)): (((64, 64), (1, 1), 64, 8, 9), True, 6835),
    ("sm_90a", (1, 196, 1024, 256, 4)): (((32, 16), (2, 2), 32, 3, 1), None, 6562),
}  # fmt: skip


@pytest.mark.parametrize("architecture, sizes", CHOICES)
def test_choices_on_tensor_cores_are_those_of_the_table(architecture, sizes):
    machine = Machine(tvm.target.Target(f"cuda -arch={architecture}"))
    chosen = tensor_cores.TEMPLATE.choose(Sizes(*sizes), machine)
    knobs = tuple(chosen[name] for name in ("tile", "warps", "block_k", "stages", "split_k"))
    cycles = tensor_cores.TEMPLATE.cost(Sizes(*sizes), machine, chosen)
    assert (knobs, chosen.get("warpgroup"), round(cycles)) == CHOICES[architecture, sizes]


# Convolutions 3x3 (images, channels and filters, pixels of a side), and microseconds as one product and by Winograd's
# algorithm with tiles of 2 and of 4.
WINOGRAD = {
    (1, 64, 224): (103.4, 115.5, 73.1), (1, 128, 112): (111.4, 75.8, 57.5), (1, 256, 56): (104.0, 73.5, 44.8),
    (1, 512, 28): (134.4, 84.2, 86.3), (1, 512, 14): (48.4, 42.8, 22.9), (1, 64, 56): (17.8, 13.5, 12.7),
    (1, 128, 28): (22.6, 12.6, 12.9), (1, 256, 14): (27.5, 13.7, 12.0), (8, 64, 56): (66.0, 61.4, 40.9),
    (8, 256, 14): (67.4, 54.0, 29.4),
}  # fmt: skip


def test_winograds_algorithm_is_used_where_it_was_measured_to_be_faster():
    machine = Machine(tvm.target.Target("cuda -arch=sm_90"))
    for (images, channels, side), taken in WINOGRAD.items():
        tile = winograd.plan(images, channels, channels, side, side, machine)
        assert dict(zip((None, *winograd.TILES), taken))[tile] <= 1.05 * min(taken)
    # Few channels, where the transforms are most of the work.
    assert winograd.plan(1, 16, 16, 56, 56, machine) is None

"""What an index touches."""

import numpy as np

from tvm import tir
from tvm.codegen.linear import linear_form

NAMES = "y", "x", "width", "height", "dy", "dx"


def value_of(node, values):
    """The number that an expression of variables is."""
    if isinstance(node, tir.Var):
        return values[node]
    if isinstance(node, tir.IntImm):
        return node.value
    a, b = value_of(node.a, values), value_of(node.b, values)
    return {tir.Add: a + b, tir.Sub: a - b, tir.Mul: a * b}[type(node)]


def test_rows_of_unknown_width_are_terms_of_their_own():
    """What stays the same in a loop over the taps of a window is apart from what does not."""
    y, x, width, dy, dx = (tir.Var(name, "int64") for name in ("y", "x", "width", "dy", "dx"))
    form = linear_form(((y * 2 + dy) * width + x * 2 + dx) * 16 + 3)
    products = {tuple(sorted((a.a.name, a.b.name))): c for a, c in form.terms.items() if isinstance(a, tir.Mul)}
    assert products == {("width", "y"): 32, ("dy", "width"): 16}
    assert {a.name: c for a, c in form.terms.items() if isinstance(a, tir.Var)} == {x.name: 32, dx.name: 16}
    assert form.constant == 3


def test_products_that_share_their_factors_are_met_a_few_times():
    """Fifty squares of squares are not two to the fiftieth terms."""
    x = made = tir.Var("x", "int64")
    for _ in range(50):
        made = (made + 1) * (made - 1)
    assert len(linear_form(made).terms) < 64
    assert linear_form((x + 1) * (x - 1)).constant == -1


def test_terms_of_random_products_add_up(seed):
    rng = np.random.default_rng(seed)
    variables = [tir.Var(name, "int64") for name in NAMES]

    def made(depth: int):
        if depth == 0 or rng.random() < 0.2:
            return variables[rng.integers(len(variables))] if rng.random() < 0.8 else tir.IntImm("int64", 3)
        kind = (tir.Add, tir.Sub, tir.Mul, tir.Mul)[rng.integers(4)]
        return kind(made(depth - 1), made(depth - 1))

    for _ in range(300):
        root, values = made(4), {v: int(rng.integers(-5, 6)) for v in variables}
        form = linear_form(root)
        got = form.constant + sum(c * value_of(atom, values) for atom, c in form.terms.items())
        assert got == value_of(root, values), root

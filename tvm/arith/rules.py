"""The rules of the rewriting simplifier as text (see ``rule_compiler`` for the syntax).

The order matters for each operator: the first rule that matches and whose condition holds is applied. Rules for index
types assume only that int32 and int64 arithmetic does not overflow and that no divisor is zero.
"""

from __future__ import annotations

from typing import Any

from ..ir.prim import EQ, LT, Add, And, Div, FloorDiv, FloorMod, Max, Min, Mod, Mul, Or, Sub
from .division_rules import FLOORDIV, FLOORMOD, TRUNCDIV, TRUNCMOD
from .rule_compiler import RuleTable
from .rule_text import duals, row

ADD = [
    row("c1 + x", "x + c1", swap=False),
    row("x + (y - x)", "y"),
    row("(x - y) + (y - z)", "x - z"),
    row("(x + c1) + c2", "x + (c1 + c2)"),
    row("(c1 - x) + c2", "(c1 + c2) - x"),
    row("(x + c1) // c2 + c3", "(x + c1 % c2) // c2 + (c3 + c1 // c2)", "c2 > 0 and not 0 <= c1 < c2"),
    row("(x + c1) + (y + c2)", "(x + y) + (c1 + c2)", swap=False),
    row("(x + c1) + y", "(x + y) + c1", swap=False),
    row("x + (y + c1)", "(x + y) + c1", swap=False),
    row("(c1 - x) + y", "(y - x) + c1", swap=False),
    row("x + (c1 - y)", "(x - y) + c1", swap=False),
    row("x // c1 * c1 + x % c1", "x"),
    row("x // c1 + x % c1", "(x + 1) // c1", "c1 == 2"),
    row("x % c1 + (x + c2) % c1", "1", "c1 == 2 and c2 % 2 == 1"),
    row("x // c1 * c2 + x % c1 * c3", "x * c3", "c1 * c3 == c2"),
    row("x // c1 % c2 * c1 + x % c1", "x % (c1 * c2)", "c1 > 0 and c2 > 0"),
    row("truncdiv(x, c1) * c1 + truncmod(x, c1)", "x"),
    row("x // y * y + x % y", "x"),
    row("truncdiv(x, y) * y + truncmod(x, y)", "x"),
    row("(x % c1 + c2) // c1 + x // c1", "(x + c2) // c1", "c1 > 0"),
    *duals(
        row("min(x, y - z) + z", "min(x + z, y)", swap=False),
        row("z + min(x, y - z)", "min(x + z, y)", swap=False),
        row("min(x - z, y) + z", "min(x, y + z)", swap=False),
        row("z + min(x - z, y)", "min(x, y + z)", swap=False),
        row("min(x, y + c1) + c2", "min(x + c2, y)", "c1 == -c2", swap=False),
        row("min(x + c1, y) + c2", "min(x, y + c2)", "c1 == -c2", swap=False),
        row("min(x, y) + max(x, y)", "x + y"),
        row("x + min(y, z)", "min(y, z) + x", "not is_extreme(x)", swap=False),
    ),
    row("x + x", "x * 2"),
    row("x * y + x", "x * (y + 1)"),
    row("x * y + x * z", "x * (y + z)"),
    row("x + y * c1", "x - y * (-c1)", "c1 == -1", swap=False),
    row("x + (y - x * c1)", "y + x * (1 - c1)", swap=False),
    row("(y - x * c1) + x * c2", "y + x * (c2 - c1)"),
    row("(y + x * c1) + x", "y + x * (c1 + 1)", swap=False),
    row("(x * c1 + y) + x", "x * (c1 + 1) + y", swap=False),
    row("(y + x * c1) + x * c2", "y + x * (c1 + c2)", swap=False),
    row("(x * c1 + y) + x * c2", "x * (c1 + c2) + y", swap=False),
    row("(x + y) + x", "x * 2 + y"),
    row("(y + x // c1 * c1) + x % c1", "y + x", swap=False),
    row("(y + x % c1) + x // c1 * c1", "y + x", swap=False),
]

SUB = [
    row("x - x", "0"),
    row("x - c1", "x + (-c1)"),
    row("(x + y) - y", "x"),
    row("(y + x) - (x + z)", "y - z"),
    row("x - (y + x)", "0 - y"),
    row("(x - y) - x", "0 - y"),
    row("x - (x - y)", "y"),
    row("(x - y) - (x - z)", "z - y"),
    row("(y - x) - (z - x)", "y - z"),
    row("(x + c1) - y", "(x - y) + c1", swap=False),
    row("x - (y + c1)", "(x - y) + (-c1)", swap=False),
    *duals(
        row("min(x, y) - x", "min(y - x, 0)"),
        row("x - min(x, y)", "max(x - y, 0)"),
        row("min(x + y, z) - x", "min(y, z - x)", swap=False),
        row("min(y + x, z) - x", "min(y, z - x)", swap=False),
        row("min(z, x + y) - x", "min(z - x, y)", swap=False),
        row("min(z, y + x) - x", "min(z - x, y)", swap=False),
        row("x - min(x + y, z)", "max(0 - y, x - z)", swap=False),
        row("x - min(y + x, z)", "max(0 - y, x - z)", swap=False),
        row("x - min(z, x + y)", "max(x - z, 0 - y)", swap=False),
        row("x - min(z, y + x)", "max(x - z, 0 - y)", swap=False),
        row("min(x, y) - min(y, x)", "0", swap=False),
        row("min(x, y) - min(z, w)", "x - z", "same_difference(x, z, y, w)", swap=False),
        row("min(x, y) - min(z, w)", "x - w", "same_difference(x, w, y, z)", swap=False),
    ),
    row("x * y - x", "x * (y - 1)"),
    row("x - y * x", "x * (1 - y)"),
    row("x * y - x * z", "x * (y - z)"),
]
for _div, _mod in (("truncdiv(%s, c1)", "truncmod(%s, c1)"), ("(%s) // c1", "(%s) %% c1")):
    _d, _m = _div % "x", _mod % "x"
    _dp, _mp = _div % "x + y", _mod % "x + y"
    _dm, _mm = _div % "x - y", _mod % "x - y"
    SUB.extend(
        [
            row(f"x - {_d} * c1", _m),
            row(f"{_d} * c1 - x", f"0 - {_m}"),
            row(f"x - {_dp} * c1", f"{_mp} - y"),
            row(f"{_dp} * c1 - x", f"y - {_mp}"),
            row(f"x - {_dm} * c1", f"{_mm} + y"),
            row(f"{_dm} * c1 - x", f"0 - {_mm} - y"),
            row(f"x * c2 - {_d} * c3", f"{_m} * c2", "c3 == c1 * c2"),
            row(f"{_d} * c3 - x * c2", f"{_m} * (-c2)", "c3 == c1 * c2"),
            row(f"x * c2 - {_dp} * c3", f"({_mp} - y) * c2", "c3 == c1 * c2"),
            row(f"x * c2 - {_dm} * c3", f"({_mm} + y) * c2", "c3 == c1 * c2"),
            row(f"{_dp} * c3 - x * c2", f"(y - {_mp}) * c2", "c3 == c1 * c2"),
            row(f"{_dm} * c3 - x * c2", f"(0 - {_mm} - y) * c2", "c3 == c1 * c2"),
        ]
    )
SUB.extend(
    [
        row("x - x // c1 * c2 * c3", "x % c1", "c1 == c2 * c3"),
        row("x - x % c1", "x // c1 * c1", "c1 > 0"),
        row("x % c1 - x", "x // c1 * (-c1)", "c1 > 0"),
        row("(y + x) - x % c1", "y + x // c1 * c1", "c1 > 0"),
        row("x - truncmod(x, c1)", "truncdiv(x, c1) * c1"),
        row(
            "truncdiv(x + c1, c3) - truncdiv(x + c2, c3)",
            "truncdiv(truncmod(x + c2, c3) + (c1 - c2), c3)",
            "c1 >= c2 and c3 > 0 and lo(x) + c2 >= 0",
        ),
        row(
            "truncdiv(x + c1, c3) - truncdiv(x, c3)",
            "truncdiv(truncmod(x, c3) + c1, c3)",
            "c1 >= 0 and c3 > 0 and lo(x) >= 0",
        ),
        # A remainder by 2 is 0 or 1 and selects between the two possible differences.
        row("(x + c1) // c3 - (x + c2) // c3", "x % c3 * (c1 % c3 - c2 % c3) + (c1 // c3 - c2 // c3)", "c3 == 2"),
        row("(x + c1) // c2 - x // c2", "x % c2 * (c1 % c2) + c1 // c2", "c2 == 2"),
        row("x // c2 - (x + c1) // c2", "x % c2 * (-(c1 % c2)) + (-(c1 // c2))", "c2 == 2"),
        row("(x + c1) // c2 - x % c2", "x // c2", "c2 == 2 and c1 == 1"),
        row("(x + c1) // c3 - (x + c2) // c3", "((x + c2) % c3 + (c1 - c2)) // c3", "c3 > 0"),
        row("(x + c1) // c3 - x // c3", "(x % c3 + c1) // c3", "c3 > 0"),
        row("x - y * c1", "x + y * (-c1)", "c1 < 0"),
        row("(x + y * c1) - y", "x + y * (c1 - 1)"),
        row("(x + y * c1) - y * c2", "x + y * (c1 - c2)"),
        row("(x - y * c1) - y * c2", "x - y * (c1 + c2)"),
        row("(x - y) - y", "x - y * 2"),
        row("(x - y) - (z - y)", "x - z"),
        row("x - (y - z)", "(x + z) - y", swap=False),
    ]
)

MUL = [
    row("c1 * x", "x * c1", swap=False),
    row("(x + c1) * c2", "x * c2 + c1 * c2"),
    row("(x * c1) * c2", "x * (c1 * c2)"),
    row("(c1 - x) * c2", "c1 * c2 - x * c2", "c2 > 0"),
    row("(c1 - x) * c2", "x * (-c2) + c1 * c2", "c2 < 0"),
    row("min(x, y) * max(x, y)", "x * y"),
    row("(x - y) * c1", "(y - x) * (-c1)", "c1 < 0"),
    row("x * (y * c1)", "(x * y) * c1", swap=False),
    row("(x * c1) * y", "(x * y) * c1", "not is_const(y)", swap=False),
]


MIN = [
    row("min(c1, x)", "min(x, c1)", swap=False),
    row("min(x, x)", "x"),
    row("min(max(x, y), min(x, y))", "min(x, y)", swap=False),
    row("min(max(x, y), min(y, x))", "min(x, y)", swap=False),
    row("min(min(x, y), max(x, y))", "min(x, y)", swap=False),
    row("min(min(x, y), max(y, x))", "min(x, y)", swap=False),
    row("min(x, y)", "x", "never_above(x, y)", swap=False),
    row("min(x, y)", "y", "never_above(y, x)", swap=False),
    row("min(max(x, y), x)", "x"),
    row("min(x, y)", "x", "in_chain(x, y, True)", swap=False),
    row("min(x, y)", "y", "in_chain(y, x, True)", swap=False),
    row("min(max(x, y), max(x, z))", "max(min(y, z), x)"),
    row("min(min(x, y), min(x, z))", "min(min(y, z), x)"),
    row("min(x + y, x + z)", "min(y, z) + x"),
    row("min(x - y, x - z)", "x - max(y, z)"),
    row("min(y - x, z - x)", "min(y, z) - x"),
    row("min(x, x + y)", "min(y, 0) + x", "not is_const(y)"),
    row("min(min(x, c1), c2)", "min(x, min(c1, c2))", swap=False),
    row("min(min(x, c1), y)", "min(min(x, y), c1)", "not is_const(y)", swap=False),
    row("min(x, min(y, c1))", "min(min(x, y), c1)", swap=False),
    row("min(truncdiv(x, c1), truncdiv(y, c1))", "truncdiv(min(x, y), c1)", "c1 > 0", swap=False),
    row("min(truncdiv(x, c1), truncdiv(y, c1))", "truncdiv(max(x, y), c1)", "c1 < 0", swap=False),
    row("min(x // c1, y // c1)", "min(x, y) // c1", "c1 > 0", swap=False),
    row("min(x // c1, y // c1)", "max(x, y) // c1", "c1 < 0", swap=False),
    row("min(x * c1, y * c1)", "min(x, y) * c1", "c1 > 0", swap=False),
    row("min(x * c1, y * c1)", "max(x, y) * c1", "c1 < 0", swap=False),
    row("min(x * c1, c2)", "min(x, c2 // c1) * c1", "c1 > 0 and c2 % c1 == 0", swap=False),
    row("min(x * c1, c2)", "max(x, c2 // c1) * c1", "c1 < 0 and c2 % c1 == 0", swap=False),
    row("min(c1 - x, c2)", "c1 - max(x, c1 - c2)", "c1 != 0 or c2 != 0", swap=False),
    row("min(0 - x * c1, 0)", "max(x, 0) * (-c1)", "c1 > 0", swap=False),
]
_DUALS = duals(*MIN)[len(MIN) :]
MAX = [
    (
        p,
        r,
        w
        and w.replace("True", "False")
        .replace("never_above(x, y)", "@")
        .replace("never_above(y, x)", "never_above(x, y)")
        .replace("@", "never_above(y, x)"),
        s,
    )
    for p, r, w, s in _DUALS
]

EQUAL = [
    row("x == x", "True"),
    row("c1 == x", "x == c1", swap=False),
    row("x + c1 == c2", "x == c2 - c1"),
    row("c1 - x == c2", "x == c1 - c2"),
    row("x - y == 0", "x == y"),
    row("x == x // c1 * c1", "x % c1 == 0", "c1 != 0"),
    row("x * y == 0", "x == 0 or y == 0", "not is_const(y)"),
    row("x * c1 == c2", "x == c2 // c1", "c1 != 0 and c2 % c1 == 0"),
    row("x * c1 == y * c1", "x == y", "c1 != 0"),
    row("x + y == x + z", "y == z"),
]

LESS = [
    row("x + y < x + z", "y < z"),
    row("y - x < z - x", "y < z"),
    row("x - y < x - z", "z < y"),
    row("x < x + z", "0 < z"),
    row("x + z < x", "z < 0"),
    row("x < x - z", "z < 0"),
    row("x - z < x", "0 < z"),
    row("x + c1 < c2", "x < c2 - c1"),
    row("c1 < x + c2", "c1 - c2 < x"),
    row("c1 - x < c2", "c1 - c2 < x"),
    row("c1 < c2 - x", "x < c2 - c1"),
    row("x + c1 < y + c2", "x < y + (c2 - c1)", "c1 != 0", swap=False),
    row("x + c1 < y", "x < y + (-c1)", "c1 < 0 and not is_const(y)", swap=False),
    row("x < y + c1", "x + (-c1) < y", "c1 < 0 and not is_const(x)", swap=False),
    row("x < y + 1", "x <= y", "not is_const(x)", swap=False),
    row("x - y < 0", "x < y"),
    row("0 < x - y", "y < x"),
    row("x < c1 - y", "x + y < c1", "not is_const(x)", swap=False),
    row("c1 - y < x", "c1 < x + y", "not is_const(x)", swap=False),
    row("x * c1 < y * c1", "x < y", "c1 > 0"),
    row("x * c1 < y * c1", "y < x", "c1 < 0"),
    row("x * c1 < c2", "x < -(-c2 // c1)", "c1 > 0"),
    row("x * c1 < c2", "-c2 // -c1 < x", "c1 < 0"),
    row("c1 < x * c2", "c1 // c2 < x", "c2 > 0"),
    row("c1 < x * c2", "x < -(c1 // -c2)", "c2 < 0"),
    row("truncdiv(x, c1) < c2", "x < c1 * c2", "c1 > 0 and c2 > 0"),
    row("truncdiv(x, c1) < c2", "x < c1 * (c2 - 1) + 1", "c1 > 0 and c2 <= 0"),
    row("c1 < truncdiv(x, c2)", "c1 * c2 < x", "c1 < 0 and c2 > 0"),
    row("c1 < truncdiv(x, c2)", "(c1 + 1) * c2 - 1 < x", "c1 >= 0 and c2 > 0"),
    row("x // c1 < c2", "x < c1 * c2", "c1 > 0"),
    row("x % y < y", "True", "lo(y) >= 0"),
    row("x // y < z", "x < z * y", "not is_const(y) and lo(y) >= 0 and has_product(z, y)"),
    row("c1 < x // c2", "(c1 + 1) * c2 - 1 < x", "c2 > 0"),
    row("x * y < (x + y) * c1", "True", "product_below_sum(x, y, 1, c1)"),
    row("x * y * c1 < (x + y) * c2", "True", "product_below_sum(x, y, c1, c2)"),
]
for _div, _mod in (("truncdiv(%s, c1)", "truncmod(%s, c1)"), ("(%s) // c1", "(%s) %% c1")):
    _d, _m = _div % "x", _mod % "x"
    _dc, _mc = _div % "x + c2", _mod % "x + c2"
    LESS.extend(
        [
            row(f"{_d} * c1 < x", f"0 < {_m}", "c1 > 0"),
            row(f"{_d} * c1 < x + y", f"0 < {_m} + y", "c1 > 0"),
            row(f"{_d} * c1 < x - y", f"y < {_m}", "c1 > 0"),
            row(f"{_dc} * c1 < x", f"c2 < {_mc}", "c1 > 0"),
            row(f"{_dc} * c1 < x + y", f"c2 < {_mc} + y", "c1 > 0"),
            row(f"{_dc} * c1 < x - y", f"y < {_mc} + (-c2)", "c1 > 0"),
        ]
    )
LESS.extend(
    [
        row("min(x, y) < z", "x < z or y < z", "decided(x, z) or decided(y, z)", swap=False),
        row("max(x, y) < z", "x < z and y < z", "decided(x, z) or decided(y, z)", swap=False),
        row("z < min(x, y)", "z < x and z < y", "decided(z, x) or decided(z, y)", swap=False),
        row("z < max(x, y)", "z < x or z < y", "decided(z, x) or decided(z, y)", swap=False),
    ]
)

AND = [
    row("x and x", "x"),
    row("x and not x", "False"),
    row("x == y and x != y", "False"),
    row("x <= y and y < x", "False"),
    row("x < c1 and c2 < x", "False", "c2 + 1 >= c1"),
    row("x < c1 and c2 <= x", "False", "c2 >= c1"),
    row("x <= c1 and c2 < x", "False", "c2 >= c1"),
    row("x <= c1 and c2 <= x", "False", "c2 > c1"),
    row("x == c1 and x != c2", "x == c1", "c1 != c2"),
    row("x == c1 and x == c2", "False", "c1 != c2"),
    row("x // c1 == c2 and x % c1 == c3", "x == c1 * c2 + c3", "c1 > 0 and 0 <= c3 < c1"),
    row("x < c1 and x < c2", "x < min(c1, c2)"),
    row("x < c1 and x <= c2", "x < min(c1, c2 + 1)"),
    row("x <= c1 and x <= c2", "x <= min(c1, c2)"),
    row("c1 < x and c2 < x", "max(c1, c2) < x"),
    row("c1 < x and c2 <= x", "max(c1, c2 - 1) < x"),
    row("c1 <= x and c2 <= x", "max(c1, c2) <= x"),
    row("0 <= x - y * c1 and x - y * c1 < c1", "y == x // c1", "c1 > 0"),
    row("y * c1 <= x and x - y * c1 < c1", "y == x // c1", "c1 > 0"),
    row("x // c1 == c2 and x % c1 < c3", "c1 * c2 <= x and x < c1 * c2 + c3", "c1 > 0 and 0 < c3 <= c1"),
    row("x // c1 == c2 and x % c1 <= c3", "c1 * c2 <= x and x <= c1 * c2 + c3", "c1 > 0 and 0 <= c3 < c1"),
    row("x // c1 == c2 and c3 < x % c1", "c1 * c2 + c3 < x and x < c1 * c2 + c1", "c1 > 0 and 0 <= c3 < c1"),
    row("x // c1 == c2 and c3 <= x % c1", "c1 * c2 + c3 <= x and x < c1 * c2 + c1", "c1 > 0 and 0 <= c3 < c1"),
    row(
        "x < c1 and x % c2 < c3",
        "x < c1 - 1 - (c1 - 1) % c2 + c3 and x % c2 < c3",
        "c2 > 0 and (c1 - 1) % c2 >= c3",
        swap=False,
    ),
    row("x <= c1 and x % c2 < c3", "x < c1 - c1 % c2 + c3 and x % c2 < c3", "c2 > 0 and c1 % c2 >= c3", swap=False),
    row("x and (y and z)", "x and y and z", swap=False),
    row("x and y and z", "x and y", "in_conjunction(z, x)", swap=False),
    row("x and y", "x", "implied(y, x)", swap=False),
    row("x and y", "y", "implied(x, y)", swap=False),
]

OR = [
    row("x or x", "x"),
    row("x or not x", "True"),
    row("x == y or x != y", "True"),
    row("x <= y or y < x", "True"),
    row("x < c1 or c2 < x", "True", "c2 < c1"),
    row("x < c1 or c2 <= x", "True", "c2 <= c1"),
    row("x <= c1 or c2 < x", "True", "c2 <= c1"),
    row("x <= c1 or c2 <= x", "True", "c2 <= c1 + 1"),
    row("x != c1 or x == c2", "x != c1", "c1 != c2"),
    row("x != c1 or x != c2", "True", "c1 != c2"),
    row("x < c1 or x < c2", "x < max(c1, c2)"),
    row("c1 < x or c2 < x", "min(c1, c2) < x"),
    row("x < y or x == y", "x <= y"),
    row("x < y or y == x", "x <= y"),
    row("(x and y) or (x and z)", "x and (y or z)"),
    row("x or (y or z)", "x or y or z", swap=False),
    row("x or y or z", "x or y", "in_disjunction(z, x)", swap=False),
]


def _both_broadcast(function: str, infix: bool = True) -> tuple[Any, ...]:
    """Return the rule that applies an operation to two broadcast values before the broadcast."""
    x, y, both = "broadcast(x, lanes)", "broadcast(y, lanes)", f"x {function} y" if infix else f"{function}(x, y)"
    pattern = f"{x} {function} {y}" if infix else f"{function}({x}, {y})"
    return row(pattern, f"broadcast({both}, lanes)", swap=False)


_BROADCAST = {
    Add: [_both_broadcast("+")],
    Sub: [_both_broadcast("-")],
    Mul: [_both_broadcast("*")],
    Div: [_both_broadcast("truncdiv", False)],
    Mod: [_both_broadcast("truncmod", False)],
    FloorDiv: [_both_broadcast("//")],
    FloorMod: [_both_broadcast("%")],
    Min: [_both_broadcast("min", False), row("min(x, x)", "x")],
    Max: [_both_broadcast("max", False), row("max(x, x)", "x")],
    EQ: [_both_broadcast("==")],
    LT: [_both_broadcast("<")],
}

_RAMP: dict[type[Any], list[Any]] = {
    Add: [
        row("ramp(b, s, lanes) + ramp(d, t, lanes)", "ramp(b + d, s + t, lanes)", swap=False),
        row("ramp(b, s, lanes) + broadcast(x, lanes)", "ramp(b + x, s, lanes)", swap=False),
        row("broadcast(x, lanes) + ramp(b, s, lanes)", "ramp(x + b, s, lanes)", swap=False),
    ],
    Sub: [
        row("ramp(b, s, lanes) - ramp(d, t, lanes)", "ramp(b - d, s - t, lanes)"),
        row("ramp(b, s, lanes) - broadcast(x, lanes)", "ramp(b - x, s, lanes)"),
        row("broadcast(x, lanes) - ramp(b, s, lanes)", "ramp(x - b, 0 - s, lanes)"),
        row("x - x", "0"),
    ],
    Mul: [
        row("ramp(b, s, lanes) * broadcast(x, lanes)", "ramp(b * x, s * x, lanes)", swap=False),
        row("broadcast(x, lanes) * ramp(b, s, lanes)", "ramp(b * x, s * x, lanes)", swap=False),
    ],
    Div: [
        row(
            "truncdiv(ramp(b, c1, lanes), broadcast(c2, lanes))",
            "ramp(truncdiv(b, c2), c1 // c2, lanes)",
            "c1 % c2 == 0 and (c1 == 0 or lo(b) >= 0 and c1 > 0 and c2 > 0 or is_multiple(b, c2))",
        ),
        row(
            "truncdiv(ramp(b, c1, lanes), broadcast(c2, lanes))",
            "broadcast(truncdiv(b, c2), lanes)",
            "c2 > 0 and lo(b) >= 0 and one_bucket(b, c1, lanes, c2)",
        ),
    ],
    Mod: [
        row(
            "truncmod(ramp(b, c1, lanes), broadcast(c2, lanes))",
            "broadcast(truncmod(b, c2), lanes)",
            "c1 % c2 == 0 and (lo(b) >= 0 and c1 >= 0 or is_multiple(b, c2))",
        ),
        row(
            "truncmod(ramp(b, c1, lanes), broadcast(c2, lanes))",
            "ramp(truncmod(b, c2), c1, lanes)",
            "c2 > 0 and lo(b) >= 0 and one_bucket(b, c1, lanes, c2)",
        ),
        row(
            "truncmod(ramp(b, c1, lanes), broadcast(c2, lanes))",
            "truncmod(ramp(congruent(b, c2), c1, lanes), broadcast(c2, lanes))",
            "c2 > 0 and c1 >= 0 and lo(b) >= 0 and not is_const(b) and is_congruent(b, c2)",
        ),
    ],
    FloorDiv: [
        row("ramp(b, c1, lanes) // broadcast(c2, lanes)", "ramp(b // c2, c1 // c2, lanes)", "c1 % c2 == 0"),
        row(
            "ramp(b, c1, lanes) // broadcast(c2, lanes)",
            "broadcast(b // c2, lanes)",
            "c2 > 0 and one_bucket(b, c1, lanes, c2)",
        ),
    ],
    FloorMod: [
        row("ramp(b, c1, lanes) % broadcast(c2, lanes)", "broadcast(b % c2, lanes)", "c1 % c2 == 0"),
        row(
            "ramp(b, c1, lanes) % broadcast(c2, lanes)",
            "ramp(b % c2, c1, lanes)",
            "c2 > 0 and one_bucket(b, c1, lanes, c2)",
        ),
        row(
            "ramp(b, c1, lanes) % broadcast(c2, lanes)",
            "ramp(congruent(b, c2), c1, lanes) % broadcast(c2, lanes)",
            "c2 > 0 and not is_const(b) and is_congruent(b, c2)",
        ),
    ],
    Min: [
        row("min(min(x, broadcast(y, lanes)), broadcast(z, lanes))", "min(x, broadcast(min(y, z), lanes))", swap=False)
    ],
    Max: [
        row("max(max(x, broadcast(y, lanes)), broadcast(z, lanes))", "max(x, broadcast(max(y, z), lanes))", swap=False)
    ],
}

INDEX_TABLE = RuleTable(
    {
        Add: ADD,
        Sub: SUB,
        Mul: MUL,
        Div: TRUNCDIV,
        Mod: TRUNCMOD,
        FloorDiv: FLOORDIV,
        FloorMod: FLOORMOD,
        Min: MIN,
        Max: MAX,
        EQ: EQUAL,
        LT: LESS,
    }
)
BOOL_TABLE = RuleTable({And: [*AND, _both_broadcast("and")], Or: [*OR, _both_broadcast("or")]})
VECTOR_TABLE = RuleTable({cls: rows + _RAMP.get(cls, []) for cls, rows in _BROADCAST.items()})
# Floats: only rules that hold for every value, including NaN.
PLAIN_TABLE = RuleTable(_BROADCAST)
# Integers that wrap around.
WRAPPING_TABLE = RuleTable(
    {
        **_BROADCAST,
        Sub: [*_BROADCAST[Sub], row("x - x", "0")],
        EQ: [*_BROADCAST[EQ], row("x == x", "True")],
        LT: [*_BROADCAST[LT], row("x < x", "False")],
    }
)

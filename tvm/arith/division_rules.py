"""Rules for divisions and remainders."""

from __future__ import annotations

from .rule_text import duals, row

TRUNCDIV = [
    row("truncdiv(x, x)", "1"),
    row("truncdiv(truncdiv(x, c1), c2)", "truncdiv(x, c1 * c2)", "c1 > 0 and c2 > 0"),
    row(
        "truncdiv(truncdiv(x, c1) + c2, c3)",
        "truncdiv(x + c1 * c2, c1 * c3)",
        "c1 > 0 and c2 >= 0 and c3 > 0 and lo(x) >= 0",
    ),
    row("truncdiv(x * c1, c2)", "x * (c1 // c2)", "c2 > 0 and c1 % c2 == 0"),
    row("truncdiv(x * c1, c2)", "truncdiv(x, c2 // c1)", "c1 > 0 and c2 > 0 and c2 % c1 == 0"),
    row("truncdiv(x * c1, x)", "c1"),
    row("truncdiv(x * y, y)", "x"),
    row(
        "truncdiv(x * c1 + y, c2)",
        "x * (c1 // c2) + truncdiv(y, c2)",
        "c2 > 0 and c1 % c2 == 0 and lo(x * c1) >= 0 and lo(y) >= 0",
        swap=False,
    ),
    row(
        "truncdiv(y + x * c1, c2)",
        "truncdiv(y, c2) + x * (c1 // c2)",
        "c2 > 0 and c1 % c2 == 0 and lo(x * c1) >= 0 and lo(y) >= 0",
        swap=False,
    ),
    row(
        "truncdiv(x * c1 + y + z, c2)",
        "x * (c1 // c2) + truncdiv(y + z, c2)",
        "c2 > 0 and c1 % c2 == 0 and lo(x * c1) >= 0 and lo(y + z) >= 0",
    ),
    row("truncdiv(x + c1, c2)", "truncdiv(x, c2) + c1 // c2", "c2 > 0 and c1 > 0 and c1 % c2 == 0 and lo(x) >= 0"),
    row(
        "truncdiv(x * c1 + c3, c2)",
        "x * (c1 // c2) + c3 // c2",
        "c2 > 0 and c1 % c2 == 0 and lo(x * c1) >= 0 and c3 > 0",
    ),
    *duals(
        row(
            "truncdiv(min(x * c1, y), c2)",
            "min(x * (c1 // c2), truncdiv(y, c2))",
            "c2 > 0 and c1 % c2 == 0",
            swap=False,
        ),
        row(
            "truncdiv(min(y, x * c1), c2)",
            "min(truncdiv(y, c2), x * (c1 // c2))",
            "c2 > 0 and c1 % c2 == 0",
            swap=False,
        ),
    ),
    row("truncdiv(x + y, x)", "truncdiv(y, x) + 1", "lo(x) >= 0 and lo(y) >= 0"),
    *[
        row(f"truncdiv({p}, x)", "truncdiv(y + z, x) + 1", "lo(x) >= 0 and lo(y + z) >= 0", swap=False)
        for p in ("(x + y) + z", "(y + x) + z", "y + (x + z)", "y + (z + x)")
    ],
    row("truncdiv(x * z + y, z)", "x + truncdiv(y, z)", "lo(x) >= 0 and lo(y) >= 0 and lo(z) >= 0", swap=False),
    row("truncdiv(z * x + y, z)", "x + truncdiv(y, z)", "lo(x) >= 0 and lo(y) >= 0 and lo(z) >= 0", swap=False),
    row("truncdiv(y + x * z, z)", "truncdiv(y, z) + x", "lo(x) >= 0 and lo(y) >= 0 and lo(z) >= 0", swap=False),
    row("truncdiv(y + z * x, z)", "truncdiv(y, z) + x", "lo(x) >= 0 and lo(y) >= 0 and lo(z) >= 0", swap=False),
    row("truncdiv(x, c1)", "0", "abs(lo(x)) < abs(c1) and abs(hi(x)) < abs(c1)"),
]


TRUNCMOD = [
    row("truncmod(x, c1)", "truncmod(x, -c1)", "c1 < 0"),
    row("truncmod(x * c1, c2)", "0", "c1 % c2 == 0"),
    row("truncmod(x * y, y)", "0"),
    row("truncmod(x * c1 + y, c2)", "truncmod(y, c2)", "c2 > 0 and c1 % c2 == 0 and lo(x * c1) >= 0 and lo(y) >= 0"),
    row("truncmod(x + c1, c2)", "truncmod(x, c2)", "c2 > 0 and c1 >= 0 and c1 % c2 == 0 and lo(x) >= 0"),
    row("truncmod(x + c1, c2)", "truncmod(x + c1 % c2, c2)", "c2 > 0 and c1 >= c2 and lo(x) >= 0"),
    row("truncmod(x, c1)", "x", "abs(lo(x)) < abs(c1) and abs(hi(x)) < abs(c1)"),
    row("truncmod(x, c1)", "congruent(x, c1)", "c1 > 0 and is_congruent(x, c1) and lo(x) >= 0"),
    row("truncmod(truncmod(x, c1), c2)", "truncmod(x, c2)", "c1 % c2 == 0"),
]


FLOORDIV = [
    row("x // x", "1"),
    row("x // c1 // c2", "x // (c1 * c2)", "c1 > 0 and c2 > 0"),
    row("(x // c1 + c2) // c3", "(x + c1 * c2) // (c1 * c3)", "c1 > 0 and c3 > 0"),
    row("(x - x % c1) // c1", "x // c1"),
    row("x * c1 // c2", "x * (c1 // c2)", "c1 % c2 == 0"),
    row("x * c1 // c2", "x // (c2 // c1)", "c1 > 0 and c2 > 0 and c2 % c1 == 0"),
    row("x * c1 // x", "c1"),
    row("x * y // y", "x"),
    row("x // c1", "0", "0 <= lo(x) and hi(x) < c1"),
    row("x // c1", "lo(x) // c1", "c1 > 0 and finite(x) and lo(x) // c1 == hi(x) // c1"),
    row("x % c1 // c2", "0", "0 < c1 and c1 <= c2"),
    row("(x % c1 + c2) // c1", "x % c1", "c1 == 2 and c2 == 1"),
    row("(x * c1 + c3) // c2", "x * (c1 // c2) + c3 // c2", "c2 > 0 and c1 % c2 == 0"),
    row(
        "(x * c1 + c3) // c2", "x // (c2 // c1) + c3 // c2", "c1 > 0 and c2 > 0 and c2 % c1 == 0 and c3 % c2 // c1 == 0"
    ),
    row("(x * c1 + y) // c2", "x * (c1 // c2) + y // c2", "c2 > 0 and c1 % c2 == 0"),
    row("(x * c1 + y) // c2", "x // (c2 // c1)", "c1 > 0 and c2 > 0 and c2 % c1 == 0 and 0 <= lo(y) and hi(y) < c1"),
    row(
        "(x * c1 + y) // c2",
        "x * (c1 // c2)",
        "c2 > 0 and c1 > 0 and 0 <= lo(x * (c1 % c2) + y) and hi(x * (c1 % c2) + y) < c2",
    ),
    row("(x * c1 + y + z) // c2", "x * (c1 // c2) + (y + z) // c2", "c2 > 0 and c1 % c2 == 0"),
    row(
        "(x * c1 + y + z) // c2",
        "x // (c2 // c1)",
        "c1 > 0 and c2 > 0 and c2 % c1 == 0 and 0 <= lo(y + z) and hi(y + z) < c1",
    ),
    row("(x - y * c1) // c2", "x // c2 - y * (c1 // c2)", "c2 > 0 and c1 % c2 == 0"),
    row("(x * c1 - y) // c2", "x * (c1 // c2) + (0 - y) // c2", "c2 > 0 and c1 % c2 == 0"),
    row("(x + c1) // c2", "x // c2 + c1 // c2", "c2 > 0 and c1 % c2 == 0"),
    *duals(
        row("min(x * c1, y) // c2", "min(x * (c1 // c2), y // c2)", "c2 > 0 and c1 % c2 == 0", swap=False),
        row("min(y, x * c1) // c2", "min(y // c2, x * (c1 // c2))", "c2 > 0 and c1 % c2 == 0", swap=False),
    ),
    row("(x + y) // x", "y // x + 1"),
    *[
        row(f"({p}) // x", "(y + z) // x + 1", swap=False)
        for p in ("(x + y) + z", "(y + x) + z", "y + (x + z)", "y + (z + x)")
    ],
    row("(x * z + y) // z", "x + y // z", swap=False),
    row("(z * x + y) // z", "x + y // z", swap=False),
    row("(y + x * z) // z", "y // z + x", swap=False),
    row("(y + z * x) // z", "y // z + x", swap=False),
    row("(x * z * c1 + y) // (z * c1)", "x + y // (z * c1)"),
    row("x // y", "0", "not is_const(y) and below(x, y)"),
]


FLOORMOD = [
    row("x % x", "0"),
    row("x * c1 % c2", "0", "c1 % c2 == 0"),
    row("x * c1 % c2", "x * (c1 % c2) % c2", "c2 > 0 and not 0 <= c1 < c2"),
    row("x * y % y", "0"),
    row("x % c1", "x", "0 <= lo(x) and hi(x) < c1"),
    row("x % c1", "congruent(x, c1)", "c1 > 0 and is_congruent(x, c1)"),
    row("x % c1", "x + (-(lo(x) // c1 * c1))", "c1 > 0 and finite(x) and lo(x) // c1 == hi(x) // c1"),
    row("x % c1 % c2", "x % c2", "c2 > 0 and c1 % c2 == 0"),
    row("(x * c1 + c3) % c2", "c3 % c2", "c2 > 0 and c1 % c2 == 0"),
    row("(x * c1 + y) % c2", "(x * (c1 % c2) + y) % c2", "c2 > 0 and not 0 < c1 < c2", swap=False),
    row("(y + x * c1) % c2", "(y + x * (c1 % c2)) % c2", "c2 > 0 and not 0 < c1 < c2", swap=False),
    row(
        "(x * c1 + y) % c2",
        "x % (c2 // c1) * c1 + y",
        "c1 > 0 and c2 > 0 and c2 % c1 == 0 and 0 <= lo(y) and hi(y) < c1",
    ),
    row("(x * c1 + y + z) % c2", "(y + z) % c2", "c2 > 0 and c1 % c2 == 0"),
    row("(x - y * c1) % c2", "x % c2", "c2 > 0 and c1 % c2 == 0"),
    row("(x * c1 - y) % c2", "(0 - y) % c2", "c2 > 0 and c1 % c2 == 0"),
    row("(x + c1) % c2", "x % c2", "c2 > 0 and c1 % c2 == 0"),
    row("(x + c1) % c2", "(x + c1 % c2) % c2", "c2 > 0 and not 0 <= c1 < c2"),
    row("(x % c1 + y) % c2", "(x + y) % c2", "c2 > 0 and c1 % c2 == 0"),
    row("(x % c1 * c3 + y) % c2", "(x * c3 + y) % c2", "c2 > 0 and c1 * c3 % c2 == 0"),
    # x minus its remainder is a multiple of the divisor.
    row("(x - x % y) % y", "0"),
    row("(x - x % c1) % c2", "0", "c1 % c2 == 0"),
    row("(x - x % (y * c1)) % y", "0", "c1 != 0"),
    row("(x + x * c1 % y) % y", "0", "c1 == -1"),
    row("(x + x * c1 % (y * c2)) % y", "0", "c1 == -1 and c2 != 0"),
    row("(x + y) % x", "y % x"),
    row("(x * z + y) % z", "y % z"),
    row("(x * z * c1 + y) % (z * c1)", "y % (z * c1)"),
    row("x % y", "x", "not is_const(y) and below(x, y)"),
]

"""What the rewriting simplifier does, one line for each identity: before -> after [where conditions]."""

from __future__ import annotations

TABLE = """
# vectors
ramp(x, 1, 4) + ramp(y, 2, 4) -> ramp(x + y, 3, 4)
ramp(x, 1, 2) + y -> ramp(x + y, 1, 2)
y + ramp(x, 1, 2) -> ramp(y + x, 1, 2)
broadcast(y, 2) + broadcast(x, 2) -> broadcast(y + x, 2)
broadcast(0, 4) + y -> broadcast(y, 4)
ramp(x, 4, 4) - ramp(y, 2, 4) -> ramp(x - y, 2, 4)
ramp(x, 1, 2) - y -> ramp(x - y, 1, 2)
y - ramp(x, 1, 2) -> ramp(y - x, -1, 2)
broadcast(y, 2) - broadcast(x, 2) -> broadcast(y - x, 2)
broadcast(y, 2) * broadcast(x, 2) -> broadcast(y * x, 2)
ramp(x, 4, 4) * 2 -> ramp(x * 2, 8, 4)
2 * ramp(x, 4, 4) -> ramp(x * 2, 8, 4)
broadcast(0, 4) * x -> broadcast(0, 4)
truncdiv(broadcast(y, 2), broadcast(x, 2)) -> broadcast(truncdiv(y, x), 2)
truncdiv(ramp(x, 4, 4), 2) -> ramp(truncdiv(x, 2), 2, 4) where x >= 0
truncdiv(ramp(x * 8 + 1, 1, 4), 8) -> broadcast(x, 4) where x >= 0
truncdiv(ramp(x * 8 + 15, 1, 4), 8) -> truncdiv(ramp(x * 8 + 15, 1, 4), 8)
truncmod(broadcast(y, 2), broadcast(x, 2)) -> broadcast(truncmod(y, x), 2)
truncmod(ramp(x, 4, 4), 2) -> broadcast(truncmod(x, 2), 4) where x >= 0
truncmod(ramp(x * 8 + 1, 1, 4), 8) -> ramp(1, 1, 4) where x >= 0
truncmod(ramp(x * 8 + 1, 15, 4), 8) -> truncmod(ramp(1, 15, 4), 8) where x >= 0
broadcast(y, 2) // broadcast(x, 2) -> broadcast(y // x, 2)
ramp(x, 4, 4) // 2 -> ramp(x // 2, 2, 4)
ramp(x * 8 + 1, 1, 4) // 8 -> broadcast(x, 4)
ramp(x * 8 + 15, 1, 4) // 8 -> ramp(x * 8 + 15, 1, 4) // 8
ramp(x, 8, 5) // 4 -> ramp(x // 4, 2, 5)
ramp(x * 4 % 256, 1, 4) // 8 -> broadcast(x * 4 % 256 // 8, 4)
ramp(x, 7, 4) // 4 -> ramp(x, 7, 4) // 4
ramp(x * 8, 1, 4) // 4 -> broadcast(x * 2, 4)
ramp(x * 8, 3, 4) // 4 -> ramp(x * 8, 3, 4) // 4
ramp(x * 4, 1, 4) // 64 -> broadcast(x // 16, 4)
ramp(x * 8, 2, 4) // 64 -> broadcast(x // 8, 4)
ramp(x * 4, 1, 5) // 64 -> ramp(x * 4, 1, 5) // 64
ramp(x * 4 + 3, 1, 4) // 64 -> ramp(x * 4 + 3, 1, 4) // 64
ramp(x * 7, 1, 4) // 64 -> ramp(x * 7, 1, 4) // 64
broadcast(y, 2) % broadcast(x, 2) -> broadcast(y % x, 2)
ramp(x, 4, 4) % 2 -> broadcast(x % 2, 4)
ramp(x * 8 + 1, 1, 4) % 8 -> ramp(1, 1, 4)
ramp(x * 8 + 1, 15, 4) % 8 -> ramp(1, 15, 4) % 8
x % 2 + (x + 1) % 2 -> 1
(x + 3) % 2 + x % 2 -> 1
x % 3 + (x + 1) % 3 -> x % 3 + (x + 1) % 3
(x + 1) // 2 - x // 2 -> x % 2
x // 2 - (x - 1) // 2 -> x % 2 * -1 + 1
(x + 5) // 2 - (x - 2) // 2 -> x % 2 + 3
(x + 5) // 2 - (x - 3) // 2 -> 4
(x % 2 + 1) // 2 -> x % 2
(x + 1) // 2 - x % 2 -> x // 2
x // 2 + x % 2 -> (x + 1) // 2
3 * x % 2 -> x % 2
(x - x % 9) % 9 -> 0
(x - x % -9) % 9 -> 0
(x + x * -1 % 9) % 9 -> 0
(x - x % y) % y -> 0
(x - x % (y * -1)) % y -> 0
(x + x * -1 % y) % y -> 0
(x + x * -1 % (y * -1)) % y -> 0
ramp(x, 8, 4) % 4 -> broadcast(x % 4, 4)
ramp(x, 7, 4) % 4 -> ramp(x, 7, 4) % 4
ramp(x * 8, 1, 4) % 4 -> ramp(0, 1, 4)
ramp(x * 8, 1, 5) % 4 -> ramp(0, 1, 5) % 4
ramp(x * 8 + 7, 1, 4) % 4 -> ramp(3, 1, 4) % 4
ramp(x * 4, 1, 4) % 64 -> ramp(x * 4 % 64, 1, 4)
ramp(x * 8, 2, 4) % 64 -> ramp(x * 8 % 64, 2, 4)
ramp(x * 4, 1, 5) % 64 -> ramp(x * 4, 1, 5) % 64
ramp(x * 2, 1, 8) % 20 -> ramp(x * 2, 1, 8) % 20
ramp(x * 7, 1, 4) % 64 -> ramp(x * 7, 1, 4) % 64
min(broadcast(y, 2), broadcast(x, 2)) -> broadcast(min(y, x), 2)
min(min(v, broadcast(y, 2)), broadcast(x, 2)) -> min(v, broadcast(min(y, x), 2))
max(broadcast(y, 2), broadcast(x, 2)) -> broadcast(max(y, x), 2)
max(max(v, broadcast(y, 2)), broadcast(x, 2)) -> max(v, broadcast(max(y, x), 2))
broadcast(y, 2) == broadcast(x, 2) -> broadcast(y == x, 2)
broadcast(y, 2) != broadcast(x, 2) -> broadcast(y != x, 2)
broadcast(y, 2) > broadcast(x, 2) -> broadcast(x < y, 2)
broadcast(y, 2) >= broadcast(x, 2) -> broadcast(x <= y, 2)
broadcast(y, 2) < broadcast(x, 2) -> broadcast(y < x, 2)
broadcast(y, 2) <= broadcast(x, 2) -> broadcast(y <= x, 2)
broadcast(y, 2) <= broadcast(x, 2) and broadcast(p, 2) -> broadcast(y <= x and p, 2)
broadcast(y, 2) <= broadcast(x, 2) or broadcast(p, 2) -> broadcast(y <= x or p, 2)
# select
select(x < 0, y, 0) + select(x < 0, 1, z) -> select(x < 0, y + 1, z)
select(x < 0, y, 1) - select(x < 0, 1, z) -> select(x < 0, y + -1, 1 - z)
select(x < 0, y, z) - y -> select(x < 0, 0, z - y)
select(x < 0, y, z) - z -> select(x < 0, y - z, 0)
min(select(x < 0, y, 0), select(x < 0, 1, z)) -> select(x < 0, min(y, 1), min(z, 0))
max(select(x < 0, y, 0), select(x < 0, 1, z)) -> select(x < 0, max(y, 1), max(z, 0))
select(x * 3 + 1 != 0, y, z) -> y
select(x * 3 + 1 == 0, y, z) -> z
select(x > 0, y + 1, y + 1) -> y + 1
select(x < 5, select(x < 7, y, z), z) -> select(x < 5, y, z)
if_then_else(x < 5, if_then_else(x > 1, 1, 0), 0) -> if_then_else(x < 5 and 1 < x, 1, 0)
if_then_else(x > 2, if_then_else(x > 1, 1, 0), 0) -> if_then_else(2 < x, 1, 0)
likely(x < x + 1) -> True
# add
x + (y - x) -> y
x - (y + 1) + (y + 1) -> x
(x - 10) + (10 - z) -> x - z
(x - y) + (z - x) -> z - y
min(x, y - z) + z -> min(x + z, y)
min(x - z, y) + z -> min(x, y + z)
max(x, y - 10) + 10 -> max(x + 10, y)
max(x - 11, y) + 11 -> max(x, y + 11)
max(x, y * 2) + min(x, y * 2) -> x + y * 2
min(x, y * 2) + max(x, y * 2) -> x + y * 2
max(x, y + 2) + -2 -> max(x + -2, y)
min(x, y + 2) + -2 -> min(x + -2, y)
min(x + 2, y + 3) + -2 -> min(x, y + 1)
max(0, 1 - x * 4) + x * 4 -> max(x * 4, 1)
max(2 - x * 4, 0) + x * 4 -> max(x * 4, 2)
min(0, 1 - x * 4) + x * 4 -> min(x * 4, 1)
min(2 - x * 4, 0) + x * 4 -> min(x * 4, 2)
x * y + x * 10 -> x * (y + 10)
y * x + x * 10 -> x * (y + 10)
y * x + 10 * x -> x * (y + 10)
2 * z + min(x, y - 2 * z) -> min(x + z * 2, y)
y * x + x -> x * (y + 1)
x * y + x -> x * (y + 1)
(x + 10) + 13 -> x + 23
(x + 10) + (13 + z) -> x + z + 23
y * x + x * 3 -> x * (y + 3)
x + 3 + y -> x + y + 3
(3 - y) + x -> x - y + 3
x + 2 + 3 + 4 + x -> x * 2 + 9
x + 2 + 3 + 4 + x * 3 -> x * 4 + 9
y * truncmod(x, 8) + 10 * truncmod(x, 8) -> truncmod(x, 8) * (y + 10)
truncdiv(x, 8) * 8 + truncmod(x, 8) -> x
y * (x % 8) + 10 * (x % 8) -> x % 8 * (y + 10)
x // 8 * 8 + x % 8 -> x
(x % 2 + 7) // 2 + x // 2 -> (x + 7) // 2
# subtract
x + y - y -> x
x + y - x -> y
x - (y + x) -> 0 - y
x - (x + y) -> 0 - y
min(x, y) - x -> min(y - x, 0)
min(x, y) - y -> min(x - y, 0)
max(x, y) - x -> max(y - x, 0)
max(x, y) - y -> max(x - y, 0)
x - min(x, y) -> max(x - y, 0)
y - min(x, y) -> max(y - x, 0)
x - max(x, y) -> min(x - y, 0)
y - max(x, y) -> min(y - x, 0)
x - x -> 0
x * y - x -> x * (y + -1)
x * y - 10 * x -> x * (y + -10)
y * x - x * z -> x * (y - z)
y * x - z * x -> x * (y - z)
x + 10 - 20 -> x + -10
(x + y) - (x + z) -> y - z
(y + x) - (x + z) -> y - z
(x + y) - (z + x) -> y - z
(y + x) - (z + x) -> y - z
min(x + y, z) - x -> min(y, z - x)
min(y + x, z) - x -> min(y, z - x)
min(z, x + y) - x -> min(z - x, y)
min(z, y + x) - x -> min(z - x, y)
max(x + y, z) - x -> max(y, z - x)
max(z, y + x) - x -> max(z - x, y)
x - min(x + y, z) -> max(0 - y, x - z)
x - min(y + x, z) -> max(0 - y, x - z)
x - min(z, x + y) -> max(x - z, 0 - y)
x - min(z, y + x) -> max(x - z, 0 - y)
min(x, y) - min(y, x) -> 0
max(x, y) - max(y, x) -> 0
min(x, y) - min(x + 10, y + 10) -> -10
min(x + 10, y + 1) - min(x, y - 9) -> 10
x - truncdiv(x, 3) * 3 -> truncmod(x, 3)
truncdiv(x + 5, 3) - truncdiv(x, 3) -> truncdiv(truncmod(x, 3) + 5, 3) where x >= 0
truncdiv(x + 5, 3) - truncdiv(x + 1, 3) -> truncdiv(truncmod(x + 1, 3) + 4, 3) where x >= -1
y - truncdiv(y, -5) * -5 -> truncmod(y, 5)
truncdiv(y, 3) * 3 - y -> 0 - truncmod(y, 3)
y - truncdiv(y - 6, 5) * 5 -> truncmod(y + -6, 5) + 6
truncdiv(y - 6, 5) * 5 - y -> -6 - truncmod(y + -6, 5)
y - truncdiv(y + z, 5) * 5 -> truncmod(y + z, 5) - z
truncdiv(y + z, 5) * 5 - y -> z - truncmod(y + z, 5)
y - truncdiv(y - z, 5) * 5 -> truncmod(y - z, 5) + z
truncdiv(y - z, 5) * 5 - y -> 0 - truncmod(y - z, 5) - z
y * 3 - truncdiv(y, 2) * 6 -> truncmod(y, 2) * 3
truncdiv(y, 3) * 6 - y * 2 -> truncmod(y, 3) * -2
y * 5 - truncdiv(y + z, 2) * 10 -> (truncmod(y + z, 2) - z) * 5
5 * y - 10 * truncdiv(y - z, 2) -> (truncmod(y - z, 2) + z) * 5
6 * truncdiv(y + z, 3) - y * 2 -> (z - truncmod(y + z, 3)) * 2
truncdiv(y - z, 3) * 6 - 2 * y -> (0 - truncmod(y - z, 3) - z) * 2
x - x // 3 * 3 -> x % 3
(x + 5) // 3 - x // 3 -> (x % 3 + 5) // 3
y // 3 * 3 - y -> 0 - y % 3
y - (y - 6) // 5 * 5 -> (y + 4) % 5 + 6
(y - 6) // 5 * 5 - y -> -6 - (y + 4) % 5
y - (y + z) // 5 * 5 -> (y + z) % 5 - z
(y + z) // 5 * 5 - y -> z - (y + z) % 5
y - (y - z) // 5 * 5 -> (y - z) % 5 + z
(y - z) // 5 * 5 - y -> 0 - (y - z) % 5 - z
y * 3 - y // 2 * 6 -> y % 2 * 3
y // 3 * 6 - y * 2 -> y % 3 * -2
y * 5 - (y + z) // 2 * 10 -> ((y + z) % 2 - z) * 5
5 * y - 10 * ((y - z) // 2) -> ((y - z) % 2 + z) * 5
6 * ((y + z) // 3) - y * 2 -> (z - (y + z) % 3) * 2
(y - z) // 3 * 6 - 2 * y -> (0 - (y - z) % 3 - z) * 2
# multiply
(x + 2) * 3 -> x * 3 + 6
(x * 2) * 3 -> x * 6
min(x, y) * max(x, y) -> x * y
max(x, y) * min(x, y) -> x * y
(x - y) * -2 -> (y - x) * 2
(x * 2) * (y * 3) -> x * y * 6
# truncating division
truncdiv(x, x) -> 1
truncdiv(truncdiv(x, 2), 3) -> truncdiv(x, 6)
truncdiv(truncdiv(x, 2) + 1, 3) -> truncdiv(x + 2, 6) where positive
truncdiv(x * 2, 4) -> truncdiv(x, 2)
truncdiv(x * 4, 2) -> x * 2
truncdiv(x * 4 + y, 2) -> x * 2 + truncdiv(y, 2) where positive
truncdiv(min(x * 6, y), 2) -> min(x * 3, truncdiv(y, 2)) where positive
truncdiv(max(x * 6, y), 2) -> max(x * 3, truncdiv(y, 2)) where positive
truncdiv(y + x * 4, 2) -> truncdiv(y, 2) + x * 2 where positive
truncdiv(min(y, x * 6), 2) -> min(truncdiv(y, 2), x * 3) where positive
truncdiv(x * 6 + y + z, 2) -> x * 3 + truncdiv(y + z, 2) where positive
truncdiv(x * 6 - y + (y + 3), 2) -> x * 3 + 1 where positive
truncdiv(x * 6 + (y + 3) - y, 2) -> x * 3 + 1 where positive
truncdiv(y + x * 6 + z, 2) -> x * 3 + truncdiv(y + z, 2) where positive
truncdiv(x + 4, 2) -> truncdiv(x, 2) + 2 where positive
truncdiv(x + y, x) -> truncdiv(y, x) + 1 where positive
truncdiv(y + x, x) -> truncdiv(y, x) + 1 where positive
truncdiv((x + y) + z, x) -> truncdiv(y + z, x) + 1 where positive
truncdiv((y + x) + z, x) -> truncdiv(y + z, x) + 1 where positive
truncdiv(y + (x + z), x) -> truncdiv(y + z, x) + 1 where positive
truncdiv(y + (z + x), x) -> truncdiv(y + z, x) + 1 where positive
truncdiv(x * y, y) -> x where positive
truncdiv(y * x, y) -> x where positive
truncdiv(x * z + y, z) -> x + truncdiv(y, z) where positive
truncdiv(z * x + y, z) -> x + truncdiv(y, z) where positive
truncdiv(y + x * z, z) -> truncdiv(y, z) + x where positive
truncdiv(y + z * x, z) -> truncdiv(y, z) + x where positive
# floor division
x // 2 // 3 -> x // 6
(x // 2 + 1) // 3 -> (x + 2) // 6
(x - x % 21) // 21 -> x // 21
x * 2 // 4 -> x // 2
x * 4 // 2 -> x * 2
(x * 8 + 7) // 16 -> x // 2
(x * 8 + 39) // 16 -> x // 2 + 2
(x * 8 - 1) // 16 -> (x * 8 + -1) // 16
(x * 8 - 9) // 16 -> x // 2 + -1
(x * 360 + y) // 16 -> x * 22 where x >= 0, x < 2, y >= 0, y < 7
(x * 360 + y) // 25 -> x * 14 where x >= 0, x < 2, y >= 0, y < 7
(x * 360 - 8) // 25 -> (x * 360 + -8) // 25
(x * 4 + y) // 2 -> x * 2 + y // 2
min(x * 6, y) // 2 -> min(x * 3, y // 2)
max(x * 6, y) // 2 -> max(x * 3, y // 2)
(y + x * 4) // 2 -> x * 2 + y // 2
min(y, x * 6) // 2 -> min(y // 2, x * 3)
max(y, x * 6) // 2 -> max(y // 2, x * 3)
(x * 6 + y + z) // 2 -> x * 3 + (y + z) // 2
(x * 6 - y + (y + 3)) // 2 -> x * 3 + 1
(x * 6 + (y + 3) - y) // 2 -> x * 3 + 1
(y + x * 6 + z) // 2 -> x * 3 + (y + z) // 2
(x + 4) // 2 -> x // 2 + 2
(x + y) // x -> y // x + 1
(y + x) // x -> y // x + 1
((x + y) + z) // x -> (y + z) // x + 1
(y + (x + z)) // x -> (y + z) // x + 1
x * y // y -> x
y * x // y -> x
(x * z + y) // z -> x + y // z
(z * x + y) // z -> x + y // z
(y + x * z) // z -> y // z + x
(y + z * x) // z -> y // z + x
(x * 32 + y) // 64 -> x // 2 where y >= 0, y < 32
(x * 128 + y * 4 + z) // 512 -> x // 4 where y >= 0, y < 32, z >= 0, z < 4
# remainders
truncmod(x * 10, 2) -> 0
truncmod(x * 10 + y, 2) -> truncmod(y, 2) where x >= 0, y >= 0
truncmod(x + 10, 2) -> truncmod(x, 2) where x >= 0
truncmod(x + y * 10, 2) -> truncmod(x, 2) where x >= 0, y >= 0
truncmod(x * 10 + 1 + y * 2 + 2, 2) -> 1 where x >= 0, y >= 0
truncmod(x * 10 + y, -2) -> truncmod(y, 2) where x >= 0, y >= 0
truncmod(x + 10, -2) -> truncmod(x, 2) where x >= 0
truncmod(x * 10 + 1 + y * 2 + 2, -2) -> 1 where x >= 0, y >= 0
truncmod(x * -10, 2) -> 0
truncmod(x * -10 + y, 2) -> truncmod(x * -10 + y, 2)
truncmod(x + -10, 2) -> truncmod(x + -10, 2)
truncmod(x + y * -10, 2) -> truncmod(x + y * -10, 2)
truncmod(x * -10, -2) -> 0
truncmod(x * -10 + y, 2) -> truncmod(y, 2) where x <= 0, y >= 0
truncmod(x + y * -10, 2) -> truncmod(x, 2) where x >= 0, y <= 0
truncmod(x * -10 + 1 + y * -2 + 2, 2) -> 1 where x <= 0, y <= 0
x * 10 % 2 -> 0
x * 9600 % 6400 -> x * 3200 % 6400
(x * 10 + y) % 2 -> y % 2
(x * 360 + y) % 16 -> (x * 8 + y) % 16
(x + 10) % 2 -> x % 2
(x + y * 10) % 2 -> x % 2
(x + y * 360) % 16 -> (x + y * 8) % 16
(x * 10 + 1 + y * 2 + 2) % 2 -> 1
x * -10 % 2 -> 0
(x * -10 + y) % 2 -> y % 2
(x + -10) % 2 -> x % 2
(x + y * -10) % 2 -> x % 2
(x * 32 + y) % 64 -> x % 2 * 32 + y where y >= 0, y < 32
(x * 32 - y) % 64 -> (x * 32 - y) % 64 where y >= 0, y < 32
(x * z * 2 + y) % (z * 2) -> y % (z * 2)
(x * z * 2 + y) // (z * 2) -> x + y // (z * 2)
(x - 6) % 5 -> (x + 4) % 5
# min
min(truncmod(x, 2), truncmod(y, 2) + 10) -> truncmod(x, 2)
min(x % 2, y % 2 + 10) -> x % 2
min(x + 1, x + 10) -> x + 1
min(x + 111, x + 10) -> x + 10
min(x + 1, x) -> x
min(x, x + 2) -> x
min(1 - x, 2 - x) -> 1 - x
min(3 - x, 2 - x) -> 2 - x
min(max(x, y), min(x, y)) -> min(x, y)
min(max(x, y), min(y, x)) -> min(x, y)
min(max(x, y), x) -> x
min(max(y, x), x) -> x
min(min(x, y), x) -> min(x, y)
min(min(x, y), y) -> min(x, y)
min(x, max(x, y)) -> x
min(x, max(y, x)) -> x
min(x, min(x, y)) -> min(x, y)
min(y, min(x, y)) -> min(x, y)
min(min(min(x, y), z), y) -> min(min(x, y), z)
min(min(min(min(x, y), z), x * 2), y) -> min(min(min(x, y), z), x * 2)
min(min(min(min(min(x, y), z), x * 2), z * 2), y) -> min(min(min(min(x, y), z), x * 2), z * 2)
min(max(x, y), max(x, z)) -> max(min(y, z), x)
min(max(x, y), max(z, x)) -> max(min(y, z), x)
min(max(y, x), max(x, z)) -> max(min(y, z), x)
min(max(y, x), max(z, x)) -> max(min(y, z), x)
min(y + x, z + x) -> min(y, z) + x
min(y + x, x + z) -> min(y, z) + x
min(x + y, z + x) -> min(y, z) + x
min(x + y, x + z) -> min(y, z) + x
min(x - y, x - z) -> x - max(y, z)
min(y - x, z - x) -> min(y, z) - x
min(min(x, 1), 10) -> min(x, 1)
min(min(x, 11), 10) -> min(x, 10)
min(x * 3, 9) -> min(x, 3) * 3
min(x * 2, 0) -> min(x, 0) * 2
min(0 - x * 2, 0) -> max(x, 0) * -2
min(3 - x, 2) -> 3 - max(x, 1)
min(x * -2, -4) -> max(x, 2) * -2
min(x * -2, 4) -> max(x, -2) * -2
min(x * 0, 4) -> 0
min(x * 0, -4) -> -4
min(truncdiv(x + 3, 4) * 4, x) -> x
min(x, truncdiv(x + 3, 4) * 4) -> x
min(truncdiv(x + 3, 4) * 4, max(x, 4)) -> max(x, 4) where x > 0
min(max(x, 4), truncdiv(x + 3, 4) * 4) -> max(x, 4) where x > 0
min(truncdiv(x, 10), truncdiv(y, 10)) -> truncdiv(min(x, y), 10)
min(truncdiv(x, -10), truncdiv(y, -10)) -> truncdiv(max(x, y), -10)
min((x + 3) // 4 * 4, x) -> x
min(x, (x + 3) // 4 * 4) -> x
min(x, x // 4 * 4) -> x // 4 * 4
min((x + 3) // 4 * 4, max(x, 4)) -> max(x, 4) where x > 0
min(max(x, 4), (x + 3) // 4 * 4) -> max(x, 4) where x > 0
min(x // 10, y // 10) -> min(x, y) // 10
min(x // -10, y // -10) -> max(x, y) // -10
# max
max(truncmod(x, 2), truncmod(y, 2) + 10) -> truncmod(y, 2) + 10
max(x % 2, y % 2 + 10) -> y % 2 + 10
max(x + 1, x + 10) -> x + 10
max(x + 1, x) -> x + 1
max(x, x + 2) -> x + 2
max(1 - x, 2 - x) -> 2 - x
max(min(x, y), max(x, y)) -> max(x, y)
max(min(x, y), max(y, x)) -> max(x, y)
max(min(x, y), x) -> x
max(max(x, y), y) -> max(x, y)
max(x, min(y, x)) -> x
max(y, max(x, y)) -> max(x, y)
max(max(max(max(max(x, y), z), x * 2), z * 2), y) -> max(max(max(max(x, y), z), x * 2), z * 2)
max(min(x, y), min(x, z)) -> min(max(y, z), x)
max(min(y, x), min(z, x)) -> min(max(y, z), x)
max(y + x, z + x) -> max(y, z) + x
max(x - y, x - z) -> x - min(y, z)
max(y - x, z - x) -> max(y, z) - x
max(max(x, 1), 10) -> max(x, 10)
max(max(x, 11), 10) -> max(x, 11)
max(x * 3, 9) -> max(x, 3) * 3
max(3 - x, 1) -> 3 - min(x, 2)
max(x * 2, 0) -> max(x, 0) * 2
max(0 - x * 2, 0) -> min(x, 0) * -2
max(x * -2, -4) -> min(x, 2) * -2
max(x * 0, 4) -> 4
max(truncdiv(x, 10), truncdiv(y, 10)) -> truncdiv(max(x, y), 10)
max(truncdiv(x + 3, 4) * 4, x) -> truncdiv(x + 3, 4) * 4
max(x // 10, y // 10) -> max(x, y) // 10
max(x // -10, y // -10) -> min(x, y) // -10
max((x + 3) // 4 * 4, x) -> (x + 3) // 4 * 4
max(x // 4 * 4, x) -> x
max(x, x // 4 * 4) -> x
# comparisons
truncmod(x, 2) + 10 == 0 -> False
truncmod(x, 2) + 10 != 0 -> True
truncmod(x, 2) + 10 > 1 -> True
truncmod(x, 2) + 10 <= 1 -> False
x % 2 + 2 > 1 -> True
x * 3 + 10 == 0 -> False
x * 3 + 10 != 0 -> True
x - 10 == 0 -> x == 10
10 - x == 0 -> x == 10
x * y == 0 -> x == 0 or y == 0
x - 1 < y -> x <= y
x < y - -1 -> x <= y
x < y + 1 -> x <= y
x + 2 < y + 3 -> x <= y
x - 3 < y - 2 -> x <= y
x + 10 < y + 10 -> x < y
x + 5 < y + 10 -> x < y + 5
x + 10 < y + 5 -> x + 5 < y
x - 5 < y - 10 -> x + 5 < y
x - 10 < y - 5 -> x < y + 5
x < y - 10 -> x + 10 < y
x - 10 < y -> x < y + 10
x + y < x + z -> y < z
x + y < z + x -> y < z
y - x < z - x -> y < z
x - y < x - z -> z < y
x < z + x -> 0 < z
x < x + z -> 0 < z
100 < x + 1 -> 99 < x
1 < 100 - x -> x < 99
x * 3 < y * 3 -> x < y
x * -3 < y * -3 -> y < x
x * 3 >= y * 3 -> y <= x
x * 4 >= 2 -> 1 <= x
x * 2 >= 50 -> 25 <= x
x * 4 <= 2 -> x <= 0
0 - x * 3 <= 0 -> 0 <= x
0 - x * 3 >= 0 -> x <= 0
2 * x <= 0 -> x <= 0
x * 2 >= 3 -> 2 <= x
x * 2 >= 1 -> 1 <= x
x * 2 >= -1 -> 0 <= x
x * 2 >= -3 -> -1 <= x
x * 2 <= 3 -> x <= 1
x * 2 <= 1 -> x <= 0
x * 2 <= -1 -> x <= -1
x * 2 <= -3 -> x <= -2
x * -2 >= 3 -> x <= -2
x * -2 >= 1 -> x <= -1
x * -2 >= -1 -> x <= 0
x * -2 >= -3 -> x <= 1
x * -2 <= 3 -> -1 <= x
x * -2 <= 1 -> 0 <= x
x * -2 <= -1 -> 1 <= x
x * -2 <= -3 -> 2 <= x
truncdiv(x, 2) < 3 -> x < 6
3 < truncdiv(x, 2) -> 7 < x
truncdiv(x, 3) >= 0 -> -2 <= x
truncdiv(x, 2) >= 1 -> 2 <= x
truncdiv(x, 2) >= -1 -> -3 <= x
truncdiv(x, 2) <= 1 -> x <= 3
truncdiv(x, 2) <= 0 -> x <= 1
truncdiv(x, 2) <= -1 -> x <= -2
truncdiv(x, 4) * 4 < x -> 0 < truncmod(x, 4)
truncdiv(x, 4) * 4 >= x -> truncmod(x, 4) <= 0
truncdiv(x, 4) * 4 < x + y -> 0 < truncmod(x, 4) + y
truncdiv(x, 4) * 4 < x - y -> y < truncmod(x, 4)
truncdiv(x + 2, 4) * 4 >= x -> truncmod(x + 2, 4) <= 2
truncdiv(x + 2, 4) * 4 >= x + y -> truncmod(x + 2, 4) + y <= 2
truncdiv(x + 2, 4) * 4 >= x - y -> truncmod(x + 2, 4) <= y + 2
x // 2 < 3 -> x < 6
3 < x // 2 -> 7 < x
-3 < x // 2 -> -5 < x
x // 3 >= 0 -> 0 <= x
x % y < y -> True where y >= 0
x % y <= y - 1 -> True where y >= 0
x % y < y -> x % y < y
x // y < z -> x // y < z where y >= 0
x // 2 >= -1 -> -2 <= x
x // 2 <= 1 -> x <= 3
x // 2 <= -1 -> x <= -1
x // 4 * 4 < x -> 0 < x % 4
x // 4 * 4 >= x -> x % 4 == 0
x // 4 * 4 < x + y -> 0 < x % 4 + y
x // 4 * 4 < x - y -> y < x % 4
(x + 2) // 4 * 4 >= x -> (x + 2) % 4 <= 2
(x + 2) // 4 * 4 >= x + y -> (x + 2) % 4 + y <= 2
(x + 2) // 4 * 4 >= x - y -> (x + 2) % 4 <= y + 2
x // 8 == 3 and x % 8 == 4 -> x == 28
x % 8 == 4 and x // 8 == -3 -> x == -20
0 <= x - y * 5 and x - y * 5 < 5 -> y == x // 5
x - y * 5 < 5 and 0 <= x - y * 5 -> y == x // 5
x < 20 and x % 5 < 2 -> x < 17 and x % 5 < 2
x <= 18 and x % 5 < 2 -> x < 17 and x % 5 < 2
x < -20 and x % 5 < 2 -> x < -23 and x % 5 < 2
x <= -22 and x % 5 < 2 -> x < -23 and x % 5 < 2
x < 16 and x % 5 < 2 -> x < 16 and x % 5 < 2
x <= 15 and x % 5 < 2 -> x <= 15 and x % 5 < 2
x // 10 == 5 and x % 10 < 7 -> 50 <= x and x < 57
x // 10 == 5 and x % 10 <= 7 -> 50 <= x and x <= 57
x // 10 == -5 and x % 10 < 7 -> -50 <= x and x < -43
x // 10 == 5 and 7 < x % 10 -> 57 < x and x < 60
x // 10 == -5 and 7 <= x % 10 -> -43 <= x and x < -40
min(x, 11) < 10 -> x < 10
min(x, 8) < 10 -> True
max(8, x) > 10 -> 10 < x
x + 1 < max(8, x) -> x < 7
x < 11 -> True where x <= 10
x <= 10 -> True where x <= 10
x + y <= 10 -> True where x <= 10, y <= 0
x + y >= -10 -> True where x >= 0, y >= -10
z - 5 <= y + 10 -> True where z <= 5, y >= -10
x > -1 and z <= x + 5 -> True where x >= 0, z <= 5
x * y <= 0 -> True where x >= 0, y <= 0
x * y < (x + y) * 2048 -> True where x > 0, y > 0, x < 2048
x * y < (x + y) * 2048 -> True where x > 0, y > 0, x <= 2048
x * y < (x + y) * 2048 -> x * y < (x + y) * 2048 where x > 0, y > 0, x <= 2049
x * y < (x + y) * 2048 -> True where x > 0, y > 0, x < 4096, y < 4096
x * y < (x + y) * 2048 -> x * y < (x + y) * 2048 where x > 0, y > 0, x <= 4096, y <= 4096
x * y < (x + y) * 2048 -> x * y < (x + y) * 2048 where x >= 0, y > 0, x < 2048
x * y * 8192 < (y + x) * 16777216 -> True where x > 0, y > 0, x < 4096, y < 4096
x * y * 59 < (y + x) * 176128 -> True where x > 0, y > 0, x < 4096, y < 4096
(x + 1) * (y - 1) < 0 -> True where x >= 0, y <= 0
y * y >= 0 -> True where y <= 0
x * 6 <= -3 -> False where x >= 0
truncmod(y - 1, 3) == 0 -> truncmod(y + -1, 3) == 0
# logic
x == y and x != y -> False
x != y and x == y -> False
x > 1 and not x > 1 -> False
x <= y and y < x -> False
y < x and x <= y -> False
x < 1 and 0 < x -> False
x < 0 and 1 < x -> False
x < 1 and 1 <= x -> False
x <= 1 and 1 < x -> False
1 <= x and x < 1 -> False
1 < x and x <= 1 -> False
x <= 1 and 2 <= x -> False
2 <= x and x <= 1 -> False
x == 1 and x != 2 -> x == 1
x == 1 and x == 2 -> False
x == y or x != y -> True
x > y or not x > y -> True
x <= y or y < x -> True
y < x or y >= x -> True
x < 1 or 0 < x -> True
0 < x or x < 1 -> True
x < 1 or 1 <= x -> True
x <= 1 or 1 < x -> True
1 <= x or x < 1 -> True
x <= 1 or 2 <= x -> True
x != 1 or x == 2 -> x != 1
x != 1 or x != 2 -> True
x == 1 or (y == 1 or z == 1) -> x == 1 or y == 1 or z == 1
x == 1 and (y == 1 and z == 1) -> x == 1 and y == 1 and z == 1
# intrinsics
shift_left(1, 10) -> 1024
"""

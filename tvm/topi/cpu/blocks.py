"""The channel blocks of blocked layouts (NCHWc)."""

from __future__ import annotations

# Up to so many channels are a single block: they do not fill a vector.
MAX_UNBLOCKED_CHANNELS = 4


def block_of(channels: int, lanes: int) -> int:
    """The block that needs the fewest vectors; of those the smallest."""
    if channels <= MAX_UNBLOCKED_CHANNELS:
        return channels
    sizes = [b for b in (4, 8, 16, 32, 64) if b <= lanes]
    return min(sizes, key=lambda b: (-(-channels // b), b))


def byte_block(channels: int, lanes: int) -> int:
    """The block of channels of bytes. Where accumulators are vectors of more than 4, it is theirs, or half of them
    where channels are whole blocks of that: another layout between two products costs more than they save. Otherwise
    it is the one that fills up least, and of those the largest, which is a vector."""
    if lanes > 4:
        half = lanes // 2
        return 4 if channels <= 4 else half if channels % lanes and channels % half == 0 else lanes
    return min((16, 8, 4), key=lambda b: (-(-channels // b) * b, -b))


def group_choice(inside: int, per: int, groups: int, lanes: int) -> tuple[int, int] | None:
    """(block, groups to merge) for groups of ``inside`` input and ``per`` output channels: the most useful lanes, and
    of equals the largest block, which the layouts of neighbouring operators have too."""
    best: tuple[float, int, int] | None = None
    for block in (b for b in (4, 8, 16, 32, 64) if b <= lanes):
        for count in (d for d in range(1, groups + 1) if groups % d == 0):
            if inside * count % block == 0 and per * count % block == 0:
                option = (block / count, block, count)
                best = option if best is None or option > best else best
                break
    return None if best is None or best[0] < 1 else (best[1], best[2])


def byte_groups(channels: int, filters: int, groups: int, lanes: int) -> tuple[int, int] | None:
    """(block, groups to merge) for a grouped convolution of bytes; None where its groups make no whole blocks."""
    if channels % groups or filters % groups:
        return None
    return group_choice(channels // groups, filters // groups, groups, max(lanes, 4))


def tile_block(channels: int, most: int) -> int:
    """The block of channels that is the k of a tile and at most two tiles of filters: the one that fills up least; of
    those the largest."""
    return min(range(most, 0, -4), key=lambda b: (-(-channels // b) * b, -b))


def tile_byte_block(channels: int) -> int:
    """The block of channels of bytes for products of tiles: all of them where they are the k of one, else whole tiles
    of filters that fill up least; of those the largest."""
    if channels <= 64:
        return 4 if channels <= 4 else -(-channels // 8) * 8
    return min((64, 48, 32), key=lambda b: (-(-channels // b) * b, -b))


def tile_groups(channels: int, filters: int, groups: int) -> tuple[int, int] | None:
    """(block, groups to merge) for a grouped convolution by products of tiles; None where it is faster without."""
    choice = group_choice(channels // groups, filters // groups, groups, 32)
    return choice if choice is not None and choice[0] >= 16 else None

"""Channel block sizes of blocked layouts (NCHWc)."""

from __future__ import annotations

# Up to this number of channels, all channels form one block, because they do not fill a vector.
MAX_UNBLOCKED_CHANNELS = 4


def block_of(channels: int, lanes: int) -> int:
    """Return the block size that needs the fewest vectors; among equals, the smallest."""
    if channels <= MAX_UNBLOCKED_CHANNELS:
        return channels
    sizes = [b for b in (4, 8, 16, 32, 64) if b <= lanes]
    return min(sizes, key=lambda b: (-(-channels // b), b))


def byte_block(channels: int, lanes: int) -> int:
    """Return the block size for int8 channels. With accumulators of more than 4 lanes it is the number of lanes, or
    half of it if that avoids padding, because a layout change between two convolutions costs more than smaller blocks
    save. Otherwise it is the size with the least padding; among equals, the largest, which is one vector."""
    if lanes > 4:
        half = lanes // 2
        return 4 if channels <= 4 else half if channels % lanes and channels % half == 0 else lanes
    return min((16, 8, 4), key=lambda b: (-(-channels // b) * b, -b))


def group_choice(inside: int, per: int, groups: int, lanes: int) -> tuple[int, int] | None:
    """Return (block size, groups to merge) for groups of ``inside`` input and ``per`` output channels. The choice uses
    the most vector lanes; among equals, it is the largest block, which layouts of neighbouring operators use as
    well."""
    best: tuple[float, int, int] | None = None
    for block in (b for b in (4, 8, 16, 32, 64) if b <= lanes):
        for count in (d for d in range(1, groups + 1) if groups % d == 0):
            if inside * count % block == 0 and per * count % block == 0:
                option = (block / count, block, count)
                best = option if best is None or option > best else best
                break
    return None if best is None or best[0] < 1 else (best[1], best[2])


def byte_groups(channels: int, filters: int, groups: int, lanes: int) -> tuple[int, int] | None:
    """Return (block size, groups to merge) for a grouped int8 convolution, or None if its groups do not form whole
    blocks."""
    if channels % groups or filters % groups:
        return None
    return group_choice(channels // groups, filters // groups, groups, max(lanes, 4))


def tile_block(channels: int, most: int) -> int:
    """Return the block size for a matmul with matrix registers: one block is the K dimension of a tile and at most two
    tiles of filters. Choose the least padding; among equals, the largest."""
    return min(range(most, 0, -4), key=lambda b: (-(-channels // b) * b, -b))


def tile_byte_block(channels: int) -> int:
    """Return the int8 block size for matrix registers. All channels form one block if they fit the K dimension of one
    tile. Otherwise choose whole tiles of filters with the least padding; among equals, the largest."""
    if channels <= 64:
        return 4 if channels <= 4 else -(-channels // 8) * 8
    return min((64, 48, 32), key=lambda b: (-(-channels // b) * b, -b))


def tile_groups(channels: int, filters: int, groups: int) -> tuple[int, int] | None:
    """Return (block size, groups to merge) for a grouped convolution with matrix registers, or None if it is faster
    without them."""
    choice = group_choice(channels // groups, filters // groups, groups, 32)
    return choice if choice is not None and choice[0] >= 16 else None

"""The choices of knobs: splits of an axis, orders or annotations of axes, or a list of values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .entity import AnnotateEntity, Entity, OtherOptionEntity, ReorderEntity, SplitEntity

MAX_FACTOR = 1 << 31


class VirtualAxis:
    """An axis length that can be split if the axis itself is not available."""

    count = 0

    def __init__(self, var: Any, name: str | None = None):
        VirtualAxis.count += 1
        self.name = name or f"axis_{VirtualAxis.count - 1}"
        self.num_output = 1
        self.length = _length_of(var)

    def __repr__(self) -> str:
        return f"vaxis({self.name})"


def _length_of(var: Any) -> int:
    if isinstance(var, VirtualAxis):
        return var.length
    dom = getattr(var, "dom", None)
    value = dom.extent if dom is not None else var
    value = getattr(value, "value", value)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise RuntimeError(f"an axis of a configuration space must have a constant length, got {var!r}")
    return int(value)


class Axis:
    """Output ``index`` of a knob that splits or reorders."""

    def __init__(self, space: TransformSpace | None, index: int):
        self.space, self.index = space, index

    def __repr__(self) -> str:
        return f"{self.space}[{self.index}]"


class TransformSpace:
    """The choices of one knob."""

    def __init__(self):
        self.entities: list[Entity] = []
        self.num_output = 0

    def __len__(self) -> int:
        return len(self.entities)

    def __getitem__(self, index: int) -> Entity:
        return self.entities[index]


def get_factors(n: int) -> list[int]:
    """Return the divisors of ``n`` in ascending order."""
    small = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return small + [n // d for d in reversed(small) if d * d != n]


def get_pow2s(n: int) -> list[int]:
    """Return the powers of two up to ``n``."""
    return [1 << i for i in range(n.bit_length())]


class SplitSpace(TransformSpace):
    """The splits of an axis into ``num_outputs`` loops; the extent of the outermost loop follows from the others."""

    kind = "sp"

    def __init__(
        self,
        axes: Sequence[Any],
        policy: str,
        num_outputs: int = 2,
        max_factor: int = MAX_FACTOR,
        filter: Callable[[SplitEntity], bool] | None = None,
        candidate: Iterable[Sequence[int]] = (),
        no_tail: bool | None = None,
        **_ignored: Any,
    ):
        super().__init__()
        axis = axes[0]
        self.policy = policy
        self.product = axis.length if isinstance(axis, VirtualAxis) else _length_of(axis)
        self.num_output = num_outputs
        if self.product <= 0:
            raise RuntimeError(f"define_split: the axis has length {self.product}; it must be positive")
        if num_outputs < 1:
            raise RuntimeError(f"define_split: num_outputs must be at least 1, got {num_outputs}")
        if policy == "candidate":
            self.entities = [SplitEntity(_checked_sizes(size, num_outputs)) for size in candidate]
        else:
            factors = [f for f in _split_factors(self.product, policy) if f <= max_factor]
            even = policy == "factors" if no_tail is None else no_tail
            self.entities = [SplitEntity([-1, *sizes]) for sizes in self._sizes(factors, even)]
        if filter is not None:
            self.entities = [e for e in self.entities if filter(e)]
        if not self.entities:
            raise RuntimeError(
                f"define_split: the filter rejects all splits of {self.product} into {num_outputs} loops"
            )

    def _sizes(self, factors: list[int], even: bool) -> list[tuple[int, ...]]:
        """Yield the extents of the inner loops, outermost first; the innermost changes slowest."""
        found = []

        def extend(chosen: tuple[int, ...], product: int) -> None:
            if len(chosen) == self.num_output - 1:
                if self.product % product == 0 or not even and product < self.product:
                    found.append(chosen)
                return
            for factor in factors:
                if product * factor > self.product:
                    break
                extend((factor, *chosen), product * factor)

        extend((), 1)
        return found

    @staticmethod
    def get_num_output(axes: Sequence[Any], policy: str, **kwargs: Any) -> int:
        return kwargs.get("num_outputs", 2)

    def __repr__(self) -> str:
        return f"Split(policy={self.policy}, product={self.product}, num_outputs={self.num_output}) len={len(self)}"


def _checked_sizes(size: Sequence[int], count: int) -> list[int]:
    if len(size) != count:
        raise RuntimeError(f"define_split: candidate {list(size)} has {len(size)} sizes, but num_outputs is {count}")
    return list(size)


def _split_factors(n: int, policy: str) -> list[int]:
    if policy == "factors":
        return get_factors(n)
    if policy == "power2":
        return get_pow2s(n)
    if policy == "verbose":
        return sorted({*get_factors(n), *get_pow2s(n)})
    raise RuntimeError(f"define_split: invalid policy '{policy}'; use factors, power2, verbose or candidate")


class ReorderSpace(TransformSpace):
    """The orders of several loops."""

    kind = "re"

    def __init__(self, axes: Sequence[Any], policy: str, **kwargs: Any):
        super().__init__()
        self.num_output = count = len(axes)
        self.policy = policy
        everything = list(range(count))
        if policy == "identity":
            orders = [everything]
        elif policy == "all":
            orders = [list(p) for p in itertools.permutations(everything)]
        elif policy in ("interval", "interval_all"):
            first, last = kwargs["interval"]
            inside = [list(p) for p in itertools.permutations(everything[first:last])]
            orders = [everything[:first] + p + everything[last:] for p in inside]
        elif policy == "candidate":
            orders = [_as_order(c, axes) for c in kwargs["candidate"]]
        elif policy in ("interleave", "interleave_cuda"):
            orders = _interleaved(axes, kwargs["spatial"], kwargs["reduce"], policy == "interleave_cuda")
        else:
            raise RuntimeError(
                f"define_reorder: invalid policy '{policy}'; use identity, all, interval, candidate or interleave"
            )
        self.entities = [ReorderEntity(order) for order in orders]

    @staticmethod
    def get_num_output(axes: Sequence[Any], policy: str, **kwargs: Any) -> int:
        return len(axes)

    def __repr__(self) -> str:
        return f"Reorder(policy={self.policy}) len={len(self)}"


def _as_order(candidate: Sequence[Any], axes: Sequence[Any]) -> list[int]:
    return [c if isinstance(c, int) else next(i for i, a in enumerate(axes) if a is c) for c in candidate]


def _interleaved(axes: Sequence[Any], spatial: Any, reduce: Any, apart: bool) -> list[list[int]]:
    """Return interleaved loop orders. ``spatial`` and ``reduce`` contain the loops of each split axis, outermost first,
    whose order is kept. The outer loops of spatial axes come first, in every order. Then come their innermost loops and
    those of reductions, interleaved in every way, or with ``apart`` all reductions before them."""
    tiles = [_as_order(chain, axes) for chain in spatial]
    sums = [_as_order(chain, axes) for chain in reduce]
    outer, inner = _merged([chain[:-1] for chain in tiles]), [chain[-1:] for chain in tiles]
    if not apart:
        return [o + i for o in outer for i in _merged([*inner, *sums])]
    return [o + r + i for o in outer for r in _merged(sums) for i in _merged(inner)]


def _merged(chains: list[list[int]]) -> list[list[int]]:
    """Return all interleavings of several lists that keep the order of each list."""
    left = [chain for chain in chains if chain]
    if not left:
        return [[]]
    return [
        [chain[0], *rest]
        for place, chain in enumerate(left)
        for rest in _merged([*left[:place], chain[1:], *left[place + 1 :]])
    ]


class AnnotateSpace(TransformSpace):
    """The annotations of several loops: unroll, vectorize, threads."""

    kind = "an"

    def __init__(self, axes: Sequence[Any], policy: str, **kwargs: Any):
        super().__init__()
        self.policy = policy
        self.num_output = count = len(axes)
        if policy in ("bind_gpu", "bind_gpu_virtual"):
            choices = [_thread_names(count, policy == "bind_gpu_virtual")]
        elif policy == "locate_cache":
            choices = [list(anchors) for anchors in itertools.combinations(range(count), kwargs["num_anchor"])]
        elif policy in ("try_vec", "try_unroll", "try_unroll_vec", "try_parallel"):
            choices = _tried(count, policy)
        elif policy == "candidate":
            choices = [list(c) for c in kwargs["candidate"]]
        else:
            raise RuntimeError(
                f"define_annotate: invalid policy '{policy}'; use bind_gpu, bind_gpu_virtual, locate_cache, "
                "try_vec, try_unroll, try_unroll_vec or candidate"
            )
        self.entities = [AnnotateEntity(c) for c in choices]

    @staticmethod
    def get_num_output(axes: Sequence[Any], policy: str, **kwargs: Any) -> int:
        return len(axes)

    def __repr__(self) -> str:
        return f"Annotate(policy={self.policy}) len={len(self)}"


def _tried(count: int, policy: str) -> list[list[str]]:
    """Return the annotations in which one loop may be vectorized, only the outermost may be parallel, and any may be
    unrolled."""
    way = ["none", *(word for word in ("unroll", "vec") if word in policy)]
    ways = [[*way, *(["parallel"] if "parallel" in policy and i == 0 else [])] for i in range(count)]
    return [list(choice) for choice in itertools.product(*ways) if choice.count("vec") <= 1]


def _thread_names(count: int, virtual: bool) -> list[str]:
    dims = "zyx"
    levels = ["blockIdx", "vthread", "threadIdx"] if virtual else ["blockIdx", "threadIdx"]
    used = min(count // len(levels), 3)
    if used == 0:
        raise RuntimeError(f"define_annotate: {count} axes are not enough to bind to {' and '.join(levels)}")
    names = []
    for level in levels:
        names += ["vthread" if level == "vthread" else f"{level}.{d}" for d in dims[3 - used :]]
    # Loops without a thread are fused with the next loop.
    return ["fuse"] * (count - len(names)) + names


class OtherOptionSpace(TransformSpace):
    """A list of values."""

    kind = "ot"

    def __init__(self, axes: Sequence[Any], policy: str, candidate: Sequence[Any] = (), **kwargs: Any):
        super().__init__()
        if not candidate:
            raise RuntimeError("define_knob: the list of candidates is empty")
        self.entities = [OtherOptionEntity(value) for value in candidate]

    @staticmethod
    def get_num_output(axes: Sequence[Any], policy: str, **kwargs: Any) -> int:
        return 0

    def __repr__(self) -> str:
        return f"OtherOption({self.entities}) len={len(self)}"

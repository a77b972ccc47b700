"""The choice of a knob, and its application to a schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...error import not_defined
from ...te.operation import thread_axis


class InstantiationError(ValueError):
    """A template rejected a configuration."""


class KnobError(InstantiationError, KeyError):
    """The knobs of a configuration differ from those of its template."""

    __str__ = ValueError.__str__


class Entity:
    """The choice of a knob. Records contain its ``kind`` and ``value``."""

    kind = ""
    value: Any

    def features(self) -> list[float]:
        """Return the choice as features of a cost model."""
        raise not_defined(self, "features")


class SplitEntity(Entity):
    """The extents of the loops that an axis is split into, outermost first; -1 is computed from the others."""

    kind = "sp"

    def __init__(self, size: Sequence[int]):
        self.size = [int(s) for s in size]

    @property
    def value(self) -> list[int]:
        return list(self.size)

    def apply(self, sch: Any, op: Any, axis: Any) -> list[Any]:
        """Split ``axis`` of the stage of ``op`` and return the loops, outermost first."""
        stage, loops = sch[op], []
        for size in reversed(self.size[1:]):
            axis, inner = stage.split(axis, factor=size)
            loops.insert(0, inner)
        return [axis, *loops]

    def features(self) -> list[float]:
        return [float(s) for s in self.size]

    def __repr__(self) -> str:
        return str(self.size)


class ReorderEntity(Entity):
    """An order of loops."""

    kind = "re"

    def __init__(self, perm: Sequence[int]):
        self.perm = [int(p) for p in perm]

    @property
    def value(self) -> list[int]:
        return list(self.perm)

    def apply(self, sch: Any, op: Any, axes: Sequence[Any]) -> list[Any]:
        """Reorder ``axes`` and return them in the new order."""
        if len(axes) != len(self.perm):
            raise InstantiationError(f"reorder: the knob has {len(self.perm)} loops, got {len(axes)}")
        order = [axes[i] for i in self.perm]
        sch[op].reorder(*order)
        return order

    def features(self) -> list[float]:
        return [float(p) for p in self.perm]

    def __repr__(self) -> str:
        return str(self.perm)


_ANNOTATIONS = (
    "none",
    "unroll",
    "vec",
    "parallel",
    "vthread",
    "blockIdx.z",
    "blockIdx.y",
    "blockIdx.x",
    "threadIdx.z",
    "threadIdx.y",
    "threadIdx.x",
)


class AnnotateEntity(Entity):
    """An annotation for each of several loops; or integers, the loops at which other stages are computed."""

    kind = "an"

    def __init__(self, anns: Sequence[str | int]):
        self.anns = list(anns)

    @property
    def value(self) -> list[str | int]:
        return list(self.anns)

    def apply(
        self,
        sch: Any,
        op: Any,
        axes: Sequence[Any],
        axis_lens: Sequence[int] | None = None,
        max_unroll: int | None = None,
        vec_size: Sequence[int] | None = None,
        cfg: Any = None,
        source: Any = None,
    ) -> list[Any]:
        """Annotate the loops and return the resulting loops. If lengths (``axis_lens``) are given, loops that are too
        long to unroll or vectorize are rejected. ``source`` contains, for each integer, the stages to compute there."""
        stage, axes = sch[op], list(axes)
        for i, word in enumerate(self.anns):
            if isinstance(word, int):
                if source is None:
                    raise InstantiationError(
                        "annotate: the knob contains positions of other stages; pass these stages as `source`"
                    )
                for other in source[i]:
                    sch[other].compute_at(stage, axes[word])
                continue
            axis = axes[i]
            length = axis_lens[i] if axis_lens is not None else None
            if word == "unroll":
                if max_unroll and length is not None and length > max_unroll and cfg is not None:
                    cfg.raise_error(f"unroll: the loop has {length} iterations, more than the limit {max_unroll}")
                stage.unroll(axis)
            elif word == "vec":
                if vec_size and length is not None and length not in vec_size and cfg is not None:
                    cfg.raise_error(f"vectorize: the loop has {length} lanes, which is not in {list(vec_size)}")
                stage.vectorize(axis)
            elif word == "parallel":
                stage.parallel(axis)
            elif word == "fuse":
                axes[i + 1] = stage.fuse(axis, axes[i + 1])
            elif word != "none":
                stage.bind(axis, thread_axis(word))
        return [axis for axis, word in zip(axes, self.anns) if word != "fuse"] if "fuse" in self.anns else axes

    def features(self) -> list[float]:
        words = [a if isinstance(a, int) else _ANNOTATIONS.index(a) if a in _ANNOTATIONS else -1 for a in self.anns]
        return [float(w) for w in words]

    def __repr__(self) -> str:
        return str(self.anns)


class OtherOptionEntity(Entity):
    """An arbitrary value."""

    kind = "ot"

    def __init__(self, val: Any):
        self.val = val

    @property
    def value(self) -> Any:
        return list(self.val) if isinstance(self.val, tuple) else self.val

    def features(self) -> list[float]:
        return _as_features(self.val)

    def __repr__(self) -> str:
        return str(self.val)


def _as_features(value: Any) -> list[float]:
    if isinstance(value, (list, tuple)):
        return [x for v in value for x in _as_features(v)]
    if isinstance(value, (bool, int, float)):
        return [float(value)]
    # Strings have no order; the sum of their characters distinguishes them in the same way in every process.
    return [-1.0] if value is None else [float(sum(map(ord, str(value))) % 997)]


_KINDS = {"sp": SplitEntity, "re": ReorderEntity, "an": AnnotateEntity, "ot": OtherOptionEntity}


def entity_from_json(name: str, kind: str, value: Any) -> Entity:
    """Return the choice that a record stores as ``kind`` and ``value``."""
    make = _KINDS.get(kind)
    if make is None:
        raise RuntimeError(f"knob '{name}' has the unknown kind '{kind}'; use one of {', '.join(_KINDS)}")
    return make(value)

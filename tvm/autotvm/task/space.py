"""Configuration spaces: the knobs of a template, the choices of each knob, and configurations.

A space is the product of its knobs. An index of the space is a mixed-radix number whose lowest digit is the choice of
the first knob, so an index means the same configuration in every process that defines the same knobs.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from ...te.tensor import Tensor
from .entity import (
    AnnotateEntity,
    Entity,
    InstantiationError,
    KnobError,
    OtherOptionEntity,
    ReorderEntity,
    SplitEntity,
    entity_from_json,
)
from .knobs import (
    AnnotateSpace,
    Axis,
    OtherOptionSpace,
    ReorderSpace,
    SplitSpace,
    TransformSpace,
    VirtualAxis,
    get_factors,
    get_pow2s,
)


class ConfigSpace:
    """The knobs that a template defines. While the template defines the space, every knob has its first choice."""

    def __init__(self):
        self.space_map: dict[str, TransformSpace] = {}
        self._collect = True
        self._entity_map: dict[str, Entity] = {}
        self._constraints: list[Callable[[ConfigEntity], bool]] = []
        self.errors: list[str] = []
        self.code_hash: str | None = None
        self.flop: float = 0
        self.cost: float | None = None
        self.is_fallback = False
        # Indices to try first: the best choices of an analytic model.
        self.start: list[int] = []
        self._array_filters: list[Callable[[dict[str, Any]], Any]] = []
        self._kept: Any = None
        self._valid: dict[int, bool] = {}
        self._filtered_length: int | None = None

    # -- definition ------------------------------------------------------------------------------------------------

    @staticmethod
    def axis(var: Any) -> VirtualAxis:
        """An axis given by its length: an int, an axis of an operation, or an extent.

        Parameters
        ----------
        var : int, IterVar or PrimExpr
            The axis.

        Returns
        -------
        VirtualAxis
            The axis.
        """
        return VirtualAxis(var)

    reduce_axis = axis

    def define_split(self, name: str, axis: Any, policy: str = "factors", **kwargs: Any) -> list[Axis]:
        """Define a knob that splits an axis; policies are factors, power2, verbose and candidate.

        Parameters
        ----------
        name : str
            The name of the knob.
        axis : Axis
            The axis to split.
        policy : str
            The policy that generates the candidates.
        **kwargs
            Further options: ``num_outputs``, ``filter``, ``max_factor``, ``candidate``.

        Returns
        -------
        list of Axis
            The resulting axes.
        """
        return self._define(SplitSpace, name, [axis], policy, **kwargs)

    def define_reorder(self, name: str, axes: Sequence[Any], policy: str, **kwargs: Any) -> list[Axis]:
        """Define a knob that reorders loops.

        Parameters
        ----------
        name : str
            The name of the knob.
        axes : list of Axis
            The loops.
        policy : str
            The policy that generates the candidates.
        **kwargs
            Further options of the policy.

        Returns
        -------
        list of Axis
            The loops.
        """
        return self._define(ReorderSpace, name, list(axes), policy, **kwargs)

    def define_annotate(self, name: str, axes: Sequence[Any], policy: str, **kwargs: Any) -> list[Axis]:
        """Define a knob that annotates loops.

        Parameters
        ----------
        name : str
            The name of the knob.
        axes : list of Axis
            The loops.
        policy : str
            The policy that generates the candidates.
        **kwargs
            Further options of the policy.

        Returns
        -------
        list of Axis
            The loops.
        """
        return self._define(AnnotateSpace, name, list(axes), policy, **kwargs)

    def define_knob(self, name: str, candidate: Sequence[Any]) -> None:
        """Define a knob with the values of a list.

        Parameters
        ----------
        name : str
            The name of the knob.
        candidate : list
            The values.
        """
        self._define(OtherOptionSpace, name, [], "", candidate=list(candidate))

    def add_flop(self, flop: Any) -> None:
        """Add a number of operations explicitly, if they cannot be counted in the computation.

        Parameters
        ----------
        flop : float
            The number of operations to add.
        """
        self.flop += float(getattr(flop, "value", flop))

    def raise_error(self, msg: str) -> None:
        """Mark this configuration as invalid; it is not built.

        Parameters
        ----------
        msg : str
            The reason.
        """
        self.errors.append(msg)

    def valid(self) -> bool:
        """Whether no error was raised while the space was defined.

        Returns
        -------
        bool
            True if no error was raised.
        """
        return not self.errors

    def multi_filter(self, filter: Callable[[ConfigEntity], bool]) -> None:
        """Keep only configurations for which ``filter(config)`` is true.

        Parameters
        ----------
        filter : Callable
            The function that returns whether to keep a configuration.
        """
        if self._collect:
            self._constraints.append(filter)
            self.clear_cache()

    def array_filter(self, filter: Callable[[dict[str, Any]], Any]) -> None:
        """Like ``multi_filter``, but for all configurations at once: ``filter`` receives the values of each knob as an
        array with one element per configuration, and returns an array of bools.

        Parameters
        ----------
        filter : Callable
            The function that returns which configurations to keep.
        """
        if self._collect:
            self._array_filters.append(filter)
            self.clear_cache()

    @property
    def is_filtered(self) -> bool:
        return bool(self._constraints or self._array_filters)

    def kept(self) -> Any:
        """Whether the array filters keep each index.

        Returns
        -------
        numpy.ndarray, optional
            A bool for each index.
        """
        import numpy as np

        if self._kept is None:
            total = self.range_length
            values = {name: _value_array(space) for name, space in self.space_map.items()}
            self._kept = np.ones(total, dtype=bool)
            for first in range(0, total, 1 << 20):
                part = np.arange(first, min(first + (1 << 20), total))
                left, columns = part, {}
                for (name, array), dim in zip(values.items(), self.dims):
                    columns[name] = array[left % dim]
                    left = left // dim
                for keep in self._array_filters:
                    self._kept[part] &= np.asarray(keep(columns), dtype=bool)
            # The analytic choice of a template is always valid, whatever a filter returns.
            self._kept[self.start] = True
        return self._kept

    def _define(self, kind: Any, name: str, axes: list[Any], policy: str, **kwargs: Any) -> list[Axis]:
        if self._collect:
            given = [a if isinstance(a, (VirtualAxis, Axis)) else _maybe_axis(a) for a in axes]
            space = kind(given, policy, **kwargs)
            self.space_map[name] = space
            # Defining a knob again replaces it, but an explicitly set default is kept.
            if not (self.is_fallback and name in self._entity_map):
                self._entity_map[name] = space[0]
            self.clear_cache()
            return [Axis(space, i) for i in range(space.num_output)]
        return [Axis(None, i) for i in range(kind.get_num_output(axes, policy, **kwargs))]

    # -- size --------------------------------------------------------------------------------------------------------

    @functools.cached_property
    def dims(self) -> list[int]:
        """The number of choices of each knob."""
        return [len(space) for space in self.space_map.values()]

    @property
    def range_length(self) -> int:
        """The number of indices, including those that a filter rejects."""
        return math.prod(self.dims)

    def __len__(self) -> int:
        """Return the number of configurations that the filters keep."""
        if not self.is_filtered:
            return self.range_length
        if self._filtered_length is None:
            self._filtered_length = self.subrange_length(0, self.range_length)
        return self._filtered_length

    def subrange_length(self, start: int, end: int) -> int:
        """The number of configurations that the filters keep among the indices from ``start`` to ``end`` (exclusive).

        Parameters
        ----------
        start : int
            The first index.
        end : int
            The index after the last one.

        Returns
        -------
        int
            The number of configurations.
        """
        self._check_range(start, end)
        if not self._constraints:
            return int(self.kept()[start:end].sum()) if self._array_filters else end - start
        return sum(self.is_index_valid(i) for i in range(start, end))

    def _check_range(self, start: int, end: int) -> None:
        if not 0 <= start <= end <= self.range_length:
            raise AssertionError(
                f"indices {start} to {end} are out of range for a space of {self.range_length} configurations"
            )

    def is_index_valid(self, index: int) -> bool:
        """Whether the filters keep the configuration.

        Parameters
        ----------
        index : int
            The index.

        Returns
        -------
        bool
            True if they keep it.
        """
        if not 0 <= index < self.range_length:
            return False
        if self._array_filters and not self.kept()[index]:
            return False
        if not self._constraints:
            return True
        known = self._valid.get(index)
        if known is None:
            entity = self._entity(index)
            known = self._valid[index] = all(keep(entity) for keep in self._constraints)
        return known

    def clear_cache(self) -> None:
        """Clear the cached sizes; required after a knob or a filter is added."""
        self._valid = {}
        self._kept = None
        self._filtered_length = None
        self.__dict__.pop("dims", None)

    # -- indices -------------------------------------------------------------------------------------------------------

    def point2knob(self, point: int) -> list[int]:
        """The choice of each knob at an index.

        Parameters
        ----------
        point : int
            The index.

        Returns
        -------
        list of int
            The index of each choice.
        """
        knob = []
        for dim in self.dims:
            point, digit = divmod(point, dim)
            knob.append(digit)
        return knob

    def knob2point(self, knob: Sequence[int]) -> int:
        """The index of a configuration, given by the choice of each knob.

        Parameters
        ----------
        knob : list of int
            The index of each choice.

        Returns
        -------
        int
            The index.
        """
        point = 0
        for digit, dim in zip(reversed(knob), reversed(self.dims)):
            point = point * dim + int(digit)
        return point

    def get_rand_index(self, start: int | None = None, end: int | None = None, to_exclude: Any = None) -> int:
        """A random index that the filters keep and that is not excluded.

        Parameters
        ----------
        start : int, optional
            The first index.
        end : int, optional
            The index after the last one.
        to_exclude : set of int, optional
            The indices to exclude.

        Returns
        -------
        int
            The index.

        Raises
        ------
        IndexError
            No such index exists.
        """
        first, last = start or 0, self.range_length if end is None else end
        banned = to_exclude if to_exclude is not None else ()
        for _ in range(1 << 16):
            index = random.randrange(first, last)
            if index not in banned and self.is_index_valid(index):
                return index
        left = [i for i in range(first, last) if i not in banned and self.is_index_valid(i)]
        if not left:
            raise IndexError(f"no configuration is left between the indices {first} and {last}")
        return random.choice(left)

    def get_next_index(self, index: int, n: int = 1, start: int | None = None, end: int | None = None) -> int | None:
        """The ``n``-th index after ``index`` that the filters keep (before it, if ``n`` is negative); None outside the
        range.

        Parameters
        ----------
        index : int
            The index.
        n : int
            The number of indices to advance.
        start : int, optional
            The first index of the range.
        end : int, optional
            The index after the last one of the range.

        Returns
        -------
        int, optional
            The index.
        """
        first, last = start or 0, self.range_length if end is None else end
        step = 1 if n > 0 else -1
        left = abs(n)
        while left:
            index += step
            if not first <= index < last:
                return None
            left -= self.is_index_valid(index)
        return index

    def sample_ints(self, m: int) -> list[int]:
        """Return up to ``m`` different random indices that the filters keep.

        Parameters
        ----------
        m : int
            The number of indices.

        Returns
        -------
        list of int
            The indices.
        """
        total = self.range_length
        if self._array_filters and not self._constraints:
            import numpy as np

            places = np.flatnonzero(self.kept())
            return [int(i) for i in random.sample(places.tolist(), min(m, len(places)))]
        if not self._constraints and total <= max(4 * m, 1 << 12):
            return random.sample(range(total), min(m, total))
        found: dict[int, None] = {}
        tries = 0
        while len(found) < m and tries < 64 * m:
            index = random.randrange(total)
            tries += 1
            if index not in found and self.is_index_valid(index):
                found[index] = None
        if len(found) < m and total <= 1 << 20:
            left = [i for i in range(total) if i not in found and self.is_index_valid(i)]
            found.update(dict.fromkeys(random.sample(left, min(m - len(found), len(left)))))
        return list(found)

    def random_walk(self, point: int) -> int:
        """An index that differs from ``point`` in one knob.

        Parameters
        ----------
        point : int
            The index.

        Returns
        -------
        int
            The new index.
        """
        movable = [i for i, dim in enumerate(self.dims) if dim > 1]
        if not movable:
            return point
        for _ in range(256):
            knob = self.point2knob(point)
            i = random.choice(movable)
            other = random.randrange(self.dims[i] - 1)
            knob[i] = other if other < knob[i] else other + 1
            moved = self.knob2point(knob)
            if self.is_index_valid(moved):
                return moved
        return self.get_rand_index()

    # -- configurations ----------------------------------------------------------------------------------------------

    def _entity(self, index: int) -> ConfigEntity:
        knobs = zip(self.space_map.items(), self.point2knob(index))
        entities = {name: space[choice] for (name, space), choice in knobs}
        return ConfigEntity(index, self.code_hash, entities, self._constraints)

    def get(self, index: int) -> ConfigEntity:
        """The configuration at an index.

        Parameters
        ----------
        index : int
            The index.

        Returns
        -------
        ConfigEntity
            The configuration.

        Raises
        ------
        IndexError
            The index is outside the space.
        """
        if not 0 <= index < self.range_length:
            raise IndexError(f"index {index} is out of range for a space of {self.range_length} configurations")
        if not self.is_index_valid(index):
            raise IndexError(f"a filter of the space rejects index {index}")
        return self._entity(index)

    def index_of(self, values: dict[str, Any]) -> int | None:
        """The index of the configuration with these values; None if a value is not a choice of its knob.

        Parameters
        ----------
        values : dict
            The value of each knob.

        Returns
        -------
        int, optional
            The index.
        """
        knob = []
        for name, space in self.space_map.items():
            wanted = _plain(values.get(name))
            at = next((i for i, e in enumerate(space.entities) if _plain(e.value) == wanted), None)
            if at is None:
                return None
            knob.append(at)
        return self.knob2point(knob)

    def __iter__(self):
        return self._entity_map.__iter__()

    def __getitem__(self, name: str) -> Any:
        try:
            return self._entity_map[name]
        except KeyError:
            known = ", ".join(self._entity_map) or "none"
            raise KeyError(f"the configuration has no knob '{name}'; its knobs are: {known}") from None

    def __repr__(self) -> str:
        rows = [f"ConfigSpace (len={len(self)}, range_length={self.range_length}, space_map="]
        rows += [f"  {i:2d} {name}: {space}" for i, (name, space) in enumerate(self.space_map.items())]
        return "\n".join(rows) + "\n)"


def _maybe_axis(value: Any) -> Any:
    return value if isinstance(value, (list, tuple, str, Tensor)) else VirtualAxis(value)


def _value_array(space: TransformSpace) -> Any:
    import numpy as np

    values = [e.value for e in space.entities]
    if all(isinstance(v, (int, float, str)) for v in values):
        return np.array(values)
    array = np.empty(len(values), dtype=object)
    array[:] = [_plain(v) for v in values]
    return array


def _plain(value: Any) -> Any:
    """Convert lists to tuples, which records do not distinguish."""
    return tuple(_plain(v) for v in value) if isinstance(value, (list, tuple)) else value


class ConfigEntity(ConfigSpace):
    """A configuration: one choice for every knob.

    Parameters
    ----------
    index : int
        The index in the space.
    code_hash : str
        A hash of the template, which identifies records of an older version.
    entity_map : dict[str, Entity]
        The choice of each knob.
    constraints : optional
        The conditions that the configuration must satisfy.
    """

    def __init__(self, index: int, code_hash: str | None, entity_map: dict[str, Entity], constraints: Any = ()):
        super().__init__()
        self.index = index
        self.code_hash = code_hash
        self._collect = False
        self._entity_map = entity_map
        self._constraints = list(constraints or ())
        self.space_map = {}

    def _define(self, kind: Any, name: str, axes: list[Any], policy: str, **kwargs: Any) -> list[Axis]:
        """Check that the choice for a knob matches the knob that the template defines."""
        choice = self[name]
        if choice.kind != kind.kind:
            raise KnobError(
                f"knob '{name}' has the kind '{kind.kind}', but that of the configuration has '{choice.kind}'"
            )
        outputs = super()._define(kind, name, axes, policy, **kwargs)
        if choice.kind in ("sp", "re") and len(choice.value) != len(outputs):
            raise KnobError(
                f"knob '{name}' has {len(outputs)} loops, but that of the configuration has {len(choice.value)}"
            )
        known = [_plain(value) for value in kwargs.get("candidate") or ()] if choice.kind == "ot" else []
        if known and _plain(choice.value) not in known:
            raise KnobError(f"knob '{name}' has the values {known}, but the configuration has {choice.value}")
        return outputs

    def __getitem__(self, name: str) -> Any:
        if name not in self._entity_map:
            raise KnobError(
                f"the configuration has no knob '{name}'; its knobs are: {', '.join(self._entity_map) or 'none'}"
            )
        return self._entity_map[name]

    def get_flatten_feature(self) -> Any:
        """The choices as one feature vector.

        Returns
        -------
        numpy.ndarray
            The vector.
        """
        import numpy as np

        return np.array([x for e in self._entity_map.values() for x in e.features()], dtype="float32")

    def get_other_option(self) -> dict[str, Any]:
        """The values of knobs that are not splits, orders or annotations.

        Returns
        -------
        dict
            The value of each knob.
        """
        return {n: e.val for n, e in self._entity_map.items() if isinstance(e, OtherOptionEntity)}

    def values(self) -> dict[str, Any]:
        """The value of each knob, as stored in records.

        Returns
        -------
        dict
            The value of each knob.
        """
        return {name: _plain(e.value) for name, e in self._entity_map.items()}

    def to_json_dict(self) -> dict[str, Any]:
        """The configuration as plain data, as stored in records.

        Returns
        -------
        dict
            The data.
        """
        entity = [[name, e.kind, e.value] for name, e in self._entity_map.items()]
        return {"index": int(self.index), "code_hash": self.code_hash, "entity": entity}

    @staticmethod
    def from_json_dict(json_dict: dict[str, Any]) -> ConfigEntity:
        """The configuration that ``to_json_dict`` returned as plain data.

        Parameters
        ----------
        json_dict : dict
            The data.

        Returns
        -------
        ConfigEntity
            The configuration.
        """
        entities = {}
        for name, kind, value in json_dict["entity"]:
            entities[name] = entity_from_json(name, kind, value)
        return ConfigEntity(int(json_dict["index"]), json_dict.get("code_hash"), entities)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfigEntity) and self.values() == other.values()

    def __hash__(self) -> int:
        return hash(tuple(sorted(self.values())))

    def __repr__(self) -> str:
        knobs = ",".join(f"{name}={_plain(e.value)}" for name, e in self._entity_map.items())
        return f"[{knobs}],{self.code_hash},{self.index}"


class FallbackConfigEntity(ConfigSpace):
    """The configuration of a template without records: explicitly set defaults."""

    def __init__(self):
        super().__init__()
        self.is_fallback = True

    def fallback_split(self, name: str, constraints: Sequence[int]) -> None:
        """Split as close as possible to the given sizes (-1: the remaining factor), starting with the innermost loop.

        Parameters
        ----------
        name : str
            The name of a split knob.
        constraints : sequence of int
            The maximum size of each loop, outermost first; one may be -1.

        Raises
        ------
        RuntimeError
            The knob is not a split, the number of sizes differs from the number of loops, or a size is not positive.
        """
        space = self.space_map.get(name)
        if not isinstance(space, SplitSpace):
            raise RuntimeError(f"fallback_split: '{name}' is not a split knob")
        if len(constraints) != space.num_output:
            raise RuntimeError(f"fallback_split: {name} has {space.num_output} sizes, got {len(constraints)}")
        if sum(c == -1 for c in constraints) > 1 or any(c == 0 or c < -1 for c in constraints):
            raise RuntimeError(f"fallback_split: sizes must be positive, and one may be -1; got {list(constraints)}")
        left, sizes = space.product, [1] * len(constraints)
        for i in reversed(range(len(constraints))):
            if constraints[i] == -1:
                continue
            sizes[i] = max(d for d in get_factors(left) if d <= constraints[i])
            left //= sizes[i]
        for i, wanted in enumerate(constraints):
            if wanted == -1:
                sizes[i] = left
        self._entity_map[name] = SplitEntity(sizes)

    def fallback_with_reference_log(self, ref_log: Sequence[Any]) -> None:
        """Use the configuration of the record with the most similar workload, with splits as close to it as the axes
        allow.

        Parameters
        ----------
        ref_log : sequence of pairs
            Inputs and results, such as the records of tuned shapes; if empty, nothing changes.

        Raises
        ------
        RuntimeError
            A split knob of the record is not a split here, or has another number of loops.
        """
        nearest, best = None, -1.0
        for inp, _ in ref_log:
            score = _similarity(getattr(inp.task, "workload", ()), getattr(self, "workload", ()))
            if score > best:
                nearest, best = inp.config, score
        if nearest is None:
            return
        for name, entity in nearest._entity_map.items():
            space = self.space_map.get(name)
            if space is None:
                self._entity_map[name] = entity
            elif isinstance(entity, SplitEntity):
                wanted = [-1, *entity.size[1:]]
                self.fallback_split(name, wanted)
            elif any(_plain(e.value) == _plain(entity.value) for e in space.entities):
                self._entity_map[name] = entity

    def __setitem__(self, name: str, entity: Entity) -> None:
        self._entity_map[name] = entity

    def __repr__(self) -> str:
        knobs = ",".join(f"{name}={_plain(e.value)}" for name, e in self._entity_map.items())
        return f"[{knobs}],{self.code_hash},None"


def _similarity(a: Any, b: Any) -> float:
    """Return how many integers two workloads have in common, by position; distant values count less."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return sum(_similarity(x, y) for x, y in zip(a, b))
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        low, high = sorted((abs(a) + 1, abs(b) + 1))
        return low / high
    return float(a == b)


__all__ = [
    "AnnotateEntity",
    "AnnotateSpace",
    "Axis",
    "ConfigEntity",
    "ConfigSpace",
    "Entity",
    "FallbackConfigEntity",
    "InstantiationError",
    "OtherOptionEntity",
    "OtherOptionSpace",
    "ReorderEntity",
    "ReorderSpace",
    "SplitEntity",
    "SplitSpace",
    "TransformSpace",
    "VirtualAxis",
    "get_factors",
    "get_pow2s",
]

"""Tuners that measure the configurations for which a cost model predicts a high speed."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

from ...error import not_defined
from ..measure.measure import MeasureInput, MeasureResult
from ..record import is_made_here
from .tuner import Tuner

# One in this many candidates is random, so that the model is also trained on candidates it predicts to be slow.
_RANDOM_SHARE = 20


class CostModel:
    """A model that predicts scores of indices (larger is faster)."""

    def fit(self, xs: Any, ys: Any, plan_size: int) -> None:
        raise not_defined(self, "fit")

    def fit_log(self, records: Any, plan_size: int, min_seed_records: int = 500) -> bool:
        raise not_defined(self, "fit_log")

    def predict(self, xs: Any, output_margin: bool = False) -> Any:
        raise not_defined(self, "predict")

    def load_basemodel(self, base_model: CostModel) -> None:
        raise not_defined(self, "load_basemodel")

    def spawn_base_model(self) -> CostModel:
        raise not_defined(self, "spawn_base_model")


class ModelOptimizer:
    """A search for indices with a high predicted score."""

    def find_maximums(self, model: CostModel, num: int, exclusive: Any) -> list[int]:
        raise not_defined(self, "find_maximums")


class ModelBasedTuner(Tuner):
    """A tuner that measures plans of ``plan_size`` configurations; after each plan the model is trained again and
    generates the next plan.

    The first plan contains the start points of the space (the analytic choice and its neighbours), then random points.
    With ``diversity_filter_ratio`` r, the plan is selected for diversity from r times as many good candidates.
    """

    def __init__(
        self,
        task: Any,
        cost_model: CostModel,
        model_optimizer: ModelOptimizer,
        plan_size: int,
        diversity_filter_ratio: float | None = None,
        start: bool = True,
    ):
        super().__init__(task)
        if diversity_filter_ratio is not None and diversity_filter_ratio < 1:
            raise AssertionError(f"diversity_filter_ratio must be at least 1, got {diversity_filter_ratio}")
        self.cost_model, self.model_optimizer = cost_model, model_optimizer
        self.plan_size, self.diversity_filter_ratio = plan_size, diversity_filter_ratio
        self.xs: list[int] = []
        self.ys: list[float] = []
        self.flops_max = 0.0
        self.train_ct = 0
        self.trials: list[int] = self._first_plan() if start else []

    def _first_plan(self) -> list[int]:
        plan = [i for i in self.space.start if self.space.is_index_valid(i)]
        found = dict.fromkeys(plan)
        for _ in range(self.plan_size // 2 if plan else 0):
            near = self.space.random_walk(random.choice(plan))
            if random.random() < 0.5:
                near = self.space.random_walk(near)
            found[near] = None
        return list(found)

    def has_next(self) -> bool:
        return len(self.visited) < len(self.space)

    def next_batch(self, batch_size: int) -> list[Any]:
        batch = []
        while len(batch) < batch_size and self.has_next():
            index = self._next_index()
            self.visited.add(index)
            batch.append(self.space.get(index))
        return batch

    def _next_index(self) -> int:
        if self.trials and (self.train_ct == 0 or random.randrange(_RANDOM_SHARE)):
            while self.trials:
                index = self.trials.pop(0)
                if index not in self.visited:
                    return index
        return self.space.get_rand_index(to_exclude=self.visited)

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        for inp, result in zip(inputs, results):
            flops = self.flops(result)
            self.visited.add(inp.config.index)
            self.xs.append(inp.config.index)
            self.ys.append(flops)
            self.flops_max = max(self.flops_max, flops)
        due = len(self.xs) >= self.plan_size * (self.train_ct + 1) or not self.trials and len(self.xs) >= 16
        if due and self.flops_max > 1e-6:
            self.cost_model.fit(self.xs, self.ys, self.plan_size)
            self._make_plan()
            self.train_ct = max(self.train_ct + 1, len(self.xs) // self.plan_size)

    def _make_plan(self) -> None:
        wanted = int(self.plan_size * (self.diversity_filter_ratio or 1))
        found = self.model_optimizer.find_maximums(self.cost_model, wanted, self.visited)
        if self.diversity_filter_ratio and len(found) > self.plan_size:
            scores = self.cost_model.predict(found)
            knobs = [self.space.point2knob(i) for i in found]
            found = [found[i] for i in submodular_pick(scores, knobs, self.plan_size)]
        self.trials = found

    def load_history(self, data_set: Iterable, min_seed_records: int = 500) -> None:
        """Load records. Those of this task count as measured. Those of other tasks of the template, or of other
        machines, train a base model; if there are none, the records of this task train it."""
        records = list(data_set)
        others = [pair for pair in records if pair[0].task.workload != self.task.workload
                  or not is_made_here(pair[0], self.task.target)]  # fmt: skip
        if records and not self.xs:
            base = self.cost_model.spawn_base_model()
            if base.fit_log(others or records, self.plan_size, min_seed_records):
                self.cost_model.load_basemodel(base)
                self._plan_from_base()
        super().load_history(records, min_seed_records)

    def _plan_from_base(self) -> None:
        found = self.model_optimizer.find_maximums(self.cost_model, self.plan_size, self.visited)
        self.trials = list(dict.fromkeys([*self.trials, *found]))

    def reset(self) -> None:
        super().reset()
        self.xs, self.ys, self.flops_max, self.train_ct, self.trials = [], [], 0.0, 0, self._first_plan()


def submodular_pick(scores: Any, knobs: Sequence[Sequence[int]], n_pick: int, knob_weight: float = 1.0) -> list[int]:
    """Return the indices of ``n_pick`` candidates: good ones first, but each choice of a knob is rewarded only once."""
    import numpy as np

    array = np.asarray(knobs)
    left = np.ones(len(array), dtype=bool)
    seen: list[set[int]] = [set() for _ in range(array.shape[1])]
    low, high = float(np.min(scores)), float(np.max(scores))
    worth = (np.asarray(scores) - low) / ((high - low) or 1.0)
    picked = []
    while len(picked) < min(n_pick, len(array)):
        new = np.zeros(len(array))
        for column, known in enumerate(seen):
            fresh = ~np.isin(array[:, column], list(known)) if known else np.ones(len(array), dtype=bool)
            new += fresh
        gain = np.where(left, worth + knob_weight * new / array.shape[1], -np.inf)
        best = int(np.argmax(gain))
        picked.append(best)
        left[best] = False
        for column, known in enumerate(seen):
            known.add(int(array[best, column]))
    return picked

"""A cost model of boosted trees (the package xgboost) over features of stages.

Each stage of a state is a row. What is learned is the logarithm of the speed as a share of the fastest of its task: how
far it is off an estimate from the instructions of the state (``estimate``), as a sum over its stages, by the squared
error weighted by the root of the speed. Errors of logarithms are ratios, so slow states are told apart too.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from ...error import TVMError
from ...tuning.boosting import load_xgboost
from .. import gpu_features, state_features
from ..compute_dag import ComputeDAG
from ..gpu_features import GPUFeatureExtractor
from ..measure import MAX_FLOAT, MeasureInput, MeasureResult
from ..measure_record import RecordReader
from ..search_task import SearchTask
from ..state_features import FeatureExtractor
from .cost_model import PythonBasedModel
from .weights import family_of, starting_weights

logger = logging.getLogger("auto_scheduler")

_PARAMETERS = {"max_depth": 4, "min_child_weight": 2, "eta": 0.05, "lambda": 1.0, "subsample": 0.8,
               "colsample_bytree": 0.4, "verbosity": 0, "tree_method": "hist", "disable_default_eval_metric": 1}
_ROUNDS = 200
# The share of the fastest that a state counts for at least: those that failed have it.
_LEAST_SPEED = 0.01
# The share by which measurements must have grown for another training where training is adaptive.
_ADAPTIVE_GROWTH = 0.2


def extractor_of(task: SearchTask) -> FeatureExtractor | GPUFeatureExtractor:
    """What makes rows of the states of a task: one for each stage, on GPUs one for each kernel."""
    features = task.target.features
    return GPUFeatureExtractor(task.compute_dag, features) if features.is_gpu else FeatureExtractor.of(task)


def estimate(task: SearchTask, rows: np.ndarray) -> np.ndarray:
    """The estimates of states from their rows, states × stages × features."""
    own = gpu_features if task.target.features.is_gpu else state_features
    return own.estimated_speed(rows)


def relative_speeds(tasks: Sequence[str], costs: Sequence[float]) -> np.ndarray:
    """The speed of each state relative to the fastest of its task."""
    fastest: dict[str, float] = {}
    for task, cost in zip(tasks, costs):
        fastest[task] = min(cost, fastest.get(task, MAX_FLOAT))
    speeds = [fastest[task] / cost if cost < MAX_FLOAT else 0.0 for task, cost in zip(tasks, costs)]
    return np.maximum(speeds, _LEAST_SPEED)


def shortfall(
    tasks: Sequence[str], speeds: np.ndarray, estimates: np.ndarray
) -> tuple[np.ndarray, dict[str, float]]:
    """What is to be added to estimates: for each state its difference from the mean of its task, which is learned, and
    this mean by task."""
    names, owner = np.unique(np.array(tasks), return_inverse=True)
    wanted = np.log2(speeds) - estimates
    means = np.bincount(owner, wanted) / np.bincount(owner)
    return wanted - means[owner], dict(zip(map(str, names), map(float, means)))


def stage_loss(owner: np.ndarray, wanted: np.ndarray, speeds: np.ndarray) -> Callable[[np.ndarray, Any], Any]:
    """The loss over rows whose sums by ``owner`` are to be ``wanted``. What is fast counts more: the best states are to
    be told apart."""
    weights = np.sqrt(speeds)

    def loss(scores: np.ndarray, _: Any) -> tuple[np.ndarray, np.ndarray]:
        error = np.bincount(owner, scores, len(wanted)) - wanted
        return (error * weights)[owner], weights[owner]

    return loss


class XGBModel(PythonBasedModel):
    """Learns from measurements of all tasks it is given; until ``num_warmup_sample`` of them it scores by the estimate
    from the instructions of states and the weights that come with this package for a family of machines (not where
    ``pretrained`` is off).

    Parameters
    ----------
    verbose_eval : int
        Whether the error of each training is logged; 0 for not.
    num_warmup_sample : int
        How many measurements there are at least when it is first trained.
    seed : int, optional
        The seed of chance.
    model_file : str, optional
        A model to start from.
    adaptive_training : bool
        Whether it is trained again only when there is a fifth more to learn from.
    pretrained : bool
        Whether it starts with the weights of this package.
    """

    scores_rows = True

    def __init__(
        self, verbose_eval: int = 25, num_warmup_sample: int = 100, seed: int | None = None,
        model_file: str | None = None, adaptive_training: bool = False, *, pretrained: bool = True,
    ):
        self._xgb = load_xgboost("XGBModel")
        self.verbose_eval, self.num_warmup_sample = verbose_eval, num_warmup_sample
        self.adaptive_training, self.pretrained = adaptive_training, pretrained
        self.seed = seed if seed is not None else 0
        self.bst: Any = None
        # By task, the mean of what estimates of its states lack of the logarithms of their relative speeds.
        self._means: dict[str, float] = {}
        # Rows of each measured state, what they score to start with, its task, its seconds, and its estimate.
        self._rows: list[np.ndarray] = []
        self._starts: list[np.ndarray] = []
        self._tasks: list[str] = []
        self._costs: list[float] = []
        self._estimates: list[float] = []
        self._trained_with = 0
        self._extractors: dict[str, FeatureExtractor | GPUFeatureExtractor] = {}
        if model_file:
            self.load(model_file)

    # -- features --------------------------------------------------------------------------------------------------

    def _features(self, task: SearchTask, states: Sequence[Any]) -> list[np.ndarray]:
        extractor = self._extractors.get(task.workload_key)
        # States are of the computation of their task: records of the same workload have another copy of it.
        if extractor is None or extractor.dag is not task.compute_dag:
            self._extractors[task.workload_key] = extractor = extractor_of(task)
        return [extractor.rows(getattr(state, "state_object", state)) for state in states]

    def _start(self, task: SearchTask, rows: np.ndarray) -> np.ndarray:
        """The scores of rows before anything was learned here."""
        weights = starting_weights(family_of(task.target)) if self.pretrained else None
        return np.zeros(len(rows), dtype="float32") if weights is None else weights.predict(rows)

    # -- learning --------------------------------------------------------------------------------------------------

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Take in measurements, and train where there are enough: ``num_warmup_sample`` of them, and with
        ``adaptive_training`` a fifth more than the last time.

        Parameters
        ----------
        inputs : list of MeasureInput
            The states that were measured, with their tasks.
        results : list of MeasureResult
            What was found of each; one that failed counts as very slow.
        """
        for inp, res in zip(inputs, results):
            (rows,) = self._features(inp.task, [inp.state])
            self._rows.append(rows)
            self._starts.append(self._start(inp.task, rows))
            self._tasks.append(inp.task.workload_key)
            self._costs.append(res.mean_cost)
            self._estimates.append(float(estimate(inp.task, rows[None])[0]))
        known = len(self._rows)
        if known < max(self.num_warmup_sample, 2) or known == self._trained_with:
            return
        if self.adaptive_training and known < (1 + _ADAPTIVE_GROWTH) * self._trained_with:
            return
        self._train()
        self._trained_with = known

    def _train(self) -> None:
        speeds = relative_speeds(self._tasks, self._costs)
        owner = np.repeat(np.arange(len(self._rows)), [len(rows) for rows in self._rows])
        wanted, self._means = shortfall(self._tasks, speeds, np.array(self._estimates))
        data = self._xgb.DMatrix(np.concatenate(self._rows), base_margin=np.concatenate(self._starts))
        parameters = {**_PARAMETERS, "seed": self.seed, "base_score": 0.0, "nthread": 1}
        self.bst = self._xgb.train(parameters, data, num_boost_round=_ROUNDS, obj=stage_loss(owner, wanted, speeds))
        self.bst.set_attr(pretrained=str(int(self.pretrained)), means=json.dumps(self._means))
        if self.verbose_eval:
            error = np.sqrt(np.mean((np.bincount(owner, self.bst.predict(data), len(speeds)) - wanted) ** 2))
            logger.debug("cost model: %d states, root of the mean square error %.4f", len(speeds), error)

    # -- scoring ---------------------------------------------------------------------------------------------------

    def predict(self, task: SearchTask, states: Sequence[Any]) -> list[float]:
        """The speed of each state relative to the fastest measured state of its task; of a task without measurements,
        numbers whose ratios alone have a meaning.

        Parameters
        ----------
        task : SearchTask
            The task of the states.
        states : list of State or StateObject
            The states.

        Returns
        -------
        list of float
        """
        groups = [rows[None] for rows in self._features(task, states)]
        return [float(scores[0]) for scores in self.predict_rows(task, groups)]

    def predict_rows(self, task: SearchTask, groups: Sequence[np.ndarray]) -> list[np.ndarray]:
        if not sum(len(group) for group in groups):
            return [np.zeros(0) for _ in groups]
        rows = np.concatenate([group.reshape(-1, group.shape[-1]) for group in groups])
        scores = self._start(task, rows)
        if self.bst is not None:
            scores = scores + self.bst.inplace_predict(rows)
        parts = np.split(scores, np.cumsum([g.shape[0] * g.shape[1] for g in groups])[:-1])
        mean = self._means.get(task.workload_key, 0.0)
        return [np.exp2(estimate(task, group) + mean + own.reshape(group.shape[:2]).sum(axis=1))
                for own, group in zip(parts, groups)]

    def predict_stages(self, task: SearchTask, states: Sequence[Any]) -> list[float]:
        """The scores of states; then, for each of them, how many stages it has and the part of its score that each is:
        the longer a stage is thought to take, the larger.

        Parameters
        ----------
        task : SearchTask
            The task of the states.
        states : list of State or StateObject
            The states.

        Returns
        -------
        list of float
            The scores, then the count and the parts of the first state, of the second, and so on.
        """
        found = self.predict(task, states)
        stages = [rows[:, None] for rows in self._features(task, states)]
        for score, own in zip(tuple(found), self.predict_rows(task, stages) if states else ()):
            times = 1 / np.maximum(own, 1e-9)
            found += [float(len(own)), *map(float, score * times / times.sum())]
        return found

    # -- files -----------------------------------------------------------------------------------------------------

    def update_from_file(self, file_name: str, n_lines: int | None = None) -> None:
        """Learn from the records of a file whose workloads are registered, at most ``n_lines`` of them.

        Parameters
        ----------
        file_name : str
            The record file.
        n_lines : int, optional
            How many of its records are read; all without it.

        Raises
        ------
        TVMError
            There is no such file, or a line of it is no record.
        """
        tasks: dict[str, ComputeDAG | None] = {}
        rows = []
        for inp, res in islice(RecordReader(file_name), n_lines):
            key = inp.task.workload_key
            if key not in tasks:
                try:
                    tasks[key] = inp.task.compute_dag
                except TVMError:
                    tasks[key] = None
            inp.task._dag = tasks[key]
            if tasks[key] is not None:
                rows.append((inp, res))
        if rows:
            self.update([inp for inp, _ in rows], [res for _, res in rows])

    def save(self, file_name: str) -> None:
        """Write the trees that were learned to a file.

        Parameters
        ----------
        file_name : str
            The file.

        Raises
        ------
        TVMError
            The model has not been trained or loaded.
        """
        if self.bst is None:
            raise TVMError("XGBModel: there is nothing to save before the model has learned")
        with open(file_name, "wb") as file:
            file.write(self.bst.save_raw("ubj"))

    def load(self, file_name: str) -> None:
        """Score by the trees that ``save`` wrote.

        Parameters
        ----------
        file_name : str
            The file.
        """
        with open(file_name, "rb") as file:
            content = bytearray(file.read())
        self.bst = self._xgb.Booster()
        self.bst.load_model(content)
        self.pretrained = self.bst.attr("pretrained") == "1"
        # Files of earlier versions have no means.
        self._means = json.loads(self.bst.attr("means") or "{}")


__all__ = ["XGBModel", "estimate", "extractor_of", "relative_speeds", "shortfall", "stage_loss"]

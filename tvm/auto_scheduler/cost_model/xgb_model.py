"""A cost model of boosted trees (the package xgboost) over features of stages.

Each stage of a state is a row. The model predicts the logarithm of the speed relative to the fastest state of the task,
as the deviation from an estimate based on the instructions of the state (``estimate``). The prediction is a sum over
the stages; the loss is the squared error weighted by the square root of the speed. Errors of logarithms are ratios, so
the model also distinguishes slow states.
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

_PARAMETERS = {
    "max_depth": 4,
    "min_child_weight": 2,
    "eta": 0.05,
    "lambda": 1.0,
    "subsample": 0.8,
    "colsample_bytree": 0.4,
    "verbosity": 0,
    "tree_method": "hist",
    "disable_default_eval_metric": 1,
}
_ROUNDS = 200
# The minimum relative speed of a state in training; failed states get this value.
_LEAST_SPEED = 0.01
# With adaptive training, the relative growth of the number of measurements after which the model is trained again.
_ADAPTIVE_GROWTH = 0.2


def extractor_of(task: SearchTask) -> FeatureExtractor | GPUFeatureExtractor:
    """Return the feature extractor of a task, with one row per stage, or per kernel on GPUs."""
    features = task.target.features
    return GPUFeatureExtractor(task.compute_dag, features) if features.is_gpu else FeatureExtractor.of(task)


def estimate(task: SearchTask, rows: np.ndarray) -> np.ndarray:
    """Return the estimates of states from their rows, states × stages × features."""
    own = gpu_features if task.target.features.is_gpu else state_features
    return own.estimated_speed(rows)


def relative_speeds(tasks: Sequence[str], costs: Sequence[float]) -> np.ndarray:
    """Return the speed of each state relative to the fastest of its task."""
    fastest: dict[str, float] = {}
    for task, cost in zip(tasks, costs):
        fastest[task] = min(cost, fastest.get(task, MAX_FLOAT))
    speeds = [fastest[task] / cost if cost < MAX_FLOAT else 0.0 for task, cost in zip(tasks, costs)]
    return np.maximum(speeds, _LEAST_SPEED)


def shortfall(tasks: Sequence[str], speeds: np.ndarray, estimates: np.ndarray) -> tuple[np.ndarray, dict[str, float]]:
    """Return the training target: for each state, the deviation of its logarithmic speed from the estimate minus the
    mean of its task, and this mean by task."""
    names, owner = np.unique(np.array(tasks), return_inverse=True)
    wanted = np.log2(speeds) - estimates
    means = np.bincount(owner, wanted) / np.bincount(owner)
    return wanted - means[owner], dict(zip(map(str, names), map(float, means)))


def stage_loss(owner: np.ndarray, wanted: np.ndarray, speeds: np.ndarray) -> Callable[[np.ndarray, Any], Any]:
    """Return the loss over rows whose sums by ``owner`` should equal ``wanted``. Fast states have a larger weight,
    because the model must rank the best states."""
    weights = np.sqrt(speeds)

    def loss(scores: np.ndarray, _: Any) -> tuple[np.ndarray, np.ndarray]:
        error = np.bincount(owner, scores, len(wanted)) - wanted
        return (error * weights)[owner], weights[owner]

    return loss


class XGBModel(PythonBasedModel):
    """A cost model of boosted trees that learns from the measurements of all tasks. Before ``num_warmup_sample``
    measurements it scores by an instruction-based estimate and the pretrained weights of this package for a family of
    machines (unless ``pretrained`` is false).

    Parameters
    ----------
    verbose_eval : int
        Whether the error of each training is logged; 0 disables it.
    num_warmup_sample : int
        The number of measurements before the first training.
    seed : int, optional
        The random seed.
    model_file : str, optional
        The file of a model to start from.
    adaptive_training : bool
        Whether the model is trained again only after the number of measurements has grown by a fifth.
    pretrained : bool
        Whether to start with the pretrained weights of this package.
    """

    scores_rows = True

    def __init__(
        self,
        verbose_eval: int = 25,
        num_warmup_sample: int = 100,
        seed: int | None = None,
        model_file: str | None = None,
        adaptive_training: bool = False,
        *,
        pretrained: bool = True,
    ):
        self._xgb = load_xgboost("XGBModel")
        self.verbose_eval, self.num_warmup_sample = verbose_eval, num_warmup_sample
        self.adaptive_training, self.pretrained = adaptive_training, pretrained
        self.seed = seed if seed is not None else 0
        self.bst: Any = None
        # By task, the mean deviation of the logarithmic relative speeds from the estimates.
        self._means: dict[str, float] = {}
        # For each measured state: its rows, its initial score, its task, its seconds, and its estimate.
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
        # A state must belong to the computation object of its task: records of the same workload have another copy.
        if extractor is None or extractor.dag is not task.compute_dag:
            self._extractors[task.workload_key] = extractor = extractor_of(task)
        return [extractor.rows(getattr(state, "state_object", state)) for state in states]

    def _start(self, task: SearchTask, rows: np.ndarray) -> np.ndarray:
        """Return the scores of rows before the first training."""
        weights = starting_weights(family_of(task.target)) if self.pretrained else None
        return np.zeros(len(rows), dtype="float32") if weights is None else weights.predict(rows)

    # -- learning --------------------------------------------------------------------------------------------------

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Add measurements, and train if there are enough: ``num_warmup_sample`` of them, and with
        ``adaptive_training`` a fifth more than at the last training.

        Parameters
        ----------
        inputs : list of MeasureInput
            The measured states with their tasks.
        results : list of MeasureResult
            The result of each measurement; a failed state counts as very slow.
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
            logger.debug("cost model: %d states, root mean square error %.4f", len(speeds), error)

    # -- scoring ---------------------------------------------------------------------------------------------------

    def predict(self, task: SearchTask, states: Sequence[Any]) -> list[float]:
        """The speed of each state relative to the fastest measured state of its task. For a task without measurements,
        only the ratios of the numbers are meaningful.

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
        return [
            np.exp2(estimate(task, group) + mean + own.reshape(group.shape[:2]).sum(axis=1))
            for own, group in zip(parts, groups)
        ]

    def predict_stages(self, task: SearchTask, states: Sequence[Any]) -> list[float]:
        """The scores of states; then, for each state, its number of stages and the contribution of each stage to the
        score: a larger contribution means a longer predicted time.

        Parameters
        ----------
        task : SearchTask
            The task of the states.
        states : list of State or StateObject
            The states.

        Returns
        -------
        list of float
            The scores, then the number of stages and the contributions of the first state, of the second, and so on.
        """
        found = self.predict(task, states)
        stages = [rows[:, None] for rows in self._features(task, states)]
        for score, own in zip(tuple(found), self.predict_rows(task, stages) if states else ()):
            times = 1 / np.maximum(own, 1e-9)
            found += [float(len(own)), *map(float, score * times / times.sum())]
        return found

    # -- files -----------------------------------------------------------------------------------------------------

    def update_from_file(self, file_name: str, n_lines: int | None = None) -> None:
        """Learn from at most ``n_lines`` records of a file whose workloads are registered.

        Parameters
        ----------
        file_name : str
            The record file.
        n_lines : int, optional
            The maximum number of records; all by default.

        Raises
        ------
        TVMError
            The file does not exist, or a line is not a record.
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
        """Write the trained trees to a file.

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
            raise TVMError("XGBModel: the model is not trained; call update before save")
        with open(file_name, "wb") as file:
            file.write(self.bst.save_raw("ubj"))

    def load(self, file_name: str) -> None:
        """Load the trees that ``save`` wrote.

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
        # Files of earlier versions do not contain the means.
        self._means = json.loads(self.bst.attr("means") or "{}")


__all__ = ["XGBModel", "estimate", "extractor_of", "relative_speeds", "shortfall", "stage_loss"]

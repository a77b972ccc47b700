"""A cost model of boosted trees (the package xgboost) over features of knobs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...error import TVMError
from ...tuning.boosting import load_xgboost
from ..feature import SpaceFeatures
from ..utils import logger
from .model_based_tuner import CostModel

# Measurements have a noise of about ten percent. Many small steps of shallow trees, each on a subset of the rows and
# columns, average it out; deeper trees and larger steps would learn it.
_COMMON = {
    "max_depth": 4,
    "min_child_weight": 3,
    "subsample": 0.6,
    "colsample_bytree": 0.5,
    "eta": 0.05,
    "lambda": 1.0,
    "verbosity": 0,
    "tree_method": "hist",
    "seed": 0,
}
_LOSSES: dict[str, dict[str, Any]] = {
    "reg": {"objective": "reg:squarederror"},
    "rank": {"objective": "rank:pairwise", "lambdarank_pair_method": "mean", "lambdarank_num_pair_per_sample": 8},
    "rank-binary": {
        "objective": "rank:pairwise",
        "lambdarank_pair_method": "mean",
        "lambdarank_num_pair_per_sample": 8,
    },
}
_ROUNDS = 150


class XGBoostCostModel(CostModel):
    """A cost model of boosted trees. ``feature_type`` is itervar, knob or curve; ``loss_type`` is reg, rank or
    rank-binary."""

    def __init__(
        self,
        task: Any,
        feature_type: str,
        loss_type: str = "reg",
        num_threads: int | None = None,
        log_interval: int = 25,
        upper_model: XGBoostCostModel | None = None,
    ):
        if loss_type not in _LOSSES:
            raise RuntimeError(f"unknown loss type '{loss_type}'; use one of {', '.join(_LOSSES)}")
        self.task, self.space = task, task.config_space
        self.fea_type, self.loss_type = feature_type, loss_type
        self.num_threads, self.log_interval = num_threads, log_interval
        self.features = upper_model.features if upper_model is not None else SpaceFeatures(self.space, feature_type)
        self.base_model: XGBoostCostModel | None = None
        self.bst: Any = None
        self._xgb = load_xgboost("XGBTuner")

    def _params(self) -> dict[str, Any]:
        # One thread processes a few hundred rows faster than several threads that synchronize.
        return {**_COMMON, **_LOSSES[self.loss_type], "nthread": self.num_threads or 1}

    def fit(self, xs: Any, ys: Any, plan_size: int) -> None:
        """Train on indices and their measured speeds."""
        indexes = np.asarray(xs, dtype=np.int64)
        self._train(self.features.of_indexes(indexes), np.asarray(ys, dtype="float64"))

    def _train(self, x: np.ndarray, y: np.ndarray, groups: list[int] | None = None) -> None:
        top = float(y.max(initial=0.0)) or 1.0
        labels = y / top if groups is None else y
        if self.loss_type == "rank-binary":
            labels = (labels > np.quantile(labels, 0.8)).astype("float64")
        data = self._xgb.DMatrix(x, label=labels)
        if self.loss_type != "reg":
            data.set_group(groups or [len(labels)])
        if self.base_model is not None:
            data.set_base_margin(self.base_model.margin(x))
        try:
            self.bst = self._xgb.train(self._params(), data, num_boost_round=_ROUNDS)
        except self._xgb.core.XGBoostError as error:
            raise TVMError(f"cannot fit the cost model: {error}") from None

    def fit_log(self, records: Any, plan_size: int, min_seed_records: int = 500) -> bool:
        """Train on records of this template, including other shapes; return False if there are too few."""
        groups: dict[Any, list[tuple[Any, float]]] = {}
        for inp, result in records:
            if inp.task.name != self.task.name:
                continue
            cost = sum(result.costs) / len(result.costs) if result.error_no == 0 else None
            groups.setdefault(inp.task.workload, []).append((inp.config, 1.0 / cost if cost else 0.0))
        count = sum(len(rows) for rows in groups.values())
        if count < max(min_seed_records, 1):
            logger.debug("%d records of %s are too few to start a model from", count, self.task.name)
            return False
        configs, labels = [], []
        for rows in groups.values():
            top = max(y for _, y in rows) or 1.0
            configs += [config for config, _ in rows]
            labels += [y / top for _, y in rows]
        self._train(self.features.of_configs(configs), np.array(labels), [len(r) for r in groups.values()])
        return True

    def margin(self, x: np.ndarray) -> np.ndarray:
        """Return the raw scores of feature rows."""
        assert self.bst is not None, "the model is fitted first"
        if self.base_model is None:
            return self.bst.inplace_predict(x, predict_type="margin", validate_features=False)
        data = self._xgb.DMatrix(x)
        data.set_base_margin(self.base_model.margin(x))
        return self.bst.predict(data, output_margin=True)

    def predict(self, xs: Any, output_margin: bool = False) -> np.ndarray:
        """Return the scores of indices; a larger score is faster."""
        x = self.features.of_indexes(np.asarray(xs, dtype=np.int64))
        if self.bst is None:
            if self.base_model is None:
                raise TVMError("the cost model is not trained; fit it first")
            return self.base_model.margin(x)
        return self.margin(x)

    def load_basemodel(self, base_model: CostModel) -> None:
        """Start from a model of other shapes; this model is trained on the residuals."""
        assert isinstance(base_model, XGBoostCostModel)
        self.base_model = base_model

    def spawn_base_model(self) -> XGBoostCostModel:
        return XGBoostCostModel(self.task, self.fea_type, self.loss_type, self.num_threads, self.log_interval, self)

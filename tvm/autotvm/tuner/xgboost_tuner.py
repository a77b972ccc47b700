"""A tuner with a cost model of boosted trees."""

from __future__ import annotations

from typing import Any

from .model_based_tuner import ModelBasedTuner, ModelOptimizer
from .sa_model_optimizer import SimulatedAnnealingOptimizer
from .xgboost_cost_model import XGBoostCostModel


class XGBTuner(ModelBasedTuner):
    """A tuner that uses boosted trees and simulated annealing.

    ``feature_type`` is itervar, knob or curve; ``loss_type`` is reg, rank or rank-binary. ``start=False`` omits the
    analytic choice from the first plan.
    """

    def __init__(
        self,
        task: Any,
        plan_size: int = 64,
        feature_type: str = "itervar",
        loss_type: str = "reg",
        num_threads: int | None = None,
        optimizer: str | ModelOptimizer = "sa",
        diversity_filter_ratio: float | None = None,
        log_interval: int = 50,
        *,
        start: bool = True,
    ):
        model = XGBoostCostModel(task, feature_type, loss_type, num_threads, log_interval // 2)
        if optimizer == "sa":
            optimizer = SimulatedAnnealingOptimizer(task, n_iter=250, early_stop=40, log_interval=log_interval)
        elif not isinstance(optimizer, ModelOptimizer):
            raise ValueError(f"XGBTuner: unknown optimizer '{optimizer}'; use 'sa' or a ModelOptimizer")
        super().__init__(task, model, optimizer, plan_size, diversity_filter_ratio, start)

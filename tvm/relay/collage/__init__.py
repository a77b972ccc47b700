"""The choice of partitions by measurement (Collage)."""

from .choice import Choice, keep_faster_partitions
from .collage import (
    MEASURE_NUMBER,
    MEASURE_REPEAT,
    WARMUP_MIN_REPEAT_MS,
    CostEstimator,
    CustomCostEstimator,
    MockCostEstimator,
    arg_for,
    estimate_seconds,
    vm_estimate_seconds,
)

__all__ = [
    "MEASURE_NUMBER",
    "MEASURE_REPEAT",
    "WARMUP_MIN_REPEAT_MS",
    "Choice",
    "CostEstimator",
    "CustomCostEstimator",
    "MockCostEstimator",
    "arg_for",
    "estimate_seconds",
    "keep_faster_partitions",
    "vm_estimate_seconds",
]

"""Boosted trees as arrays: evaluated with NumPy alone, stored as JSON.

The trees of a forest are full binary trees of one depth. The splits of a tree are numbered level by level from the
root: at split n, evaluation continues at split 2n + 1 if the feature is less than the threshold, and at 2n + 2
otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...error import TVMError


class Forest:
    """A forest. ``features`` and ``thresholds`` are arrays of trees × splits, ``leaves`` of trees × leaves; ``names``
    are the names of the features."""

    def __init__(self, features: Any, thresholds: Any, leaves: Any, names: Sequence[str]):
        self.features, self.names = np.asarray(features, dtype="int64"), tuple(names)
        self.thresholds, self.leaves = np.asarray(thresholds, dtype="float32"), np.asarray(leaves, dtype="float32")
        splits, leaf_count = self.features.shape[1], self.leaves.shape[1]
        if self.thresholds.shape != self.features.shape or leaf_count != splits + 1 or leaf_count & splits:
            raise TVMError(
                f"invalid forest: trees with {splits} splits and {leaf_count} leaves are not full binary trees"
            )
        if self.features.size and not 0 <= self.features.min() <= self.features.max() < len(self.names):
            raise TVMError(f"invalid forest: a feature index is outside the {len(self.names)} features")

    def predict(self, rows: np.ndarray) -> np.ndarray:
        """Return the score of each row."""
        splits, total = self.features.shape[1], np.zeros(len(rows), dtype="float32")
        columns = np.ascontiguousarray(rows.T)
        every = np.arange(len(rows))
        for features, thresholds, leaves in zip(self.features, self.thresholds, self.leaves):
            at = np.zeros(len(rows), dtype="int64")
            for _ in range(splits.bit_length()):
                at = 2 * at + 1 + (columns[features[at], every] >= thresholds[at])
            total += leaves[at - splits]
        return total

    @staticmethod
    def of_booster(booster: Any, depth: int, names: Sequence[str]) -> Forest:
        """Convert an xgboost model whose trees have at most the depth ``depth``."""
        trees = [json.loads(text) for text in booster.get_dump(dump_format="json")]
        size = (1 << depth) - 1
        features, thresholds = np.zeros((len(trees), size), dtype="int64"), np.zeros((len(trees), size))
        leaves = np.zeros((len(trees), size + 1))
        for number, tree in enumerate(trees):
            todo = [(tree, 0)]
            while todo:
                node, at = todo.pop()
                if at >= size:
                    leaves[number, at - size] = node["leaf"]
                elif "leaf" in node:
                    # A leaf above the last level is copied to both subtrees.
                    todo += [(node, 2 * at + 1), (node, 2 * at + 2)]
                else:
                    features[number, at] = int(node["split"].lstrip("f"))
                    thresholds[number, at] = node["split_condition"]
                    below = {child["nodeid"]: child for child in node["children"]}
                    todo += [(below[node["yes"]], 2 * at + 1), (below[node["no"]], 2 * at + 2)]
        return Forest(features, thresholds, leaves, names)

    def to_json(self) -> str:
        def rounded(values: np.ndarray, digits: int) -> list[list[float]]:
            return [[float(f"{value:.{digits}g}") for value in row] for row in values]

        # Thresholds are values of features and must not be rounded much: otherwise equal values would take the other
        # branch.
        content = {
            "names": self.names,
            "features": self.features.tolist(),
            "thresholds": rounded(self.thresholds, 9),
            "leaves": rounded(self.leaves, 5),
        }
        return json.dumps(content, separators=(",", ":")) + "\n"

    @staticmethod
    def from_json(text: str) -> Forest:
        content = json.loads(text)
        return Forest(content["features"], content["thresholds"], content["leaves"], content["names"])


__all__ = ["Forest"]

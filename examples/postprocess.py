"""Print the five most likely labels of predictions.npz.

python postprocess.py [PREDICTIONS [LABELS]]
"""

from __future__ import annotations

import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.realpath(__file__))
predictions = sys.argv[1] if len(sys.argv) > 1 else "predictions.npz"
labels = sys.argv[2] if len(sys.argv) > 2 else os.path.join(os.path.dirname(HERE), "demo", "labels.txt")

if not os.path.exists(labels):
    sys.exit(f"there are no labels {labels}; name them: python postprocess.py {predictions} LABELS")
with open(labels, encoding="utf-8") as file:
    names = [line.rstrip() for line in file]

if not os.path.exists(predictions):
    sys.exit(
        f"{predictions} is not there; write it with: tvmc run --inputs imagenet_cat.npz --output {predictions} ..."
    )
with np.load(predictions) as data:
    scores = np.squeeze(data["output_0"]).astype("float64")
scores = np.exp(scores - scores.max())
scores /= scores.sum()
for place in np.argsort(scores)[::-1][:5]:
    print(f"class='{names[place]}' with probability={scores[place]:f}")

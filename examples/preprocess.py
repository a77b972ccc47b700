"""Convert a photo to the input of an ImageNet model: imagenet_cat.npz with the array `data`.

python preprocess.py [PHOTO]
"""

from __future__ import annotations

import os
import sys

import numpy as np
from PIL import Image

HERE = os.path.dirname(os.path.realpath(__file__))
PHOTO = os.path.join(os.path.dirname(HERE), "demo", "chelsea.png")

path = sys.argv[1] if len(sys.argv) > 1 else PHOTO
if not os.path.exists(path):
    sys.exit(f"there is no photo {path}; name one: python preprocess.py PHOTO")

# The image size of the model.
photo = Image.open(path).convert("RGB").resize((224, 224))
pixels = np.asarray(photo).astype("float32")

# The model expects NCHW.
pixels = np.transpose(pixels, (2, 0, 1))

# Mean and standard deviation of ImageNet.
mean = np.array([0.485, 0.456, 0.406], "float32").reshape(3, 1, 1)
std = np.array([0.229, 0.224, 0.225], "float32").reshape(3, 1, 1)
pixels = (pixels / 255 - mean) / std

np.savez("imagenet_cat", data=np.expand_dims(pixels, axis=0))
print("imagenet_cat.npz contains data of shape (1, 3, 224, 224)")

"""Known networks with drawn weights against the outputs of OpenCV (opencv.npz, written by tools/opencv_networks.py)."""

from __future__ import annotations

from pathlib import Path

from caffe_networks import NETWORKS, drawn
from opencv_comparison import check


def test_a_network_gives_what_opencv_gave(rng):
    check("caffe", NETWORKS, drawn, Path(__file__).with_name("opencv.npz"), rng)

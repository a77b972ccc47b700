"""What `from tvm import relay` alone makes reachable."""

import subprocess
import sys


def test_importers_are_reached_through_relay_without_an_import_of_their_own():
    code = "from tvm import relay; print(relay.frontend.from_onnx.__name__); import sys; print('onnx' in sys.modules)"
    got = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert got.stdout.split() == ["from_onnx", "False"]

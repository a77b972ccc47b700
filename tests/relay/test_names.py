"""What `from tvm import relay` alone makes reachable."""

import subprocess
import sys

import pytest


@pytest.mark.slow("starts an interpreter that loads importers")
def test_importers_are_reached_through_relay_without_an_import_of_their_own():
    code = "from tvm import relay; print(relay.frontend.from_onnx.__name__); import sys; print('onnx' in sys.modules)"
    got = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert got.stdout.split() == ["from_onnx", "False"]


@pytest.mark.slow("starts an interpreter that loads importers")
def test_modules_that_scripts_reach_through_others_are_there():
    code = (
        "from tvm import relay\n"
        "assert relay.frontend.common.infer_type and relay.contrib is relay.op.contrib\n"
        "assert relay.data_dep_optimization.simplify_fc_transpose\n"
        "kinds = relay.transform.mixed_precision\n"
        "assert [getattr(kinds, f'MIXED_PRECISION_{n}') for n in ('ALWAYS', 'FOLLOW', 'NEVER')] == [0, 1, 2]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

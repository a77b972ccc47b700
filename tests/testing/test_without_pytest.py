"""``tvm.testing`` in a program: pytest is needed only where a test is marked or a fixture made."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["pytest"] = None  # not installed
import numpy, tvm, tvm.testing
tvm.testing.assert_allclose(tvm.nd.array(numpy.ones(3, "float32")), numpy.ones(3), rtol=1e-6)
assert tvm.testing.device_enabled("llvm") and "llvm" in [target for target, _ in tvm.testing.enabled_targets()]
for use in (lambda: tvm.testing.parameter(1, 2), lambda: tvm.testing.requires_llvm(print),
            lambda: tvm.testing.skip_if_wheel_test(print)):
    try:
        use()
    except ImportError as error:
        print(error)
"""


def test_comparisons_and_targets_work_without_pytest_and_marks_ask_for_it():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("pip install pytest") == 3, done.stdout
